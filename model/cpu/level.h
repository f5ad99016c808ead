/* model/cpu/level.h - one row a level: every operation of ops.h over a range of its outputs.
 *
 * cpu.c splits an operation's outputs into tasks and calls the level's function for each; a range
 * never splits a sum.  `scalar_level` is the readable reference; the others give its bits.
 * `reference` is the mode (R(x) = x, stores F32).  Activations are f32, R()-rounded. */
#ifndef MODEL_CPU_LEVEL_H
#define MODEL_CPU_LEVEL_H

#include "model/ops.h"

enum {
    LEVEL_COLUMNS = 16,                     /* columns of a packed tile                        */
    LEVEL_BLOCK = 32,                       /* terms of a block of order32, and of a tile      */
    LEVEL_TILE = LEVEL_COLUMNS * LEVEL_BLOCK,
    LEVEL_READY_ROWS = 16,                  /* rows of activations made ready together         */
};

/* Added and taken off again, a value under 2^22 becomes the nearest integer, ties to even. */
#define LEVEL_RINT 0x1.8p+23f

/* The work memory of `gdn`: [rows][...] f32 each. */
struct level_gdn_work {
    f32 *q, *k;                             /* [rows, hk, dk], unit norm; q scaled by dk^-0.5  */
    f32 *beta, *decay;                      /* [rows, hv]; decay = exp(g)                      */
    f32 *o;                                 /* [rows, hv, dv]                                  */
};

/* Parts of `count` tiles of one head of one row, `stride` values apart; `sum` is like a part. */
struct level_parts {
    const f32 *part;
    u64  stride;
    u32  count;
    bool first, last;                       /* sum is still empty; y is made of it at the end  */
    f32 *sum;
};

/* Activations of the integer arithmetic in p->work, rows one after another: k is whole blocks.
 * Sums of q begin where weights that are stored with an offset ask for it. */
struct level_int8 {
    i8  *q;                                 /* [rows, k]                                       */
    f32 *d;                                 /* [rows, k / 32]                                  */
    i32 *sum;                               /* [rows, k / 32] of q, times -128: weights + 128  */
    i32 *eighth;                            /* times -8: codes of Q4_0                         */
    i32 *half;                              /* [rows, k / 16] times -32: codes of Q6_K         */
    f32 *least;                             /* [rows, k / 32] of q, times -d: what Q4_K and
                                             * Q5_K take off                                   */
};

static inline u64 level_int8_bytes(u64 rows, u64 k)
{
    return ALIGN_UP(rows * k, 64) + 6 * ALIGN_UP(rows * k / LEVEL_BLOCK * 4, 64);
}

static inline struct level_int8 level_int8_at(const struct ops_product *p)
{
    u64 bytes = (u64)p->rows * p->w->k, each = ALIGN_UP(bytes / LEVEL_BLOCK * 4, 64);
    u8 *d = (u8 *)p->work + ALIGN_UP(bytes, 64);
    return (struct level_int8){
        .q = p->work, .d = (f32 *)(void *)d, .sum = (i32 *)(void *)(d + each),
        .eighth = (i32 *)(void *)(d + 2 * each), .least = (f32 *)(void *)(d + 3 * each),
        .half = (i32 *)(void *)(d + 4 * each),
    };
}

struct cpu_level {
    const char *name;
    /* Bytes of p->work, and rows of p->x made ready in it before any column of them is computed;
     * the row range is whole blocks of LEVEL_READY_ROWS but for the end.  NULL: nothing to do. */
    u64  (*ready_bytes)(u32 rows, u32 k, bool reference);
    void (*ready)(const struct ops_product *p, u32 lo, u32 hi, bool reference);
    /* Columns of tiles [tile_lo, tile_hi) of rows [lo, hi). */
    void (*product)(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi,
                    bool reference);
    /* Tile column `tile`, blocks [lo, hi), of a matrix that keeps a block format (format.h) as the
     * BF16 tiles of pack.h, 1 KiB a block: `product` reads such matrices through it. */
    void (*expand)(const struct ops_matrix *w, u32 tile, u32 lo, u32 hi, u8 *out);
    /* The integer arithmetic (w->int8): rows made ready, and columns. */
    void (*int8_ready)(const struct ops_product *p, u32 lo, u32 hi);
    void (*int8_product)(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi);
    /* Independent steps of the product's unit in registers alone, `rounds` times: what the machine
     * can do at most.  Returns multiplications and additions.  NULL: not measured. */
    u64  (*probe)(u32 rounds);
    void (*rms_norm)(const f32 *x, const f32 *scale, f32 *y, u32 rows, u32 n, f32 eps,
                     bool reference);
    void (*residual)(f32 *x, const f32 *y, u64 count, bool reference);
    void (*glu)(const f32 *g, const f32 *u, f32 *y, u64 count, bool reference);
    /* Rows [lo, hi) of one span. */
    void (*attn_rows)(const struct ops_attn_rows *p, const struct ops_span *span, u32 lo, u32 hi,
                      bool reference);
    /* Bytes of work memory a thread needs for `attn`. */
    u64  (*attn_bytes)(u32 heads, u32 d, u32 block_rows);
    /* Rows [lo, hi) of one span for the query heads of kv head `group`. */
    void (*attn)(const struct ops_attn *p, const struct ops_span *span, u32 group, u32 lo, u32 hi,
                 u8 *work, bool reference);
    /* One tile of keys for one row: the part of each query head of kv head `group`, f32 [2 + d]
     * a head: maximum, sum, weighted values.  For long contexts over few rows. */
    void (*attn_part)(const struct ops_attn *p, const struct ops_span *span, u32 group, u32 row,
                      u64 tile, u8 *work, f32 *part, bool reference);
    /* Parts of consecutive tiles joined left to right to the row's head's sum. */
    void (*attn_join)(const struct ops_attn *p, u32 row, u32 head, const struct level_parts *parts,
                      bool reference);
    /* Channels [c_lo, c_hi) of all rows of one span; their tail is updated. */
    void (*conv)(const struct ops_conv *p, const struct ops_span *span, u32 c_lo, u32 c_hi,
                 bool reference);
    void (*gdn_gates)(const struct ops_gdn *p, const struct level_gdn_work *work, u32 lo, u32 hi);
    /* All rows of one span for value columns [v_lo, v_hi) of value head `head`. */
    void (*gdn_rule)(const struct ops_gdn *p, const struct level_gdn_work *work,
                     const struct ops_span *span, u32 head, u32 v_lo, u32 v_hi);
    void (*gdn_out)(const struct ops_gdn *p, const struct level_gdn_work *work, u32 lo, u32 hi,
                    bool reference);
};

extern const struct cpu_level scalar_level;
#if defined(__x86_64__)
extern const struct cpu_level avx2_level, avx512_level, amx_level;
#elif defined(__aarch64__)
extern const struct cpu_level neon_level;
#endif

#endif
