/* model/slot.c - the live sequences: block lists that are appended to, and current section units.
 *
 * Owns the slot table and one extent a slot: [2 * cap] block handles (the list, then room for the
 * replacements of one grow) and [cap] block addresses.  Growing takes everything first and changes
 * the list only when nothing can fail any more. */
#include "model/slot.h"

#include <string.h>

#include "arena/extents.h"
#include "model/state.h"

struct slot_list { extent_id extent; block_id *block; u8 **addr; };

static struct {
    struct slot_row  row[SLOT_CAP];
    struct slot_list list[SLOT_CAP];
    u32 count, block_cap, lists_arena;
    u64 copied_bytes;
} table;

static u32 block_rows(void) { return state_shape()->block_rows; }

enum err slot_open(u32 count, u64 ctx_rows, u32 lists_arena)
{
    u64 cap = (ctx_rows + block_rows() - 1) / block_rows();
    if (count == 0 || count > SLOT_CAP)
        return fail(ERR_LIMIT, "slots: %u; 1 to %d are expected", count, SLOT_CAP);
    if (cap == 0 || cap > UINT32_MAX / 32)
        return fail(ERR_LIMIT, "slots: a context of %llu rows is out of range", (ull)ctx_rows);
    memset(&table, 0, sizeof table);
    table.lists_arena = lists_arena;
    table.block_cap = (u32)cap;
    for (u32 i = 0; i < count; i++) {
        struct slot_list *list = &table.list[i];
        enum err err = arena_extents_take(lists_arena, cap * 24, &list->extent);
        if (err != OK) {
            slot_close();
            return err;
        }
        table.count = i + 1;
        list->block = (block_id *)arena_extents_addr(lists_arena, list->extent);
        list->addr = (u8 **)(list->block + 2 * cap);
        table.row[i] = (struct slot_row){ .record = NONE, .class = HOLD_LIVE, .open = true,
                                          .unit = { NONE, 0 } };
    }
    return OK;
}

void slot_close(void)
{
    for (u32 i = 0; i < table.count; i++) {
        slot_drop(i);
        arena_extents_free(table.lists_arena, table.list[i].extent);
    }
    memset(&table, 0, sizeof table);
}

u32 slot_count(void) { return table.count; }

struct slot_row *slot_row(u32 slot)
{
    ASSERT(slot < table.count);
    return &table.row[slot];
}

u8 *const *slot_block_addrs(u32 slot)
{
    ASSERT(slot < table.count);
    return table.list[slot].addr;
}

const block_id *slot_blocks(u32 slot)
{
    ASSERT(slot < table.count);
    return table.list[slot].block;
}

/* First row of block `index` that this slot is going to write. */
static u32 first_row(const struct slot_row *row, u32 index)
{
    return index == row->len / block_rows() ? (u32)(row->len % block_rows()) : 0;
}

/* Row r of a block may be written in place: it is ours, or nobody's, and no one counts on row r. */
static bool writable(u32 slot, block_id block, u32 r)
{
    u32 arena = state_blocks_arena();
    const struct block_row *row = arena_blocks_row(arena, block);
    return FAULT(FAULT_BLOCK_NOT_COPIED) || arena_blocks_owner(arena, block, slot, r) ||
           (row->appender == NONE && r >= row->frozen);
}

struct slot_growth { u32 first, need, replaced, fresh; bool unit; };

/* What a grow to `rows` has to take: pure. */
static struct slot_growth growth(u32 slot, u64 rows)
{
    const struct slot_row *row = slot_row(slot);
    struct slot_growth g = { .unit = row->unit.index == NONE };
    g.first = (u32)(row->len / block_rows());
    g.need = (u32)((rows + block_rows() - 1) / block_rows());
    for (u32 i = g.first; rows > row->len && i < MIN(g.need, row->block_count); i++)
        g.replaced += !writable(slot, table.list[slot].block[i], first_row(row, i));
    g.fresh = g.need > row->block_count ? g.need - row->block_count : 0;
    return g;
}

void slot_cost(u32 slot, u64 rows, u64 *blocks_bytes_out, u64 *sections_bytes_out)
{
    struct slot_growth g = growth(slot, rows);
    *blocks_bytes_out = (u64)(g.fresh + g.replaced) * arena_row(state_blocks_arena())->unit_bytes;
    *sections_bytes_out = g.unit ? arena_row(state_sections_arena())->unit_bytes : 0;
}

/* `count` fresh blocks held by the slot's class at `out`, or none. */
static enum err take_blocks(const struct slot_row *row, u32 count, block_id *out)
{
    u32 arena = state_blocks_arena();
    for (u32 i = 0; i < count; i++) {
        enum err err = arena_blocks_take(arena, row->class, &out[i]);
        if (err == OK) continue;
        while (i > 0) arena_blocks_drop(arena, out[--i], row->class);
        return err;
    }
    return OK;
}

static const struct space_ops *blocks_space(void)
{
    return space_ops(arena_row(state_blocks_arena())->space);
}

/* Rows [0, r) of every strip and their key ids, from one block to another. */
static enum err copy_rows(block_id from, block_id to, u32 r)
{
    const struct state_shape *shape = state_shape();
    u32 arena = state_blocks_arena();
    for (u32 v = 0; v < shape->view_count && r > 0; v++) {
        u64 bytes = (u64)r * shape->view[v].row_bytes;
        for (u32 p = 0; p < shape->view[v].planes; p++)
            TRY(blocks_space()->copy(state_strip(to, v, p), state_strip(from, v, p), bytes, 0));
        table.copied_bytes += bytes * shape->view[v].planes;
    }
    memcpy(arena_blocks_label(arena, to), arena_blocks_label(arena, from), 8ull * r);
    return OK;
}

static void let_go(u32 slot, block_id block)
{
    u32 arena = state_blocks_arena();
    struct block_row *row = arena_blocks_row(arena, block);
    if (row->appender == slot) row->appender = NONE;
    arena_blocks_drop(arena, block, table.row[slot].class);
}

/* Puts `spare` blocks where the list's own may not be written, and owns everything from row len. */
static enum err replace(u32 slot, const struct slot_growth *g, const block_id *spare)
{
    struct slot_row *row = slot_row(slot);
    block_id *block = table.list[slot].block;
    u32 arena = state_blocks_arena(), used = 0;
    for (u32 i = g->first; i < row->block_count && i < g->need; i++) {
        u32 r = first_row(row, i);
        if (!writable(slot, block[i], r)) {
            TRY(copy_rows(block[i], spare[used], r));
            arena_blocks_row(arena, spare[used])->frozen = r;
            let_go(slot, block[i]);
            block[i] = spare[used++];
        }
        arena_blocks_row(arena, block[i])->appender = slot;
    }
    ASSERT(used == g->replaced);
    return OK;
}

static void refresh_addrs(u32 slot)
{
    struct slot_row *row = slot_row(slot);
    row->row_cap = (u64)row->block_count * block_rows();
    for (u32 i = 0; i < row->block_count; i++)
        table.list[slot].addr[i] = arena_blocks_addr(state_blocks_arena(),
                                                     table.list[slot].block[i]);
}

/* Takes the section unit, zeroed. */
static enum err take_unit(u32 slot)
{
    struct slot_row *row = slot_row(slot);
    u32 arena = state_sections_arena();
    unit_id unit;
    TRY(arena_slots_take(arena, row->class, &unit));
    enum err err = space_ops(arena_row(arena)->space)->fill(
        arena_slots_addr(arena, unit), 0, state_shape()->section_bytes, 0);
    if (err == OK) row->unit = unit;
    else arena_slots_drop(arena, unit, row->class);
    return err;
}

static void drop_unit(u32 slot)
{
    struct slot_row *row = slot_row(slot);
    if (row->unit.index != NONE) arena_slots_drop(state_sections_arena(), row->unit, row->class);
    row->unit = (unit_id){ NONE, 0 };
}

enum err slot_grow(u32 slot, u64 rows)
{
    struct slot_row *row = slot_row(slot);
    u32 arena = state_blocks_arena();
    if (rows > (u64)table.block_cap * block_rows())
        return fail(ERR_FULL, "slot %u: %llu rows are more than the context's %llu", slot,
                    (ull)rows, (ull)table.block_cap * block_rows());
    struct slot_growth g = growth(slot, rows);
    block_id *block = table.list[slot].block;
    block_id *spare = block + table.block_cap;
    TRY(take_blocks(row, g.fresh, block + row->block_count));
    enum err err = take_blocks(row, g.replaced, spare);
    if (err == OK && g.unit) {
        err = take_unit(slot);
        for (u32 i = 0; err != OK && i < g.replaced; i++)
            arena_blocks_drop(arena, spare[i], row->class);
    }
    if (err != OK) {
        for (u32 i = 0; i < g.fresh; i++)
            arena_blocks_drop(arena, block[row->block_count + i], row->class);
        return err;
    }
    if (rows > row->len) TRY(replace(slot, &g, spare));
    for (u32 i = 0; i < g.fresh; i++)
        arena_blocks_row(arena, block[row->block_count + i])->appender = slot;
    row->block_count += g.fresh;
    refresh_addrs(slot);
    return OK;
}

u64 slot_writable(u32 slot)
{
    const struct slot_row *row = slot_row(slot);
    u32 i = (u32)(row->len / block_rows());
    while (i < row->block_count &&
           writable(slot, table.list[slot].block[i], first_row(row, i))) i++;
    return MAX((u64)i * block_rows(), row->len);
}

u64 slot_copied_bytes(void) { return table.copied_bytes; }

enum err slot_unit(u32 slot)
{
    return slot_row(slot)->unit.index == NONE ? take_unit(slot) : OK;
}

void slot_shrink(u32 slot, u64 rows)
{
    struct slot_row *row = slot_row(slot);
    ASSERT(rows >= row->len);
    u32 keep = (u32)MIN((rows + block_rows() - 1) / block_rows(), row->block_count);
    while (row->block_count > keep) let_go(slot, table.list[slot].block[--row->block_count]);
    row->row_cap = (u64)row->block_count * block_rows();
}

void slot_drop(u32 slot)
{
    struct slot_row *row = slot_row(slot);
    row->len = 0;
    slot_shrink(slot, 0);
    drop_unit(slot);
    row->rope_delta = 0;
}

/* Rows of block `index` that hold something. */
static u32 valid_rows(const struct slot_row *row, u32 index)
{
    u64 below = (u64)index * block_rows();
    return row->len > below ? (u32)MIN(row->len - below, block_rows()) : 0;
}

/* No block of the new list has an appender of ours: its rows are frozen, shared or not, or the next
 * slot that shares some of them could write the others in place. */
void slot_blocks_set(u32 slot, const block_id *list, u32 count, u64 rows)
{
    struct slot_row *row = slot_row(slot);
    u32 arena = state_blocks_arena();
    ASSERT(count <= table.block_cap && rows <= (u64)count * block_rows());
    row->len = 0;
    slot_shrink(slot, 0);                       /* the list given is held by its own references */
    if (count > 0) memmove(table.list[slot].block, list, count * sizeof *list);
    row->block_count = count;
    row->len = rows;
    for (u32 i = 0; i < count; i++) {
        struct block_row *b = arena_blocks_row(arena, list[i]);
        u32 valid = valid_rows(row, i);
        b->frozen = holders_total(&b->holders) > 1 ? MAX(b->frozen, valid) : valid;
    }
    refresh_addrs(slot);
}

void slot_check(void)
{
    for (u32 s = 0; s < table.count; s++) {
        const struct slot_row *row = &table.row[s];
        ASSERT(row->row_cap == (u64)row->block_count * block_rows());
        ASSERT(row->len <= row->row_cap && row->block_count <= table.block_cap);
        for (u32 i = 0; i < row->block_count; i++) {
            block_id block = table.list[s].block[i];
            ASSERT(arena_blocks_valid(state_blocks_arena(), block));
            ASSERT(table.list[s].addr[i] == arena_blocks_addr(state_blocks_arena(), block));
            const struct block_row *b = arena_blocks_row(state_blocks_arena(), block);
            ASSERT(b->holders.count[row->class] > 0);
            ASSERT(b->appender == s || b->frozen >= valid_rows(row, i));
        }
        if (row->unit.index != NONE)
            ASSERT(arena_slots_valid(state_sections_arena(), row->unit));
    }
}
