/* model/cpu/quant.h - the block formats of GGUF files: Q8_0, Q4_0, Q4_K, Q5_K, Q6_K to f32.
 *
 * A value is one f32 by the block's formula; every product of it is exact in f32, the difference
 * of Q4_K and Q5_K is rounded once.  What is stored of it is the caller's rounding (R).
 *   Q8_0  32 values, 34 bytes    d f16, q i8[32]                       d * q
 *   Q4_0  32 values, 18 bytes    d f16, q u8[16]                       d * (x - 8)
 *   Q4_K  256 values, 144 bytes  d, dmin f16, s u8[12], q u8[128]      d*sc * x - dmin*m
 *   Q5_K  256 values, 176 bytes  the same with h u8[32] before q: x has a fifth bit
 *   Q6_K  256 values, 210 bytes  ql u8[128], qh u8[64], sc i8[16], d   d*sc * (x - 32)
 * Source: github.com/ggml-org/ggml, ggml-quants; held bit for bit to tests/oracle/gguf_io.py.
 * Owns nothing. */
#ifndef CPU_QUANT_H
#define CPU_QUANT_H

#include "model/ops.h"

enum { QUANT_BLOCK_MAX = 256 };

/* Scale and minimum of group `g` of a block of Q4_K or Q5_K: six bits each in s[12], whose bytes
 * are `stride` apart. */
static inline void quant_scale(const u8 *s, u32 stride, u32 g, u32 *scale, u32 *least)
{
    if (g < 4) {
        *scale = s[g * stride] & 63u;
        *least = s[(g + 4) * stride] & 63u;
    } else {
        *scale = (s[(g + 4) * stride] & 15u) | (u32)(s[(g - 4) * stride] >> 6) << 4;
        *least = (u32)(s[(g + 4) * stride] >> 4) | (u32)(s[g * stride] >> 6) << 4;
    }
}

u32 quant_block_values(enum ops_source type);
u32 quant_block_bytes(enum ops_source type);

/* Values [t, t + count) of row j of `data`, rows of k values (whole blocks).  Any range: blocks at
 * its ends are decoded and cut. */
void quant_expand(enum ops_source type, const u8 *data, u32 k, u32 j, u32 t, u32 count, f32 *out);

#endif
