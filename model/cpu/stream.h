/* model/cpu/stream.h - order32 of a few rows with a matrix that keeps a block format.
 *
 * Each value is expanded, rounded to BF16 and multiplied with all rows in registers: no tile is
 * written.  One text of avx2.c, avx512.c, neon.c and, with AVX512_BF16's rounding, avx512bf16.c. */
#ifndef MODEL_CPU_STREAM_H
#define MODEL_CPU_STREAM_H

#include <string.h>

#include "model/cpu/expand.h"
#include "model/cpu/format.h"
#include "model/cpu/vec.h"
#include "model/maths.h"

#ifdef VEC_AVX512
enum { STREAM_ROWS = AVX512BF16_ROWS };
#else
enum { STREAM_ROWS = 2 };
#endif

/* Rows from `lo` on and the strip of tile column `tile`. */
struct stream { const struct ops_product *p; const u8 *strip; u32 lo, rows, tile; };

/* Two terms of each column to the nearest BF16, as f32. */
VEC_FN void stream_round(const vec *value, vec *near)
{
#ifdef EXPAND_NARROW
    const __m512i first = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7,
                                           0, 6, 0, 5, 0, 4, 0, 3, 0, 2, 0, 1, 0, 0, 0);
    const __m512i second = _mm512_set_epi16(31, 0, 30, 0, 29, 0, 28, 0, 27, 0, 26, 0, 25, 0, 24, 0,
                                            23, 0, 22, 0, 21, 0, 20, 0, 19, 0, 18, 0, 17, 0, 16, 0);
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(value[1].v, value[0].v);
    near[0].v = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, first, both));
    near[1].v = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, second, both));
#else
    word16 high = word_all(0xffff0000u);
    near[0] = word_as_f32(word_and(expand_nearest(word_bits(value[0])), high));
    near[1] = word_as_f32(word_and(expand_nearest(word_bits(value[1])), high));
#endif
}

/* An open block, and pairs of terms on their way: [pair % 2][even, odd], as f32 and as BF16. */
struct stream_state {
    const u8 *tile;
    struct expand_head head;
    struct expand_words words;
    vec value[2][2], near[2][2];
};

/* Terms 2 t and 2 t + 1 of the open block. */
VEC_FN void stream_value(enum ops_source format, u32 t, struct stream_state *g)
{
    u32 l = t / 4, i = t % 4 * 2;
    if (i == 0) g->words = expand_words(format, g->tile, l);
    g->value[t % 2][0] = expand_value(format, &g->words, &g->head, l, i);
    g->value[t % 2][1] = expand_value(format, &g->words, &g->head, l, i + 1);
}

/* `blocks` blocks of `rows` rows, added to s.  Values are made two steps before they are
 * multiplied, across blocks too: oldest first, the processor would otherwise hold the making of
 * values back until the rows' products are through, and then have none left. */
VEC_FN void stream_blocks(enum ops_source format, const struct stream *m, u32 blocks, u32 rows,
                          const f32 *const *x, vec *s)
{
    enum { PAIRS = LEVEL_BLOCK / 2 };
    struct stream_state g = { 0 };
    if (blocks == 0) return;
    g.tile = expand_at(format, m->p->w, m->strip, 0, &g.head);
    stream_value(format, 0, &g);
    stream_value(format, 1, &g);
    stream_round(g.value[0], g.near[0]);
    for (u32 b = 0; b < blocks; b++) {
        vec e[STREAM_ROWS], o[STREAM_ROWS];
        for (u32 r = 0; r < rows; r++) e[r] = o[r] = vec_zero();
#pragma GCC unroll 16
        for (u32 t = 0; t < PAIRS; t++) {
            if (t + 2 == PAIRS)                     /* the last block is begun again           */
                g.tile = expand_at(format, m->p->w, m->strip, MIN(b + 1, blocks - 1), &g.head);
            stream_value(format, (t + 2) % PAIRS, &g);
            stream_round(g.value[(t + 1) % 2], g.near[(t + 1) % 2]);
            for (u32 r = 0; r < rows; r++) {
                const f32 *a = x[r] + b * LEVEL_BLOCK + 2 * t;
                e[r] = vec_fma(vec_all(a[0]), g.near[t % 2][0], e[r]);
                o[r] = vec_fma(vec_all(a[1]), g.near[t % 2][1], o[r]);
            }
        }
        for (u32 r = 0; r < rows; r++) s[r] = vec_add(s[r], vec_add(e[r], o[r]));
    }
}

/* The last block of a K that is no multiple of 32: terms past it are +0 in both factors. */
static __attribute__((noinline)) void stream_last(const struct stream *m, u32 b, vec *s)
{
    _Alignas(64) u8 tile[LEVEL_TILE * 2];
    u32 k = m->p->w->k, left = k - b * LEVEL_BLOCK;
    expand_of[m->p->w->format](m->p->w, m->strip, b, b + 1, tile);
    for (u32 r = 0; r < m->rows; r++) {
        const f32 *x = (const f32 *)m->p->x + (u64)(m->lo + r) * k + b * LEVEL_BLOCK;
        vec e = vec_zero(), o = vec_zero();
        for (u32 t = 0; t < left; t++) {
            const u8 *line = tile + t / 2 * EXPAND_LINE;
            if (t % 2 == 0) e = vec_fma(vec_all(x[t]), vec_even(line), e);
            else o = vec_fma(vec_all(x[t]), vec_odd(line), o);
        }
        s[r] = vec_add(s[r], vec_add(e, o));
    }
}

/* maths_round_bf16 of sixteen sums, whose NaN are quiet. */
VEC_FN vec stream_rounded(vec s)
{
    word16 nearest = expand_nearest(word_bits(s));
    vec kept = word_nan(s, word_as_f32(nearest), s);
    return word_as_f32(word_and(word_bits(kept), word_all(0xffff0000u)));
}

VEC_FN void stream_put(const struct stream *m, const vec *s)
{
    u32 n = m->p->w->n, column = m->tile * LEVEL_COLUMNS;
    for (u32 r = 0; r < m->rows; r++) {
        f32 lane[LEVEL_COLUMNS], *y = (f32 *)m->p->y + (u64)(m->lo + r) * n + column;
        vec v = m->p->y_f32 ? s[r] : stream_rounded(s[r]);
        if (n - column >= LEVEL_COLUMNS) {
            vec_store(y, v);
            continue;
        }
        vec_store(lane, v);
        memcpy(y, lane, (n - column) * sizeof *lane);
    }
}

/* A strip; `rows` is a constant that is not under m->rows. */
VEC_FN void stream_strip(enum ops_source format, const struct stream *m, u32 rows)
{
    u32 k = m->p->w->k, blocks = k / LEVEL_BLOCK;
    const f32 *x[STREAM_ROWS];
    vec s[STREAM_ROWS];
    for (u32 r = 0; r < rows; r++) {
        x[r] = (const f32 *)m->p->x + (u64)(m->lo + MIN(r, m->rows - 1)) * k;
        s[r] = vec_zero();
    }
    stream_blocks(format, m, blocks, rows, x, s);
    if (k % LEVEL_BLOCK > 0) stream_last(m, blocks, s);
    stream_put(m, s);
}

#define STREAM_CASE(name, format, rows)                                                        \
    static __attribute__((noinline)) void stream_##name##_##rows(const struct stream *m)       \
    {                                                                                          \
        stream_strip(format, m, rows);                                                         \
    }
#ifdef VEC_AVX512
#define STREAM_CASES(name, format)                                                             \
    STREAM_CASE(name, format, 1) STREAM_CASE(name, format, 2) STREAM_CASE(name, format, 4)     \
    STREAM_CASE(name, format, 6) STREAM_CASE(name, format, 8)
#define STREAM_OF(name)                                                                        \
    { stream_##name##_1, stream_##name##_2, stream_##name##_4, stream_##name##_4,              \
      stream_##name##_6, stream_##name##_6, stream_##name##_8, stream_##name##_8 }
#else
#define STREAM_CASES(name, format) STREAM_CASE(name, format, 1) STREAM_CASE(name, format, 2)
#define STREAM_OF(name) { stream_##name##_1, stream_##name##_2 }
#endif
STREAM_CASES(fp8, OPS_FP8_BLOCK) STREAM_CASES(q8_0, OPS_Q8_0) STREAM_CASES(q4_0, OPS_Q4_0)
STREAM_CASES(q4_k, OPS_Q4_K) STREAM_CASES(q5_k, OPS_Q5_K) STREAM_CASES(q6_k, OPS_Q6_K)

/* Columns of tiles [tile_lo, tile_hi) of rows [lo, hi), at most STREAM_ROWS. */
static void level_stream(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi)
{
    static void (*const of[OPS_SOURCE_COUNT][STREAM_ROWS])(const struct stream *) = {
        [OPS_FP8_BLOCK] = STREAM_OF(fp8), [OPS_Q8_0] = STREAM_OF(q8_0),
        [OPS_Q4_0] = STREAM_OF(q4_0), [OPS_Q4_K] = STREAM_OF(q4_k), [OPS_Q5_K] = STREAM_OF(q5_k),
        [OPS_Q6_K] = STREAM_OF(q6_k),
    };
#if defined(VEC_AVX512) && !defined(EXPAND_NARROW)
    if (avx512bf16_here()) {
        avx512bf16_stream(p, lo, hi, tile_lo, tile_hi);
        return;
    }
#endif
    u64 strip_bytes = format_strip_bytes(p->w->format, p->w->k);
    struct stream m = { .p = p, .lo = lo, .rows = hi - lo };
    for (m.tile = tile_lo; m.tile < tile_hi; m.tile++) {
        m.strip = p->w->packed + m.tile * strip_bytes;
        of[p->w->format][m.rows - 1](&m);
    }
}

#endif
