/* http/turn/wants.c - hit + turn -> what the gate is asked for, and how a grant is carried out. */
#include "http/turn/pass.h"

#include "arena/base/clock.h"
#include "model/state.h"
#include "tiers/key.h"

/* Anchors this turn would take: lines and marks ahead, and the end. */
static u32 anchors_ahead(const struct turn_row *turn, u64 start)
{
    u64 count = key_lines(start, turn->prompt_count, state_shape()->grid_rows) + 1;
    for (u32 i = 0; i < turn->mark_count; i++) count += turn->mark[i].pos > start;
    return (u32)MIN(count, (u64)RESIDENT_POOL_CAP);
}

u64 wants_rows(const struct engine *e, const struct turn_row *turn)
{
    return MIN(turn->row_limit,
               turn->prompt_count + MAX(e->set.profile->reserve_tokens, 1u) - 1);
}

bool wants_gross(u32 slot, u64 rows)
{
    if (resident_holder(slot) == HOLD_LIVE) return true;
    u64 blocks = (rows + state_shape()->block_rows - 1) / state_shape()->block_rows;
    return blocks * arena_row(state_blocks_arena())->unit_bytes +
           arena_row(state_sections_arena())->unit_bytes <= aside_cap(HOLD_STASH);
}

void wants_build(const struct engine *e, const struct turn_row *turn, const struct tier_hit *hit,
                 struct wants *out)
{
    u64 blocks_bytes, sections_bytes, unit_bytes = arena_row(state_sections_arena())->unit_bytes;
    u32 node = aside_node(resident_holder(hit->slot));
    out->rows = wants_rows(e, turn);
    slot_cost(hit->slot, out->rows, &blocks_bytes, &sections_bytes);
    out->count = 2;
    out->want[0] = (struct budget_want){
        .node = node, .arena = state_blocks_arena(), .must = true,
        .min_bytes = blocks_bytes, .max_bytes = blocks_bytes, .unit_bytes = 1,
        .commit = wants_rows_commit, .undo = wants_rows_undo,
    };
    out->want[1] = (struct budget_want){
        .node = node, .arena = state_sections_arena(), .must = true,
        .min_bytes = sections_bytes, .max_bytes = sections_bytes, .unit_bytes = 1,
    };
    if (!resident_on() || node != e->kv_node) return;
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
    const struct wants_owner *w = owner;
    (void)bytes;
    TRY(slot_grow(w->hit.slot, w->rows));
    tier_settle();
    return OK;
}

void wants_rows_undo(void *owner, u64 bytes)
{
    const struct wants_owner *w = owner;
    (void)bytes;
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

u64 wants_relieve(struct engine *e, u32 slot)
{
    u32 record = resident_oldest(NONE, slot);
    if (record == NONE) return 0;
    u32 from = record_at(record)->slot;
    u64 freed = record_freed_bytes(record, 0) + record_anchor_bytes(record) + unit_bytes_of(from);
    tier_drop(from);
    slot_drop(from);
    e->counts.evicted++;
    e->check = true;
    return MAX(freed, 1u);
}

u64 wants_relief(u32 slot)
{
    u64 sum = 0;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        u32 from = record_at(r)->slot;
        if (record_at(r)->busy || from == slot || from == NONE) continue;
        sum += record_freed_bytes(r, 0) + unit_bytes_of(from);  /* anchors yield by themselves */
    }
    return sum;
}

/* ------------------------------------------------------------------ the gate */

u32 wants_victims(struct budget_record **records_out, struct budget_shares **shares_out)
{
    static struct budget_record records[BUDGET_RECORD_CAP];
    static struct budget_shares shares;
    *records_out = records;
    *shares_out = &shares;
    u32 count = tier_victims(records, COUNT_OF(records), &shares);
    count += response_victims(records + count, COUNT_OF(records) - count, clock_us());
    return count + segment_victims(records + count, COUNT_OF(records) - count);
}

enum err wants_gate(const struct engine *e, enum budget_gate_kind kind, u64 turn,
                    const struct budget_want *wants, u32 count, const struct tier_hit *hit,
                    struct budget_plan *plan)
{
    struct budget_record *records = NULL;
    struct budget_shares *shares = NULL;
    u32 record_count = 0;
    if (!budget_gate_fits(e->set.graph, wants, count))
        record_count = wants_victims(&records, &shares);
    for (u32 i = 0; i < record_count; i++)      /* the anchor that will be loaded             */
        if (records[i].node == resident_node() && hit != NULL && hit->start > 0 &&
            hit->way != WAY_TAKE && records[i].record == hit->unit.index) records[i].pinned = true;
    return budget_gate(e->set.graph, &(struct budget_ask){
        .kind = kind, .turn = turn, .wants = wants, .want_count = count, .records = records,
        .record_count = record_count, .shares = shares,
    }, plan);
}
