/* budget/sums.h - what a snapshot would be after the choices a plan has made so far.
 *
 * Used bytes and unfilled reserves by node (sums over ancestors kept), bytes taken and freed by
 * arena, cells to commit and to give back.  A want fits when each ancestor's cap, the arena's
 * range, the board's committed granules and measured free memory hold: monotone in its bytes.
 * Inside of budget_plan only. */
#ifndef BUDGET_SUMS_H
#define BUDGET_SUMS_H

#include "budget/plan.h"

struct sums {
    u64 used[BUDGET_NODE_CAP];
    u64 unfilled[BUDGET_NODE_CAP];      /* reserves not yet used, of the leaves below            */
    u64 taken[ARENA_CAP], freed[ARENA_CAP];
    u64 commit[ARENA_CAP];              /* cells each arena must commit                          */
    u64 spare[ARENA_CAP];               /* whole free cells it could give back                   */
    u64 commit_sum, spare_sum;
    u64 counted, uncounted;             /* bytes no arena holds: granted, freed                  */
};

/* Why a want does not fit: budget_grant's columns, and what it lacks. */
struct verdict { bool fits; u8 why; u32 limit; u64 short_bytes; };

/* `node` is `top` or stands below it. */
bool sums_under(const struct budget_graph *g, u32 node, u32 top);

void sums_open(const struct budget_tables *t, struct sums *d);
/* A leaf's `used` becomes `used` + add - less, in all its ancestors too. */
void sums_move(const struct budget_graph *g, struct sums *d, u32 leaf, u64 add, u64 less);
/* Cells of an arena once `taken` or `freed` changed. */
void sums_arena(const struct budget_tables *t, struct sums *d, u32 arena);
void sums_grant(const struct budget_tables *t, struct sums *d, u32 leaf, u32 arena, u64 bytes);

/* Would `leaf` fit `bytes` more?  Others' unfilled reserves stay theirs; only a must may fill them
 * from measured free memory: a reserve is a promise about the limits, and measured memory is what
 * other processes left. */
struct verdict sums_fits(const struct budget_tables *t, const struct sums *d, u32 leaf, u32 arena,
                         u64 bytes, bool must);

/* The node is charged more than its cap, or the board has more committed. */
bool sums_over(const struct budget_graph *g, const struct sums *d, u32 node);

#endif
