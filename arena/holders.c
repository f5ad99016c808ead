/* arena/holders.c - counts by class; the lowest class that holds is charged. */
#include "arena/holders.h"

const char *const holders_word[HOLD_COUNT] = { "live", "anchor", "stash", "pin", "park", "store",
                                               "writing" };

/* Moves the unit's bytes from what it was charged to, to what it is charged to now. */
static void move(enum holder before, enum holder after, struct holders_bytes *sum, u64 unit_bytes)
{
    if (before == after) return;
    if (before != HOLD_COUNT) {
        ASSERT(sum->bytes[before] >= unit_bytes);
        sum->bytes[before] -= unit_bytes;
    }
    if (after != HOLD_COUNT) sum->bytes[after] += unit_bytes;
}

void holders_add(struct holders *h, enum holder class, struct holders_bytes *sum, u64 unit_bytes)
{
    ASSERT((u32)class < HOLD_COUNT && h->count[class] < UINT16_MAX);
    enum holder before = holders_charged(h);
    h->count[class]++;
    move(before, holders_charged(h), sum, unit_bytes);
}

bool holders_drop(struct holders *h, enum holder class, struct holders_bytes *sum, u64 unit_bytes)
{
    ASSERT((u32)class < HOLD_COUNT && h->count[class] > 0);
    enum holder before = holders_charged(h);
    h->count[class]--;
    enum holder after = holders_charged(h);
    if (FAULT(FAULT_CHARGE_NOT_MOVED) && after != HOLD_COUNT) return false;
    move(before, after, sum, unit_bytes);
    return after == HOLD_COUNT;
}
