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
#include "model/maths.h"

enum { EXPAND_LINE = 64, EXPAND_LOW = 256, EXPAND_AHEAD = 24 };

#ifdef VEC_AVX512
typedef struct { __m512i v; } word16;
VEC_FN word16 word_load(const u8 *at) { return (word16){ _mm512_loadu_si512(at) }; }
VEC_FN void word_store(u8 *at, word16 a) { _mm512_storeu_si512(at, a.v); }
VEC_FN word16 word_all(u32 x) { return (word16){ _mm512_set1_epi32((int)x) }; }
VEC_FN word16 word_left(word16 a, u32 by)
{
    return (word16){ _mm512_sll_epi32(a.v, _mm_cvtsi32_si128((int)by)) };
}
VEC_FN word16 word_right(word16 a, u32 by)
{
    return (word16){ _mm512_srl_epi32(a.v, _mm_cvtsi32_si128((int)by)) };
}
VEC_FN word16 word_byte(word16 a)           /* the top byte, signed                            */
{
    return (word16){ _mm512_srai_epi32(a.v, 24) };
}
VEC_FN word16 word_bytes(const u8 *at)      /* sixteen bytes, unsigned                         */
{
    return (word16){ _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)at)) };
}
VEC_FN word16 word_and(word16 a, word16 b) { return (word16){ _mm512_and_si512(a.v, b.v) }; }
VEC_FN word16 word_or(word16 a, word16 b) { return (word16){ _mm512_or_si512(a.v, b.v) }; }
VEC_FN word16 word_add(word16 a, word16 b) { return (word16){ _mm512_add_epi32(a.v, b.v) }; }
/* b, where a is NaN: c. */
VEC_FN vec word_nan(vec a, vec b, vec c)
{
    __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    return (vec){ _mm512_mask_blend_ps(nan, b.v, c.v) };
}
VEC_FN vec word_f32(word16 a) { return (vec){ _mm512_cvtepi32_ps(a.v) }; }
VEC_FN word16 word_bits(vec a) { return (word16){ _mm512_castps_si512(a.v) }; }
VEC_FN vec word_as_f32(word16 a) { return (vec){ _mm512_castsi512_ps(a.v) }; }
/* (a and mask) or b. */
VEC_FN word16 word_pick(word16 a, word16 mask, word16 b)
{
    return (word16){ _mm512_ternarylogic_epi32(a.v, mask.v, b.v, 0xea) };
}
/* b where mask has ones, else c. */
VEC_FN word16 word_choose(word16 mask, word16 b, word16 c)
{
    return (word16){ _mm512_ternarylogic_epi32(mask.v, b.v, c.v, 0xca) };
}
/* The last four bits less `zero`; the last five. */
VEC_FN vec word_table16(word16 a, f32 zero)
{
    const __m512 table = _mm512_set_ps(
        15 - zero, 14 - zero, 13 - zero, 12 - zero, 11 - zero, 10 - zero, 9 - zero, 8 - zero,
        7 - zero, 6 - zero, 5 - zero, 4 - zero, 3 - zero, 2 - zero, 1 - zero, 0 - zero);
    return (vec){ _mm512_permutexvar_ps(a.v, table) };
}
VEC_FN vec word_table32(word16 a)
{
    const __m512 low = _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512 high = _mm512_set_ps(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17,
                                      16);
    return (vec){ _mm512_permutex2var_ps(low, a.v, high) };
}
/* Term j of a quad of e4m3 codes: those under 8 are multiples of 2^-9, in a table; 0x7f is NaN. */
VEC_FN vec word_e4m3(word16 quad, u32 j)
{
    const __m512 table = _mm512_castps256_ps512(_mm256_set_ps(
        7 * 0x1p-9f, 6 * 0x1p-9f, 5 * 0x1p-9f, 4 * 0x1p-9f, 3 * 0x1p-9f, 2 * 0x1p-9f, 0x1p-9f,
        0.0f));
    __m512i spread = _mm512_add_epi32(_mm512_set1_epi32((i32)(j * 4)),
                                      _mm512_broadcast_i32x4(_mm_set_epi32(
        (i32)0x80808003u, (i32)0x80808002u, (i32)0x80808001u, (i32)0x80808000u)));
    __m512i code = _mm512_shuffle_epi8(quad.v, spread);
    __m512i size = _mm512_and_si512(code, _mm512_set1_epi32(0x7f));
    __m512i value = _mm512_add_epi32(_mm512_slli_epi32(size, 20), _mm512_set1_epi32(120 << 23));
    __mmask16 under = _mm512_cmplt_epu32_mask(size, _mm512_set1_epi32(8));
    __mmask16 nan = _mm512_cmpeq_epi32_mask(size, _mm512_set1_epi32(0x7f));
    value = _mm512_mask_permutexvar_epi32(value, under, size, _mm512_castps_si512(table));
    value = _mm512_mask_blend_epi32(nan, value, _mm512_set1_epi32(0x7fc00000));
    __m512i sign = _mm512_slli_epi32(_mm512_xor_si512(code, size), 24);
    return (vec){ _mm512_castsi512_ps(_mm512_or_si512(value, sign)) };
}
#elif defined(__aarch64__)
typedef struct { uint32x4_t q[4]; } word16;
#define WORD_EACH(out, expression)                                                             \
    word16 out;                                                                                \
    for (u32 i_ = 0; i_ < 4; i_++) out.q[i_] = (expression)

VEC_FN word16 word_load(const u8 *at) { WORD_EACH(a, vec_words(at + 16 * i_)); return a; }
VEC_FN void word_store(u8 *at, word16 a)
{
    for (u32 i = 0; i < 4; i++) vst1q_u8(at + 16 * i, vreinterpretq_u8_u32(a.q[i]));
}
VEC_FN word16 word_all(u32 x) { WORD_EACH(a, vdupq_n_u32(x)); return a; }
VEC_FN word16 word_left(word16 a, u32 by)
{
    int32x4_t n = vdupq_n_s32((i32)by);
    WORD_EACH(b, vshlq_u32(a.q[i_], n));
    return b;
}
VEC_FN word16 word_right(word16 a, u32 by)
{
    int32x4_t n = vdupq_n_s32(-(i32)by);
    WORD_EACH(b, vshlq_u32(a.q[i_], n));
    return b;
}
VEC_FN word16 word_byte(word16 a)
{
    WORD_EACH(b, vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(a.q[i_]), 24)));
    return b;
}
VEC_FN word16 word_bytes(const u8 *at)
{
    uint8x16_t all = vld1q_u8(at);
    uint16x8_t low = vmovl_u8(vget_low_u8(all)), high = vmovl_high_u8(all);
    return (word16){ { vmovl_u16(vget_low_u16(low)), vmovl_high_u16(low),
                       vmovl_u16(vget_low_u16(high)), vmovl_high_u16(high) } };
}
VEC_FN word16 word_and(word16 a, word16 b)
{
    WORD_EACH(c, vandq_u32(a.q[i_], b.q[i_]));
    return c;
}
VEC_FN word16 word_or(word16 a, word16 b)
{
    WORD_EACH(c, vorrq_u32(a.q[i_], b.q[i_]));
    return c;
}
VEC_FN word16 word_add(word16 a, word16 b)
{
    WORD_EACH(c, vaddq_u32(a.q[i_], b.q[i_]));
    return c;
}
VEC_FN vec word_f32(word16 a)
{
    VEC_EACH(b, vcvtq_f32_s32(vreinterpretq_s32_u32(a.q[i_])));
    return b;
}
VEC_FN word16 word_pick(word16 a, word16 mask, word16 b)
{
    WORD_EACH(c, vorrq_u32(vandq_u32(a.q[i_], mask.q[i_]), b.q[i_]));
    return c;
}
VEC_FN vec word_as_f32(word16 a) { VEC_EACH(b, vreinterpretq_f32_u32(a.q[i_])); return b; }
VEC_FN word16 word_bits(vec a) { WORD_EACH(b, vreinterpretq_u32_f32(a.q[i_])); return b; }
VEC_FN vec word_nan(vec a, vec b, vec c)
{
    VEC_EACH(d, vbslq_f32(vceqq_f32(a.q[i_], a.q[i_]), b.q[i_], c.q[i_]));
    return d;
}
VEC_FN word16 word_choose(word16 mask, word16 b, word16 c)
{
    WORD_EACH(d, vbslq_u32(mask.q[i_], b.q[i_], c.q[i_]));
    return d;
}
VEC_FN vec word_e4m3(word16 quad, u32 j)
{
    u8 code[EXPAND_LINE];
    f32 out[LEVEL_COLUMNS];
    word_store(code, quad);
    for (u32 c = 0; c < LEVEL_COLUMNS; c++)
        out[c] = maths_from_e4m3(code[c / 4 * 16 + j * 4 + c % 4]);
    return vec_load(out);
}
#else
typedef struct { __m256i l, h; } word16;
VEC_FN word16 word_load(const u8 *at) { return (word16){ vec_words(at), vec_words(at + 32) }; }
VEC_FN void word_store(u8 *at, word16 a)
{
    _mm256_storeu_si256((__m256i *)(void *)at, a.l);
    _mm256_storeu_si256((__m256i *)(void *)(at + 32), a.h);
}
VEC_FN word16 word_all(u32 x)
{
    __m256i a = _mm256_set1_epi32((int)x);
    return (word16){ a, a };
}
VEC_FN word16 word_left(word16 a, u32 by)
{
    __m128i n = _mm_cvtsi32_si128((int)by);
    return (word16){ _mm256_sll_epi32(a.l, n), _mm256_sll_epi32(a.h, n) };
}
VEC_FN word16 word_right(word16 a, u32 by)
{
    __m128i n = _mm_cvtsi32_si128((int)by);
    return (word16){ _mm256_srl_epi32(a.l, n), _mm256_srl_epi32(a.h, n) };
}
VEC_FN word16 word_byte(word16 a)
{
    return (word16){ _mm256_srai_epi32(a.l, 24), _mm256_srai_epi32(a.h, 24) };
}
VEC_FN word16 word_bytes(const u8 *at)
{
    __m128i all = _mm_loadu_si128((const __m128i *)(const void *)at);
    return (word16){ _mm256_cvtepu8_epi32(all), _mm256_cvtepu8_epi32(_mm_srli_si128(all, 8)) };
}
VEC_FN word16 word_and(word16 a, word16 b)
{
    return (word16){ _mm256_and_si256(a.l, b.l), _mm256_and_si256(a.h, b.h) };
}
VEC_FN word16 word_or(word16 a, word16 b)
{
    return (word16){ _mm256_or_si256(a.l, b.l), _mm256_or_si256(a.h, b.h) };
}
VEC_FN word16 word_add(word16 a, word16 b)
{
    return (word16){ _mm256_add_epi32(a.l, b.l), _mm256_add_epi32(a.h, b.h) };
}
VEC_FN vec word_f32(word16 a)
{
    return (vec){ _mm256_cvtepi32_ps(a.l), _mm256_cvtepi32_ps(a.h) };
}
VEC_FN vec word_as_f32(word16 a)
{
    return (vec){ _mm256_castsi256_ps(a.l), _mm256_castsi256_ps(a.h) };
}
VEC_FN word16 word_pick(word16 a, word16 mask, word16 b)
{
    return (word16){ _mm256_or_si256(_mm256_and_si256(a.l, mask.l), b.l),
                     _mm256_or_si256(_mm256_and_si256(a.h, mask.h), b.h) };
}
VEC_FN word16 word_bits(vec a)
{
    return (word16){ _mm256_castps_si256(a.l), _mm256_castps_si256(a.h) };
}
VEC_FN vec word_nan(vec a, vec b, vec c)
{
    return (vec){ _mm256_blendv_ps(b.l, c.l, _mm256_cmp_ps(a.l, a.l, _CMP_UNORD_Q)),
                  _mm256_blendv_ps(b.h, c.h, _mm256_cmp_ps(a.h, a.h, _CMP_UNORD_Q)) };
}
VEC_FN word16 word_choose(word16 mask, word16 b, word16 c)
{
    return (word16){ _mm256_or_si256(_mm256_and_si256(mask.l, b.l),
                                     _mm256_andnot_si256(mask.l, c.l)),
                     _mm256_or_si256(_mm256_and_si256(mask.h, b.h),
                                     _mm256_andnot_si256(mask.h, c.h)) };
}
/* Eight codes: those under 8 are multiples of 2^-9, in a table; 0x7f is NaN. */
VEC_FN __m256 word_e4m3_half(__m256i code)
{
    const __m256 table = _mm256_set_ps(7 * 0x1p-9f, 6 * 0x1p-9f, 5 * 0x1p-9f, 4 * 0x1p-9f,
                                       3 * 0x1p-9f, 2 * 0x1p-9f, 0x1p-9f, 0.0f);
    __m256i size = _mm256_and_si256(code, _mm256_set1_epi32(0x7f));
    __m256i sign = _mm256_slli_epi32(_mm256_and_si256(code, _mm256_set1_epi32(0x80)), 24);
    __m256i normal = _mm256_add_epi32(_mm256_slli_epi32(size, 20), _mm256_set1_epi32(120 << 23));
    __m256i nan = _mm256_cmpeq_epi32(size, _mm256_set1_epi32(0x7f));
    __m256 under = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(8), size));
    __m256 value = _mm256_blendv_ps(_mm256_castsi256_ps(normal),
                                    _mm256_permutevar8x32_ps(table, size), under);
    value = _mm256_blendv_ps(value, _mm256_set1_ps(maths_float(0x7fc00000u)),
                             _mm256_castsi256_ps(nan));
    return _mm256_or_ps(value, _mm256_castsi256_ps(sign));
}
VEC_FN vec word_e4m3(word16 quad, u32 j)
{
    __m256i spread = _mm256_add_epi32(_mm256_set1_epi32((i32)(j * 4)),
                                      _mm256_broadcastsi128_si256(_mm_set_epi32(
        (i32)0x80808003u, (i32)0x80808002u, (i32)0x80808001u, (i32)0x80808000u)));
    return (vec){ word_e4m3_half(_mm256_shuffle_epi8(quad.l, spread)),
                  word_e4m3_half(_mm256_shuffle_epi8(quad.h, spread)) };
}
#endif

/* NaN to one payload. */
VEC_FN vec word_quiet(vec a) { return word_nan(a, a, vec_all(maths_float(0x7fc00000u))); }

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
