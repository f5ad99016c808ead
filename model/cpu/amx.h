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
    AMX_ROWS = 512,                     /* rows of a panel: their tiles stay in L2             */
    AMX_CHUNK_ROWS = 256,               /* where K goes in chunks                              */
    AMX_COLUMNS = 16,                   /* column tiles of a panel                             */
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

/* Blocks of K walked in one go: all, unless K is long. */
static u32 amx_chunk(const struct amx_strip *p)
{
    u32 blocks = (p->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK;
    return blocks <= AMX_CHUNK_MOST ? blocks : AMX_CHUNK;
}

/* ---- a block of sums ------------------------------------------------------------------------- */

/* Sums of rows [r, r + rows) and column tiles [c, c + tiles) that wait at `s`, [column tile][row
 * tile], to be put to y: a row at a time between the tile instructions of the next block. */
struct amx_sums { const u8 *s; u32 r, rows, c, tiles; };

VEC_FN void amx_put(const struct amx_strip *p, const struct amx_sums *from, u32 i)
{
    u32 column = from->c * LEVEL_COLUMNS;
    f32 *y = p->y + (from->r + i) * p->y_stride + column;
    const u8 *line = from->s + i / TILE_ROWS * TILE_BYTES + i % TILE_ROWS * TILE_LINE;
    for (u32 j = 0; j < from->tiles; j++) {
        u32 left = p->columns - column - j * LEVEL_COLUMNS;
        u32 all = left >= LEVEL_COLUMNS ? 0xffffu : (1u << left) - 1;
        __mmask16 mask = (__mmask16)all;
        __m512i v = _mm512_loadu_si512(line + j * 2 * TILE_BYTES);
        if (p->round) {                 /* maths_round_bf16 of sixteen                         */
            __m512 f = _mm512_castsi512_ps(v);
            __mmask16 nan = _mm512_cmp_ps_mask(f, f, _CMP_UNORD_Q);
            __m512i odd = _mm512_and_si512(_mm512_srli_epi32(v, 16), _mm512_set1_epi32(1));
            __m512i even = _mm512_add_epi32(v, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
            v = _mm512_mask_or_epi32(even, nan, v, _mm512_set1_epi32(0x00400000));
            v = _mm512_and_si512(v, _mm512_set1_epi32((i32)0xffff0000u));
        }
        _mm512_mask_storeu_epi32(y + j * LEVEL_COLUMNS, mask, v);
    }
}

/* Blocks [lo, hi) of a strip's K for one block of tiles; between ranges the sums stand at own.s. */
struct amx_range {
    const struct amx_strip *p;
    const u8 *a, *w;                    /* at block lo                                         */
    u64  a_step, w_step;
    u32  lo, hi;
    struct amx_sums own;
    struct amx_sums wait;               /* put to y meanwhile; rows 0: none                    */
    const u8 *next;                     /* weights read after: `lines` lines a block are asked */
    u32  lines;                         /* for                                                 */
    u32  turn;                          /* which of two slots comes next                       */
};

/* Rows' tiles a, a + a_step by columns' tiles w, w + w_step, over `blocks` blocks: tiles 0 (and 1)
 * hold the first column tile's sums, 2 (and 3) the second's.  `rows`, `tiles`: constants, 1 or 2.
 * Returns how many rows of g->wait were put. */
VEC_FN u32 amx_blocks(u32 rows, u32 tiles, const struct amx_range *g, u32 blocks)
{
    const struct amx_strip *p = g->p;
    const u8 *a = g->a, *w = g->w, *next = g->next;
    f32 *y = p->y + g->own.r * p->y_stride + g->own.c * LEVEL_COLUMNS;
    for (u32 b = 0; b < blocks; b++, a += TILE_BYTES, w += TILE_BYTES) {
        TILE_LOAD(6, w);
        TILE_LOAD(4, a);
        TILE_DOT(0, 4, 6);
        if (rows > 1) {
            TILE_LOAD(5, a + g->a_step);
            TILE_DOT(1, 5, 6);
        }
        if (tiles > 1) {
            TILE_LOAD(7, w + g->w_step);
            TILE_DOT(2, 4, 7);
            if (rows > 1) TILE_DOT(3, 5, 7);
        }
        for (u32 i = 0; i < g->lines; i++, next += PRODUCT_LINE) __builtin_prefetch(next, 0, 2);
        if (b < g->own.rows) {          /* where the sums will go                              */
            __builtin_prefetch(y + b * p->y_stride, 1);
            __builtin_prefetch(y + b * p->y_stride + LEVEL_COLUMNS, 1);
        }
        if (b < g->wait.rows) amx_put(p, &g->wait, b);
    }
    return MIN(blocks, g->wait.rows);
}

/* One block of 32 terms of which those from `left` on are +0, of all columns' tiles. */
VEC_FN void amx_last(u32 rows, u32 tiles, const u8 *a, u64 a_step, const u8 *w, u64 w_step,
                     u32 left)
{
    u8 masked[2][TILE_BYTES];
    for (u32 i = 0; i < tiles; i++) product_mask_tile(w + i * w_step, left, masked[i], false);
    TILE_LOAD(6, masked[0]);
    TILE_LOAD(4, a);
    TILE_DOT(0, 4, 6);
    if (tiles > 1) {
        TILE_LOAD(7, masked[1]);
        TILE_DOT(2, 4, 7);
    }
    if (rows > 1) {
        TILE_LOAD(5, a + a_step);
        TILE_DOT(1, 5, 6);
        if (tiles > 1) TILE_DOT(3, 5, 7);
    }
}

VEC_FN void amx_walk(u32 rows, u32 tiles, const struct amx_range *g)
{
    u32 live = g->p->live, full = MIN(live / LEVEL_BLOCK, g->hi), put = 0;
    u8 *s = (u8 *)(uintptr_t)g->own.s;
    if (g->lo == 0) {
        TILE_ZERO(0);
        if (rows > 1) TILE_ZERO(1);
        if (tiles > 1) TILE_ZERO(2);
        if (rows > 1 && tiles > 1) TILE_ZERO(3);
    } else {
        TILE_LOAD(0, s);
        if (rows > 1) TILE_LOAD(1, s + TILE_BYTES);
        if (tiles > 1) TILE_LOAD(2, s + 2 * TILE_BYTES);
        if (rows > 1 && tiles > 1) TILE_LOAD(3, s + 3 * TILE_BYTES);
    }
    if (full > g->lo) put = amx_blocks(rows, tiles, g, full - g->lo);
    if (full >= g->lo && full < g->hi) {            /* the last terms, then blocks of zeros    */
        u64 at = (u64)(full - g->lo) * TILE_BYTES;
        amx_last(rows, tiles, g->a + at, g->a_step, g->w + at, g->w_step, live % LEVEL_BLOCK);
        if (full + 1 < g->hi) amx_last(rows, tiles, g->a, g->a_step, g->w, g->w_step, 0);
    }
    TILE_STORE(0, s);
    if (rows > 1) TILE_STORE(1, s + TILE_BYTES);
    if (tiles > 1) TILE_STORE(2, s + 2 * TILE_BYTES);
    if (rows > 1 && tiles > 1) TILE_STORE(3, s + 3 * TILE_BYTES);
    for (; put < g->wait.rows; put++) amx_put(g->p, &g->wait, put);
}

typedef void amx_kernel(const struct amx_range *g);
#define AMX_CASE(rows, tiles)                                                                  \
    static __attribute__((noinline)) void amx_##rows##x##tiles(const struct amx_range *g)      \
    { amx_walk(rows, tiles, g); }
AMX_CASE(1, 1) AMX_CASE(1, 2) AMX_CASE(2, 1) AMX_CASE(2, 2)
static amx_kernel *const amx_kernels[2][2] = { { amx_1x1, amx_1x2 }, { amx_2x1, amx_2x2 } };

/* ---- a strip --------------------------------------------------------------------------------- */

/* Rows [r0, r1) of column tiles [c0, c1) of one panel: at most AMX_ROWS by AMX_COLUMNS, of a long K
 * AMX_CHUNK_ROWS. */
struct amx_panel { const u8 *a; u32 r0, r1, c0, c1; };     /* a: tiles of row r0               */

/* All row pairs of column tiles [c, c + tiles) over blocks [g->lo, g->hi); `sums`: a slot each, or
 * two in turn.  The weights of the columns after are asked for meanwhile; `first`: nobody asked for
 * these. */
static void amx_pairs(struct amx_range *g, const struct amx_panel *n, u32 c, u32 tiles, bool turns,
                      u8 (*sums)[4 * TILE_BYTES], bool first)
{
    const struct amx_strip *p = g->p;
    u32 blocks = (p->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK, across = n->r1 - n->r0 > TILE_ROWS ? 2 : 1;
    u32 pairs = (n->r1 - n->r0 + 2 * TILE_ROWS - 1) / (2 * TILE_ROWS);
    bool last = g->hi == blocks, more = p->stream && c + tiles < n->c1 && last && g->lo == 0;
    for (u32 pair = 0; pair < pairs; pair++) {
        u32 r = n->r0 + pair * 2 * TILE_ROWS;
        g->a = n->a + pair * 2 * g->a_step + g->lo * (u64)TILE_BYTES;
        g->own = (struct amx_sums){ sums[turns ? g->turn++ % 2 : pair], r,
                                    MIN(n->r1 - r, 2u * TILE_ROWS), c, tiles };
        g->lines = more ? (TILE_ROWS * across + pairs - 1) / pairs : 0;
        g->next = g->w + tiles * g->w_step + (u64)pair * g->lines * blocks * PRODUCT_LINE;
        if (first && pair == 0 && p->stream) {
            g->lines = TILE_ROWS * tiles;
            g->next = g->w + AMX_AHEAD;
        }
        amx_kernels[g->own.rows > TILE_ROWS][tiles > 1](g);
        g->wait = last ? g->own : (struct amx_sums){ 0 };
    }
}

/* A long K goes in chunks, outside of columns and rows: their tiles stay in L2.  A matrix that
 * keeps a block format is expanded a chunk of two column tiles at a time, once for all rows of the
 * panel, and those are all of a task (cpu.c): more than L2 holds would save expansions, but read
 * their activations from L3 for each of its tasks. */
static void amx_panel(const struct amx_strip *p, const struct amx_panel *n)
{
    enum { SLOTS = AMX_COLUMNS / 2 * (AMX_CHUNK_ROWS / TILE_ROWS / 2) };
    _Alignas(64) u8 sums[SLOTS][4 * TILE_BYTES];
    _Alignas(64) u8 expanded[2][AMX_CHUNK_MOST * TILE_BYTES];
    u32 blocks = (p->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK, hi;
    u32 chunk = amx_chunk(p);
    u32 pairs = (n->r1 - n->r0 + 2 * TILE_ROWS - 1) / (2 * TILE_ROWS);
    u32 across = p->stream && n->r1 - n->r0 <= TILE_ROWS ? 1 : 2;
    struct amx_range g = { .p = p, .w_step = p->packed ? sizeof expanded[0] : p->tile_bytes,
                           .a_step = (u64)blocks * TILE_BYTES };
    for (g.lo = 0; g.lo < blocks; g.lo = hi) {
        g.hi = hi = MIN(g.lo + chunk, blocks);
        for (u32 c = n->c0; c < n->c1; c += across) {
            u32 tiles = MIN(n->c1 - c, across), slot = (c - n->c0) / across * pairs;
            if (p->packed)
                for (u32 i = 0; i < tiles; i++)
                    level_expand(p->packed, p->tile + c + i, g.lo, hi, expanded[i]);
            g.w = p->packed ? expanded[0] : p->w + c * p->tile_bytes + g.lo * (u64)TILE_BYTES;
            if (chunk == blocks) amx_pairs(&g, n, c, tiles, true, sums, c == n->c0);
            else amx_pairs(&g, n, c, tiles, false, sums + slot, true);
        }
    }
    for (u32 i = 0; i < g.wait.rows; i++) amx_put(p, &g.wait, i);
}

/* All of a strip whose activations are tiles at `a`. */
static void amx_strip_run(const struct amx_strip *p, const u8 *a)
{
    u32 tiles = (p->columns + LEVEL_COLUMNS - 1) / LEVEL_COLUMNS;
    u32 blocks = (p->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK;
    u32 rows = amx_chunk(p) == blocks ? AMX_ROWS : AMX_CHUNK_ROWS;
    for (u32 r = 0; r < p->rows; r += rows)
        for (u32 c = 0; c < tiles; c += AMX_COLUMNS)
            amx_panel(p, &(struct amx_panel){ a + r * amx_row_bytes(p->k), r,
                                              MIN(r + rows, p->rows), c,
                                              MIN(c + AMX_COLUMNS, tiles) });
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
    tile_open_whole();
    amx_strip_run(&strip, (const u8 *)p->work + lo * amx_row_bytes(k));
    tile_close();
}

static u64 amx_probe(u32 rounds)
{
    tile_open_whole();
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
    u32 blocks = (p->k + LEVEL_BLOCK - 1) / LEVEL_BLOCK;
    if (p->wide || p->resume || p->stream || p->rows < AMX_OWN_LEAST || blocks > AMX_OWN_BLOCKS)
        return false;
    _Alignas(64) u8 own[AMX_OWN_ROWS / TILE_ROWS * AMX_OWN_BLOCKS][TILE_BYTES];
    tile_open_whole();
    for (u32 r = 0; r < p->rows; r += AMX_OWN_ROWS) {
        struct amx_strip strip = {
            .w = p->w, .tile_bytes = p->tile_bytes, .y = p->y + r * p->y_stride,
            .y_stride = p->y_stride, .rows = MIN(p->rows - r, (u32)AMX_OWN_ROWS),
            .columns = p->columns, .live = p->live, .k = p->k, .round = p->round,
        };
        for (u32 i = 0; i < strip.rows; i += TILE_ROWS)
            amx_tiles_of(p->x + (r + i) * p->x_stride, p->x_stride, strip.rows - i, p->live,
                         blocks, own[i / TILE_ROWS * blocks]);
        amx_strip_run(&strip, own[0]);
    }
    tile_close();
    return true;
}

#endif
