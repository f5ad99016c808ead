/* model/cpu/conv.h - the causal convolution of four taps for the vector levels.
 *
 * One text of avx2.c and avx512.c.  Lanes are channels: a block's taps and its tail are turned from
 * [channel][..] to [..][channel] once, then every row reads four rows of raw values. */
#ifndef MODEL_CPU_CONV_H
#define MODEL_CPU_CONV_H

#include <string.h>

#include "model/cpu/level.h"
#include "model/cpu/norm.h"

enum { CONV_BLOCK = 256, CONV_TAPS = 4 };

struct conv_block {                     /* of CONV_BLOCK channels                              */
    f32 tap[CONV_TAPS][CONV_BLOCK];
    f32 tail[CONV_TAPS - 1][CONV_BLOCK];
};

VEC_FN void conv_channels(const struct conv_block *restrict b, const f32 *const raw[CONV_TAPS],
                          f32 *restrict y, u32 count, bool reference)
{
    const f32 *restrict r0 = raw[0], *restrict r1 = raw[1];
    const f32 *restrict r2 = raw[2], *restrict r3 = raw[3];
    for (u32 c = 0; c < count; c++) {
        f32 s = HF_FMA(b->tap[0][c], r0[c], 0.0f);
        s = HF_FMA(b->tap[1][c], r1[c], s);
        s = HF_FMA(b->tap[2][c], r2[c], s);
        s = HF_FMA(b->tap[3][c], r3[c], s);
        y[c] = norm_rounded(maths_silu(s), reference);
    }
}

static VEC_LOOP void conv_row(const struct conv_block *restrict b, const f32 *const raw[CONV_TAPS],
                              f32 *restrict y, u32 count, bool reference)
{
    if (reference) conv_channels(b, raw, y, count, true);
    else conv_channels(b, raw, y, count, false);
}

static void conv_load(const struct ops_conv *p, const u8 *tail, u32 c_lo, u32 count,
                      struct conv_block *b, bool reference)
{
    for (u32 c = 0; c < count; c++) {
        for (u32 i = 0; i < CONV_TAPS; i++) b->tap[i][c] = p->w[(u64)(c_lo + c) * CONV_TAPS + i];
        for (u32 i = 0; i < CONV_TAPS - 1; i++) {
            u64 at = (u64)(c_lo + c) * (CONV_TAPS - 1) + i;
            bf16 narrow;
            memcpy(&narrow, tail + 2 * at, sizeof narrow);
            if (reference) memcpy(&b->tail[i][c], tail + 4 * at, sizeof(f32));
            else b->tail[i][c] = maths_from_bf16(narrow);
        }
    }
}

static void conv_keep(u8 *tail, u32 c_lo, u32 count, const f32 *const last[CONV_TAPS - 1],
                      bool reference)
{
    for (u32 c = 0; c < count; c++)
        for (u32 i = 0; i < CONV_TAPS - 1; i++) {
            u64 at = (u64)(c_lo + c) * (CONV_TAPS - 1) + i;
            bf16 narrow = maths_to_bf16(last[i][c]);
            if (reference) memcpy(tail + 4 * at, &last[i][c], sizeof(f32));
            else memcpy(tail + 2 * at, &narrow, sizeof narrow);
        }
}

static void level_conv(const struct ops_conv *p, const struct ops_span *span, u32 c_lo, u32 c_hi,
                       bool reference)
{
    struct conv_block b;
    u8 *tail = span->sections + p->tail_offset;
    u32 count = c_hi - c_lo;
    ASSERT(count <= CONV_BLOCK);
    if (span->lo == span->hi) return;
    conv_load(p, tail, c_lo, count, &b, reference);
    const f32 *raw[CONV_TAPS] = { NULL, b.tail[0], b.tail[1], b.tail[2] };
    for (u32 r = span->lo; r < span->hi; r++) {
        for (u32 i = 0; i < CONV_TAPS - 1; i++) raw[i] = raw[i + 1];
        raw[CONV_TAPS - 1] = (const f32 *)p->raw + (u64)r * p->c + c_lo;
        f32 *y = (f32 *)p->y + (u64)r * p->c + c_lo;
        conv_row(&b, raw, y, count, reference);
    }
    conv_keep(tail, c_lo, count, raw + 1, reference);
}

#endif
