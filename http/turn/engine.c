/* http/turn/engine.c - the loop, the wait and the wiring. */
#include "http/turn/engine.h"

#include "arena/base/clock.h"
#include "arena/base/file_log.h"
#include "arena/base/hash.h"
#include "arena/base/log.h"
#include "arena/table.h"
#include "budget/apply.h"
#include "budget/dump.h"
#include "http/turn/command.h"
#include "http/turn/gauges.h"
#include "http/turn/ledger.h"
#include "http/turn/off.h"
#include "http/turn/pass.h"
#include "http/turn/submit.h"
#include "model/forward.h"
#include "model/model.h"
#include "model/state.h"

#include <stdatomic.h>
#include <string.h>

static struct engine engine;
static _Atomic u32 dumps;               /* calls of engine_dump not yet carried out           */
static _Atomic u32 stops;               /* calls of engine_stop so far                        */

/* A row a slot, one more for a fork, and what stands aside. */
static u32 record_row_count(const struct profile_row *profile, u32 slot_count)
{
    return MAX(MIN(profile->records, (u32)PASS_RECORD_CAP), 2 * slot_count + 2);
}

u32 engine_guest_slots(const struct profile_row *profile)
{
    return profile->stash_bytes > 0 && profile->guest_rows_max > 0;
}

/* Tables of the NVMe tiers. */
static u64 nvme_bytes(const struct profile_row *profile, u64 ctx, u32 record_cap)
{
    return profile->cache_dir[0] == 0 ? 0 : nvme_table_bytes(model_layout(), ctx, record_cap);
}

/* Of a row a slot, or of a round with drafts. */
static u32 logit_rows(const struct profile_row *profile, u32 slot_count)
{
    return MAX(slot_count, drafters_rows(profile, slot_count));
}

static bool looks_up(const struct profile_row *profile)
{
    return profile->draft == DRAFT_LOOKUP || profile->draft == DRAFT_AUTO;
}

u64 engine_suffix_cap(const struct profile_row *profile)
{
    return looks_up(profile) ? profile->suffix_store_bytes : 0;
}

static u64 corpus_bytes(const struct profile_row *profile)
{
    return looks_up(profile) ? profile->corpus_bytes : 0;
}

u64 engine_suffix_arena(const struct profile_row *profile)
{
    return segment_arena_bytes(engine_suffix_cap(profile), corpus_bytes(profile));
}

u64 engine_table_bytes(const struct profile_row *profile, u64 ctx, u32 slot_count, u32 turn_rows,
                       u32 vocab, u32 block_rows, u32 grid_rows)
{
    struct tier_setup tiers = { .slot_count = slot_count, .ctx = ctx,
                                .record_cap = record_row_count(profile, slot_count) };
    return turn_table_bytes(turn_rows) + ledger_table_bytes() +
           tier_table_bytes(&tiers, block_rows, grid_rows) +
           nvme_bytes(profile, ctx, tiers.record_cap) +
           suffix_log_table_bytes(engine_suffix_cap(profile), corpus_bytes(profile), ctx) +
           response_table_bytes(profile->response_bytes) +
           2 * ctx * sizeof(u64) + slot_count * ctx * sizeof(u32) +
           (u64)logit_rows(profile, slot_count) * vocab * sizeof(f32) +
           12ull * vocab + COMMAND_CAP * sizeof(struct command_row) + 16 * 64;
}

/* A cap in rows, for tests: their blocks and as many section sets as a conversation keeps. */
static u64 cap_of(u64 cap_bytes, u64 rows, u32 block_rows, u64 block_bytes, u64 section_bytes)
{
    if (rows == 0) return cap_bytes;
    return (rows + block_rows - 1) / block_rows * block_bytes + 16 * section_bytes;
}

enum err engine_declare(struct budget_graph *g, const struct profile_row *profile, u64 block_bytes,
                        u64 section_bytes, u32 slot_count)
{
    u32 rows = profile->block > 0 ? profile->block : PASS_BLOCK_ROWS;
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "kv", .parent = "live", .pool = POOL_BOARD, .node_class = CLASS_LIVE,
        .used = USED_HOLDER, .holder = HOLD_LIVE, .cap_bytes = UINT64_MAX,
        .unit_bytes = block_bytes,
    }, NULL));
    struct aside_caps caps = {
        .stash_bytes = profile->stash_bytes, .store_bytes = profile->store_bytes,
        .pin_bytes = cap_of(profile->pin_bytes, profile->pin_rows, rows, block_bytes,
                            section_bytes),
        .park_bytes = cap_of(profile->park_bytes, profile->park_rows, rows, block_bytes,
                             section_bytes),
    };
    u64 resident_bytes = MIN(profile->resident_bytes, profile->cache_budget_bytes);
    TRY(tier_declare(g, resident_bytes, &caps, section_bytes, slot_count));
    TRY(pool_declare(g, profile->disk_bytes, profile->spill_bytes));
    TRY(response_declare(g, profile->response_bytes));
    return suffix_log_declare(g, engine_suffix_cap(profile), engine_suffix_arena(profile));
}

/* Off without a folder, and (not asked for) on a backend whose rows depend on their batch. */
static void open_nvme(const struct engine_setup *setup)
{
    const struct profile_row *p = setup->profile;
    bool off = setup->cache_dir == NULL || !forward_row_invariant();
    nvme_open(&(struct nvme_setup){
        .graph = setup->graph, .table_arena = setup->table_arena, .ctx = setup->ctx,
        .record_cap = record_row_count(p, setup->slot_count),
        .cache_dir = off ? "" : setup->cache_dir,
        .source = { .weights = { setup->weights[0], setup->weights[1] },
                    .arithmetic_id = setup->arithmetic_id,
                    .arithmetic_least = setup->arithmetic_least, .backend = setup->backend },
        .knobs = {
            .disk = { .cap_bytes = p->disk_bytes, .floor_bytes = p->disk_floor_bytes,
                      .unused_s = p->disk_unused_us / 1000000u,
                      .count = { .admit_after = p->disk_admit_after,
                                 .min_tokens = p->disk_min_tokens } },
            .journal = { .idle_us = p->journal_idle_us, .every_us = p->journal_every_us,
                         .rows_min = p->journal_rows },
            .day_cap_bytes = p->nvme_day_bytes,
            .spill_floor_bytes = p->spill_floor_bytes, .spill_rows_min = p->spill_min_tokens,
            .spill_wait_us = p->spill_wait_us,
            .rates = { .read_bytes_s = (f64)p->nvme_read_bytes_s,
                       .write_bytes_s = (f64)p->nvme_write_bytes_s,
                       .prefill_s_token = p->prefill_s_token } },
        .wake = submit_wake(), .threads = setup->io_threads });
}

/* The store writes by the NVMe tiers' writer: without them it is memory alone. */
static enum err open_suffix(const struct engine_setup *setup, u32 vocab)
{
    static const u64 nothing[2];
    const struct profile_row *p = setup->profile;
    if (engine_suffix_arena(p) == 0) return OK;
    struct suffix_log_setup log = {
        .table_arena = setup->table_arena, .ctx = setup->ctx, .cap_bytes = engine_suffix_cap(p),
        .vocab = vocab, .cache_dir = nvme_on() ? setup->cache_dir : "", .graph = setup->graph,
        .wake = submit_wake(), .thread = setup->io_threads };
    hash_put(setup->tokenizer != NULL ? setup->tokenizer : nothing, log.tokenizer);
    return suffix_log_open(&log);
}

enum err engine_open(const struct engine_setup *setup)
{
    struct engine *e = &engine;
    ASSERT(setup->slot_count > 0 && setup->slot_count <= SLOT_CAP && setup->ctx > 1);
    memset(e, 0, sizeof *e);
    e->set = *setup;
    e->ctx = setup->ctx;
    e->slot_count = setup->slot_count;
    e->main_count = setup->slot_count - setup->guest_slots;
    e->vocab = forward_vocab();
    e->kv_node = budget_graph_find(setup->graph, "kv");
    if (e->kv_node == NONE || budget_graph_find(setup->graph, "anchors") == NONE)
        return fail(ERR_NOT_FOUND, "engine: nodes kv and anchors are not declared");
    for (u32 i = 0; i < SLOT_CAP; i++) e->slot_turn[i] = NONE;
    u32 table = setup->table_arena;
    TRY(arena_table_take(table, "keys", sizeof *e->keys, e->ctx, &e->keys));
    TRY(arena_table_take(table, "replayed", sizeof *e->replayed, e->ctx, &e->replayed));
    TRY(arena_table_take(table, "ids", sizeof *e->ids, e->slot_count * e->ctx, &e->ids));
    TRY(arena_table_take(table, "logits", sizeof *e->logits,
                         (u64)logit_rows(setup->profile, e->slot_count) * e->vocab, &e->logits));
    TRY(arena_table_take(table, "sampler", 12, e->vocab, &e->work));
    TRY(ledger_open(table));
    TRY(tier_open(&(struct tier_setup){
        .table_arena = table, .slot_count = e->slot_count, .ctx = e->ctx,
        .record_cap = record_row_count(setup->profile, e->slot_count),
        .guest_slots = setup->guest_slots, .half_life_us = setup->profile->value_half_life_us,
        .store_entry_bytes = setup->profile->store_entry_bytes,
        .guest = { .rows_max = setup->profile->guest_rows_max,
                   .fraction = setup->profile->guest_fraction },
    }, setup->graph));
    TRY(response_open(setup->graph, table, setup->profile->response_bytes,
                      setup->profile->value_half_life_us));
    open_nvme(setup);
    TRY(open_suffix(setup, e->vocab));
    ASSERT(forward_verify_rows() <= logit_rows(setup->profile, e->slot_count));
    drafters_open(setup->profile, setup->candidates);
    for (u32 slot = e->main_count; slot < e->slot_count; slot++)
        slot_row(slot)->class = HOLD_STASH;
    submit_running_cap(e->main_count);
    gauges_put();
    off_log(e);
    return OK;
}

/* ------------------------------------------------------------------ check and wait */

/* Debug builds and --test-hooks: every table's invariants whenever rows or holders changed. */
static void engine_check(struct engine *e)
{
    static unit_id extra[SLOT_CAP * RESIDENT_POOL_CAP];
    u32 count = 0;
    if (!e->check) return;
    e->check = false;
#ifndef HOLDFAST_DEBUG
    if (!e->set.profile->test_hooks) return;
#endif
    for (u32 slot = 0; slot < e->slot_count; slot++) {
        if (e->slot_turn[slot] == NONE) continue;
        const struct resident_pool *pool = &turn_at(e->slot_turn[slot])->pool;
        memcpy(extra + count, pool->unit, pool->count * sizeof *extra);
        count += pool->count;
    }
    slot_check();
    tier_check(slot_count(), extra, count);
    budget_graph_verify(e->set.graph);
}

/* What came free without a gate goes while the board is over its cap: when nothing moves, and at
 * once where running turns hold more than a cap that was lowered. */
static void give_back(struct engine *e)
{
    if (e->moved && !e->over) return;
    if (budget_apply_spare(e->set.graph, UINT64_MAX) == 0) return;
    budget_graph_refresh(e->set.graph);
    e->check = true;
}

/* Something can move without anything arriving. */
static bool can_move(const struct engine *e)
{
    bool idle = false;
    if (turn_count(TURN_PREFILL) > 0 || turn_count(TURN_DONE) > 0) return true;
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1))
        if (answer_ready(turn_at(i))) return true;
    for (u32 slot = 0; slot < e->slot_count; slot++) {
        u32 turn = e->slot_turn[slot];
        idle = idle || (turn == NONE && slot < e->main_count);
        if (turn != NONE && decode_ready(turn_at(turn))) return true;
    }
    return idle && turn_count(TURN_QUEUED) > 0 && admit_waits_us() == 0;
}

/* Sleeps on the wake word until something arrives, or the nearest deadline. */
static void engine_wait(struct engine *e, u32 seen)
{
    if (e->moved || can_move(e)) return;
    u64 until_us = MIN(e->draining ? e->drain_until_us : UINT64_MAX, nvme_due_us());
    if (admit_waits_us() > 0) until_us = MIN(until_us, admit_waits_us());
    if (turn_count(TURN_DECODE) + turn_count(TURN_ANSWER) > 0)
        until_us = MIN(until_us, clock_us() + PASS_PAUSE_US);
    ring_wait(submit_wake(), seen, until_us);
}

/* Stop was asked for: refuse, give running turns their time, then end them.  True when all did. */
static bool stop_pass(struct engine *e)
{
    u32 asked = stops;
    if (asked == 0) return false;
    if (!e->draining) {
        submit_close_inbox();
        e->draining = true;
        e->drain_until_us = clock_us() + e->set.profile->drain_us;
        log_line(LOG_LEVEL_INFO, "draining: %u turns run, %u wait", turn_count(TURN_PREFILL) +
                 turn_count(TURN_DECODE), submit_queued());
    }
    if (asked > 1 || clock_us() >= e->drain_until_us)
        for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1))
            turn_end(e, turn_at(i), FINISH_CANCELLED);
    bool over = turn_next(0) == NONE && submit_queued() == 0;
    if (over && !e->drained) load_drain(e);
    e->drained = over;
    return over;
}

/* SIGUSR1: the dump is written here, on the thread whose tables it reads. */
static void dump_pass(struct engine *e)
{
    if (atomic_exchange(&dumps, 0) == 0) return;
    const char *folder = e->set.profile->dump_dir;
    command_count_records(e);
    if (budget_dump_write(e->set.graph, folder[0] == 0 ? "." : folder, "signal") != OK)
        log_line(LOG_LEVEL_ERROR, "memory dump: %s", err_last()->text);
}

/* ------------------------------------------------------------------ the loop */

bool engine_pass(void)
{
    struct engine *e = &engine;
    e->moved = false;
    bool over = stop_pass(e);
    dump_pass(e);               /* SIGUSR1                                                    */
    file_log_watch(turn_count(TURN_DECODE) > 0);    /* a file call from here on is a fault    */
    command_pass(e);            /* control rows: stats, dump, clear                           */
    turn_pass(e);               /* inbox ring -> QUEUED; cancelled rows -> DONE               */
    load_pass(e);               /* LOADING -> QUEUED    files read are records; write-behind  */
    admit_pass(e);              /* QUEUED  -> LOADING or PREFILL, by arrival                  */
    answer_pass(e);             /* ANSWER  -> DONE      ids of the response cache             */
    prefill_pass(e);            /* PREFILL -> DECODE    one chunk, fewest rows left first     */
    grow_pass(e);               /* DECODE               growth gate: under one block left     */
    decode_pass(e);             /* DECODE  -> DONE      one round of every decoding slot      */
    finish_pass(e);             /* DONE    -> FREE      commit to the tiers, ledger row       */
    file_log_watch(false);
    give_back(e);
    if (e->check) gauges_put();
    engine_check(e);
    return !over;
}

void engine_restore(void)
{
    load_newest(&engine, clock_us() + engine.set.profile->restore_wait_us);
}

bool engine_moved(void) { return engine.moved; }

void engine_run(void)
{
    for (;;) {
        u32 seen = ring_word(submit_wake());    /* before the passes look at what it stands for */
        if (!engine_pass()) return;
        engine_wait(&engine, seen);
    }
}

void engine_stop(void)
{
    atomic_fetch_add(&stops, 1);
    ring_wake_ring(submit_wake());
}

void engine_dump(void)
{
    atomic_fetch_add(&dumps, 1);
    ring_wake_ring(submit_wake());
}

void engine_keep_logits(f32 *rows) { engine.kept_logits = rows; }

void engine_close(void)
{
    suffix_log_flush();
    nvme_close();
    suffix_log_close();
    tier_close();
    response_close();
    for (u32 slot = 0; slot < engine.slot_count; slot++) slot_drop(slot);
    memset(&engine, 0, sizeof engine);
    stops = 0;
}
