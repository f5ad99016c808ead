/* model/cpu/expand.h - tiles of a block format to BF16 tiles, for the vector levels.
 *
 * One text of avx2.c and avx512.c; the values are those of format_value (format.c).  A block's
 * scales are made f32 once a tile; a line of the BF16 tile is two terms of sixteen columns.  NaN
 * scales get one payload, so that rounding to BF16 cannot carry out of it. */
#ifndef MODEL_CPU_EXPAND_H
#define MODEL_CPU_EXPAND_H

#include <string.h>

#include "model/cpu/format.h"
#include "model/cpu/quant.h"
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
VEC_FN word16 word_and(word16 a, word16 b) { return (word16){ _mm512_and_si512(a.v, b.v) }; }
VEC_FN word16 word_or(word16 a, word16 b) { return (word16){ _mm512_or_si512(a.v, b.v) }; }
VEC_FN word16 word_add(word16 a, word16 b) { return (word16){ _mm512_add_epi32(a.v, b.v) }; }
VEC_FN vec word_f32(word16 a) { return (vec){ _mm512_cvtepi32_ps(a.v) }; }
VEC_FN word16 word_bits(vec a) { return (word16){ _mm512_castps_si512(a.v) }; }
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
VEC_FN word16 word_bits(vec a)
{
    return (word16){ _mm256_castps_si256(a.l), _mm256_castps_si256(a.h) };
}
VEC_FN vec word_e4m3(const u8 *at)
{
    f32 value[LEVEL_COLUMNS];
    for (u32 i = 0; i < LEVEL_COLUMNS; i++) value[i] = maths_from_e4m3(at[i]);
    return vec_load(value);
}
#endif

/* One block's scales: of all terms, or of its first and second half; the least of Q4_K, Q5_K. */
struct expand_head { vec scale[2], least; };

VEC_FN f32 expand_quiet(f32 x)
{
    return x != x ? maths_float(0x7fc00000u) : x;
}

static void expand_halves(const u8 *at, f32 *out)
{
    for (u32 c = 0; c < LEVEL_COLUMNS; c++) {
        u16 half;
        memcpy(&half, at + 2 * c, sizeof half);
        out[c] = expand_quiet(maths_from_f16(half));
    }
}

static void expand_head(enum ops_source format, const u8 *head, u32 part, struct expand_head *out)
{
    f32 d[LEVEL_COLUMNS], second[LEVEL_COLUMNS];
    if (format == OPS_FP8_BLOCK) {
        memcpy(d, head, sizeof *d);
        out->scale[0] = out->scale[1] = vec_all(expand_quiet(d[0]));
        return;
    }
    expand_halves(head + (format == OPS_Q6_K ? 256 : 0), d);
    if (format == OPS_Q6_K) {
        const i8 *scale = (const i8 *)head + part * 2 * LEVEL_COLUMNS;
        for (u32 c = 0; c < LEVEL_COLUMNS; c++) second[c] = d[c] * (f32)scale[LEVEL_COLUMNS + c];
        for (u32 c = 0; c < LEVEL_COLUMNS; c++) d[c] *= (f32)scale[c];
        out->scale[0] = vec_load(d);
        out->scale[1] = vec_load(second);
        return;
    }
    if (format == OPS_Q4_K || format == OPS_Q5_K) {
        expand_halves(head + 32, second);
        for (u32 c = 0; c < LEVEL_COLUMNS; c++) {
            u32 scale, least;
            quant_scale(head + 64 + c, LEVEL_COLUMNS, part, &scale, &least);
            d[c] *= (f32)scale;
            second[c] *= (f32)least;
        }
        out->least = vec_load(second);
    }
    out->scale[0] = out->scale[1] = vec_load(d);
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
    word16 code = word_right(word_load(tile + t / 8 * EXPAND_LINE), t % 8 * 4);
    code = word_and(code, word_all(15));
    if (format == OPS_Q5_K || format == OPS_Q6_K) {
        u32 at = format == OPS_Q6_K ? t % 16 * 2 : t;
        const u8 *line = tile + EXPAND_LOW + (format == OPS_Q6_K ? t / 16 * EXPAND_LINE : 0);
        word16 high = at < 4 ? word_left(word_load(line), 4 - at)
                             : word_right(word_load(line), at - 4);
        code = word_or(code, word_and(high, word_all(format == OPS_Q6_K ? 48 : 16)));
    }
    if (format == OPS_Q4_K || format == OPS_Q5_K)
        return vec_sub(vec_mul(scale, word_f32(code)), h->least);
    code = word_add(code, word_all(format == OPS_Q6_K ? -32u : -8u));
    return vec_mul(scale, word_f32(code));
}

/* Bits with the BF16 nearest to the value in their upper half. */
VEC_FN word16 expand_round(vec value)
{
    word16 bits = word_bits(value);
    word16 odd = word_and(word_right(bits, 16), word_all(1));
    return word_add(bits, word_add(odd, word_all(0x7fff)));
}

VEC_FN void expand_blocks(enum ops_source format, const struct ops_matrix *w, const u8 *strip,
                          u32 lo, u32 hi, u8 *out)
{
    for (u32 b = lo; b < hi; b++, out += LEVEL_TILE * 2) {
        struct expand_head head;
        u32 part, tile_bytes = format_rows[format].tile_bytes;
        const u8 *tile = strip + (u64)b * tile_bytes, *at = format_head(w, strip, b, &part);
        for (u32 i = 0; i < tile_bytes; i += EXPAND_LINE)
            _mm_prefetch((const char *)tile + i + EXPAND_AHEAD, _MM_HINT_T0);
        if (part == 0) _mm_prefetch((const char *)at + EXPAND_AHEAD / 16, _MM_HINT_T0);
        expand_head(format, at, part, &head);
#pragma GCC unroll 16
        for (u32 i = 0; i < LEVEL_BLOCK / 2; i++) {
            word16 even = expand_round(expand_term(format, tile, &head, 2 * i));
            word16 odd = expand_round(expand_term(format, tile, &head, 2 * i + 1));
            odd = word_and(odd, word_all(0xffff0000u));
            word_store(out + i * EXPAND_LINE, word_or(word_right(even, 16), odd));
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

static void level_expand(const struct ops_matrix *w, u32 tile, u32 lo, u32 hi, u8 *out)
{
    static void (*const of[OPS_SOURCE_COUNT])(const struct ops_matrix *, const u8 *, u32, u32,
                                              u8 *) = {
        [OPS_FP8_BLOCK] = expand_fp8, [OPS_Q8_0] = expand_q8_0, [OPS_Q4_0] = expand_q4_0,
        [OPS_Q4_K] = expand_q4_k, [OPS_Q5_K] = expand_q5_k, [OPS_Q6_K] = expand_q6_k,
    };
    of[w->format](w, w->packed + tile * format_strip_bytes(w->format, w->k), lo, hi, out);
}

#endif
