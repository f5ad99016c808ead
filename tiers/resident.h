/* tiers/resident.h - the records in slots: where a prompt can start from them, and their anchors.
 *
 * One record a slot that has rows; after a turn it stays there (idle).  A prompt starts at the
 * largest position whose state is held and whose rows are its own ids: at an idle slot's current
 * end it takes the record (the slot goes on with it); anywhere else it forks: into an empty slot,
 * or the idle one that was used longest ago, or the matched one itself, which is then cut back and
 * its abandoned tail dropped.  No turn ever writes rows of another slot.
 *
 * Finding is pure; placing, loading and anchors carry out.  Engine thread only. */
#ifndef TIERS_RESIDENT_H
#define TIERS_RESIDENT_H

#include "budget/graph.h"
#include "budget/plan.h"
#include "tiers/record.h"

enum { RESIDENT_SLOT_CAP = 64, RESIDENT_POOL_CAP = 64, RESIDENT_SPARE = 4 };

enum tier_source { TIER_COLD, TIER_GRID, TIER_TURN, TIER_END, TIER_SOURCE_COUNT };
enum tier_reason { TIER_REASON_NONE, TIER_PARTED, TIER_SHORT, TIER_NEVER_SEEN, TIER_MEMORY,
                   TIER_OFF, TIER_CONTEXT, TIER_REASON_COUNT };
enum tier_way    { WAY_COLD,    /* empty rows in `slot`                                       */
                   WAY_TAKE,    /* `slot` goes on with its record                             */
                   WAY_CUT,     /* `slot`'s record is cut back to `start`                     */
                   WAY_FORK };  /* `slot` shares `record`'s rows up to `start`                */

struct tier_prompt {
    const u64 *keys;            /* key ids of the served ids                                  */
    u64        count;           /* >= 1                                                       */
    u64        session[2];
};

struct tier_hit {
    enum tier_way    way;
    enum tier_source source;
    enum tier_reason reason;    /* why no more is reused                                      */
    u64     start;              /* rows in place; <= count - 1                                */
    u64     common;             /* longest common prefix with any record                      */
    u64     part_pos;           /* first id that differs from that record's, or U64_MAX       */
    u32     record;             /* matched, or NONE                                           */
    u32     slot;               /* where the turn runs, or NONE: no slot is idle              */
    u32     victim;             /* record in `slot` that goes, or NONE                        */
    unit_id unit;               /* anchor to load (CUT, FORK)                                 */
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
/* After record_open and state_open. */
void resident_open(struct budget_graph *g, u32 slot_count);
u32  resident_node(void);
/* The anchors' cap holds at least one unit. */
bool resident_on(void);

u32  resident_record(u32 slot);         /* or NONE                                            */
bool resident_busy(u32 slot);
/* Pure.  hit->slot NONE: nothing but source columns of a hit that can't be served now. */
void resident_find(const struct tier_prompt *prompt, struct tier_hit *hit);
/* The idle record, `keep` and `slot`'s own aside, that was used longest ago, or NONE. */
u32  resident_oldest(u32 keep, u32 slot);

/* The slot's list becomes what the hit says, before it grows: a victim goes, a cut is made, shared
 * blocks are referred to; its record is busy from now on.  ERR_FULL: no record row, nothing done.
 * May be called again after resident_unplace; the victim does not come back. */
MUST_USE enum err resident_place(struct tier_hit *hit, const struct tier_prompt *prompt,
                                 u64 now_us);
/* The slot got no rows: a fork's or cold record goes, a taken or cut one is idle again. */
void resident_unplace(struct tier_hit *hit);
/* After the slot grew: its sections become those at hit->start.  ERR_DEVICE: the slot's record is
 * dropped. */
MUST_USE enum err resident_load(const struct tier_hit *hit);

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
u32  resident_victims(struct budget_record *out, u32 cap);
u64  resident_yield(void *owner, const u32 *records, u32 count);

struct resident_counts resident_counts(void);

#endif
