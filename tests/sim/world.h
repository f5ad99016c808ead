/* tests/sim/world.h - runs a script: random clients over the real passes of the engine, on the
 * smallest model, every turn held to the cold run of its served ids; caps, restarts, kills and
 * failing files in between.
 *
 * Whatever goes wrong ends the process (tests/sim/seeds.h forks one a script). */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "tests/sim/restart.h"

/* ------------------------------------------------------------------ what befalls the engine */

/* Carries out a command between passes; its error. */
static enum err command(enum command_op op, const char *tier, const char *text)
{
    u32 index = command_take();
    CHECK(index != NONE);
    struct command_row *row = command_at(index);
    row->op = op;
    snprintf(row->tier, sizeof row->tier, "%s", tier);
    snprintf(row->session, sizeof row->session, "%s", text);
    command_push(index);
    while (row->state != COMMAND_DONE) world_pass();
    enum err err = row->error;
    command_release(index);
    return err;
}

/* No turn runs, and no thread has a segment of the suffix store. */
static bool at_rest(void)
{
    for (u32 row = segment_next(0); row != NONE; row = segment_next(row + 1))
        if (segment_at(row)->holds > 0) return false;
    return idle();
}

/* Half of them by `mem set`, which takes what is over at once; the others wait for a gate.  Live
 * rows by `mem set` alone: else a conversation idles over their cap, as none does in an engine. */
static void set_cap(const struct sim_op *op)
{
    static const char *const names[] = { "anchors", "caches", "stash", "pin", "park", "store",
                                         "anchors", "kv" };
    u32 node = budget_graph_find(&micro.graph, names[op->at % COUNT_OF(names)]);
    if (node == NONE) node = budget_graph_find(&micro.graph, "anchors");
    struct budget_node *n = &micro.graph.node[node];
    u64 unit = MAX(n->unit_bytes, 4096u), before = n->cap_bytes;
    u64 cap = op->salt % 3 == 0 ? 0 : op->salt % 3 == 1 ? unit : op->count * unit;
    char text[32];
    world.pressed = true;
    if (n->node_class == CLASS_LIVE) cap = (20u + op->count) * unit;
    snprintf(text, sizeof text, "%llu", (ull)cap);
    if (op->salt % 7 == 6) snprintf(text, sizeof text, "none");
    bool now = op->client % 2 == 1 || n->node_class == CLASS_LIVE, rested = at_rest();
    enum err err = now ? command(COMMAND_SET, n->name, text)
                       : budget_graph_cap(&micro.graph, node, cap);
    if (err != OK) CHECK_EQ(n->cap_bytes, before);      /* refused: under a reserve */
    else if (now && idle()) {
        if (!rested) world_pass();          /* what was held and ended with it goes after it      */
        CHECK(n->used_bytes <= MAX(n->cap_bytes, fixed_bytes()));
    }
    world.capped_number = micro.graph.history.count;
}

static void clear_all(void) { CHECK_OK(command(COMMAND_CLEAR, "", "")); }

static void forget(const struct sim_op *op)
{
    u64 session = world.client[op->client].session;
    bool all = op->salt % 2 == 0;
    for (u32 i = 0; i < SIM_ALL; i++)
        if (all || world.client[i].session == session) {
            world.client[i].forgotten = true;
            world.client[i].awaited = 0;
        }
    if (all) clear_all();
    else {
        struct forget_counts gone;
        nvme_clear(true, true, (const u64[2]){ session, session }, &gone);
        tier_clear((const u64[2]){ session, session });
        suffix_log_clear((const u64[2]){ session, session });
    }
    segment_check();
    for (u32 row = segment_next(0); !all && row != NONE; row = segment_next(row + 1))
        CHECK(segment_at(row)->state == SEGMENT_GONE ||     /* a thread has it: until it is done  */
              words_of_session(segment_memory(row), segment_at(row)->count,
                               (const u64[2]){ session, session }) == 0);
    if (!nvme_on() || !idle()) return;
    settle();
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1))
        CHECK(!all && spill_at(i)->talk.session[0] != session);
    files_check();
}

static void fail_files(const struct sim_op *op)
{
    world.io_kind = op->at % 4;
    world.io_left = world.io_kind == 3 ? 1 : 1 + op->count % 8u;    /* a disk dies once           */
    world.io_salt = op->salt;
    file_fail(0);
}

static void befall(const struct sim_op *op)
{
    bool files = world.set.cache_dir != NULL;
    if (op->kind == SIM_IDLE) {
        idle_time(op);
    } else if (op->kind > SIM_IDLE) {
        if (!files) return;                 /* the other setups are about memory                  */
        if (op->kind == SIM_IO) fail_files(op);
        else if (op->kind == SIM_ROOM) set_room(op);
        else restart(op);
    } else if (op->kind == SIM_CAP) {
        set_cap(op);
    } else if (op->kind == SIM_FAIL) {
        world.pressed = true;
        world.sum.failed_commits++;
        space_host_fail_commit(1 + op->at % 12);
    } else {
        forget(op);
    }
}

/* ------------------------------------------------------------------ a script */

/* One letter an id, and the tags. */
static void open_vocab(void)
{
    static struct vocab vocab;
    static u64 memory[512];
    static const struct { const char *text; enum vocab_kind kind; } tags[] = {
        { "<|start|>", VOCAB_SPECIAL }, { "<think>", VOCAB_THINK_OPEN },
        { "</think>", VOCAB_THINK_CLOSE }, { "\n", VOCAB_TEXT }, { "\n\n", VOCAB_TEXT },
        { "#", VOCAB_TEXT }, { "<call>", VOCAB_CALL_OPEN }, { "</call>", VOCAB_CALL_CLOSE },
    };
    CHECK(vocab_bytes(micro.vocab, 512) <= sizeof memory);
    vocab_open(&vocab, memory, micro.vocab, 512);
    for (u32 id = 0; id < micro.vocab; id++) {
        char letter = (char)('0' + id);
        if (id == ID_END) CHECK_OK(vocab_put(&vocab, "<|end|>", 7, VOCAB_TURN_END));
        else if (id < ID_START) CHECK_OK(vocab_put(&vocab, &letter, 1, VOCAB_TEXT));
        else if (id - ID_START < COUNT_OF(tags))
            CHECK_OK(vocab_put(&vocab, tags[id - ID_START].text,
                               strlen(tags[id - ID_START].text), tags[id - ID_START].kind));
        else CHECK_OK(vocab_put(&vocab, "", 0, VOCAB_PADDING));
    }
    stop_vocab(&vocab);
}

static void world_open(u32 setup)
{
    memset(&world, 0, sizeof world);
    world.setup = setup;
    world.set = world_setups[setup % COUNT_OF(world_setups)];
    struct micro_setup *s = &world.set;
    s->dir = world_dir;
    s->ctx = SIM_CTX;
    if (s->block_rows == 0) s->block_rows = 4;
    if (s->grid_rows == 0) s->grid_rows = 16;
    s->pool_bytes = 8 * MIB;
    s->wrap = world_wrap;
    u32 drafter = setup / COUNT_OF(world_setups) % COUNT_OF(world_drafters);
    s->draft = world_drafters[drafter].draft;
    s->draft_seed = world_drafters[drafter].seed;
    s->weights = 7;
    s->journal_idle_us = 2000000;
    if (s->cache_dir != NULL) s->cache_dir = world_files;
    world.now_us = 1000000;
    set_clock();
    for (u32 i = 0; i < SIM_ALL; i++) world.client[i].session = i + 1;
    for (u32 m = 0; m < SIM_MODELS; m++) world.left[m].known = true;    /* to have no files       */
    world_up();
    open_vocab();
    world.pressed = s->kv_rows > 0;
    if (!forward_row_invariant()) world.bound = skew_bound();
}

/* All turns end, everything is forgotten, and every block, section set and file is free again. */
static void world_close(void)
{
    for (u32 i = 0; i < SIM_ALL; i++) world_wait(&world.client[i]);
    check_records(true);
    space_host_fail_commit(0);
    world.io_left = 0;
    file_fail(0);
    clear_all();
    settle();
    CHECK_EQ(record_count(), 0);
    CHECK_EQ(arena_blocks_used(state_blocks_arena()), 0);
    CHECK_EQ(arena_slots_used(state_sections_arena()), 0);
    arena_check();
    slot_check();
    if (nvme_on() && !world.left[world.model].rotten) {
        CHECK_EQ(pieces_counts().rows + spill_counts().rows, 0);
        CHECK_EQ(files_of("c-", false) + files_of("t-", false) + files_of("a-", false) +
                 files_of("m-", false), 0);
    }
    micro_close();
}

static void world_run(const struct sim_script *s)
{
    world_open(s->setup);
    for (u32 i = 0; i < s->count; i++) {
        const struct sim_op *op = &s->op[i];
        if (!sim_is_turn(op)) {
            befall(op);
            continue;
        }
        ask(op);
        struct client *c = &world.client[op->kind == SIM_GUEST
                                         ? SIM_CLIENTS + op->client % SIM_GUESTS : op->client];
        if (op->passes >= SIM_WAIT) {
            for (u32 k = 0; k < SIM_ALL; k++) world_wait(&world.client[k]);
        } else {
            for (u32 k = 0; k < op->passes && c->busy; k++) world_pass();
        }
    }
    world_close();
}

#endif
