/* tests/http/suffix_turns.c - the suffix store behind the engine: what turns leave in it, what it
 * drafts for later ones, and that no answer ever differs for it. */
#include "tests/restarts.h"

#include "tiers/suffix/lookup.h"

static struct micro_ask plain;

static const struct micro_setup with_store = {
    .slot_count = 1, .draft = DRAFT_LOOKUP, .suffix_bytes = 48 * 256 * sizeof(u32) };

static u32 match_of(const u32 *ids, u64 count)
{
    u32 out[1], match;
    lookup_propose(&(struct lookup_context){ ids, count }, 1, out, &match);
    return match;
}

static void ask_command(const char *tier, const char *session, enum err want)
{
    u32 command = command_take();
    struct command_row *row = command_at(command);
    row->op = COMMAND_CLEAR;
    snprintf(row->tier, sizeof row->tier, "%s", tier);
    snprintf(row->session, sizeof row->session, "%s", session);
    command_push(command);
    while (row->state != COMMAND_DONE) engine_pass();
    CHECK_EQ(row->error, want);
    command_release(command);
}

TEST(a_turn_leaves_prompt_and_answer_and_the_next_one_what_is_new)
{
    micro_open(&with_store);
    micro_prompt(&ask, 100, 1, 20);
    micro_run(&ask);
    u64 first = suffix_log_counts().added;
    CHECK_EQ(first, 100 + ask.out_count);
    CHECK(match_of(ask.out, 12) == 12);
    micro_continue(&again, &ask, 30, 2);
    micro_run(&again);
    CHECK_EQ(suffix_log_counts().added, first + 30 + again.out_count);
    micro_run(&again);                      /* the same again: nothing, but for its answer    */
    CHECK_EQ(suffix_log_counts().added, first + 30 + again.out_count);
    ask_command("suffix", "", OK);
    CHECK_EQ(suffix_log_counts().ids, 0);
    CHECK_EQ(match_of(ask.out, 12), 0);
    ask_command("sufix", "", ERR_NOT_FOUND);
    micro_close();
}

TEST(another_conversation_is_drafted_from_the_store_and_answers_the_same)
{
    micro_open(&(struct micro_setup){ .slot_count = 1 });
    micro_prompt(&plain, 60, 3, 64);
    micro_run(&plain);
    micro_close();
    micro_open(&with_store);
    for (u64 n = 0; n < 3; n++) {           /* other heads, one tail: the same is said again  */
        micro_prompt(&ask, 60, 3, 64);
        ask.session = n;
        ask_command("resident", "", OK);
        micro_run(&ask);
        CHECK_EQ(ask.out_count, plain.out_count);
        CHECK(memcmp(ask.out, plain.out, ask.out_count * sizeof *ask.out) == 0);
        micro_equals_cold(&ask);
    }
    CHECK(lookup_counts().stored > 0);
    CHECK(suffix_log_counts().ids < 2 * (60 + plain.out_count));
    micro_close();
}

TEST(the_store_comes_back_with_the_next_start_and_forgets_a_session)
{
    u64 session[2];
    first_up(&with_store);
    micro_prompt(&ask, 90, 5, 30);
    micro_run(&ask);
    micro_prompt(&plain, 90, 6, 30);
    micro_run(&plain);
    u64 ids = suffix_log_counts().ids;
    restart();
    CHECK_EQ(suffix_log_counts().found, ids);
    CHECK(suffix_log_counts().files);
    settle();
    CHECK_EQ(match_of(ask.ids + 40, 10), 10);
    CHECK_EQ(match_of(plain.ids + 40, 10), 10);
    session[0] = session[1] = 5;
    CHECK(suffix_log_clear(session) > 0);
    restart();
    settle();
    CHECK(match_of(ask.ids + 40, 10) < 10);
    CHECK_EQ(match_of(plain.ids + 40, 10), 10);
    ask_command("all", "", OK);
    restart();
    CHECK_EQ(suffix_log_counts().ids, 0);
    last_down();
}

static u64 suffix_bytes(void)
{
    budget_graph_refresh(&micro.graph);
    return micro.graph.node[budget_graph_find(&micro.graph, "suffix")].used_bytes;
}

/* A thread has its words when the cap is lowered: it writes them, or sorts a full segment. */
TEST(a_segment_over_a_cap_goes_when_the_thread_that_had_it_is_done)
{
    for (u32 sorted = 0; sorted < 2; sorted++) {
        first_up(&with_store);
        micro_prompt(&ask, sorted ? 220 : 100, 9, sorted ? 30 : 8);
        free(micro_command(COMMAND_SET, "0", "anchors"));
        micro_run(&ask);
        if (sorted) engine_pass();                      /* written; sorting begins            */
        u32 row = segment_next(0);
        CHECK(segment_at(row)->holds == 1 && segment_at(row)->building == (sorted == 1));
        char *text = micro_command(COMMAND_SET, "0", "caches");
        CHECK(text != NULL && strstr(text, "over until") != NULL);
        free(text);
        CHECK(suffix_bytes() > 0 && segment_at(row)->holds == 0);
        engine_pass();
        CHECK_EQ(suffix_bytes(), 0);
        last_down();
    }
}

TEST(live_rows_take_segments_when_the_board_is_full)
{
    micro_open(&(struct micro_setup){ .slot_count = 1, .draft = DRAFT_LOOKUP,
                                      .suffix_bytes = 64 * MIB });
    micro_prompt(&ask, 20, 7, 2);
    micro_run(&ask);
    settle();
    struct budget_node *node = micro.graph.node;
    u32 suffix = budget_graph_find(&micro.graph, "suffix"), board = 0;
    while (node[board].parent != NONE) board++;
    budget_graph_refresh(&micro.graph);
    CHECK(node[suffix].used_bytes > 0);
    CHECK_OK(budget_graph_cap(&micro.graph, board, node[board].used_bytes));
    micro_prompt(&again, 480, 8, 8);
    micro_run(&again);
    CHECK_EQ(again.result.finish, FINISH_LENGTH);
    micro_equals_cold(&again);
    CHECK(suffix_log_counts().yielded > 0);
    CHECK(suffix_log_counts().refused > 0 || suffix_log_counts().memory_refused > 0);
    micro_close();
}
