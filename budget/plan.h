/* budget/plan.h - wants + graph + records -> grants, victims, recharges: a pure function.
 *
 * No clock, no allocation, no side effect but in the caller's scratch: `struct budget_tables` is a
 * snapshot (budget_measure and budget_plan_tables fill it); the same snapshot gives the same plan.
 *
 * Wants.  Musts first, all or nothing for the whole plan; then may-wants by class of their node,
 * then by value per byte; a want that can't get its min gets 0 and a reason.  Limits, at once, in
 * the bytes they bind: caps of the node and its ancestors (the caches' budget is the cap of
 * `caches`), with other nodes' unfilled reserves left to them; the arena's own range; the board's
 * cap, over committed granules; measured free memory less the floor, over granules newly committed.
 *
 * Victims.  A record's freed bytes are those whose last reference it holds, counted anew after each
 * choice (budget/shares).  A must takes over its node's yield edges, lowest order first, then least
 * value / max(freed, one granule); records that free nothing alone when nothing else is left.  A
 * may-want takes over edges to lower classes; over edges within its class, among records of `aside`
 * and of its own node only what is worth less per byte than itself, and only when all it takes so
 * is worth less than what it gets.  Victims are then walked backwards and given back where not
 * needed.  A victim's node keeps its reserve.
 *
 * Recharges.  Bytes are charged to the node of their highest holder; when that one goes, to the
 * next one's.  A node that is over its cap (lifted by a recharge, or its cap was lowered) loses its
 * own least valuable records in the same plan, higher classes first, since a recharge leads to a
 * lower one only; an inner node loses those of the lowest class below it.
 *
 * Promised (tests/budget/plan.c, random graphs): feasible; deterministic; class-monotone; maximal
 * (no want could get one more unit); equal to the optimum for wants with min 0 without victims. */
#ifndef BUDGET_PLAN_H
#define BUDGET_PLAN_H

#include "budget/graph.h"
#include "budget/shares.h"

enum {
    BUDGET_WANT_CAP = 64, BUDGET_RECORD_CAP = 4096,
    BUDGET_HEAP_CAP = BUDGET_RECORD_CAP + BUDGET_UNIT_CAP,
    BUDGET_RECHARGE_CAP = HOLD_COUNT * (HOLD_COUNT - 1) / 2,
};

/* Makes `bytes` real (takes and holds blocks, commits).  All or nothing: ERR_MEMORY and ERR_FULL
 * leave the owner as it was.  Called inside the gate, musts first, in the order of the wants; a
 * must's for 0 bytes too (rows in place still have to be taken over), a may-want's only for more.
 */
typedef enum err budget_commit(void *owner, u64 bytes);
/* Gives back what the commit of this gate took: a later must failed. */
typedef void budget_undo(void *owner, u64 bytes);

struct budget_want {
    u32  node;                          /* leaf that is charged                                  */
    u32  arena;                         /* where the bytes are committed; NONE: nowhere (heap
                                         * allocations, mapped files: caps only)                 */
    bool must;
    u64  min_bytes, max_bytes;          /* 0 <= min <= max; grants are min + k units, or max     */
    u64  unit_bytes;                    /* 0: the node's                                         */
    f64  value;                         /* expected tokens saved per byte                        */
    budget_commit *commit;              /* NULL: the taker commits later                         */
    budget_undo   *undo;                /* NULL: nothing to give back                            */
    void          *owner;               /* of commit and undo                                    */
};

struct budget_record {                  /* what could be taken, as data                          */
    u32  node, record;                  /* the node that yields it; its own index there          */
    u32  arena;                         /* where `freed_bytes` come free; NONE: in no arena      */
    bool pinned;                        /* no victim of this gate (the record that matched)      */
    bool leaves;                        /* goes by the caller's own hand before the wants are
                                         * committed (a displaced record): never yielded         */
    u8   holder;                        /* with units: enum holder by which it holds them        */
    f64  value;                         /* tokens that would be forwarded without it             */
    u64  freed_bytes;                   /* bytes that it alone holds, beside the units listed    */
    u32  list_lo, list_hi;              /* its units: budget_shares.list [lo, hi)                */
};

struct budget_grant {
    u64 bytes;
    u32 limit;                          /* WHY_CAP: the node whose cap bound first, else NONE    */
    u8  why, reserved[3];               /* enum budget_why: why it got less than its max         */
};

enum budget_why {
    WHY_FULL,                           /* it got its max                                        */
    WHY_CAP,                            /* the cap of node `limit`, others' reserves kept        */
    WHY_FREE,                           /* measured free memory less the floor                   */
    WHY_RANGE,                          /* the arena's range has no more units                   */
    WHY_COMMIT,                         /* the commit itself failed                              */
    WHY_MUST,                           /* nothing was granted: a must was refused               */
    WHY_COUNT
};
/* "granted", "cap", "free memory", "range of the arena", "commit failed", "a must was refused" */
const char *budget_plan_why(u32 why);

struct budget_recharge { u32 from, to; u64 bytes; };    /* nodes                                 */

struct budget_plan {
    bool refused;                       /* a must gets nothing: nothing is granted at all        */
    u32  refused_want;                  /* which, and why: grant[refused_want].why               */
    u64  short_bytes;                   /* what it lacked                                        */
    u32  want_count;
    struct budget_grant grant[BUDGET_WANT_CAP];
    u32  victim_count;
    u32  victim[BUDGET_RECORD_CAP];     /* indices into the records given                        */
    u32  squeezed_count;                /* the first of them: nodes were over their caps         */
    u64  freed_bytes;                   /* of the victims and of the records that leave          */
    u32  recharge_count;                /* what is charged to a lower node once they are gone    */
    struct budget_recharge recharge[BUDGET_RECHARGE_CAP];
    u64  commit_bytes;                  /* granules that the grants add to what is committed     */
};

struct budget_arena_view {              /* an arena as the plan sees it                          */
    u64 cell_bytes;                     /* committed at once: a granule, or a big unit's own     */
    u64 cell_units_bytes;               /* of it what units can use: no unit crosses a cell      */
    u64 ready_bytes;                    /* what next takes get without a commit                  */
    u64 range_bytes;                    /* what it could still hand out at all                   */
    bool gives;                         /* whole free cells can be given back (units)            */
};

struct budget_tables {                  /* the snapshot                                          */
    const struct budget_graph *graph;   /* used_bytes as of the snapshot                         */
    struct budget_arena_view arena[ARENA_CAP];
    u32  arena_count;
    u64  free_bytes;                    /* measured; UINT64_MAX = not a limit                    */
    bool trimmed;                       /* whole free cells were given back already: else they
                                         * count as free                                         */
    u32  class_node[HOLD_COUNT];        /* charged for what a class holds, or NONE               */
};

/* Memory of a call of budget_plan, ~750 KiB: static in the caller.  Nothing outlives a call. */
struct budget_candidate { u64 high, low; };      /* one number: order, density, record    */
enum { RECORD_HERE, RECORD_GONE, RECORD_BARRED };
struct budget_scratch {
    u8  gone[BUDGET_RECORD_CAP];        /* victims so far and records that leave; those whose
                                         * recharges no cap pays for are barred                  */
    struct budget_candidate heap[BUDGET_HEAP_CAP];
    struct holders left[BUDGET_UNIT_CAP];   /* holders once those are gone; reserved: their sum  */
    u32 who[BUDGET_UNIT_CAP];           /* xor of the records left that hold it, each + 1        */
    u16 listed[BUDGET_UNIT_CAP];        /* records given that hold it                            */
};

/* Snapshot of the arenas and of `free_bytes` over a refreshed graph. */
void budget_plan_tables(const struct budget_graph *g, u64 free_bytes, bool trimmed,
                        struct budget_tables *out);

/* The plan.  want_count <= BUDGET_WANT_CAP, record_count <= BUDGET_RECORD_CAP (asserted); `shares`
 * NULL: no record lists units. */
void budget_plan(const struct budget_tables *tables, const struct budget_want *wants,
                 u32 want_count, const struct budget_record *records, u32 record_count,
                 const struct budget_shares *shares, struct budget_scratch *scratch,
                 struct budget_plan *out);

/* Most bytes that `node` could ever be charged, were everything taken that its edges allow: what
 * --ctx is checked against, and "the board can never pay".  Pure. */
u64 budget_plan_room(const struct budget_tables *tables, u32 node);

#endif
