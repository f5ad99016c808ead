/* tiers/aside/pin.h - policy of class pin: the head of a conversation that is displaced, as many
 * rows as the pins' cap pays for, with up to 8 anchors spread over it (tiers.md 5). */
#ifndef ASIDE_PIN_H
#define ASIDE_PIN_H

#include "tiers/aside/aside.h"

enum { PIN_ANCHORS = 8 };

struct pin_plan {
    u64 rows;                           /* 0: nothing                                         */
    u32 count;
    u64 pos[PIN_ANCHORS];               /* anchors kept, ascending; the last is at `rows`     */
};

/* Pure.  A pin ends below the record's own end: what goes on there is the park's. */
void pin_plan(u32 record, u64 cap_bytes, struct pin_plan *out);
/* A new record of class pin that shares those rows; an older pin of the same rows goes.  ERR_FULL.
 */
MUST_USE enum err pin_apply(u32 record, const struct pin_plan *plan);

#endif
