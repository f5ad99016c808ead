/* model/cpu/amx.h - order32 by AMX: one tile instruction is one block of 32 terms for 16 rows and
 * 16 columns, even and odd chain and the addition to s included.
 *
 * Weights stay as packed for every level.  Activations are tiles too, [16 rows][32 terms] of BF16,
 * made ready once for a product (level.h) or, for attention, here.  Two tiles of rows by two of
 * columns take all eight registers; partial sums of a long K stand in memory as f32. */
#ifndef MODEL_CPU_AMX_H
#define MODEL_CPU_AMX_H

#include <string.h>

#include "model/cpu/product.h"
#include "model/cpu/tile.h"

enum {
    AMX_ROWS = 256,                     /* rows of a block: their tiles stay in L2             */
    AMX_COLUMNS = 8,                    /* column tiles of a panel                             */
    AMX_CHUNK_MOST = 80, AMX_CHUNK = 32,        /* blocks of K in one go; of a longer K        */
    AMX_OWN_ROWS = 32,                  /* rows made ready here at a time                      */
    AMX_OWN_BLOCKS = 32,                /* blocks of K of those                                */
    AMX_LEAST = 4, AMX_OWN_LEAST = 12,  /* rows from which tiles are used                      */
    AMX_AHEAD = 4096,                   /* bytes a stream of weights is asked for ahead        */
};

/* Sixteen rows' terms [0, k) to `blocks` tiles; rows past `rows` and terms past k are +0. */
static void amx_tiles_of(const f32 *x, u64 stride, u32 rows, u32 k, u32 blocks, u8 *to)
{
    static const u16 high[LEVEL_BLOCK] = {
        1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47,
        49, 51, 53, 55, 57, 59, 61, 63,
    };
    __m512i halves = _mm512_loadu_si512(high);
    for (u32 r = 0; r < TILE_ROWS; r++) {
        const f32 *from = x + r * stride;
        u8 *line = to + r * TILE_LINE;
        for (u32 b = 0; b < blocks; b++, line += TILE_BYTES) {
            u32 t = b * LEVEL_BLOCK, live = r >= rows || t >= k ? 0 : MIN(k - t, 32u);
            u32 mask = live == 32 ? UINT32_MAX : (1u << live) - 1;
            __m512i a = _mm512_maskz_loadu_epi32((__mmask16)mask, from + t);
            __m512i c = _mm512_maskz_loadu_epi32((__mmask16)(mask >> 16), from + t + 16);
            _mm512_storeu_si512(line, _mm512_permutex2var_epi16(a, halves, c));
        }
    }
}

/* ---- a product's activations ----------------------------------------------------------------- */

static u64 amx_row_bytes(u32 k)
{
    return ALIGN_UP(k, LEVEL_BLOCK) * sizeof(bf16);
}

static u64 amx_ready_bytes(u32 rows, u32 k, bool reference)
{
    return reference || rows < AMX_LEAST ? 0 : ALIGN_UP(rows, TILE_ROWS) * amx_row_bytes(k);
}

static void amx_ready(const struct ops_product *p, u32 lo, u32 hi, bool reference)
{
    u32 k = p->w->k;
    (void)reference;
    amx_tiles_of((const f32 *)p->x + (u64)lo * k, k, hi - lo, k,
                 (k + LEVEL_BLOCK - 1) / LEVEL_BLOCK, (u8 *)p->work + lo * amx_row_bytes(k));
}

/* What product_strip says, of activations that are tiles. */
struct amx_strip {
    const u8  *w;                       /* BF16 tiles, or NULL:                                */
    const struct ops_matrix *packed;    /* a matrix that keeps a block format, from tile       */
    u32        tile;                    /* column `tile` on                                    */
    f32       *y;
    u64        tile_bytes, y_stride;
    u32        rows, columns, live, k;
    bool       round, stream;
};

/* ---- a block of sums ------------------------------------------------------------------------- */

/* Rows' tiles a, a + a_step by columns' tiles w, w + w_step, over `blocks` blocks: tiles 0 (and 1)
 * hold the first column tile's sums, 2 (and 3) the second's.  `rows`, `tiles`: constants, 1 or 2.
 */
VEC_FN void amx_blocks(u32 rows, u32 tiles, const u8 *a, u64 a_step, const u8 *w, u64 w_step,
                       u32 blocks, bool ahead)
{
    for (u32 b = 0; b < blocks; b++, a += TILE_BYTES, w += TILE_BYTES) {
        if (ahead)
            for (u32 c = 0; c < tiles; c++)
                for (u32 i = 0; i < TILE_BYTES; i += PRODUCT_LINE)
                    __builtin_prefetch(w + c * w_step + AMX_AHEAD + i);
        TILE_LOAD(6, w);
        TILE_LOAD(4, a);
        TILE_DOT(0, 4, 6);
        if (rows > 1) {
            TILE_LOAD(5, a + a_step);
            TILE_DOT(1, 5, 6);
        }
        if (tiles > 1) {
            TILE_LOAD(7, w + w_step);
            TILE_DOT(2, 4, 7);
            if (rows > 1) TILE_DOT(3, 5, 7);
        }
    }
}

/* Blocks [lo, hi) of a strip's K for one block of tiles; between ranges the sums stand at `s`,
 * [column tile][row tile]. */
struct amx_range {
    const u8 *a, *w;                    /* at block lo                                         */
    u64  a_step, w_step;
    u32  lo, hi, live;                  /* live: as in the strip                                 */
    bool ahead;
    u8  *s;
};

VEC_FN void amx_walk(u32 rows, u32 tiles, const struct amx_range *g)
{
    u32 full = MIN(g->live / LEVEL_BLOCK, g->hi), left = g->live % LEVEL_BLOCK, done = g->hi;
    u64 at = (u64)(full - g->lo) * TILE_BYTES;
    if (g->lo == 0) {
        TILE_ZERO(0);
        if (rows > 1) TILE_ZERO(1);
        if (tiles > 1) TILE_ZERO(2);
        if (rows > 1 && tiles > 1) TILE_ZERO(3);
    } else {
        TILE_LOAD(0, g->s);
        if (rows > 1) TILE_LOAD(1, g->s + TILE_BYTES);
        if (tiles > 1) TILE_LOAD(2, g->s + 2 * TILE_BYTES);
        if (rows > 1 && tiles > 1) TILE_LOAD(3, g->s + 3 * TILE_BYTES);
    }
    if (full > g->lo) {
        amx_blocks(rows, tiles, g->a, g->a_step, g->w, g->w_step, full - g->lo, g->ahead);
    }
    if (full >= g->lo && full < g->hi) {            /* the last terms, then blocks of zeros    */
        u8 masked[2][TILE_BYTES];
        for (u32 i = 0; i < tiles; i++)
            product_mask_tile(g->w + i * g->w_step + at, left, masked[i], false);
        amx_blocks(rows, tiles, g->a + at, g->a_step, masked[0], TILE_BYTES, 1, false);
        done = full + 1;
    }
    if (done < g->hi && done == full + 1) {
        static const u8 zeros[TILE_BYTES];
        amx_blocks(rows, tiles, zeros, 0, zeros, 0, 1, false);
    }
    TILE_STORE(0, g->s);
    if (rows > 1) TILE_STORE(1, g->s + TILE_BYTES);
    if (tiles > 1) TILE_STORE(2, g->s + 2 * TILE_BYTES);
    if (rows > 1 && tiles > 1) TILE_STORE(3, g->s + 3 * TILE_BYTES);
}

typedef void amx_kernel(const struct amx_range *g);
#define AMX_CASE(rows, tiles)                                                                  \
    static __attribute__((noinline)) void amx_##rows##x##tiles(const struct amx_range *g)      \
    { amx_walk(rows, tiles, g); }
AMX_CASE(1, 1) AMX_CASE(1, 2) AMX_CASE(2, 1) AMX_CASE(2, 2)
static amx_kernel *const amx_kernels[2][2] = { { amx_1x1, amx_1x2 }, { amx_2x1, amx_2x2 } };

/* Rows [r, r + rows) of column tiles [c, c + tiles): sums at `s` to y. */
static void amx_put(const struct amx_strip *p, u32 r, u32 rows, u32 c, u32 tiles, const u8 *s)
{
    __m512i one = _mm512_set1_epi32(1), half = _mm512_set1_epi32(0x7fff);
    for (u32 j = 0; j < tiles; j++) {
        u32 column = (c + j) * LEVEL_COLUMNS, left = p->columns - column;
        u32 all = left >= LEVEL_COLUMNS ? 0xffffu : (1u << left) - 1;
        __mmask16 mask = (__mmask16)all;
        f32 *y = p->y + r * p->y_stride + column;
        for (u32 i = 0; i < rows; i++, y += p->y_stride) {
            const u8 *line = s + (j * 2 + i / TILE_ROWS) * TILE_BYTES + i % TILE_ROWS * TILE_LINE;
            __m512i v = _mm512_loadu_si512(line);
            if (p->round) {             /* maths_round_bf16 of sixteen                         */
                __m512 f = _mm512_castsi512_ps(v);
                __mmask16 nan = _mm512_cmp_ps_mask(f, f, _CMP_UNORD_Q);
                __m512i odd = _mm512_and_si512(_mm512_srli_epi32(v, 16), one);
                __m512i even = _mm512_add_epi32(v, _mm512_add_epi32(odd, half));
                v = _mm512_mask_or_epi32(even, nan, v, _mm512_set1_epi32(0x00400000));
                v = _mm512_and_si512(v, _mm512_set1_epi32((i32)0xffff0000u));
            }
            _mm512_mask_storeu_epi32(y, mask, v);
        }
    }
}

/* ---- a strip --------------------------------------------------------------------------------- */

/* Rows [r0, r1), at most AMX_ROWS, of column tiles [c0, c1), at most AMX_COLUMNS; `a`: tiles of row
 * r0.  A long K goes in chunks, outside of columns and rows: their tiles stay in L2.  A matrix that
 * keeps a block format is expanded a chunk of two column tiles at a time. */
static void amx_panel(const struct amx_strip *p, const u8 *a, u32 r0, u32 r1, u32 c0, u32 c1)
{
    enum { PAIRS = AMX_ROWS / TILE_ROWS / 2 };
    _Alignas(64) u8 sums[AMX_COLUMNS / 2 * PAIRS][4 * TILE_BYTES];
    _Alignas(64) u8 expanded[2][AMX_CHUNK * TILE_BYTES];
    u32 blocks = (p->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK, hi;
    u32 chunk = blocks <= AMX_CHUNK_MOST && !p->packed ? blocks : AMX_CHUNK;
    u32 pairs = (r1 - r0 + 2 * TILE_ROWS - 1) / (2 * TILE_ROWS);
    u32 across = p->stream && p->rows <= TILE_ROWS ? 1 : 2;
    struct amx_range g = { .w_step = p->packed ? sizeof expanded[0] : p->tile_bytes,
                           .a_step = (u64)blocks * TILE_BYTES, .live = p->live };
    for (g.lo = 0; g.lo < blocks; g.lo = hi) {
        g.hi = hi = MIN(g.lo + chunk, blocks);
        for (u32 c = c0; c < c1; c += across) {
            u32 tiles = MIN(c1 - c, across);
            if (p->packed)
                for (u32 i = 0; i < tiles; i++)
                    level_expand(p->packed, p->tile + c + i, g.lo, hi, expanded[i]);
            g.w = p->packed ? expanded[0] : p->w + c * p->tile_bytes + g.lo * (u64)TILE_BYTES;
            for (u32 r = r0, pair = 0; r < r1; r += 2 * TILE_ROWS, pair++) {
                u32 rows = MIN(r1 - r, 2u * TILE_ROWS);
                g.a = a + pair * 2 * g.a_step + g.lo * (u64)TILE_BYTES;
                g.ahead = p->stream && r == r0;
                g.s = sums[chunk == blocks ? 0 : (c - c0) / across * pairs + pair];
                amx_kernels[rows > TILE_ROWS][tiles > 1](&g);
                if (hi == blocks) amx_put(p, r, rows, c, tiles, g.s);
            }
        }
    }
}

/* Columns of tiles [tile_lo, tile_hi) of rows [lo, hi), made ready before. */
static void amx_product(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi,
                        bool reference)
{
    u32 n = p->w->n, k = p->w->k, first = tile_lo * LEVEL_COLUMNS;
    u64 tile_bytes = pack_bytes(LEVEL_COLUMNS, k, false);
    bool packed = format_rows[p->w->format].tile_bytes > 0;
    if (reference || hi - lo < AMX_LEAST) {
        level_product(p, lo, hi, tile_lo, tile_hi, reference);
        return;
    }
    struct amx_strip strip = {
        .w = packed ? NULL : p->w->packed + tile_lo * tile_bytes, .tile_bytes = tile_bytes,
        .packed = packed ? p->w : NULL, .tile = tile_lo,
        .y = (f32 *)p->y + (u64)lo * n + first, .y_stride = n,
        .rows = hi - lo, .columns = MIN(tile_hi * LEVEL_COLUMNS, n) - first, .live = k, .k = k,
        .round = !p->y_f32, .stream = !packed,
    };
    u32 tiles = tile_hi - tile_lo;
    tile_open();
    for (u32 r = 0; r < strip.rows; r += AMX_ROWS)
        for (u32 c = 0; c < tiles; c += AMX_COLUMNS)
            amx_panel(&strip, (const u8 *)p->work + (lo + r) * amx_row_bytes(k), r,
                      MIN(r + AMX_ROWS, strip.rows), c, MIN(c + AMX_COLUMNS, tiles));
    tile_close();
}

static u64 amx_probe(u32 rounds)
{
    tile_open();
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    TILE_ZERO(4);
    TILE_ZERO(5);
    TILE_ZERO(6);
    TILE_ZERO(7);
    for (u32 r = 0; r < rounds; r++) {
        TILE_DOT(0, 4, 6);
        TILE_DOT(1, 5, 6);
        TILE_DOT(2, 4, 7);
        TILE_DOT(3, 5, 7);
    }
    tile_close();
    return 2ull * 4 * TILE_ROWS * LEVEL_TILE * rounds;
}

/* A strip of attention, its activations made ready here some rows at a time: rows outside.  False:
 * it is left to the chains in vector registers. */
static bool amx_run(const struct product_strip *p)
{
    u32 tiles = (p->columns + LEVEL_COLUMNS - 1) / LEVEL_COLUMNS;
    u32 blocks = (p->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK;
    if (p->wide || p->resume || p->stream || p->rows < AMX_OWN_LEAST || blocks > AMX_OWN_BLOCKS)
        return false;
    _Alignas(64) u8 own[AMX_OWN_ROWS / TILE_ROWS * AMX_OWN_BLOCKS][TILE_BYTES];
    struct amx_strip strip = {
        .w = p->w, .tile_bytes = p->tile_bytes, .y = p->y, .y_stride = p->y_stride,
        .rows = p->rows, .columns = p->columns, .live = p->live, .k = p->k, .round = p->round,
    };
    tile_open();
    for (u32 r = 0; r < p->rows; r += AMX_OWN_ROWS) {
        u32 hi = MIN(r + AMX_OWN_ROWS, p->rows);
        for (u32 i = r; i < hi; i += TILE_ROWS)
            amx_tiles_of(p->x + i * p->x_stride, p->x_stride, hi - i, p->live, blocks,
                         own[(i - r) / TILE_ROWS * blocks]);
        for (u32 c = 0; c < tiles; c += AMX_COLUMNS)
            amx_panel(&strip, own[0], r, hi, c, MIN(c + AMX_COLUMNS, tiles));
    }
    tile_close();
    return true;
}

#endif
