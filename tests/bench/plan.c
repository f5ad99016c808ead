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

enum { LEAVES = 58, ROUNDS = 2000 };

static struct budget_graph g;
static struct budget_tables t;
static struct budget_record records[BUDGET_RECORD_CAP];
static struct budget_want wants[BUDGET_WANT_CAP];
static struct budget_plan plan;
static struct budget_scratch scratch;
static struct budget_shares shares;

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

/* 63 nodes: five inner or live, 58 caches of 64 MiB filled by 4,096 records of 512 KiB to 1 MiB. */
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
    CHECK_EQ(g.node_count, BUDGET_NODE_CAP - 1);
    memset(&t, 0, sizeof t);
    t.graph = &g;
    t.free_bytes = 2 * GIB + g.floor_bytes;
}

/* The same records as holders: each has a unit of its own and one that it shares with 1 to 7 more
 * (heads of conversations); `used` is as the units say. */
static void share(u32 record_count)
{
    static struct holders own = { .count = { [HOLD_STORE] = 1 } };
    struct holders many = own;
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "kept", .parent = "caches", .node_class = CLASS_CACHE, .used = USED_HOLDER,
        .holder = HOLD_STORE, .cap_bytes = 8 * GIB, .unit_bytes = 65536,
        .yield = yield_nothing }, NULL));
    CHECK_OK(budget_graph_edge(&g, "live", "kept", 9));
    CHECK_OK(budget_graph_check(&g));
    budget_plan_tables(&g, 2 * GIB + g.floor_bytes, true, &t);
    u32 node = t.class_node[HOLD_STORE], group = 0;
    t.arena_count = 1;
    t.arena[0] = (struct budget_arena_view){ .cell_bytes = 65536, .cell_units_bytes = 65536,
                                             .gives = true, .range_bytes = 64 * GIB };
    budget_shares_open(&shares);
    for (u32 i = 0; i < record_count; group++) {
        u32 members = MIN(2 + (u32)(rng_u64(3, group) % 7), record_count - i);
        many.count[HOLD_STORE] = (u16)members;
        u64 head = 256 * KIB * (1 + rng_u64(4, group) % 4);
        for (u32 k = 0; k < members; k++, i++) {
            u64 bytes = 512 * KIB + rng_u64(1, i) % (512 * KIB);
            records[i] = (struct budget_record){ .node = node, .record = i, .holder = HOLD_STORE,
                                                 .value = (f64)(rng_u64(2, i) % 100000) };
            budget_shares_begin(&shares);
            budget_shares_add(&shares, 0, i, bytes, &own);
            if (members > 1) budget_shares_add(&shares, 0, 1000000 + group, head, &many);
            CHECK(budget_shares_end(&shares, &records[i]));
            for (u32 n = node; n != NONE; n = g.node[n].parent)
                g.node[n].used_bytes += bytes + (k == 0 ? head : 0);
        }
    }
}

static f64 best_us(u32 want_count, u32 record_count)
{
    f64 best = 1e9;
    for (u32 i = 0; i < ROUNDS; i++) {
        f64 from = now_us();
        budget_plan(&t, wants, want_count, records, record_count,
                    shares.unit_count > 0 ? &shares : NULL, &scratch, &plan);
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

TEST(the_same_where_records_share_units)
{
    make(0);
    share(BUDGET_RECORD_CAP);
    CHECK_EQ(g.node_count, BUDGET_NODE_CAP);
    wants[0] = (struct budget_want){ .node = 4, .arena = 0, .must = true, .min_bytes = GIB,
                                     .max_bytes = GIB, .unit_bytes = 65536 };
    f64 fits = best_us(1, BUDGET_RECORD_CAP);
    CHECK(!plan.refused && plan.victim_count == 0);
    printf("%u records of %u shared units: a must that fits %.1f us\n", BUDGET_RECORD_CAP,
           shares.unit_count, fits);
    const u64 more[] = { 8 * MIB, 64 * MIB, 256 * MIB };
    for (u32 i = 0; i < COUNT_OF(more); i++) {
        wants[0].min_bytes = wants[0].max_bytes = 2 * GIB + more[i];
        f64 us = best_us(1, BUDGET_RECORD_CAP);
        CHECK(!plan.refused && plan.freed_bytes >= more[i]);
        printf("a must with %4u victims      %8.1f us\n", plan.victim_count, us);
    }
    wants[0].min_bytes = wants[0].max_bytes = 32 * GIB;
    printf("a must refused, all were tried %7.1f us\n", best_us(1, BUDGET_RECORD_CAP));
    CHECK(plan.refused);
}
