/* arena/holders.h - who holds a unit, by class; the highest class (lowest number) is charged.
 *
 * Pure.  live > anchor > stash > pin > park > store > writing.  A unit without holders is free. */
#ifndef ARENA_HOLDERS_H
#define ARENA_HOLDERS_H

#include <string.h>

#include "arena/base/base.h"

enum holder {                           /* the order is the order of charging                 */
    HOLD_LIVE, HOLD_ANCHOR, HOLD_STASH, HOLD_PIN, HOLD_PARK, HOLD_STORE, HOLD_WRITING,
    HOLD_COUNT
};
extern const char *const holders_word[HOLD_COUNT];

struct holders { u16 count[HOLD_COUNT]; u16 reserved; };        /* one unit's                 */
static_assert(sizeof(struct holders) == 16 && HOLD_COUNT == 7, "two words; beside each block");

struct holders_bytes { u64 bytes[HOLD_COUNT]; };                /* an arena's, by charged class */

/* Lowest class that holds, or HOLD_COUNT when nobody does.  Plans ask it of every unit: two words
 * of four counts, the last of which is no class (little-endian, as all files of ours are). */
static inline enum holder holders_charged(const struct holders *h)
{
    u64 low, high;
    memcpy(&low, &h->count[0], sizeof low);
    memcpy(&high, &h->count[4], sizeof high);
    if (low != 0) return (enum holder)(__builtin_ctzll(low) / 16);
    return (enum holder)(4 + __builtin_ctzll(high | 1ull << 48) / 16);
}

/* Sum of the counts. */
static inline u32 holders_total(const struct holders *h)
{
    u32 total = 0;
    for (u32 class = 0; class < HOLD_COUNT; class++) total += h->count[class];
    return total;
}

/* One more / one less holder of `class`; moves `unit_bytes` between classes of `sum` when the
 * charged class changes.  drop returns true when nobody holds it any more.  Dropping a class that
 * doesn't hold is an ASSERT. */
void holders_add(struct holders *h, enum holder class, struct holders_bytes *sum, u64 unit_bytes);
bool holders_drop(struct holders *h, enum holder class, struct holders_bytes *sum, u64 unit_bytes);

#endif
