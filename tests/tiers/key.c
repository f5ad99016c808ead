/* tests/tiers/key.c - labels, hashes, common prefixes; values. */
#include "tests/test.h"

#include "arena/base/hash.h"
#include "arena/base/rng.h"
#include "tiers/key.h"
#include "tiers/value.h"

#include <string.h>

enum { B = 4, BLOCKS = 8 };
static u32 arena;
static block_id list[BLOCKS];
static u64 keys[B * BLOCKS];

static void open_blocks(void)
{
    CHECK_OK(arena_open(&(struct arena_decl){ .name = "blocks", .kind = ARENA_BLOCKS,
        .unit_bytes = 4096, .unit_cap = BLOCKS, .label_bytes = 8 * B }, 1));
    arena = arena_find("blocks");
    for (u32 i = 0; i < BLOCKS; i++) CHECK_OK(arena_blocks_take(arena, HOLD_LIVE, &list[i]));
    for (u64 i = 0; i < COUNT_OF(keys); i++) keys[i] = rng_u64(1, i);
}

TEST(ids_put_in_any_pieces_give_the_same_labels_and_hashes)
{
    open_blocks();
    key_put(arena, B, list, 0, keys, 30);
    u64 whole[BLOCKS][2];
    for (u32 i = 0; i < BLOCKS; i++) memcpy(whole[i], arena_blocks_row(arena, list[i])->hash, 16);
    for (u32 i = 0; i < BLOCKS; i++) memset(arena_blocks_label(arena, list[i]), 0, 8 * B);
    for (u64 pos = 0; pos < 30;) {
        u64 n = MIN(1 + rng_u64(2, pos) % 7, 30 - pos);
        key_put(arena, B, list, pos, keys + pos, n);
        pos += n;
    }
    u64 chain[2] = { 0, 0 };
    for (u32 i = 0; i < BLOCKS; i++) {
        const struct block_row *row = arena_blocks_row(arena, list[i]);
        CHECK(memcmp(whole[i], row->hash, 16) == 0);
        if (i == BLOCKS - 1) break;                     /* 30 ids: the last block is open */
        hash_chain(chain, keys + i * B, B, chain);
        CHECK(memcmp(chain, row->hash, 16) == 0);
        CHECK(memcmp(arena_blocks_label(arena, list[i]), keys + i * B, 8 * B) == 0);
    }
    CHECK(arena_blocks_row(arena, list[BLOCKS - 1])->hash[0] == 0);
    arena_close();
}

TEST(the_common_prefix_ends_at_the_first_other_id_at_every_place)
{
    u64 mine[COUNT_OF(keys)];
    open_blocks();
    key_put(arena, B, list, 0, keys, COUNT_OF(keys));
    CHECK_EQ(key_common(arena, B, list, COUNT_OF(keys), keys, COUNT_OF(keys)), COUNT_OF(keys));
    CHECK_EQ(key_common(arena, B, list, 0, keys, 9), 0);
    CHECK_EQ(key_common(arena, B, list, COUNT_OF(keys), keys, 0), 0);
    for (u64 at = 0; at < COUNT_OF(keys); at++) {
        memcpy(mine, keys, sizeof mine);
        mine[at] ^= 1;
        CHECK_EQ(key_common(arena, B, list, COUNT_OF(keys), mine, COUNT_OF(keys)), at);
        CHECK_EQ(key_common(arena, B, list, at, mine, COUNT_OF(keys)), at);     /* rows end */
        CHECK_EQ(key_common(arena, B, list, COUNT_OF(keys), mine, at), at);     /* ids end  */
    }
    arena_close();
}

TEST(lines_are_counted_above_and_up_to_the_bounds)
{
    CHECK_EQ(key_line(0, 8), 8);
    CHECK_EQ(key_line(7, 8), 8);
    CHECK_EQ(key_line(8, 8), 16);
    CHECK_EQ(key_lines(0, 7, 8), 0);
    CHECK_EQ(key_lines(0, 8, 8), 1);
    CHECK_EQ(key_lines(8, 16, 8), 1);
    CHECK_EQ(key_lines(8, 15, 8), 0);
    CHECK_EQ(key_lines(9, 3, 8), 0);
}

TEST(values_halve_with_each_half_life_and_rise_with_hits_and_tokens)
{
    CHECK(value_of(0, 100, 0, 1000, 1) == 100.0);
    CHECK(value_of(0, 100, 1000, 1000, 1) == 50.0);
    CHECK(value_of(0, 100, 3000, 1000, 1) == 12.5);
    CHECK(value_of(1, 100, 0, 1000, 4) == 50.0);
    CHECK(value_of(0, 100, UINT64_MAX, 1, 1) == 0.0);
    f64 before = value_of(2, 77, 0, 1000, 3);
    for (u64 idle = 50; idle < 5000; idle += 50) {
        f64 now = value_of(2, 77, idle, 1000, 3);
        CHECK(now < before);
        before = now;
    }
}
