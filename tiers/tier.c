/* tiers/tier.c - the order of the tiers on one page; so far the resident prefix is all of it. */
#include "tiers/tier.h"

#include "model/state.h"

#include <string.h>

const char *const tier_source_word[TIER_SOURCE_COUNT] = { "cold", "grid", "turn", "end" };
const char *const tier_reason_word[TIER_REASON_COUNT] = { NULL, "parted", "short", "never_seen",
                                                          "memory", "off", "context" };

enum { ANCHOR_LIST_MIN = 24, ANCHOR_LIST_MAX = 128 };

static struct {
    struct tier_stats stats;
    u32  slot_count;
    bool forget[RESIDENT_SLOT_CAP];         /* busy records that were cleared meanwhile       */
} own;

u32 tier_anchor_cap(u64 ctx, u32 grid_rows)
{
    return (u32)MIN(ctx / grid_rows + ANCHOR_LIST_MIN, (u64)ANCHOR_LIST_MAX);
}

u64 tier_table_bytes(const struct tier_setup *setup, u32 grid_rows)
{
    return record_table_bytes(setup->record_cap, tier_anchor_cap(setup->ctx, grid_rows));
}

enum err tier_declare(struct budget_graph *g, u64 resident_bytes, u64 unit_bytes, u32 slot_count)
{
    return resident_declare(g, resident_bytes, unit_bytes, slot_count);
}

enum err tier_open(const struct tier_setup *setup, struct budget_graph *g)
{
    memset(&own, 0, sizeof own);
    own.slot_count = setup->slot_count;
    TRY(record_open(setup->table_arena, setup->record_cap,
                    tier_anchor_cap(setup->ctx, state_shape()->grid_rows)));
    resident_open(g, setup->slot_count);
    return OK;
}

void tier_close(void)
{
    for (u32 slot = 0; slot < own.slot_count; slot++) resident_drop(slot);
    memset(&own, 0, sizeof own);
}

void tier_find(const struct tier_prompt *prompt, struct tier_hit *hit)
{
    resident_find(prompt, hit);
}

enum err tier_place(struct tier_hit *hit, const struct tier_prompt *prompt, u64 now_us)
{
    TRY(resident_place(hit, prompt, now_us));
    own.forget[hit->slot] = false;
    return OK;
}

void tier_unplace(struct tier_hit *hit) { resident_unplace(hit); }

enum err tier_load(const struct tier_hit *hit, const struct tier_prompt *prompt)
{
    TRY(resident_load(hit));
    own.stats.turns[hit->source]++;
    own.stats.reasons[hit->reason]++;
    own.stats.cached_tokens += hit->start;
    own.stats.prompt_tokens += prompt->count;
    return OK;
}

void tier_rows(u32 slot, u64 pos, const u64 *keys, u64 count)
{
    resident_rows(slot, pos, keys, count);
}

bool tier_line(u32 slot, enum anchor_kind kind, bool head, struct resident_pool *pool)
{
    return resident_line(slot, kind, head, pool);
}

void tier_commit(u32 slot, const struct tier_answer *answer, struct resident_pool *pool, u64 now_us)
{
    u32 record = resident_record(slot), count;
    u64 rows;
    if (record == NONE) return;
    record_blocks(record, &count, &rows);
    if (rows > 0 && answer->generated) {
        tier_line(slot, ANCHOR_END, false, pool);
        end_record(record_generations(record), answer->prompt_count, rows, answer->think_hi);
    } else if (rows > 0 && answer->anchor) {
        tier_line(slot, ANCHOR_TURN, false, pool);
    }
    resident_pool_drop(pool);
    resident_release(slot, now_us);
    if (own.forget[slot]) resident_drop(slot);
    own.forget[slot] = false;
}

void tier_lost(u32 slot, struct resident_pool *pool)
{
    resident_pool_drop(pool);
    resident_drop(slot);
    own.forget[slot] = false;
}

u32 tier_clear(const u64 session[2])
{
    u32 cleared = 0;
    for (u32 slot = 0; slot < own.slot_count; slot++) {
        u32 record = resident_record(slot);
        if (record == NONE) continue;
        const u64 *mine = record_at(record)->session;
        if (session != NULL && (mine[0] != session[0] || mine[1] != session[1])) continue;
        if (record_at(record)->busy) own.forget[slot] = true;
        else resident_drop(slot);
        cleared++;
    }
    own.stats.cleared += cleared;
    return cleared;
}

void tier_stats(struct tier_stats *out)
{
    *out = own.stats;
    out->records = record_count();
    out->resident = resident_counts();
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        struct anchor_list list = record_anchors(r);
        u32 count;
        u64 rows;
        for (u32 i = anchors_count(&list); i-- > 0;) out->anchors[list.row[i].kind]++;
        record_blocks(r, &count, &rows);
        out->busy += record_at(r)->busy;
        out->resident_rows += rows;
    }
}

void tier_check(u32 slots, const unit_id *extra, u32 extra_count)
{
    record_check(slots, extra, extra_count);
}
