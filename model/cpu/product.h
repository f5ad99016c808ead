/* model/cpu/product.h - order32 for the vector levels: rows x packed tiles, chains in registers.
 *
 * One text of avx2.c and avx512.c.  A block is VEC_ROWS rows x VEC_TILES tiles of 16 columns: the
 * even and the odd chain of every (row, column) run over 32 terms in registers, then s += e + o.
 * Activations are broadcast from memory, weights widened once for all rows of the block.  Few rows
 * (one block) take a tile at a time, with prefetch: there the weights' bandwidth counts.
 * Also serves attention: scores (weights: K) and weighted values (weights: V). */
#ifndef MODEL_CPU_PRODUCT_H
#define MODEL_CPU_PRODUCT_H

#include <string.h>

#include "model/cpu/expand.h"
#include "model/cpu/level.h"
#include "model/cpu/pack.h"
#ifndef VEC_AMX
#include "model/cpu/stream.h"
#endif
#include "model/cpu/vec.h"
#include "model/maths.h"

enum {
    PRODUCT_AHEAD = 8192,               /* bytes a stream is prefetched ahead                  */
    PRODUCT_LINE = 64,                  /* bytes of a packed BF16 line                         */
    PRODUCT_CHUNK = 16,                 /* blocks of a block format expanded together: L1      */
};

/* y[r, j] = order32(x[r, :], w[j, :]) over k terms, of which those from `live` on are +0 in both
 * factors whatever memory holds (walked, not skipped). */
struct product_strip {
    const f32 *x;                       /* rows `x_stride` values apart                        */
    const u8  *w;                       /* packed: tile column c at w + c * tile_bytes         */
    f32       *y;                       /* rows `y_stride` values apart                        */
    u64        x_stride, tile_bytes, y_stride;
    u32        rows, columns, live, k;  /* columns: of y, from w's first                       */
    bool       round;                   /* y = bf16(s)                                         */
    bool       wide;                    /* F32 tiles (reference mode)                          */
    bool       stream;                  /* w lies in memory, not in a cache                    */
    bool       resume;                  /* the sums begin at what y holds, not at +0           */
};

#ifdef VEC_AMX
static bool amx_run(const struct product_strip *p);     /* false: the chains below take it     */
#endif

/* One block of 32 terms added to s; all counts are constants of the caller. */
VEC_FN void product_block(u32 rows, u32 tiles, const f32 *x, u64 x_stride, const u8 *w,
                          u64 tile_bytes, vec *s, bool wide, bool ahead)
{
    vec e[VEC_CHAINS], o[VEC_CHAINS];
    for (u32 i = 0; i < rows * tiles; i++) e[i] = o[i] = vec_zero();
#pragma GCC unroll 4
    for (u32 i = 0; i < LEVEL_BLOCK / 2; i++) {
        vec even[VEC_TILES], odd[VEC_TILES];
        for (u32 c = 0; c < tiles; c++) {
            const u8 *line = w + c * tile_bytes + i * (wide ? 2 : 1) * PRODUCT_LINE;
            if (ahead) __builtin_prefetch(line + PRODUCT_AHEAD);
            even[c] = wide ? vec_load((const f32 *)(const void *)line) : vec_even(line);
            odd[c] = wide ? vec_load((const f32 *)(const void *)(line + PRODUCT_LINE))
                          : vec_odd(line);
        }
        for (u32 r = 0; r < rows; r++) {
            vec a = vec_all(x[r * x_stride + 2 * i]);
            vec b = vec_all(x[r * x_stride + 2 * i + 1]);
            for (u32 c = 0; c < tiles; c++) {
                e[r * tiles + c] = vec_fma(a, even[c], e[r * tiles + c]);
                o[r * tiles + c] = vec_fma(b, odd[c], o[r * tiles + c]);
            }
        }
    }
    for (u32 i = 0; i < rows * tiles; i++) s[i] = vec_add(s[i], vec_add(e[i], o[i]));
}

/* Term i of a line's pair is kept, the rest becomes +0: lines [from, 16) of a tile. */
static void product_mask_tile(const u8 *w, u32 live, u8 *out, bool wide)
{
    u32 bytes = LEVEL_TILE * (wide ? 4 : 2);
    u32 pairs = live / 2, line = bytes / 16;
    memset(out, 0, bytes);
    memcpy(out, w, pairs * line);
    if (live % 2 == 0) return;
    if (wide) memcpy(out + pairs * line, w + pairs * line, line / 2);
    else
        for (u32 c = 0; c < LEVEL_COLUMNS; c++)
            memcpy(out + pairs * line + 4 * c, w + pairs * line + 4 * c, 2);
}

VEC_FN void product_begin(const struct product_strip *p, u32 rows, u32 tiles, u32 r, u32 c, vec *s)
{
    for (u32 i = 0; i < rows * tiles; i++) {
        u32 column = (c + i % tiles) * LEVEL_COLUMNS;
        u32 count = MIN(p->columns - column, (u32)LEVEL_COLUMNS);
        f32 lane[LEVEL_COLUMNS] = { 0 };
        s[i] = vec_zero();
        if (!p->resume) continue;
        memcpy(lane, p->y + (r + i / tiles) * p->y_stride + column, count * sizeof *lane);
        s[i] = vec_load(lane);
    }
}

/* rows x tiles of a strip from row r, tile c on; sums to s. */
VEC_FN void product_sums(const struct product_strip *p, u32 rows, u32 tiles, u32 r, u32 c, vec *s,
                         bool wide, bool ahead)
{
    const f32 *x = p->x + r * p->x_stride;
    const u8 *w = p->w + c * p->tile_bytes;
    u32 tile_step = LEVEL_TILE * (wide ? 4 : 2);
    u32 full = p->live / LEVEL_BLOCK, left = p->live % LEVEL_BLOCK;
    product_begin(p, rows, tiles, r, c, s);
    for (u32 b = 0; b < full; b++)
        product_block(rows, tiles, x + b * LEVEL_BLOCK, p->x_stride, w + b * (u64)tile_step,
                      p->tile_bytes, s, wide, ahead);
    if (left > 0) {
        f32 a[VEC_STREAM_ROWS][LEVEL_BLOCK] = { { 0 } };
        u8 masked[VEC_TILES][LEVEL_TILE * 4];
        for (u32 i = 0; i < rows; i++)
            memcpy(a[i], x + i * p->x_stride + full * LEVEL_BLOCK, left * sizeof(f32));
        for (u32 i = 0; i < tiles; i++)
            product_mask_tile(w + i * p->tile_bytes + full * (u64)tile_step, left, masked[i], wide);
        product_block(rows, tiles, a[0], LEVEL_BLOCK, masked[0], sizeof masked[0], s, wide, false);
    }
    if (full + (left > 0) < (p->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK)     /* blocks of zeros     */
        for (u32 i = 0; i < rows * tiles; i++) s[i] = vec_add(s[i], vec_zero());
}

VEC_FN void product_put(const struct product_strip *p, u32 rows, u32 tiles, u32 r, u32 c,
                        const vec *s)
{
    for (u32 i = 0; i < rows; i++)
        for (u32 j = 0; j < tiles; j++) {
            f32 lane[LEVEL_COLUMNS];
            u32 column = (c + j) * LEVEL_COLUMNS;
            f32 *y = p->y + (r + i) * p->y_stride + column;
            vec_store(lane, s[i * tiles + j]);
            if (p->round)
                for (u32 l = 0; l < LEVEL_COLUMNS; l++) lane[l] = maths_round_bf16(lane[l]);
            if (p->columns - column >= LEVEL_COLUMNS) vec_store(y, vec_load(lane));
            else memcpy(y, lane, (p->columns - column) * sizeof(f32));
        }
}

#define PRODUCT_CASE(rows, tiles, ahead)                                                       \
    static __attribute__((noinline)) void product_##rows##x##tiles##ahead(                     \
        const struct product_strip *p, u32 r, u32 c)                                           \
    {                                                                                          \
        vec s[(rows) * (tiles)];                                                               \
        if (p->wide) product_sums(p, rows, tiles, r, c, s, true, ahead);                       \
        else product_sums(p, rows, tiles, r, c, s, false, ahead);                              \
        product_put(p, rows, tiles, r, c, s);                                                  \
    }

typedef void product_kernel(const struct product_strip *p, u32 r, u32 c);

/* Kernels by row count: blocks, a tile left over, the block that reads the weights first, and
 * streams (weights read once: a tile at a time is one sequential stream, 40 GB/s; four: 28). */
#ifdef VEC_AVX512
PRODUCT_CASE(1, 2, 0) PRODUCT_CASE(2, 2, 0) PRODUCT_CASE(3, 2, 0)
PRODUCT_CASE(4, 2, 0) PRODUCT_CASE(5, 2, 0) PRODUCT_CASE(6, 2, 0)
PRODUCT_CASE(1, 1, 0) PRODUCT_CASE(2, 1, 0) PRODUCT_CASE(3, 1, 0)
PRODUCT_CASE(4, 1, 0) PRODUCT_CASE(5, 1, 0) PRODUCT_CASE(6, 1, 0)
PRODUCT_CASE(1, 1, 1) PRODUCT_CASE(2, 1, 1) PRODUCT_CASE(3, 1, 1)
PRODUCT_CASE(4, 1, 1) PRODUCT_CASE(5, 1, 1) PRODUCT_CASE(6, 1, 1)
PRODUCT_CASE(7, 1, 1) PRODUCT_CASE(8, 1, 1) PRODUCT_CASE(9, 1, 1)
PRODUCT_CASE(10, 1, 1) PRODUCT_CASE(6, 2, 1)
static product_kernel *const product_blocks[VEC_ROWS] = {
    product_1x20, product_2x20, product_3x20, product_4x20, product_5x20, product_6x20,
};
static product_kernel *const product_lasts[VEC_ROWS] = {
    product_1x10, product_2x10, product_3x10, product_4x10, product_5x10, product_6x10,
};
static product_kernel *const product_first = product_6x21;
static product_kernel *const product_streams[VEC_STREAM_ROWS] = {
    product_1x11, product_2x11, product_3x11, product_4x11, product_5x11, product_6x11,
    product_7x11, product_8x11, product_9x11, product_10x11,
};
#else
PRODUCT_CASE(1, 1, 0) PRODUCT_CASE(2, 1, 0) PRODUCT_CASE(1, 1, 1) PRODUCT_CASE(2, 1, 1)
static product_kernel *const product_blocks[VEC_ROWS] = { product_1x10, product_2x10 };
static product_kernel *const product_streams[VEC_STREAM_ROWS] = { product_1x11, product_2x11 };
#define product_lasts product_blocks
static product_kernel *const product_first = product_2x11;
#endif

static inline __attribute__((unused)) u64 level_probe(u32 rounds)
{
    enum { CHAINS = 2 * VEC_CHAINS };
    vec chain[CHAINS], a = vec_all(0.5f), b = vec_all(1.0f);
    f32 lane[LEVEL_COLUMNS];
    volatile f32 keep;
    for (u32 i = 0; i < CHAINS; i++) chain[i] = vec_all((f32)i);
    for (u32 r = 0; r < rounds; r++) {
#pragma GCC unroll 32
        for (u32 i = 0; i < CHAINS; i++) chain[i] = vec_fma(chain[i], a, b);
    }
    for (u32 i = 1; i < CHAINS; i++) chain[0] = vec_add(chain[0], chain[i]);
    vec_store(lane, chain[0]);
    keep = lane[0];
    (void)keep;
    return 2ull * LEVEL_COLUMNS * CHAINS * rounds;
}

/* Rows of a block when `left` are to do: the last two blocks share what is left. */
VEC_FN u32 product_down(u32 left)
{
    return left > VEC_ROWS && left < 2 * VEC_ROWS ? (left + 1) / 2 : MIN(left, (u32)VEC_ROWS);
}

/* All rows and columns of a strip: columns outside, so that a block's weights stay in cache. */
static void product_run(const struct product_strip *p)
{
    u32 tiles = (p->columns + LEVEL_COLUMNS - 1) / LEVEL_COLUMNS, across, down;
    if (p->rows == 0) return;
#ifdef VEC_AMX
    if (amx_run(p)) return;
#endif
    if (p->stream && p->rows <= VEC_STREAM_ROWS) {
        for (u32 c = 0; c < tiles; c++) product_streams[p->rows - 1](p, 0, c);
        return;
    }
    for (u32 c = 0; c < tiles; c += across) {
        across = MIN(tiles - c, (u32)VEC_TILES);
        product_kernel *const *kernels = across == VEC_TILES ? product_blocks : product_lasts;
        for (u32 r = 0; r < p->rows; r += down) {
            down = product_down(p->rows - r);
            bool first = r == 0 && p->stream && across == VEC_TILES && down == VEC_ROWS;
            (first ? product_first : kernels[down - 1])(p, r, c);
        }
    }
}

/* A matrix that keeps a block format: some blocks of a few tiles are expanded, multiplied with all
 * rows, and the sums go on from y. */
static void product_packed(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi)
{
    u32 n = p->w->n, k = p->w->k, across;
    u32 blocks = (k + LEVEL_BLOCK - 1) / LEVEL_BLOCK;
    _Alignas(64) u8 tiles[VEC_TILES][PRODUCT_CHUNK * LEVEL_TILE * 2];
    for (u32 tile = tile_lo; tile < tile_hi; tile += across) {
        across = MIN(tile_hi - tile, (u32)VEC_TILES);
        for (u32 b = 0; b < blocks; b += PRODUCT_CHUNK) {
            u32 last = MIN(b + PRODUCT_CHUNK, blocks);
            u32 terms = MIN(last * LEVEL_BLOCK, k) - b * LEVEL_BLOCK;
            for (u32 i = 0; i < across; i++) level_expand(p->w, tile + i, b, last, tiles[i]);
            product_run(&(struct product_strip){
                .x = (const f32 *)p->x + (u64)lo * k + b * LEVEL_BLOCK, .x_stride = k,
                .w = tiles[0], .tile_bytes = sizeof tiles[0],
                .y = (f32 *)p->y + (u64)lo * n + tile * LEVEL_COLUMNS, .y_stride = n,
                .rows = hi - lo, .live = terms, .k = terms,
                .columns = MIN((tile + across) * LEVEL_COLUMNS, n) - tile * LEVEL_COLUMNS,
                .round = !p->y_f32 && last == blocks, .resume = b > 0,
            });
        }
    }
}

/* Few rows are multiplied as weights are expanded; level amx shares avx512's text for it. */
static bool product_few(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi)
{
#ifdef VEC_AMX
    if (hi - lo > AVX512BF16_ROWS || !avx512bf16_here()) return false;
    avx512bf16_stream(p, lo, hi, tile_lo, tile_hi);
#else
    if (hi - lo > STREAM_ROWS) return false;
    level_stream(p, lo, hi, tile_lo, tile_hi);
#endif
    return true;
}

static void level_product(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi,
                          bool reference)
{
    u32 n = p->w->n, k = p->w->k, first = tile_lo * LEVEL_COLUMNS;
    if (format_rows[p->w->format].tile_bytes > 0) {
        if (product_few(p, lo, hi, tile_lo, tile_hi)) return;
        product_packed(p, lo, hi, tile_lo, tile_hi);
        return;
    }
    u64 tile_bytes = pack_bytes(LEVEL_COLUMNS, k, reference);
    product_run(&(struct product_strip){
        .x = (const f32 *)p->x + (u64)lo * k, .x_stride = k,
        .w = p->w->packed + tile_lo * tile_bytes, .tile_bytes = tile_bytes,
        .y = (f32 *)p->y + (u64)lo * n + first, .y_stride = n,
        .rows = hi - lo, .columns = MIN(tile_hi * LEVEL_COLUMNS, n) - first, .live = k, .k = k,
        .round = !p->y_f32 && !reference, .wide = reference, .stream = true,
    });
}

#endif
