/* tiers/aside/guest.h - the guest rule: a short request that shares next to nothing with the
 * conversation it would displace runs beside it (tiers.md 4).  Pure. */
#ifndef ASIDE_GUEST_H
#define ASIDE_GUEST_H

#include "tiers/resident.h"

struct guest_setup {
    u64 rows_max;               /* --resident-guest-max; 0: no request is a guest             */
    f64 fraction;               /* of the resident rows: under it                             */
};

/* A prompt of `count` ids, `common` of them the first ones of a conversation of `rows` rows. */
bool guest_rule(const struct guest_setup *setup, u64 count, u64 common, u64 rows, u32 grid_rows);
/* The hit would displace a conversation, or found no slot: a guest gets an idle side slot or the
 * guest slot instead.  Without either it stays as it is. */
void guest_place(const struct guest_setup *setup, const struct tier_prompt *prompt,
                 struct tier_hit *hit);

#endif
