/* model/cpu/avx512bf16.c - expansion to BF16 with the rounding of AVX512_BF16: one step for nine.
 *
 * expand.h and stream.h compiled for one target more, which also looks FP8 up by bytes
 * (AVX512_VBMI): level avx512 takes it where CPUID shows both.  The instruction rounds to the
 * nearest, ties to even; subnormals would be zero, but what an arithmetic step gave is none. */
#include "model/cpu/level.h"

#if defined(__x86_64__)
#include "model/cpu/avx512bf16.h"

#include <immintrin.h>
#include <string.h>

#include "model/cpu/format.h"
#include "model/maths.h"

bool avx512bf16_here(void)
{
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
}

#if defined(__clang__)
#define LEVEL_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,"  \
                                             "avx512vbmi,avx2,fma")))
#pragma clang attribute push(LEVEL_TARGET, apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi,avx2,fma")
#pragma GCC target("prefer-vector-width=512")
#endif
#define VEC_AVX512
#define EXPAND_NARROW
#include "model/cpu/stream.h"

void avx512bf16_expand(const struct ops_matrix *w, u32 tile, u32 lo, u32 hi, u8 *out)
{
    level_expand(w, tile, lo, hi, out);
}

void avx512bf16_stream(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi)
{
    level_stream(p, lo, hi, tile_lo, tile_hi);
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
