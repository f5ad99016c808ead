/* tiers/aside/park.h - policy of class park: which rows of a conversation that leaves its slot, and
 * which of its anchors, the park's cap pays for (tiers.md 6).  Pure. */
#ifndef ASIDE_PARK_H
#define ASIDE_PARK_H

#include "tiers/aside/aside.h"

enum { PARK_ANCHOR_CAP = 128 };

struct park_plan {
    u64  rows;                          /* [0, rows) stay; 0: nothing                         */
    bool keep[PARK_ANCHOR_CAP];         /* by index in its list                               */
};

/* Rows [0, pin_rows) are paid by a pin.  End anchors first, then the newest 4, the head's, others
 * while the cap pays; `rows` ends at a kept anchor. */
void park_plan(u32 record, u64 pin_rows, u64 cap_bytes, struct park_plan *out);
/* Carries it out on a record that stands aside. */
void park_apply(u32 record, const struct park_plan *plan);
/* The tail that this session abandoned last, or NONE. */
u32  park_tail(const u64 session[2]);

#endif
