/* model/cpu/avx2.c - the level for AVX2 with FMA and F16C: sixteen lanes in two registers.
 *
 * The operations' text stands in vector.h, once for all vector levels; this file compiles it for
 * one target.  Nothing here runs unless CPUID shows the target (levels.c). */
#include "model/cpu/level.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "model/cpu/format.h"
#include "model/cpu/pack.h"
#include "model/cpu/quant.h"
#include "model/maths.h"

#if defined(__clang__)
#define LEVEL_TARGET __attribute__((target("avx2,fma,f16c")))
#pragma clang attribute push(LEVEL_TARGET, apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#include "model/cpu/codes.h"
#include "model/cpu/vector.h"

const struct cpu_level avx2_level = {
    .name = "avx2", VECTOR_LEVEL, .product = level_product, .probe = level_probe,
    .int8_ready = level_int8_ready, .int8_product = codes_or_int8,
};

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
