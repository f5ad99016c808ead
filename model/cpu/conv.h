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

/* Taps [channel][4] and the tail [channel][3] turned to rows of channels. */
static VEC_LOOP void conv_taps(const f32 *restrict w, u32 count, struct conv_block *restrict b)
{
    for (u32 c = 0; c < count; c++) {
        b->tap[0][c] = w[4 * c];
        b->tap[1][c] = w[4 * c + 1];
        b->tap[2][c] = w[4 * c + 2];
        b->tap[3][c] = w[4 * c + 3];
    }
}

static VEC_LOOP void conv_narrow(const bf16 *restrict tail, u32 count,
                                 struct conv_block *restrict b)
{
    for (u32 c = 0; c < count; c++) {
        b->tail[0][c] = maths_from_bf16(tail[3 * c]);
        b->tail[1][c] = maths_from_bf16(tail[3 * c + 1]);
        b->tail[2][c] = maths_from_bf16(tail[3 * c + 2]);
    }
}

static VEC_LOOP void conv_wide(const f32 *restrict tail, u32 count, struct conv_block *restrict b)
{
    for (u32 c = 0; c < count; c++)
        for (u32 i = 0; i < CONV_TAPS - 1; i++) b->tail[i][c] = tail[3 * c + i];
}

/* The last three rows of raw values become the tail: six bytes a channel. */
static VEC_LOOP void conv_keep_narrow(const f32 *restrict r0, const f32 *restrict r1,
                                      const f32 *restrict r2, u32 count, u8 *restrict tail)
{
    u32 low[CONV_BLOCK], high[CONV_BLOCK];
    for (u32 c = 0; c < count; c++) {
        low[c] = (maths_bits(maths_round_bf16(r0[c])) >> 16) | maths_bits(maths_round_bf16(r1[c]));
        high[c] = maths_bits(maths_round_bf16(r2[c])) >> 16;
    }
    for (u32 c = 0; c < count; c++) {
        bf16 last = (bf16)high[c];
        memcpy(tail + 6ull * c, &low[c], sizeof low[c]);
        memcpy(tail + 6ull * c + 4, &last, sizeof last);
    }
}

static VEC_LOOP void conv_keep_wide(const f32 *restrict r0, const f32 *restrict r1,
                                    const f32 *restrict r2, u32 count, f32 *restrict tail)
{
    for (u32 c = 0; c < count; c++) {
        tail[3 * c] = r0[c];
        tail[3 * c + 1] = r1[c];
        tail[3 * c + 2] = r2[c];
    }
}

static void level_conv(const struct ops_conv *p, const struct ops_span *span, u32 c_lo, u32 c_hi,
                       bool reference)
{
    struct conv_block b;
    u32 count = c_hi - c_lo;
    u8 *tail = span->sections + p->tail_offset +
               (u64)c_lo * (CONV_TAPS - 1) * (reference ? sizeof(f32) : sizeof(bf16));
    ASSERT(count <= CONV_BLOCK);
    if (span->lo == span->hi) return;
    conv_taps(p->w + (u64)c_lo * CONV_TAPS, count, &b);
    if (reference) conv_wide((const f32 *)(void *)tail, count, &b);
    else conv_narrow((const bf16 *)(void *)tail, count, &b);
    const f32 *raw[CONV_TAPS] = { NULL, b.tail[0], b.tail[1], b.tail[2] };
    for (u32 r = span->lo; r < span->hi; r++) {
        for (u32 i = 0; i < CONV_TAPS - 1; i++) raw[i] = raw[i + 1];
        raw[CONV_TAPS - 1] = (const f32 *)p->raw + (u64)r * p->c + c_lo;
        f32 *y = (f32 *)p->y + (u64)r * p->c + c_lo;
        conv_row(&b, raw, y, count, reference);
    }
    if (span->hold) return;
    if (reference) conv_keep_wide(raw[1], raw[2], raw[3], count, (f32 *)(void *)tail);
    else conv_keep_narrow(raw[1], raw[2], raw[3], count, tail);
}

#endif
