/* tiers/resident.h - the records in slots: which slot a prompt gets, and their anchors.
 *
 * One record a slot that has rows; after a turn it stays there (idle).  At an idle slot's current
 * end a prompt takes the record (the slot goes on with it), at the end of one that stands aside it
 * brings it back into a slot; anywhere else it forks: into an empty slot, or the idle one that was
 * used longest ago, whose conversation is displaced (tiers/aside/displace), or the matched one
 * itself, whose abandoned tail is parked or dropped.  No turn ever writes rows of another slot.
 *
 * Choosing is pure; placing, loading and anchors carry out.  Engine thread only. */
#ifndef TIERS_RESIDENT_H
#define TIERS_RESIDENT_H

#include "budget/graph.h"
#include "budget/plan.h"
#include "tiers/match.h"

enum { RESIDENT_SLOT_CAP = 64, RESIDENT_POOL_CAP = 64, RESIDENT_SPARE = 4 };

enum tier_source { TIER_COLD, TIER_GRID, TIER_TURN, TIER_END, TIER_PIN, TIER_PARK, TIER_STORE,
                   TIER_DISK, TIER_SPILL, TIER_RESPONSE, TIER_SOURCE_COUNT };
enum tier_reason { TIER_REASON_NONE, TIER_PARTED, TIER_SHORT, TIER_NEVER_SEEN, TIER_MEMORY,
                   TIER_OFF, TIER_CONTEXT, TIER_SLOW_READ, TIER_FAILED_CHECK,
                   TIER_REASON_COUNT };
enum tier_way    { WAY_COLD,    /* empty rows in `slot`                                       */
                   WAY_TAKE,    /* `slot` goes on with its record                             */
                   WAY_CUT,     /* `slot`'s record goes on from `start`: its tail is parked
                                 * or dropped                                                 */
                   WAY_FORK,    /* `slot` shares `record`'s rows up to `start`                */
                   WAY_LIFT };  /* `record` comes back from aside and goes on in `slot`       */

struct tier_hit {
    enum tier_way    way;
    enum tier_source source;
    enum tier_reason reason;    /* why no more is reused                                      */
    u64     start;              /* rows in place; <= count - 1                                */
    u64     common;             /* longest common prefix with any record                      */
    u64     part_pos;           /* first id that differs from that record's, or U64_MAX       */
    u32     record;             /* matched, or NONE                                           */
    u64     number;             /* that record's: it may be gone when the turn begins         */
    u32     slot;               /* where the turn runs, or NONE: no slot is idle              */
    u32     victim;             /* record in `slot` that is displaced, or NONE                */
    enum holder from;           /* class of the matched record when it was found              */
    u64     session[2];         /* whose the matched record was when the turn took it over    */
    unit_id unit;               /* anchor to load (CUT, FORK, LIFT)                           */
    bool    guest;              /* by the guest rule: nothing is displaced for it             */
    bool    held;               /* `unit` is held for this turn until it is loaded            */
};

/* Anchor units a turn was granted and has not used yet; each is held (HOLD_ANCHOR). */
struct resident_pool { unit_id unit[RESIDENT_POOL_CAP]; u32 count; };

struct resident_counts {
    u64 taken[ANCHOR_KIND_COUNT];       /* anchors taken, by kind                             */
    u64 refused, replaced, yielded;     /* no room; dropped for a newer one; by the gate      */
};

/* Node `anchors` (class HOLD_ANCHOR, cap `cap_bytes`, the reserve of tiers.md 3) and the edge by
 * which live rows take from it.  ERR_CONFIG. */
MUST_USE enum err resident_declare(struct budget_graph *g, u64 cap_bytes, u64 unit_bytes,
                                   u32 slot_count);
/* After record_open and state_open.  The last `guest_slots` (0 or 1) slots are the guests'. */
void resident_open(struct budget_graph *g, u32 slot_count, u32 guest_slots);
u32  resident_node(void);
/* The anchors' cap holds at least one unit. */
bool resident_on(void);

u32  resident_record(u32 slot);         /* or NONE                                            */
bool resident_busy(u32 slot);
u32  resident_guest_slot(void);         /* or NONE                                            */
/* As what a slot holds its blocks: HOLD_LIVE, the guest slot HOLD_STASH. */
enum holder resident_holder(u32 slot);
/* Pure.  The slot of a hit that is not taken in place: an empty one, or the idle one that was used
 * longest ago, or the matched one itself; hit->slot NONE when all are busy. */
void resident_choose(struct tier_hit *hit, const struct tier_prompt *prompt);
/* An idle side slot whose record, if any, would lose little to a prompt of this length, or NONE. */
u32  resident_side(const struct tier_hit *hit, const struct tier_prompt *prompt);
/* The idle record, `keep` and `slot`'s own aside, that was used longest ago, or NONE. */
u32  resident_oldest(u32 keep, u32 slot);

/* The unit that will be loaded stays until then, whatever becomes of the anchor that named it: held
 * as something on its way, charged (node `staging`) only when nobody else holds it. */
void resident_keep_unit(struct tier_hit *hit);
void resident_let_unit_go(struct tier_hit *hit);
/* The slot has no record any more: it was displaced. */
void resident_left(u32 slot);
/* The slot's list becomes what the hit says, before it grows: a cut is made, shared blocks are
 * referred to, a record aside comes in; its record is busy from now on.  The slot is empty unless
 * the hit is TAKE or CUT.  ERR_FULL: no record row, nothing done. */
MUST_USE enum err resident_place(struct tier_hit *hit, const struct tier_prompt *prompt,
                                 u64 now_us);
/* The slot got no rows: a fork's or cold record goes, one that was lifted goes back aside, a taken
 * or cut one is idle again. */
void resident_unplace(struct tier_hit *hit);
/* After the slot grew: its sections become those at hit->start.  ERR_DEVICE: the slot's record is
 * dropped. */
MUST_USE enum err resident_load(struct tier_hit *hit);

/* Anchors of live records within their node's cap: what fell to it, or what a lowered cap does not
 * pay for any more, goes. */
void resident_settle(void);

/* Keys of rows [pos, pos + count) that the slot just forwarded. */
void resident_rows(u32 slot, u64 pos, const u64 *keys, u64 count);
/* Backends that are not row-invariant: the slot's rows from `pos` on were not written by a cold
 * prefill on the grid; whether none of its rows is such a one. */
void resident_taint(u32 slot, u64 pos);
bool resident_clean(u32 slot);
/* An anchor at the slot's length, from the pool or in the place of a cheaper one.  False: refused
 * and counted (an anchor that stands there already is marked and true). */
bool resident_line(u32 slot, enum anchor_kind kind, bool head, struct resident_pool *pool);
/* Units for the pool inside a gate: taken and held.  ERR_MEMORY, ERR_FULL: those taken so far stay
 * in the pool. */
MUST_USE enum err resident_pool_fill(struct resident_pool *pool, u32 count);
void resident_pool_drop(struct resident_pool *pool);

/* The turn is over: the record stays idle in its slot, or goes when it has no rows. */
void resident_release(u32 slot, u64 now_us);
/* The slot's rows are undefined or not wanted: its record goes. */
void resident_drop(u32 slot);

/* Anchors above the reserve, as victims of a gate: rows of `out`, at most `cap`. */
u32  resident_victims(struct budget_record *out, u32 cap, struct budget_shares *shares);
u64  resident_yield(void *owner, const u32 *records, u32 count);

struct resident_counts resident_counts(void);

#endif
