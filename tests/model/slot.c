/* slot.c - growing, copy on write, freezing, saving and loading: over real arenas, under faults. */
#include "model/family/family.h"
#include "tests/model/rig.h"

enum { B = 16 };

static void open_small(void)
{
    space_host_granule(4096);
    rig_open(&(struct rig){ .block_rows = B, .grid_rows = 64, .slots = 3, .ctx_rows = 256 });
}

static void close_small(void)
{
    rig_close();
    space_host_granule(0);
}

static u32 blocks_used(void) { return arena_blocks_used(state_blocks_arena()); }

static block_id block_of(u32 slot, u32 index)
{
    u32 count;
    u64 rows;
    const block_id *list = state_rows_out(slot, &count, &rows);
    CHECK(index < count);
    return list[index];
}

/* Forwards `count` rows of ids that depend on `from` alone. */
static void forward_some(u32 slot, u32 count, u32 from)
{
    u32 ids[256];
    for (u32 i = 0; i < count; i++) ids[i] = (from + i) * 7 % 1000;
    CHECK_OK(slot_grow(slot, slot_row(slot)->len + count));
    CHECK_OK(forward_chunk(slot, ids, count, NULL));
}

static void sums_of(u32 slot, u64 rows, u64 out[2])
{
    u32 count;
    u64 len;
    const block_id *list = state_rows_out(slot, &count, &len);
    CHECK(rows <= len);
    state_sums(list, rows, out);
}

TEST(growing_takes_blocks_and_shrinking_gives_them_back)
{
    open_small();
    CHECK_EQ(blocks_used(), 0);
    CHECK_OK(slot_grow(0, 1));
    CHECK_EQ(blocks_used(), 1);
    CHECK_OK(slot_grow(0, B));
    CHECK_EQ(blocks_used(), 1);
    CHECK_OK(slot_grow(0, B + 1));
    CHECK_EQ(blocks_used(), 2);
    CHECK_EQ(slot_row(0)->row_cap, 2 * B);
    slot_shrink(0, B);
    CHECK_EQ(blocks_used(), 1);
    CHECK_EQ(slot_grow(0, 257), ERR_FULL);
    CHECK_OK(slot_grow(0, 256));
    slot_drop(0);
    CHECK_EQ(blocks_used(), 0);
    CHECK_EQ(arena_slots_used(state_sections_arena()), 0);
    close_small();
}

TEST(cost_is_what_grow_takes)
{
    open_small();
    u64 blocks, sections, unit = arena_row(state_blocks_arena())->unit_bytes;
    slot_cost(0, 3 * B + 1, &blocks, &sections);
    CHECK_EQ(blocks, 4 * unit);
    CHECK_EQ(sections, arena_row(state_sections_arena())->unit_bytes);
    CHECK_OK(slot_grow(0, 3 * B + 1));
    slot_cost(0, 3 * B + 1, &blocks, &sections);
    CHECK_EQ(blocks + sections, 0);
    close_small();
}

TEST(a_shared_block_is_copied_before_it_is_written)
{
    open_small();
    u64 before[2], after[2];
    forward_some(0, B + 5, 0);
    block_id shared = block_of(0, 1);
    sums_of(0, B + 5, before);
    state_freeze(0, B + 5);
    arena_blocks_hold(state_blocks_arena(), shared, HOLD_PARK);         /* a record counts on it */
    /* the appender goes on in place above the frozen rows */
    forward_some(0, 2, 5);
    CHECK_EQ(block_of(0, 1).index, shared.index);
    /* another slot forks at B + 5: the block of row B + 5 has an appender, so it copies */
    block_id list[2] = { block_of(0, 0), shared };
    for (u32 i = 0; i < 2; i++) arena_blocks_hold(state_blocks_arena(), list[i], HOLD_LIVE);
    state_rows_in(1, list, 2, B + 5);
    u64 blocks, sections;
    slot_cost(1, B + 6, &blocks, &sections);
    CHECK_EQ(blocks, arena_row(state_blocks_arena())->unit_bytes);
    CHECK_OK(slot_grow(1, B + 6));
    CHECK(block_of(1, 1).index != shared.index);
    CHECK_EQ(block_of(1, 0).index, list[0].index);
    sums_of(1, B + 5, after);
    CHECK(before[0] == after[0] && before[1] == after[1]);
    sums_of(0, B + 5, after);
    CHECK(before[0] == after[0] && before[1] == after[1]);
    arena_blocks_drop(state_blocks_arena(), shared, HOLD_PARK);
    close_small();
}

TEST(a_slot_that_takes_a_record_appends_in_place)
{
    open_small();
    forward_some(0, B + 5, 0);
    block_id list[2] = { block_of(0, 0), block_of(0, 1) };
    state_freeze(0, B + 5);
    for (u32 i = 0; i < 2; i++) {
        arena_blocks_hold(state_blocks_arena(), list[i], HOLD_PARK);
        arena_blocks_hold(state_blocks_arena(), list[i], HOLD_LIVE);
    }
    slot_drop(0);
    state_rows_in(1, list, 2, B + 5);
    CHECK_OK(slot_grow(1, B + 6));
    CHECK_EQ(block_of(1, 1).index, list[1].index);
    /* a cut below the frozen rows may not write them */
    state_rows_in(1, list, 0, 0);
    for (u32 i = 0; i < 2; i++) arena_blocks_hold(state_blocks_arena(), list[i], HOLD_LIVE);
    state_rows_in(1, list, 2, B + 2);
    CHECK_OK(slot_grow(1, B + 3));
    CHECK(block_of(1, 1).index != list[1].index);
    slot_drop(1);
    for (u32 i = 0; i < 2; i++) arena_blocks_drop(state_blocks_arena(), list[i], HOLD_PARK);
    CHECK_EQ(blocks_used(), 0);
    close_small();
}

TEST(labels_of_copied_rows_go_along)
{
    open_small();
    forward_some(0, 5, 0);
    block_id first = block_of(0, 0);
    u64 *label = arena_blocks_label(state_blocks_arena(), first);
    for (u32 i = 0; i < B; i++) label[i] = 100 + i;
    state_freeze(0, 5);
    arena_blocks_hold(state_blocks_arena(), first, HOLD_LIVE);
    state_rows_in(1, &first, 1, 5);
    CHECK_OK(slot_grow(1, 6));
    const u64 *copy = arena_blocks_label(state_blocks_arena(), block_of(1, 0));
    CHECK(copy != label && copy[0] == 100 && copy[4] == 104 && copy[5] == 0);
    close_small();
}

TEST(every_refused_commit_leaves_the_slot_as_it_was)
{
    open_small();
    forward_some(0, B + 5, 0);
    u32 fired = 1;
    for (u32 n = 1; fired; n++) {
        block_id list[2] = { block_of(0, 0), block_of(0, 1) };
        for (u32 i = 0; i < 2; i++) arena_blocks_hold(state_blocks_arena(), list[i], HOLD_LIVE);
        state_rows_in(1, list, 2, B + 5);
        arena_trim(state_blocks_arena(), 0);
        arena_trim(state_sections_arena(), 0);
        u32 used = blocks_used(), units = arena_slots_used(state_sections_arena());
        space_host_fail_commit(n);
        enum err err = slot_grow(1, 12 * B);
        space_host_fail_commit(0);
        fired = err != OK;
        if (fired) {
            CHECK_EQ(err, ERR_MEMORY);
            CHECK_EQ(blocks_used(), used);
            CHECK_EQ(arena_slots_used(state_sections_arena()), units);
            CHECK_EQ(slot_row(1)->block_count, 2);
            CHECK_EQ(slot_row(1)->len, B + 5);
        } else {
            CHECK_EQ(slot_row(1)->block_count, 12);
        }
        slot_check();
        arena_check();
        slot_drop(1);
        CHECK(n < 200);
    }
    close_small();
}

TEST(a_saved_state_comes_back_bit_for_bit)
{
    open_small();
    u32 arena = state_sections_arena();
    u64 bytes = state_shape()->section_bytes, pos = 0;
    unit_id unit;
    static u8 kept[1 << 20];
    CHECK(bytes <= sizeof kept);
    forward_some(0, 2 * B, 0);
    CHECK_OK(arena_slots_take(arena, HOLD_ANCHOR, &unit));
    CHECK_OK(state_save(0, unit, &pos));
    CHECK_EQ(pos, 2 * B);
    memcpy(kept, arena_slots_addr(arena, slot_row(0)->unit), bytes);
    forward_some(0, 5, 77);
    CHECK(memcmp(kept, arena_slots_addr(arena, slot_row(0)->unit), bytes) != 0);
    CHECK_OK(state_load(0, unit, 2 * B));
    CHECK_EQ(slot_row(0)->len, 2 * B);
    CHECK(memcmp(kept, arena_slots_addr(arena, slot_row(0)->unit), bytes) == 0);
    arena_slots_drop(arena, unit, HOLD_ANCHOR);
    CHECK_EQ(state_load(0, unit, 2 * B), ERR_STALE);
    CHECK_EQ(state_save(0, unit, &pos), ERR_STALE);
    /* the empty state */
    CHECK_OK(state_load(0, (unit_id){ NONE, 0 }, 0));
    memset(kept, 0, bytes);
    CHECK(memcmp(kept, arena_slots_addr(arena, slot_row(0)->unit), bytes) == 0);
    close_small();
}

TEST(a_resumed_prompt_equals_the_cold_one)
{
    open_small();
    static f32 cold[1792], warm[1792];
    u32 ids[40], arena = state_sections_arena();
    u64 pos, a[2], b[2];
    unit_id unit;
    for (u32 i = 0; i < 40; i++) ids[i] = i * 31 % 1500;
    CHECK_OK(slot_grow(0, 40));
    CHECK_OK(forward_chunk(0, ids, 40, cold));
    CHECK_OK(slot_grow(1, 21));
    CHECK_OK(forward_chunk(1, ids, 21, NULL));
    CHECK_OK(arena_slots_take(arena, HOLD_ANCHOR, &unit));
    CHECK_OK(state_save(1, unit, &pos));
    block_id list[2] = { block_of(1, 0), block_of(1, 1) };
    for (u32 i = 0; i < 2; i++) arena_blocks_hold(state_blocks_arena(), list[i], HOLD_LIVE);
    state_rows_in(2, list, 2, 21);
    CHECK_OK(state_load(2, unit, 21));
    CHECK_OK(slot_grow(2, 40));
    CHECK_OK(forward_chunk(2, ids + 21, 19, warm));
    CHECK(memcmp(cold, warm, sizeof cold) == 0);
    sums_of(0, 40, a);
    sums_of(2, 40, b);
    CHECK(a[0] == b[0] && a[1] == b[1]);
    CHECK(memcmp(arena_slots_addr(arena, slot_row(0)->unit),
                 arena_slots_addr(arena, slot_row(2)->unit), state_shape()->section_bytes) == 0);
    arena_slots_drop(arena, unit, HOLD_ANCHOR);
    close_small();
}

TEST(the_two_sums_see_each_row_and_nothing_above)
{
    open_small();
    u64 a[2], b[2];
    forward_some(0, B + 3, 0);
    sums_of(0, B + 2, a);
    const struct state_view *v = &state_shape()->view[FAMILY_VIEW_V];
    u8 *strip = state_strip(block_of(0, 1), FAMILY_VIEW_V, v->planes - 1);
    strip[2 * v->row_bytes] ^= 1;                       /* row B + 2: not summed */
    sums_of(0, B + 2, b);
    CHECK(a[0] == b[0] && a[1] == b[1]);
    strip[1 * v->row_bytes] ^= 1;
    sums_of(0, B + 2, b);
    CHECK(a[0] != b[0] && a[1] != b[1]);
    close_small();
}
