/* tiers/value.c - the value of a record, an anchor, a file. */
#include "tiers/value.h"

/* 2^-x for x >= 0: halves while whole, then the chord of the last octave, which keeps the order of
 * any two ages (a value ranks, it is not a measure). */
static f64 half_power(f64 x)
{
    if (x > 1000.0) return 0.0;
    f64 v = 1.0;
    for (; x >= 1.0; x -= 1.0) v *= 0.5;
    return v * (1.0 - 0.5 * x);
}

f64 value_of(u64 hits, u64 tokens, u64 idle_us, u64 half_life_us, u64 bytes)
{
    f64 age = (f64)idle_us / (f64)MAX(half_life_us, 1u);
    return ((f64)hits + 1.0) * (f64)tokens * half_power(age) / (f64)MAX(bytes, 1u);
}
