/* model/cpu/expand.h - tiles of a block format to BF16 tiles, for the vector levels.
 *
 * One text of avx2.c, avx512.c and, with AVX512_BF16's rounding, avx512bf16.c (EXPAND_NARROW); the
 * values are those of format_value (format.c).  A block's scales are made f32 once a tile; a line
 * of the BF16 tile is two terms of sixteen columns.  NaN scales get one payload, so that rounding
 * to BF16 cannot carry out of it. */
#ifndef MODEL_CPU_EXPAND_H
#define MODEL_CPU_EXPAND_H

#include <string.h>

#include "model/cpu/avx512bf16.h"
#include "model/cpu/format.h"
#include "model/cpu/vec.h"
#include "model/cpu/word.h"
#include "model/maths.h"

enum { EXPAND_LINE = 64, EXPAND_LOW = 256, EXPAND_AHEAD = 24 };

/* To the nearest BF16, as f32, but for NaN: the low half stays to be cleared. */
VEC_FN word16 expand_nearest(word16 a)
{
    return word_add(a, word_add(word_and(word_right(a, 16), word_all(1)), word_all(0x7fff)));
}

/* One block's scales: of all terms, or of its first and second half; the least of Q4_K, Q5_K.
 * d and dmin are those of the head at `at`, which several blocks share. */
struct expand_head { const u8 *at; vec d, dmin, scale[2], least; };

/* Scale and minimum of group g of Q4_K and Q5_K: quant_scale, sixteen columns at once. */
VEC_FN void expand_scales(const u8 *s, u32 g, vec *scale, vec *least)
{
    word16 a = word_bytes(s + g % 4 * LEVEL_COLUMNS);
    word16 b = word_bytes(s + (g % 4 + 4) * LEVEL_COLUMNS);
    if (g < 4) {
        *scale = word_f32(word_and(a, word_all(63)));
        *least = word_f32(word_and(b, word_all(63)));
        return;
    }
    word16 low = word_bytes(s + (g % 4 + 8) * LEVEL_COLUMNS);
    a = word_left(word_right(a, 6), 4);
    b = word_left(word_right(b, 6), 4);
    *scale = word_f32(word_or(word_and(low, word_all(15)), a));
    *least = word_f32(word_or(word_right(low, 4), b));
}

/* The scales of block `part` of the head at `at`; h holds those of a block before, or none. */
VEC_FN void expand_head(enum ops_source format, const u8 *at, u32 part, struct expand_head *h)
{
    bool minimum = format == OPS_Q4_K || format == OPS_Q5_K;
    vec scale, least;
    if (at != h->at) {
        h->at = at;
        if (format == OPS_FP8_BLOCK) {
            f32 edge;
            memcpy(&edge, at, sizeof edge);
            h->d = word_quiet(vec_all(edge));
        } else {
            h->d = word_quiet(vec_halves(at + (format == OPS_Q6_K ? 256 : 0)));
        }
        if (minimum) h->dmin = word_quiet(vec_halves(at + 32));
    }
    if (format == OPS_Q6_K) {
        for (u32 i = 0; i < 2; i++) {
            word16 bytes = word_bytes(at + (part * 2 + i) * LEVEL_COLUMNS);
            h->scale[i] = vec_mul(h->d, word_f32(word_byte(word_left(bytes, 24))));
        }
    } else if (minimum) {
        expand_scales(at + 64, part, &scale, &least);
        h->scale[0] = h->scale[1] = vec_mul(h->d, scale);
        h->least = vec_mul(h->dmin, least);
    } else {
        h->scale[0] = h->scale[1] = h->d;
    }
}

#ifdef EXPAND_NARROW
#define EXPAND_E4M3(m)                                                                         \
    ((m) == 127 ? 0x7fc0 : (m) >= 8 ? ((m) << 4) + 0x3c00 : (m) >= 4 ? ((m) << 5) + 0x3b80 :    \
     (m) >= 2 ? ((m) << 6) + 0x3b00 : (m) * 0x3b00)
#define EXPAND_8(m, shift)                                                                     \
    (u8)(EXPAND_E4M3(m) >> shift), (u8)(EXPAND_E4M3(m + 1) >> shift),                          \
    (u8)(EXPAND_E4M3(m + 2) >> shift), (u8)(EXPAND_E4M3(m + 3) >> shift),                      \
    (u8)(EXPAND_E4M3(m + 4) >> shift), (u8)(EXPAND_E4M3(m + 5) >> shift),                      \
    (u8)(EXPAND_E4M3(m + 6) >> shift), (u8)(EXPAND_E4M3(m + 7) >> shift)
#define EXPAND_128(shift)                                                                      \
    { EXPAND_8(0, shift), EXPAND_8(8, shift), EXPAND_8(16, shift), EXPAND_8(24, shift),        \
      EXPAND_8(32, shift), EXPAND_8(40, shift), EXPAND_8(48, shift), EXPAND_8(56, shift),      \
      EXPAND_8(64, shift), EXPAND_8(72, shift), EXPAND_8(80, shift), EXPAND_8(88, shift),      \
      EXPAND_8(96, shift), EXPAND_8(104, shift), EXPAND_8(112, shift), EXPAND_8(120, shift) }

/* Two quads of e4m3 codes to the BF16 of the same numbers, two terms a register. */
VEC_FN void expand_e4m3(word16 at[4])
{
    static const u8 high[128] = EXPAND_128(8), low[128] = EXPAND_128(0);
    __m512i high0 = _mm512_loadu_si512(high), high1 = _mm512_loadu_si512(high + 64);
    __m512i low0 = _mm512_loadu_si512(low), low1 = _mm512_loadu_si512(low + 64);
    __m512i sign = _mm512_set1_epi8((char)0x80), quad[2] = { at[0].v, at[1].v };
    for (u32 i = 0; i < 2; i++) {
        __m512i h = _mm512_permutex2var_epi8(high0, quad[i], high1);
        __m512i l = _mm512_permutex2var_epi8(low0, quad[i], low1);
        h = _mm512_ternarylogic_epi32(quad[i], sign, h, 0xea);
        at[2 * i] = (word16){ _mm512_unpacklo_epi8(l, h) };
        at[2 * i + 1] = (word16){ _mm512_unpackhi_epi8(l, h) };
    }
}

/* The first or second term of such a register in f32. */
VEC_FN vec expand_widen(word16 terms, u32 i)
{
    __m512i zero = _mm512_setzero_si512();
    return (vec){ _mm512_castsi512_ps(i ? _mm512_unpackhi_epi16(zero, terms.v)
                                        : _mm512_unpacklo_epi16(zero, terms.v)) };
}
#endif

/* What terms 8 l to 8 l + 7 of sixteen columns are made of.  4 to 6 bits: words whose four bytes
 * begin with the codes of terms 0 to 3, then of 4 to 7.  Q8_0 and FP8: two quads; with byte
 * permutes, FP8 as BF16. */
struct expand_words { word16 at[4]; };

VEC_FN struct expand_words expand_words(enum ops_source format, const u8 *tile, u32 l)
{
    struct expand_words w;
    if (format == OPS_FP8_BLOCK || format == OPS_Q8_0) {
        w.at[0] = w.at[2] = word_load(tile + 2 * l * EXPAND_LINE);
        w.at[1] = w.at[3] = word_load(tile + (2 * l + 1) * EXPAND_LINE);
#ifdef EXPAND_NARROW
        if (format == OPS_FP8_BLOCK) expand_e4m3(w.at);
#endif
        return w;
    }
    w.at[0] = w.at[2] = word_load(tile + l * EXPAND_LINE);
    w.at[1] = w.at[3] = word_right(w.at[0], 4);
    if (format == OPS_Q5_K || format == OPS_Q6_K) {
        u32 width = format == OPS_Q6_K ? 2 : 1, each = 4 / width;   /* lines of codes a word   */
        word16 high = word_load(tile + EXPAND_LOW + l / each * EXPAND_LINE);
        word16 mask = word_all(width == 2 ? 0x30303030u : 0x10101010u);
        for (u32 i = 0; i < 2; i++) {
            u32 bit = format_high_bit(8 * l + 4 * i, width);
            w.at[i] = word_choose(mask, bit < 4 ? word_left(high, 4 - bit)
                                                : word_right(high, bit - 4), w.at[i]);
        }
    }
    return w;
}

/* The number that code i of eight stands for, before its scale; format and i are constants.  By
 * table, or as the last bits of a power of two, taken off again. */
VEC_FN vec expand_code(enum ops_source format, const struct expand_words *w, u32 i)
{
    f32 zero = format == OPS_Q4_0 ? 8.0f : format == OPS_Q6_K ? 32.0f : 0.0f;
#ifdef VEC_AVX512
    if (format == OPS_Q5_K) return word_table32(word_right(w->at[i / 4], i % 4 * 8));
    if (format != OPS_Q6_K) return word_table16(word_right(w->at[0], format_low_bit(i)), zero);
#endif
    u32 place = i % 2 * 8, power = (150 - place) << 23;
    u32 mask = format == OPS_Q6_K ? 63 : format == OPS_Q5_K ? 31 : 15;
    word16 code = i % 4 < 2 ? w->at[i / 4] : word_right(w->at[i / 4], 16);
    code = word_pick(code, word_all(mask << place), word_all(power));
    return vec_sub(word_as_f32(code), vec_all(maths_float(power) + zero));
}

/* Term 8 l + i of sixteen columns in f32, before it is rounded.  With a least, the product is
 * exact: 22 bits at most. */
VEC_FN vec expand_value(enum ops_source format, const struct expand_words *w,
                        const struct expand_head *h, u32 l, u32 i)
{
    vec scale = h->scale[l / 2];
    if (format == OPS_FP8_BLOCK) {
#ifdef EXPAND_NARROW
        return vec_mul(expand_widen(w->at[i / 2], i % 2), scale);
#else
        return vec_mul(word_e4m3(w->at[i / 4], i % 4), scale);
#endif
    }
    if (format == OPS_Q8_0)
        return vec_mul(scale, word_f32(word_byte(word_left(w->at[i / 4], 24 - i % 4 * 8))));
    vec code = expand_code(format, w, i);
    return format == OPS_Q4_K || format == OPS_Q5_K ? vec_fms(scale, code, h->least)
                                                    : vec_mul(scale, code);
}

/* The BF16 nearest to two terms of each column, as a line. */
VEC_FN word16 expand_line(vec even, vec odd)
{
#ifdef EXPAND_NARROW
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
                                           24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
                                           16, 0);
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd.v, even.v);
    return (word16){ _mm512_permutexvar_epi16(order, both) };
#else
    word16 a = expand_nearest(word_bits(even)), b = expand_nearest(word_bits(odd));
    return word_or(word_right(a, 16), word_and(b, word_all(0xffff0000u)));
#endif
}

/* A block's codes and scales; asks for codes a little ahead, past the strip's heads if need be, and
 * for the next strip's scales. */
VEC_FN const u8 *expand_at(enum ops_source format, const struct ops_matrix *w, const u8 *strip,
                           u32 b, struct expand_head *h)
{
    const struct format_row *f = &format_rows[format];
    u32 part, blocks = (w->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK;
    u64 strip_bytes = format_strip_bytes(format, w->k);
    u32 far = b + EXPAND_AHEAD;
    const u8 *at = format_head_as(format, w, strip, b, &part);
    const u8 *ahead = strip + (u64)far * f->tile_bytes;
    if (far >= blocks) ahead += strip_bytes - (u64)blocks * f->tile_bytes;
    for (u32 i = 0; i < f->tile_bytes; i += EXPAND_LINE) __builtin_prefetch(ahead + i);
    if (part == 0)
        for (u32 i = 0; i < f->head_bytes; i += EXPAND_LINE)
            __builtin_prefetch(at + strip_bytes + i);
    expand_head(format, at, part, h);
    return strip + (u64)b * f->tile_bytes;
}

VEC_FN void expand_blocks(enum ops_source format, const struct ops_matrix *w, const u8 *strip,
                          u32 lo, u32 hi, u8 *out)
{
    struct expand_head head = { 0 };
    for (u32 b = lo; b < hi; b++) {
        const u8 *tile = expand_at(format, w, strip, b, &head);
#pragma GCC unroll 4
        for (u32 l = 0; l < LEVEL_BLOCK / 8; l++) {
            struct expand_words words = expand_words(format, tile, l);
#pragma GCC unroll 4
            for (u32 i = 0; i < 8; i += 2, out += EXPAND_LINE)
                word_store(out, expand_line(expand_value(format, &words, &head, l, i),
                                            expand_value(format, &words, &head, l, i + 1)));
        }
    }
}

#define EXPAND_CASE(name, format)                                                              \
    static __attribute__((noinline)) void expand_##name(const struct ops_matrix *w,            \
        const u8 *strip, u32 lo, u32 hi, u8 *out)                                              \
    {                                                                                          \
        expand_blocks(format, w, strip, lo, hi, out);                                          \
    }
EXPAND_CASE(fp8, OPS_FP8_BLOCK) EXPAND_CASE(q8_0, OPS_Q8_0) EXPAND_CASE(q4_0, OPS_Q4_0)
EXPAND_CASE(q4_k, OPS_Q4_K) EXPAND_CASE(q5_k, OPS_Q5_K) EXPAND_CASE(q6_k, OPS_Q6_K)

static void (*const expand_of[OPS_SOURCE_COUNT])(const struct ops_matrix *, const u8 *, u32, u32,
                                                 u8 *) = {
    [OPS_FP8_BLOCK] = expand_fp8, [OPS_Q8_0] = expand_q8_0, [OPS_Q4_0] = expand_q4_0,
    [OPS_Q4_K] = expand_q4_k, [OPS_Q5_K] = expand_q5_k, [OPS_Q6_K] = expand_q6_k,
};

static void level_expand(const struct ops_matrix *w, u32 tile, u32 lo, u32 hi, u8 *out)
{
#if defined(VEC_AVX512) && !defined(EXPAND_NARROW)
    if (avx512bf16_here()) {
        avx512bf16_expand(w, tile, lo, hi, out);
        return;
    }
#endif
    const u8 *strip = w->packed + tile * format_strip_bytes(w->format, w->k);
    expand_of[w->format](w, strip, lo, hi, out);
}

#endif
