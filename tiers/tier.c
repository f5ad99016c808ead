/* tiers/tier.c - the order of the tiers on one page, what is displaced for a turn, counters. */
#include "tiers/tier.h"

#include "model/state.h"
#include "tiers/aside/displace.h"
#include "tiers/key.h"
#include "tiers/nvme/nvme.h"
#include "tiers/store.h"

#include <string.h>

const char *const tier_source_word[TIER_SOURCE_COUNT] = {
    "cold", "grid", "turn", "end", "pin", "park", "store", "disk", "spill", "response" };
const char *const tier_reason_word[TIER_REASON_COUNT] = { NULL, "parted", "short", "never_seen",
                                                          "memory", "off", "context",
                                                          "slow_read", "failed_check" };

enum { ANCHOR_LIST_MIN = 24, ANCHOR_LIST_MAX = 128 };

static struct {
    struct tier_stats stats;
    struct guest_setup guest;
    u32  slot_count;
    bool forget[RESIDENT_SLOT_CAP];         /* busy records that were cleared meanwhile       */
} own;

u32 tier_anchor_cap(u64 ctx, u32 grid_rows)
{
    return (u32)MIN(ctx / grid_rows + ANCHOR_LIST_MIN, (u64)ANCHOR_LIST_MAX);
}

static u64 ctx_blocks(u64 ctx, u32 block_rows) { return (ctx + block_rows - 1) / block_rows; }

u64 tier_table_bytes(const struct tier_setup *setup, u32 block_rows, u32 grid_rows)
{
    u64 blocks = ctx_blocks(setup->ctx, block_rows);
    return record_table_bytes(setup->record_cap, tier_anchor_cap(setup->ctx, grid_rows),
                              record_list_cap(setup->record_cap, blocks)) +
           match_table_bytes(blocks);
}

enum err tier_declare(struct budget_graph *g, u64 resident_bytes, const struct aside_caps *caps,
                      u64 unit_bytes, u32 slot_count)
{
    TRY(resident_declare(g, resident_bytes, unit_bytes, slot_count));
    return aside_declare(g, caps);
}

enum err tier_open(const struct tier_setup *setup, struct budget_graph *g)
{
    u64 blocks = ctx_blocks(setup->ctx, state_shape()->block_rows);
    memset(&own, 0, sizeof own);
    own.slot_count = setup->slot_count;
    own.guest = setup->guest;
    TRY(record_open(setup->table_arena, setup->record_cap,
                    tier_anchor_cap(setup->ctx, state_shape()->grid_rows),
                    record_list_cap(setup->record_cap, blocks)));
    TRY(match_open(setup->table_arena, blocks));
    aside_open(g, setup->half_life_us, setup->store_entry_bytes);
    resident_open(g, setup->slot_count, setup->guest_slots);
    return OK;
}

void tier_close(void)
{
    for (u32 slot = 0; slot < own.slot_count; slot++) resident_drop(slot);
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) record_drop(r);
    memset(&own, 0, sizeof own);
}

/* ------------------------------------------------------------------ find */

static enum tier_source source_of(enum holder class, enum anchor_kind kind)
{
    if (class == HOLD_PIN) return TIER_PIN;
    if (class == HOLD_PARK) return TIER_PARK;
    if (class == HOLD_STORE) return TIER_STORE;
    return kind == ANCHOR_END ? TIER_END : kind == ANCHOR_TURN ? TIER_TURN : TIER_GRID;
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

static void start_from(struct tier_hit *hit, const struct match_row *m, enum holder class)
{
    bool end = m->way == MATCH_END;
    hit->record = m->record;
    hit->number = record_at(m->record)->number;
    hit->from = class;
    hit->start = m->start;
    hit->unit = m->unit;
    hit->source = source_of(class, m->kind);
    hit->way = !end ? WAY_FORK : record_at(m->record)->slot == NONE ? WAY_LIFT : WAY_TAKE;
}

/* The slot's own rows, then what stands aside, in the order of the tiers: a later tier only when it
 * starts later.  Then where the turn runs. */
void tier_find(const struct tier_prompt *prompt, struct tier_hit *hit)
{
    static const enum holder order[] = { HOLD_LIVE, HOLD_STASH, HOLD_PIN, HOLD_PARK, HOLD_STORE };
    struct match m;
    match_scan(prompt, &m);
    *hit = (struct tier_hit){ .way = WAY_COLD, .common = m.common, .part_pos = m.part_pos,
                              .record = NONE, .slot = NONE, .victim = NONE };
    for (u32 i = 0; i < COUNT_OF(order); i++)
        if (m.best[order[i]].record != NONE && m.best[order[i]].start > hit->start)
            start_from(hit, &m.best[order[i]], order[i]);
    hit->reason = reason_of(hit, prompt);
    if (hit->way == WAY_TAKE) {
        hit->slot = record_at(hit->record)->slot;
        return;
    }
    resident_choose(hit, prompt);
    if (!prompt->no_guest) guest_place(&own.guest, prompt, hit);
}

/* ------------------------------------------------------------------ place and load */

void tier_settle(void)
{
    resident_settle();
    aside_settle();
}

static void displace(u32 slot)
{
    struct displace_plan plan;
    u32 record = resident_record(slot);
    if (record == NONE) return;         /* a restore that came to nothing displaced it before */
    record_keep_end(record);
    displace_plan(record, &plan);
    nvme_displaced(record, plan.park.rows);
    displace_apply(record, &plan, false);
    resident_left(slot);
}

void tier_displace(u32 slot)
{
    displace(slot);
    tier_settle();
}

/* The matched record is the slot's own: what is kept of it leaves the slot, and the turn forks from
 * there; else it is cut in place. */
static void split(struct tier_hit *hit, const struct tier_prompt *prompt)
{
    struct displace_plan plan;
    u32 slot = hit->slot, record = hit->record;
    bool tail = record_session(record, prompt->session);
    if (tail && !displace_ended(record, hit->start)) return;
    record_keep_end(record);
    if (tail) displace_tail(record, hit->start, &plan);
    else displace_plan(record, &plan);
    if (plan.park.rows < hit->start || plan.park.rows == 0) return;
    resident_keep_unit(hit);
    bool kept = displace_apply(record, &plan, tail);
    resident_left(slot);
    if (kept) {
        hit->way = WAY_FORK;
        return;
    }
    resident_let_unit_go(hit);          /* tables are full: what it had is gone               */
    hit->way = WAY_COLD;
    hit->record = NONE;
    hit->start = 0;
    hit->source = TIER_COLD;
    hit->reason = TIER_MEMORY;
}

enum err tier_place(struct tier_hit *hit, const struct tier_prompt *prompt, u64 now_us)
{
    u32 matched = hit->record;
    u64 number = hit->number;
    aside_now(now_us);
    aside_protect(matched);
    if (hit->victim != NONE) displace(hit->slot);
    hit->victim = NONE;
    if (hit->way == WAY_CUT) split(hit, prompt);
    enum err err = resident_place(hit, prompt, now_us);
    if (err != OK && aside_evict()) err = resident_place(hit, prompt, now_us);
    if (err != OK) resident_let_unit_go(hit);
    aside_unprotect(matched, number);   /* the slot holds all it needs of the matched record  */
    tier_settle();
    if (err == OK) own.forget[hit->slot] = false;
    return err;
}

void tier_unplace(struct tier_hit *hit)
{
    resident_unplace(hit);
    tier_settle();
}

enum err tier_load(struct tier_hit *hit, const struct tier_prompt *prompt)
{
    enum err err = resident_load(hit);
    tier_settle();
    TRY(err);
    own.stats.turns[hit->source]++;
    own.stats.reasons[hit->reason]++;
    own.stats.cached_tokens += hit->start;
    own.stats.prompt_tokens += prompt->count;
    own.stats.guests += hit->guest;
    return OK;
}

void tier_answered(u64 count)
{
    own.stats.turns[TIER_RESPONSE]++;
    own.stats.cached_tokens += count;
    own.stats.prompt_tokens += count;
}

void tier_rows(u32 slot, u64 pos, const u64 *keys, u64 count)
{
    resident_rows(slot, pos, keys, count);
}

bool tier_line(u32 slot, enum anchor_kind kind, bool head, struct resident_pool *pool)
{
    bool taken = resident_line(slot, kind, head, pool);
    tier_settle();                     /* an anchor that made room may be shared             */
    return taken;
}

/* The guest slot is left at once: what is worth it goes to the store. */
static void leave_guest_slot(u32 slot)
{
    if (slot == resident_guest_slot() && resident_record(slot) != NONE) displace(slot);
}

void tier_commit(u32 slot, const struct tier_answer *answer, struct resident_pool *pool, u64 now_us)
{
    u32 record = resident_record(slot);
    aside_now(now_us);
    if (record == NONE) return;
    u64 rows = record_rows(record);
    if (rows > 0 && answer->generated) {
        tier_line(slot, ANCHOR_END, false, pool);
        end_record(record_generations(record), answer->prompt_count, rows, answer->think_hi);
    } else if (rows > 0 && answer->anchor) {
        tier_line(slot, ANCHOR_TURN, false, pool);
    }
    resident_pool_drop(pool);
    if (rows > 0 && !record_at(record)->guest && !own.forget[slot])
        store_prefix(record, answer->start, MIN(rows, answer->prompt_count));
    resident_release(slot, now_us);
    if (own.forget[slot]) resident_drop(slot);
    own.forget[slot] = false;
    leave_guest_slot(slot);
    tier_settle();
}

void tier_lost(u32 slot, struct resident_pool *pool)
{
    resident_pool_drop(pool);
    resident_drop(slot);
    own.forget[slot] = false;
    tier_settle();
}

void tier_drop(u32 slot)
{
    resident_drop(slot);
    tier_settle();
}

u32 tier_clear_of(u32 classes, const u64 session[2])
{
    u32 cleared = 0;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        const struct record_row *row = record_at(r);
        if ((classes >> row->class & 1) == 0) continue;
        if (session != NULL && !record_session(r, session)) continue;
        if (row->busy) own.forget[row->slot] = true;
        else if (row->slot != NONE) resident_drop(row->slot);
        else record_drop(r);
        cleared++;
    }
    own.stats.cleared += cleared;
    tier_settle();
    return cleared;
}

u32 tier_clear(const u64 session[2]) { return tier_clear_of(TIER_CLEAR_ALL, session); }

u32 tier_victims(struct budget_record *out, u32 cap, struct budget_shares *shares)
{
    budget_shares_open(shares);
    u32 count = resident_victims(out, cap, shares);
    return count + aside_victims(out + count, cap - count, shares);
}

void tier_stats(struct tier_stats *out)
{
    *out = own.stats;
    out->records = record_count();
    out->resident = resident_counts();
    out->aside = *aside_counts();
    out->false_hits = match_false();
    for (u32 c = 0; c < HOLD_COUNT; c++) out->classes[c].bytes = aside_used((enum holder)c);
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        struct anchor_list list = record_anchors(r);
        u32 count;
        u64 rows;
        for (u32 i = anchors_count(&list); i-- > 0;) out->anchors[list.row[i].kind]++;
        record_blocks(r, &count, &rows);
        out->busy += record_at(r)->busy;
        out->classes[record_at(r)->class].records++;
        out->classes[record_at(r)->class].rows += rows;
        if (record_at(r)->slot != NONE) out->resident_rows += rows;
    }
}

void tier_check(u32 slots, const unit_id *extra, u32 extra_count)
{
    record_check(slots, extra, extra_count);
}
