/* tests/http/cases_aside.c - K30, K31, K33, K34: who may push whom out, and what stands aside. */
#include "tests/http/cases.h"

static struct micro_ask child[2];

TEST(K30_a_one_shot_between_two_turns_changes_nothing)
{
    cases_open((struct micro_setup){ .slot_count = 1, .guest = true, .ctx = 24 * G });
    micro_prompt(&a, K30_LINES * G, 1, 5);
    CASE_RUN(&a, SOURCE_COLD, 0);
    micro_prompt(&b, 53, 2, 6);
    micro_run(&b);
    CHECK(b.result.guest);
    CHECK_EQ(b.result.finish, FINISH_LENGTH);
    micro_continue(&c, &a, 9, 3);
    CASE_RUN(&c, SOURCE_END, a.id_count + a.result.generated - 1);
    micro_close();
}

TEST(K31_the_rounds_of_one_session_supersede_each_other_and_spare_the_other)
{
    cases_open((struct micro_setup){ .slot_count = 1, .ctx = 24 * G });
    micro_prompt(&a, K31_LINES * G, 4, 5);
    CASE_RUN(&a, SOURCE_COLD, 0);
    micro_prompt(&b, K31_OTHER * G, 5, 4);
    CASE_RUN(&b, SOURCE_COLD, 0);
    for (u32 round = 1; round <= K31_ROUNDS; round++) {
        u64 total = b.id_count + b.result.generated;
        micro_continue(&b, &b, 11, 5 + round);
        CASE_RUN(&b, SOURCE_END, total - 1);
    }
    u32 of_b = 0;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1))
        of_b += record_at(r)->session[0] == b.session && record_at(r)->class != HOLD_STORE;
    CHECK_EQ(of_b, 1);                          /* and its longest line in the store */
    CHECK(record_count() <= 6);
    micro_continue(&c, &a, 9, 6);
    CASE_RUN(&c, SOURCE_PARK, a.id_count + a.result.generated - 1);
    micro_close();
}

TEST(K33_a_parent_and_two_children_at_once_keep_their_own_rows)
{
    bool done[2];
    cases_open((struct micro_setup){ .slot_count = 3, .ctx = 16 * G });
    micro_prompt(&a, K33_LINES * G + 3, 7, 5);
    CASE_RUN(&a, SOURCE_COLD, 0);
    for (u32 i = 0; i < 2; i++) micro_prompt(&child[i], K33_CHILD * G, 8 + i, 4);
    for (u32 turn = 0; turn < K33_TURNS; turn++) {
        u64 before[2];
        for (u32 i = 0; i < 2; i++) {
            before[i] = turn == 0 ? 0 : child[i].id_count + child[i].result.generated - 1;
            if (turn > 0) micro_continue(&child[i], &child[i], G, 20 * turn + i);
            micro_push(&child[i]);
            done[i] = false;
        }
        for (u32 passes = 0; !done[0] || !done[1]; passes++) {
            CHECK(passes < 5000);
            engine_pass();
            for (u32 i = 0; i < 2; i++) {
                if (done[i] || !micro_poll(&child[i])) continue;
                done[i] = true;
                CHECK_EQ(child[i].result.cached, before[i]);
                micro_equals_cold(&child[i]);
            }
        }
    }
    micro_continue(&c, &a, 9, 10);
    micro_run(&c);
    CHECK(c.result.cached >= K33_LINES * G);
    micro_equals_cold(&c);
    micro_close();
}

/* Title, tags and follow-ups: an instruction, then the whole chat as text. */
TEST(K34_side_requests_with_the_instruction_first_leave_the_chat_where_it_was)
{
    cases_open((struct micro_setup){ .slot_count = 1, .guest = true, .guest_fraction = 4,
                                     .ctx = 12 * G });
    micro_prompt(&a, K34_LINES * G, 11, 5);
    CASE_RUN(&a, SOURCE_COLD, 0);
    for (u32 side = 0; side < 3; side++) {
        micro_prompt(&b, 12, 12 + side, 6);
        memcpy(b.ids + b.id_count, a.ids, a.id_count * sizeof *b.ids);
        b.id_count += a.id_count;
        micro_run(&b);
        CHECK_EQ(b.result.finish, FINISH_LENGTH);
    }
    micro_continue(&c, &a, 9, 16);
    micro_run(&c);
    CHECK_EQ(c.result.cached, a.id_count + a.result.generated - 1);
    micro_equals_cold(&c);
    micro_close();
}

/* The same without a guest slot: what was displaced is parked and comes back. */
TEST(K34_without_a_guest_slot_the_chat_comes_back_from_the_park)
{
    cases_open((struct micro_setup){ .slot_count = 1, .ctx = 12 * G });
    micro_prompt(&a, K34_LINES * G, 11, 5);
    CASE_RUN(&a, SOURCE_COLD, 0);
    micro_prompt(&b, 60, 12, 6);
    CASE_RUN(&b, SOURCE_COLD, 0);
    micro_continue(&c, &a, 9, 16);
    CASE_RUN(&c, SOURCE_PARK, a.id_count + a.result.generated - 1);
    micro_close();
}
