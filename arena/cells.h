/* arena/cells.h - which units of an arena are free, kept by cell: pure bookkeeping.
 *
 * A cell is what is committed at once: one granule with as many units as fit whole, or the granules
 * of one big unit.  Committed cells with room stand in a list by how many units they have in use;
 * the fullest gives first, so that whole cells come free.  Take and give are O(1) but for finding
 * the fullest list, a word of bits for 64 counts.  Memory of the rows is the caller's (arena.c's
 * books), zeroed, and may be committed as far as units were ever taken. */
#ifndef ARENA_CELLS_H
#define ARENA_CELLS_H

#include "arena/base/base.h"

struct cell_row {
    u32 prev, next;                     /* in its list; NONE ends it                          */
    u32 used;                           /* units taken                                        */
    u32 free;                           /* first of its units given back, or NONE             */
    u32 fresh;                          /* units handed out since its commit: [0, fresh)      */
    u32 committed;                      /* 0 or 1                                             */
};

struct cells {
    u32 unit_cap, cell_units;           /* units in all; in a cell                            */
    u32 cell_cap;
    u32 cell_fresh;                     /* cells ever committed: [0, cell_fresh)              */
    u32 bare;                           /* first of those decommitted again, or NONE          */
    u32 unit_count, cell_count;         /* units taken; cells committed                       */
    struct cell_row *cell;              /* [cell_cap]                                         */
    u32 *next_free;                     /* [unit_cap] links of a cell's free units            */
    u32 *list;                          /* [cell_units] first cell with i units in use        */
    u64 *listed;                        /* [cell_units / 64 + 1] bit i: list i is not empty   */
};

struct cells_pick { u32 unit, cell; bool commit; };

/* `list` and `listed` must be writable; nothing is taken yet. */
void cells_open(struct cells *c, u32 unit_cap, u32 cell_units);
/* The unit that a take would get, and whether its cell must be committed first.  False: none. */
bool cells_pick(const struct cells *c, struct cells_pick *out);
/* Carries a pick out; no other call lies between. */
void cells_take(struct cells *c, struct cells_pick pick);
/* Gives a taken unit back; its cell stays committed. */
void cells_give(struct cells *c, u32 unit);
/* An empty committed cell becomes uncommitted: its index, or NONE when there is none. */
u32 cells_strip(struct cells *c);
/* Cells that `count` more units would commit. */
u64 cells_cost(const struct cells *c, u64 count);
/* Walks all lists and asserts them. */
void cells_check(const struct cells *c);

#endif
