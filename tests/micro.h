/* tests/micro.h - a whole engine over the embedded model with small blocks and lines.
 *
 * Real arenas, slots, state, forward and budget; B and G small so that a prompt of a hundred ids
 * passes several lines, a granule of 4 KiB, and one slot more than the engine knows: tests/cold.h
 * runs the cold reference there.  Header alone: a test includes it once. */
#ifndef TESTS_MICRO_H
#define TESTS_MICRO_H

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "arena/base/rng.h"
#include "budget/measure.h"
#include "http/turn/command.h"
#include "http/turn/engine.h"
#include "http/turn/ledger.h"
#include "http/turn/pass.h"
#include "http/turn/submit.h"
#include "model/forward.h"
#include "model/model.h"
#include "tests/cold.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MICRO_DRAFT_SEED
#define MICRO_DRAFT_SEED 0          /* else all tests of the file draft, wrong on purpose     */
#endif
#ifndef MICRO_IDS_CAP
#define MICRO_IDS_CAP 4096
#endif
enum { MICRO_IDS = MICRO_IDS_CAP, MICRO_EOS = 3, MICRO_TALKS = 8 };

struct micro_setup {
    u32 slot_count;                 /* the engine's; 0 = 1; with `guest` one more once open   */
    bool guest;                     /* the last slot is the guests'                           */
    u64 ctx;                        /* 0 = 512                                                */
    u32 block_rows, grid_rows;      /* 0 = 8 and 32                                           */
    u32 anchors;                    /* units of the anchors' cap; UINT32_MAX = none           */
    u64 reserve_tokens;             /* 0 = 16                                                 */
    u32 rows, queue;                /* 0 = 16 and 8                                           */
    u64 stash_rows, pin_rows, park_rows, store_rows;    /* caps: blocks of so many rows and 16
                                     * section sets; 0 = 4096, UINT64_MAX = nothing           */
    u64 entry_rows;                 /* of one record of the store, with 2 section sets; same  */
    u64 guest_max;                  /* 0 = 8192; UINT64_MAX = none                            */
    f64 guest_fraction;             /* 0 = 0.25                                               */
    u64 response_bytes;             /* cap of the response cache; 0 = off                     */
    u64 suffix_bytes;               /* cap of the suffix store; 0 = off                       */
    u32 records;                    /* rows of the record table; 0 = 64                       */
    u64 kv_rows;                    /* rows all slots may hold together; 0 = no limit         */
    u64 drain_us;
    const char *cache_dir;          /* of the NVMe tiers; NULL: off                           */
    u64 weights;                    /* of their fingerprint                                   */
    u32 arithmetic;                 /* added to the fingerprint's arithmetic id, its least too */
    u64 journal_idle_us;            /* write-behind; 0 = at once                              */
    u64 journal_rows;               /* also when so many are new; 0 = the default             */
    u64 disk_bytes, spill_bytes;    /* caps of files; 0 = the default                         */
    void (*opening)(void);          /* called before the engine opens, or NULL                */
    const char *dir;                /* a model's folder; NULL = embedded                      */
    bool no_draft;                  /* its draft head isn't loaded, if it has one             */
    u64 pool_bytes;                 /* 0 = 256 MiB                                            */
    u32 threads;                    /* 0 = 1; UINT32_MAX = one a core                         */
    u32 draft, draft_max;           /* enum profile_draft; 0 = off and 7                      */
    u64 draft_seed;                 /* of a hostile drafter; 0 = none                         */
    void (*wrap)(struct ops *);     /* changes the backend before anything runs, or NULL      */
};

struct micro {
    struct micro_setup set;
    struct profile_row profile;
    struct budget_graph graph;
    u32  eos;
    u32  vocab;
    f32 *logits;                    /* [slot_count][vocab], last ones before sampling         */
};

static struct micro micro;

static u64 micro_cap(u64 rows, u64 block_bytes, u64 units)
{
    if (rows == UINT64_MAX) return 0;
    if (rows == 0) rows = 4096;
    return (rows + micro.set.block_rows - 1) / micro.set.block_rows * block_bytes + units;
}

static void micro_nodes(u64 block_bytes, u64 section_bytes)
{
    const struct micro_setup *s = &micro.set;
    struct profile_row *p = &micro.profile;
    p->stash_bytes = s->guest ? micro_cap(s->stash_rows, block_bytes, 16 * section_bytes) : 0;
    p->pin_bytes = micro_cap(s->pin_rows, block_bytes, 16 * section_bytes);
    p->park_bytes = micro_cap(s->park_rows, block_bytes, 16 * section_bytes);
    p->store_bytes = micro_cap(s->store_rows, block_bytes, 16 * section_bytes);
    p->store_entry_bytes = micro_cap(s->entry_rows, block_bytes, 2 * section_bytes);
    static const char *const fixed[] = { "weights", "scratch", "tables" };
    struct budget_graph *g = &micro.graph;
    CHECK_OK(budget_graph_board(g, &micro.profile));
    for (u32 i = 0; i < COUNT_OF(fixed); i++) {
        u32 node;
        CHECK_OK(budget_graph_declare(g, &(struct budget_decl){
            .name = fixed[i], .parent = "fixed", .node_class = CLASS_FIXED, .used = USED_ARENA,
            .arena = fixed[i], .cap_bytes = UINT64_MAX }, &node));
        if (i == 0) CHECK_OK(budget_graph_charge(g, node, "lists"));
    }
    micro.profile.resident_bytes = micro.set.anchors == UINT32_MAX
                                 ? 0 : micro.set.anchors * section_bytes;
    CHECK_OK(engine_declare(g, &micro.profile, block_bytes, section_bytes, micro.set.slot_count));
    CHECK_OK(budget_graph_check(g));
    g->verify = true;
    if (micro.set.kv_rows == 0) return;
    u64 blocks = (micro.set.kv_rows + micro.set.block_rows - 1) / micro.set.block_rows;
    CHECK_OK(budget_graph_cap(g, budget_graph_find(g, "kv"), blocks * block_bytes +
                              micro.set.slot_count * section_bytes));
}

static void micro_open(const struct micro_setup *setup)
{
    struct micro_setup *s = &micro.set;
    memset(&micro, 0, sizeof micro);
    *s = *setup;
    if (s->slot_count == 0) s->slot_count = 1;
    s->slot_count += s->guest;
    if (s->ctx == 0) s->ctx = 512;
    if (s->block_rows == 0) s->block_rows = 8;
    if (s->grid_rows == 0) s->grid_rows = 32;
    if (s->anchors == 0) s->anchors = 64;
    if (s->reserve_tokens == 0) s->reserve_tokens = 16;
    if (s->rows == 0) s->rows = 16;
    if (s->queue == 0) s->queue = 8;
    if (s->pool_bytes == 0) s->pool_bytes = 256 * MIB;
    s->threads = s->threads == 0 ? 1 : s->threads == UINT32_MAX ? 0 : s->threads;
    micro.eos = MICRO_EOS;
    profile_defaults(&micro.profile);
    micro.profile.board_bytes = UINT64_MAX / 4;
    micro.profile.board_floor_bytes = 0;
    micro.profile.cache_budget_bytes = UINT64_MAX / 4;
    micro.profile.reserve_tokens = s->reserve_tokens;
    micro.profile.drain_us = s->drain_us;
    micro.profile.test_hooks = true;
    micro.profile.draft = s->draft;
    micro.profile.draft_max = s->draft_max > 0 ? s->draft_max : 7;
    micro.profile.draft_seed = s->draft_seed > 0 ? s->draft_seed : MICRO_DRAFT_SEED;
    micro.profile.response_bytes = s->response_bytes;
    micro.profile.suffix_store_bytes = s->suffix_bytes;
    micro.profile.records = s->records > 0 ? s->records : 64;
    if (s->guest_max > 0) micro.profile.guest_rows_max = s->guest_max + 1 > 0 ? s->guest_max : 0;
    if (s->guest_fraction > 0) micro.profile.guest_fraction = s->guest_fraction;
    if (s->cache_dir != NULL) {
        struct profile_row *p = &micro.profile;
        snprintf(p->cache_dir, sizeof p->cache_dir, "%s", s->cache_dir);
        p->disk_floor_bytes = p->spill_floor_bytes = p->spill_min_tokens = 0;
        p->disk_min_tokens = 2 * s->grid_rows;
        p->journal_idle_us = s->journal_idle_us;
        if (s->journal_rows > 0) p->journal_rows = s->journal_rows;
        if (s->disk_bytes > 0) p->disk_bytes = s->disk_bytes;
        if (s->spill_bytes > 0) p->spill_bytes = s->spill_bytes;
    }
    log_level_set(LOG_LEVEL_WARN);
    space_host_granule(4096);
    budget_measure_fix(64 * GIB, 64 * GIB);

    struct model_setup model = { .dir = s->dir,
                                 .draft = s->no_draft ? MODEL_DRAFT_OFF : MODEL_DRAFT_AUTO,
                                 .block_rows = s->block_rows,
                                 .grid_rows = s->grid_rows,
                                 .chunk_rows = s->grid_rows > 256 ? s->grid_rows : 64,
                                 .backend = { .threads = s->threads } };
    CHECK_OK(model_open(&model));
    if (s->wrap != NULL) s->wrap((struct ops *)(uintptr_t)model_ops());
    micro.vocab = model_shape()->vocab;
    struct model_room room = { .slot_count = s->slot_count + 1, .ctx_rows = s->ctx,
                               .pool_bytes = s->pool_bytes,
                               .verify_rows = drafters_rows(&micro.profile, s->slot_count) };
    struct arena_decl decl[MODEL_DECL_CAP + 3];
    u32 count = model_declare(&room, decl);
    decl[count++] = (struct arena_decl){
        .name = "tables", .kind = ARENA_TABLE,
        .cap_bytes = engine_table_bytes(&micro.profile, s->ctx, s->slot_count, s->rows,
                                        micro.vocab, s->block_rows, s->grid_rows) };
    if (s->response_bytes > 0)
        decl[count++] = (struct arena_decl){
            .name = "responses", .kind = ARENA_EXTENTS,
            .cap_bytes = response_arena_bytes(s->response_bytes) };
    if (engine_suffix_arena(&micro.profile) > 0)
        decl[count++] = (struct arena_decl){
            .name = "suffix", .kind = ARENA_EXTENTS,
            .cap_bytes = engine_suffix_arena(&micro.profile) };
    CHECK_OK(arena_open(decl, count));
    CHECK_OK(model_load(&room));
    micro_nodes(arena_row(state_blocks_arena())->unit_bytes,
                arena_row(state_sections_arena())->unit_bytes);
    u32 tables = arena_find("tables");
    CHECK_OK(turn_open(tables, s->rows, s->queue));
    CHECK_OK(command_open(tables));
    if (s->opening != NULL) s->opening();
    CHECK_OK(engine_open(&(struct engine_setup){
        .profile = &micro.profile, .graph = &micro.graph, .ctx = s->ctx,
        .slot_count = s->slot_count, .guest_slots = s->guest,
        .table_arena = tables, .candidates = micro.vocab - 16,
        .eos = &micro.eos, .eos_count = 1, .cache_dir = s->cache_dir,
        .weights = (const u64[2]){ s->weights, 1 }, .backend = model_ops()->name,
        .arithmetic_id = model_ops()->arithmetic_id + s->arithmetic,
        .arithmetic_least = model_ops()->arithmetic_id + s->arithmetic }));
    micro.logits = calloc((u64)s->slot_count * micro.vocab, sizeof *micro.logits);
    engine_keep_logits(micro.logits);
}

static void micro_close(void)
{
    engine_close();
    turn_close();
    model_close();
    arena_close();
    free(micro.logits);
    budget_measure_fix(UINT64_MAX, UINT64_MAX);
    space_host_granule(0);
}

/* ------------------------------------------------------------------ requests */

/* One request and what came of it; ids of the answer included. */
struct micro_ask {
    u32 ids[MICRO_IDS];
    u64 id_count;
    u64 max_tokens;
    u64 session;
    u32 forced[MICRO_IDS];
    u64 forced_count;               /* > 0: forced                                            */
    struct turn_mark mark[TURN_MARK_CAP];
    u32 mark_count;
    bool think_open;                /* the prompt ends in an open think block                 */
    u64 think_budget;               /* with `closing`: ids of reasoning before it is closed   */
    const u32 *closing;             /* what closes it; NULL: nothing does                     */
    u32 closing_count, closing_hidden;
    u64 note_at;                    /* ids of reasoning before the hidden note                */
    const u32 *note;
    u32 note_count;
    struct sample_settings sampling;    /* temperature 0: greedy                              */
    const struct call_row *calls;   /* past calls of the prompt                               */
    u32 call_count;
    bool memo;                      /* the row is kept when DONE: submit_memo releases it     */
    u32 submit;
    u32 out[MICRO_IDS];
    u64 out_count;
    struct turn_result result;
};

/* Bytes of all arenas, or of those that hold neither blocks nor units: nothing of them comes
 * free. */
static __attribute__((unused)) u64 micro_committed(bool fixed)
{
    u64 bytes = 0;
    for (u32 i = 0; i < arena_count(); i++) {
        enum arena_kind kind = arena_row(i)->kind;
        if (!fixed || (kind != ARENA_BLOCKS && kind != ARENA_SLOTS))
            bytes += arena_row(i)->committed_bytes;
    }
    return bytes;
}

static void micro_random_ids(u32 *ids, u64 count, u64 seed, u64 index)
{
    for (u64 i = 0; i < count; i++)
        ids[i] = 4 + (u32)(rng_u64(seed, index + i) % (micro.vocab - 24));
}

static void micro_push(struct micro_ask *a)
{
    a->submit = submit_take();
    CHECK(a->submit != NONE);
    struct submit_row *row = submit_at(a->submit);
    row->ids = a->ids;
    row->id_count = a->id_count;
    row->max_tokens = a->max_tokens;
    row->session[0] = row->session[1] = a->session;
    row->sampling = (struct sample_settings){ .top_p = 1, .repetition_penalty = 1 };
    if (a->sampling.temperature > 0) row->sampling = a->sampling;
    row->calls = a->calls;
    row->call_count = a->call_count;
    row->arrival_us = clock_us();
    row->forced = a->forced_count > 0 ? a->forced : NULL;
    row->forced_count = a->forced_count;
    row->forced_cut = UINT64_MAX;
    memcpy(row->mark, a->mark, sizeof row->mark);
    row->mark_count = a->mark_count;
    row->think_open = a->think_open;
    row->tools = a->memo;
    row->think_budget = a->think_budget;
    row->close_ids = a->closing;
    row->close_count = a->closing_count;
    row->close_hidden = a->closing_hidden;
    row->note_at = a->note_at;
    row->note_ids = a->note;
    row->note_count = a->note_count;
    a->out_count = 0;
    CHECK_OK(submit_push(a->submit));
}

/* Pops what is there; true once the row is DONE: then result is kept and the row released. */
static bool micro_poll(struct micro_ask *a)
{
    struct submit_row *row = submit_at(a->submit);
    u32 id;
    bool done = row->state == SUBMIT_DONE;
    while (ring_pop(&row->out, &id)) {
        CHECK(a->out_count < MICRO_IDS);
        a->out[a->out_count++] = id;
    }
    if (!done) return false;
    a->result = row->result;
    if (!a->memo) submit_release(a->submit);
    return true;
}

/* Passes until the request is done. */
static __attribute__((unused)) void micro_wait(struct micro_ask *a)
{
    u32 rounds = 0;
    while (!micro_poll(a)) {
        engine_pass();
        CHECK(++rounds < 20000);
    }
}

static __attribute__((unused)) void micro_run(struct micro_ask *a)
{
    micro_push(a);
    micro_wait(a);
}

/* A new prompt of `count` ids drawn by `seed`, which is its session too. */
static __attribute__((unused)) void micro_prompt(struct micro_ask *a, u64 count, u64 seed,
                                                 u64 max_tokens)
{
    memset(a, 0, sizeof *a);
    micro_random_ids(a->ids, count, seed, 0);
    a->id_count = count;
    a->max_tokens = max_tokens;
    a->session = seed;
}

/* The next prompt: the last one, its answer and `more` new ids.  `to` may be `from`. */
static __attribute__((unused)) void micro_continue(struct micro_ask *to,
                                                   const struct micro_ask *from, u64 more, u64 seed)
{
    u64 count = from->id_count;
    if (to != from) *to = *from;
    memcpy(to->ids + count, from->out, from->out_count * sizeof *to->ids);
    count += from->out_count;
    micro_random_ids(to->ids + count, more, seed, count);
    to->id_count = count + more;
    to->forced_count = 0;
}

/* A question to the engine, answered in one pass: its text (the caller frees it), or NULL. */
static __attribute__((unused)) char *micro_command(enum command_op op, const char *session,
                                                   const char *tier)
{
    u32 index = command_take();
    CHECK(index != NONE);
    struct command_row *row = command_at(index);
    row->op = op;
    strcpy(row->session, session);
    strcpy(row->tier, tier);
    command_push(index);
    engine_pass();
    CHECK_EQ(row->state, COMMAND_DONE);
    char *text = row->error == OK ? strdup(row->answer) : NULL;
    command_release(index);
    return text;
}

/* What stands in the slot of a finished turn equals a cold run: prompt, the forwarded part of its
 * answer, and the logits its last id was sampled from. */
static __attribute__((unused)) void micro_equals_cold(const struct micro_ask *a)
{
    u32 ids[2 * MICRO_IDS], slot = a->result.slot;
    u64 count = a->id_count + a->result.generated - MIN(a->result.generated, 1u);
    memcpy(ids, a->ids, a->id_count * sizeof *ids);
    memcpy(ids + a->id_count, a->out, a->out_count * sizeof *ids);
    cold_compare(micro.set.slot_count, slot, ids, count, micro.logits + (u64)slot * micro.vocab);
}

#endif
