/* budget/victims.h - which records go: for a want that does not fit, for a node over its cap.
 *
 * Works on the sums of a plan under way and on the holders left of each unit, in the caller's
 * scratch.  Inside of budget_plan only. */
#ifndef BUDGET_VICTIMS_H
#define BUDGET_VICTIMS_H

#include "budget/sums.h"

struct victims_aim {                        /* records whose taking would loosen `limit`         */
    u32  order[BUDGET_NODE_CAP];            /* of their nodes; NONE: nothing of that node        */
    f64  below;                             /* only those of less density                        */
    bool whole;                             /* those that free nothing alone, too                */
    u32  arena;                             /* WHY_RANGE: where bytes must come free             */
    struct verdict limit;
};

struct victims {
    const struct budget_tables *t;
    const struct budget_graph  *g;
    const struct budget_record *records;
    u32 record_count;
    const struct budget_shares *shares;     /* NULL: no record lists units                       */
    struct budget_scratch *scratch;
    struct budget_plan *out;
    struct sums sums;
    u32  heap_count;
    bool opened;                            /* scratch->left, who and listed are filled          */
    bool lifted;                            /* a recharge: some lower node may be over its cap   */
    bool capped;                            /* victims were taken for a cap's sake               */
    bool pushing;                           /* the heap is filled for `aim`                      */
    struct victims_aim aim;
};

/* Who a want may take from: over its edges (a must: all; a may-want: to lower classes), or what is
 * worth less per byte than itself (edges within its class, aside, its own node). */
enum victims_from { VICTIMS_EDGES, VICTIMS_CHEAPER };

void victims_open(struct victims *v);
/* The records that leave by the caller's own hand. */
void victims_leave(struct victims *v);
/* Takes victims until no node is over its cap, or none is left that would help. */
void victims_squeeze(struct victims *v);
/* Takes victims until `hi` bytes of the want fit.  Where a limit binds that no victim loosens, hi
 * comes down to where that limit ends (never under lo) and the rest goes on; each step takes one
 * victim, lowers hi or ends.  The verdict on lo with all of them taken comes back. */
struct verdict victims_take(struct victims *v, const struct budget_want *want,
                            enum victims_from from, u64 lo, u64 hi);
/* Backwards over the victims from `first` on: those without which `bytes` of the want (NULL: none)
 * still fit and no node is over its cap stay; `all`: every one stays, whatever. */
void victims_give_back(struct victims *v, const struct budget_want *want, u64 bytes, u32 first,
                       bool all);
/* The plan's columns of bytes freed and recharged. */
void victims_close(struct victims *v);

/* Largest lo + k units (or hi) of the want that fits, or UINT64_MAX when lo does not; with `past`:
 * that fits or is stopped by another limit than `past`. */
u64 victims_largest(const struct budget_tables *t, const struct sums *d,
                    const struct budget_want *want, u64 lo, u64 hi, const struct verdict *past);

#endif
