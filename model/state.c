/* model/state.c - the door: arenas of a state shape, copies of sections, strips of blocks. */
#include "model/state.h"

#include <string.h>

#include "arena/base/hash.h"
#include "model/slot.h"

enum { STREAM_COPY = 1 };

static struct { const struct state_shape *shape; u32 blocks, sections; } door;

void state_declare(const struct state_shape *shape, u64 pool_bytes, struct arena_decl decl[2])
{
    u64 section_bytes = MAX(ALIGN_UP(shape->section_bytes, 256), 256);
    decl[0] = (struct arena_decl){
        .name = "blocks", .space = SPACE_DEVICE, .kind = ARENA_BLOCKS,
        .unit_bytes = shape->block_bytes, .unit_cap = (u32)(pool_bytes / shape->block_bytes),
        .label_bytes = 8 * shape->block_rows,
    };
    decl[1] = (struct arena_decl){
        .name = "sections", .space = SPACE_DEVICE, .kind = ARENA_SLOTS,
        .unit_bytes = section_bytes, .unit_cap = (u32)(pool_bytes / section_bytes),
    };
}

enum err state_open(const struct state_shape *shape)
{
    u32 blocks = arena_find("blocks"), sections = arena_find("sections");
    if (blocks == NONE || sections == NONE)
        return fail(ERR_NOT_FOUND, "state: arenas \"blocks\" and \"sections\" are not declared");
    ASSERT(arena_row(blocks)->unit_bytes >= shape->block_bytes);
    ASSERT(arena_row(sections)->unit_bytes >= shape->section_bytes);
    door.shape = shape;
    door.blocks = blocks;
    door.sections = sections;
    return OK;
}

const struct state_shape *state_shape(void)
{
    ASSERT(door.shape != NULL);
    return door.shape;
}

u32 state_blocks_arena(void) { return door.blocks; }

u32 state_sections_arena(void) { return door.sections; }

static const struct space_ops *sections_space(void)
{
    return space_ops(arena_row(door.sections)->space);
}

enum err state_save(u32 slot, unit_id unit, u64 *pos_out)
{
    const struct slot_row *row = slot_row(slot);
    if (!arena_slots_valid(door.sections, unit))
        return fail(ERR_STALE, "state: unit %u is not held any more", unit.index);
    u8 *to = arena_slots_addr(door.sections, unit);
    if (row->unit.index == NONE) {
        ASSERT(row->len == 0);                  /* the empty state is all zeros */
        TRY(sections_space()->fill(to, 0, state_shape()->section_bytes, STREAM_COPY));
    } else {
        TRY(sections_space()->copy(to, arena_slots_addr(door.sections, row->unit),
                                   state_shape()->section_bytes, STREAM_COPY));
    }
    *pos_out = row->len;
    return OK;
}

enum err state_load(u32 slot, unit_id unit, u64 pos)
{
    struct slot_row *row = slot_row(slot);
    ASSERT(pos <= row->row_cap);
    ASSERT(unit.index != NONE || pos == 0);
    if (unit.index != NONE && !arena_slots_valid(door.sections, unit))
        return fail(ERR_STALE, "state: unit %u is not held any more", unit.index);
    TRY(slot_unit(slot));
    u8 *to = arena_slots_addr(door.sections, row->unit);
    u64 bytes = state_shape()->section_bytes;
    if (unit.index == NONE) {
        TRY(sections_space()->fill(to, 0, bytes, STREAM_COPY));
    } else {
        const u8 *from = arena_slots_addr(door.sections, unit);
        TRY(sections_space()->copy(to, from, bytes, STREAM_COPY));
    }
    row->len = pos;
    return sections_space()->wait(sections_space()->fence(STREAM_COPY));
}

void state_rows_in(u32 slot, const block_id *list, u32 count, u64 rows)
{
    slot_blocks_set(slot, list, count, rows);
}

const block_id *state_rows_out(u32 slot, u32 *count_out, u64 *rows_out)
{
    const struct slot_row *row = slot_row(slot);
    *count_out = row->block_count;
    *rows_out = row->len;
    return slot_blocks(slot);
}

void state_freeze(u32 slot, u64 rows)
{
    u32 b = state_shape()->block_rows;
    const struct slot_row *row = slot_row(slot);
    ASSERT(rows <= row->row_cap);
    for (u32 i = 0; (u64)i * b < rows; i++) {
        struct block_row *block = arena_blocks_row(door.blocks, slot_blocks(slot)[i]);
        block->frozen = MAX(block->frozen, (u32)MIN(rows - (u64)i * b, b));
    }
}

bool state_give(u32 slot, enum holder class, unit_id *unit_out)
{
    struct slot_row *row = slot_row(slot);
    if (row->unit.index == NONE) return false;
    arena_slots_recharge(door.sections, row->unit, row->class, class);
    *unit_out = row->unit;
    row->unit = (unit_id){ NONE, 0 };
    return true;
}

u8 *state_strip(block_id block, u32 view, u32 plane)
{
    const struct state_shape *shape = state_shape();
    ASSERT(view < shape->view_count && plane < shape->view[view].planes);
    return arena_blocks_addr(door.blocks, block) + shape->view[view].offset_bytes +
           plane * shape->view[view].strip_bytes;
}

void state_sums(const block_id *list, u64 rows, u64 out[2])
{
    const struct state_shape *shape = state_shape();
    struct hash_state sum;
    hash_open(&sum);
    for (u32 i = 0; (u64)i * shape->block_rows < rows; i++) {
        u64 valid = MIN(rows - (u64)i * shape->block_rows, shape->block_rows);
        for (u32 v = 0; v < shape->view_count; v++)
            for (u32 p = 0; p < shape->view[v].planes; p++)
                hash_add(&sum, state_strip(list[i], v, p), valid * shape->view[v].row_bytes);
    }
    hash_close(&sum, out);
}
