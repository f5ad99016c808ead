/* tests/tiers/aside.c - policies of what stands aside: which rows and anchors park and pin keep,
 * who is a guest, prefix entries, who goes when a node is over its cap, what it is worth. */
#include "tests/tiers/house.h"

#include "tiers/aside/displace.h"
#include "tiers/aside/guest.h"
#include "tiers/store.h"

enum { BLOCK = 4096, UNIT = 256 };

static const struct aside_caps all = { .stash_bytes = MIB, .pin_bytes = MIB, .park_bytes = MIB,
                                       .store_bytes = MIB, .store_entry_bytes = MIB };

static u32 kept(const struct park_plan *plan)
{
    u32 count = 0;
    for (u32 i = 0; i < PARK_ANCHOR_CAP; i++) count += plan->keep[i];
    return count;
}

/* A conversation of 63 rows in slot 0: lines 8 .. 56, 59, the end; two generations. */
static u32 talk(u64 seed)
{
    fill_keys(seed);
    keys[0] = 2000 + seed;
    turn(keys, 30, seed, 2);
    CHECK_EQ(turn(keys, 60, seed, 3).slot, 0);
    return resident_record(0);
}

TEST(a_park_keeps_ends_then_the_newest_and_ends_at_a_kept_anchor)
{
    struct park_plan plan;
    house_open_caps(64, &all);
    u32 record = talk(1);
    struct anchor_list list = record_anchors(record);
    u32 count = anchors_count(&list);
    park_plan(record, 0, MIB, &plan);
    CHECK(plan.rows == 63 && kept(&plan) == count);
    park_plan(record, 0, 16 * BLOCK + 1 * UNIT, &plan);         /* the end alone              */
    CHECK(plan.rows == 63 && kept(&plan) == 1 && plan.keep[count - 1]);
    park_plan(record, 0, 16 * BLOCK + 2 * UNIT, &plan);         /* the end before it          */
    u32 end = anchors_at(&list, 32);
    CHECK(kept(&plan) == 2 && plan.keep[end] && list.row[end].kind == ANCHOR_END);
    park_plan(record, 0, 16 * BLOCK + 5 * UNIT, &plan);         /* then of the newest four    */
    CHECK(kept(&plan) == 5 && plan.keep[count - 2] && plan.keep[count - 3] && plan.keep[count - 4]);
    park_plan(record, 0, 16 * BLOCK, &plan);                    /* 15 blocks, rest: anchors   */
    CHECK(plan.rows == 59 && kept(&plan) == count - 1);
    park_plan(record, 40, 7 * BLOCK + UNIT, &plan);             /* ten blocks are a pin's     */
    CHECK(plan.rows == 63);
    park_plan(record, 0, UNIT - 1, &plan);
    CHECK(plan.rows == 0);
    park_plan(record, 0, 0, &plan);
    CHECK(plan.rows == 0);
    house_close();
}

TEST(a_pin_ends_below_the_end_and_spreads_its_anchors)
{
    struct pin_plan plan;
    house_open_caps(64, &all);
    u32 record = talk(2);
    pin_plan(record, MIB, &plan);
    CHECK(plan.rows == 59 && plan.count == 8 && plan.pos[7] == 59);
    for (u32 i = 1; i < plan.count; i++) CHECK(plan.pos[i - 1] < plan.pos[i]);
    pin_plan(record, 10 * BLOCK + 2 * UNIT, &plan);             /* 40 rows, two anchors       */
    CHECK(plan.rows == 40 && plan.count == 2 && plan.pos[1] == 40 && plan.pos[0] < 40);
    pin_plan(record, 2 * BLOCK + UNIT - 1, &plan);              /* not even a line            */
    CHECK_EQ(plan.rows, 0);
    pin_plan(record, 0, &plan);
    CHECK_EQ(plan.rows, 0);
    house_close();
}

TEST(displacing_moves_no_byte_and_charges_pin_before_park)
{
    struct displace_plan plan;
    u64 sums[2], after[2];
    u32 count;
    u64 rows;
    house_open_caps(64, &all);
    u32 record = talk(3), used = arena_blocks_used(state_blocks_arena());
    const block_id *list = record_blocks(record, &count, &rows);
    state_sums(list, rows, sums);
    record_keep_end(record);
    displace_plan(record, &plan);
    CHECK(plan.class == HOLD_PARK && plan.park.rows == 63 && plan.pin.rows == 59);
    CHECK(displace_apply(record, &plan, false));
    resident_left(0);
    CHECK_EQ(arena_blocks_used(state_blocks_arena()), used);
    const struct arena_row *blocks = arena_row(state_blocks_arena());
    CHECK_EQ(blocks->held.bytes[HOLD_PIN], 15 * BLOCK);
    CHECK_EQ(blocks->held.bytes[HOLD_PARK], 1 * BLOCK);
    CHECK_EQ(blocks->held.bytes[HOLD_LIVE], 0);
    list = record_blocks(record, &count, &rows);
    state_sums(list, rows, after);
    CHECK(sums[0] == after[0] && sums[1] == after[1]);
    tier_check(SLOTS, NULL, 0);
    tier_clear_of(TIER_CLEAR_PIN, NULL);                /* what it held falls to the park     */
    CHECK_EQ(blocks->held.bytes[HOLD_PARK], 16 * BLOCK);
    tier_check(SLOTS, NULL, 0);
    house_close();
}

TEST(a_record_lifted_and_set_aside_again_is_the_same)
{
    house_open_caps(64, &all);
    u32 record = talk(4);
    CHECK_OK(record_leave(record, HOLD_PARK));
    resident_left(0);
    struct anchor_list list = record_anchors(record);
    u32 count = anchors_count(&list);
    u64 number = record_at(record)->number;
    for (u32 i = 0; i < 3; i++) {
        struct tier_prompt prompt = { .keys = keys, .count = 70, .session = { 4, 4 } };
        struct tier_hit hit;
        tier_find(&prompt, &hit);
        CHECK(hit.way == WAY_LIFT && hit.source == TIER_PARK && hit.start == 63);
        CHECK_OK(tier_place(&hit, &prompt, now));
        CHECK(record_at(record)->class == HOLD_LIVE && aside_used(HOLD_PARK) == 0);
        tier_check(SLOTS, NULL, 0);
        tier_unplace(&hit);                             /* the gate said no                   */
        CHECK(record_is(record, number) && record_at(record)->class == HOLD_PARK);
        CHECK_EQ(anchors_count(&list), count);
        tier_check(SLOTS, NULL, 0);
        if (i == 1) record_class(record, HOLD_STORE);
        if (i == 1) record_class(record, HOLD_PARK);
    }
    house_close();
}

TEST(a_guest_is_short_against_what_it_would_displace_and_shares_next_to_nothing)
{
    const struct guest_setup setup = { .rows_max = 100, .fraction = 0.25 };
    CHECK(guest_rule(&setup, 24, 7, 100, 8));
    CHECK(!guest_rule(&setup, 25, 7, 100, 8));          /* not under a quarter                */
    CHECK(!guest_rule(&setup, 24, 8, 100, 8));          /* a line                             */
    CHECK(guest_rule(&setup, 100, 0, 401, 8));
    CHECK(!guest_rule(&setup, 101, 0, 1000, 8));        /* longer than any guest              */
    CHECK(!guest_rule(&(struct guest_setup){ .fraction = 1 }, 1, 0, 1000, 8));
}

TEST(a_prefix_entry_is_the_longest_line_that_fits_and_stands_once)
{
    struct aside_caps caps = all;
    caps.store_entry_bytes = 8 * BLOCK + UNIT;          /* 32 rows                            */
    house_open_caps(64, &caps);
    u32 record = talk(5);
    CHECK_EQ(store_line(record, 60), 32);
    CHECK_EQ(store_line(record, 31), 24);
    CHECK_EQ(store_line(record, 7), 0);
    u32 entries = 0;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (!record_at(r)->prefix) continue;
        entries++;
        CHECK(record_at(r)->class == HOLD_STORE && record_rows(r) == 32);
        struct anchor_list list = record_anchors(r);
        CHECK(anchors_count(&list) == 1 && list.row[0].pos == 32);
    }
    CHECK_EQ(entries, 1);
    CHECK_EQ(aside_used(HOLD_STORE), 0);                /* live rows pay for it               */
    store_prefix(record, 0, 60);
    CHECK_EQ(record_count(), 2);
    tier_clear_of(TIER_CLEAR_RESIDENT, NULL);
    CHECK_EQ(aside_used(HOLD_STORE), 8 * BLOCK + UNIT);
    struct tier_prompt prompt = { .keys = keys, .count = 60, .session = { 9, 9 } };
    struct tier_hit hit;
    tier_find(&prompt, &hit);
    CHECK(hit.source == TIER_STORE && hit.way == WAY_FORK && hit.start == 32);
    tier_check(SLOTS, NULL, 0);
    house_close();
}

TEST(over_its_cap_a_class_loses_what_is_worth_least)
{
    struct aside_caps caps = { .park_bytes = 40 * BLOCK };
    house_open_caps(64, &caps);
    u64 number[4];
    for (u64 i = 0; i < 4; i++) {                       /* 16 blocks each: two fit            */
        u32 record = talk(20 + i);
        number[i] = record_at(record)->number;
        if (i == 1) record_at(record)->hits = 50;
        aside_now(now);
        CHECK_OK(record_leave(record, HOLD_PARK));
        resident_left(0);
        tier_settle();
        CHECK(aside_used(HOLD_PARK) <= caps.park_bytes);
        tier_check(SLOTS, NULL, 0);
    }
    u32 left = 0;
    bool valued = false;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        left++;
        valued = valued || record_at(r)->number == number[1];
    }
    CHECK(left == 2 && valued);
    CHECK_EQ(aside_counts()->dropped[HOLD_PARK], 2);
    CHECK_OK(budget_graph_cap(&graph, budget_graph_find(&graph, "park"), 0));
    tier_settle();
    CHECK(record_count() == 0 && aside_used(HOLD_PARK) == 0);
    house_close();
}

TEST(the_protected_record_stays_when_all_others_go)
{
    house_open_caps(64, &all);
    u32 first = talk(30);
    CHECK_OK(record_leave(first, HOLD_PARK));
    resident_left(0);
    u32 second = talk(31);
    CHECK_OK(record_leave(second, HOLD_PARK));
    resident_left(0);
    tier_clear_of(TIER_CLEAR_STORE, NULL);
    aside_protect(first);
    CHECK(aside_evict() && !aside_evict());
    CHECK(record_count() == 1 && record_is(first, record_at(first)->number));
    aside_unprotect(first, record_at(first)->number + 1);       /* another of that row       */
    CHECK(!aside_evict());
    aside_unprotect(first, record_at(first)->number);
    CHECK(aside_evict() && record_count() == 0);
    house_close();
}

TEST(lists_of_records_aside_are_moved_together_when_their_pool_is_full)
{
    house_open_caps(64, &all);
    for (u64 i = 0; i < 300; i++) {                     /* 300 lists of 16: the pool has 2,048 */
        u32 record = talk(100 + i);
        CHECK_OK(record_leave(record, HOLD_PARK));
        resident_left(0);
        tier_clear_of(TIER_CLEAR_STORE, NULL);
        while (record_count() > 5 + i % 4) CHECK(aside_evict());
        tier_check(SLOTS, NULL, 0);
    }
    house_close();
}

TEST(a_hash_is_a_hint_ids_decide)
{
    house_open_caps(64, &all);
    u32 record = talk(6), count;
    u64 rows;
    CHECK_OK(record_leave(record, HOLD_PARK));
    resident_left(0);
    tier_clear_of(TIER_CLEAR_STORE, NULL);
    const block_id *list = record_blocks(record, &count, &rows);
    ((u64 *)arena_blocks_label(state_blocks_arena(), list[2]))[1] ^= 1;  /* the hash stays     */
    struct tier_prompt prompt = { .keys = keys, .count = 63, .session = { 6, 6 } };
    struct tier_hit hit;
    u64 before = match_false();
    tier_find(&prompt, &hit);
    CHECK_EQ(match_false(), before + 1);
    CHECK(hit.start == 8 && hit.common == 9);
    house_close();
}
