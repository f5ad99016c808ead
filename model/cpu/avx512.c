/* model/cpu/avx512.c - the level for AVX-512 (F, BW, DQ, VL) with FMA: sixteen lanes a register.
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
#include "model/cpu/vnni.h"
#include "model/maths.h"

#if defined(__clang__)
#define LEVEL_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#pragma clang attribute push(LEVEL_TARGET, apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif
#define VEC_AVX512
#include "model/cpu/vector.h"

const struct cpu_level avx512_level = {
    .name = "avx512", VECTOR_LEVEL, .product = level_product, .probe = level_probe,
    .int8_ready = vnni_ready, .int8_product = vnni_product,
};

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
