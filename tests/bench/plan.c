/* tests/bench/plan.c - microseconds of budget_plan with 64 nodes and 4,096 records.
 *
 *   ./build.sh test bench/plan && cat build/logs/bench_plan.log
 *
 * The best of some thousand calls a figure.  The bound asked of it is 50 us. */
#include "arena/base/rng.h"
#include "budget/plan.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LEAVES = 59, ROUNDS = 2000 };

static struct budget_graph g;
static struct budget_tables t;
static struct budget_record records[BUDGET_RECORD_CAP];
static struct budget_want wants[BUDGET_WANT_CAP];
static struct budget_plan plan;
static struct budget_scratch scratch;

static f64 now_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return 1e6 * (f64)at.tv_sec + 1e-3 * (f64)at.tv_nsec;
}

static u64 yield_nothing(void *owner, const u32 *list, u32 count)
{
    (void)owner; (void)list; (void)count;
    return 0;
}

/* 64 nodes: five inner or live, 59 caches of 64 MiB filled by 4,096 records of 512 KiB to 1 MiB. */
static void make(u32 record_count)
{
    struct profile_row profile;
    memset(&g, 0, sizeof g);
    profile_defaults(&profile);
    profile.board_bytes = 16 * GIB;
    profile.cache_budget_bytes = 8 * GIB;
    CHECK_OK(budget_graph_board(&g, &profile));
    g.node_count -= 2;                                  /* free and books: no arenas here    */
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "kv", .parent = "live", .node_class = CLASS_LIVE, .used = USED_COUNT,
        .cap_bytes = UINT64_MAX }, NULL));
    for (u32 i = 0; i < LEAVES; i++) {
        char name[16];
        snprintf(name, sizeof name, "cache%u", i);
        CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
            .name = name, .parent = "caches", .node_class = CLASS_CACHE, .used = USED_COUNT,
            .cap_bytes = GIB, .unit_bytes = 65536, .yield = yield_nothing }, NULL));
        CHECK_OK(budget_graph_edge(&g, "live", name, 1 + i % 7));
    }
    for (u32 i = 0; i < record_count; i++) {
        u32 node = 5 + i % LEAVES;
        u64 freed = 512 * KIB + rng_u64(1, i) % (512 * KIB);
        records[i] = (struct budget_record){ .node = node, .record = i, .arena = NONE,
                                             .value = (f64)(rng_u64(2, i) % 100000),
                                             .freed_bytes = freed };
        budget_graph_count(&g, node, g.node[node].count_bytes + freed);
    }
    CHECK_OK(budget_graph_check(&g));
    CHECK_EQ(g.node_count, BUDGET_NODE_CAP);
    memset(&t, 0, sizeof t);
    t.graph = &g;
    t.free_bytes = 2 * GIB + g.floor_bytes;
}

static f64 best_us(u32 want_count, u32 record_count)
{
    f64 best = 1e9;
    for (u32 i = 0; i < ROUNDS; i++) {
        f64 from = now_us();
        budget_plan(&t, wants, want_count, records, record_count, NULL, &scratch, &plan);
        f64 took = now_us() - from;
        best = MIN(best, took);
    }
    return best;
}

TEST(a_plan_of_64_nodes_and_4096_records_in_microseconds)
{
    make(BUDGET_RECORD_CAP);
    wants[0] = (struct budget_want){ .node = 4, .arena = NONE, .must = true,
                                     .min_bytes = GIB, .max_bytes = GIB };
    f64 fits = best_us(1, BUDGET_RECORD_CAP);
    CHECK(!plan.refused && plan.victim_count == 0);
    wants[0].min_bytes = wants[0].max_bytes = 2 * GIB + 8 * MIB;
    f64 few = best_us(1, BUDGET_RECORD_CAP);
    u32 few_victims = plan.victim_count;
    wants[0].min_bytes = wants[0].max_bytes = 2 * GIB + 256 * MIB;
    f64 many = best_us(1, BUDGET_RECORD_CAP);
    u32 many_victims = plan.victim_count;
    for (u32 i = 1; i < 9; i++)
        wants[i] = (struct budget_want){ .node = 4 + i, .arena = NONE, .max_bytes = 64 * MIB,
                                         .unit_bytes = 65536, .value = (f64)i };
    wants[0].min_bytes = wants[0].max_bytes = GIB;
    f64 mays = best_us(9, BUDGET_RECORD_CAP);
    wants[0].min_bytes = wants[0].max_bytes = 64 * GIB;
    f64 refused = best_us(1, BUDGET_RECORD_CAP);
    CHECK(plan.refused);
    printf("a must that fits              %8.1f us\n", fits);
    printf("the same and 8 may-wants      %8.1f us\n", mays);
    printf("a must with %4u victims      %8.1f us\n", few_victims, few);
    printf("a must with %4u victims      %8.1f us\n", many_victims, many);
    printf("a must refused, all were tried %7.1f us\n", refused);
}
