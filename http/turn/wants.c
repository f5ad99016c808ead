/* http/turn/wants.c - hit + turn -> what the gate is asked for, and how a grant is carried out. */
#include "http/turn/pass.h"

#include "model/state.h"
#include "tiers/key.h"

static u64 blocks_of(u64 rows)
{
    u64 block_rows = state_shape()->block_rows;
    return (rows + block_rows - 1) / block_rows;
}

/* Bytes of blocks and of a section set that the slot lacks for `rows` rows, less what comes free in
 * the slot itself when the hit is placed. */
static void rows_cost(const struct tier_hit *hit, u64 rows, u64 *blocks_out, u64 *sections_out)
{
    if (hit->way == WAY_TAKE) {
        slot_cost(hit->slot, rows, blocks_out, sections_out);
        return;
    }
    u64 block_bytes = arena_row(state_blocks_arena())->unit_bytes;
    u64 kept = hit->way == WAY_COLD ? 0 : hit->start / state_shape()->block_rows;
    u64 need = (blocks_of(rows) - kept) * block_bytes, freed = 0;
    if (hit->way == WAY_CUT) freed = record_freed_bytes(hit->record, hit->start);
    else if (hit->victim != NONE) freed = record_freed_bytes(hit->victim, 0);
    *blocks_out = need > freed ? need - freed : 0;
    *sections_out = slot_row(hit->slot)->unit.index == NONE
                  ? arena_row(state_sections_arena())->unit_bytes : 0;
}

/* Anchors this turn would take: lines and marks ahead, and the end. */
static u32 anchors_ahead(const struct turn_row *turn, u64 start)
{
    u64 count = key_lines(start, turn->prompt_count, state_shape()->grid_rows) + 1;
    for (u32 i = 0; i < turn->mark_count; i++) count += turn->mark[i].pos > start;
    return (u32)MIN(count, (u64)RESIDENT_POOL_CAP);
}

void wants_build(const struct engine *e, const struct turn_row *turn, const struct tier_hit *hit,
                 struct wants *out)
{
    u64 blocks_bytes, sections_bytes, unit_bytes = arena_row(state_sections_arena())->unit_bytes;
    u64 first = turn->prompt_count + MAX(e->set.profile->reserve_tokens, 1u) - 1;
    out->rows = MIN(turn->row_limit, first);
    rows_cost(hit, out->rows, &blocks_bytes, &sections_bytes);
    out->count = 2;
    out->want[0] = (struct budget_want){
        .node = e->kv_node, .arena = state_blocks_arena(), .must = true,
        .min_bytes = blocks_bytes, .max_bytes = blocks_bytes, .unit_bytes = 1,
        .commit = wants_rows_commit, .undo = wants_rows_undo,
    };
    out->want[1] = (struct budget_want){
        .node = e->kv_node, .arena = state_sections_arena(), .must = true,
        .min_bytes = sections_bytes, .max_bytes = sections_bytes, .unit_bytes = 1,
    };
    if (!resident_on()) return;
    out->want[out->count++] = (struct budget_want){
        .node = resident_node(), .arena = state_sections_arena(),
        .max_bytes = anchors_ahead(turn, hit->start) * unit_bytes, .unit_bytes = unit_bytes,
        .value = (f64)state_shape()->grid_rows / (f64)unit_bytes,
        .commit = wants_anchors_commit, .undo = wants_anchors_undo,
    };
}

/* ------------------------------------------------------------------ inside the gate */

enum err wants_rows_commit(void *owner, u64 bytes)
{
    struct wants_owner *w = owner;
    u64 now_us = w->now_us;
    (void)bytes;
    TRY(tier_place(&w->hit, w->prompt, now_us));
    enum err err = slot_grow(w->hit.slot, w->rows);
    if (err != OK) tier_unplace(&w->hit);
    return err;
}

void wants_rows_undo(void *owner, u64 bytes)
{
    struct wants_owner *w = owner;
    (void)bytes;
    tier_unplace(&w->hit);
    if (resident_record(w->hit.slot) != NONE)
        slot_shrink(w->hit.slot, slot_row(w->hit.slot)->len);
}

enum err wants_anchors_commit(void *owner, u64 bytes)
{
    struct wants_owner *w = owner;
    u64 unit_bytes = arena_row(state_sections_arena())->unit_bytes;
    enum err err = resident_pool_fill(&w->turn->pool, (u32)(bytes / unit_bytes));
    if (err != OK) resident_pool_drop(&w->turn->pool);
    return err;
}

void wants_anchors_undo(void *owner, u64 bytes)
{
    struct wants_owner *w = owner;
    (void)bytes;
    resident_pool_drop(&w->turn->pool);
}

/* ------------------------------------------------------------------ relief */

static u64 unit_bytes_of(u32 slot)
{
    return slot_row(slot)->unit.index == NONE ? 0 : arena_row(state_sections_arena())->unit_bytes;
}

u64 wants_relieve(struct engine *e, const struct tier_hit *hit, u32 slot)
{
    u32 record = resident_oldest(hit->record, slot);
    if (record == NONE) return 0;
    u32 from = record_at(record)->slot;
    u64 freed = record_freed_bytes(record, 0) + record_anchor_bytes(record) + unit_bytes_of(from);
    resident_drop(from);
    slot_drop(from);
    e->counts.evicted++;
    e->check = true;
    return MAX(freed, 1u);
}

u64 wants_relief(const struct engine *e, const struct tier_hit *hit, u32 slot)
{
    u64 sum = 0;
    (void)e;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        u32 from = record_at(r)->slot;
        if (record_at(r)->busy || r == hit->record || from == slot) continue;
        sum += record_freed_bytes(r, 0) + unit_bytes_of(from);  /* anchors yield by themselves */
    }
    return sum;
}
