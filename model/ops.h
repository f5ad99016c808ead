/* model/ops.h - every mathematical operation of the forward pass, and the order of every sum.
 *
 * A backend fills one `struct ops`; model/forward.c calls nothing else.  Each operation gives a
 * row the same bits whatever rows, slots, chunks, threads or level compute it (row invariance);
 * model/cpu/scalar.c is the readable twin of this text and every level is compared with it by
 * memcmp.  Calls queue work in order on the backend's compute stream and return; `sync` waits.
 * Buffers are the caller's: activations in arena `scratch`, rows in `blocks`, sections in
 * `sections`, packed matrices in `weights`.  No operation allocates.
 *
 * Arithmetic (spec: design 3, models 15).  All values f32, round to nearest even, subnormal inputs
 * and results zero (FTZ, DAZ), no contraction; fma is one rounding.  R(x) is x rounded to BF16 in
 * the serving arithmetic and x itself in the reference mode (`ops.reference`).
 *
 * Activations ("act").  A buffer of `ops.act_bytes` a value whose values are R()-rounded; the CPU
 * keeps them as f32, a device may keep BF16: nobody but the backend looks inside.  "f32" buffers
 * are plain floats on every backend.  Stored rows (K, V, conv tails) take `ops.store_bytes` a
 * value: 2 (BF16) in serving, 4 (F32) in the reference mode.
 *
 * order32(a, b) over K terms, K padded with +0 to a multiple of 32: s = +0; for each block of 32:
 *   e = o = +0; for i = 0..15: e = fma(a[2i], b[2i], e), o = fma(a[2i+1], b[2i+1], o);
 *   s = s + (e + o).
 * sum16(x): lanes l = 0..15 at +0; for i = 0, 16, ..: lane_l += x[i+l] (padded with +0); then for
 *   w = 8, 4, 2, 1: lane_l += lane_{l+w}, l < w.  ss(x): the same with lane_l = fma(x, x, lane_l).
 * treeB(x_0..x_{B-1}): for w = B/2, B/4, .., 1: x_i += x_{i+w}, i < w.
 * int8(x, w), w in Q8_0: in each block b of 32 terms w_i = d_w q_w_i (the file's f16 and bytes) and
 *   m = max |x_i|, d_x = m / 127, q_x_i = x_i (1 / d_x) rounded to the nearest integer, ties to
 *   even; d_x = 0 or not finite: q_x_i = 0.  d_x stays f32.  s = +0; for b in order:
 *   s = s + (f32)(sum_i q_x_i q_w_i, exact) * (d_x d_w).  A NaN or infinity in x gives NaN.
 * int8(x, w), w in codes c_i of Q4_0, Q4_K, Q5_K, Q6_K, where --arithmetic asks for it: w_i =
 *   scale_h (c_i - z) - least with z = 8, 0, 0, 32, two halves h of a block in Q6_K, one elsewhere,
 *   least in Q4_K and Q5_K; scale_h, least as the file's block makes them in f32 (quant.h).  For b
 *   in order: for h: s = fma((f32)(sum_i q_x_i (c_i - z), exact), d_x scale_h, s); where there is a
 *   least: s = fma(-(d_x (f32)sum_i q_x_i), least, s). */
#ifndef MODEL_OPS_H
#define MODEL_OPS_H

#include "arena/base/err.h"

/* A run of rows of the batch that are consecutive tokens of one sequence. */
struct ops_span {
    u32 lo, hi;                 /* rows [lo, hi) of the batch                                 */
    u64 pos;                    /* position of row lo; rows before it exist in block_addr     */
    u8 *const *block_addr;      /* addresses of the sequence's blocks, covering [0, pos+hi-lo) */
    u8 *sections;               /* the sequence's current section set                         */
    bool hold;                  /* it is read and stays as it was: rows of a verification     */
};

enum ops_source {
    OPS_BF16, OPS_F16, OPS_F32, OPS_FP8_BLOCK,
    OPS_Q8_0, OPS_Q4_0, OPS_Q4_K, OPS_Q5_K, OPS_Q6_K,   /* GGUF blocks along k                */
    OPS_SOURCE_COUNT
};

/* Words of --arithmetic: each format's own (Q8_0 by integers, the others as BF16); R(x) = x and F32
 * everywhere; else bits of the formats that take the other of the two: BF16 of all, integers of all
 * that have them. */
enum ops_arithmetic {
    OPS_AUTO = 0, OPS_REFERENCE = 1,
    OPS_EXPANDED = 1 << OPS_Q8_0,
    OPS_INTEGERS = 1 << OPS_Q4_0 | 1 << OPS_Q4_K | 1 << OPS_Q5_K | 1 << OPS_Q6_K,
};

static inline bool ops_by_integers(enum ops_arithmetic arithmetic, enum ops_source type)
{
    if (arithmetic == OPS_REFERENCE || type < OPS_Q8_0) return false;
    return ((u32)arithmetic >> type & 1) != (type == OPS_Q8_0);
}

/* Heads that a file holds in tiled order and the model reads grouped: index i >= first is element
 * (i - first) % dim of head h = (i - first) / dim, which the file has as head
 * (h % each) * keys + h / each, each = values / keys.  keys 0: indices as they stand. */
struct ops_heads { u32 first, keys, values, dim; };

/* A matrix [n, k] packed by the backend (`pack`); read only.  `format`: BF16, F32 (the reference
 * mode), or the block format whose bits it keeps; `int8`: by the integer arithmetic. */
struct ops_matrix {
    const u8 *packed;
    u64       packed_bytes;
    u32       n, k;
    enum ops_source format;
    bool      int8;
    struct ops_heads cols;      /* where the scales of a block of columns are, keys 0: in place */
};

static inline u32 ops_heads_from(const struct ops_heads *o, u32 i)
{
    if (o->keys == 0 || i < o->first) return i;
    u32 each = o->values / o->keys, h = (i - o->first) / o->dim;
    return o->first + (h % each * o->keys + h / each) * o->dim + (i - o->first) % o->dim;
}

/* Rows [0, n) x [0, k) row-major as the file holds them.  FP8_BLOCK: e4m3 codes with `scale`
 * [ceil(n/128), ceil(k/128)] of BF16 or F32; a value is e4m3(code) * scale, then R.  GGUF blocks:
 * the block's value in f32 (model/cpu/quant.h), then R; Q8_0 by default by the integer rule, others
 * where asked. */
struct ops_pack_source {
    const u8       *data;
    enum ops_source type;
    const u8       *scale;
    enum ops_source scale_type;
    u32             n, k;
    struct ops_heads rows, cols;    /* row j is the file's row from(rows, j); columns alike   */
};

/* Where a view's rows are inside a block (model/state.h). */
struct ops_strip { u64 offset_bytes; u32 row_bytes; };

/* The id of two parts of a model: the larger of 1 and 2, and all bits above. */
static inline u32 ops_arithmetic_both(u32 a, u32 b)
{
    return MAX(a & 3, b & 3) | ((a | b) & ~3u);
}

struct ops_product {            /* y[r, j] = order32(x[r, :], W[j, :]), r < rows, j < n; or int8 */
    const struct ops_matrix *w;
    const void *x;              /* act [rows, k]                                              */
    void       *y;              /* act [rows, n] (R of the sum), or f32 [rows, n]             */
    u32         rows;
    bool        y_f32;          /* logits: the sum unrounded                                  */
    void       *work;           /* ops.product_work_bytes                                     */
    bool        same_x;         /* x and work stand as the product before left them           */
};

struct ops_attn_rows {          /* split, norm, rope; K and V rows stored; nh 0: those alone  */
    const void *qg;             /* act [rows, nh, 2d]: per head d of query, then d of gate    */
    const void *k, *v;          /* act [rows, nkv, d]                                         */
    const f32  *q_scale, *k_scale;      /* [d] 1 + weight, host f32                           */
    void       *q_out;          /* act [rows, nh, d], normed and turned                       */
    struct ops_strip k_strip, v_strip;  /* of this layer's plane                              */
    const struct ops_span *span;
    u32 span_count, rows, nh, nkv, d, rot, block_rows;
    u32 back;                   /* a row is turned at the position so many before its own      */
    f32 eps;
    const f32 *inv_freq;        /* [rot/2]; angle of frequency j at position p = (f32)p * inv  */
};

struct ops_attn {               /* a = softmax(q k^T * d^-0.5, causal) v, then the gate       */
    const void *q;              /* act [rows, nh, d]                                          */
    const void *qg;             /* act [rows, nh, 2d], for the gate                           */
    void       *y;              /* act [rows, nh * d]: R(R(a) * sigmoid(gate))                */
    struct ops_strip k_strip, v_strip;
    const struct ops_span *span;
    u32 span_count, rows, nh, nkv, d, block_rows;
    u32 blind;                  /* first stored rows that no row sees, 0 or 1: they are zeros  */
    void *work;                 /* ops.attn_work_bytes                                        */
};

struct ops_conv {               /* causal depthwise convolution over raw rows, tail updated   */
    const void *raw;            /* act [rows, c]                                              */
    const f32  *w;              /* [c, 4], oldest tap first, f32 of the stored weight         */
    void       *y;              /* act [rows, c]: R(silu(sum))                                */
    u64         tail_offset;    /* in a section set: [c, 3] store values, oldest first        */
    const struct ops_span *span;
    u32 span_count, rows, c;
};

struct ops_gdn {                /* l2norm, gates, delta rule, gated norm: models 5 and 15     */
    const void *y;              /* act [rows, 2*hk*dk + hv*dv], q | k | v after conv          */
    const void *a, *b;          /* act [rows, hv]                                             */
    const void *z;              /* act [rows, hv, dv]                                         */
    const f32  *neg_a;          /* [hv] -exp(A_log), rounded once at load                     */
    const f32  *dt_bias;        /* [hv]                                                       */
    const f32  *norm;           /* [dv] plain weight                                          */
    void       *out;            /* act [rows, hv * dv]; NULL: only S moves on, z is not read  */
    u64         s_offset;       /* in a section set: S [hv, dk, dv] f32                       */
    const struct ops_span *span;
    u32 span_count, rows, hk, hv, dk, dv;
    f32 eps;
    bool gate_sigmoid;          /* act(z) = sigmoid instead of silu                           */
    void *work;                 /* ops.gdn_work_bytes                                         */
};

/* One text of an operation a row; `stream` is implied (the backend's compute stream). */
struct ops {
    const char *name;           /* "cpu"                                                      */
    const char *level;          /* "scalar", "avx2", "avx512", "amx", "neon"                  */
    u32  arithmetic_id;         /* tied to bits by a test; part of files' fingerprint; of the
                                 * model when its formats are known: ops_arithmetic_both      */
    u32  arithmetic_least;      /* of all words of --arithmetic: what has a lower id was written by
                                 * an older build                                             */
    bool row_invariant;
    bool reference;             /* f32 reference mode: R(x) = x, stores F32                   */
    u32  act_bytes, store_bytes;
    u32  thread_count;

    /* The arithmetic id of a matrix of this type. */
    u32      (*arithmetic_of)(enum ops_source type);
    /* Bytes `pack` needs for a source (its data isn't read); packs into `to` (a weights extent),
     * rounding as above. */
    u64      (*pack_bytes)(const struct ops_pack_source *source);
    enum err (*pack)(const struct ops_pack_source *source, u8 *to, struct ops_matrix *out);
    /* What pack would say of a source that lies packed at `at`; and the id of all its layouts: a
     * file of packed matrices is of use under the same id only. */
    void     (*packed)(const struct ops_pack_source *source, const u8 *at, struct ops_matrix *out);
    u32      packing_id;

    /* Bytes a product of so many rows of k terms wants beside it; grows with both. */
    u64      (*product_work_bytes)(u32 rows, u32 k);
    enum err (*product)(const struct ops_product *p);
    /* x[r, :] = row ids[r] of the table [vocab, h] (any source type but FP8_BLOCK,
     * mapped), R. */
    enum err (*embed)(const u8 *table, enum ops_source type, const u32 *ids, u32 rows, u32 h,
                      void *x);
    /* N1: r = 1/sqrt(ss(x)/n + eps); y = R((x * r) * scale), scale[n] = 1 + weight in f32. */
    enum err (*rms_norm)(const void *x, const f32 *scale, void *y, u32 rows, u32 n, f32 eps);
    /* x = R(x + y), element by element, [count]. */
    enum err (*residual)(void *x, const void *y, u64 count);
    enum err (*attn_rows)(const struct ops_attn_rows *p);
    u64      (*attn_work_bytes)(u32 rows, u32 nh, u32 nkv, u32 d, u32 block_rows);
    enum err (*attn)(const struct ops_attn *p);
    enum err (*conv)(const struct ops_conv *p);
    u64      (*gdn_work_bytes)(u32 rows, u32 hk, u32 hv, u32 dk, u32 dv);
    enum err (*gdn)(const struct ops_gdn *p);
    /* y = R((g * sigmoid(g)) * u), [count]. */
    enum err (*glu)(const void *g, const void *u, void *y, u64 count);
    /* Rows rows[i] of x act [*, n] gathered into y [count, n]. */
    enum err (*gather)(const void *x, const u32 *rows, u32 count, u32 n, void *y);
    /* y act [rows, 2n]: row r of a act [rows, n], then row r of b. */
    enum err (*join)(const void *a, const void *b, void *y, u32 rows, u32 n);
    /* Act values to stored ones at `to` and back, [count]; exact: they are R()-rounded. */
    enum err (*store)(const void *x, u8 *to, u64 count);
    enum err (*load)(const u8 *from, void *x, u64 count);
    /* ids[r] (host) = the index of the largest of x f32 [rows, stride][0, n); the lowest of equal
     * ones.  Waits for what is queued. */
    enum err (*best)(const f32 *x, u32 rows, u32 stride, u32 n, u32 *ids);
    /* y f32 [count] of act x [count] (tests, goldens). */
    enum err (*to_f32)(const void *x, f32 *y, u64 count);
    /* Waits for all queued work; ERR_DEVICE when any of it failed. */
    enum err (*sync)(void);
};

#endif
