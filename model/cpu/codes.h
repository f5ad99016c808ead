/* model/cpu/codes.h - the integer arithmetic of ops.h over codes of 4, 5 and 6 bits.
 *
 * A line of low codes is two quads of sixteen columns (format.h): codes stay unsigned, offsets are
 * in the sums' beginnings (level_int8).  One text of avx2.c, neon.c and vnni.c; lanes are columns.
 * The scales of Q4_K and Q5_K are unpacked once a head, eight blocks. */
#ifndef MODEL_CPU_CODES_H
#define MODEL_CPU_CODES_H

#include <string.h>

#include "model/cpu/format.h"
#include "model/cpu/int8.h"
#include "model/cpu/level.h"
#include "model/cpu/vec.h"
#include "model/cpu/word.h"

enum {
    CODES_LINE = 64, CODES_HIGH = 256,      /* a tile's lines; where its high bits begin       */
    CODES_SCALES = 64, CODES_D = 256,       /* in a head of Q4_K, Q5_K; of Q6_K                */
    CODES_SUMS = 12, CODES_TILES = 2,       /* a block's most                                  */
    CODES_AHEAD = 4096,
    CODES_HEADS = 36,                       /* bytes of heads a block, about                   */
};

/* A quad of codes as the weights of a step; where sums begin; the step, of codes under 64. */
#ifdef INT8_VNNI
VEC_FN int8_sum codes_of(word16 a) { return (int8_sum){ a.v }; }
VEC_FN int8_sum codes_start(i32 sum) { return int8_start(sum); }
VEC_FN int8_sum codes_step(int8_sum sum, int8_sum w, i32 quad) { return int8_step(sum, w, quad); }
#elif defined(__aarch64__)
VEC_FN int8_sum codes_of(word16 a)
{
    int8_sum b;
    for (u32 i = 0; i < 4; i++) b.q[i] = vreinterpretq_s32_u32(a.q[i]);
    return b;
}
VEC_FN int8_sum codes_start(i32 sum)
{
    int8_sum a;
    for (u32 i = 0; i < 4; i++) a.q[i] = vdupq_n_s32(sum);
    return a;
}
VEC_FN int8_sum codes_step(int8_sum sum, int8_sum w, i32 quad) { return int8_step(sum, w, quad); }
#else
VEC_FN int8_sum codes_of(word16 a) { return (int8_sum){ a.l, a.h }; }
VEC_FN int8_sum codes_start(i32 sum)
{
    return (int8_sum){ _mm256_set1_epi32(sum), _mm256_set1_epi32(sum) };
}
/* Pairs of codes under 64 by bytes stay under 2^15: no sign to move, as int8_half does. */
VEC_FN __m256i codes_half(__m256i sum, __m256i w, __m256i x)
{
    __m256i ones = _mm256_set1_epi16(1);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones));
}
VEC_FN int8_sum codes_step(int8_sum sum, int8_sum w, i32 quad)
{
    __m256i x = _mm256_set1_epi32(quad);
    return (int8_sum){ codes_half(sum.l, w.l, x), codes_half(sum.h, w.h, x) };
}
#endif

VEC_FN vec codes_unsigned(const u8 *at) { return word_f32(word_bytes(at)); }
VEC_FN vec codes_signed(const u8 *at)
{
    return word_f32(word_byte(word_left(word_bytes(at), 24)));
}

/* A head of Q4_K or Q5_K, unpacked: scales and least of its eight blocks, [8][16 columns]. */
struct codes_head {
    const u8 *at;                           /* NULL: none yet                                  */
    vec d, least;
    u8 scale[8 * LEVEL_COLUMNS], off[8 * LEVEL_COLUMNS];
};

static VEC_LOOP void codes_unpack(struct codes_head *h, const u8 *at)
{
    enum { FOUR = 4 * LEVEL_COLUMNS };
    const u8 *s = at + CODES_SCALES;
    for (u32 i = 0; i < FOUR; i++) {
        h->scale[i] = s[i] & 63;
        h->off[i] = s[FOUR + i] & 63;
        h->scale[FOUR + i] = (u8)((s[2 * FOUR + i] & 15) | (s[i] >> 6) << 4);
        h->off[FOUR + i] = (u8)(s[2 * FOUR + i] >> 4 | (s[FOUR + i] >> 6) << 4);
    }
    h->d = vec_halves(at);
    h->least = vec_halves(at + 2 * LEVEL_COLUMNS);
    h->at = at;
}

struct codes_strip {
    const struct ops_product *p;
    struct level_int8 x;
    const u8 *w;                            /* strip of tile column `tile`                     */
    const f32 *scale;                       /* codes_scales of it and of the tiles beside it   */
    u64 strip_bytes, k;
    u32 blocks, tile;
};

/* Quad q of sixteen columns of a tile. */
VEC_FN int8_sum codes_quad(enum ops_source format, const u8 *tile, u32 q)
{
    word16 line = word_load(tile + q / 2 * CODES_LINE);
    word16 low = word_and(q % 2 ? word_right(line, 4) : line, word_all(0x0f0f0f0fu));
    if (format == OPS_Q4_0 || format == OPS_Q4_K) return codes_of(low);
    u32 width = format == OPS_Q6_K ? 2 : 1, at = q * width % 8;
    word16 high = word_load(tile + CODES_HIGH + q * width / 8 * CODES_LINE);
    word16 mask = word_all(width == 2 ? 0x30303030u : 0x10101010u);
    high = at < 4 ? word_left(high, 4 - at) : word_right(high, at - 4);
    return codes_of(word_pick(high, mask, low));
}

/* Where row r's sum of half h of block b begins. */
VEC_FN i32 codes_begin(enum ops_source format, const struct codes_strip *i, u64 at, u32 h)
{
    if (format == OPS_Q4_0) return i->x.eighth[at];
    return format == OPS_Q6_K ? i->x.half[2 * at + h] : 0;
}

/* Vectors of scales a block: one, of Q6_K one a half; of Q4_K and Q5_K the second is the least. */
VEC_FN u32 codes_each(enum ops_source format) { return format == OPS_Q4_0 ? 1 : 2; }

/* All scales of a strip as f32, [blocks][codes_each][16 columns]. */
VEC_FN void codes_strip_scales(enum ops_source format, const struct ops_matrix *w, const u8 *strip,
                               f32 *to)
{
    const struct format_row *f = &format_rows[format];
    u32 blocks = w->k / LEVEL_BLOCK;
    const u8 *heads = strip + (u64)blocks * f->tile_bytes;
    struct codes_head head = { .at = NULL };
    for (u32 b = 0; b < blocks; b++, to += codes_each(format) * LEVEL_COLUMNS) {
        u32 at = w->cols.keys == 0 ? b : ops_heads_from(&w->cols, b * LEVEL_BLOCK) / LEVEL_BLOCK;
        u32 part = at % 8;
        if (format == OPS_Q4_0) {
            vec_store(to, vec_halves(heads + (u64)at * f->head_bytes));
            continue;
        }
        const u8 *from = heads + (u64)(at / 8) * f->head_bytes;
        if (format == OPS_Q6_K) {
            vec d = vec_halves(from + CODES_D);
            from += 2 * part * LEVEL_COLUMNS;
            vec_store(to, vec_mul(d, codes_signed(from)));
            vec_store(to + LEVEL_COLUMNS, vec_mul(d, codes_signed(from + LEVEL_COLUMNS)));
            continue;
        }
        if (head.at != from) codes_unpack(&head, from);
        part *= LEVEL_COLUMNS;
        vec_store(to, vec_mul(head.d, codes_unsigned(head.scale + part)));
        vec_store(to + LEVEL_COLUMNS, vec_mul(head.least, codes_unsigned(head.off + part)));
    }
}

static VEC_LOOP void codes_scales(const struct ops_matrix *w, const u8 *strip, f32 *to)
{
    switch (w->format) {
    case OPS_Q4_0: codes_strip_scales(OPS_Q4_0, w, strip, to); break;
    case OPS_Q4_K: codes_strip_scales(OPS_Q4_K, w, strip, to); break;
    case OPS_Q5_K: codes_strip_scales(OPS_Q5_K, w, strip, to); break;
    default:       codes_strip_scales(OPS_Q6_K, w, strip, to);
    }
}

/* rows x tiles from row r, tile column i->tile on; format and counts: constants of the caller. */
VEC_FN void codes_block(enum ops_source format, const struct codes_strip *i, u32 rows, u32 tiles,
                        u32 r)
{
    u32 halves = format == OPS_Q6_K ? 2 : 1, tile_bytes = format_rows[format].tile_bytes;
    u64 row = (u64)r * i->blocks, step = (u64)i->blocks * codes_each(format) * LEVEL_COLUMNS;
    const f32 *scale = i->scale;
    vec s[CODES_SUMS];
    for (u32 j = 0; j < rows * tiles; j++) s[j] = vec_zero();
    const u8 *next = i->w + tiles * i->strip_bytes + (u64)i->blocks * tile_bytes;
    for (u32 b = 0; b < i->blocks; b++, scale += codes_each(format) * LEVEL_COLUMNS) {
        const u8 *tile = i->w + (u64)b * tile_bytes;
        if (tiles == 1) __builtin_prefetch(next + b * CODES_HEADS);
        for (u32 l = 0; l < tiles * tile_bytes; l += CODES_LINE)
            __builtin_prefetch(tile + l / tile_bytes * i->strip_bytes + l % tile_bytes +
                               CODES_AHEAD);
        for (u32 h = 0; h < halves; h++) {
            int8_sum sum[CODES_SUMS], w[CODES_TILES];
            for (u32 j = 0; j < rows * tiles; j++)
                sum[j] = codes_start(codes_begin(format, i, row + (u64)(j / tiles) * i->blocks + b,
                                                 h));
            u32 quads_to = (h + 1) * INT8_QUADS / halves;
#pragma GCC unroll 8
            for (u32 q = h * INT8_QUADS / halves; q < quads_to; q++) {
                for (u32 c = 0; c < tiles; c++)
                    w[c] = codes_quad(format, tile + c * i->strip_bytes, q);
                for (u32 j = 0; j < rows; j++) {
                    i32 quad;
                    memcpy(&quad, i->x.q + (r + j) * i->k + b * LEVEL_BLOCK + q * 4, sizeof quad);
                    for (u32 c = 0; c < tiles; c++)
                        sum[j * tiles + c] = codes_step(sum[j * tiles + c], w[c], quad);
                }
            }
            for (u32 j = 0; j < rows * tiles; j++) {
                vec d = vec_all(i->x.d[row + (u64)(j / tiles) * i->blocks + b]);
                vec by = vec_load(scale + j % tiles * step + h * LEVEL_COLUMNS);
                s[j] = vec_fma(int8_f32(sum[j]), vec_mul(d, by), s[j]);
            }
        }
        if (format != OPS_Q4_K && format != OPS_Q5_K) continue;
        for (u32 j = 0; j < rows * tiles; j++) {
            vec least = vec_all(i->x.least[row + (u64)(j / tiles) * i->blocks + b]);
            s[j] = vec_fma(least, vec_load(scale + j % tiles * step + LEVEL_COLUMNS), s[j]);
        }
    }
    for (u32 j = 0; j < rows * tiles; j++)
        int8_put(i->p, r + j / tiles, i->tile + j % tiles, s[j]);
}

typedef void codes_kernel(const struct codes_strip *i, u32 r);

#define CODES_CASE(format, rows, tiles)                                                        \
    static __attribute__((noinline)) void codes_##format##_##rows##x##tiles(                   \
        const struct codes_strip *i, u32 r)                                                    \
    {                                                                                          \
        codes_block(OPS_##format, i, rows, tiles, r);                                          \
    }
/* Kernels by tiles and rows; few rows walk one tile, so that its weights are one stream. */
#ifdef INT8_VNNI
enum { CODES_DOWN = 12, CODES_ACROSS = 2 };
#define CODES_CASES(format)                                                                    \
    CODES_CASE(format, 1, 1) CODES_CASE(format, 2, 1) CODES_CASE(format, 3, 1)                 \
    CODES_CASE(format, 4, 1) CODES_CASE(format, 5, 1) CODES_CASE(format, 6, 1)                 \
    CODES_CASE(format, 7, 1) CODES_CASE(format, 8, 1) CODES_CASE(format, 9, 1)                 \
    CODES_CASE(format, 10, 1) CODES_CASE(format, 11, 1) CODES_CASE(format, 12, 1)              \
    CODES_CASE(format, 1, 2) CODES_CASE(format, 2, 2) CODES_CASE(format, 3, 2)                 \
    CODES_CASE(format, 4, 2) CODES_CASE(format, 5, 2) CODES_CASE(format, 6, 2)
#define CODES_ROW(format)                                                                      \
    [OPS_##format] = {                                                                         \
        { codes_##format##_1x1, codes_##format##_2x1, codes_##format##_3x1,                    \
          codes_##format##_4x1, codes_##format##_5x1, codes_##format##_6x1,                    \
          codes_##format##_7x1, codes_##format##_8x1, codes_##format##_9x1,                    \
          codes_##format##_10x1, codes_##format##_11x1, codes_##format##_12x1 },               \
        { codes_##format##_1x2, codes_##format##_2x2, codes_##format##_3x2,                    \
          codes_##format##_4x2, codes_##format##_5x2, codes_##format##_6x2 },                  \
    }
#else
enum { CODES_DOWN = 2, CODES_ACROSS = 1 };
#define CODES_CASES(format) CODES_CASE(format, 1, 1) CODES_CASE(format, 2, 1)
#define CODES_ROW(format) [OPS_##format] = { { codes_##format##_1x1, codes_##format##_2x1 } }
#endif
CODES_CASES(Q4_0) CODES_CASES(Q4_K) CODES_CASES(Q5_K) CODES_CASES(Q6_K)

/* As int8_product of level.h, of a matrix in codes. */
static void codes_product(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi)
{
    static codes_kernel *const kernels[OPS_SOURCE_COUNT][CODES_ACROSS][CODES_DOWN] = {
        CODES_ROW(Q4_0), CODES_ROW(Q4_K), CODES_ROW(Q5_K), CODES_ROW(Q6_K),
    };
    struct codes_strip i = {
        .p = p, .x = level_int8_at(p), .strip_bytes = format_strip_bytes(p->w->format, p->w->k),
        .k = p->w->k, .blocks = p->w->k / LEVEL_BLOCK,
    };
    u32 most = hi - lo <= CODES_DOWN ? 1 : CODES_ACROSS, across, down;
    u64 step = (u64)i.blocks * codes_each(p->w->format) * LEVEL_COLUMNS;
    f32 scale[most * step];                 /* of the strips that the kernels walk              */
    i.scale = scale;
    for (i.tile = tile_lo; i.tile < tile_hi; i.tile += across) {
        across = MIN(tile_hi - i.tile, most);
        i.w = p->w->packed + i.tile * i.strip_bytes;
        for (u32 c = 0; c < across; c++)
            codes_scales(p->w, i.w + c * i.strip_bytes, scale + c * step);
        for (u32 r = lo; r < hi; r += down) {
            u32 left = hi - r, full = CODES_DOWN / across;
            down = left > full && left < 2 * full ? (left + 1) / 2 : MIN(left, full);
            kernels[p->w->format][across - 1][down - 1](&i, r);
        }
    }
}

/* int8_product of level.h. */
static void codes_or_int8(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi)
{
    if (p->w->format == OPS_Q8_0) level_int8_product(p, lo, hi, tile_lo, tile_hi);
    else codes_product(p, lo, hi, tile_lo, tile_hi);
}

#endif
