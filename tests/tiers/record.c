/* tests/tiers/record.c - the record table and the residents over real slots, no model: references
 * under random operations, where prompts start, who gives way, thinning under a cap. */
#include "tests/tiers/house.h"

TEST(a_prompt_takes_at_the_end_and_forks_anywhere_else)
{
    house_open(64);
    fill_keys(1);
    struct tier_hit hit = turn(keys, 20, 1, 3);
    CHECK(hit.way == WAY_COLD && hit.reason == TIER_NEVER_SEEN && hit.start == 0);
    hit = turn(keys, 30, 1, 2);
    CHECK(hit.way == WAY_TAKE && hit.source == TIER_END && hit.start == 23 && hit.slot == 0);
    hit = turn(keys, 30, 1, 2);                         /* again: n - 1 */
    CHECK(hit.way == WAY_FORK && hit.source == TIER_TURN && hit.start == 29 && hit.slot == 1);
    CHECK_EQ(hit.reason, TIER_REASON_NONE);
    keys[26] ^= 1;                                      /* edited inside the second message */
    hit = turn(keys, 30, 1, 2);
    CHECK(hit.way == WAY_FORK && hit.start == 24 && hit.source == TIER_GRID && hit.slot == 2);
    CHECK(hit.reason == TIER_PARTED && hit.part_pos == 26);
    keys[2] ^= 1;                                       /* nothing but two ids in common */
    hit = turn(keys, 30, 2, 2);
    CHECK(hit.way == WAY_COLD && hit.reason == TIER_SHORT && hit.part_pos == 2);
    CHECK_EQ(hit.common, 2);
    house_close();
}

TEST(a_prompt_never_starts_at_its_own_last_id)
{
    house_open(64);
    fill_keys(2);
    turn(keys, 16, 1, 0);                               /* len 16, anchors at 8, 15, 16 */
    struct tier_hit hit = turn(keys, 16, 1, 0);
    CHECK(hit.start == 15 && hit.way == WAY_FORK);
    hit = turn(keys, 17, 1, 0);
    CHECK(hit.start == 16 && hit.way == WAY_TAKE);
    hit = turn(keys, 1, 1, 0);
    CHECK(hit.start == 0);
    house_close();
}

TEST(a_busy_record_is_forked_and_its_rows_never_change)
{
    house_open(64);
    fill_keys(3);
    turn(keys, 21, 1, 4);
    struct tier_hit main = begin(keys, 40, 1, 4);
    CHECK(main.way == WAY_TAKE && main.start == 25);
    keys[30] ^= 1;
    struct tier_hit side = turn(keys, 36, 2, 5);        /* shares what was there before */
    CHECK(side.way == WAY_FORK && side.start == 25 && side.slot == 1);
    keys[30] ^= 1;
    CHECK_OK(resident_pool_fill(&pool, 8));
    finish(&main, keys, 40, 4);
    equals_cold(0, keys, 44);
    keys[30] ^= 1;
    equals_cold(1, keys, 41);
    tier_check(SLOTS, NULL, 0);
    house_close();
}

TEST(with_every_slot_busy_there_is_no_slot)
{
    house_open(64);
    fill_keys(4);
    struct tier_hit hit;
    for (u32 i = 0; i < SLOTS; i++) {
        keys[0] = i;
        hit = begin(keys, 10, i, 0);
        CHECK(hit.slot == i && hit.way == WAY_COLD);
    }
    keys[0] = 99;
    CHECK(begin(keys, 10, 9, 0).slot == NONE);
    for (u32 i = 0; i < SLOTS; i++) resident_release(i, ++now);
    CHECK_EQ(record_count(), 0);                        /* none had rows */
    house_close();
}

TEST(the_oldest_slot_gives_way_but_a_long_conversation_not_to_a_short_prompt)
{
    house_open(64);
    fill_keys(5);
    static const u64 lengths[SLOTS] = { 44, 12, 60, 40 };
    for (u32 i = 0; i < SLOTS; i++) {
        keys[0] = i;
        CHECK_EQ(turn(keys, lengths[i], i, 0).slot, i);
    }
    keys[0] = 50;
    struct tier_hit hit = turn(keys, 10, 50, 0);        /* 44 rows are over 4 times 10 */
    CHECK(hit.slot == 1 && hit.way == WAY_COLD);
    keys[0] = 51;
    hit = turn(keys, 11, 51, 0);                        /* 44 are not over 4 times 11: the oldest */
    CHECK(hit.slot == 0 && hit.way == WAY_COLD);
    keys[0] = 2;
    keys[57] ^= 1;
    hit = turn(keys, 60, 2, 0);                         /* a tail of 4 rows is less than 40 */
    CHECK(hit.way == WAY_CUT && hit.slot == 2 && hit.start == 56);
    house_close();
}

TEST(as_many_conversations_as_slots_take_turns_without_reading_again)
{
    house_open(64);
    fill_keys(9);
    for (u64 i = 0; i < SLOTS; i++) {                   /* old ones with many hits */
        keys[0] = 100 + i;
        for (u64 n = 60; n < 70; n += 2) turn(keys, n, 100 + i, 0);
    }
    u64 len[SLOTS] = { 0 };
    for (u32 round = 0; round < 5 * SLOTS; round++) {
        u32 who = round % SLOTS;
        keys[0] = who;
        struct tier_hit hit = turn(keys, 20 + len[who], who, 2);
        CHECK_EQ(hit.start, len[who] == 0 ? 0 : 20 + len[who] - 3);
        len[who] += 5;
    }
    house_close();
}

TEST(anchors_under_a_cap_thin_out_and_every_start_stays_exact)
{
    for (u32 cap = 0; cap <= 9; cap++) {
        house_open(cap);
        fill_keys(6);
        for (u64 n = 10; n < 100; n += 9) {
            struct tier_hit hit = begin(keys, n, 1, 2);
            if (anchor_units() < cap) CHECK_OK(resident_pool_fill(&pool, 1));
            finish(&hit, keys, n, 2);
            equals_cold(hit.slot, keys, n + 2);
            tier_check(SLOTS, NULL, 0);
            CHECK(n == 10 || hit.start == n - 9 + 2);   /* the slot's own end needs no anchor */
            struct anchor_list list = record_anchors(resident_record(hit.slot));
            CHECK(anchors_count(&list) <= MAX(cap, 1u));
            CHECK(cap == 0 || list.row[anchors_count(&list) - 1].pos == n + 2);
        }
        keys[90] ^= 1;
        struct tier_hit hit = begin(keys, 98, 1, 0);
        if (cap == 0) CHECK(hit.start == 0 && hit.reason == TIER_OFF);
        finish(&hit, keys, 98, 0);
        equals_cold(hit.slot, keys, 98);
        house_close();
    }
}

TEST(clearing_drops_idle_records_now_and_busy_ones_after_their_turn)
{
    house_open(64);
    fill_keys(7);
    turn(keys, 20, 1, 0);
    keys[0] ^= 1;
    struct tier_hit busy = begin(keys, 20, 2, 0);
    const u64 one[2] = { 1, 1 }, three[2] = { 3, 3 };
    CHECK_EQ(tier_clear(three), 0);
    CHECK_EQ(tier_clear(one), 1);
    CHECK_EQ(record_count(), 1);
    CHECK_EQ(tier_clear(NULL), 1);
    CHECK_EQ(record_count(), 1);
    finish(&busy, keys, 20, 0);
    CHECK_EQ(record_count(), 0);
    house_close();
}

TEST(yielding_takes_only_what_is_above_the_reserve)
{
    static struct budget_record victims[64];
    static struct budget_shares shares;
    u32 indices[64];
    budget_shares_open(&shares);
    house_open(64);
    budget_shares_open(&shares);
    fill_keys(8);
    turn(keys, 80, 1, 0);                               /* lines 8..80, 79: slot 0 */
    keys[0] ^= 1;
    turn(keys, 40, 2, 0);                               /* lines 8..40, 39: slot 1 */
    u32 used = arena_slots_used(state_sections_arena());
    u32 count = resident_victims(victims, 64, &shares);
    CHECK_EQ(count, 11 - 4 + 6 - 1);
    for (u32 i = 0; i < count; i++) indices[i] = victims[i].record;
    CHECK_EQ(resident_yield(NULL, indices, count),
             count * arena_row(state_sections_arena())->unit_bytes);
    CHECK_EQ(arena_slots_used(state_sections_arena()), used - count);
    CHECK_EQ(resident_victims(victims, 64, &shares), 0);
    tier_check(SLOTS, NULL, 0);
    house_close();
}

/* Random prompts over a few conversations, some left busy for a while, some undone, cut, cleared:
 * every turn equals a cold run and every reference is found. */
TEST(random_turns_keep_every_reference_and_every_byte)
{
    static u64 talk[3][CTX], busy_keys[SLOTS][CTX];
    u64 talk_len[3] = { 0 }, busy_count[SLOTS], step = 0;
    struct tier_hit busy[SLOTS];
    bool is_busy[SLOTS] = { false };
    house_open(40);
    for (u64 round = 0; round < 1500; round++) {
        u64 pick = rng_u64(11, round) % 100, which = rng_u64(12, round) % 3;
        u64 len = talk_len[which];
        if (len > 100) len = talk_len[which] = rng_u64(13, round) % 40;
        if (pick < 20 && len > 4) len = talk_len[which] = 1 + rng_u64(14, round) % len;
        u64 add = 1 + rng_u64(15, round) % 20, more = rng_u64(16, round) % 4;
        for (u64 i = len; i < len + add + more; i++) talk[which][i] = rng_u64(17, ++step) % 3;
        struct tier_hit hit = begin(talk[which], len + add, which, more);
        if (hit.slot != NONE && pick >= 90) {
            struct tier_hit undone = hit;               /* the gate changed its mind */
            tier_unplace(&undone);
            if (resident_record(hit.slot) == NONE) slot_drop(hit.slot);
            else slot_shrink(hit.slot, slot_row(hit.slot)->len);
        } else if (hit.slot != NONE) {
            memcpy(busy_keys[hit.slot], talk[which], sizeof talk[which]);
            busy[hit.slot] = hit;
            busy_count[hit.slot] = len + add;
            is_busy[hit.slot] = true;
            talk_len[which] = len + add + more;
            if (pick < 60) {
                if (pool.count < 4 && anchor_units() < 30)
                    CHECK_OK(resident_pool_fill(&pool, 8));
                finish(&hit, talk[which], len + add, more);
                equals_cold(hit.slot, talk[which], len + add + more);
                is_busy[hit.slot] = false;
            }
        }
        u32 slot = (u32)(rng_u64(18, round) % SLOTS);
        if (is_busy[slot]) {
            finish(&busy[slot], busy_keys[slot], busy_count[slot], 0);
            if (resident_record(slot) != NONE)          /* not cleared meanwhile */
                equals_cold(slot, busy_keys[slot], busy_count[slot]);
            is_busy[slot] = false;
        }
        if (pick == 50) tier_clear(NULL);
        resident_pool_drop(&pool);
        tier_check(SLOTS, NULL, 0);
        slot_check();
        arena_check();
    }
    struct tier_stats stats;
    tier_stats(&stats);
    CHECK(stats.turns[TIER_END] > 50 && stats.turns[TIER_GRID] > 20 && stats.turns[TIER_TURN] > 20);
    for (u32 slot = 0; slot < SLOTS; slot++)
        if (resident_busy(slot)) resident_release(slot, ++now);
    house_close();
}
