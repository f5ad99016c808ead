/* arena/cells.c - lists of cells by fullness, free units inside a cell. */
#include "arena/cells.h"

static u32 units_of(const struct cells *c, u32 cell)
{
    return MIN(c->cell_units, c->unit_cap - cell * c->cell_units);
}

static void list_add(struct cells *c, u32 cell)
{
    struct cell_row *row = &c->cell[cell];
    u32 used = row->used;
    if (used == units_of(c, cell)) return;              /* full: in no list                   */
    row->prev = NONE;
    row->next = c->list[used];
    if (row->next != NONE) c->cell[row->next].prev = cell;
    c->list[used] = cell;
    c->listed[used / 64] |= (u64)1 << used % 64;
}

static void list_drop(struct cells *c, u32 cell)
{
    struct cell_row *row = &c->cell[cell];
    u32 used = row->used;
    if (used == units_of(c, cell)) return;
    if (row->next != NONE) c->cell[row->next].prev = row->prev;
    if (row->prev != NONE) c->cell[row->prev].next = row->next;
    else c->list[used] = row->next;
    if (c->list[used] == NONE) c->listed[used / 64] &= ~((u64)1 << used % 64);
}

void cells_open(struct cells *c, u32 unit_cap, u32 cell_units)
{
    ASSERT(cell_units > 0);
    c->unit_cap = unit_cap;
    c->cell_units = cell_units;
    c->cell_cap = (u32)(((u64)unit_cap + cell_units - 1) / cell_units);
    c->cell_fresh = c->unit_count = c->cell_count = 0;
    c->bare = NONE;
    for (u32 i = 0; i < cell_units; i++) c->list[i] = NONE;
    for (u32 i = 0; i <= cell_units / 64; i++) c->listed[i] = 0;
}

/* The fullest committed cell with room, or NONE. */
static u32 fullest(const struct cells *c)
{
    for (u32 word = c->cell_units / 64 + 1; word-- > 0;) {
        u64 bits = c->listed[word];
        if (bits != 0) return c->list[word * 64 + 63 - (u32)__builtin_clzll(bits)];
    }
    return NONE;
}

bool cells_pick(const struct cells *c, struct cells_pick *out)
{
    u32 cell = fullest(c);
    if (cell != NONE) {
        const struct cell_row *row = &c->cell[cell];
        u32 unit = row->free != NONE ? row->free : cell * c->cell_units + row->fresh;
        *out = (struct cells_pick){ .unit = unit, .cell = cell };
        return true;
    }
    if (c->bare != NONE) cell = c->bare;
    else if (c->cell_fresh < c->cell_cap) cell = c->cell_fresh;
    else return false;
    *out = (struct cells_pick){ .unit = cell * c->cell_units, .cell = cell, .commit = true };
    return true;
}

void cells_take(struct cells *c, struct cells_pick pick)
{
    struct cell_row *row = &c->cell[pick.cell];
    if (pick.commit) {
        ASSERT(!row->committed && row->used == 0);
        if (pick.cell == c->cell_fresh) c->cell_fresh++;
        else {
            ASSERT(c->bare == pick.cell);
            c->bare = row->next;
        }
        *row = (struct cell_row){ .prev = NONE, .next = NONE, .free = NONE, .committed = 1 };
        c->cell_count++;
        list_add(c, pick.cell);
    }
    list_drop(c, pick.cell);
    if (row->free == pick.unit) row->free = c->next_free[pick.unit];
    else {
        ASSERT(pick.unit == pick.cell * c->cell_units + row->fresh);
        row->fresh++;
    }
    row->used++;
    c->unit_count++;
    list_add(c, pick.cell);
}

void cells_give(struct cells *c, u32 unit)
{
    u32 cell = unit / c->cell_units;
    struct cell_row *row = &c->cell[cell];
    ASSERT(cell < c->cell_fresh && row->committed && row->used > 0);
    list_drop(c, cell);
    c->next_free[unit] = row->free;
    row->free = unit;
    row->used--;
    c->unit_count--;
    list_add(c, cell);
}

u32 cells_strip(struct cells *c)
{
    u32 cell = c->list[0];
    if (cell == NONE) return NONE;
    struct cell_row *row = &c->cell[cell];
    list_drop(c, cell);
    *row = (struct cell_row){ .prev = NONE, .next = c->bare, .free = NONE };
    c->bare = cell;
    c->cell_count--;
    return cell;
}

u64 cells_cost(const struct cells *c, u64 count)
{
    u64 room = 0, last = c->cell_cap > 0 ? c->cell_cap - 1 : 0;
    room = (u64)c->cell_count * c->cell_units - c->unit_count;
    if (c->cell_fresh == c->cell_cap && c->cell_cap > 0 && c->cell[last].committed)
        room -= c->cell_units - units_of(c, (u32)last);
    return count <= room ? 0 : (count - room + c->cell_units - 1) / c->cell_units;
}

void cells_check(const struct cells *c)
{
    u64 units = 0, committed = 0, listed = 0, open = 0;
    for (u32 cell = 0; cell < c->cell_fresh; cell++) {
        const struct cell_row *row = &c->cell[cell];
        u32 cap = units_of(c, cell), given = 0;
        ASSERT(row->committed || row->used == 0);
        ASSERT(row->used <= row->fresh && row->fresh <= cap);
        for (u32 u = row->free; u != NONE && row->committed; u = c->next_free[u], given++)
            ASSERT(u / c->cell_units == cell && given < cap);
        ASSERT(!row->committed || row->used + given == row->fresh);
        units += row->used;
        committed += row->committed;
        open += row->committed && row->used < cap;
    }
    for (u32 used = 0; used < c->cell_units; used++) {
        ASSERT((c->list[used] != NONE) == ((c->listed[used / 64] >> used % 64 & 1) != 0));
        u32 prev = NONE;
        for (u32 cell = c->list[used]; cell != NONE; cell = c->cell[cell].next) {
            ASSERT(c->cell[cell].committed && c->cell[cell].used == used);
            ASSERT(c->cell[cell].prev == prev && listed++ < open);
            prev = cell;
        }
    }
    ASSERT(units == c->unit_count && committed == c->cell_count && listed == open);
}
