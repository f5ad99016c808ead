/* tests/budget/caps.c - gates over real arenas whose records share blocks: what a plan says of
 * bytes freed and recharged is what the holders do; caps hold after each change; commits fail. */
#include "arena/base/rng.h"
#include "arena/blocks.h"
#include "budget/gate.h"
#include "budget/measure.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 8192, GRANULE = 4096, RECORDS = 24, LIST = 12, HELD = 512, STEPS = 400 };

static const enum holder classes[] = { HOLD_PIN, HOLD_PARK, HOLD_STORE };

static struct budget_graph g;
static struct budget_plan plan;
static struct budget_shares shares;
static struct budget_record listed[RECORDS];
static u32 listed_count, kv, blocks, node_of[HOLD_COUNT];
static u64 seed, drawn;

static struct { block_id id[LIST]; u32 count; enum holder class; f64 value; } record[RECORDS];
static struct { block_id id[HELD]; u32 count; } live;

static u64 roll(u64 below)
{
    return rng_u64(seed, drawn++) % below;
}

static void drop_record(u32 r)
{
    for (u32 i = 0; i < record[r].count; i++)
        arena_blocks_drop(blocks, record[r].id[i], record[r].class);
    record[r].count = 0;
}

static u64 yield(void *owner, const u32 *list, u32 count)
{
    u32 before = arena_blocks_used(blocks);
    (void)owner;
    for (u32 i = 0; i < count; i++) drop_record(list[i]);
    return (u64)(before - arena_blocks_used(blocks)) * BLOCK;
}

static enum err take_rows(void *owner, u64 bytes)
{
    u32 before = live.count;
    (void)owner;
    for (u64 i = 0; i < bytes / BLOCK; i++) {
        enum err e = arena_blocks_take(blocks, HOLD_LIVE, &live.id[live.count]);
        if (e == OK) {
            live.count++;
            continue;
        }
        while (live.count > before) arena_blocks_drop(blocks, live.id[--live.count], HOLD_LIVE);
        return e;
    }
    return OK;
}

static void drop_rows(void *owner, u64 bytes)
{
    (void)owner;
    for (u64 i = 0; i < bytes / BLOCK; i++)
        arena_blocks_drop(blocks, live.id[--live.count], HOLD_LIVE);
}

static void open_house(void)
{
    static const struct arena_decl decl[] = {
        { .name = "blocks", .kind = ARENA_BLOCKS, .unit_bytes = BLOCK, .unit_cap = HELD,
          .label_bytes = 64 },
    };
    static const char *const names[] = { "pin", "park", "store" };
    struct profile_row profile;
    arena_close();
    budget_measure_fix(UINT64_MAX / 4, UINT64_MAX);
    space_host_granule(GRANULE);
    CHECK_OK(arena_open(decl, COUNT_OF(decl)));
    profile_defaults(&profile);
    profile.board_bytes = 4 * MIB;
    profile.board_floor_bytes = 0;
    profile.cache_budget_bytes = UINT64_MAX / 4;
    CHECK_OK(budget_graph_board(&g, &profile));
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "kv", .parent = "live", .node_class = CLASS_LIVE, .holder = HOLD_LIVE,
        .cap_bytes = UINT64_MAX, .unit_bytes = BLOCK }, &kv));
    for (u32 i = 0; i < COUNT_OF(names); i++) {
        CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
            .name = names[i], .parent = "caches", .holder = classes[i],
            .node_class = i < 2 ? CLASS_ASIDE : CLASS_CACHE, .cap_bytes = UINT64_MAX,
            .unit_bytes = BLOCK, .yield = yield }, &node_of[classes[i]]));
        CHECK_OK(budget_graph_edge(&g, "live", names[i], 3 - i));
    }
    CHECK_OK(budget_graph_check(&g));
    g.verify = true;
    blocks = arena_find("blocks");
    memset(record, 0, sizeof record);
    memset(&live, 0, sizeof live);
}

static void close_house(void)
{
    arena_close();
    space_host_granule(0);
    space_host_fail_commit(0);
    budget_measure_fix(UINT64_MAX, UINT64_MAX);
}

/* As an engine lists them, when a want does not fit. */
static void list_records(void)
{
    listed_count = 0;
    budget_shares_open(&shares);
    for (u32 r = 0; r < RECORDS; r++) {
        if (record[r].count == 0) continue;
        struct budget_record *out = &listed[listed_count++];
        *out = (struct budget_record){ .node = node_of[record[r].class], .record = r,
                                       .holder = (u8)record[r].class, .value = record[r].value };
        budget_shares_begin(&shares);
        for (u32 i = 0; i < record[r].count; i++)
            budget_shares_add(&shares, blocks, record[r].id[i].index, BLOCK,
                              &arena_blocks_row(blocks, record[r].id[i])->holders);
        CHECK(budget_shares_end(&shares, out));
    }
}

/* A record in a free row: some blocks of the live rows or of another record, some of its own, as
 * far as its node's cap and those above it allow. */
static void keep_record(void)
{
    u32 r = 0, from = (u32)roll(RECORDS);
    while (r < RECORDS && record[r].count > 0) r++;
    if (r == RECORDS || live.count > HELD / 3) return;
    record[r].class = classes[roll(3)];
    record[r].value = (f64)(1 + roll(1000));
    bool of_live = roll(5) == 0;
    for (u32 i = 0; i < RECORDS && (record[from].count == 0 || from == r); i++)
        from = (from + 1) % RECORDS;
    u32 share = (u32)roll(LIST / 2), own = 1 + (u32)roll(LIST / 2);
    for (u32 i = 0; i < share; i++) {
        block_id id = { NONE, 0 };
        if (of_live && i < live.count) id = live.id[i];
        if (!of_live && i < record[from].count && from != r) id = record[from].id[i];
        if (id.index == NONE) break;
        arena_blocks_hold(blocks, id, record[r].class);
        record[r].id[record[r].count++] = id;
    }
    for (u32 i = 0; i < own; i++) {
        CHECK_OK(arena_blocks_take(blocks, record[r].class, &record[r].id[record[r].count]));
        record[r].count++;
    }
    budget_graph_refresh(&g);
    for (u32 n = 0; n < g.node_count; n++)
        if (g.node[n].used_bytes > g.node[n].cap_bytes && !g.node[n].over) {
            drop_record(r);
            arena_trim(blocks, 0);
            break;
        }
}

/* Nodes within their caps, or over only by what no record frees. */
static void check_caps(void)
{
    budget_graph_verify(&g);
    for (u32 n = 0; n < g.node_count; n++)
        if (g.node[n].used_bytes > g.node[n].cap_bytes)
            CHECK(g.node[n].over && (n == kv || g.node[n].parent == NONE));
}

/* What moved between nodes is what the plan said. */
static void check_moves(const u64 *used_before, u32 used_blocks, u64 granted)
{
    i64 moved[BUDGET_NODE_CAP] = { 0 };
    budget_graph_refresh(&g);
    for (u32 i = 0; i < plan.recharge_count; i++) {
        moved[plan.recharge[i].from] -= (i64)plan.recharge[i].bytes;
        moved[plan.recharge[i].to] += (i64)plan.recharge[i].bytes;
    }
    i64 freed = 0;
    for (u32 c = 0; c < COUNT_OF(classes); c++) {
        u32 n = node_of[classes[c]];
        freed -= (i64)g.node[n].used_bytes - (i64)used_before[n] - moved[n];
    }
    CHECK_EQ(freed, plan.freed_bytes);
    CHECK_EQ((u64)(arena_blocks_used(blocks) - (used_blocks - plan.freed_bytes / BLOCK)) * BLOCK,
             granted);
}

static void set_any_cap(void)
{
    static const char *const names[] = { "pin", "park", "store", "caches", "board" };
    u32 which = (u32)roll(roll(4) == 0 ? COUNT_OF(names) : 2);
    u32 node = budget_graph_find(&g, names[which]);
    u64 used[BUDGET_NODE_CAP], most;
    for (u32 i = 0; i < COUNT_OF(names) && roll(2) == 0; i++)
        CHECK_OK(budget_graph_cap(&g, budget_graph_find(&g, names[i]),
                                  i == 4 ? 4 * MIB : UINT64_MAX / 4));
    most = g.node[node].used_bytes;
    u64 cap = roll(2) == 0 ? UINT64_MAX / 4 : roll(6) == 0 ? 0 : roll(most / BLOCK + 2) * BLOCK;
    if (which == 4 && cap < most / 2) cap = most / 2;
    list_records();
    budget_graph_refresh(&g);
    for (u32 n = 0; n < g.node_count; n++) used[n] = g.node[n].used_bytes;
    u32 before = arena_blocks_used(blocks);
    CHECK_OK(budget_gate_set(&g, node, cap, &(struct budget_ask){
        .records = listed, .record_count = listed_count, .shares = &shares }, &plan));
    check_moves(used, before, 0);
    const struct gate_row *row = budget_history_row(&g.history, 0);
    CHECK(row->kind == GATE_SET && row->cap_node == node && row->cap_bytes == cap);
    CHECK_EQ(row->victim_count, plan.victim_count);
    check_caps();
}

static bool ask_rows(u32 fail_at)
{
    u64 bytes = (1 + roll(24)) * BLOCK, used[BUDGET_NODE_CAP];
    struct budget_want want = { .node = kv, .arena = blocks, .must = true, .min_bytes = bytes,
                                .max_bytes = bytes, .commit = take_rows, .undo = drop_rows };
    if (live.count + bytes / BLOCK > HELD / 2) {
        drop_rows(NULL, live.count * (u64)BLOCK);
        for (u32 i = 0; i < 3; i++)                     /* recharged without a gate: drop them */
            for (u32 r = 0; r < RECORDS; r++)
                if (record[r].count > 0 && g.node[node_of[record[r].class]].cap_bytes == 0)
                    drop_record(r);
        for (u32 c = 0; c < COUNT_OF(classes); c++)
            g.node[node_of[classes[c]]].over = true;    /* until the next gate               */
        g.node[2].over = g.node[3].over = true;
    }
    bool fits = budget_gate_fits(&g, &want, 1);
    if (!fits) list_records();
    else listed_count = 0;
    for (u32 n = 0; n < g.node_count; n++) used[n] = g.node[n].used_bytes;
    u32 before = arena_blocks_used(blocks), count = live.count;
    space_host_fail_commit(fail_at);
    enum err e = budget_gate(&g, &(struct budget_ask){
        .kind = GATE_ADMIT, .wants = &want, .want_count = 1, .records = listed,
        .record_count = listed_count, .shares = fits ? NULL : &shares }, &plan);
    bool fired = fail_at > 0 && space_host_fail_left() == 0;
    space_host_fail_commit(0);
    CHECK(e == OK || e == ERR_MEMORY);
    if (e == ERR_MEMORY) CHECK_EQ(live.count, count);
    if (e == OK && fits && !fired) CHECK_EQ(plan.victim_count, 0);
    if (e == OK && !fired) check_moves(used, before, bytes);
    budget_graph_verify(&g);
    return e == OK;
}

TEST(what_a_plan_says_of_bytes_is_what_the_holders_do)
{
    u32 granted = 0, refused = 0, with_recharge = 0;
    for (u64 n = 0; n < 8; n++) {
        seed = n;
        drawn = 0;
        open_house();
        for (u32 step = 0; step < STEPS; step++) {
            u64 what = roll(8);
            if (what < 5) {
                keep_record();
            } else if (what < 7) {
                bool ok = ask_rows(roll(3) == 0 ? 1 + (u32)roll(20) : 0);
                granted += ok;
                refused += !ok;
                with_recharge += ok && plan.recharge_count > 0;
            } else {
                set_any_cap();
                with_recharge += plan.recharge_count > 0;
            }
        }
        close_house();
    }
    printf("%u granted, %u refused, %u with recharges\n", granted, refused, with_recharge);
    CHECK(granted > 300 && refused > 20 && with_recharge > 30);
}

TEST(a_commit_that_fails_at_any_place_counts_no_victim_twice)
{
    for (u32 nth = 1;; nth++) {
        seed = 100;
        drawn = 0;
        open_house();
        for (u32 i = 0; i < 12; i++) keep_record();
        budget_graph_refresh(&g);
        CHECK_OK(budget_graph_cap(&g, 0, g.node[0].used_bytes + 6 * BLOCK));
        u64 bytes = 30 * BLOCK;
        struct budget_want want = { .node = kv, .arena = blocks, .must = true, .min_bytes = bytes,
                                    .max_bytes = bytes, .commit = take_rows, .undo = drop_rows };
        list_records();
        space_host_fail_commit(nth);
        enum err e = budget_gate(&g, &(struct budget_ask){
            .wants = &want, .want_count = 1, .records = listed, .record_count = listed_count,
            .shares = &shares }, &plan);
        bool fired = space_host_fail_left() == 0;
        space_host_fail_commit(0);
        CHECK_OK(e);
        CHECK_EQ(live.count, 30);
        if (fired) CHECK_EQ(budget_history_row(&g.history, 0)->rounds, 2);
        close_house();
        if (!fired) break;
        CHECK(nth < 100);
    }
}
