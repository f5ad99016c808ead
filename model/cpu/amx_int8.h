/* model/cpu/amx_int8.h - the integer arithmetic of ops.h by AMX: one tile instruction is one block
 * of 32 terms for 16 rows and 16 columns.
 *
 * Rows are loaded as they lie (level_int8): 32 bytes of each, a row of activations apart; weights
 * are a Q8_0 tile as it lies (format.h), eight lines of four terms by sixteen columns.  Both are
 * signed, sums are exact.  They leave the tile through L1, some blocks ahead of their use, and each
 * is converted and added as in int8.h: s + f32(sum) * (d_x * d_w), s of all rows in registers.
 * Of the VNNI text's 12 vector instructions for 16 sums and a block, 8 are left to the tiles. */
#ifndef MODEL_CPU_AMX_INT8_H
#define MODEL_CPU_AMX_INT8_H

#include "model/cpu/amx.h"
#include "model/cpu/format.h"
#include "model/cpu/vnni.h"

enum {
    AMX_INT8_LEAST = 13,                /* rows from which tiles are used: up to there VNNI's
                                         * streams (int8.h) wait for the weights               */
    AMX_INT8_SLOTS = 4,                 /* blocks of sums in L1: one in use, the rest ahead    */
    AMX_INT8_HEAD = 32, AMX_INT8_LINES = 8,     /* of a block of weights                       */
    AMX_INT8_AHEAD = 8192,              /* bytes the first rows ask for weights ahead          */
};

/* Rows' sums are to stand in registers: gcc must be told, clang, told, unrolls too late. */
#if defined(__clang__)
#define AMX_INT8_UNROLL
#else
#define AMX_INT8_UNROLL _Pragma("GCC unroll 16")
#endif

struct amx_int8 {
    struct level_int8 x;
    const u8 *w;                        /* the strip of a tile column                          */
    u32 blocks, rows;                   /* rows: of a tile                                     */
};

/* The sums of block b of the rows at x to `to`, a line a row.  Blocks take two sets of registers in
 * turn. */
VEC_FN void amx_int8_dot(const struct amx_int8 *i, const i8 *x, u32 b, u8 *to)
{
    u64 k = (u64)i->blocks * LEVEL_BLOCK;
    const i8 *a = x + (u64)b * LEVEL_BLOCK;
    const u8 *w = i->w + (u64)b * LEVEL_TILE;
    if (b % 2 == 0) {
        TILE_LOAD(4, w);
        TILE_LOAD_FROM(2, (const u8 *)a, k);
        TILE_ZERO(0);
        TILE_DOT_I8(0, 2, 4);
        TILE_STORE(0, to);
    } else {
        TILE_LOAD(5, w);
        TILE_LOAD_FROM(3, (const u8 *)a, k);
        TILE_ZERO(1);
        TILE_DOT_I8(1, 3, 5);
        TILE_STORE(1, to);
    }
}

/* A block's sums to s; d: the first row's scale of the block. */
VEC_FN void amx_int8_add(u32 rows, const u8 *sums, const f32 *d, u32 blocks, const u8 *head, vec *s)
{
    vec scale = vec_halves(head);
    AMX_INT8_UNROLL
    for (u32 r = 0; r < rows; r++) {
        vec both = vec_mul(vec_all(d[(u64)r * blocks]), scale);
        s[r] = vec_add(s[r], vec_mul(word_f32(word_load(sums + r * TILE_LINE)), both));
    }
}

/* Rows [r, r + rows) of a strip, sums to `out`, a line a row; `ahead`: nobody read the strip. */
VEC_FN void amx_int8_rows(const struct amx_int8 *i, u32 rows, u32 r, bool ahead, u8 *out)
{
    _Alignas(64) u8 sums[AMX_INT8_SLOTS][TILE_BYTES];
    const i8 *x = i->x.q + (u64)r * i->blocks * LEVEL_BLOCK;
    const f32 *d = i->x.d + (u64)r * i->blocks;
    const u8 *heads = i->w + (u64)i->blocks * LEVEL_TILE;
    vec s[TILE_ROWS];
    AMX_INT8_UNROLL
    for (u32 j = 0; j < rows; j++) s[j] = vec_zero();
    for (u32 b = 0; b < MIN(i->blocks, AMX_INT8_SLOTS - 1u); b++) amx_int8_dot(i, x, b, sums[b]);
    for (u32 b = 0; b < i->blocks; b++) {
        u32 next = b + AMX_INT8_SLOTS - 1;
        if (next < i->blocks) amx_int8_dot(i, x, next, sums[next % AMX_INT8_SLOTS]);
        for (u32 l = 0; ahead && l < AMX_INT8_LINES; l++)
            __builtin_prefetch(i->w + (u64)b * LEVEL_TILE + l * TILE_LINE + AMX_INT8_AHEAD);
        amx_int8_add(rows, sums[b % AMX_INT8_SLOTS], d + b, i->blocks,
                     heads + (u64)b * AMX_INT8_HEAD, s);
    }
    AMX_INT8_UNROLL
    for (u32 j = 0; j < rows; j++) vec_store((f32 *)(void *)(out + j * TILE_LINE), s[j]);
}

static __attribute__((noinline)) void amx_int8_whole(const struct amx_int8 *i, u32 r, bool ahead,
                                                     u8 *out)
{
    amx_int8_rows(i, TILE_ROWS, r, ahead, out);
}

static __attribute__((noinline)) void amx_int8_part(const struct amx_int8 *i, u32 r, bool ahead,
                                                    u8 *out)
{
    amx_int8_rows(i, i->rows, r, ahead, out);
}

/* Tiles of `rows` rows: sums in registers 0 and 1, activations in 2 and 3, weights in 4 and 5. */
static void amx_int8_open(u32 rows)
{
    struct tile_config config = { .palette = 1 };
    for (u32 t = 0; t < 6; t++) {
        config.rows[t] = (u8)(t < 4 ? rows : AMX_INT8_LINES);
        config.line_bytes[t] = t == 2 || t == 3 ? LEVEL_BLOCK : TILE_LINE;
    }
    tile_open(&config);
}

/* Columns of tiles [tile_lo, tile_hi) of rows [lo, hi), in tiles of equal rows; the last begins
 * earlier where they do not come out even, and computes some rows again.  Few rows and codes of 4
 * to 6 bits go by VNNI. */
static void amx_int8_product(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi)
{
    _Alignas(64) u8 out[TILE_BYTES];
    u32 n = p->w->n, first = tile_lo * LEVEL_COLUMNS, tiles = (hi - lo + TILE_ROWS - 1) / TILE_ROWS;
    if (hi - lo < AMX_INT8_LEAST || p->w->format != OPS_Q8_0) {
        vnni_product(p, lo, hi, tile_lo, tile_hi);
        return;
    }
    struct amx_int8 i = { .x = level_int8_at(p), .blocks = p->w->k / LEVEL_BLOCK,
                          .rows = (hi - lo + tiles - 1) / tiles };
    struct amx_strip to = {
        .y = (f32 *)p->y + first, .y_stride = n, .round = !p->y_f32,
        .columns = MIN(tile_hi * LEVEL_COLUMNS, n) - first,
    };
    amx_int8_open(i.rows);
    for (u32 c = 0; c < tile_hi - tile_lo; c++) {
        i.w = p->w->packed + (tile_lo + c) * format_strip_bytes(p->w->format, p->w->k);
        for (u32 t = 0; t < tiles; t++) {
            u32 r = MIN(lo + t * i.rows, hi - i.rows);
            (i.rows == TILE_ROWS ? amx_int8_whole : amx_int8_part)(&i, r, t == 0, out);
            struct amx_sums sums = { out, r, i.rows, c, 1 };
            for (u32 j = 0; j < i.rows; j++) amx_put(&to, &sums, j);
        }
    }
    tile_close();
}

#endif
