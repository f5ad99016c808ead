/* tests/sim/clients.h - passes of the engine and the clients beside it.
 *
 * A client has ids, not text: its copy of the conversation.  The engine thread is this one: passes
 * are called one by one, the clock moves with them, so a script gives the same run every time. */
#ifndef SIM_CLIENTS_H
#define SIM_CLIENTS_H

#include "http/turn/submit.h"
#include "tests/sim/check.h"

/* ------------------------------------------------------------------ passes */

/* Blanks are what a client's JSON library puts elsewhere than the model did. */
static bool is_space(u32 id) { return id == ID_LINE || id == ID_BLANK; }

/* Where the call of these ids stands: from its tag to behind its end; false: there is no whole one.
 * Its value is what stands between the blanks. */
static bool find_call(const u32 *ids, u64 count, struct call_row *out)
{
    u64 value[2] = { 1, 1 }, lo = 0, hi;
    while (lo < count && ids[lo] != ID_CALL) lo++;
    for (hi = lo; hi < count && ids[hi] != ID_CALLED; hi++)
        if (!is_space(ids[hi])) value[0] = value[0] * 1000003 + ids[hi];
    if (hi == count) return false;
    *out = (struct call_row){ .value_hash = { value[0], value[1] }, .lo = lo, .hi = hi + 1 };
    return true;
}

/* The engine is told which ids of the answer were a call, as http/serve does. */
static void tell_call(struct client *c)
{
    struct submit_row *row = submit_at(c->ask.submit);
    if (!c->ask.memo) return;
    c->ask.memo = false;
    if (find_call(c->ask.out, c->ask.out_count, &row->made[0])) {
        row->made[0].id_hash = c->session * 1000 + c->style;
        row->made_count = 1;
        world.sum.calls++;
    }
    submit_memo(c->ask.submit);
}

/* The answer goes behind the copy, its call written in the client's own way. */
static void keep_answer(struct client *c)
{
    struct call_row call = { .lo = UINT64_MAX, .hi = 0 };
    bool called = find_call(c->ask.out, c->ask.out_count, &call);
    u64 lo = c->count;
    for (u64 i = 0; i < c->ask.out_count; i++) {
        u32 id = c->ask.out[i];
        bool inside = i > call.lo && i + 1 < call.hi;
        if (i == call.lo) lo = c->count;
        if (inside && is_space(id) && c->style % 3 > 0) continue;
        c->ids[c->count++] = id;
        if (inside && c->style % 3 == 2 && !is_space(id)) c->ids[c->count++] = ID_LINE;
        if (i + 1 == call.hi && called && c->call_count < SIM_CALLS) {
            call.id_hash = c->session * 1000 + c->style + (c->style % 7 == 6);  /* not its own */
            c->call[c->call_count++] = (struct call_row){ .id_hash = call.id_hash, .lo = lo,
                .hi = c->count, .value_hash = { call.value_hash[0], call.value_hash[1] } };
        }
    }
}

/* Calls of its last prompt are in its copy now. */
static void keep_prompt(struct client *c)
{
    c->count = c->ask.id_count - c->reminder;
    memcpy(c->ids, c->ask.ids, c->gap * sizeof *c->ids);
    memcpy(c->ids + c->gap, c->ask.ids + c->gap + c->reminder,
           (c->count - c->gap) * sizeof *c->ids);
    memcpy(c->call, c->asked, sizeof c->call);
    c->call_count = c->ask.call_count;
}

/* A file was bad that a start had found: the start reads heads, a restore every byte. */
static bool found_bad(void)
{
    const struct left *left = &world.left[world.model];
    return left->rotten || (left->flipped && reader_counts().failed > 0);
}

/* The first turn after a planned restart begins where the conversation had ended, when its prompt
 * goes on from there and memory holds it. */
static void check_awaited(struct client *c)
{
    const struct turn_result *r = &c->ask.result;
    bool whole = r->finish == FINISH_STOP || r->finish == FINISH_LENGTH;
    u64 rows = c->awaited;
    c->awaited = 0;
    if (rows == 0 || !whole || r->source == SOURCE_RESPONSE || c->ask.id_count <= rows) return;
    if (memcmp(c->ask.ids, c->rows, rows * sizeof *c->rows) != 0) return;
    world.sum.awaited++;
    world.sum.kept += r->cached >= rows;
    CHECK(r->cached >= rows || world.pressed || found_bad());
}

static void turn_over(struct client *c)
{
    const struct turn_result *r = &c->ask.result;
    c->busy = false;
    world.sum.turns++;
    tell_call(c);
    check_awaited(c);
    switch (r->finish) {
    case FINISH_STOP: case FINISH_LENGTH:
        world.sum.source[r->source]++;
        world.sum.cached += r->cached;
        world.sum.forwarded += r->forwarded;
        world.sum.by_memory += r->by_memory;
        for (u32 d = 0; d < DRAFTER_COUNT; d++) {
            world.sum.drafted += r->drafts[d].drafted;
            world.sum.accepted += r->drafts[d].accepted;
        }
        if (r->by_memory) CHECK(world.pressed);
        else if (r->source == SOURCE_RESPONSE) check_response(&c->ask);
        else CHECK(r->finish == FINISH_STOP || c->ask.out_count == c->ask.max_tokens ||
                   r->cached + r->forwarded + r->generated >= SIM_CTX);
        break;
    case FINISH_CANCELLED:
        CHECK(c->cancel_pass != UINT64_MAX || world.stopping);
        world.sum.cancelled++;
        break;
    default:
        if (!(r->error == ERR_MEMORY && world.pressed) &&
            !(r->error == ERR_CANCELLED && world.stopping))
            test_failed(__FILE__, __LINE__, "a turn failed: %s", r->error_text);
        world.sum.refused++;
    }
    if (r->slot != NONE && r->finish != FINISH_ERROR) check_turn(c);
    keep_awaited(c);
    if (r->finish == FINISH_STOP || r->finish == FINISH_LENGTH)
        world.answered[world.answered_count++ % SIM_ANSWERS] = c->ask;
    if (!c->keep) return;
    keep_prompt(c);
    if (r->finish == FINISH_STOP || r->finish == FINISH_LENGTH) keep_answer(c);
}

static bool idle(void)
{
    for (u32 i = 0; i < SIM_ALL; i++)
        if (world.client[i].busy) return false;
    return true;
}

/* Of the caches, what no gate can take: the response cache's table, what file calls hold. */
static u64 fixed_bytes(void)
{
    u32 node = budget_graph_find(&micro.graph, "response");
    u32 staging = budget_graph_find(&micro.graph, "staging");
    return (node == NONE ? 0 : micro.graph.node[node].used_bytes) +
           micro.graph.node[staging].used_bytes;
}

/* Once a turn was admitted after a change of caps and nothing runs, no node is over its own. */
static void check_caps(void)
{
    if (!idle() || micro.graph.history.count == world.capped_number) return;
    const struct gate_row *gate = budget_history_row(&micro.graph.history, 0);
    if (gate->kind != GATE_ADMIT || gate->refused_want != NONE) return;
    budget_graph_refresh(&micro.graph);
    for (u32 i = 0; i < micro.graph.node_count; i++) {
        const struct budget_node *n = &micro.graph.node[i];
        if (n->node_class != CLASS_CACHE && n->node_class != CLASS_ASIDE) continue;
        if (n->used_bytes > n->cap_bytes && n->used_bytes > fixed_bytes())
            test_failed(__FILE__, __LINE__, "node %s holds %llu of %llu bytes", n->name,
                        (ull)n->used_bytes, (ull)n->cap_bytes);
    }
}

/* File calls of the moments to come that go wrong: one after another. */
static void spoil_files(void)
{
    static const enum file_fault kinds[] = { FILE_FAULT_SHORT, FILE_FAULT_IO, FILE_FAULT_FULL,
                                             FILE_FAULT_KILL };
    if (world.io_left == 0 || file_fail_left() > 0) return;
    world.io_left--;
    world.sum.io_faults++;
    file_fail_as(1 + (u32)(rng_u64(world.io_salt, world.io_left) % 24), kinds[world.io_kind]);
    if (world.io_kind > 0) world.left[world.model].rotten = true;
}

static void set_clock(void)
{
    clock_set(world.now_us, 1e6 + (f64)world.now_us * 1e-6);
}

static void world_pass(void)
{
    spoil_files();
    for (u32 i = 0; i < SIM_ALL; i++)
        if (world.client[i].busy && world.client[i].cancel_pass == world.pass)
            submit_cancel(world.client[i].ask.submit);
    world.pass++;
    world.sum.passes++;
    world.now_us += 500;
    set_clock();
    world.running = engine_pass();
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

static void force(struct micro_ask *a, u32 id) { a->forced[a->forced_count++] = id; }

/* An answer that is a call: some text, reasoning closed before it or not, values among blanks. */
static void force_call(struct client *c, const struct sim_op *op)
{
    struct micro_ask *a = &c->ask;
    u32 values = 1 + op->count % 5u;
    c->style = op->salt;
    for (u32 i = 0; i < op->at % 4u; i++) force(a, some_id(op->salt, 300 + i));
    if (a->think_open && op->salt % 5 > 0) {
        force(a, ID_CLOSE);
        force(a, ID_BLANK);
        if (op->at % 3 == 0) force(a, some_id(op->salt, 310));
    }
    force(a, ID_CALL);
    for (u32 i = 0; i < values; i++) {
        force(a, some_id(op->salt, 320 + i));
        if ((op->at >> i) % 2 == 0) force(a, i % 2 == 0 ? ID_LINE : ID_BLANK);
    }
    force(a, ID_CALLED);
}

/* Greedy, sampled with a seed, or forced to a call. */
static void set_style(struct client *c, const struct sim_op *op)
{
    struct micro_ask *a = &c->ask;
    bool penalties = op->salt % 4 == 1;
    a->sampling = (struct sample_settings){ .temperature = op->salt % 3 == 1 ? 0.9f : 0.0f,
        .top_p = op->salt % 2 == 0 ? 1.0f : 0.8f, .top_k = op->salt % 7 == 0 ? 5 : 0,
        .min_p = op->salt % 5 == 0 ? 0.05f : 0.0f, .seed = op->salt,
        .repetition_penalty = penalties ? 1.2f : 1.0f,
        .presence_penalty = penalties ? 0.5f : 0.0f };
    a->forced_count = 0;
    if (op->kind == SIM_CALL) force_call(c, op);
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
    set_style(c, op);
    if (!c->ask.think_open) return;
    put_id(c, ID_THINK);
    put_id(c, ID_LINE);
}

/* A call of a copy stands at `lo` of the prompt. */
static void put_call(struct client *c, const struct call_row *call, u64 lo)
{
    struct call_row *to = &c->asked[c->ask.call_count++];
    *to = *call;
    to->lo = lo;
    to->hi = lo + call->hi - call->lo;
}

/* The prompt starts with the client's copy up to `pos`; calls that stand there whole with it. */
static void put_history(struct client *c, const struct client *from, u64 pos)
{
    memcpy(c->ask.ids, from->ids, pos * sizeof *c->ask.ids);
    c->ask.id_count = pos;
    for (u32 i = 0; i < from->call_count; i++)
        if (from->call[i].hi <= pos) put_call(c, &from->call[i], from->call[i].lo);
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
        c->ask.id_count = c->ask.mark_count = c->ask.call_count = 0;
        put_head(c, op->salt);
        put_message(c, op);
    }
    if (op->kind != SIM_AGAIN || op->salt % 2 == 0 || c->ask.max_tokens == 0)
        c->ask.max_tokens = MAX(op->answer, 1u);    /* else exactly the same request once more */
    if (op->kind == SIM_CALL) c->ask.max_tokens = c->ask.forced_count + 8;
    c->ask.memo = c->ask.forced_count > 0;
    c->ask.calls = c->asked;
    c->ask.session = c->session;
    c->cancel_pass = op->abort == 0 ? UINT64_MAX : world.pass + op->abort - 1;
    c->busy = true;
    c->forgotten = false;
    micro_push(&c->ask);
}

/* The client's copy without what was thought: empty blocks, or none at all. */
static void put_stripped(struct client *c, u64 salt)
{
    u32 call = 0;
    c->ask.id_count = 0;
    for (u64 i = 0; i < c->count; i++) {
        u64 close = i;
        while (call < c->call_count && c->call[call].lo < i) call++;
        if (call < c->call_count && c->call[call].lo == i)
            put_call(c, &c->call[call], c->ask.id_count);
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

/* An edit inside a call makes it another one. */
static void drop_call(struct client *c, u64 pos)
{
    u32 kept = 0;
    for (u32 i = 0; i < c->ask.call_count; i++)
        if (pos < c->asked[i].lo || pos >= c->asked[i].hi) c->asked[kept++] = c->asked[i];
    c->ask.call_count = kept;
}

/* Builds the prompt of a conversation's next turn. */
static void build(struct client *c, const struct sim_op *op)
{
    u64 pos = position(c, op->at);
    c->keep = op->kind != SIM_RECAP;
    c->ask.call_count = 0;
    switch (op->kind) {
    case SIM_EDIT:
        put_history(c, c, c->count);
        if (pos > 0) c->ask.ids[pos] = some_id(op->salt, 77);
        drop_call(c, pos);
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
    c->ask.closing_count = c->ask.call_count = 0;
    c->ask.id_count = c->ask.forced_count = c->ask.mark_count = 0;
    c->ask.sampling = (struct sample_settings){ .temperature = 0 };
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

#endif
