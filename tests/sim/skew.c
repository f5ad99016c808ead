/* tests/sim/skew.c - the same clients on a backend whose bits depend on the number of rows: starts
 * from cold lines by memcmp, session resumes to a bound on their logits (tiers.md 1.3). */
#include "tests/sim/seeds.h"
#include "tests/skew.h"

enum { SEEDS = 40, TURNS = 60 };

TEST(products_of_the_skew_backend_depend_on_the_number_of_rows)
{
    u32 ids[40];
    f32 alone[64], together[64];
    world_dir = micromodel_dir();
    world_wrap = skew_wrap;
    world_open(0);
    for (u32 i = 0; i < COUNT_OF(ids); i++) ids[i] = 4 + i;
    spare_start(COUNT_OF(ids));
    spare_to(ids, COUNT_OF(ids), together);
    spare_start(COUNT_OF(ids));
    for (u32 i = 0; i < COUNT_OF(ids); i++) CHECK_OK(forward_chunk(spare(), ids + i, 1, alone));
    CHECK(memcmp(alone, together, sizeof alone) != 0);
    fprintf(stderr, "bound %g\n", (f64)world.bound);
    CHECK(world.bound > 0.0f);
    slot_drop(spare());
    micro_close();
}

TEST(a_line_is_exact_and_a_session_resume_is_near_on_a_skewed_backend)
{
    struct sim_sum sum = { 0 };
    world_dir = micromodel_dir();
    world_wrap = skew_wrap;
    u64 failed = seeds_run(0, SEEDS, TURNS, &sum);
    seeds_report(&sum, 1);
    CHECK_EQ(failed, SEEDS);
    CHECK(sum.source[SOURCE_GRID] > 100 && sum.bounded > 100);
}
