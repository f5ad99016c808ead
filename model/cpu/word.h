/* model/cpu/word.h - sixteen words of 32 bits beside the lanes of vec.h: bits moved and picked,
 * bytes and codes taken out of them.
 *
 * Included where vec.h is, inside a level's target. */
#ifndef MODEL_CPU_WORD_H
#define MODEL_CPU_WORD_H

#include <string.h>

#include "model/cpu/level.h"
#include "model/cpu/vec.h"
#include "model/maths.h"

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
    u8 code[4 * LEVEL_COLUMNS];
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

#endif
