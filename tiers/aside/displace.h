/* tiers/aside/displace.h - the moment a conversation leaves its slot: what goes to pin, what to
 * park or store, in that order; plan, then apply.  No byte moves: holders do. */
#ifndef ASIDE_DISPLACE_H
#define ASIDE_DISPLACE_H

#include "tiers/aside/park.h"
#include "tiers/aside/pin.h"

struct displace_plan {
    struct pin_plan  pin;
    struct park_plan park;
    enum holder      class;             /* of what is parked: PARK, or STORE of a guest       */
};

/* Pure: what the caps pay for of an idle record in a slot that another request takes. */
void displace_plan(u32 record, struct displace_plan *out);
/* What its session leaves above `start` is a line or more and ended in an answer. */
bool displace_ended(u32 record, u64 start);
/* Pure: what is kept of it when its own session goes on from `start`, below its end: the whole
 * record as the session's abandoned tail, if it ended so. */
void displace_tail(u32 record, u64 start, struct displace_plan *out);

/* The record leaves its slot: what the plan keeps stands aside, the rest goes.  True: the record's
 * row lives on.  Nodes are settled by the caller. */
bool displace_apply(u32 record, const struct displace_plan *plan, bool tail);

#endif
