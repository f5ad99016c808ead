/* tiers/value.h - what a kept thing is worth: one function for memory, disk and spill.  Pure.
 *
 * (hits + 1) * tokens that would be forwarded without it * 2^(-idle / half-life) / bytes. */
#ifndef TIERS_VALUE_H
#define TIERS_VALUE_H

#include "arena/base/base.h"

enum { VALUE_HALF_LIFE_S = 3600 };      /* in memory                                          */

/* Per byte; bytes 0 counts as 1. */
f64 value_of(u64 hits, u64 tokens, u64 idle_us, u64 half_life_us, u64 bytes);

#endif
