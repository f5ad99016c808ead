/* arena/base/rng.c - splitmix64's finaliser over seed and index. */
#include "arena/base/rng.h"

static u64 mix(u64 x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

u64 rng_u64(u64 seed, u64 index)
{
    const u64 step = 0x9E3779B97F4A7C15u;               /* 2^64 / golden ratio, odd            */
    u64 key = mix(seed + step);
    return mix(key ^ mix(key + (index + 1) * step));
}

f32 rng_f32(u64 seed, u64 index)
{
    return (f32)(u32)(rng_u64(seed, index) >> 40) * 0x1p-24f;
}
