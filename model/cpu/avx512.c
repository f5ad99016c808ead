/* model/cpu/avx512.c - the level for AVX-512 (F, BW, DQ, VL) with FMA: sixteen lanes a register.
 *
 * The operations' text stands in the headers below, once for all vector levels; this file compiles
 * it for one target.  Nothing here runs unless CPUID shows the target (cpu.c). */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "model/cpu/format.h"
#include "model/cpu/level.h"
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
#include "model/cpu/attn.h"
#include "model/cpu/conv.h"
#include "model/cpu/expand.h"
#include "model/cpu/gdn.h"
#include "model/cpu/norm.h"
#include "model/cpu/product.h"
#include "model/cpu/rope.h"

const struct cpu_level avx512_level = {
    .name = "avx512",
    .product = level_product,
    .expand = level_expand,
    .int8_ready = vnni_ready,
    .int8_product = vnni_product,
    .rms_norm = level_rms_norm,
    .residual = level_residual,
    .glu = level_glu,
    .attn_rows = level_attn_rows,
    .attn_bytes = level_attn_bytes,
    .attn = level_attn,
    .attn_part = level_attn_part,
    .attn_join = level_attn_join,
    .conv = level_conv,
    .gdn_gates = level_gdn_gates,
    .gdn_rule = level_gdn_rule,
    .gdn_out = level_gdn_out,
};

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
