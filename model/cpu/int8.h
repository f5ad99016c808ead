/* model/cpu/int8.h - the integer arithmetic of ops.h for the vector levels.
 *
 * One text of avx2.c, neon.c and vnni.c (INT8_VNNI); codes of four to six bits are codes.h's.  A
 * block's integer sums are exact, so only the two multiplications and the addition a block count,
 * in the order of ops.h.  With VNNI weights are taken as unsigned, w + 128, and sums begin at -128
 * times the sum of q (level_int8).  AVX2 multiplies |w| by q with w's sign: pairs stay under 2^15,
 * for |q| <= 127.  NEON's bytes are signed. */
#ifndef MODEL_CPU_INT8_H
#define MODEL_CPU_INT8_H

#include <string.h>

#include "model/cpu/format.h"
#include "model/cpu/level.h"
#include "model/cpu/vec.h"
#include "model/maths.h"

enum { INT8_TILE = 512, INT8_HEAD = 32, INT8_QUADS = 8, INT8_AHEAD = 8192 };

struct int8_strip {
    const struct ops_product *p;
    struct level_int8 x;
    const u8 *w;                        /* strip of tile column `tile`                         */
    u64 strip_bytes;
    u32 blocks, tile;
};

#ifdef INT8_VNNI
enum { INT8_ROWS = 6, INT8_TILES = 2, INT8_STREAM_ROWS = 12 };
typedef struct { __m512i v; } int8_sum;
VEC_FN int8_sum int8_start(i32 sum) { return (int8_sum){ _mm512_set1_epi32(sum) }; }
VEC_FN int8_sum int8_weights(const u8 *at)
{
    return (int8_sum){ _mm512_xor_si512(_mm512_loadu_si512(at), _mm512_set1_epi8((char)0x80)) };
}
VEC_FN int8_sum int8_step(int8_sum sum, int8_sum w, i32 quad)
{
    return (int8_sum){ _mm512_dpbusd_epi32(sum.v, w.v, _mm512_set1_epi32(quad)) };
}
VEC_FN vec int8_f32(int8_sum sum) { return (vec){ _mm512_cvtepi32_ps(sum.v) }; }
#elif defined(__aarch64__)
enum { INT8_ROWS = 2, INT8_TILES = 1, INT8_STREAM_ROWS = 2 };
typedef struct { int32x4_t q[4]; } int8_sum;
VEC_FN int8_sum int8_start(i32 sum)
{
    int8_sum a;
    (void)sum;
    for (u32 i = 0; i < 4; i++) a.q[i] = vdupq_n_s32(0);
    return a;
}
VEC_FN int8_sum int8_weights(const u8 *at)
{
    int8_sum a;
    for (u32 i = 0; i < 4; i++) a.q[i] = vreinterpretq_s32_u8(vld1q_u8(at + 16 * i));
    return a;
}
VEC_FN int8_sum int8_step(int8_sum sum, int8_sum w, i32 quad)
{
    int8x16_t x = vreinterpretq_s8_s32(vdupq_n_s32(quad));
    for (u32 i = 0; i < 4; i++) {
        int8x16_t bytes = vreinterpretq_s8_s32(w.q[i]);
        int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(bytes), vget_low_s8(x)));
        int32x4_t high = vpaddlq_s16(vmull_high_s8(bytes, x));
        sum.q[i] = vaddq_s32(sum.q[i], vpaddq_s32(low, high));
    }
    return sum;
}
VEC_FN vec int8_f32(int8_sum sum)
{
    VEC_EACH(a, vcvtq_f32_s32(sum.q[i_]));
    return a;
}
#else
enum { INT8_ROWS = 2, INT8_TILES = 1, INT8_STREAM_ROWS = 2 };
typedef struct { __m256i l, h; } int8_sum;
VEC_FN int8_sum int8_start(i32 sum)
{
    (void)sum;
    return (int8_sum){ _mm256_setzero_si256(), _mm256_setzero_si256() };
}
VEC_FN int8_sum int8_weights(const u8 *at)
{
    const __m256i *from = (const __m256i *)(const void *)at;
    return (int8_sum){ _mm256_loadu_si256(from), _mm256_loadu_si256(from + 1) };
}
VEC_FN __m256i int8_half(__m256i sum, __m256i w, __m256i x)
{
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
VEC_FN int8_sum int8_step(int8_sum sum, int8_sum w, i32 quad)
{
    __m256i x = _mm256_set1_epi32(quad);
    return (int8_sum){ int8_half(sum.l, w.l, x), int8_half(sum.h, w.h, x) };
}
VEC_FN vec int8_f32(int8_sum sum)
{
    return (vec){ _mm256_cvtepi32_ps(sum.l), _mm256_cvtepi32_ps(sum.h) };
}
#endif

VEC_FN void int8_put(const struct ops_product *p, u32 r, u32 tile, vec s)
{
    f32 lane[LEVEL_COLUMNS];
    u32 n = p->w->n, column = tile * LEVEL_COLUMNS;
    f32 *y = (f32 *)p->y + (u64)r * n + column;
    vec_store(lane, s);
    if (!p->y_f32)
        for (u32 c = 0; c < LEVEL_COLUMNS; c++) lane[c] = maths_round_bf16(lane[c]);
    if (n - column >= LEVEL_COLUMNS) vec_store(y, vec_load(lane));
    else memcpy(y, lane, (n - column) * sizeof *lane);
}

/* rows x tiles from row r, tile column i->tile on; the counts are constants of the caller. */
VEC_FN void int8_block(const struct int8_strip *i, u32 rows, u32 tiles, u32 r, bool ahead)
{
    u64 k = (u64)i->blocks * LEVEL_BLOCK;
    const i8 *x = i->x.q + r * k;
    const f32 *d = i->x.d + (u64)r * i->blocks;
    const i32 *begin = i->x.sum + (u64)r * i->blocks;
    vec s[INT8_STREAM_ROWS];
    for (u32 j = 0; j < rows * tiles; j++) s[j] = vec_zero();
    for (u32 b = 0; b < i->blocks; b++) {
        int8_sum sum[INT8_STREAM_ROWS], w[INT8_TILES];
        for (u32 j = 0; j < rows * tiles; j++)
            sum[j] = int8_start(begin[(u64)(j / tiles) * i->blocks + b]);
#pragma GCC unroll 8
        for (u32 q = 0; q < INT8_QUADS; q++) {
            for (u32 c = 0; c < tiles; c++) {
                const u8 *line = i->w + c * i->strip_bytes + (u64)b * INT8_TILE + q * 64;
                if (ahead) __builtin_prefetch(line + INT8_AHEAD);
                w[c] = int8_weights(line);
            }
            for (u32 j = 0; j < rows; j++) {
                i32 quad;
                memcpy(&quad, x + j * k + b * LEVEL_BLOCK + q * 4, sizeof quad);
                for (u32 c = 0; c < tiles; c++)
                    sum[j * tiles + c] = int8_step(sum[j * tiles + c], w[c], quad);
            }
        }
        for (u32 c = 0; c < tiles; c++) {
            const u8 *head = i->w + c * i->strip_bytes + (u64)i->blocks * INT8_TILE;
            vec scale = vec_halves(head + (u64)b * INT8_HEAD);
            for (u32 j = 0; j < rows; j++) {
                vec both = vec_mul(vec_all(d[(u64)j * i->blocks + b]), scale);
                u32 at = j * tiles + c;
                s[at] = vec_add(s[at], vec_mul(int8_f32(sum[at]), both));
            }
        }
    }
    for (u32 j = 0; j < rows * tiles; j++) int8_put(i->p, r + j / tiles, i->tile + j % tiles, s[j]);
}

#define INT8_CASE(rows, tiles, ahead)                                                          \
    static __attribute__((noinline)) void int8_##rows##x##tiles##ahead(                        \
        const struct int8_strip *i, u32 r)                                                     \
    {                                                                                          \
        int8_block(i, rows, tiles, r, ahead);                                                  \
    }

typedef void int8_kernel(const struct int8_strip *i, u32 r);

#ifdef INT8_VNNI
INT8_CASE(1, 1, 1) INT8_CASE(2, 1, 1) INT8_CASE(3, 1, 1) INT8_CASE(4, 1, 1) INT8_CASE(5, 1, 1)
INT8_CASE(6, 1, 1) INT8_CASE(7, 1, 1) INT8_CASE(8, 1, 1) INT8_CASE(9, 1, 1) INT8_CASE(10, 1, 1)
INT8_CASE(11, 1, 1) INT8_CASE(12, 1, 1)
INT8_CASE(1, 2, 0) INT8_CASE(2, 2, 0) INT8_CASE(3, 2, 0) INT8_CASE(4, 2, 0) INT8_CASE(5, 2, 0)
INT8_CASE(6, 2, 0)
static int8_kernel *const int8_streams[INT8_STREAM_ROWS] = {
    int8_1x11, int8_2x11, int8_3x11, int8_4x11, int8_5x11, int8_6x11, int8_7x11, int8_8x11,
    int8_9x11, int8_10x11, int8_11x11, int8_12x11,
};
static int8_kernel *const int8_blocks[INT8_ROWS] = {
    int8_1x20, int8_2x20, int8_3x20, int8_4x20, int8_5x20, int8_6x20,
};
#else
INT8_CASE(1, 1, 1) INT8_CASE(2, 1, 1)
static int8_kernel *const int8_streams[INT8_STREAM_ROWS] = { int8_1x11, int8_2x11 };
#define int8_blocks int8_streams
#endif

static void level_int8_product(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo,
                               u32 tile_hi)
{
    struct int8_strip i = {
        .p = p, .x = level_int8_at(p), .strip_bytes = format_strip_bytes(p->w->format, p->w->k),
        .blocks = p->w->k / LEVEL_BLOCK,
    };
    bool stream = hi - lo <= INT8_STREAM_ROWS;
    u32 across;
    for (i.tile = tile_lo; i.tile < tile_hi; i.tile += across) {
        across = !stream && tile_hi - i.tile >= INT8_TILES ? INT8_TILES : 1;
        int8_kernel *const *kernels = across == INT8_TILES ? int8_blocks : int8_streams;
        u32 most = stream || across < INT8_TILES ? INT8_STREAM_ROWS : INT8_ROWS;
        i.w = p->w->packed + i.tile * i.strip_bytes;
        for (u32 r = lo, rows; r < hi; r += rows) {
            rows = MIN(hi - r, most);
            (stream ? int8_streams : kernels)[rows - 1](&i, r);
        }
    }
}

/* d = max |x| / 127 and q = x (1 / d) to the nearest integer; d 0 or not finite: q = 0. */
static VEC_LOOP void level_int8_ready(const struct ops_product *p, u32 lo, u32 hi)
{
    struct level_int8 to = level_int8_at(p);
    u64 blocks = p->w->k / LEVEL_BLOCK;
    for (u64 b = lo * blocks; b < hi * blocks; b++) {
        const f32 *x = (const f32 *)p->x + b * LEVEL_BLOCK;
        i32 most = 0, half[2] = { 0, 0 }, q[LEVEL_BLOCK];
        for (u32 i = 0; i < LEVEL_BLOCK; i++) {
            i32 bits = (i32)(maths_bits(x[i]) & 0x7fffffffu);
            most = MAX(most, bits);
        }
        f32 d = maths_float((u32)most) / 127.0f;
        bool none = d == 0.0f || most >= 0x7f800000;
        f32 inverse = none ? 0.0f : 1.0f / d;
        for (u32 i = 0; i < LEVEL_BLOCK; i++)
            q[i] = none ? 0 : (i32)((x[i] * inverse + LEVEL_RINT) - LEVEL_RINT);
        for (u32 i = 0; i < LEVEL_BLOCK / 2; i++) half[0] += q[i];
        for (u32 i = LEVEL_BLOCK / 2; i < LEVEL_BLOCK; i++) half[1] += q[i];
        for (u32 i = 0; i < LEVEL_BLOCK; i++) to.q[b * LEVEL_BLOCK + i] = (i8)q[i];
        to.d[b] = d;
        to.sum[b] = -128 * (half[0] + half[1]);
        to.eighth[b] = -8 * (half[0] + half[1]);
        to.half[2 * b] = -32 * half[0];
        to.half[2 * b + 1] = -32 * half[1];
        to.least[b] = -(d * (f32)(half[0] + half[1]));
    }
}

#endif
