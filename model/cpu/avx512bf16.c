/* model/cpu/avx512bf16.c - expansion to BF16 with the rounding of AVX512_BF16: one step for nine.
 *
 * expand.h compiled for one target more: level avx512 takes it where CPUID shows it.  The
 * instruction rounds to the nearest, ties to even; subnormals would be zero, but what an
 * arithmetic step gave is none. */
#include "model/cpu/level.h"

#if defined(__x86_64__)
#include "model/cpu/avx512bf16.h"

#include <immintrin.h>
#include <string.h>

#include "model/cpu/format.h"
#include "model/maths.h"

#if defined(__clang__)
#define LEVEL_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#pragma clang attribute push(LEVEL_TARGET, apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512")
#endif
#define VEC_AVX512
#define EXPAND_NARROW
#include "model/cpu/expand.h"

void avx512bf16_expand(const struct ops_matrix *w, u32 tile, u32 lo, u32 hi, u8 *out)
{
    level_expand(w, tile, lo, hi, out);
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
