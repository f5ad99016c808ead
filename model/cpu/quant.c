/* model/cpu/quant.c - one block of a format to its values, and any run of a row. */
#include "model/cpu/quant.h"

#include <string.h>

#include "model/maths.h"

enum { GROUP = 32, GROUPS = 8, HALF = 128 };

static f32 half_at(const u8 *at)
{
    return maths_from_f16((u16)(at[0] | at[1] << 8));
}

static void block_q8_0(const u8 *b, f32 *out)
{
    f32 d = half_at(b);
    for (u32 i = 0; i < GROUP; i++) out[i] = d * (f32)(i8)b[2 + i];
}

static void block_q4_0(const u8 *b, f32 *out)
{
    f32 d = half_at(b);
    for (u32 i = 0; i < GROUP / 2; i++) {
        out[i] = d * (f32)((b[2 + i] & 15) - 8);
        out[i + GROUP / 2] = d * (f32)((b[2 + i] >> 4) - 8);
    }
}

/* Q4_K, and Q5_K when `high` has the fifth bits.  Groups 2p and 2p + 1 are the low and high
 * nibbles of q[32p, 32p + 32). */
static void block_k(const u8 *b, const u8 *high, const u8 *q, f32 *out)
{
    f32 d = half_at(b), dmin = half_at(b + 2);
    for (u32 g = 0; g < GROUPS; g++) {
        u32 scale, least;
        quant_scale(b + 4, 1, g, &scale, &least);
        f32 step = d * (f32)scale, base = dmin * (f32)least;
        for (u32 i = 0; i < GROUP; i++) {
            u32 x = (u32)q[g / 2 * GROUP + i] >> (g % 2 * 4) & 15u;
            if (high != NULL) x |= ((u32)high[i] >> g & 1u) << 4;
            out[g * GROUP + i] = step * (f32)x - base;
        }
    }
}

/* Two halves of 128 values: rows r of 32 take 4 low bits from ql, 2 high bits from qh. */
static void block_q6_k(const u8 *b, f32 *out)
{
    const u8 *ql = b, *qh = b + 128, *scale = b + 192;
    f32 d = half_at(b + 208);
    for (u32 n = 0; n < QUANT_BLOCK_MAX; n++) {
        u32 half = n / HALF, r = n % HALF / GROUP, i = n % GROUP;
        u32 low = (u32)ql[half * 64 + i + GROUP * (r & 1)] >> (4 * (r >> 1)) & 15u;
        u32 high = (u32)qh[half * GROUP + i] >> (2 * r) & 3u;
        out[n] = d * (f32)(i8)scale[n / 16] * (f32)((i32)(low | high << 4) - 32);
    }
}

u32 quant_block_values(enum ops_source type)
{
    return type == OPS_Q8_0 || type == OPS_Q4_0 ? GROUP : QUANT_BLOCK_MAX;
}

u32 quant_block_bytes(enum ops_source type)
{
    static const u32 bytes[] = { [OPS_Q8_0] = 34, [OPS_Q4_0] = 18, [OPS_Q4_K] = 144,
                                 [OPS_Q5_K] = 176, [OPS_Q6_K] = 210 };
    ASSERT(type >= OPS_Q8_0 && type <= OPS_Q6_K);
    return bytes[type];
}

static void block(enum ops_source type, const u8 *b, f32 *out)
{
    if (type == OPS_Q8_0) block_q8_0(b, out);
    else if (type == OPS_Q4_0) block_q4_0(b, out);
    else if (type == OPS_Q4_K) block_k(b, NULL, b + 16, out);
    else if (type == OPS_Q5_K) block_k(b, b + 16, b + 48, out);
    else block_q6_k(b, out);
}

void quant_expand(enum ops_source type, const u8 *data, u32 k, u32 j, u32 t, u32 count, f32 *out)
{
    u32 values = quant_block_values(type), bytes = quant_block_bytes(type);
    const u8 *row = data + (u64)j * (k / values) * bytes;
    ASSERT(k % values == 0 && (u64)t + count <= k);
    for (u32 done = 0; done < count;) {
        f32 whole[QUANT_BLOCK_MAX];
        u32 from = (t + done) % values, run = MIN(count - done, values - from);
        const u8 *b = row + (u64)((t + done) / values) * bytes;
        bool direct = run == values;
        block(type, b, direct ? out + done : whole);
        if (!direct) memcpy(out + done, whole + from, run * sizeof *out);
        done += run;
    }
}
