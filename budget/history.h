/* budget/history.h - the last 256 gates: what was wanted, granted, taken, and why a want got less.
 *
 * A ring inside the graph, written by budget_gate, read by budget_dump.  Plain data. */
#ifndef BUDGET_HISTORY_H
#define BUDGET_HISTORY_H

#include "arena/base/err.h"

enum { BUDGET_GATE_CAP = 256, BUDGET_GATE_WANTS = 16 };

enum budget_gate_kind { GATE_ADMIT, GATE_GROW, GATE_START, GATE_SET, GATE_KEEP,
                        GATE_KIND_COUNT };

struct gate_want {
    u64 min_bytes, max_bytes, granted_bytes;
    u8  node, must, why, limit;         /* enum budget_why; limit: node of WHY_CAP               */
    u8  reserved[4];
};

struct gate_row {
    u64 number;                         /* 1, 2, 3, ... since start                              */
    u64 turn;                           /* the caller's                                          */
    u64 at_us;                          /* monotonic                                             */
    u64 plan_us, total_us;              /* budget_plan alone (all rounds); the whole gate        */
    u64 free_before_bytes, free_after_bytes;    /* measured                                      */
    u64 freed_bytes, trimmed_bytes;     /* by victims; by decommitting free granules             */
    u64 recharged_bytes;                /* charged to a lower holder's node since victims went   */
    u64 short_bytes;                    /* what a refused must lacked                            */
    u64 cap_bytes;                      /* GATE_SET: the new cap of `cap_node`                   */
    u32 victim_count, want_count;       /* want_count may exceed the wants kept below            */
    u32 refused_want;                   /* index, or NONE                                        */
    u32 squeezed_count;                 /* victims taken since a node was over its cap           */
    u8  kind, rounds, cap_node;         /* enum budget_gate_kind; 1..3                           */
    u8  reserved[5];
    struct gate_want want[BUDGET_GATE_WANTS];
};

struct budget_history { struct gate_row row[BUDGET_GATE_CAP]; u64 count; };

/* The next row of the ring, zeroed, numbered. */
struct gate_row *budget_history_add(struct budget_history *h);
/* Rows kept now. */
u32 budget_history_count(const struct budget_history *h);
/* Row `back` gates ago (0 = the last), or NULL. */
const struct gate_row *budget_history_row(const struct budget_history *h, u32 back);

#endif
