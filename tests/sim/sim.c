/* tests/sim/sim.c - the simulator: seeds of random clients, each turn equal to its cold run.
 *
 *   SIM_SEEDS=lo-hi   seeds [lo, hi), default 0-200      SIM_TURNS   turns a seed, default 60
 *   SIM_REPLAY='setup 0; grow 0 at 0 new 5 ...'          one script, as a failing seed prints it */
#include "tests/sim/seeds.h"

#include <time.h>

enum { SEEDS = 200, TURNS = 60 };

/* Of longer runs, those that found something. */
static const u16 found[] = { 406, 1317, 1902, 2305, 2432, 2644, 3076, 3215, 3222, 3641, 4203, 4422,
                               4765, 5643, 7673, 8726, 9544, 11769 };

static f64 seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (f64)t.tv_sec + (f64)t.tv_nsec * 1e-9;
}

TEST(every_turn_of_every_seed_equals_its_cold_run)
{
    const char *range = getenv("SIM_SEEDS"), *turns = getenv("SIM_TURNS");
    struct sim_sum sum = { 0 };
    ull lo = 0, hi = SEEDS;
    if (getenv("SIM_REPLAY") != NULL) test_skip("SIM_REPLAY is set");
    if (range != NULL) CHECK(sscanf(range, "%llu-%llu", &lo, &hi) == 2 && lo < hi);
    world_dir = micromodel_draft_dir();
    f64 started = seconds();
    u64 failed = seeds_run(lo, hi, turns == NULL ? TURNS : (u32)atoi(turns), &sum);
    seeds_report(&sum, seconds() - started);
    CHECK_EQ(failed, hi);
    if (range != NULL || turns != NULL) return;
    for (u32 i = 0; i <= SOURCE_STORE; i++) CHECK(sum.source[i] > 100);
    CHECK(sum.source[SOURCE_RESPONSE] > 0);
    CHECK(sum.cancelled > 100 && sum.refused > 0 && sum.by_memory > 0);
    CHECK(sum.accepted > 2000 && sum.drafted - sum.accepted > 2000);
    CHECK(sum.turns + sum.lost >= SEEDS * TURNS);
    CHECK(sum.source[SOURCE_SPILL] > 100 && sum.source[SOURCE_DISK] > 50);
    CHECK(sum.restarts > 100 && sum.kills > 50 && sum.switches > 10 && sum.files_back > 0);
    CHECK(sum.kept > 10 && sum.saved > 100 && sum.hidden_back > 20);
    CHECK(sum.io_faults > 100 && sum.rotten > 100 && sum.calls > 100 && sum.sampled > 1000);
}

TEST(seeds_that_found_something_hold)
{
    struct sim_sum sum = { 0 };
    if (getenv("SIM_SEEDS") != NULL || getenv("SIM_REPLAY") != NULL) test_skip("another run");
    world_dir = micromodel_draft_dir();
    for (u32 i = 0; i < COUNT_OF(found); i++)
        CHECK_EQ(seeds_run(found[i], found[i] + 1u, TURNS, &sum), found[i] + 1u);
    CHECK(sum.turns + sum.lost >= COUNT_OF(found) * TURNS);
}

TEST(a_script_is_read_back_as_it_was_printed)
{
    static struct sim_script a, b;
    static char text[SIM_TEXT_BYTES];
    script_draw(&a, 7, WORLD_SETUPS, 60);
    script_print(&a, text, sizeof text);
    CHECK(script_read(text, &b));
    CHECK_EQ(a.count, b.count);
    CHECK_EQ(a.setup, b.setup);
    CHECK(memcmp(a.op, b.op, a.count * sizeof a.op[0]) == 0);
    CHECK(!script_read("setup 1; dance 0 at 1", &b));
}

TEST(a_script_given_by_hand_holds)
{
    static struct sim_script script;
    const char *text = getenv("SIM_REPLAY");
    struct sim_sum sum;
    if (text == NULL) text = "setup 1; grow 0 at 0 new 30 gen 4 wait 99 abort 0 salt 1; "
                             "again 0 at 0 new 1 gen 4 wait 99 abort 0 salt 2";
    CHECK(script_read(text, &script));
    world_dir = micromodel_draft_dir();
    if (!seeds_hold(&script, false, &sum)) {
        seeds_shrink(&script);
        seeds_print(&script);
        CHECK(seeds_hold(&script, false, &sum));
    }
}
