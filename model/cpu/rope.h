/* model/cpu/rope.h - split, norm and turn of queries and keys, rows of K and V stored.
 *
 * One text of avx2.c and avx512.c.  A row's cosines and sines are made once for all its heads. */
#ifndef MODEL_CPU_ROPE_H
#define MODEL_CPU_ROPE_H

#include <string.h>

#include "model/cpu/level.h"
#include "model/cpu/norm.h"

enum { ROPE_DIM_CAP = 1024 };

struct rope_angles { f32 cos[ROPE_DIM_CAP / 2], sin[ROPE_DIM_CAP / 2]; };

static VEC_LOOP void rope_angles_at(struct rope_angles *restrict a, const f32 *restrict inv_freq,
                                    u32 half, u64 pos)
{
    for (u32 i = 0; i < half; i++) {
        f32 angle = (f32)pos * inv_freq[i];
        a->cos[i] = maths_cos(angle);
        a->sin[i] = maths_sin(angle);
    }
}

VEC_FN void rope_pairs(f32 *restrict low, f32 *restrict high, const struct rope_angles *restrict a,
                       u32 half, bool reference)
{
    for (u32 i = 0; i < half; i++) {
        f32 x = low[i], y = high[i];
        low[i] = norm_rounded(HF_FMA(x, a->cos[i], -(y * a->sin[i])), reference);
        high[i] = norm_rounded(HF_FMA(y, a->cos[i], x * a->sin[i]), reference);
    }
}

static VEC_LOOP void rope_turn(f32 *restrict low, f32 *restrict high,
                               const struct rope_angles *restrict a, u32 half, bool reference)
{
    if (reference) rope_pairs(low, high, a, half, true);
    else rope_pairs(low, high, a, half, false);
}

static VEC_LOOP void rope_store(u8 *restrict row, const f32 *restrict x, u32 n, bool reference)
{
    if (reference) {
        memcpy(row, x, n * sizeof(f32));
        return;
    }
    bf16 *restrict narrow = (bf16 *)(void *)row;
    for (u32 i = 0; i < n; i++) narrow[i] = (bf16)(maths_bits(maths_round_bf16(x[i])) >> 16);
}

VEC_FN u8 *rope_row(const struct ops_span *span, struct ops_strip strip, u32 block_rows, u64 pos)
{
    return span->block_addr[pos / block_rows] + strip.offset_bytes +
           pos % block_rows * strip.row_bytes;
}

static void level_attn_rows(const struct ops_attn_rows *p, const struct ops_span *span, u32 lo,
                            u32 hi, bool reference)
{
    u32 d = p->d, half = p->rot / 2, value_bytes = reference ? sizeof(f32) : sizeof(bf16);
    struct rope_angles angles;
    f32 head[ROPE_DIM_CAP];
    ASSERT(d <= ROPE_DIM_CAP);
    for (u32 r = lo; r < hi; r++) {
        u64 pos = span->pos + (r - span->lo);
        u8 *k_row = rope_row(span, p->k_strip, p->block_rows, pos);
        u8 *v_row = rope_row(span, p->v_strip, p->block_rows, pos);
        rope_angles_at(&angles, p->inv_freq, half, pos - p->back);
        rope_store(v_row, (const f32 *)p->v + (u64)r * p->nkv * d, p->nkv * d, reference);
        for (u32 h = 0; h < p->nkv; h++) {
            const f32 *k = (const f32 *)p->k + ((u64)r * p->nkv + h) * d;
            norm_row(k, p->k_scale, head, d, p->eps, reference);
            rope_turn(head, head + half, &angles, half, reference);
            rope_store(k_row + (u64)h * d * value_bytes, head, d, reference);
        }
        for (u32 h = 0; h < p->nh; h++) {
            u64 at = (u64)r * p->nh + h;
            f32 *q = (f32 *)p->q_out + at * d;
            norm_row((const f32 *)p->qg + at * 2 * d, p->q_scale, q, d, p->eps, reference);
            rope_turn(q, q + half, &angles, half, reference);
        }
    }
}

#endif
