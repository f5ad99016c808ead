/* model/cpu/amx.c - the level for AMX (tiles of BF16 and of bytes) beside AVX-512.
 *
 * Products and attention of enough rows go through tiles (amx.h, amx_int8.h); few rows, and all
 * else, are the text of avx512.c.  Nothing here runs unless CPUID shows AMX and the system granted
 * it (levels.c). */
#include "model/cpu/level.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "model/cpu/pack.h"
#include "model/cpu/vnni.h"
#include "model/maths.h"

#if defined(__clang__)
#define LEVEL_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma," \
                                           "amx-tile,amx-bf16,amx-int8")))
#pragma clang attribute push(LEVEL_TARGET, apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,amx-tile,amx-bf16,amx-int8")
#pragma GCC target("prefer-vector-width=512")
#endif
#define VEC_AVX512
#define VEC_AMX
#include "model/cpu/vector.h"
#include "model/cpu/amx_int8.h"

const struct cpu_level amx_level = {
    .name = "amx", VECTOR_LEVEL, .product = amx_product, .probe = amx_probe,
    .ready_bytes = amx_ready_bytes, .ready = amx_ready,
    .int8_ready = vnni_ready, .int8_product = amx_int8_product,
};

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
