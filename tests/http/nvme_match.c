/* tests/http/nvme_match.c - restores beside what is in memory already: the record that a request
 * matched, and others that came from disk in the same pass. */
#include "tests/restarts.h"

static struct micro_ask matched, other, side;

static const u64 none = UINT64_MAX;             /* rows of a class that is off                   */

/* The record of a session's prompt, or NONE. */
static u32 record_of(const struct micro_ask *a)
{
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1))
        if (record_session(r, (const u64[2]){ a->session, a->session })) return r;
    return NONE;
}

static u32 park(void) { return budget_graph_find(&micro.graph, "park"); }

/* What a restore of so many rows is granted: its blocks, and section sets of four anchors. */
static u64 restore_bytes(u64 rows)
{
    u64 blocks = (rows + micro.set.block_rows - 1) / micro.set.block_rows;
    return blocks * arena_row(state_blocks_arena())->unit_bytes +
           NVME_UNITS * arena_row(state_sections_arena())->unit_bytes;
}

/* Its idle conversation stands aside. */
static void step_aside(const struct micro_ask *a)
{
    u32 slot = record_at(record_of(a))->slot;
    CHECK(slot != NONE);
    tier_displace(slot);
    slot_drop(slot);
    CHECK_EQ(record_at(record_of(a))->class, HOLD_PARK);
}

/* One conversation of 8 lines on disk and its next prompt in `again`; in memory, aside, an older
 * one of another session that begins with the same 3 lines. */
static void one_on_disk(u32 slots)
{
    micro_prompt(&ask, 8 * G + 5, 3, 9);
    micro_run(&ask);
    restart();
    clock_set(clock_us(), clock_wall_s());
    micro_continue(&again, &ask, 7, 4);
    micro_prompt(&matched, 5 * G, 4, 3);
    memcpy(matched.ids, ask.ids, 3 * G * sizeof *ask.ids);
    micro_run(&matched);
    step_aside(&matched);
    clock_set(clock_us() + 3600000000u, clock_wall_s() + 3600);
    CHECK_EQ(micro.set.slot_count, slots);
}

TEST(a_restore_takes_other_records_before_the_one_that_its_request_matched)
{
    first_up(&(struct micro_setup){ .slot_count = 1, .pin_rows = none, .store_rows = none });
    one_on_disk(1);
    micro_prompt(&other, 6 * G, 5, 3);
    micro_run(&other);
    step_aside(&other);
    u64 cap = aside_used(HOLD_PARK) + restore_bytes(8 * G + 13) - 1;
    CHECK_OK(budget_graph_cap(&micro.graph, park(), cap));
    micro_push(&again);
    engine_pass();
    CHECK_EQ(turn_count(TURN_LOADING), 1);
    CHECK(record_of(&matched) != NONE);
    CHECK_EQ(record_of(&other), NONE);
    micro_wait(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, 8 * G + 13);
    CHECK(record_of(&matched) != NONE);
    micro_equals_cold(&again);
    clock_run();
    last_down();
}

/* What is restored starts later than what it takes the place of. */
TEST(the_matched_record_goes_when_nothing_else_pays_for_the_restore)
{
    first_up(&(struct micro_setup){ .slot_count = 1, .pin_rows = none, .store_rows = none });
    one_on_disk(1);
    u64 cap = aside_used(HOLD_PARK) + restore_bytes(8 * G + 13) - 1;
    CHECK_OK(budget_graph_cap(&micro.graph, park(), cap));
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, 8 * G + 13);
    CHECK_EQ(record_of(&matched), NONE);
    micro_equals_cold(&again);
    clock_run();
    last_down();
}

/* As many as may be are under way: refused before memory is made for it. */
TEST(a_third_restore_beside_two_takes_nothing_and_its_turn_starts_from_the_match)
{
    first_up(&(struct micro_setup){ .slot_count = 3, .pin_rows = none, .store_rows = none });
    micro_prompt(&other, 2 * G + 5, 7, 4);
    micro_run(&other);
    micro_prompt(&side, 2 * G + 5, 8, 4);
    micro_run(&side);
    one_on_disk(3);
    micro_continue(&other, &other, 5, 4);
    micro_continue(&side, &side, 5, 4);
    u64 cap = aside_used(HOLD_PARK) + restore_bytes(8 * G + 13) - 1;
    CHECK_OK(budget_graph_cap(&micro.graph, park(), cap));
    micro_push(&other);
    micro_push(&side);
    micro_push(&again);
    engine_pass();
    CHECK_EQ(turn_count(TURN_LOADING), 2);
    CHECK(record_of(&matched) != NONE);
    micro_wait(&again);
    micro_wait(&other);
    micro_wait(&side);
    CHECK_EQ(again.result.source, SOURCE_PARK);
    CHECK_EQ(again.result.cached, 3 * G);
    CHECK(other.result.source == SOURCE_SPILL && side.result.source == SOURCE_SPILL);
    micro_equals_cold(&again);
    micro_equals_cold(&other);
    micro_equals_cold(&side);
    clock_run();
    last_down();
}

/* Both are more than the park may hold: lent until their turns have them. */
TEST(two_restores_answered_in_one_pass_are_both_there_for_their_turns)
{
    first_up(&(struct micro_setup){ .slot_count = 2, .park_rows = none, .pin_rows = none,
                                    .store_rows = none });
    micro_prompt(&ask, 6 * G + 5, 3, 9);
    micro_run(&ask);
    micro_prompt(&other, 5 * G + 5, 7, 9);
    micro_run(&other);
    restart();
    micro_continue(&again, &ask, 7, 4);
    micro_continue(&other, &other, 7, 4);
    micro_push(&again);
    micro_push(&other);
    engine_pass();
    CHECK_EQ(turn_count(TURN_LOADING), 2);
    micro_wait(&again);
    micro_wait(&other);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(other.result.source, SOURCE_SPILL);
    CHECK_EQ(spill_counts().restored, 2);               /* none was read twice               */
    micro_equals_cold(&again);
    micro_equals_cold(&other);
    settle();
    CHECK_EQ(aside_used(HOLD_PARK), 0);
    last_down();
}
