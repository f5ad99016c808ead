/* budget/gate.h - the door before every prefill and every growth: measure, plan, apply, history.
 *
 * Engine thread only.  On the decode path nothing of this runs but the caller's one comparison. */
#ifndef BUDGET_GATE_H
#define BUDGET_GATE_H

#include "budget/plan.h"

enum { BUDGET_ROUNDS = 3 };

struct budget_ask {
    enum budget_gate_kind kind;
    u64 turn;                           /* for the history                                       */
    const struct budget_want   *wants;   u32 want_count;
    const struct budget_record *records; u32 record_count;
    struct budget_shares *shares;       /* units of the records, or NULL: they list none; what
                                         * is taken is counted in it                             */
};

/* Measures, plans, hands victims to their nodes' yield, commits; at most 3 rounds when a commit
 * fails or memory went meanwhile, in the last of them caches get 0.  *plan says what each want
 * really got.  ERR_MEMORY: a must was refused; its text names node, bytes short and limit, nothing
 * was granted, and every commit made is undone (records taken by an earlier round stay taken); free
 * granules go as far as the board's cap or the floor asks. */
MUST_USE enum err budget_gate(struct budget_graph *g, const struct budget_ask *ask,
                              struct budget_plan *plan);

/* A node's cap from now on (budget_graph_cap), and what is over it goes at once: a gate without
 * wants over the ask's records, kind GATE_SET.  What no record frees stays, and the node is `over`.
 * ERR_CONFIG: under a reserve, nothing changed; else what budget_gate says. */
MUST_USE enum err budget_gate_set(struct budget_graph *g, u32 node, u64 cap_bytes,
                                  const struct budget_ask *ask, struct budget_plan *plan);

/* True when all wants fit wholly, no node is over its cap and so no record would be taken: records
 * need not be listed for the gate that follows.  Measures, like a gate. */
bool budget_gate_fits(struct budget_graph *g, const struct budget_want *wants, u32 want_count);

/* budget_plan_room of a fresh snapshot. */
u64 budget_gate_room(struct budget_graph *g, u32 node);

#endif
