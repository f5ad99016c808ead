/* tests/http/cases_memory.c - K36, K41, K44, K46-K48: what happens when memory is short, a client
 * leaves or adds a line, and that every byte and refusal is told. */
#include "tests/http/cases.h"
#include "tests/skew.h"

#include <unistd.h>

static u64 blocks_bytes(u64 rows)
{
    return (rows + B - 1) / B * arena_row(state_blocks_arena())->unit_bytes;
}

static u64 anchors_bytes(void)
{
    return arena_row(state_sections_arena())->held.bytes[HOLD_ANCHOR];
}

/* A prompt of 60 and 20 tokens reserved need 79 rows; the budget has 76 (B = 4). */
TEST(K36_a_request_that_cannot_be_placed_is_refused_in_the_pass_that_sees_it)
{
    cases_open((struct micro_setup){ .slot_count = 1, .kv_rows = K36_ROOM, .reserve_tokens = 20 });
    micro_prompt(&a, K36_ROOM - 16, 1, 30);
    micro_push(&a);
    engine_pass();
    CHECK(micro_poll(&a));
    CHECK_EQ(a.result.finish, FINISH_ERROR);
    CHECK_EQ(a.result.error, ERR_MEMORY);
    CHECK(strlen(a.result.error_text) > 0);
    micro_prompt(&b, K36_ROOM - 19, 1, 30);               /* one row less */
    micro_run(&b);
    CHECK(b.result.finish == FINISH_LENGTH && b.result.by_memory);
    micro_equals_cold(&b);
    micro_close();
}

TEST(K36_a_turn_that_runs_out_of_rows_ends_with_length_for_memory)
{
    cases_open((struct micro_setup){ .slot_count = 1, .kv_rows = K36_ROOM, .reserve_tokens = 4 });
    micro_prompt(&a, K36_ROOM - 16, 2, 0);
    a.forced_count = 60;
    micro_random_ids(a.forced, 60, 3, 0);
    micro_run(&a);
    CHECK_EQ(a.result.finish, FINISH_LENGTH);
    CHECK(a.result.by_memory);
    CHECK(ledger_row(0)->by_memory);
    CHECK_EQ(a.id_count + a.result.generated - 1, K36_ROOM);
    micro_equals_cold(&a);
    micro_close();
}

/* A proxy adds a line to every other request that its client never sends again. */
TEST(K41_a_line_that_is_gone_in_the_next_turn_costs_less_than_a_line_of_the_grid)
{
    cases_open((struct micro_setup){ .ctx = 1024 });
    micro_prompt(&a, K41_PROMPT, 4, 3);
    micro_run(&a);
    for (u32 turn = 0; turn < K41_TURNS; turn++) {
        micro_continue(&b, &a, 9, 5 + turn);
        u64 own = b.id_count;
        b.mark_count = 0;
        mark(&b, own - 9, MARK_USER);
        if (turn % 2 == 0) {
            mark(&b, own, MARK_USER);
            for (u64 i = 0; i < 7; i++) b.ids[b.id_count++] = 7 + (u32)i;
        }
        u64 known = a.id_count + a.result.generated - 1;
        micro_run(&b);
        if (turn % 2 == 0) CHECK_EQ(b.result.cached, known);
        else CHECK(b.result.cached <= known && known - b.result.cached < G);
        micro_equals_cold(&b);
        u64 tail = b.id_count - own;            /* the client's copy is without the line */
        a = b;
        a.id_count -= tail;
        if (turn % 2 == 0) CHECK(anchor_at(b.result.slot, own));
    }
    micro_close();
}

TEST(K44_after_the_client_left_the_engine_stops_within_one_chunk)
{
    cases_open((struct micro_setup){ .ctx = (K44_LINES + 1) * G });
    micro_prompt(&a, K44_LINES * G, 6, 4);
    micro_push(&a);
    while (submit_at(a.submit)->progress < K44_STOP * G) engine_pass();
    u64 reached = submit_at(a.submit)->progress;
    submit_cancel(a.submit);
    micro_wait(&a);
    CHECK_EQ(a.result.finish, FINISH_CANCELLED);
    CHECK(a.result.cached + a.result.forwarded <= reached + G);
    CHECK(!engine_moved() || turn_next(0) == NONE);
    b = a;
    micro_run(&b);                              /* a retry starts where it was stopped */
    CHECK_EQ(b.result.cached, reached);
    micro_equals_cold(&b);
    micro_close();
}

/* The anchors' cap at every sample, for prompts that would each fill it. */
static void unique_prompts(u32 anchors)
{
    cases_open((struct micro_setup){ .anchors = anchors });
    u64 cap = micro.graph.node[resident_node()].cap_bytes;
    CHECK_EQ(cap, anchors == UINT32_MAX ? 0
                                        : anchors * arena_row(state_sections_arena())->unit_bytes);
    for (u32 i = 0; i < K46_TALKS; i++) {
        micro_prompt(&a, K46_LINES * G + i, 700 + i, 4);
        micro_push(&a);
        while (!micro_poll(&a)) {
            engine_pass();
            CHECK(anchors_bytes() <= cap);
        }
        if (SIZE(true, i + 1 == K46_TALKS)) micro_equals_cold(&a);
    }
    micro_close();
}

TEST(K46_no_sample_is_over_the_limit_and_a_limit_of_zero_holds_nothing)
{
    unique_prompts(K46_UNITS);
    unique_prompts(1);
    unique_prompts(UINT32_MAX);                 /* a cap of 0 bytes */
}

TEST(K47_what_is_held_is_what_the_arenas_say_over_a_hundred_turns)
{
    const struct arena_row *blocks, *sections;
    cases_open((struct micro_setup){ .ctx = (K47_LINES + 2) * G, .slot_count = 1 });
    blocks = arena_row(state_blocks_arena());
    sections = arena_row(state_sections_arena());
    micro_prompt(&a, G, 8, 2);
    for (u32 turn = 1; turn <= K47_LINES; turn++) {
        u64 held = 0;
        micro_run(&a);
        CHECK(a.result.cached + G + 2 >= a.id_count);
        for (u32 k = 0; k < HOLD_COUNT; k++) held += blocks->held.bytes[k];
        CHECK_EQ(held, blocks->used_bytes);
        CHECK_EQ(held, blocks_bytes(a.id_count + a.result.generated - 1));
        struct anchor_list list = record_anchors(resident_record(0));
        CHECK_EQ(anchors_bytes(), anchors_count(&list) * sections->unit_bytes);
        if (turn % SIZE(10, K47_LINES) == 0) micro_equals_cold(&a);
        micro_continue(&a, &a, G - a.out_count, 9 + turn);
    }
    micro_close();
}

/* tests/http/cases_off.sh asks the built program for every other reason. */
TEST(K48_files_of_a_backend_that_is_not_row_invariant_are_off_and_the_stats_say_so)
{
    cases_open((struct micro_setup){ .cache_dir = "build/off", .wrap = skew_wrap });
    char *text = micro_command(COMMAND_STATS, "", "");
    const char *off = strstr(text, "\"off\":[");
    CHECK(off != NULL);
    CHECK(strstr(off, "{\"tier\":\"spill\",\"why\":\"backend skew is not row-invariant") != NULL);
    CHECK(strstr(off, "{\"tier\":\"disk\",\"why\":\"backend skew is not row-invariant") != NULL);
    CHECK(strstr(off, "{\"tier\":\"resident\"") == NULL);
    CHECK(access("build/off", F_OK) != 0);
    free(text);
    micro_close();
}

TEST(K48_a_tier_that_cannot_serve_says_so_in_every_answer)
{
    cases_open((struct micro_setup){ .anchors = UINT32_MAX, .slot_count = 1 });
    micro_prompt(&a, K48_LINES * G, 10, 3);
    micro_run(&a);
    b = a;
    alter(&b, (K48_LINES - 1) * G);
    CASE_RUN(&b, SOURCE_COLD, 0);
    CHECK_EQ(b.result.reason, REASON_OFF);
    CHECK_EQ(ledger_row(0)->reason, REASON_OFF);
    CHECK_EQ(ledger_row(0)->forwarded, b.id_count);
    micro_close();
}
