/* arena/base/rng.h - counter-based random numbers: pure functions of (seed, index).
 *
 * Used by the sampler (index of the generated token), the seeded tiny models and the simulator.
 * The bits are part of what a seed promises: they never change.  Mixing as in splitmix64 (Steele,
 * Lea, Flood, OOPSLA 2014), once for the seed and twice for the index. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include "arena/base/base.h"

/* 64 uniform bits. */
u64 rng_u64(u64 seed, u64 index);

/* A multiple of 2^-24 in [0, 1). */
f32 rng_f32(u64 seed, u64 index);

#endif
