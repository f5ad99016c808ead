/* tiers/resident.c - records in slots: find, place, load, anchors. */
#include "tiers/resident.h"

#include "model/state.h"
#include "tiers/aside/aside.h"
#include "tiers/key.h"

#include <string.h>

static struct {
    struct budget_graph *graph;
    u32 node, slot_count, main_count;       /* all; without the guests'                       */
    u32 record[RESIDENT_SLOT_CAP];
    struct resident_counts counts;
} own;

enum err resident_declare(struct budget_graph *g, u64 cap_bytes, u64 unit_bytes, u32 slot_count)
{
    u64 reserve_bytes = (u64)(5 + slot_count - 1) * unit_bytes;
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "anchors", .parent = "caches", .pool = POOL_BOARD, .node_class = CLASS_CACHE,
        .used = USED_HOLDER, .holder = HOLD_ANCHOR, .reserve_bytes = MIN(reserve_bytes, cap_bytes),
        .cap_bytes = cap_bytes, .unit_bytes = unit_bytes,       /* cap 0: nothing is held */
        .yield = resident_yield,
    }, NULL));
    return budget_graph_edge(g, "live", "anchors", 7);  /* live rows take anchors last of all */
}

void resident_open(struct budget_graph *g, u32 slot_count, u32 guest_slots)
{
    ASSERT(slot_count <= RESIDENT_SLOT_CAP && guest_slots <= 1 && guest_slots < slot_count);
    memset(&own, 0, sizeof own);
    own.graph = g;
    own.node = budget_graph_find(g, "anchors");
    own.slot_count = slot_count;
    own.main_count = slot_count - guest_slots;
    for (u32 i = 0; i < RESIDENT_SLOT_CAP; i++) own.record[i] = NONE;
}

u32 resident_node(void) { return own.node; }

bool resident_on(void)
{
    return own.graph->node[own.node].cap_bytes >= arena_row(state_sections_arena())->unit_bytes;
}

u32 resident_record(u32 slot) { return own.record[slot]; }

bool resident_busy(u32 slot)
{
    return own.record[slot] != NONE && record_at(own.record[slot])->busy;
}

struct resident_counts resident_counts(void) { return own.counts; }

u32 resident_guest_slot(void)
{
    return own.main_count < own.slot_count ? own.main_count : NONE;
}

enum holder resident_holder(u32 slot)
{
    return slot < own.main_count ? HOLD_LIVE : HOLD_STASH;
}

/* ------------------------------------------------------------------ choose */

/* Rows that nobody else holds. */
static u64 own_rows(u32 record)
{
    return record_rows(record) - MIN(record_rows(record), record_shared_rows(record));
}

/* The idle slot from `first` on with another record that was used longest ago, among those that
 * would lose at most `most` rows; an empty one before all.  NONE when there is none. */
static u32 oldest_slot(const struct tier_hit *hit, u32 first, u64 most)
{
    u32 oldest = NONE;
    for (u32 slot = first; slot < own.main_count; slot++) {
        u32 record = own.record[slot];
        if (record == NONE) return slot;
        if (record_at(record)->busy || record == hit->record || own_rows(record) > most) continue;
        if (oldest == NONE ||
            record_at(record)->used_us < record_at(own.record[oldest])->used_us) oldest = slot;
    }
    return oldest;
}

/* The matched slot goes on rather than another conversation displaced: its tail is what the same
 * session abandoned, or it belongs to one that is not used any more. */
static bool cut_rather(const struct tier_hit *hit, u32 slot, const struct tier_prompt *prompt)
{
    if (hit->record == NONE || record_at(hit->record)->busy) return false;
    u32 matched = record_at(hit->record)->slot;
    if (matched == NONE || matched >= own.main_count) return false;
    if (slot == NONE) return true;
    u32 victim = own.record[slot];
    if (victim == NONE) return false;
    if (!record_session(hit->record, prompt->session))
        return record_at(hit->record)->used_us < record_at(victim)->used_us;
    return !record_session(victim, prompt->session) ||
           record_rows(hit->record) - hit->start <= own_rows(victim);
}

/* Longest unused, so that as many conversations as there are slots can take turns for ever; but a
 * short prompt (a title, a guest) spares conversations of more than RESIDENT_SPARE times its length
 * while there is another. */
void resident_choose(struct tier_hit *hit, const struct tier_prompt *prompt)
{
    u32 slot = oldest_slot(hit, 0, RESIDENT_SPARE * prompt->count);
    if (slot == NONE) slot = oldest_slot(hit, 0, UINT64_MAX);
    hit->slot = slot;
    hit->victim = NONE;
    if (hit->way == WAY_FORK && cut_rather(hit, slot, prompt)) {
        hit->way = WAY_CUT;
        hit->slot = record_at(hit->record)->slot;
    } else if (slot != NONE) {
        hit->victim = own.record[slot];
    }
}

u32 resident_side(const struct tier_hit *hit, const struct tier_prompt *prompt)
{
    return oldest_slot(hit, 1, RESIDENT_SPARE * prompt->count);
}

u32 resident_oldest(u32 keep, u32 slot)
{
    u32 oldest = NONE;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        const struct record_row *row = record_at(r);
        if (row->busy || r == keep || row->slot == slot || row->slot == NONE) continue;
        if (oldest == NONE || row->used_us < record_at(oldest)->used_us) oldest = r;
    }
    return oldest;
}

/* ------------------------------------------------------------------ place and load */

static bool make_room(u32 record, bool charged);
static void replace(u32 record, u32 index);

void resident_left(u32 slot) { own.record[slot] = NONE; }

/* The cheapest anchor of all live records goes, reserve or not; false when there is none. */
static bool drop_any(void)
{
    u32 from = NONE, at = NONE;
    u64 least = 0;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        struct anchor_list list = record_anchors(r);
        if (record_at(r)->class != HOLD_LIVE) continue;
        u32 i = anchors_cheapest(&list, 0, false);
        if (i == NONE || (from != NONE && anchors_cost(&list, i) >= least)) continue;
        from = r;
        at = i;
        least = anchors_cost(&list, i);
    }
    if (from != NONE) replace(from, at);
    return from != NONE;
}

/* Anchors of live records, and `more` bytes, within their node's cap again: what came in from aside
 * is paid by it.  The cheapest go, then `record`'s own reserve, then any. */
static void fit(u32 record, u64 more)
{
    while (aside_used(HOLD_ANCHOR) + more > own.graph->node[own.node].cap_bytes)
        if (!make_room(record, true) && !drop_any()) return;
}

/* A cap was set under what is held, the node's own or one above it. */
static bool is_over(void)
{
    for (u32 n = own.node; n != NONE; n = own.graph->node[n].parent)
        if (own.graph->node[n].over) return true;
    return false;
}

/* Anchors that others let go of are charged to the guest that shares them: what its stash does not
 * pay for goes. */
static void fit_guest(void)
{
    u32 slot = resident_guest_slot(), record = slot == NONE ? NONE : own.record[slot];
    while (record != NONE && aside_used(HOLD_STASH) > aside_cap(HOLD_STASH)) {
        struct anchor_list list = record_anchors(record);
        u32 at = anchors_cheapest(&list, 0, false);
        if (at == NONE) return;
        replace(record, at);
    }
}

void resident_settle(void)
{
    fit(NONE, 0);
    fit_guest();
    while (is_over()) {             /* ends: nothing is over, or a record has an anchor less  */
        budget_graph_refresh(own.graph);
        if (!is_over() || !drop_any()) return;
        fit_guest();
    }
}

void resident_keep_unit(struct tier_hit *hit)
{
    arena_slots_hold(state_sections_arena(), hit->unit, HOLD_WRITING);
    hit->held = true;
}

void resident_let_unit_go(struct tier_hit *hit)
{
    if (hit->held) arena_slots_drop(state_sections_arena(), hit->unit, HOLD_WRITING);
    hit->held = false;
}

enum err resident_place(struct tier_hit *hit, const struct tier_prompt *prompt, u64 now_us)
{
    u32 record = own.record[hit->slot];
    enum holder class = resident_holder(hit->slot);
    ASSERT(hit->way == WAY_TAKE || hit->way == WAY_CUT ? record == hit->record : record == NONE);
    if (!hit->held && hit->way != WAY_TAKE && hit->way != WAY_COLD) resident_keep_unit(hit);
    switch (hit->way) {
    case WAY_TAKE: break;
    case WAY_CUT: record_cut(record, hit->start); break;
    case WAY_COLD:
        TRY(record_start(hit->slot, class, prompt->session, now_us, &record));
        break;
    case WAY_FORK:
        TRY(record_fork(hit->record, hit->start, hit->slot, class, prompt->session, now_us,
                        &record));
        break;
    case WAY_LIFT:
        record = hit->record;
        record_enter(record, hit->slot, class);
        break;
    }
    own.record[hit->slot] = record;
    struct record_row *r = record_at(record);
    r->busy = true;
    r->guest = hit->guest;
    memcpy(hit->session, r->session, sizeof hit->session);
    memcpy(r->session, prompt->session, sizeof r->session);
    fit(record, 0);
    return OK;
}

/* A lifted record stands aside again, with the anchor at its end. */
static void lower(struct tier_hit *hit)
{
    u32 record = own.record[hit->slot], sections = state_sections_arena();
    struct anchor_list list = record_anchors(record);
    if (anchors_at(&list, hit->start) == NONE && anchors_count(&list) < list.row_cap) {
        enum holder holder = record_anchor_holder(record);
        arena_slots_hold(sections, hit->unit, holder);
        anchors_take(&list, hit->start, hit->unit, ANCHOR_END, false);
    }
    own.record[hit->slot] = NONE;
    if (record_leave(record, hit->from) != OK) record_drop(record);
}

void resident_unplace(struct tier_hit *hit)
{
    u32 record = own.record[hit->slot];
    record_at(record)->busy = false;
    memcpy(record_at(record)->session, hit->session, sizeof hit->session);
    if (hit->way == WAY_TAKE) return;
    if (hit->way == WAY_LIFT) lower(hit);
    /* The slot's sections are still those of its old end. */
    else if (hit->way != WAY_CUT || state_load(hit->slot, hit->unit, hit->start) != OK)
        resident_drop(hit->slot);
    resident_let_unit_go(hit);
}

enum err resident_load(struct tier_hit *hit)
{
    enum err err = OK;
    if (hit->way == WAY_COLD) err = state_load(hit->slot, (unit_id){ NONE, 0 }, 0);
    else if (hit->way != WAY_TAKE) err = state_load(hit->slot, hit->unit, hit->start);
    resident_let_unit_go(hit);
    if (err != OK) {
        resident_drop(hit->slot);
        return err;
    }
    fit(own.record[hit->slot], 0);
    if (hit->record == NONE || !record_is(hit->record, hit->number)) return OK;
    struct anchor_list list = record_anchors(hit->record);
    u32 at = anchors_at(&list, hit->start);
    if (at != NONE) list.row[at].hits++;
    record_at(hit->record)->hits++;
    record_at(hit->record)->saved_tokens += hit->start;
    return OK;
}

void resident_rows(u32 slot, u64 pos, const u64 *keys, u64 count)
{
    u32 blocks;
    u64 rows;
    const block_id *list = state_rows_out(slot, &blocks, &rows);
    ASSERT(own.record[slot] != NONE && pos + count <= rows);
    key_put(state_blocks_arena(), state_shape()->block_rows, list, pos, keys, count);
}

void resident_taint(u32 slot, u64 pos)
{
    struct record_row *r = record_at(own.record[slot]);
    r->taint = MIN(r->taint, pos);
}

bool resident_clean(u32 slot) { return record_at(own.record[slot])->taint == UINT64_MAX; }

/* ------------------------------------------------------------------ anchors */

/* Slot 0's conversation keeps its newest 4 and the head's, any other live one its newest. */
static u32 keep_of(u32 record) { return record_at(record)->slot == 0 ? ANCHOR_NEWEST : 1; }

static u32 cheapest_in(u32 record)
{
    struct anchor_list list = record_anchors(record);
    if (record_at(record)->class != HOLD_LIVE) return NONE;
    return anchors_cheapest(&list, keep_of(record), record_at(record)->slot == 0);
}

static void replace(u32 record, u32 index)
{
    struct anchor_list list = record_anchors(record);
    anchors_drop(&list, state_sections_arena(), index, record_anchor_holder(record));
    own.counts.replaced++;
}

/* Drops anchors of live records, cheapest first and own reserve last, until one unit came free, or
 * (`charged`) until their node is charged one less.  A shared unit frees nothing by one reference,
 * so it may take several; each round drops one row. */
static bool make_room(u32 record, bool charged)
{
    u32 sections = state_sections_arena(), units = arena_slots_used(sections);
    u64 bytes = aside_used(HOLD_ANCHOR);
    while (charged ? aside_used(HOLD_ANCHOR) >= bytes : arena_slots_used(sections) >= units) {
        u32 from = NONE, at = NONE;
        u64 least = 0;
        for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
            struct anchor_list list = record_anchors(r);
            u32 i = cheapest_in(r);
            if (i == NONE || (from != NONE && anchors_cost(&list, i) >= least)) continue;
            from = r;
            at = i;
            least = anchors_cost(&list, i);
        }
        if (from == NONE && record == NONE) return false;
        if (from == NONE) {
            struct anchor_list list = record_anchors(record);
            from = record;
            at = anchors_cheapest(&list, 0, record_at(record)->slot == 0);
            if (at == NONE) at = anchors_cheapest(&list, 0, false);
            if (at == NONE) return false;
        }
        replace(from, at);
    }
    return true;
}

static bool unit_for(u32 record, struct resident_pool *pool, unit_id *out)
{
    if (pool->count > 0) {
        *out = pool->unit[--pool->count];
        return true;
    }
    return make_room(record, false) &&
           arena_slots_take(state_sections_arena(), HOLD_ANCHOR, out) == OK;
}

bool resident_line(u32 slot, enum anchor_kind kind, bool head, struct resident_pool *pool)
{
    u32 record = own.record[slot], blocks, sections = state_sections_arena();
    struct anchor_list list = record_anchors(record);
    u64 pos, saved;
    unit_id unit;
    state_rows_out(slot, &blocks, &pos);
    ASSERT(pos > 0);
    if (head) record_at(record)->head_pos = pos;
    u32 at = anchors_at(&list, pos);
    if (at != NONE) {
        anchors_mark(&list, at, kind, head);
        return true;
    }
    if (!resident_on() || record_at(record)->class != HOLD_LIVE) return false;
    u32 count = anchors_count(&list);
    if (count == list.row_cap) replace(record, anchors_cheapest(&list, ANCHOR_NEWEST, true));
    if (!unit_for(record, pool, &unit)) {
        own.counts.refused++;
        return false;
    }
    if (state_save(slot, unit, &saved) != OK) {
        arena_slots_drop(sections, unit, HOLD_ANCHOR);
        own.counts.refused++;
        return false;
    }
    ASSERT(saved == pos);
    at = anchors_take(&list, pos, unit, kind, head);
    ASSERT(at != NONE);
    own.counts.taken[kind]++;
    return true;
}

enum err resident_pool_fill(struct resident_pool *pool, u32 count)
{
    for (u32 i = 0; i < count && pool->count < RESIDENT_POOL_CAP; i++) {
        TRY(arena_slots_take(state_sections_arena(), HOLD_ANCHOR, &pool->unit[pool->count]));
        pool->count++;
    }
    return OK;
}

void resident_pool_drop(struct resident_pool *pool)
{
    while (pool->count > 0)
        arena_slots_drop(state_sections_arena(), pool->unit[--pool->count], HOLD_ANCHOR);
}

/* ------------------------------------------------------------------ release, drop, yield */

void resident_release(u32 slot, u64 now_us)
{
    u32 record = own.record[slot];
    if (record == NONE) return;
    record_at(record)->busy = false;
    record_at(record)->used_us = now_us;
    if (record_rows(record) == 0) resident_drop(slot);
}

void resident_drop(u32 slot)
{
    if (own.record[slot] == NONE) return;
    record_drop(own.record[slot]);
    own.record[slot] = NONE;
}

/* The anchors of live records that name the unit are one victim: listed with the first of them. */
static bool first_of_unit(u32 record, unit_id unit)
{
    for (u32 r = record_next(0); r != record; r = record_next(r + 1)) {
        struct anchor_list list = record_anchors(r);
        for (u32 i = anchors_count(&list); i-- > 0 && record_at(r)->class == HOLD_LIVE;)
            if (list.row[i].unit.index == unit.index) return false;
    }
    return true;
}

/* The reserve is left out, unless a cap was set under what is held: then all are listed. */
u32 resident_victims(struct budget_record *out, u32 cap, struct budget_shares *shares)
{
    u32 count = 0, sections = state_sections_arena();
    bool over = is_over();
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        struct anchor_list list = record_anchors(r);
        u32 keep = over ? 0 : keep_of(r), held = anchors_count(&list);
        if (record_at(r)->class != HOLD_LIVE) continue;
        for (u32 i = 0; i + keep < held && count < cap; i++) {
            unit_id unit = list.row[i].unit;
            if (!over && record_at(r)->slot == 0 && list.row[i].head) continue;
            struct holders holders = *arena_slots_holders(sections, unit);
            if (!over && holders_total(&holders) > 1) continue;
            if (holders.count[HOLD_STASH] > 0) continue;        /* a guest can't pay for it */
            if (holders.count[HOLD_ANCHOR] > 1 && !first_of_unit(r, unit)) continue;
            holders.count[HOLD_ANCHOR] = 1;             /* all of them go at once */
            struct budget_record *v = &out[count++];
            *v = (struct budget_record){ .node = own.node, .record = unit.index,
                                         .holder = HOLD_ANCHOR,
                                         .value = (f64)anchors_cost(&list, i) };
            budget_shares_begin(shares);
            budget_shares_add(shares, sections, unit.index, arena_row(sections)->unit_bytes,
                              &holders);
            if (!budget_shares_end(shares, v)) v->pinned = true;
        }
    }
    return count;
}

u64 resident_yield(void *owner, const u32 *records, u32 count)
{
    u32 sections = state_sections_arena();
    u64 freed = 0;
    (void)owner;
    for (u32 k = 0; k < count; k++) {
        for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
            struct anchor_list list = record_anchors(r);
            for (u32 i = anchors_count(&list); i-- > 0 && record_at(r)->class == HOLD_LIVE;) {
                if (list.row[i].unit.index != records[k]) continue;
                own.counts.yielded++;
                if (anchors_drop(&list, sections, i, HOLD_ANCHOR))
                    freed += arena_row(sections)->unit_bytes;
            }
        }
    }
    return freed;
}
