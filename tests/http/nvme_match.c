/* tests/http/nvme_match.c - restores beside what is in memory already: others that came from disk
 * in the same pass. */
#include "tests/restarts.h"

static struct micro_ask other;

static const u64 none = UINT64_MAX;             /* rows of a class that is off                   */

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
