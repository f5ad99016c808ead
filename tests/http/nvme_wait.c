/* tests/http/nvme_wait.c - a request that needs the memory of a conversation on its way to disk
 * waits for it, for a while; decoding slots do not. */
#include "tiers/nvme/writer.h"

#define writer_step real_writer_step
bool real_writer_step(void);
#include "tiers/nvme/writer.c"
#undef writer_step

#include "tests/restarts.h"

static bool stalled;
static struct micro_ask other;

bool writer_step(void) { return stalled ? false : real_writer_step(); }

/* A board that pays for one conversation of 10 lines and half a one, and nothing stands aside. */
static void tight(u64 wait_us)
{
    struct micro_setup one = { .park_rows = UINT64_MAX, .pin_rows = UINT64_MAX,
                               .store_rows = UINT64_MAX, .anchors = 5 };
    stalled = false;
    first_up(&one);
    micro.profile.spill_wait_us = wait_us;
    micro_prompt(&ask, 10 * G, 51, 5);
    micro_run(&ask);
    struct budget_graph *g = &micro.graph;
    budget_graph_refresh(g);
    u32 board = budget_graph_find(g, "board");
    u64 half = 20 * arena_row(state_blocks_arena())->unit_bytes;
    CHECK_OK(budget_graph_cap(g, board, g->node[board].used_bytes + half));
}

static void roomy(void)
{
    struct budget_graph *g = &micro.graph;
    CHECK_OK(budget_graph_cap(g, budget_graph_find(g, "board"), UINT64_MAX / 4));
    settle();
}

TEST(a_request_waits_for_the_memory_of_a_tail_that_is_being_written)
{
    tight(0);
    micro_prompt(&other, 10 * G, 52, 5);
    micro_run(&other);
    CHECK_EQ(other.result.finish, FINISH_LENGTH);
    micro_equals_cold(&other);
    struct nvme_tails tails = *nvme_tails();
    CHECK(tails.waits >= 1 && tails.dropped == 0);
    roomy();
    micro_continue(&again, &ask, 3, 9);                 /* what was displaced is whole       */
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.forwarded, 4);
    micro_equals_cold(&again);
    last_down();
}

TEST(after_its_time_the_tail_is_dropped_and_the_request_goes_on)
{
    tight(0);
    stalled = true;
    micro_prompt(&other, 10 * G, 52, 5);
    micro_push(&other);
    for (u32 i = 0; i < 8; i++) engine_pass();
    CHECK(!micro_poll(&other));
    CHECK_EQ(nvme_tails()->waits, 1);
    clock_set(clock_us() + 6000000, clock_wall_s() + 6);
    micro_wait(&other);
    clock_run();
    CHECK_EQ(other.result.finish, FINISH_LENGTH);
    micro_equals_cold(&other);
    struct nvme_tails tails = *nvme_tails();
    CHECK_EQ(tails.waits, 1);
    CHECK_EQ(tails.dropped, 1);
    CHECK_EQ(tails.dropped_tokens, 10 * G + 4);
    stalled = false;
    roomy();
    CHECK(writer_counts().cancelled > 0);
    CHECK_EQ(pieces_counts().bad, 0);
    pieces_check();
    micro_continue(&again, &ask, 3, 9);                 /* its end is gone: a longer prefill */
    micro_run(&again);
    CHECK_EQ(again.result.finish, FINISH_LENGTH);
    micro_equals_cold(&again);
    last_down();
}
