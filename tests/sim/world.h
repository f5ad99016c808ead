/* tests/sim/world.h - runs a script: random clients over the real passes of the engine, on the
 * smallest model, every turn held to the cold run of its served ids.
 *
 * A client has ids, not text: its copy of the conversation.  The engine thread is this one: passes
 * are called one by one, the clock moves with them, so a script gives the same run every time.
 * Whatever goes wrong ends the process (tests/sim/seeds.h forks one a script). */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "tests/sim/check.h"

/* ------------------------------------------------------------------ passes */

static void turn_over(struct client *c)
{
    const struct turn_result *r = &c->ask.result;
    c->busy = false;
    world.sum.turns++;
    switch (r->finish) {
    case FINISH_STOP: case FINISH_LENGTH:
        world.sum.source[r->source]++;
        world.sum.cached += r->cached;
        world.sum.forwarded += r->forwarded;
        world.sum.by_memory += r->by_memory;
        if (r->by_memory) CHECK(world.pressed);
        else if (r->source == SOURCE_RESPONSE) check_response(&c->ask);
        else CHECK(r->finish == FINISH_STOP || c->ask.out_count == c->ask.max_tokens ||
                   r->cached + r->forwarded + r->generated >= SIM_CTX);
        break;
    case FINISH_CANCELLED:
        CHECK(c->cancel_pass != UINT64_MAX);
        world.sum.cancelled++;
        break;
    default:
        if (r->error != ERR_MEMORY || !world.pressed)
            test_failed(__FILE__, __LINE__, "a turn failed: %s", r->error_text);
        world.sum.refused++;
    }
    if (r->slot != NONE && r->finish != FINISH_ERROR) check_turn(c);
    if (r->finish == FINISH_STOP || r->finish == FINISH_LENGTH)
        world.answered[world.answered_count++ % SIM_ANSWERS] = c->ask;
    if (!c->keep) return;
    c->count = c->ask.id_count - c->reminder;
    memcpy(c->ids, c->ask.ids, c->gap * sizeof *c->ids);
    memcpy(c->ids + c->gap, c->ask.ids + c->gap + c->reminder,
           (c->count - c->gap) * sizeof *c->ids);
    if (r->finish != FINISH_STOP && r->finish != FINISH_LENGTH) return;
    memcpy(c->ids + c->count, c->ask.out, c->ask.out_count * sizeof *c->ids);
    c->count += c->ask.out_count;
}

static bool idle(void)
{
    for (u32 i = 0; i < SIM_ALL; i++)
        if (world.client[i].busy) return false;
    return true;
}

/* Of the caches, what no gate can take: the response cache's table. */
static u64 fixed_bytes(void)
{
    u32 node = budget_graph_find(&micro.graph, "response");
    return node == NONE ? 0 : micro.graph.node[node].used_bytes;
}

/* Once a turn was admitted after a change of caps and nothing runs, no node is over its own. */
static void check_caps(void)
{
    if (!idle() || micro.graph.history.count == world.capped_number) return;
    if (budget_history_row(&micro.graph.history, 0)->kind != GATE_ADMIT) return;
    budget_graph_refresh(&micro.graph);
    for (u32 i = 0; i < micro.graph.node_count; i++) {
        const struct budget_node *n = &micro.graph.node[i];
        if (n->node_class != CLASS_CACHE && n->node_class != CLASS_ASIDE) continue;
        if (n->used_bytes > n->cap_bytes && n->used_bytes > fixed_bytes())
            test_failed(__FILE__, __LINE__, "node %s holds %llu of %llu bytes", n->name,
                        (ull)n->used_bytes, (ull)n->cap_bytes);
    }
}

static void world_pass(void)
{
    for (u32 i = 0; i < SIM_ALL; i++)
        if (world.client[i].busy && world.client[i].cancel_pass == world.pass)
            submit_cancel(world.client[i].ask.submit);
    world.pass++;
    world.sum.passes++;
    world.now_us += 500;
    clock_set(world.now_us, (f64)world.now_us * 1e-6);
    engine_pass();
    bool ended = false;
    for (u32 i = 0; i < SIM_ALL; i++) {
        struct client *c = &world.client[i];
        if (!c->busy || !micro_poll(&c->ask)) continue;
        turn_over(c);
        ended = true;
    }
    if (!ended) return;
    check_records(false);
    check_caps();
}

static void world_wait(const struct client *c)
{
    for (u32 i = 0; c->busy; i++) {
        CHECK(i < SIM_PASSES_MAX);
        world_pass();
    }
}

/* ------------------------------------------------------------------ what clients ask */

static u32 some_id(u64 salt, u64 i) { return 4 + (u32)(rng_u64(salt, i) % 40); }

static void put_id(struct client *c, u32 id)
{
    if (c->ask.id_count < SIM_CTX + 32) c->ask.ids[c->ask.id_count++] = id;
}

static void put_ids(struct client *c, u64 count, u64 salt)
{
    for (u64 i = 0; i < count; i++) put_id(c, some_id(salt, i));
}

/* Two heads that clients share. */
static void put_head(struct client *c, u64 salt)
{
    u64 rows = SIM_HEAD_ROWS - (salt % 2) * 9;
    put_ids(c, rows, 5000 + salt % 2);
}

/* Closes the turn before, a message of `count` ids and a reminder, and the answer's opening: with
 * an open think block three times in four, and every other one has a budget. */
static void put_message(struct client *c, const struct sim_op *op)
{
    static const u32 closing[] = { ID_HIDDEN, ID_HIDDEN, ID_CLOSE, ID_BLANK };
    if (c->ask.id_count > 0 && c->ask.ids[c->ask.id_count - 1] != ID_END) put_id(c, ID_END);
    c->user = c->ask.id_count;
    put_id(c, ID_START);
    put_ids(c, op->count, op->salt);
    c->gap = c->ask.id_count;
    c->reminder = op->kind == SIM_PLAN ? 1 + op->at % 5u : 0;
    put_ids(c, c->reminder, op->salt + 1u);
    put_id(c, ID_END);
    put_id(c, ID_START);
    c->ask.think_open = op->salt % 4 != 0;
    c->ask.closing = op->salt % 2 == 0 ? NULL : closing;
    c->ask.closing_count = op->salt % 2 == 0 ? 0 : COUNT_OF(closing);
    c->ask.closing_hidden = 2;
    c->ask.think_budget = op->salt % 6u;
    if (!c->ask.think_open) return;
    put_id(c, ID_THINK);
    put_id(c, ID_LINE);
}

/* The prompt starts with the client's copy up to `pos`. */
static void put_history(struct client *c, const struct client *from, u64 pos)
{
    memcpy(c->ask.ids, from->ids, pos * sizeof *c->ask.ids);
    c->ask.id_count = pos;
}

/* A position behind the first id of what `c` has; 0 when it has nothing. */
static u64 position(const struct client *c, u64 at) { return c->count == 0 ? 0 : at % c->count; }

static void mark(struct client *c, u64 pos, enum turn_mark_kind kind)
{
    if (c->ask.mark_count == TURN_MARK_CAP || pos == 0) return;
    c->ask.mark[c->ask.mark_count++] = (struct turn_mark){ .pos = pos, .kind = (u32)kind };
}

static void push(struct client *c, const struct sim_op *op)
{
    u64 most = SIM_CTX - 2;
    if (c->ask.id_count > most || c->ask.id_count == 0) {   /* a new conversation */
        c->ask.id_count = c->ask.mark_count = 0;
        put_head(c, op->salt);
        put_message(c, op);
    }
    if (op->kind != SIM_AGAIN || op->salt % 2 == 0 || c->ask.max_tokens == 0)
        c->ask.max_tokens = MAX(op->answer, 1u);    /* else exactly the same request once more */
    c->ask.session = c->session;
    c->cancel_pass = op->abort == 0 ? UINT64_MAX : world.pass + op->abort - 1;
    c->busy = true;
    c->forgotten = false;
    micro_push(&c->ask);
}

/* The client's copy without what was thought: empty blocks, or none at all. */
static void put_stripped(struct client *c, u64 salt)
{
    c->ask.id_count = 0;
    for (u64 i = 0; i < c->count; i++) {
        u64 close = i;
        while (c->ids[i] == ID_THINK && close < c->count && c->ids[close] != ID_CLOSE &&
               c->ids[close] != ID_END) close++;
        if (c->ids[i] != ID_THINK || close == c->count || c->ids[close] != ID_CLOSE) {
            put_id(c, c->ids[i]);
            continue;
        }
        if (salt % 3 > 0) {
            put_id(c, ID_THINK);
            put_id(c, ID_BLANK);
            put_id(c, ID_CLOSE);
        }
        i = close;
        if (salt % 3 == 0 && i + 1 < c->count && c->ids[i + 1] == ID_BLANK) i++;
    }
}

/* Builds the prompt of a conversation's next turn. */
static void build(struct client *c, const struct sim_op *op)
{
    u64 pos = position(c, op->at);
    c->keep = op->kind != SIM_RECAP;
    switch (op->kind) {
    case SIM_EDIT:
        put_history(c, c, c->count);
        if (pos > 0) c->ask.ids[pos] = some_id(op->salt, 77);
        break;
    case SIM_UNDO: put_history(c, c, pos); break;
    case SIM_STRIP: put_stripped(c, op->salt); break;
    case SIM_FORK: {
        const struct client *other = &world.client[op->at % SIM_CLIENTS];
        put_history(c, other, position(other, op->at / SIM_CLIENTS));
        break;
    }
    default: put_history(c, c, c->count); break;
    }
    put_message(c, op);
    mark(c, SIM_HEAD_ROWS, MARK_HEAD);
    mark(c, c->user, MARK_USER);
}

static void guest_ask(const struct sim_op *op)
{
    struct client *c = &world.client[SIM_CLIENTS + op->client % SIM_GUESTS];
    const struct client *of = &world.client[op->client];
    world_wait(c);
    c->keep = c->ask.think_open = false;
    c->ask.closing_count = 0;
    c->ask.id_count = c->ask.mark_count = 0;
    c->session = op->salt % 2 == 0 ? of->session : 100u + op->client;
    if (op->salt % 3 == 0) put_head(c, op->salt);
    put_ids(c, 1 + op->count % 12, op->salt + 2);
    if (op->salt % 5 == 0)                          /* a title: the chat as text behind it        */
        for (u64 i = 0; i < MIN(of->count, 20u); i++) c->ask.ids[c->ask.id_count++] = of->ids[i];
    push(c, op);
}

static void ask(const struct sim_op *op)
{
    struct client *c = &world.client[op->client];
    if (op->kind == SIM_GUEST) {
        guest_ask(op);
        return;
    }
    world_wait(c);
    if (op->kind != SIM_AGAIN || c->ask.id_count == 0) {
        c->ask.mark_count = 0;
        build(c, op);
    }
    push(c, op);
}

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

/* Half of them by `mem set`, which takes what is over at once; the others wait for a gate. */
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
    bool now = op->client % 2 == 1;
    enum err err = now ? command(COMMAND_SET, n->name, text)
                       : budget_graph_cap(&micro.graph, node, cap);
    if (err != OK) CHECK_EQ(n->cap_bytes, before);      /* refused: under a reserve */
    else if (now && idle()) CHECK(n->used_bytes <= MAX(n->cap_bytes, fixed_bytes()));
    world.capped_number = micro.graph.history.count;
}

static void clear_all(void) { CHECK_OK(command(COMMAND_CLEAR, "", "")); }

static void forget(const struct sim_op *op)
{
    u64 session = world.client[op->client].session;
    bool all = op->salt % 2 == 0;
    for (u32 i = 0; i < SIM_ALL; i++)
        if (all || world.client[i].session == session) world.client[i].forgotten = true;
    if (all) clear_all();
    else tier_clear((const u64[2]){ session, session });
}

static void befall(const struct sim_op *op)
{
    if (op->kind == SIM_CAP) {
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
        { "#", VOCAB_TEXT },
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
    struct micro_setup s = world_setups[setup % COUNT_OF(world_setups)];
    s.dir = world_dir;
    s.ctx = SIM_CTX;
    if (s.block_rows == 0) s.block_rows = 4;
    if (s.grid_rows == 0) s.grid_rows = 16;
    s.pool_bytes = 8 * MIB;
    s.wrap = world_wrap;
    memset(&world, 0, sizeof world);
    world.now_us = 1000000;
    clock_set(world.now_us, 1);
    for (u32 i = 0; i < SIM_ALL; i++) world.client[i].session = i + 1;
    micro_open(&s);
    open_vocab();
    micro.profile.end_align_reasoning = setup % 4 == 3 ? ALIGN_OFF : ALIGN_ON;
    world.pressed = s.kv_rows > 0;
    if (!forward_row_invariant()) world.bound = skew_bound();
}

/* All turns end, everything is forgotten, and every block and section set is free again. */
static void world_close(void)
{
    for (u32 i = 0; i < SIM_ALL; i++) world_wait(&world.client[i]);
    check_records(true);
    space_host_fail_commit(0);
    clear_all();
    world_pass();
    CHECK_EQ(record_count(), 0);
    CHECK_EQ(arena_blocks_used(state_blocks_arena()), 0);
    CHECK_EQ(arena_slots_used(state_sections_arena()), 0);
    arena_check();
    slot_check();
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
