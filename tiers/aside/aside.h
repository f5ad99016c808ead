/* tiers/aside/aside.h - the nodes of what stands aside (stash, pin, park, store): caps, what a
 * record is worth, who goes when a node is over its cap, and the budget's view of them.
 *
 * Charging moves without a gate: when a higher holder lets go, bytes fall to the next one's node,
 * which may then be over its cap.  aside_settle drops that node's least valuable records until it
 * fits, from the highest class down, so the cascade ends.  Engine thread only. */
#ifndef ASIDE_ASIDE_H
#define ASIDE_ASIDE_H

#include "budget/graph.h"
#include "budget/plan.h"
#include "tiers/record.h"

struct aside_caps { u64 stash_bytes, pin_bytes, park_bytes, store_bytes, store_entry_bytes; };

struct aside_counts {                   /* by class of the record                             */
    u64 kept[HOLD_COUNT];               /* records that came                                  */
    u64 dropped[HOLD_COUNT];            /* no room: least valuable                            */
    u64 yielded[HOLD_COUNT];            /* taken by a gate                                    */
    u64 refused[HOLD_COUNT];            /* not kept: the cap pays for nothing of it           */
};

/* Nodes aside{stash, pin, park} and store under `caches`, and the edges by which live rows, the
 * stash, pins, parks and anchors take from them (budget.md 2).  After resident_declare.
 * ERR_CONFIG. */
MUST_USE enum err aside_declare(struct budget_graph *g, const struct aside_caps *caps);
void aside_open(struct budget_graph *g, u64 half_life_us, u64 store_entry_bytes);
/* Time as the engine sees it, for values. */
void aside_now(u64 now_us);

/* Node of a class (LIVE: kv, ANCHOR: anchors); its cap; bytes that its records are charged now;
 * whether a cap on the way up leaves `bytes` more. */
u32  aside_node(enum holder class);
u64  aside_cap(enum holder class);
u64  aside_used(enum holder class);
bool aside_room(enum holder class, u64 bytes);
/* Most bytes, shared ones too, of one record of class store; 0 when the store is off. */
u64  aside_entry_cap(void);

/* Tokens that would be forwarded without the record, weighted by hits and age; and that per byte
 * that would come free. */
f64  aside_value(u32 record);
f64  aside_density(u32 record);

/* From now on the record (NONE: nothing) is not dropped by settling or yielding, nor offered to a
 * gate, until aside_unprotect, once for each call: one that a request matched, or one that came
 * from disk for a turn.  Where it is more than its node's cap may hold all others go, and the node
 * is over until it is let go.  Of more than ASIDE_PROTECTED the one named first is let go. */
void aside_protect(u32 record);
/* By the number it had then: it may be gone, and its row another's. */
void aside_unprotect(u32 record, u64 number);
bool aside_protected(u32 record);

/* Every node within its cap again, and all caches within theirs. */
void aside_settle(void);
/* Drops the least valuable record aside (the protected one aside) so that its row and list come
 * free; false when there is none. */
bool aside_evict(void);

/* Records aside as victims of a gate, their units in `shares`: rows of `out`, at most `cap`. */
u32  aside_victims(struct budget_record *out, u32 cap, struct budget_shares *shares);

struct aside_counts *aside_counts(void);

#endif
