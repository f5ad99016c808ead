/* model/cpu/vec.h - sixteen f32 lanes of the level being compiled, and the product's block sizes.
 *
 * Included by avx512.c and amx.c (VEC_AVX512: one register), avx2.c (two registers) and neon.c
 * (four), inside their target.  A word here is one IEEE operation a lane, or moves bits: nothing
 * that could round otherwise on another level. */
#ifndef MODEL_CPU_VEC_H
#define MODEL_CPU_VEC_H

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include "arena/base/base.h"
#include "model/maths.h"

#define VEC_FN static inline __attribute__((always_inline, unused))
/* A loop the compiler turns into lanes: its restrict parameters are lost where it is inlined. */
#define VEC_LOOP __attribute__((noinline))

#ifdef VEC_AVX512
/* Rows x tiles of the product kernel: 6 x 2 x (even, odd) = 24 chains of 32 registers.  Up to
 * VEC_STREAM_ROWS rows, one tile wide, read weights from memory once. */
enum { VEC_ROWS = 6, VEC_TILES = 2, VEC_CHAINS = VEC_ROWS * VEC_TILES, VEC_STREAM_ROWS = 10 };

typedef struct { __m512 v; } vec;

VEC_FN vec vec_load(const f32 *at) { return (vec){ _mm512_loadu_ps(at) }; }
VEC_FN void vec_store(f32 *at, vec a) { _mm512_storeu_ps(at, a.v); }
VEC_FN vec vec_all(f32 x) { return (vec){ _mm512_set1_ps(x) }; }
VEC_FN vec vec_fma(vec a, vec b, vec c) { return (vec){ _mm512_fmadd_ps(a.v, b.v, c.v) }; }
/* a b - c, fused. */
VEC_FN vec vec_fms(vec a, vec b, vec c) { return (vec){ _mm512_fmsub_ps(a.v, b.v, c.v) }; }
VEC_FN vec vec_add(vec a, vec b) { return (vec){ _mm512_add_ps(a.v, b.v) }; }
VEC_FN vec vec_mul(vec a, vec b) { return (vec){ _mm512_mul_ps(a.v, b.v) }; }
VEC_FN vec vec_sub(vec a, vec b) { return (vec){ _mm512_sub_ps(a.v, b.v) }; }
VEC_FN vec vec_max(vec a, vec b) { return (vec){ _mm512_max_ps(a.v, b.v) }; }
/* Columns' terms 2i (low halves) and 2i + 1 (high halves) of a packed BF16 line. */
VEC_FN vec vec_even(const u8 *line)
{
    return (vec){ _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(line), 16)) };
}
VEC_FN vec vec_odd(const u8 *line)
{
    __m512i high = _mm512_set1_epi32((int)0xffff0000u);
    return (vec){ _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(line), high)) };
}
/* Sixteen IEEE halves. */
VEC_FN vec vec_halves(const u8 *at)
{
    return (vec){ _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at)) };
}
/* Sixteen BF16 values. */
VEC_FN vec vec_narrow(const u8 *at)
{
    __m512i a = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)at));
    return (vec){ _mm512_castsi512_ps(_mm512_slli_epi32(a, 16)) };
}
/* out[i][j] = in[j][i]: 16 rows of 16 words, `stride` bytes apart, to 16 lines of 64 bytes. */
VEC_FN void vec_transpose(const u8 *in, u64 stride, u8 *out)
{
    __m512i a[16], b[16];
    for (u32 i = 0; i < 16; i++) a[i] = _mm512_loadu_si512(in + i * stride);
    for (u32 i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (u32 i = 0; i < 16; i += 4)
        for (u32 h = 0; h < 2; h++) {
            a[i + 2 * h] = _mm512_unpacklo_epi64(b[i + h], b[i + 2 + h]);
            a[i + 2 * h + 1] = _mm512_unpackhi_epi64(b[i + h], b[i + 2 + h]);
        }
    for (u32 i = 0; i < 4; i++) {           /* column 4 q + i of quarter rows q                */
        b[i] = _mm512_shuffle_i32x4(a[i], a[i + 4], 0x88);
        b[i + 4] = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0x88);
        b[i + 8] = _mm512_shuffle_i32x4(a[i], a[i + 4], 0xdd);
        b[i + 12] = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0xdd);
    }
    for (u32 i = 0; i < 4; i++) {
        _mm512_storeu_si512(out + (i + 0) * 64, _mm512_shuffle_i32x4(b[i], b[i + 4], 0x88));
        _mm512_storeu_si512(out + (i + 8) * 64, _mm512_shuffle_i32x4(b[i], b[i + 4], 0xdd));
        _mm512_storeu_si512(out + (i + 4) * 64, _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0x88));
        _mm512_storeu_si512(out + (i + 12) * 64, _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0xdd));
    }
}
/* A line of 16 columns from two rows of BF16: low halves of `low`, high halves of `high`. */
VEC_FN void vec_pair(const u8 *low, const u8 *high, u8 *line)
{
    __m512i a = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)low));
    __m512i b = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)high));
    _mm512_storeu_si512(line, _mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
}

#elif defined(__aarch64__)
/* 2 rows x 1 tile x (even, odd) = 16 of 32 registers; weights take 8. */
enum { VEC_ROWS = 2, VEC_TILES = 1, VEC_CHAINS = 2, VEC_STREAM_ROWS = 2 };

typedef struct { float32x4_t q[4]; } vec;

/* One operation of each of the four registers. */
#define VEC_EACH(out, expression)                                                              \
    vec out;                                                                                   \
    for (u32 i_ = 0; i_ < 4; i_++) out.q[i_] = (expression)

VEC_FN vec vec_load(const f32 *at) { VEC_EACH(a, vld1q_f32(at + 4 * i_)); return a; }
VEC_FN void vec_store(f32 *at, vec a)
{
    for (u32 i = 0; i < 4; i++) vst1q_f32(at + 4 * i, a.q[i]);
}
VEC_FN vec vec_all(f32 x) { VEC_EACH(a, vdupq_n_f32(x)); return a; }
VEC_FN vec vec_fma(vec a, vec b, vec c)
{
    VEC_EACH(d, vfmaq_f32(c.q[i_], a.q[i_], b.q[i_]));
    return d;
}
VEC_FN vec vec_fms(vec a, vec b, vec c)
{
    VEC_EACH(d, vfmaq_f32(vnegq_f32(c.q[i_]), a.q[i_], b.q[i_]));
    return d;
}
VEC_FN vec vec_add(vec a, vec b) { VEC_EACH(c, vaddq_f32(a.q[i_], b.q[i_])); return c; }
VEC_FN vec vec_mul(vec a, vec b) { VEC_EACH(c, vmulq_f32(a.q[i_], b.q[i_])); return c; }
VEC_FN vec vec_sub(vec a, vec b) { VEC_EACH(c, vsubq_f32(a.q[i_], b.q[i_])); return c; }
/* As x86's: b where a is not greater, NaN and zeros of two signs included. */
VEC_FN vec vec_max(vec a, vec b)
{
    VEC_EACH(c, vbslq_f32(vcgtq_f32(a.q[i_], b.q[i_]), a.q[i_], b.q[i_]));
    return c;
}
VEC_FN uint32x4_t vec_words(const u8 *at) { return vreinterpretq_u32_u8(vld1q_u8(at)); }
VEC_FN vec vec_even(const u8 *line)
{
    VEC_EACH(a, vreinterpretq_f32_u32(vshlq_n_u32(vec_words(line + 16 * i_), 16)));
    return a;
}
VEC_FN vec vec_odd(const u8 *line)
{
    uint32x4_t high = vdupq_n_u32(0xffff0000u);
    VEC_EACH(a, vreinterpretq_f32_u32(vandq_u32(vec_words(line + 16 * i_), high)));
    return a;
}
VEC_FN vec vec_halves(const u8 *at)
{
    f32 lane[16];
    for (u32 c = 0; c < 16; c++) {
        u16 half;
        __builtin_memcpy(&half, at + 2 * c, sizeof half);
        lane[c] = maths_from_f16(half);
    }
    return vec_load(lane);
}
VEC_FN vec vec_narrow(const u8 *at)
{
    VEC_EACH(a, vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(at + 8 * i_)), 16)));
    return a;
}
VEC_FN void vec_transpose(const u8 *in, u64 stride, u8 *out)
{
    for (u32 i = 0; i < 16; i++)
        for (u32 j = 0; j < 16; j++)
            __builtin_memcpy(out + i * 64 + j * 4, in + j * stride + i * 4ull, 4);
}
VEC_FN void vec_pair(const u8 *low, const u8 *high, u8 *line)
{
    for (u32 i = 0; i < 2; i++) {
        uint16x8x2_t both = vzipq_u16(vreinterpretq_u16_u8(vld1q_u8(low + 16 * i)),
                                      vreinterpretq_u16_u8(vld1q_u8(high + 16 * i)));
        vst1q_u8(line + 32 * i, vreinterpretq_u8_u16(both.val[0]));
        vst1q_u8(line + 32 * i + 16, vreinterpretq_u8_u16(both.val[1]));
    }
}

#else
enum { VEC_ROWS = 2, VEC_TILES = 1, VEC_CHAINS = 2, VEC_STREAM_ROWS = 2 };

typedef struct { __m256 l, h; } vec;

VEC_FN vec vec_load(const f32 *at)
{
    return (vec){ _mm256_loadu_ps(at), _mm256_loadu_ps(at + 8) };
}
VEC_FN void vec_store(f32 *at, vec a)
{
    _mm256_storeu_ps(at, a.l);
    _mm256_storeu_ps(at + 8, a.h);
}
VEC_FN vec vec_all(f32 x) { __m256 a = _mm256_set1_ps(x); return (vec){ a, a }; }
VEC_FN vec vec_fma(vec a, vec b, vec c)
{
    return (vec){ _mm256_fmadd_ps(a.l, b.l, c.l), _mm256_fmadd_ps(a.h, b.h, c.h) };
}
VEC_FN vec vec_fms(vec a, vec b, vec c)
{
    return (vec){ _mm256_fmsub_ps(a.l, b.l, c.l), _mm256_fmsub_ps(a.h, b.h, c.h) };
}
VEC_FN vec vec_add(vec a, vec b)
{
    return (vec){ _mm256_add_ps(a.l, b.l), _mm256_add_ps(a.h, b.h) };
}
VEC_FN vec vec_mul(vec a, vec b)
{
    return (vec){ _mm256_mul_ps(a.l, b.l), _mm256_mul_ps(a.h, b.h) };
}
VEC_FN vec vec_sub(vec a, vec b)
{
    return (vec){ _mm256_sub_ps(a.l, b.l), _mm256_sub_ps(a.h, b.h) };
}
VEC_FN vec vec_max(vec a, vec b)
{
    return (vec){ _mm256_max_ps(a.l, b.l), _mm256_max_ps(a.h, b.h) };
}
VEC_FN __m256i vec_words(const u8 *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}
VEC_FN vec vec_even(const u8 *line)
{
    return (vec){ _mm256_castsi256_ps(_mm256_slli_epi32(vec_words(line), 16)),
                  _mm256_castsi256_ps(_mm256_slli_epi32(vec_words(line + 32), 16)) };
}
VEC_FN vec vec_odd(const u8 *line)
{
    __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    return (vec){ _mm256_castsi256_ps(_mm256_and_si256(vec_words(line), high)),
                  _mm256_castsi256_ps(_mm256_and_si256(vec_words(line + 32), high)) };
}
VEC_FN vec vec_halves(const u8 *at)
{
    const __m128i *from = (const __m128i *)(const void *)at;
    return (vec){ _mm256_cvtph_ps(_mm_loadu_si128(from)),
                  _mm256_cvtph_ps(_mm_loadu_si128(from + 1)) };
}
VEC_FN vec vec_narrow(const u8 *at)
{
    const __m128i *from = (const __m128i *)(const void *)at;
    __m256i l = _mm256_cvtepu16_epi32(_mm_loadu_si128(from));
    __m256i h = _mm256_cvtepu16_epi32(_mm_loadu_si128(from + 1));
    return (vec){ _mm256_castsi256_ps(_mm256_slli_epi32(l, 16)),
                  _mm256_castsi256_ps(_mm256_slli_epi32(h, 16)) };
}
VEC_FN void vec_transpose(const u8 *in, u64 stride, u8 *out)
{
    for (u32 i = 0; i < 16; i++)
        for (u32 j = 0; j < 16; j++)
            __builtin_memcpy(out + i * 64 + j * 4, in + j * stride + i * 4ull, 4);
}
VEC_FN void vec_pair(const u8 *low, const u8 *high, u8 *line)
{
    for (u32 i = 0; i < 16; i++) {
        __builtin_memcpy(line + 4 * i, low + 2 * i, 2);
        __builtin_memcpy(line + 4 * i + 2, high + 2 * i, 2);
    }
}
#endif

VEC_FN vec vec_zero(void) { return vec_all(0.0f); }

/* lane_l += lane_{l+w} for w = 8, 4, 2, 1; lane 0. */
VEC_FN f32 vec_tree(vec a)
{
    f32 lane[16];
    vec_store(lane, a);
    for (u32 w = 8; w > 0; w /= 2)
        for (u32 l = 0; l < w; l++) lane[l] += lane[l + w];
    return lane[0];
}

#endif
