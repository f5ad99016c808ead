/* model/cpu/vnni.c - the integer arithmetic with the dot products of AVX-512 VNNI.
 *
 * codes.h and int8.h compiled for one target more: levels avx512 and amx take it where CPUID shows
 * VNNI, and avx2's elsewhere (cpu.c). */
#include "model/cpu/level.h"

#if defined(__x86_64__)
#include "model/cpu/vnni.h"

#include <immintrin.h>
#include <string.h>

#include "model/cpu/format.h"
#include "model/maths.h"

#if defined(__clang__)
#define LEVEL_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#pragma clang attribute push(LEVEL_TARGET, apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512")
#endif
#define VEC_AVX512
#define INT8_VNNI
#include "model/cpu/codes.h"

void vnni_ready(const struct ops_product *p, u32 lo, u32 hi)
{
    level_int8_ready(p, lo, hi);
}

void vnni_product(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi)
{
    codes_or_int8(p, lo, hi, tile_lo, tile_hi);
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
