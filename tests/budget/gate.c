/* tests/budget/gate.c - the gate over real arenas: commits, yields, refusals, faults, history. */
#include "arena/blocks.h"
#include "arena/slots.h"
#include "budget/gate.h"
#include "budget/measure.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 8192, HELD_CAP = 256, GRANULE = 4096 };

static struct budget_graph g;
static struct budget_plan plan;
static u32 kv, anchors, blocks, sections;

static struct { block_id id[HELD_CAP]; u32 count; } held;       /* what commits took         */
static struct { unit_id id[HELD_CAP]; u32 count; } kept;        /* anchors                   */
static u32 commit_calls, undo_calls, yield_calls;

static enum err take_blocks(void *owner, u64 bytes)
{
    u32 before = held.count;
    (void)owner;
    commit_calls++;
    for (u64 i = 0; i < bytes / BLOCK; i++) {
        enum err e = arena_blocks_take(blocks, HOLD_LIVE, &held.id[held.count]);
        if (e == OK) {
            held.count++;
            continue;
        }
        while (held.count > before) arena_blocks_drop(blocks, held.id[--held.count], HOLD_LIVE);
        return e;
    }
    return OK;
}

static void drop_blocks(void *owner, u64 bytes)
{
    (void)owner;
    undo_calls++;
    for (u64 i = 0; i < bytes / BLOCK; i++)
        arena_blocks_drop(blocks, held.id[--held.count], HOLD_LIVE);
}

static enum err take_anchors(void *owner, u64 bytes)
{
    u64 unit = arena_row(sections)->unit_bytes;
    (void)owner;
    for (u64 i = 0; i < bytes / unit; i++) {
        TRY(arena_slots_take(sections, HOLD_ANCHOR, &kept.id[kept.count]));
        kept.count++;
    }
    return OK;
}

static enum err always_refused(void *owner, u64 bytes)
{
    (void)owner; (void)bytes;
    commit_calls++;
    return fail(ERR_MEMORY, "planted");
}

/* Records are places in `kept`. */
static u64 yield_anchors(void *owner, const u32 *list, u32 count)
{
    CHECK(owner == &kept);
    yield_calls++;
    for (u32 i = 0; i < count; i++) {
        arena_slots_drop(sections, kept.id[list[i]], HOLD_ANCHOR);
        kept.id[list[i]].index = NONE;
    }
    return count * arena_row(sections)->unit_bytes;
}

static void open_house(u64 board, u64 cache, u64 floor, u64 reserve)
{
    static const struct arena_decl decl[] = {
        { .name = "blocks", .kind = ARENA_BLOCKS, .unit_bytes = BLOCK, .unit_cap = HELD_CAP,
          .label_bytes = 64 },
        { .name = "sections", .kind = ARENA_SLOTS, .unit_bytes = 2 * BLOCK, .unit_cap = HELD_CAP },
    };
    struct profile_row profile;
    arena_close();
    budget_measure_fix(UINT64_MAX / 4, UINT64_MAX);
    space_host_granule(GRANULE);
    space_host_fail_commit(0);
    CHECK_OK(arena_open(decl, COUNT_OF(decl)));
    profile_defaults(&profile);
    profile.board_bytes = board;
    profile.cache_budget_bytes = cache;
    profile.board_floor_bytes = floor;
    CHECK_OK(budget_graph_board(&g, &profile));
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "kv", .parent = "live", .node_class = CLASS_LIVE, .holder = HOLD_LIVE,
        .cap_bytes = UINT64_MAX, .unit_bytes = BLOCK }, &kv));
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "anchors", .parent = "caches", .node_class = CLASS_CACHE, .holder = HOLD_ANCHOR,
        .cap_bytes = UINT64_MAX, .reserve_bytes = reserve, .unit_bytes = 2 * BLOCK,
        .yield = yield_anchors, .owner = &kept }, &anchors));
    CHECK_OK(budget_graph_edge(&g, "live", "anchors", 7));
    CHECK_OK(budget_graph_check(&g));
    g.verify = true;
    blocks = arena_find("blocks");
    sections = arena_find("sections");
    memset(&held, 0, sizeof held);
    memset(&kept, 0, sizeof kept);
    commit_calls = undo_calls = yield_calls = 0;
}

static void close_house(void)
{
    arena_close();
    space_host_granule(0);
    space_host_fail_commit(0);
    budget_measure_fix(UINT64_MAX, UINT64_MAX);
}

static struct budget_want rows_want(u64 count)
{
    return (struct budget_want){ .node = kv, .arena = blocks, .must = true,
                                 .min_bytes = count * BLOCK, .max_bytes = count * BLOCK,
                                 .commit = take_blocks, .undo = drop_blocks };
}

static struct budget_want anchors_want(u64 count)
{
    return (struct budget_want){ .node = anchors, .arena = sections, .value = 1,
                                 .max_bytes = count * 2 * BLOCK, .commit = take_anchors };
}

static enum err ask(const struct budget_want *wants, u32 count)
{
    static struct budget_record records[HELD_CAP];
    u32 record_count = 0;
    for (u32 i = 0; i < kept.count; i++)
        if (kept.id[i].index != NONE)
            records[record_count++] = (struct budget_record){
                .node = anchors, .record = i, .arena = sections, .value = 1 + i,
                .freed_bytes = 2 * BLOCK,
            };
    return budget_gate(&g, &(struct budget_ask){ .turn = 9, .wants = wants, .want_count = count,
                                                 .records = records,
                                                 .record_count = record_count }, &plan);
}

static bool says(const char *part)
{
    if (strstr(err_last()->text, part) != NULL) return true;
    printf("not in \"%s\": %s\n", err_last()->text, part);
    return false;
}

TEST(a_granted_must_is_committed_inside_the_gate_and_kept_in_the_history)
{
    open_house(MIB, MIB, 0, 0);
    struct budget_want wants[] = { rows_want(5), anchors_want(3) };
    CHECK_OK(ask(wants, 2));
    CHECK_EQ(held.count, 5);
    CHECK_EQ(kept.count, 3);
    CHECK_EQ(arena_row(blocks)->ungated_count + arena_row(sections)->ungated_count, 0);
    CHECK_EQ(g.node[kv].used_bytes, 5 * BLOCK);
    CHECK_EQ(g.node[anchors].used_bytes, 6 * BLOCK);
    const struct gate_row *row = budget_history_row(&g.history, 0);
    CHECK(row->number == 1 && row->turn == 9 && row->rounds == 1 && row->want_count == 2);
    CHECK(row->refused_want == NONE && row->want[0].granted_bytes == 5 * BLOCK);
    CHECK(row->want[1].node == anchors && !row->want[1].must && row->want[1].why == WHY_FULL);
    CHECK(budget_history_row(&g.history, 1) == NULL);
    close_house();
}

TEST(a_refused_must_leaves_everything_as_it_was_and_says_why)
{
    open_house(10 * BLOCK + 64 * KIB, MIB, 0, 0);
    struct budget_want wants[] = { rows_want(4), anchors_want(1), rows_want(40) };
    CHECK_OK(ask(wants, 2));
    u64 committed = arena_row(blocks)->committed_bytes;
    CHECK_EQ(ask(wants, 3), ERR_MEMORY);
    CHECK(says("memory: kv lacks") && says("cap of board"));
    CHECK(plan.refused && plan.refused_want == 2 && plan.short_bytes > 0);
    CHECK_EQ(plan.grant[0].why, WHY_MUST);
    CHECK_EQ(commit_calls, 1);
    CHECK_EQ(yield_calls, 0);
    CHECK_EQ(held.count, 4);
    CHECK_EQ(kept.count, 1);
    CHECK_EQ(arena_row(blocks)->committed_bytes, committed);
    const struct gate_row *row = budget_history_row(&g.history, 0);
    CHECK(row->refused_want == 2 && row->short_bytes == plan.short_bytes);
    CHECK_EQ(row->want[2].granted_bytes, 0);
    close_house();
}

TEST(the_range_of_an_arena_is_a_limit_that_the_plan_knows)
{
    open_house(GIB, MIB, 0, 0);
    struct budget_want want = rows_want(HELD_CAP);
    CHECK_OK(ask(&want, 1));
    drop_blocks(NULL, 2 * BLOCK);
    want = rows_want(5);
    CHECK_EQ(ask(&want, 1), ERR_MEMORY);
    CHECK(says("kv lacks 24576 bytes (range of the arena)"));
    CHECK_EQ(commit_calls, 1);
    close_house();
}

TEST(measured_free_memory_less_the_floor_is_a_limit)
{
    open_house(GIB, MIB, 64 * KIB, 0);
    budget_measure_fix(64 * KIB + 3 * BLOCK, UINT64_MAX);
    struct budget_want want = rows_want(4);
    CHECK_EQ(ask(&want, 1), ERR_MEMORY);
    CHECK(says("free memory"));
    CHECK_EQ(plan.short_bytes, BLOCK);
    want = rows_want(3);
    CHECK_OK(ask(&want, 1));
    budget_measure_fix(0, UINT64_MAX);                  /* gone; what is committed still is  */
    drop_blocks(NULL, 2 * BLOCK);
    want = rows_want(2);
    CHECK_OK(ask(&want, 1));
    want = rows_want(1);
    CHECK_EQ(ask(&want, 1), ERR_MEMORY);
    close_house();
}

TEST(live_rows_take_anchors_over_the_edge_cheapest_first_and_never_the_reserve)
{
    open_house(64 * KIB + 24 * BLOCK, MIB, 0, 2 * 2 * BLOCK);
    struct budget_want may = anchors_want(8);
    CHECK_OK(ask(&may, 1));
    CHECK_EQ(kept.count, 8);
    u64 room = (g.node[0].cap_bytes - g.node[0].used_bytes) / BLOCK;
    struct budget_want want = rows_want(room + 3);      /* two anchors pay for three blocks  */
    CHECK_OK(ask(&want, 1));
    CHECK_EQ(plan.victim_count, 2);
    CHECK(kept.id[0].index == NONE && kept.id[1].index == NONE && kept.id[2].index != NONE);
    CHECK_EQ(g.node[anchors].used_bytes, 6 * 2 * BLOCK);
    CHECK_EQ(g.node[anchors].yielded_bytes, 2 * 2 * BLOCK);
    CHECK(budget_history_row(&g.history, 0)->trimmed_bytes > 0);
    CHECK_EQ(budget_history_row(&g.history, 0)->victim_count, 2);
    drop_blocks(NULL, held.count * BLOCK);
    room = budget_gate_room(&g, kv) / BLOCK;            /* all anchors but the reserve       */
    want = rows_want(room + 1);
    CHECK_EQ(ask(&want, 1), ERR_MEMORY);
    CHECK_EQ(g.node[anchors].used_bytes, 6 * 2 * BLOCK);
    want = rows_want(room);
    CHECK_OK(ask(&want, 1));
    CHECK_EQ(g.node[anchors].used_bytes, 2 * 2 * BLOCK);
    CHECK_EQ(arena_row(blocks)->ungated_count + arena_row(sections)->ungated_count, 0);
    close_house();
}

TEST(whole_free_granules_are_given_back_when_a_limit_asks)
{
    open_house(64 * KIB + 20 * BLOCK, MIB, 0, 0);
    struct budget_want may = anchors_want(8), want = rows_want(16);
    CHECK_OK(ask(&may, 1));
    for (u32 i = 0; i < 8; i++) {                       /* free, but still committed         */
        arena_slots_drop(sections, kept.id[i], HOLD_ANCHOR);
        kept.id[i].index = NONE;
    }
    CHECK(arena_free_bytes(sections) == 16 * BLOCK);
    CHECK_OK(ask(&want, 1));
    CHECK_EQ(held.count, 16);
    CHECK(arena_free_bytes(sections) < 16 * BLOCK);
    CHECK(arena_row(sections)->decommit_count > 0);
    CHECK(budget_history_row(&g.history, 0)->trimmed_bytes >= 8 * BLOCK);
    close_house();
}

TEST(a_refused_gate_gives_free_granules_back_until_the_cap_of_the_board_holds)
{
    open_house(MIB, MIB, 0, 0);
    struct budget_want want = rows_want(30);
    CHECK_OK(ask(&want, 1));
    u64 cap = g.node[0].used_bytes - 20 * BLOCK;
    CHECK_OK(budget_gate_set(&g, 0, cap, &(struct budget_ask){ .want_count = 0 }, &plan));
    CHECK(g.node[0].over);                              /* what is held stays                */
    drop_blocks(NULL, 12 * BLOCK);
    want = rows_want(40);
    CHECK_EQ(ask(&want, 1), ERR_MEMORY);
    CHECK_EQ(arena_free_bytes(blocks), 0);
    CHECK_EQ(budget_history_row(&g.history, 0)->trimmed_bytes, 12 * BLOCK);
    CHECK(g.node[0].over);
    drop_blocks(NULL, 12 * BLOCK);
    CHECK_EQ(ask(&want, 1), ERR_MEMORY);
    CHECK(!g.node[0].over);
    CHECK_EQ(g.node[0].used_bytes, cap);                /* and no granule more than it takes */
    CHECK_EQ(arena_free_bytes(blocks), 4 * BLOCK);
    CHECK_EQ(held.count, 6);
    close_house();
}

TEST(a_refused_gate_gives_free_granules_back_until_the_floor_of_free_memory_holds)
{
    open_house(GIB, MIB, 64 * KIB, 0);
    struct budget_want want = rows_want(8);
    CHECK_OK(ask(&want, 1));
    drop_blocks(NULL, 5 * BLOCK);
    budget_measure_fix(64 * KIB - 2 * BLOCK, UINT64_MAX);
    want = rows_want(9);
    CHECK_EQ(ask(&want, 1), ERR_MEMORY);
    CHECK(says("free memory"));
    CHECK_EQ(arena_free_bytes(blocks), 3 * BLOCK);
    budget_measure_fix(64 * KIB, UINT64_MAX);
    CHECK_EQ(ask(&want, 1), ERR_MEMORY);
    CHECK_EQ(arena_free_bytes(blocks), 3 * BLOCK);      /* the floor holds: they stay        */
    close_house();
}

TEST(a_commit_that_fails_is_planned_anew_and_every_fault_leaves_a_sound_house)
{
    u32 fired = 0;
    for (u32 n = 1; n < 200; n++) {
        open_house(MIB, MIB, 0, 0);
        struct budget_want wants[] = { rows_want(6), anchors_want(4), rows_want(3) };
        CHECK_OK(ask(wants, 1));
        space_host_fail_commit(n);
        enum err e = ask(wants, 3);
        space_host_fail_commit(0);
        const struct gate_row *row = budget_history_row(&g.history, 0);
        if (e == OK) {
            CHECK_EQ(held.count, 15);
            bool anchors_short = kept.count < 4;
            if (row->rounds == 1 && !anchors_short) break;      /* none fired: all were seen */
            CHECK(row->rounds == 2 || anchors_short);
            CHECK(!anchors_short || plan.grant[1].why == WHY_COMMIT);
        } else {
            CHECK_EQ(e, ERR_MEMORY);
            CHECK_EQ(held.count, 6);
        }
        budget_graph_verify(&g);
        fired++;
    }
    printf("%u commit faults\n", fired);
    CHECK(fired >= 9);
    close_house();
}

TEST(a_must_that_can_never_commit_ends_after_three_rounds_and_undoes_the_others)
{
    open_house(MIB, MIB, 0, 0);
    struct budget_want wants[] = { rows_want(2), anchors_want(2), rows_want(1) };
    wants[2].commit = always_refused;
    CHECK_EQ(ask(wants, 3), ERR_MEMORY);
    CHECK(says("commit failed"));
    CHECK(plan.refused && plan.refused_want == 2);
    CHECK_EQ(commit_calls, 6);                          /* two musts, three rounds           */
    CHECK_EQ(undo_calls, 3);
    CHECK_EQ(held.count, 0);
    CHECK_EQ(kept.count, 0);
    CHECK_EQ(budget_history_row(&g.history, 0)->rounds, 3);
    for (u32 i = 0; i < 3; i++) CHECK_EQ(plan.grant[i].bytes, 0);
    budget_graph_verify(&g);
    close_house();
}

TEST(a_must_of_nothing_is_still_committed_and_a_may_of_nothing_is_not)
{
    open_house(MIB, MIB, 0, 0);
    struct budget_want wants[] = { rows_want(0), anchors_want(0) };
    wants[1].commit = always_refused;
    CHECK_OK(ask(wants, 2));
    CHECK_EQ(commit_calls, 1);
    close_house();
}

TEST(the_history_keeps_the_last_256_gates)
{
    open_house(MIB, MIB, 0, 0);
    for (u32 i = 0; i < 300; i++) {
        struct budget_want want = rows_want(i % 2);
        CHECK_OK(ask(&want, 1));
        drop_blocks(NULL, (u64)held.count * BLOCK);
    }
    CHECK_EQ(budget_history_count(&g.history), 256);
    CHECK_EQ(budget_history_row(&g.history, 0)->number, 300);
    CHECK_EQ(budget_history_row(&g.history, 255)->number, 45);
    CHECK(budget_history_row(&g.history, 256) == NULL);
    close_house();
}

TEST(room_of_a_node_is_what_the_board_could_ever_pay)
{
    open_house(64 * KIB + 24 * BLOCK, MIB, 0, 2 * 2 * BLOCK);
    u64 room = budget_gate_room(&g, kv);
    CHECK_EQ(room, g.node[0].cap_bytes - g.node[0].used_bytes - 4 * BLOCK);
    struct budget_want want = rows_want(room / BLOCK);
    CHECK_OK(ask(&want, 1));
    CHECK(budget_gate_room(&g, kv) >= held.count * BLOCK);
    CHECK(budget_gate_room(&g, kv) < (held.count + 1) * BLOCK);
    budget_measure_fix(0, UINT64_MAX);
    CHECK_EQ(budget_gate_room(&g, kv), held.count * BLOCK);
    close_house();
}

TEST(a_seed_fails_commits_and_changes_caps_before_some_gates)
{
    for (u32 seeded = 0; seeded < 2; seeded++) {
        u32 again = 0, changed = 0;
        open_house(64 * MIB, UINT64_MAX / 4, 0, 0);
        g.hook_seed = seeded ? 11 : 0;
        for (u32 i = 0; i < 120; i++) {
            struct budget_want want = rows_want(1 + i % 3);
            u64 before = g.node[anchors].cap_bytes;
            CHECK_OK(budget_gate(&g, &(struct budget_ask){ .wants = &want, .want_count = 1 },
                                 &plan));
            again += budget_history_row(&g.history, 0)->rounds > 1;
            changed += g.node[anchors].cap_bytes != before;
            while (held.count > 0) arena_blocks_drop(blocks, held.id[--held.count], HOLD_LIVE);
            arena_trim(blocks, 0);
            CHECK_EQ(space_host_fail_left(), 0);        /* nothing fails outside of a gate   */
        }
        printf("seed %llu: %u gates of 120 made a second round, %u caps changed\n",
               (ull)g.hook_seed, again, changed);
        CHECK(seeded ? again > 3 && changed > 3 : again == 0 && changed == 0);
    }
    close_house();
}

TEST(records_need_not_be_listed_where_all_wants_fit)
{
    open_house(64 * MIB, UINT64_MAX / 4, 0, 0);
    struct budget_want wants[2] = { rows_want(4), anchors_want(3) };
    CHECK(budget_gate_fits(&g, wants, 2));
    CHECK_OK(budget_graph_cap(&g, anchors, 2 * 2 * BLOCK));
    CHECK(!budget_gate_fits(&g, wants, 2));             /* a may-want is short               */
    CHECK(budget_gate_fits(&g, wants, 1));
    CHECK_OK(budget_gate(&g, &(struct budget_ask){ .wants = wants, .want_count = 2 }, &plan));
    CHECK_EQ(kept.count, 2);
    CHECK_OK(budget_graph_cap(&g, anchors, 2 * BLOCK));
    CHECK(!budget_gate_fits(&g, wants, 1));             /* a node is over its cap            */
    struct budget_record records[2];
    for (u32 i = 0; i < 2; i++)
        records[i] = (struct budget_record){ .node = anchors, .record = i, .arena = sections,
                                             .value = 2 - i, .freed_bytes = 2 * BLOCK };
    CHECK_OK(budget_gate_set(&g, anchors, 2 * BLOCK, &(struct budget_ask){
        .records = records, .record_count = 2 }, &plan));
    CHECK(plan.victim_count == 1 && plan.victim[0] == 1 && !g.node[anchors].over);
    CHECK_EQ(budget_gate_set(&g, anchors, 0, &(struct budget_ask){
        .records = records, .record_count = 1 }, &plan), OK);
    CHECK_EQ(g.node[anchors].used_bytes, 0);
    close_house();
}
