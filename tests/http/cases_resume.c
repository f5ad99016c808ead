/* tests/http/cases_resume.c - K01-K09, K13, K14, K19: hybrid state resumes at all, at the right
 * place, and exactly. */
#include "tests/http/cases.h"

#include "arena/base/jsontext.h"

TEST(K01_the_second_turn_reads_its_new_line_and_the_last_id_of_the_answer)
{
    cases_open((struct micro_setup){ 0 });
    micro_prompt(&a, K01_PROMPT, 1, 20);
    CASE_RUN(&a, SOURCE_COLD, 0);
    micro_continue(&b, &a, 12, 2);
    CASE_RUN(&b, SOURCE_END, a.id_count + a.result.generated - 1);
    CHECK_EQ(b.result.reason, REASON_NONE);
    micro_close();
}

TEST(K02_six_turns_under_one_line_each_resume_and_drop_no_anchor)
{
    cases_open((struct micro_setup){ .grid_rows = K02_GRID });
    micro_prompt(&a, K02_PROMPT, 3, 4);
    CASE_RUN(&a, SOURCE_COLD, 0);
    for (u32 turn = 2; turn <= 6; turn++) {
        u64 total = a.id_count + a.result.generated;
        micro_continue(&a, &a, K02_MORE, turn);
        CASE_RUN(&a, SOURCE_END, total - 1);
    }
    CHECK(a.id_count + a.out_count < K02_GRID);
    CHECK_EQ(resident_counts().replaced, 0);
    CHECK_EQ(resident_counts().refused, 0);
    CHECK_EQ(resident_counts().yielded, 0);
    micro_close();
}

TEST(K03_a_date_at_the_end_costs_what_stands_behind_the_last_line)
{
    cases_open((struct micro_setup){ 0 });
    micro_prompt(&a, K03_LINES * G + 5, 4, 3);
    CASE_RUN(&a, SOURCE_COLD, 0);
    for (u32 date = 2; date <= 3; date++) {
        b = a;
        for (u64 i = K03_LINES * G; i < b.id_count; i++) b.ids[i] = 4 + 10 * date + (u32)i % 5;
        CASE_RUN(&b, SOURCE_GRID, K03_LINES * G);
        CHECK_EQ(b.result.reason, REASON_PARTED);
    }
    micro_prompt(&a, G - 3, 5, 3);              /* below one line: cold is right, and it says so */
    CASE_RUN(&a, SOURCE_COLD, 0);
    alter(&a, G - 6);
    CASE_RUN(&a, SOURCE_COLD, 0);
    CHECK_EQ(a.result.reason, REASON_SHORT);
    CHECK_EQ(a.result.part_pos, G - 6);
    micro_close();
}

/* The stats list the anchors of the conversation used last: where each stands, and its kind. */
static void anchors_are_told(u32 slot)
{
    static const char *const kind[ANCHOR_KIND_COUNT] = { "free", "grid", "turn", "end" };
    struct anchor_list list = record_anchors(resident_record(slot));
    struct jsontext json, talk, anchor;
    struct jsontext_walk talks, anchors;
    char *text = micro_command(COMMAND_STATS, "", "");
    u64 pos, rows;
    u32 i = 0;
    CHECK_OK(jsontext_open(text, strlen(text), 64, &json));
    jsontext_walk(&talks, jsontext_member(json, "conversations"));
    CHECK(jsontext_next(&talks, NULL, &talk));
    CHECK(jsontext_is(jsontext_member(talk, "held_as"), "live"));
    CHECK(jsontext_u64(jsontext_member(talk, "rows"), &rows));
    CHECK_EQ(rows, slot_row(slot)->len);
    jsontext_walk(&anchors, jsontext_member(talk, "anchors"));
    for (; jsontext_next(&anchors, NULL, &anchor); i++) {
        CHECK(i < anchors_count(&list));
        CHECK(jsontext_u64(jsontext_member(anchor, "pos"), &pos));
        CHECK_EQ(pos, list.row[i].pos);
        CHECK(jsontext_is(jsontext_member(anchor, "kind"), kind[list.row[i].kind]));
    }
    CHECK(i == anchors_count(&list) && i > ANCHOR_NEWEST);
    free(text);
}

/* What is kept of N lines with k anchors: the newest 4, the others spread by their gaps.  A change
 * anywhere reads at most twice an even spread again. */
TEST(K04_of_a_long_document_the_anchors_left_are_spread_over_it)
{
    static const u64 lines[] = { SIZE(8, 12), 40, 200 };
    for (u32 i = 0; i < K04_SIZES; i++) {
        u64 length = lines[i] * G, change = length * 3 / 4 - 5, bound;
        cases_open((struct micro_setup){ .ctx = length + 32, .anchors = K04_ANCHORS });
        micro_prompt(&a, length + 7, 6, 2);
        micro_run(&a);
        CHECK_EQ(a.result.source, SOURCE_COLD);
        anchors_are_told(a.result.slot);
        bound = lines[i] < K04_ANCHORS ? G : 2 * (length / (K04_ANCHORS - 5)) + G;
        b = a;
        alter(&b, change);
        micro_run(&b);
        CHECK(b.result.cached <= change && change - b.result.cached < bound);
        micro_equals_cold(&b);
        micro_close();
    }
}

TEST(K05_anchors_below_the_place_of_a_change_are_used_and_stay)
{
    cases_open((struct micro_setup){ 0 });
    const u64 kept = (K05_LINES - 2) * G;
    micro_prompt(&a, K05_LINES * G + 3, 7, 4);
    CASE_RUN(&a, SOURCE_COLD, 0);
    b = a;
    alter(&b, kept + 10);
    CASE_RUN(&b, SOURCE_GRID, kept);
    for (u64 line = G; line <= kept; line += G) CHECK(anchor_at(b.result.slot, line));
    micro_close();
}

TEST(K06_after_a_long_answer_the_turn_starts_behind_it)
{
    cases_open((struct micro_setup){ .ctx = 512 });
    micro_prompt(&a, K06_PROMPT, 8, 0);
    a.forced_count = 125;
    micro_random_ids(a.forced, 125, 9, 0);
    CASE_RUN(&a, SOURCE_COLD, 0);
    CHECK_EQ(a.result.generated, 125);
    micro_continue(&b, &a, 20, 10);
    CASE_RUN(&b, SOURCE_END, K06_PROMPT + 124);
    micro_close();
}

TEST(K07_in_a_tool_loop_the_start_is_the_newest_line_before_what_changed)
{
    u64 user, result = 0;
    cases_open((struct micro_setup){ .ctx = 16 * G });
    micro_prompt(&a, K07_LINES * G, 11, 3);
    user = a.id_count;
    mark(&a, user - 8, MARK_USER);
    CASE_RUN(&a, SOURCE_COLD, 0);
    for (u32 round = 1; round <= K07_ROUNDS; round++) {
        u64 total = a.id_count + a.result.generated;
        result = a.id_count + a.out_count;
        micro_continue(&a, &a, G, 11 + round);
        a.mark_count = 0;
        mark(&a, result, MARK_TOOL);
        CASE_RUN(&a, SOURCE_END, total - 1);
    }
    b = a;
    alter(&b, result + 5);
    micro_run(&b);
    CHECK(b.result.cached >= result / G * G && b.result.cached > user);
    micro_equals_cold(&b);
    micro_close();
}

TEST(K08_a_growing_talk_never_reads_its_past_again_beside_side_requests)
{
    u64 before = 0;
    cases_open((struct micro_setup){ .ctx = 1024 });
    micro_prompt(&a, K08_PROMPT, 12, 3);
    micro_run(&a);
    for (u32 turn = 2; turn <= K08_TURNS; turn++) {
        if (turn == K08_ASIDE || turn == 2 * K08_ASIDE) {
            micro_prompt(&c, 20, 1000 + turn, 4);
            CASE_RUN(&c, SOURCE_COLD, 0);
        }
        before = a.id_count;
        micro_continue(&a, &a, K08_MORE, 12 + turn);
        micro_run(&a);
        CHECK(a.result.cached >= before);
        CHECK_EQ(a.result.reason, REASON_NONE);
        if (turn % EACH == 0) micro_equals_cold(&a);
    }
    micro_close();
}

TEST(K09_the_turn_after_a_cold_read_reads_none_of_it_again)
{
    cases_open((struct micro_setup){ 0 });
    for (u64 k = 1; k <= K09_LINES; k++) {
        micro_prompt(&a, k * G + G - 1, 80 + k, 30);
        a.forced_count = 30;
        micro_random_ids(a.forced, 30, 90 + k, 0);
        CASE_RUN(&a, SOURCE_COLD, 0);
        micro_continue(&b, &a, 7, k);
        CASE_RUN(&b, SOURCE_END, k * G + G - 1 + 29);
        micro_continue(&c, &a, 7, k);
        alter(&c, a.id_count + 2);              /* the answer was edited */
        micro_run(&c);
        CHECK(c.result.cached <= a.id_count && a.id_count - c.result.cached < G);
        micro_equals_cold(&c);
    }
    micro_close();
}

TEST(K13_every_anchor_restores_the_state_that_stood_there)
{
    static const i32 beside[] = { 1, -1, 7, 3 };
    for (u32 i = 0; i < K13_SIZES; i++) {
        u64 at[64], length = K13_LINES * G + (u64)(i64)beside[i];
        cases_open((struct micro_setup){ 0 });
        micro_prompt(&a, length, 20 + i, 5);
        mark(&a, 11, MARK_HEAD);
        mark(&a, 37, MARK_USER);
        CASE_RUN(&a, SOURCE_COLD, 0);
        struct anchor_list list = record_anchors(resident_record(a.result.slot));
        u32 count = anchors_count(&list);
        CHECK(count >= length / G + 3 && count < COUNT_OF(at));
        for (u32 k = 0; k < count; k++) at[k] = list.row[k].pos;
        for (u32 k = count; k-- > 0;) {         /* newest first: a fork may cut it back there */
            if (at[k] + 1 >= a.id_count) continue;
            b = a;
            b.session = 500 + k;
            b.mark_count = 0;
            b.id_count = at[k] + 2;
            alter(&b, at[k]);
            micro_run(&b);
            CHECK_EQ(b.result.cached, at[k]);
            micro_equals_cold(&b);
        }
        micro_close();
    }
}

TEST(K14_one_token_left_to_forward_gives_the_first_token_of_a_cold_run)
{
    cases_open((struct micro_setup){ 0 });
    for (u64 k = 1; k <= K14_LINES; k++) {
        for (u64 length = k * G - 3; length <= k * G + 3; length++) {
            micro_prompt(&a, length, 300 + k, 4);
            micro_run(&a);
            if (SIZE(true, length % G == 1)) micro_equals_cold(&a);
            b = a;
            micro_run(&b);
            micro_equals_cold(&b);
            CHECK_EQ(b.result.cached, length - 1);
            CHECK_EQ(b.result.forwarded, 1);
            CHECK_EQ(a.out_count, b.out_count);
            CHECK(memcmp(a.out, b.out, a.out_count * sizeof *a.out) == 0);
            b.id_count = length - 1;
            micro_run(&b);
            micro_equals_cold(&b);
        }
    }
    micro_close();
}

TEST(K19_the_restore_point_is_never_the_whole_prompt)
{
    cases_open((struct micro_setup){ .slot_count = 1 });
    micro_prompt(&a, K19_LINES * G + 4, 40, 6);
    CASE_RUN(&a, SOURCE_COLD, 0);
    b = a;
    b.id_count--;
    micro_run(&b);
    CHECK(b.result.forwarded >= 1);
    micro_equals_cold(&b);
    c = a;
    micro_run(&c);
    CHECK(c.result.forwarded >= 1);
    micro_equals_cold(&c);
    CHECK_EQ(c.out_count, a.out_count);
    CHECK(memcmp(c.out, a.out, a.out_count * sizeof *a.out) == 0);
    micro_close();
}
