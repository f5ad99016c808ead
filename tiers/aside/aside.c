/* tiers/aside/aside.c - caps, values and victims of records that stand aside. */
#include "tiers/aside/aside.h"

#include "model/state.h"
#include "tiers/value.h"

#include <string.h>

enum { ASIDE_PROTECTED = 32 };          /* what restores brought for their turns; a match     */

static struct {
    struct budget_graph *graph;
    u32 node[HOLD_COUNT];
    u64 half_life_us, now_us, entry_cap_bytes;
    struct { u32 record; u64 number; } protected[ASIDE_PROTECTED];  /* one may stand twice     */
    u32 protected_count;
    struct aside_counts counts;
} own;

static const enum holder aside_order[] = { HOLD_STASH, HOLD_PIN, HOLD_PARK, HOLD_STORE };

/* Frees the records named by a gate.  One of them may have gone with another. */
static u64 yield(void *owner, const u32 *records, u32 count)
{
    u32 blocks = state_blocks_arena(), sections = state_sections_arena();
    u64 before = arena_row(blocks)->used_bytes + arena_row(sections)->used_bytes;
    (void)owner;
    for (u32 i = 0; i < count; i++) {
        ASSERT(!aside_protected(records[i]) && record_at(records[i])->slot == NONE);
        own.counts.yielded[record_at(records[i])->class]++;
        record_drop(records[i]);
    }
    return before - arena_row(blocks)->used_bytes - arena_row(sections)->used_bytes;
}

enum err aside_declare(struct budget_graph *g, const struct aside_caps *caps)
{
    const struct { const char *name, *parent; enum holder holder; enum budget_class class;
                   u64 cap_bytes; } rows[] = {
        { "stash", "aside", HOLD_STASH, CLASS_ASIDE, caps->stash_bytes },
        { "pin", "aside", HOLD_PIN, CLASS_ASIDE, caps->pin_bytes },
        { "park", "aside", HOLD_PARK, CLASS_ASIDE, caps->park_bytes },
        { "store", "caches", HOLD_STORE, CLASS_CACHE, caps->store_bytes },
        { "staging", "caches", HOLD_WRITING, CLASS_CACHE, UINT64_MAX },
    };
    static const struct { const char *taker, *victim; u32 order; } edges[] = {
        { "live", "store", 1 }, { "live", "park", 4 }, { "live", "pin", 5 },
        { "stash", "store", 1 }, { "park", "store", 1 }, { "pin", "store", 1 },
        { "anchors", "store", 1 },
    };
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "aside", .parent = "caches", .pool = POOL_BOARD, .node_class = CLASS_ASIDE,
        .used = USED_CHILDREN, .cap_bytes = UINT64_MAX }, NULL));
    for (u32 i = 0; i < COUNT_OF(rows); i++)
        TRY(budget_graph_declare(g, &(struct budget_decl){
            .name = rows[i].name, .parent = rows[i].parent, .pool = POOL_BOARD,
            .node_class = rows[i].class, .used = USED_HOLDER, .holder = rows[i].holder,
            .cap_bytes = rows[i].cap_bytes,
            .yield = rows[i].holder == HOLD_STASH || rows[i].holder == HOLD_WRITING ? NULL : yield,
        }, NULL));
    for (u32 i = 0; i < COUNT_OF(edges); i++)
        TRY(budget_graph_edge(g, edges[i].taker, edges[i].victim, edges[i].order));
    return OK;
}

void aside_open(struct budget_graph *g, u64 half_life_us, u64 store_entry_bytes)
{
    static const struct { enum holder class; const char *name; } names[] = {
        { HOLD_LIVE, "kv" }, { HOLD_ANCHOR, "anchors" }, { HOLD_STASH, "stash" },
        { HOLD_PIN, "pin" }, { HOLD_PARK, "park" }, { HOLD_STORE, "store" },
    };
    memset(&own, 0, sizeof own);
    own.graph = g;
    own.half_life_us = half_life_us;
    own.entry_cap_bytes = store_entry_bytes;
    for (u32 c = 0; c < HOLD_COUNT; c++) own.node[c] = NONE;
    for (u32 i = 0; i < COUNT_OF(names); i++)
        own.node[names[i].class] = budget_graph_find(g, names[i].name);
}

void aside_now(u64 now_us) { own.now_us = MAX(own.now_us, now_us); }
struct aside_counts *aside_counts(void) { return &own.counts; }

/* ------------------------------------------------------------------ nodes */

u32 aside_node(enum holder class) { return own.node[class]; }

u64 aside_cap(enum holder class)
{
    return own.node[class] == NONE ? 0 : own.graph->node[own.node[class]].cap_bytes;
}

u64 aside_used(enum holder class)
{
    return arena_row(state_blocks_arena())->held.bytes[class] +
           arena_row(state_sections_arena())->held.bytes[class];
}

u64 aside_entry_cap(void) { return MIN(own.entry_cap_bytes, aside_cap(HOLD_STORE)); }

static bool is_under(u32 node, u32 top)
{
    while (node != NONE && node != top) node = own.graph->node[node].parent;
    return node == top;
}

/* Bytes that the leaves under `top` use; a reserve counts as used by its node, but not for `self`
 * itself. */
static u64 taken(u32 top, u32 self)
{
    u64 bytes = 0;
    for (u32 i = 0; i < own.graph->node_count; i++) {
        const struct budget_node *n = &own.graph->node[i];
        if (n->used_kind == USED_CHILDREN || !is_under(i, top)) continue;
        u64 used = n->used_kind == USED_HOLDER ? aside_used((enum holder)n->holder)
                                               : n->used_bytes;
        bytes += i == self ? used : MAX(used, n->reserve_bytes);
    }
    return bytes;
}

bool aside_room(enum holder class, u64 bytes)
{
    u32 self = own.node[class];
    if (self == NONE) return false;
    for (u32 n = self; n != NONE && own.graph->node[n].parent != NONE;
         n = own.graph->node[n].parent) {
        u64 cap = own.graph->node[n].cap_bytes, used = taken(n, self);
        if (used > cap || bytes > cap - used) return false;
    }
    return true;
}

/* ------------------------------------------------------------------ value */

f64 aside_value(u32 record)
{
    const struct record_row *r = record_at(record);
    u64 rows = record_rows(record), shared = record_shared_rows(record);
    u64 idle = own.now_us > r->used_us ? own.now_us - r->used_us : 0;
    return value_of(r->hits, MAX(rows - shared, 1u), idle, own.half_life_us, 1);
}

f64 aside_density(u32 record)
{
    u64 freed = record_freed_bytes(record, 0) + record_anchor_bytes(record);
    u64 granule = space_ops(arena_row(state_blocks_arena())->space)->granule_bytes;
    return aside_value(record) / (f64)MAX(freed, granule);
}

/* Its rank is taken by those behind it. */
static void forget(u32 at)
{
    memmove(&own.protected[at], &own.protected[at + 1],
            (--own.protected_count - at) * sizeof own.protected[0]);
}

void aside_protect(u32 record)
{
    if (record == NONE) return;
    for (u32 i = own.protected_count; i-- > 0;)         /* cleared meanwhile                  */
        if (!record_is(own.protected[i].record, own.protected[i].number)) forget(i);
    if (own.protected_count == ASIDE_PROTECTED) forget(0);
    own.protected[own.protected_count].record = record;
    own.protected[own.protected_count++].number = record_at(record)->number;
}

void aside_unprotect(u32 record, u64 number)
{
    for (u32 i = own.protected_count; i-- > 0;) {
        if (own.protected[i].record != record || own.protected[i].number != number) continue;
        forget(i);
        return;
    }
}

bool aside_protected(u32 record)
{
    for (u32 i = 0; i < own.protected_count; i++)
        if (own.protected[i].record == record &&
            record_is(record, own.protected[i].number)) return true;
    return false;
}

/* ------------------------------------------------------------------ settling */

/* Least valuable record aside of one class, or of any (HOLD_COUNT); NONE when there is none. */
static u32 least(enum holder class)
{
    u32 found = NONE;
    f64 worth = 0;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        const struct record_row *row = record_at(r);
        if (row->slot != NONE || aside_protected(r)) continue;
        if (class != HOLD_COUNT && row->class != class) continue;
        f64 here = aside_density(r);
        if (found != NONE && here >= worth) continue;
        found = r;
        worth = here;
    }
    return found;
}

static bool drop_least(enum holder class)
{
    u32 record = least(class);
    if (record == NONE) return false;
    own.counts.dropped[record_at(record)->class]++;
    record_drop(record);
    return true;
}

bool aside_evict(void) { return drop_least(HOLD_COUNT); }

/* What protected records hold beyond a cap stays until they are let go. */
static void mark_over(void)
{
    budget_graph_refresh(own.graph);
    for (u32 i = 0; i < COUNT_OF(aside_order); i++)
        for (u32 n = own.node[aside_order[i]]; n != NONE; n = own.graph->node[n].parent)
            if (own.graph->node[n].used_bytes > own.graph->node[n].cap_bytes)
                own.graph->node[n].over = true;
}

/* What is charged to a class that may hold nothing more goes, least valuable first; a record whose
 * bytes others pay for frees nothing, so more than one may go.  Ends: each round drops one. */
void aside_settle(void)
{
    for (u32 i = 0; i < COUNT_OF(aside_order); i++)
        while (aside_used(aside_order[i]) > aside_cap(aside_order[i]))
            if (!drop_least(aside_order[i])) break;
    for (u32 i = COUNT_OF(aside_order); i-- > 0;)
        while (!aside_room(aside_order[i], 0) &&
               aside_used(aside_order[i]) <= aside_cap(aside_order[i]))
            if (!drop_least(aside_order[i])) break;
    if (own.protected_count > 0) mark_over();
}

/* ------------------------------------------------------------------ the budget's view */

static void add_units(u32 record, struct budget_shares *shares)
{
    u32 count, blocks = state_blocks_arena(), sections = state_sections_arena();
    u64 rows, block_bytes = arena_row(blocks)->unit_bytes;
    u64 unit_bytes = arena_row(sections)->unit_bytes;
    const block_id *list = record_blocks(record, &count, &rows);
    struct anchor_list anchors = record_anchors(record);
    for (u32 i = 0; i < count; i++)
        budget_shares_add(shares, blocks, list[i].index, block_bytes,
                          &arena_blocks_row(blocks, list[i])->holders);
    for (u32 i = anchors_count(&anchors); i-- > 0;)
        budget_shares_add(shares, sections, anchors.row[i].unit.index, unit_bytes,
                          arena_slots_holders(sections, anchors.row[i].unit));
}

u32 aside_victims(struct budget_record *out, u32 cap, struct budget_shares *shares)
{
    u32 count = 0;
    for (u32 r = record_next(0); r != NONE && count < cap; r = record_next(r + 1)) {
        const struct record_row *row = record_at(r);
        if (row->slot != NONE || own.node[row->class] == NONE) continue;
        struct budget_record *v = &out[count++];
        *v = (struct budget_record){ .node = own.node[row->class], .record = r,
                                     .pinned = aside_protected(r), .holder = (u8)row->class,
                                     .value = aside_value(r) };
        budget_shares_begin(shares);
        add_units(r, shares);
        if (!budget_shares_end(shares, v)) v->pinned = true;
    }
    return count;
}
