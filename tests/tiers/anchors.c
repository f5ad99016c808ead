/* tests/tiers/anchors.c - one record's anchors: best, order, thinning, reserve, sharing. */
#include "tests/test.h"

#include "arena/base/rng.h"
#include "tiers/anchors.h"

#include <string.h>

enum { CAP = 16 };
static struct anchor_row rows[CAP], others[CAP];
static struct anchor_list list = { rows, CAP }, other = { others, CAP };
static u32 sections;

static void open_units(void)
{
    memset(rows, 0, sizeof rows);
    memset(others, 0, sizeof others);
    CHECK_OK(arena_open(&(struct arena_decl){ .name = "sections", .kind = ARENA_SLOTS,
                                              .unit_bytes = 256, .unit_cap = 64 }, 1));
    sections = arena_find("sections");
}

static u32 put(u64 pos, enum anchor_kind kind, bool head)
{
    unit_id unit;
    CHECK_OK(arena_slots_take(sections, HOLD_ANCHOR, &unit));
    u32 at = anchors_take(&list, pos, unit, kind, head);
    if (at == NONE) arena_slots_drop(sections, unit, HOLD_ANCHOR);
    return at;
}

TEST(anchors_best_takes_the_largest_at_or_below_the_limit)
{
    struct anchor_row some[4] = {
        { .pos = 1024, .kind = ANCHOR_GRID },
        { .pos = 3072, .kind = ANCHOR_END  },
        { .pos = 2048, .kind = ANCHOR_TURN },
        { .pos = 4096, .kind = ANCHOR_FREE },               /* dropped: never chosen */
    };
    struct anchor_list l = { some, 4 };
    CHECK(anchors_best(&l, 1023) == NONE);
    CHECK(anchors_best(&l, 1024) == 0);
    CHECK(anchors_best(&l, 3071) == 2);
    CHECK(anchors_best(&l, UINT64_MAX) == 1);
}

TEST(anchors_stand_in_order_whatever_order_they_came_in)
{
    static const u64 order[] = { 40, 8, 24, 16, 32 };
    open_units();
    for (u32 i = 0; i < COUNT_OF(order); i++) put(order[i], ANCHOR_GRID, false);
    CHECK_EQ(anchors_count(&list), 5);
    for (u32 i = 0; i < 5; i++) CHECK_EQ(list.row[i].pos, 8 * (i + 1));
    CHECK_EQ(anchors_at(&list, 24), 2);
    CHECK(anchors_at(&list, 25) == NONE);
    anchors_check(&list, sections, 40, HOLD_ANCHOR);
    anchors_cut(&list, sections, 31, HOLD_ANCHOR);
    CHECK_EQ(anchors_count(&list), 3);
    CHECK_EQ(arena_slots_used(sections), 3);
    arena_close();
}

TEST(only_the_last_two_ends_stay_ends)
{
    open_units();
    for (u64 pos = 10; pos <= 40; pos += 10) put(pos, ANCHOR_END, false);
    CHECK_EQ(list.row[0].kind, ANCHOR_TURN);
    CHECK_EQ(list.row[1].kind, ANCHOR_TURN);
    CHECK_EQ(list.row[2].kind, ANCHOR_END);
    CHECK_EQ(list.row[3].kind, ANCHOR_END);
    anchors_mark(&list, 3, ANCHOR_GRID, false);         /* a kind never falls */
    CHECK_EQ(list.row[3].kind, ANCHOR_END);
    anchors_check(&list, sections, 40, HOLD_ANCHOR);
    arena_close();
}

TEST(a_full_list_refuses_and_keeps_what_it_has)
{
    open_units();
    for (u64 i = 1; i <= CAP; i++) CHECK(put(i, ANCHOR_GRID, false) != NONE);
    CHECK(put(CAP + 1, ANCHOR_GRID, false) == NONE);
    CHECK_EQ(anchors_count(&list), CAP);
    arena_close();
}

TEST(the_cheapest_is_the_one_whose_removal_costs_fewest_tokens)
{
    open_units();
    put(100, ANCHOR_TURN, true);        /* 100, the head            */
    put(1000, ANCHOR_GRID, false);      /* 900                      */
    put(1100, ANCHOR_GRID, false);      /* 100, hit twice: 300      */
    put(1290, ANCHOR_GRID, false);      /* 190                      */
    put(1300, ANCHOR_TURN, false);      /* newest 2 from here       */
    put(1400, ANCHOR_END, false);
    list.row[2].hits = 2;
    CHECK_EQ(anchors_cost(&list, 0), 100);
    CHECK_EQ(anchors_cost(&list, 2), 300);
    CHECK_EQ(anchors_cheapest(&list, 2, true), 3);
    CHECK_EQ(anchors_cheapest(&list, 2, false), 0);     /* the head is nobody's reserve here */
    CHECK_EQ(anchors_cheapest(&list, 0, true), 4);
    CHECK(anchors_cheapest(&list, 6, false) == NONE);
    CHECK(anchors_cheapest(&list, 5, true) == NONE);
    CHECK_EQ(anchors_cheapest(&list, 5, false), 0);
    arena_close();
}

TEST(thinning_down_to_any_count_keeps_the_reserve_and_the_head)
{
    open_units();
    for (u64 i = 1; i <= CAP; i++) put(i * 100, ANCHOR_GRID, i == 2);
    u32 dropped;
    while ((dropped = anchors_cheapest(&list, ANCHOR_NEWEST, true)) != NONE)
        anchors_drop(&list, sections, dropped, HOLD_ANCHOR);
    CHECK_EQ(anchors_count(&list), 5);
    CHECK_EQ(list.row[0].pos, 200);
    for (u32 i = 1; i < 5; i++) CHECK_EQ(list.row[i].pos, (CAP - 4 + i) * 100);
    CHECK_EQ(arena_slots_used(sections), 5);
    arena_close();
}

TEST(a_fork_shares_units_and_the_last_drop_frees_them)
{
    open_units();
    for (u64 pos = 10; pos <= 50; pos += 10) put(pos, ANCHOR_GRID, false);
    list.row[1].hits = 3;
    anchors_fork(&other, &list, sections, 30, HOLD_ANCHOR);
    CHECK_EQ(anchors_count(&other), 3);
    CHECK_EQ(other.row[1].hits, 0);
    CHECK_EQ(arena_slots_used(sections), 5);
    CHECK(!anchors_drop(&list, sections, 1, HOLD_ANCHOR));    /* the fork holds it still */
    CHECK_EQ(arena_slots_used(sections), 5);
    CHECK(anchors_drop(&other, sections, 1, HOLD_ANCHOR));
    CHECK_EQ(arena_slots_used(sections), 4);
    anchors_cut(&list, sections, 0, HOLD_ANCHOR);
    anchors_cut(&other, sections, 0, HOLD_ANCHOR);
    CHECK_EQ(arena_slots_used(sections), 0);
    arena_close();
}

TEST(random_takes_and_drops_leave_sorted_lists_and_exact_counts)
{
    open_units();
    for (u64 i = 0; i < 4000; i++) {
        u64 pick = rng_u64(7, i) % 100, pos = 1 + rng_u64(8, i) % 300;
        u32 count = anchors_count(&list);
        if (pick < 60 && anchors_at(&list, pos) == NONE)
            put(pos, (enum anchor_kind)(1 + rng_u64(9, i) % 3), false);
        else if (pick < 90 && count > 0)
            anchors_drop(&list, sections, (u32)(rng_u64(10, i) % count), HOLD_ANCHOR);
        else if (pick >= 97)
            anchors_cut(&list, sections, pos, HOLD_ANCHOR);
        anchors_check(&list, sections, 300, HOLD_ANCHOR);
        CHECK_EQ(arena_slots_used(sections), anchors_count(&list));
    }
    arena_close();
}
