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

#endif
