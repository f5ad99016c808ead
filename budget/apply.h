/* budget/apply.h - carries a plan out: yields, decommits, commits.  Engine thread, in a gate. */
#ifndef BUDGET_APPLY_H
#define BUDGET_APPLY_H

#include "budget/plan.h"

struct budget_applied {
    u64  trimmed_bytes;                 /* decommitted: whole free granules                      */
    bool tried;                         /* the wants' commits were begun                         */
    bool again;                         /* nothing was committed: plan anew with what is true    */
};

/* Hands victims to their nodes' yield, gives free granules back when a limit asks, then commits
 * the wants in order, musts first.  A must whose commit fails undoes the commits before it and
 * gives `again`; a may-want whose commit fails gets 0 and WHY_COMMIT in the plan.  Errors of a
 * commit other than ERR_MEMORY and ERR_FULL are returned as they are, everything undone. */
MUST_USE enum err budget_apply(struct budget_graph *g, const struct budget_tables *tables,
                               const struct budget_want *wants,
                               const struct budget_record *records, struct budget_plan *plan,
                               struct budget_applied *out);

/* Gives whole free granules back until the board's cap holds, and `free_bytes` (as measured;
 * UINT64_MAX: not looked at) with them is the floor: where no plan is carried out.  Returns bytes
 * decommitted. */
u64 budget_apply_spare(const struct budget_graph *g, u64 free_bytes);

#endif
