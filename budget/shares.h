/* budget/shares.h - which records hold which units, as data for one plan.
 *
 * A record of a plan has bytes that it alone holds (`freed_bytes`, one arena) and a list of units:
 * places in a table with each unit's holders by class, so that the plan can count what comes free,
 * and what is charged to the next holder's node, when several records that share units go.  One
 * row may stand for several units that exactly the same holders hold (a run of blocks).
 *
 * Built by the caller, only when a want doesn't fit (budget_gate_fits):
 *     budget_shares_open(&s);
 *     for each record:  budget_shares_begin(&s);
 *         for each of its units:  budget_shares_add(&s, arena, index, unit_bytes, holders);
 *         if (!budget_shares_end(&s, &records[n])) it is pinned: the tables are full.
 * A unit that only this record holds costs no row of its own: such bytes are summed by arena.
 * O(units) in all; the tables are static memory of the caller, reused from gate to gate. */
#ifndef BUDGET_SHARES_H
#define BUDGET_SHARES_H

#include "arena/arena.h"

enum { BUDGET_UNIT_CAP = 16384, BUDGET_LIST_CAP = 65536, BUDGET_OWN_ARENAS = 4 };

struct budget_unit {
    u64  bytes;
    struct holders holders;             /* of the unit now, not only the records listed          */
    u32  arena;
    u32  index;                         /* in its arena, or NONE: bytes of one record alone      */
};
static_assert(sizeof(struct budget_unit) == 32, "the plan reads a row of it per reference");

struct budget_record;                   /* budget/plan.h                                         */

struct budget_shares {
    struct budget_unit unit[BUDGET_UNIT_CAP];
    u32 unit_count;
    u32 list[BUDGET_LIST_CAP];          /* places in `unit`                                      */
    u32 list_count;
    u32 place[2 * BUDGET_UNIT_CAP];     /* open addressing by (arena, index): row + 1, or 0      */
    /* of the record being listed */
    u32 begun;                          /* its first place in `list`                             */
    u32 own_arena[BUDGET_OWN_ARENAS], own_count;
    u64 own_bytes[BUDGET_OWN_ARENAS];
    struct holders own_holders;
    bool full;
};

/* Empty tables. */
void budget_shares_open(struct budget_shares *s);
/* The next record begins. */
void budget_shares_begin(struct budget_shares *s);
/* The record holds this unit (once). */
void budget_shares_add(struct budget_shares *s, u32 arena, u32 index, u64 bytes,
                       const struct holders *holders);
/* Ends the record: its freed_bytes, arena, list_lo and list_hi.  False when the tables are full:
 * then it lists nothing and is pinned. */
bool budget_shares_end(struct budget_shares *s, struct budget_record *record);
/* The record let go of its units: one holder less on each, and its list is empty. */
void budget_shares_drop(struct budget_shares *s, struct budget_record *record);

#endif
