/* arena/blocks.c - blocks: rows and labels in the books, bytes in the arena's space. */
#include "arena/blocks.h"

#include "arena/inside.h"

#include <string.h>

static_assert(sizeof(struct block_row) == INSIDE_BLOCK_ROW_BYTES, "as the books count");
static_assert(offsetof(struct block_row, holders) == 0, "arena_check reads holders there");

/* The row of a held block of that generation, or NULL. */
static struct block_row *row_of(u32 arena, block_id block)
{
    struct block_row *row = arena_inside_row(arena, ARENA_BLOCKS, block.index);
    bool held = row != NULL && row->generation == block.generation && row->generation % 2 == 1;
    return held ? row : NULL;
}

enum err arena_blocks_take(u32 arena, enum holder class, block_id *out)
{
    u32 unit = NONE;
    TRY(arena_inside_take(arena, ARENA_BLOCKS, &unit));
    struct block_row *row = arena_inside_row(arena, ARENA_BLOCKS, unit);
    ASSERT(row->generation % 2 == 0);                   /* odd while held                     */
    *row = (struct block_row){ .generation = row->generation + 1, .appender = NONE };
    u64 label_bytes = arena_inside_label_bytes(arena);
    if (label_bytes > 0) memset(arena_inside_label(arena, unit), 0, label_bytes);
    *out = (block_id){ unit, row->generation };
    arena_blocks_hold(arena, *out, class);
    return OK;
}

void arena_blocks_hold(u32 arena, block_id block, enum holder class)
{
    struct block_row *row = row_of(arena, block);
    ASSERT(row != NULL);
    holders_add(&row->holders, class, arena_inside_held(arena), arena_row(arena)->unit_bytes);
}

void arena_blocks_drop(u32 arena, block_id block, enum holder class)
{
    struct block_row *row = row_of(arena, block);
    ASSERT(row != NULL);
    u64 unit_bytes = arena_row(arena)->unit_bytes;
    if (!holders_drop(&row->holders, class, arena_inside_held(arena), unit_bytes)) return;
    row->generation++;
    arena_inside_give(arena, block.index);
}

void arena_blocks_recharge(u32 arena, block_id block, enum holder from, enum holder to)
{
    arena_blocks_hold(arena, block, to);
    arena_blocks_drop(arena, block, from);
}

bool arena_blocks_valid(u32 arena, block_id block)
{
    return row_of(arena, block) != NULL;
}

u8 *arena_blocks_addr(u32 arena, block_id block)
{
    ASSERT(row_of(arena, block) != NULL);
    return arena_inside_unit(arena, block.index);
}

struct block_row *arena_blocks_row(u32 arena, block_id block)
{
    struct block_row *row = row_of(arena, block);
    ASSERT(row != NULL);
    return row;
}

void *arena_blocks_label(u32 arena, block_id block)
{
    ASSERT(row_of(arena, block) != NULL);
    return arena_inside_label(arena, block.index);
}

bool arena_blocks_owner(u32 arena, block_id block, u32 slot, u32 row)
{
    const struct block_row *r = row_of(arena, block);
    ASSERT(r != NULL && slot != NONE);
    return r->appender == slot && row >= r->frozen;
}

u32 arena_blocks_used(u32 arena)
{
    return arena_inside_used(arena);
}
