/* tests/arena/arena.c - every kind of arena: what is taken, charged, committed, given back; random
 * operations with refused commits; the accounting identity after each. */
#include "tests/test.h"

#include "arena/base/clock.h"
#include "arena/base/rng.h"
#include "arena/blocks.h"
#include "arena/extents.h"
#include "arena/scratch.h"
#include "arena/slots.h"
#include "arena/space.h"
#include "arena/table.h"

#include <stdio.h>
#include <string.h>

enum { GRANULE = 4096 };
enum { BLOCKS, SECTIONS, SMALL, EXTENTS, TABLES, SCRATCH, NAMES };

static const struct arena_decl decl[NAMES] = {
    [BLOCKS] = { .name = "blocks", .space = SPACE_DEVICE, .kind = ARENA_BLOCKS,
                 .unit_bytes = 3 * GRANULE, .unit_cap = 40, .label_bytes = 128 },
    [SECTIONS] = { .name = "sections", .space = SPACE_DEVICE, .kind = ARENA_SLOTS,
                   .unit_bytes = GRANULE + 256, .unit_cap = 20 },
    [SMALL] = { .name = "small", .space = SPACE_HOST, .kind = ARENA_SLOTS,
                .unit_bytes = 960, .unit_cap = 102 },
    [EXTENTS] = { .name = "extents", .space = SPACE_HOST, .kind = ARENA_EXTENTS,
                  .cap_bytes = 200 * GRANULE },
    [TABLES] = { .name = "tables", .space = SPACE_HOST, .kind = ARENA_TABLE,
                 .cap_bytes = 16 * GRANULE },
    [SCRATCH] = { .name = "scratch", .space = SPACE_DEVICE, .kind = ARENA_SCRATCH,
                  .cap_bytes = 16 * GRANULE },
};

static void open_all(void)
{
    arena_close();
    space_host_granule(GRANULE);
    CHECK_OK(arena_open(decl, NAMES));
    for (u32 i = 0; i < NAMES; i++) CHECK_EQ(arena_find(decl[i].name), i);
}

static void close_all(void)
{
    arena_check();
    arena_close();
    space_host_granule(0);
}

TEST(a_declaration_that_cannot_be_is_refused_and_nothing_stays)
{
    struct arena_decl twice[2] = { decl[TABLES], decl[TABLES] };
    CHECK_EQ(arena_open(twice, 2), ERR_CONFIG);
    CHECK(strstr(err_last()->text, "tables") != NULL);
    CHECK_EQ(arena_count(), 0);
    twice[0].name = "a name longer than it can be";
    CHECK_EQ(arena_open(twice, 1), ERR_CONFIG);
    twice[0] = (struct arena_decl){ .name = "huge", .kind = ARENA_SLOTS, .unit_bytes = 1ull << 40,
                                    .unit_cap = 1u << 30 };
    CHECK_EQ(arena_open(twice, 1), ERR_MEMORY);
    CHECK_EQ(arena_count(), 0);
    CHECK_EQ(arena_find("huge"), NONE);
    arena_close();
}

TEST(an_arena_of_no_units_holds_nothing)
{
    struct arena_decl none = { .name = "none", .kind = ARENA_SLOTS, .unit_bytes = 64 };
    unit_id unit = { 5, 5 };
    CHECK_OK(arena_open(&none, 1));
    CHECK_EQ(arena_slots_take(0, HOLD_LIVE, &unit), ERR_FULL);
    CHECK_EQ(unit.index, 5);
    arena_check();
    arena_close();
}

TEST(a_unit_is_charged_to_its_highest_holder_until_the_last_drop)
{
    open_all();
    unit_id unit;
    CHECK_OK(arena_slots_take(SECTIONS, HOLD_LIVE, &unit));
    const struct arena_row *row = arena_row(SECTIONS);
    CHECK_EQ(row->unit_bytes, 2 * GRANULE);
    CHECK_EQ(row->committed_bytes, 2 * GRANULE);
    CHECK_EQ(row->held.bytes[HOLD_LIVE], 2 * GRANULE);
    arena_slots_hold(SECTIONS, unit, HOLD_PARK);
    arena_slots_hold(SECTIONS, unit, HOLD_PARK);
    arena_slots_drop(SECTIONS, unit, HOLD_LIVE);
    CHECK_EQ(row->held.bytes[HOLD_LIVE], 0);
    CHECK_EQ(row->held.bytes[HOLD_PARK], 2 * GRANULE);
    arena_slots_recharge(SECTIONS, unit, HOLD_PARK, HOLD_ANCHOR);
    CHECK_EQ(row->held.bytes[HOLD_ANCHOR], 2 * GRANULE);
    CHECK_EQ(holders_total(arena_slots_holders(SECTIONS, unit)), 2);
    arena_slots_drop(SECTIONS, unit, HOLD_ANCHOR);
    CHECK(arena_slots_valid(SECTIONS, unit));
    arena_slots_drop(SECTIONS, unit, HOLD_PARK);
    CHECK(!arena_slots_valid(SECTIONS, unit));
    CHECK(row->used_bytes == 0 && row->committed_bytes == 2 * GRANULE);
    CHECK_EQ(arena_free_bytes(SECTIONS), 2 * GRANULE);
    CHECK_EQ(arena_trim(SECTIONS, 2 * GRANULE), 0);
    CHECK_EQ(arena_trim(SECTIONS, 2 * GRANULE - 1), 2 * GRANULE);
    unit_id again;
    CHECK_OK(arena_slots_take(SECTIONS, HOLD_LIVE, &again));
    CHECK(again.index == unit.index && again.generation != unit.generation);
    CHECK(!arena_slots_valid(SECTIONS, unit) && arena_slots_valid(SECTIONS, again));
    CHECK(!arena_slots_valid(SECTIONS, (unit_id){ 0 }));
    CHECK(!arena_slots_valid(SECTIONS, (unit_id){ NONE, 1 }));
    close_all();
}

TEST(small_units_come_from_the_fullest_granule_so_that_whole_ones_come_free)
{
    open_all();
    unit_id unit[12];                                   /* 4 a granule, its end is free       */
    for (u32 i = 0; i < 12; i++) CHECK_OK(arena_slots_take(SMALL, HOLD_LIVE, &unit[i]));
    CHECK_EQ(arena_row(SMALL)->committed_bytes, 3 * GRANULE);
    CHECK_EQ(arena_row(SMALL)->used_bytes, 12 * 960);
    CHECK_EQ(arena_free_bytes(SMALL), 3 * (GRANULE - 4 * 960));
    arena_slots_drop(SMALL, unit[0], HOLD_LIVE);
    arena_slots_drop(SMALL, unit[1], HOLD_LIVE);
    arena_slots_drop(SMALL, unit[4], HOLD_LIVE);
    CHECK_OK(arena_slots_take(SMALL, HOLD_LIVE, &unit[4]));
    CHECK_EQ(unit[4].index, 4);                         /* the granule with 3, not that with 2 */
    arena_slots_drop(SMALL, unit[2], HOLD_LIVE);
    arena_slots_drop(SMALL, unit[3], HOLD_LIVE);
    CHECK_EQ(arena_trim(SMALL, 0), GRANULE);
    CHECK_EQ(arena_row(SMALL)->committed_bytes, 2 * GRANULE);
    CHECK_EQ(arena_cost_units(SMALL, 0), 0);
    CHECK_EQ(arena_cost_units(SMALL, 1), GRANULE);
    CHECK_EQ(arena_cost_units(SMALL, 4), GRANULE);
    CHECK_EQ(arena_cost_units(SMALL, 5), 2 * GRANULE);
    arena_slots_drop(SMALL, unit[7], HOLD_LIVE);
    CHECK_EQ(arena_cost_units(SMALL, 5), GRANULE);
    CHECK_EQ(arena_cost_units(SECTIONS, 3), 3 * 2 * GRANULE);
    close_all();
}

TEST(all_units_can_be_held_and_no_more)
{
    open_all();
    static unit_id unit[102];
    for (u32 i = 0; i < 102; i++) {
        CHECK_OK(arena_slots_take(SMALL, HOLD_STORE, &unit[i]));
        memset(arena_slots_addr(SMALL, unit[i]), (int)i, 960);
    }
    unit_id more;
    CHECK_EQ(arena_slots_take(SMALL, HOLD_STORE, &more), ERR_FULL);
    CHECK_EQ(arena_slots_used(SMALL), 102);
    for (u32 i = 0; i < 102; i++)
        for (u32 b = 0; b < 960; b += 959)
            CHECK_EQ(arena_slots_addr(SMALL, unit[i])[b], i);
    arena_check();
    for (u32 i = 0; i < 102; i++) arena_slots_drop(SMALL, unit[i], HOLD_STORE);
    arena_trim(SMALL, 0);
    CHECK_EQ(arena_row(SMALL)->committed_bytes, 0);
    close_all();
}

TEST(a_fresh_block_is_clean_and_its_appender_alone_may_write_above_frozen)
{
    open_all();
    block_id block;
    CHECK_OK(arena_blocks_take(BLOCKS, HOLD_LIVE, &block));
    struct block_row *row = arena_blocks_row(BLOCKS, block);
    CHECK(row->appender == NONE && row->frozen == 0);
    CHECK(!arena_blocks_owner(BLOCKS, block, 0, 0));
    row->appender = 1;
    row->frozen = 5;
    row->hash[0] = 9;
    memset(arena_blocks_label(BLOCKS, block), 7, 128);
    memset(arena_blocks_addr(BLOCKS, block), 7, 3 * GRANULE);
    CHECK(arena_blocks_owner(BLOCKS, block, 1, 5));
    CHECK(!arena_blocks_owner(BLOCKS, block, 1, 4));
    CHECK(!arena_blocks_owner(BLOCKS, block, 0, 5));
    arena_blocks_drop(BLOCKS, block, HOLD_LIVE);
    block_id again;
    CHECK_OK(arena_blocks_take(BLOCKS, HOLD_STORE, &again));
    CHECK_EQ(again.index, block.index);
    CHECK(!arena_blocks_valid(BLOCKS, block));
    row = arena_blocks_row(BLOCKS, again);
    CHECK(row->appender == NONE && row->frozen == 0 && row->hash[0] == 0);
    const u8 *label = arena_blocks_label(BLOCKS, again);
    for (u32 i = 0; i < 128; i++) CHECK_EQ(label[i], 0);
    CHECK_EQ(arena_blocks_used(BLOCKS), 1);
    close_all();
}

TEST(extents_keep_their_content_when_they_grow_in_place_or_move)
{
    open_all();
    extent_id a, b;
    CHECK_OK(arena_extents_take(EXTENTS, 1, &a));
    CHECK_EQ(arena_extents_bytes(EXTENTS, a), GRANULE);
    memset(arena_extents_addr(EXTENTS, a), 0x5A, GRANULE);
    extent_id before = a;
    CHECK_OK(arena_extents_grow(EXTENTS, &a, 3 * GRANULE));
    CHECK(a.index == before.index && a.generation == before.generation);
    CHECK_OK(arena_extents_take(EXTENTS, GRANULE, &b));
    CHECK_OK(arena_extents_grow(EXTENTS, &a, 4 * GRANULE));     /* b is in the way            */
    CHECK(!arena_extents_valid(EXTENTS, before));
    const u8 *at = arena_extents_addr(EXTENTS, a);
    for (u32 i = 0; i < 4 * GRANULE; i++) CHECK_EQ(at[i], i < GRANULE ? 0x5A : 0);
    CHECK_OK(arena_extents_grow(EXTENTS, &a, 1));
    CHECK_EQ(arena_extents_bytes(EXTENTS, a), 4 * GRANULE);
    before = a;
    CHECK_EQ(arena_extents_grow(EXTENTS, &a, 200 * GRANULE), ERR_FULL);
    CHECK(a.index == before.index && arena_extents_valid(EXTENTS, a));
    CHECK_EQ(arena_cost_bytes(EXTENTS, 1), GRANULE);
    arena_extents_free(EXTENTS, b);
    arena_extents_free(EXTENTS, a);
    CHECK_EQ(arena_row(EXTENTS)->committed_bytes, 0);
    CHECK_OK(arena_extents_take(EXTENTS, 200 * GRANULE, &a));   /* all free runs joined       */
    at = arena_extents_addr(EXTENTS, a);
    for (u32 i = 0; i < 200 * GRANULE; i += 64) CHECK_EQ(at[i], 0);
    CHECK_EQ(arena_extents_take(EXTENTS, 1, &b), ERR_FULL);
    arena_extents_free(EXTENTS, a);
    CHECK_EQ(arena_extents_take(EXTENTS, 200 * GRANULE + 1, &b), ERR_FULL);
    close_all();
}

TEST(tables_and_scratch_fill_their_range_and_say_who_wanted_more)
{
    open_all();
    u64 *row = NULL;
    CHECK_OK(arena_table_take(TABLES, "first", 24, 100, &row));
    CHECK((uintptr_t)row % 64 == 0);
    for (u32 i = 0; i < 300; i++) CHECK_EQ(row[i], 0);
    CHECK_EQ(arena_table_take(TABLES, "turn rows", 4096, 16, &row), ERR_FULL);
    CHECK(strstr(err_last()->text, "turn rows") != NULL);
    CHECK_EQ(arena_table_take(TABLES, "wide", 1ull << 40, 1ull << 40, &row), ERR_FULL);

    u8 *one, *two;
    CHECK_OK(arena_scratch_push(SCRATCH, 100, &one));
    u64 mark = arena_scratch_mark(SCRATCH);
    CHECK_OK(arena_scratch_push(SCRATCH, 3 * GRANULE, &two));
    CHECK_EQ(two - one, 256);
    CHECK_EQ(arena_scratch_push(SCRATCH, 15 * GRANULE, &two), ERR_MEMORY);
    arena_scratch_rewind(SCRATCH, mark);
    CHECK_EQ(arena_row(SCRATCH)->committed_bytes, 4 * GRANULE);
    CHECK_EQ(arena_row(SCRATCH)->high_water_bytes, 256 + 3 * GRANULE);
    CHECK_EQ(arena_trim(SCRATCH, 2 * GRANULE), 2 * GRANULE);
    CHECK_EQ(arena_trim(SCRATCH, 0), GRANULE);
    CHECK_EQ(arena_row(SCRATCH)->committed_bytes, GRANULE);
    close_all();
}

TEST(commits_outside_a_gate_are_counted)
{
    open_all();
    unit_id unit;
    CHECK_EQ(arena_row(SECTIONS)->ungated_count, 0);
    arena_gate(true);
    CHECK_OK(arena_slots_take(SECTIONS, HOLD_LIVE, &unit));
    arena_gate(false);
    CHECK(arena_row(SECTIONS)->ungated_count == 0 && arena_row(SECTIONS)->commit_count == 1);
    CHECK_OK(arena_slots_take(SECTIONS, HOLD_LIVE, &unit));
    CHECK(arena_row(SECTIONS)->ungated_count == 1 && arena_row(SECTIONS)->commit_count == 2);
    close_all();
}

/* ---------------------------------------------------------------- refused commits */
struct snapshot { u64 committed, used, held[HOLD_COUNT]; };

static void take_snapshot(struct snapshot out[NAMES + 1])
{
    for (u32 i = 0; i <= NAMES; i++) {
        const struct arena_row *row = arena_row(i);
        out[i] = (struct snapshot){ row->committed_bytes, row->used_bytes, { 0 } };
        memcpy(out[i].held, row->held.bytes, sizeof out[i].held);
    }
}

/* One of everything that commits; each result in `err`. */
static void one_of_each(enum err err[6])
{
    unit_id unit;
    block_id block;
    extent_id extent;
    u8 *piece;
    void *row;
    struct snapshot before[NAMES + 1], after[NAMES + 1];
    for (u32 op = 0; op < 6; op++) {
        take_snapshot(before);
        switch (op) {
        case 0: err[op] = arena_blocks_take(BLOCKS, HOLD_LIVE, &block); break;
        case 1: err[op] = arena_slots_take(SECTIONS, HOLD_ANCHOR, &unit); break;
        case 2: err[op] = arena_slots_take(SMALL, HOLD_STASH, &unit); break;
        case 3: err[op] = arena_extents_take(EXTENTS, 5 * GRANULE, &extent); break;
        case 4: err[op] = arena_table_take(TABLES, "t", 8, 100, &row); break;
        default: err[op] = arena_scratch_push(SCRATCH, 2 * GRANULE, &piece);
        }
        if (err[op] == OK) continue;
        take_snapshot(after);
        CHECK(memcmp(before, after, sizeof before) == 0);
        arena_check();
    }
}

TEST(each_refused_commit_leaves_everything_as_it_was)
{
    u32 fired = 0;
    for (u32 n = 1;; n++) {                             /* ends when no fault fires           */
        CHECK(n < 200);
        open_all();
        enum err err[6];
        space_host_fail_commit(n);
        one_of_each(err);
        bool ended = space_host_fail_left() != 0;
        space_host_fail_commit(0);
        u32 failed = 0;
        for (u32 op = 0; op < 6; op++) {
            CHECK(err[op] == OK || err[op] == ERR_MEMORY);
            failed += err[op] != OK;
        }
        CHECK_EQ(failed, ended ? 0 : 1);
        fired += failed;
        close_all();
        if (ended) break;
    }
    CHECK(fired >= 12);                                 /* books of three arenas, units, ...  */
    for (u32 n = 1;; n++) {                             /* arena_open itself                  */
        space_host_granule(GRANULE);
        space_host_fail_commit(n);
        enum err err = arena_open(decl, NAMES);
        bool ended = space_host_fail_left() != 0;
        space_host_fail_commit(0);
        if (err == OK) arena_close();
        space_host_granule(0);
        CHECK_EQ(arena_count(), 0);
        CHECK_EQ(err, ended ? OK : ERR_MEMORY);
        if (ended) break;
    }
}

TEST(a_refused_growth_keeps_the_extent)
{
    for (u32 in_place = 0; in_place < 2; in_place++) {
        open_all();
        extent_id a, b;
        CHECK_OK(arena_extents_take(EXTENTS, GRANULE, &a));
        if (!in_place) CHECK_OK(arena_extents_take(EXTENTS, GRANULE, &b));
        memset(arena_extents_addr(EXTENTS, a), 3, GRANULE);
        extent_id before = a;
        space_host_fail_commit(1);
        CHECK_EQ(arena_extents_grow(EXTENTS, &a, 9 * GRANULE), ERR_MEMORY);
        CHECK(a.index == before.index && a.generation == before.generation);
        CHECK_EQ(arena_extents_bytes(EXTENTS, a), GRANULE);
        CHECK_EQ(arena_extents_addr(EXTENTS, a)[GRANULE - 1], 3);
        CHECK_EQ(arena_row(EXTENTS)->committed_bytes, (2 - in_place) * GRANULE);
        close_all();
    }
}

/* ---------------------------------------------------------------- random operations */
enum { HELD_CAP = 64, OPS = 20000 };

static struct {
    u32 kind;                                           /* 0 unused, 1 block, 2, 3 units, 4   */
    block_id block;
    unit_id unit;
    extent_id extent;
    u32 count[HOLD_COUNT];
    u8 mark;
} held[HELD_CAP];

static u8 *held_at(u32 i, u64 *bytes)
{
    if (held[i].kind == 4) {
        *bytes = arena_extents_bytes(EXTENTS, held[i].extent);
        return arena_extents_addr(EXTENTS, held[i].extent);
    }
    u32 arena = held[i].kind == 1 ? BLOCKS : held[i].kind == 2 ? SECTIONS : SMALL;
    *bytes = arena_row(arena)->unit_bytes;
    return held[i].kind == 1 ? arena_blocks_addr(BLOCKS, held[i].block)
                             : arena_slots_addr(arena, held[i].unit);
}

static void random_take(u32 i, u64 r)
{
    u32 kind = 1 + (u32)(r % 4), class = (u32)(r >> 8) % HOLD_COUNT;
    enum err err;
    held[i].unit = (unit_id){ 0 };
    switch (kind) {
    case 1: err = arena_blocks_take(BLOCKS, (enum holder)class, &held[i].block); break;
    case 2: err = arena_slots_take(SECTIONS, (enum holder)class, &held[i].unit); break;
    case 3: err = arena_slots_take(SMALL, (enum holder)class, &held[i].unit); break;
    default: err = arena_extents_take(EXTENTS, 1 + (r >> 16) % (12 * GRANULE), &held[i].extent);
    }
    CHECK(err == OK || err == ERR_MEMORY || err == ERR_FULL);
    if (err != OK) return;
    held[i].kind = kind;
    memset(held[i].count, 0, sizeof held[i].count);
    held[i].count[class] = 1;
    held[i].mark = (u8)(r >> 40);
    u64 bytes;
    u8 *at = held_at(i, &bytes);
    at[0] = at[bytes - 1] = held[i].mark;
}

static void random_change(u32 i, u64 r)
{
    u32 to = (u32)(r >> 8) % HOLD_COUNT, from = 0;
    u64 bytes;
    u8 *at = held_at(i, &bytes);
    CHECK(at[0] == held[i].mark);
    if (held[i].kind == 4) {
        if (r % 4 == 0) {
            enum err err = arena_extents_grow(EXTENTS, &held[i].extent, bytes + r % (4 * GRANULE));
            CHECK(err == OK || err == ERR_MEMORY || err == ERR_FULL);
            CHECK(held_at(i, &bytes)[0] == held[i].mark);
            return;
        }
        arena_extents_free(EXTENTS, held[i].extent);
        held[i].kind = 0;
        return;
    }
    CHECK(at[bytes - 1] == held[i].mark);
    while (held[i].count[from] == 0) from++;
    u32 arena = held[i].kind == 1 ? BLOCKS : held[i].kind == 2 ? SECTIONS : SMALL, total = 0;
    bool block = held[i].kind == 1;
    for (u32 c = 0; c < HOLD_COUNT; c++) total += held[i].count[c];
    switch (r % 4) {                                    /* drops are twice as likely          */
    case 0:
        if (block) arena_blocks_hold(arena, held[i].block, (enum holder)to);
        else arena_slots_hold(arena, held[i].unit, (enum holder)to);
        held[i].count[to]++;
        break;
    case 1:
        if (block) arena_blocks_recharge(arena, held[i].block, (enum holder)from, (enum holder)to);
        else arena_slots_recharge(arena, held[i].unit, (enum holder)from, (enum holder)to);
        held[i].count[from]--;
        held[i].count[to]++;
        break;
    default:
        if (block) arena_blocks_drop(arena, held[i].block, (enum holder)from);
        else arena_slots_drop(arena, held[i].unit, (enum holder)from);
        held[i].count[from]--;
        if (total == 1) held[i].kind = 0;
    }
}

TEST(the_identity_holds_after_every_one_of_thousands_of_random_operations)
{
    open_all();
    memset(held, 0, sizeof held);
    u32 refused = 0;
    for (u64 n = 0; n < OPS; n++) {
        u64 r = rng_u64(11, 2 * n), choice = rng_u64(11, 2 * n + 1);
        if (choice % 4 == 0) space_host_fail_commit(1 + (u32)(choice >> 8) % 2);
        if (choice % 8 == 1) arena_trim((u32)(r % NAMES), (r >> 32) % (8 * GRANULE));
        u32 i = (u32)(choice >> 32) % HELD_CAP;
        if (held[i].kind == 0) random_take(i, r);
        else random_change(i, r);
        refused += choice % 4 == 0 && space_host_fail_left() == 0;
        space_host_fail_commit(0);
        arena_check();
    }
    printf("%u commits refused in %d operations\n", refused, OPS);
    CHECK(refused > 100);
    for (u32 i = 0; i < HELD_CAP; i++)                  /* all given back: nothing leaks      */
        for (u64 n = 0; held[i].kind != 0; n++) {
            u64 bytes;
            CHECK(held_at(i, &bytes)[0] == held[i].mark);
            random_change(i, held[i].kind == 4 ? 1 : 2);
        }
    for (u32 a = 0; a < NAMES; a++) {
        arena_trim(a, 0);
        CHECK(arena_row(a)->committed_bytes == 0 && arena_row(a)->used_bytes == 0);
    }
    close_all();
}

TEST(takes_and_drops_do_not_slow_down_with_the_number_of_units)
{
    enum { COUNT = 100000 };
    static unit_id unit[COUNT];
    struct arena_decl many = { .name = "many", .kind = ARENA_SLOTS, .unit_bytes = 64,
                               .unit_cap = COUNT };
    CHECK_OK(arena_open(&many, 1));
    u64 start_us = clock_us();
    for (u32 i = 0; i < COUNT; i++) CHECK_OK(arena_slots_take(0, HOLD_LIVE, &unit[i]));
    for (u32 i = 0; i < COUNT; i++) {                   /* scattered: many granules half full */
        u32 at = (u32)(i * 7919ull % COUNT);
        arena_slots_drop(0, unit[at], HOLD_LIVE);
        if (i % 2 == 0) CHECK_OK(arena_slots_take(0, HOLD_LIVE, &unit[at]));
    }
    u64 spent_us = clock_us() - start_us;
    printf("250,000 takes and drops among 100,000 units: %llu us\n", (ull)spent_us);
    CHECK_EQ(arena_slots_used(0), COUNT / 2);
    CHECK(spent_us < 5000000);                          /* a scan a take would need minutes   */
    arena_check();
    arena_close();
}
