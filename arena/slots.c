/* arena/slots.c - equal units: holders and generation in the books, bytes in the space. */
#include "arena/slots.h"

#include "arena/inside.h"

struct unit_row {                       /* one unit                                           */
    struct holders holders;
    u32 generation;                     /* odd while held                                     */
    u32 reserved;
};
static_assert(sizeof(struct unit_row) == INSIDE_SLOT_ROW_BYTES, "as the books count");
static_assert(offsetof(struct unit_row, holders) == 0, "arena_check reads holders there");

/* The row of a held unit of that generation, or NULL. */
static struct unit_row *row_of(u32 arena, unit_id unit)
{
    struct unit_row *row = arena_inside_row(arena, ARENA_SLOTS, unit.index);
    bool held = row != NULL && row->generation == unit.generation && row->generation % 2 == 1;
    return held ? row : NULL;
}

enum err arena_slots_take(u32 arena, enum holder class, unit_id *out)
{
    u32 unit = NONE;
    TRY(arena_inside_take(arena, ARENA_SLOTS, &unit));
    struct unit_row *row = arena_inside_row(arena, ARENA_SLOTS, unit);
    ASSERT(row->generation % 2 == 0);
    *row = (struct unit_row){ .generation = row->generation + 1 };
    *out = (unit_id){ unit, row->generation };
    arena_slots_hold(arena, *out, class);
    return OK;
}

void arena_slots_hold(u32 arena, unit_id unit, enum holder class)
{
    struct unit_row *row = row_of(arena, unit);
    ASSERT(row != NULL);
    holders_add(&row->holders, class, arena_inside_held(arena), arena_row(arena)->unit_bytes);
}

void arena_slots_drop(u32 arena, unit_id unit, enum holder class)
{
    struct unit_row *row = row_of(arena, unit);
    ASSERT(row != NULL);
    u64 unit_bytes = arena_row(arena)->unit_bytes;
    if (!holders_drop(&row->holders, class, arena_inside_held(arena), unit_bytes)) return;
    row->generation++;
    arena_inside_give(arena, unit.index);
}

void arena_slots_recharge(u32 arena, unit_id unit, enum holder from, enum holder to)
{
    arena_slots_hold(arena, unit, to);
    arena_slots_drop(arena, unit, from);
}

bool arena_slots_valid(u32 arena, unit_id unit)
{
    return row_of(arena, unit) != NULL;
}

u8 *arena_slots_addr(u32 arena, unit_id unit)
{
    ASSERT(row_of(arena, unit) != NULL);
    return arena_inside_unit(arena, unit.index);
}

const struct holders *arena_slots_holders(u32 arena, unit_id unit)
{
    const struct unit_row *row = row_of(arena, unit);
    ASSERT(row != NULL);
    return &row->holders;
}

u32 arena_slots_used(u32 arena)
{
    return arena_inside_used(arena);
}
