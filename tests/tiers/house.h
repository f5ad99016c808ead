/* tests/tiers/house.h - arenas, slots, budget and tiers over a made-up state, no model: a row is
 * the running sum of the ids before it, as is the section.  Header alone: include it once. */
#ifndef TIERS_HOUSE_H
#define TIERS_HOUSE_H

#include "tests/test.h"

#include "arena/base/rng.h"
#include "budget/graph.h"
#include "budget/measure.h"
#include "model/slot.h"
#include "model/state.h"
#include "tiers/key.h"
#include "tiers/tier.h"

#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))

enum { B = 4, G = 8, SLOTS = 4, CTX = 128, ROW_BYTES = 8, RECORDS = 32 };

static struct state_shape shape;
static struct budget_graph graph;
static struct profile_row profile;
static struct resident_pool pool;
static u64 keys[CTX];
static u64 now;

/* Arenas, slots and the adapter over a made-up state: one section, one view of 8 bytes a row. */
static UNUSED void house_open_caps(u32 anchors_cap, const struct aside_caps *caps)
{
    memset(&shape, 0, sizeof shape);
    shape.block_rows = B;
    shape.grid_rows = G;
    shape.section_count = shape.view_count = 1;
    shape.section[0] = (struct state_section){ .name = "S", .bytes = 64 };
    shape.section_bytes = 256;
    shape.view[0] = (struct state_view){ .name = "K", .planes = 1, .row_bytes = ROW_BYTES,
                                         .strip_bytes = 256 };
    shape.block_bytes = 4096;
    struct arena_decl decl[4];
    space_host_granule(4096);
    state_declare(&shape, 2 * MIB, decl);
    decl[2] = (struct arena_decl){ .name = "lists", .kind = ARENA_EXTENTS, .cap_bytes = MIB };
    decl[3] = (struct arena_decl){ .name = "tables", .kind = ARENA_TABLE, .cap_bytes = 2 * MIB };
    CHECK_OK(arena_open(decl, 4));
    CHECK_OK(state_open(&shape));
    CHECK_OK(slot_open(SLOTS, CTX, arena_find("lists")));
    budget_measure_fix(GIB, GIB);
    profile_defaults(&profile);
    CHECK_OK(budget_graph_board(&graph, &profile));
    CHECK_OK(budget_graph_declare(&graph, &(struct budget_decl){
        .name = "kv", .parent = "live", .node_class = CLASS_LIVE, .used = USED_HOLDER,
        .holder = HOLD_LIVE, .cap_bytes = UINT64_MAX }, NULL));
    CHECK_OK(tier_declare(&graph, anchors_cap * 256ull, caps, 256, SLOTS));
    CHECK_OK(tier_open(&(struct tier_setup){ .table_arena = arena_find("tables"),
        .slot_count = SLOTS, .record_cap = RECORDS, .ctx = CTX, .half_life_us = 3600000000,
        .store_entry_bytes = caps->store_entry_bytes }, &graph));
    pool.count = 0;
    now = 1000;
}

/* Nothing stands aside. */
static UNUSED void house_open(u32 anchors_cap)
{
    house_open_caps(anchors_cap, &(struct aside_caps){ 0 });
}

static UNUSED void house_close(void)
{
    resident_pool_drop(&pool);
    tier_close();
    for (u32 slot = 0; slot < SLOTS; slot++) slot_drop(slot);
    CHECK_EQ(arena_blocks_used(state_blocks_arena()), 0);
    CHECK_EQ(arena_slots_used(state_sections_arena()), 0);
    slot_close();
    arena_close();
    budget_measure_fix(UINT64_MAX, UINT64_MAX);
    space_host_granule(0);
}

/* What the forward pass does: row r of the view is a function of all ids before, as is the section;
 * here of the running sum. */
static UNUSED u64 *section_of(u32 slot)
{
    return (u64 *)(void *)arena_slots_addr(state_sections_arena(), slot_row(slot)->unit);
}

static UNUSED void forward(u32 slot, const u64 *ids, u64 count)
{
    for (u64 i = 0; i < count; i++) {
        struct slot_row *row = slot_row(slot);
        u32 blocks;
        u64 rows, *sum = section_of(slot), at = row->len;
        const block_id *list = state_rows_out(slot, &blocks, &rows);
        CHECK(at < row->row_cap);
        *sum = (*sum + ids[i]) * 6364136223846793005ull + 1;
        memcpy(state_strip(list[at / B], 0, 0) + (at % B) * ROW_BYTES, sum, sizeof *sum);
        row->len++;
        tier_rows(slot, at, &ids[i], 1);
    }
}

/* All rows and the section are those of a run from zero. */
static UNUSED void equals_cold(u32 slot, const u64 *ids, u64 count)
{
    u32 blocks;
    u64 rows, sum = 0;
    const block_id *list = state_rows_out(slot, &blocks, &rows);
    CHECK_EQ(rows, count);
    for (u64 i = 0; i < count; i++) {
        sum = (sum + ids[i]) * 6364136223846793005ull + 1;
        CHECK(memcmp(state_strip(list[i / B], 0, 0) + (i % B) * ROW_BYTES, &sum, 8) == 0);
        CHECK_EQ(((u64 *)arena_blocks_label(state_blocks_arena(), list[i / B]))[i % B], ids[i]);
    }
    CHECK_EQ(*section_of(slot), sum);
}

static UNUSED struct tier_hit begin(const u64 *ids, u64 count, u64 session, u64 more)
{
    struct tier_prompt prompt = { .keys = ids, .count = count, .session = { session, session } };
    struct tier_hit hit;
    tier_find(&prompt, &hit);
    if (hit.slot == NONE) return hit;
    CHECK_OK(tier_place(&hit, &prompt, now));
    CHECK_OK(slot_grow(hit.slot, count + more));
    CHECK_OK(tier_load(&hit, &prompt));
    CHECK_EQ(slot_row(hit.slot)->len, hit.start);
    return hit;
}

/* Rest of the prompt with anchors at lines and n - 1, `more` generated rows, the end anchor. */
static UNUSED void finish(const struct tier_hit *hit, const u64 *ids, u64 count, u64 more)
{
    for (u64 pos = hit->start; pos < count;) {
        u64 end = MIN(key_line(pos, G), count);
        if (pos < count - 1) end = MIN(end, count - 1);
        forward(hit->slot, ids + pos, end - pos);
        if (end % G == 0 || end == count - 1)
            tier_line(hit->slot, end == count - 1 ? ANCHOR_TURN : ANCHOR_GRID, false, &pool);
        pos = end;
    }
    forward(hit->slot, ids + count, more);
    tier_commit(hit->slot, &(struct tier_answer){ .prompt_count = count, .generated = true },
                &pool, ++now);
    slot_shrink(hit->slot, slot_row(hit->slot)->len);
}

static UNUSED struct tier_hit turn(const u64 *ids, u64 count, u64 session, u64 more)
{
    struct tier_hit hit = begin(ids, count, session, more);
    if (hit.slot == NONE) return hit;
    CHECK_OK(resident_pool_fill(&pool, 24));
    finish(&hit, ids, count, more);
    equals_cold(hit.slot, ids, count + more);
    tier_check(SLOTS, NULL, 0);
    slot_check();
    return hit;
}

static UNUSED u64 anchor_units(void)
{
    const struct arena_row *row = arena_row(state_sections_arena());
    return row->held.bytes[HOLD_ANCHOR] / row->unit_bytes;
}

static UNUSED void fill_keys(u64 seed)
{
    for (u64 i = 0; i < CTX; i++) keys[i] = rng_u64(seed, i) % 1000;
}

#endif
