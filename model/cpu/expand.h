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

enum { EXPAND_LINE = 64, EXPAND_LOW = 256, EXPAND_AHEAD = 4096 };

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
VEC_FN vec word_halves(const u8 *at)        /* sixteen IEEE halves                             */
{
    return (vec){ _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at)) };
}
/* NaN to one payload. */
VEC_FN vec word_quiet(vec a)
{
    __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    return (vec){ _mm512_mask_blend_ps(nan, a.v, _mm512_set1_ps(maths_float(0x7fc00000u))) };
}
VEC_FN vec word_f32(word16 a) { return (vec){ _mm512_cvtepi32_ps(a.v) }; }
VEC_FN word16 word_bits(vec a) { return (word16){ _mm512_castps_si512(a.v) }; }
VEC_FN vec word_as_f32(word16 a) { return (vec){ _mm512_castsi512_ps(a.v) }; }
/* (a and mask) or b. */
VEC_FN word16 word_pick(word16 a, word16 mask, word16 b)
{
    return (word16){ _mm512_ternarylogic_epi32(a.v, mask.v, b.v, 0xea) };
}
/* Sixteen e4m3 codes: those of IEEE half with another bias, subnormals and all; 0x7f is NaN. */
VEC_FN vec word_e4m3(const u8 *at)
{
    __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)at));
    __m256i magnitude = _mm256_and_si256(_mm256_slli_epi16(a, 7), _mm256_set1_epi16(0x3f80));
    __m256i sign = _mm256_and_si256(_mm256_slli_epi16(a, 8), _mm256_set1_epi16((i16)0x8000));
    __mmask16 nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x3f80));
    __m512 value = _mm512_mul_ps(_mm512_cvtph_ps(_mm256_or_si256(magnitude, sign)),
                                 _mm512_set1_ps(256.0f));
    return (vec){ _mm512_mask_blend_ps(nan, value, _mm512_set1_ps(maths_float(0x7fc00000u))) };
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
VEC_FN vec word_quiet(vec a)
{
    float32x4_t nan = vdupq_n_f32(maths_float(0x7fc00000u));
    VEC_EACH(b, vbslq_f32(vceqq_f32(a.q[i_], a.q[i_]), a.q[i_], nan));
    return b;
}
VEC_FN vec word_e4m3(const u8 *at)
{
    f32 out[LEVEL_COLUMNS];
    for (u32 c = 0; c < LEVEL_COLUMNS; c++) out[c] = maths_from_e4m3(at[c]);
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
VEC_FN vec word_quiet(vec a)
{
    __m256 nan = _mm256_set1_ps(maths_float(0x7fc00000u));
    return (vec){ _mm256_blendv_ps(a.l, nan, _mm256_cmp_ps(a.l, a.l, _CMP_UNORD_Q)),
                  _mm256_blendv_ps(a.h, nan, _mm256_cmp_ps(a.h, a.h, _CMP_UNORD_Q)) };
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
VEC_FN vec word_e4m3(const u8 *at)
{
    word16 code = word_bytes(at);
    return (vec){ word_e4m3_half(code.l), word_e4m3_half(code.h) };
}
#endif

#ifndef VEC_AVX512
VEC_FN vec word_halves(const u8 *at)
{
    f32 out[LEVEL_COLUMNS];
    for (u32 c = 0; c < LEVEL_COLUMNS; c++) {
        u16 half;
        memcpy(&half, at + 2 * c, sizeof half);
        out[c] = maths_from_f16(half);
    }
    return vec_load(out);
}
#endif

/* One block's scales: of all terms, or of its first and second half; the least of Q4_K, Q5_K. */
struct expand_head { vec scale[2], least; };

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

VEC_FN struct expand_head expand_head(enum ops_source format, const u8 *head, u32 part)
{
    struct expand_head h;
    vec scale, least;
    if (format == OPS_FP8_BLOCK) {
        f32 edge;
        memcpy(&edge, head, sizeof edge);
        h.scale[0] = h.scale[1] = h.least = word_quiet(vec_all(edge));
        return h;
    }
    vec d = word_quiet(word_halves(head + (format == OPS_Q6_K ? 256 : 0)));
    h.scale[0] = h.scale[1] = h.least = d;
    if (format == OPS_Q6_K)
        for (u32 i = 0; i < 2; i++) {
            word16 bytes = word_bytes(head + (part * 2 + i) * LEVEL_COLUMNS);
            h.scale[i] = vec_mul(d, word_f32(word_byte(word_left(bytes, 24))));
        }
    if (format == OPS_Q4_K || format == OPS_Q5_K) {
        expand_scales(head + 64, part, &scale, &least);
        h.scale[0] = h.scale[1] = vec_mul(d, scale);
        h.least = vec_mul(word_quiet(word_halves(head + 32)), least);
    }
    return h;
}

/* The number that a code of 4, 5 or 6 bits stands for, before its scale: the code in the last bits
 * of 2^23, taken off again. */
VEC_FN vec expand_code(enum ops_source format, const u8 *tile, u32 t)
{
    f32 zero = 0x1p23f + (format == OPS_Q4_0 ? 8.0f : format == OPS_Q6_K ? 32.0f : 0.0f);
    u32 width = format == OPS_Q6_K ? 2 : format == OPS_Q5_K ? 1 : 0, at = format_high_bit(t, width);
    word16 low = word_right(word_load(tile + t / 8 * EXPAND_LINE), format_low_bit(t));
    word16 code = word_pick(low, word_all(15), word_all(0x4b000000u));
    if (width > 0) {
        word16 high = word_load(tile + EXPAND_LOW + t * width / LEVEL_BLOCK * EXPAND_LINE);
        high = at < 4 ? word_left(high, 4 - at) : word_right(high, at - 4);
        code = word_pick(high, word_all(width == 2 ? 48 : 16), code);
    }
    return vec_sub(word_as_f32(code), vec_all(zero));
}

/* Term t of sixteen columns in f32, before it is rounded; format and t are constants. */
VEC_FN vec expand_term(enum ops_source format, const u8 *tile, const struct expand_head *h, u32 t)
{
    vec scale = h->scale[t / 16];
    if (format == OPS_FP8_BLOCK) return vec_mul(word_e4m3(tile + t * LEVEL_COLUMNS), scale);
    if (format == OPS_Q8_0) {
        word16 quad = word_load(tile + t / 4 * EXPAND_LINE);
        return vec_mul(scale, word_f32(word_byte(word_left(quad, 24 - t % 4 * 8))));
    }
    vec value = vec_mul(scale, expand_code(format, tile, t));
    return format == OPS_Q4_K || format == OPS_Q5_K ? vec_sub(value, h->least) : value;
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
    word16 a = word_bits(even), b = word_bits(odd), one = word_all(1), half = word_all(0x7fff);
    a = word_add(a, word_add(word_and(word_right(a, 16), one), half));
    b = word_add(b, word_add(word_and(word_right(b, 16), one), half));
    return word_or(word_right(a, 16), word_and(b, word_all(0xffff0000u)));
#endif
}

VEC_FN void expand_blocks(enum ops_source format, const struct ops_matrix *w, const u8 *strip,
                          u32 lo, u32 hi, u8 *out)
{
    for (u32 b = lo; b < hi; b++, out += LEVEL_TILE * 2) {
        u32 part, tile_bytes = format_rows[format].tile_bytes;
        const u8 *tile = strip + (u64)b * tile_bytes, *at = format_head(w, strip, b, &part);
        for (u32 i = 0; i < tile_bytes; i += EXPAND_LINE)
            __builtin_prefetch(tile + i + EXPAND_AHEAD);
        if (part == 0)
            for (u32 i = 0; i < format_rows[format].head_bytes; i += EXPAND_LINE)
                __builtin_prefetch(at + i + EXPAND_AHEAD / 8);
        struct expand_head head = expand_head(format, at, part);
#pragma GCC unroll 16
        for (u32 i = 0; i < LEVEL_BLOCK / 2; i++)
            word_store(out + i * EXPAND_LINE, expand_line(expand_term(format, tile, &head, 2 * i),
                                                          expand_term(format, tile, &head,
                                                                      2 * i + 1)));
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

static void level_expand(const struct ops_matrix *w, u32 tile, u32 lo, u32 hi, u8 *out)
{
#if defined(VEC_AVX512) && !defined(EXPAND_NARROW)
    if (__builtin_cpu_supports("avx512bf16")) {
        avx512bf16_expand(w, tile, lo, hi, out);
        return;
    }
#endif
    static void (*const of[OPS_SOURCE_COUNT])(const struct ops_matrix *, const u8 *, u32, u32,
                                              u8 *) = {
        [OPS_FP8_BLOCK] = expand_fp8, [OPS_Q8_0] = expand_q8_0, [OPS_Q4_0] = expand_q4_0,
        [OPS_Q4_K] = expand_q4_k, [OPS_Q5_K] = expand_q5_k, [OPS_Q6_K] = expand_q6_k,
    };
    of[w->format](w, w->packed + tile * format_strip_bytes(w->format, w->k), lo, hi, out);
}

#endif
