/* tests/http/turn_caps.c - caps changed while turns come and go: no bit changes, every limit holds
 * whenever one looks, a cap of 0 holds nothing. */
#include "tests/micro.h"

#include <stdio.h>

enum { CAPS_TALKS = 4, CAPS_TURNS = 45 };

static const char *const nodes[] = { "anchors", "stash", "pin", "park", "store", "caches", "aside",
                                     "kv", "board" };

static struct micro_ask talk[CAPS_TALKS];
static u64 seed, drawn, samples, hits, kept[HOLD_COUNT], dropped[HOLD_COUNT];

static u64 roll(u64 below)
{
    return rng_u64(seed, drawn++) % below;
}

/* Every node within its cap, but those that running turns were over when it was lowered. */
static void sample(bool idle)
{
    struct budget_graph *g = &micro.graph;
    budget_graph_refresh(g);
    for (u32 n = 0; n < g->node_count; n++) {
        const struct budget_node *node = &g->node[n];
        if (node->over && !idle) continue;
        if (node->used_bytes > node->cap_bytes)
            test_failed(__FILE__, __LINE__, "%s: %llu bytes used, its cap is %llu%s", node->name,
                        (ull)node->used_bytes, (ull)node->cap_bytes, idle ? ", nothing runs" : "");
    }
    if (!g->node[0].over) CHECK(micro_committed(false) <= g->node[0].cap_bytes);
    samples++;
}

/* The set command, as the admin's side asks it; the error of the answer. */
static enum err set(const char *node, u64 cap_bytes)
{
    u32 command = command_take();
    CHECK(command != NONE);
    struct command_row *row = command_at(command);
    row->op = COMMAND_SET;
    snprintf(row->tier, sizeof row->tier, "%s", node);
    if (cap_bytes == UINT64_MAX) snprintf(row->session, sizeof row->session, "none");
    else snprintf(row->session, sizeof row->session, "%llu", (ull)cap_bytes);
    command_push(command);
    engine_pass();
    CHECK_EQ(row->state, COMMAND_DONE);
    enum err error = row->error;
    command_release(command);
    return error;
}

static bool running(void)
{
    return turn_next(0) != NONE || submit_queued() > 0;
}

static void wait_all(struct micro_ask *a)
{
    for (u32 rounds = 0; !micro_poll(a); rounds++) {
        engine_pass();
        sample(false);
        CHECK(rounds < 20000);
    }
}

/* A cap of 0, of one entry or unit, any, or none again. */
static void change(u32 kind)
{
    struct budget_graph *g = &micro.graph;
    u32 which = (u32)roll(COUNT_OF(nodes)), node = budget_graph_find(g, nodes[which]);
    if (node == NONE) return;
    const struct budget_node *n = &g->node[node];
    u64 unit = MAX(n->unit_bytes, 4096), cap = n->first_cap_bytes;
    bool live = which >= 7;
    if (kind == 0) cap = 0;
    else if (kind == 1) cap = unit;
    else if (kind == 2) cap = roll(12) * unit;
    u64 fixed = which == 8 ? micro_committed(true) : 0;
    if (live && kind < 3) cap = fixed + roll(n->used_bytes - fixed + 65536);
    enum err error = set(nodes[which], cap);
    CHECK(error == OK || error == ERR_CONFIG);
    if (error == ERR_CONFIG) return;            /* under the reserves of what stands below it */
    CHECK_EQ(g->node[node].cap_bytes, cap);
    if (!running() && which < 7) {
        budget_graph_refresh(g);
        CHECK(g->node[node].used_bytes <= cap);
    }
}

/* A guest's slot is empty again when it is done: its ids are what can be compared. */
static void check_turn(const struct micro_ask *a)
{
    if (a->result.slot == resident_guest_slot() && a->result.slot != NONE) return;
    if (a->result.finish == FINISH_ERROR) {
        CHECK_EQ(a->result.error, ERR_MEMORY);
        return;
    }
    micro_equals_cold(a);
}

/* Commits of a cold reference are not the engine's: no cap binds them. */
static void check_bits(const struct micro_ask *a)
{
    struct budget_node *board = &micro.graph.node[0];
    u64 cap = board->cap_bytes;
    board->cap_bytes = UINT64_MAX / 4;
    check_turn(a);
    for (u32 i = 0; i < arena_count(); i++)
        if (arena_row(i)->kind == ARENA_BLOCKS || arena_row(i)->kind == ARENA_SLOTS)
            arena_trim(i, 0);
    board->cap_bytes = cap;
    budget_graph_refresh(&micro.graph);
    board->over = board->used_bytes > cap;
}

static void run_talks(u64 number, u32 slots, u32 *refused)
{
    seed = number;
    drawn = 0;
    micro_open(&(struct micro_setup){ .slot_count = slots, .ctx = 400, .anchors = 24,
        .guest = number % 2 == 0, .stash_rows = 160, .pin_rows = 96, .park_rows = 400,
        .store_rows = 240, .entry_rows = 160 });
    memset(talk, 0, sizeof talk);
    for (u32 turn = 0; turn < CAPS_TURNS; turn++) {
        struct micro_ask *a = &talk[roll(CAPS_TALKS)];
        bool fresh = a->id_count == 0 || a->id_count + a->out_count + 30 > 380 || roll(9) == 0;
        if (fresh) micro_prompt(a, 20 + roll(120), number * 1000 + turn, 1 + roll(12));
        else if (roll(5) != 0) micro_continue(a, a, 1 + roll(30), number * 1000 + turn);
        if (roll(2) == 0) change((u32)roll(5));
        micro_push(a);
        for (u32 pass = (u32)roll(6); pass > 0 && roll(3) == 0; pass--) {
            engine_pass();
            sample(false);
            if (roll(3) == 0) change((u32)roll(5));     /* in the middle of a turn           */
        }
        wait_all(a);
        *refused += a->result.finish == FINISH_ERROR;
        check_bits(a);
        if (a->result.finish == FINISH_ERROR) {
            a->id_count = 0;
            CHECK_OK(set("kv", UINT64_MAX));
            CHECK_OK(set("board", UINT64_MAX / 4));
        }
        hits += a->result.cached > 0;
        engine_pass();                          /* what the turn was over goes with it       */
        sample(!running());
    }
    for (u32 c = 0; c < HOLD_COUNT; c++) {
        kept[c] += aside_counts()->kept[c];
        dropped[c] += aside_counts()->dropped[c] + aside_counts()->yielded[c];
    }
    micro_close();
}

TEST(caps_changed_between_turns_and_within_them_change_no_bit)
{
    u32 refused = 0;
    samples = 0;
    for (u64 n = 1; n <= 6; n++) run_talks(n, 1 + (u32)n % 3, &refused);
    printf("kept and dropped: pins %llu, %llu, parks %llu, %llu, store %llu, %llu\n",
           (ull)kept[HOLD_PIN], (ull)dropped[HOLD_PIN], (ull)kept[HOLD_PARK],
           (ull)dropped[HOLD_PARK], (ull)kept[HOLD_STORE], (ull)dropped[HOLD_STORE]);
    CHECK(kept[HOLD_PARK] > 50 && kept[HOLD_STORE] > 5 && dropped[HOLD_PARK] > 5);
    printf("%u turns, %u refused, %llu resumed, limits looked at %llu times\n", 6 * CAPS_TURNS,
           refused, (ull)hits, (ull)samples);
    CHECK(refused < 6 * CAPS_TURNS / 4 && samples > 1000);
}

TEST(a_cap_of_0_gives_everything_back_and_holds_nothing)
{
    struct budget_graph *g;
    micro_open(&(struct micro_setup){ .slot_count = 2, .ctx = 400 });
    g = &micro.graph;
    u32 anchors = budget_graph_find(g, "anchors");
    micro_prompt(&talk[0], 200, 5, 4);
    micro_run(&talk[0]);
    budget_graph_refresh(g);
    CHECK(g->node[anchors].used_bytes > 0);
    CHECK_OK(set("anchors", 0));
    CHECK_EQ(g->node[anchors].used_bytes, 0);
    CHECK_EQ(g->node[anchors].reserve_bytes, 0);
    const struct gate_row *row = budget_history_row(&g->history, 0);
    CHECK(row->kind == GATE_SET && row->cap_node == anchors && row->cap_bytes == 0);
    CHECK(row->victim_count > 0 && row->squeezed_count == row->victim_count);
    micro_continue(&talk[1], &talk[0], 70, 6);
    micro_push(&talk[1]);
    for (u32 rounds = 0; !micro_poll(&talk[1]); rounds++) {
        engine_pass();
        budget_graph_refresh(g);
        CHECK_EQ(g->node[anchors].used_bytes, 0);
        CHECK(rounds < 1000);
    }
    micro_equals_cold(&talk[1]);
    CHECK_OK(set("anchors", g->node[anchors].first_cap_bytes));
    CHECK_EQ(g->node[anchors].reserve_bytes, g->node[anchors].asked_bytes);
    micro_continue(&talk[1], &talk[1], 70, 7);
    micro_run(&talk[1]);
    micro_equals_cold(&talk[1]);
    budget_graph_refresh(g);
    CHECK(g->node[anchors].used_bytes > 0);
    micro_close();
}

TEST(a_cap_is_refused_with_the_nearest_name_or_the_reserve_it_is_under)
{
    micro_open(&(struct micro_setup){ .slot_count = 1 });
    CHECK_EQ(set("anchor", 1), ERR_NOT_FOUND);
    CHECK(strstr(err_last()->text, "nearest is anchors") != NULL);
    CHECK_EQ(set("caches", 0), ERR_CONFIG);
    CHECK(strstr(err_last()->text, "reserves below caches") != NULL);
    CHECK_OK(set("anchors", 0));
    CHECK_OK(set("caches", 0));
    CHECK_OK(set("caches", UINT64_MAX));
    micro_close();
}

TEST(a_live_cap_gives_idle_conversations_up_and_running_ones_end_with_length)
{
    struct budget_graph *g;
    micro_open(&(struct micro_setup){ .slot_count = 2, .ctx = 400, .reserve_tokens = 8 });
    g = &micro.graph;
    u32 kv = budget_graph_find(g, "kv");
    micro_prompt(&talk[0], 200, 8, 4);
    micro_run(&talk[0]);
    micro_prompt(&talk[1], 100, 9, 200);
    micro_push(&talk[1]);
    while (submit_at(talk[1].submit)->state != SUBMIT_DECODE) engine_pass();
    budget_graph_refresh(g);
    u64 block = g->node[kv].unit_bytes, before = g->node[kv].used_bytes;
    CHECK_OK(set("kv", before - 20 * block));           /* the idle one pays                 */
    CHECK(g->node[kv].used_bytes <= before - 20 * block && !g->node[kv].over);
    CHECK_OK(set("kv", block));
    CHECK(g->node[kv].over);                            /* what runs keeps its rows          */
    wait_all(&talk[1]);
    CHECK(talk[1].result.finish == FINISH_LENGTH && talk[1].result.by_memory);
    micro_equals_cold(&talk[1]);
    micro_close();
}

TEST(gates_of_a_seed_fail_commits_and_change_caps_and_no_bit)
{
    u32 refused = 0;
    micro_open(&(struct micro_setup){ .slot_count = 2, .ctx = 400, .anchors = 24 });
    micro.graph.hook_seed = 17;
    seed = 3;
    drawn = 0;
    memset(talk, 0, sizeof talk);
    for (u32 turn = 0; turn < 60; turn++) {
        struct micro_ask *a = &talk[roll(CAPS_TALKS)];
        bool fresh = a->id_count == 0 || a->id_count + a->out_count + 30 > 380;
        if (fresh) micro_prompt(a, 20 + roll(120), 70000 + turn, 1 + roll(12));
        else micro_continue(a, a, 1 + roll(30), 70000 + turn);
        micro_push(a);
        wait_all(a);
        refused += a->result.finish == FINISH_ERROR;
        check_turn(a);
        if (a->result.finish == FINISH_ERROR) a->id_count = 0;
    }
    CHECK(micro.graph.hook_draws >= 60 && refused < 10);
    printf("%llu draws, %u of 60 turns refused\n", (ull)micro.graph.hook_draws, refused);
    micro_close();
}
