/* tiers/resident.c - records in slots: find, place, load, anchors. */
#include "tiers/resident.h"

#include "model/state.h"
#include "tiers/key.h"

#include <string.h>

static struct {
    struct budget_graph *graph;
    u32 node, slot_count;
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

void resident_open(struct budget_graph *g, u32 slot_count)
{
    ASSERT(slot_count <= RESIDENT_SLOT_CAP);
    memset(&own, 0, sizeof own);
    own.graph = g;
    own.node = budget_graph_find(g, "anchors");
    own.slot_count = slot_count;
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

/* ------------------------------------------------------------------ find */

static u64 rows_of(u32 record)
{
    u32 count;
    u64 rows;
    record_blocks(record, &count, &rows);
    return rows;
}

static enum tier_source source_of(enum anchor_kind kind)
{
    return kind == ANCHOR_END ? TIER_END : kind == ANCHOR_TURN ? TIER_TURN : TIER_GRID;
}

/* Where this record lets the prompt start, and how. */
static void candidate(u32 record, u64 limit, const struct tier_prompt *prompt, struct tier_hit *out)
{
    const struct record_row *r = record_at(record);
    struct anchor_list list = record_anchors(record);
    u64 rows = rows_of(record);
    u32 best = anchors_best(&list, limit);
    *out = (struct tier_hit){ .record = record, .slot = NONE, .victim = NONE };
    if (!r->busy && rows > 0 && rows <= limit && limit <= prompt->count - 1) {
        u32 at = anchors_at(&list, rows);
        out->way = WAY_TAKE;
        out->start = rows;
        out->slot = r->slot;
        out->source = at != NONE ? source_of(list.row[at].kind) : TIER_END;
    } else if (best != NONE) {
        out->way = WAY_FORK;
        out->start = list.row[best].pos;
        out->unit = list.row[best].unit;
        out->source = source_of(list.row[best].kind);
    }
}

static bool same_session(u32 record, const u64 session[2])
{
    return memcmp(record_at(record)->session, session, 2 * sizeof *session) == 0;
}

/* Later start first; then what costs nothing, the caller's own session, the newest. */
static bool better(const struct tier_hit *a, const struct tier_hit *b,
                   const struct tier_prompt *prompt)
{
    if (b->record == NONE || a->start != b->start) return b->record == NONE || a->start > b->start;
    if ((a->way == WAY_TAKE) != (b->way == WAY_TAKE)) return a->way == WAY_TAKE;
    const struct record_row *x = record_at(a->record), *y = record_at(b->record);
    bool mine = same_session(a->record, prompt->session);
    bool other = same_session(b->record, prompt->session);
    return mine != other ? mine : x->used_us > y->used_us;
}

/* Rows that nobody else holds. */
static u64 own_rows(u32 record)
{
    return rows_of(record) - MIN(rows_of(record), record_shared_rows(record));
}

/* The idle slot with another record that was used longest ago, among those that would lose at most
 * `most` rows; an empty one before all.  NONE when there is none. */
static u32 oldest_slot(const struct tier_hit *hit, u64 most)
{
    u32 oldest = NONE;
    for (u32 slot = 0; slot < own.slot_count; slot++) {
        u32 record = own.record[slot];
        if (record == NONE) return slot;
        if (record_at(record)->busy || record == hit->record || own_rows(record) > most) continue;
        if (oldest == NONE ||
            record_at(record)->used_us < record_at(own.record[oldest])->used_us) oldest = slot;
    }
    return oldest;
}

/* The matched slot is cut back rather than another conversation lost: its tail is what the same
 * session abandoned, or belongs to one that is not used any more. */
static bool cut_rather(const struct tier_hit *hit, u32 slot, const struct tier_prompt *prompt)
{
    if (hit->record == NONE || record_at(hit->record)->busy) return false;
    if (slot == NONE) return true;
    u32 victim = own.record[slot];
    if (victim == NONE) return false;
    if (!same_session(hit->record, prompt->session))
        return record_at(hit->record)->used_us < record_at(victim)->used_us;
    return !same_session(victim, prompt->session) ||
           rows_of(hit->record) - hit->start <= own_rows(victim);
}

/* The slot of a fork or a cold run.  Longest unused, so that as many conversations as there are
 * slots can take turns for ever; but a short prompt (a title, a guest) spares conversations of more
 * than RESIDENT_SPARE times its length while there is another. */
static void choose_slot(struct tier_hit *hit, const struct tier_prompt *prompt)
{
    u32 slot = oldest_slot(hit, RESIDENT_SPARE * prompt->count);
    if (slot == NONE) slot = oldest_slot(hit, UINT64_MAX);
    hit->slot = slot;
    if (cut_rather(hit, slot, prompt)) {
        hit->way = WAY_CUT;
        hit->slot = record_at(hit->record)->slot;
    } else if (slot != NONE) {
        hit->victim = own.record[slot];
    }
}

static enum tier_reason reason_of(const struct tier_hit *hit, const struct tier_prompt *prompt)
{
    u64 usable = MIN(hit->common, prompt->count - 1);
    if (hit->common == 0) return TIER_NEVER_SEEN;
    if (hit->part_pos != UINT64_MAX && hit->start == 0 && hit->common < state_shape()->grid_rows)
        return TIER_SHORT;
    if (hit->start < usable && !resident_on()) return TIER_OFF;
    if (hit->part_pos != UINT64_MAX) return TIER_PARTED;
    return hit->start < usable ? TIER_MEMORY : TIER_REASON_NONE;
}

void resident_find(const struct tier_prompt *prompt, struct tier_hit *hit)
{
    const struct state_shape *shape = state_shape();
    struct tier_hit best = { .record = NONE, .slot = NONE, .victim = NONE,
                             .part_pos = UINT64_MAX };
    u64 common_best = 0, part_pos = UINT64_MAX;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        u32 count;
        u64 rows;
        const block_id *list = record_blocks(r, &count, &rows);
        u64 common = key_common(state_blocks_arena(), shape->block_rows, list, rows, prompt->keys,
                                prompt->count);
        if (common > common_best) {
            common_best = common;
            part_pos = common < MIN(rows, prompt->count) ? common : UINT64_MAX;
        } else if (common == common_best && common >= MIN(rows, prompt->count)) {
            part_pos = UINT64_MAX;
        }
        struct tier_hit here;
        candidate(r, MIN(common, prompt->count - 1), prompt, &here);
        if (here.start > 0 && better(&here, &best, prompt)) best = here;
    }
    best.common = common_best;
    best.part_pos = common_best > 0 ? part_pos : UINT64_MAX;
    if (best.record == NONE) best.way = WAY_COLD;
    best.reason = reason_of(&best, prompt);
    if (best.way != WAY_TAKE) choose_slot(&best, prompt);
    *hit = best;
}

u32 resident_oldest(u32 keep, u32 slot)
{
    u32 oldest = NONE;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        const struct record_row *row = record_at(r);
        if (row->busy || r == keep || row->slot == slot) continue;
        if (oldest == NONE || row->used_us < record_at(oldest)->used_us) oldest = r;
    }
    return oldest;
}

/* ------------------------------------------------------------------ place and load */

enum err resident_place(struct tier_hit *hit, const struct tier_prompt *prompt, u64 now_us)
{
    u32 record = own.record[hit->slot];
    if (hit->way == WAY_TAKE || hit->way == WAY_CUT) {
        ASSERT(record == hit->record && !record_at(record)->busy);
        if (hit->way == WAY_CUT) record_cut(record, hit->start);
    } else {
        ASSERT(record == hit->victim);
        if (hit->victim != NONE) resident_drop(hit->slot);
        hit->victim = NONE;
        if (hit->way == WAY_COLD)
            TRY(record_start(hit->slot, prompt->session, now_us, &record));
        else
            TRY(record_fork(hit->record, hit->start, hit->slot, prompt->session, now_us, &record));
        own.record[hit->slot] = record;
    }
    record_at(record)->busy = true;
    record_at(record)->session[0] = prompt->session[0];
    record_at(record)->session[1] = prompt->session[1];
    return OK;
}

void resident_unplace(struct tier_hit *hit)
{
    u32 record = own.record[hit->slot];
    record_at(record)->busy = false;
    if (hit->way == WAY_TAKE) return;
    if (hit->way == WAY_CUT) {
        /* A cut list has no appender before it grows: its rows must not look writable to a fork.
         * And the slot's sections are still those of its old end. */
        state_freeze(hit->slot, hit->start);
        if (state_load(hit->slot, hit->unit, hit->start) == OK) return;
    }
    resident_drop(hit->slot);
}

enum err resident_load(const struct tier_hit *hit)
{
    enum err err = OK;
    if (hit->way == WAY_COLD) err = state_load(hit->slot, (unit_id){ NONE, 0 }, 0);
    else if (hit->way != WAY_TAKE) err = state_load(hit->slot, hit->unit, hit->start);
    if (err != OK) {
        resident_drop(hit->slot);
        return err;
    }
    if (hit->record == NONE) return OK;
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
    return anchors_cheapest(&list, keep_of(record), record_at(record)->slot == 0);
}

static void replace(u32 record, u32 index)
{
    struct anchor_list list = record_anchors(record);
    anchors_drop(&list, state_sections_arena(), index);
    own.counts.replaced++;
}

/* Drops anchors, cheapest first and own reserve last, until one unit came free.  A shared unit
 * frees nothing by one reference, so it may take several; each round drops one row. */
static bool make_room(u32 record)
{
    u32 sections = state_sections_arena(), before = arena_slots_used(sections);
    while (arena_slots_used(sections) == before) {
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
    return make_room(record) && arena_slots_take(state_sections_arena(), HOLD_ANCHOR, out) == OK;
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
    if (!resident_on()) return false;
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
    if (rows_of(record) == 0) resident_drop(slot);
}

void resident_drop(u32 slot)
{
    if (own.record[slot] == NONE) return;
    record_drop(own.record[slot]);
    own.record[slot] = NONE;
}

u32 resident_victims(struct budget_record *out, u32 cap)
{
    u32 count = 0, sections = state_sections_arena();
    u64 unit_bytes = arena_row(sections)->unit_bytes;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        struct anchor_list list = record_anchors(r);
        u32 keep = keep_of(r), held = anchors_count(&list);
        for (u32 i = 0; i + keep < held && count < cap; i++) {
            if (record_at(r)->slot == 0 && list.row[i].head) continue;
            if (holders_total(arena_slots_holders(sections, list.row[i].unit)) != 1) continue;
            out[count++] = (struct budget_record){
                .node = own.node, .record = list.row[i].unit.index, .arena = sections,
                .value = (f64)anchors_cost(&list, i), .freed_bytes = unit_bytes,
            };
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
            for (u32 i = anchors_count(&list); i-- > 0;) {
                if (list.row[i].unit.index != records[k]) continue;
                own.counts.yielded++;
                if (anchors_drop(&list, sections, i)) freed += arena_row(sections)->unit_bytes;
            }
        }
    }
    return freed;
}
