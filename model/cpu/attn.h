/* model/cpu/attn.h - attention of a group of rows, tile by tile, for the vector levels.
 *
 * One text of avx2.c and avx512.c.  A task is some rows of one span and the query heads that share
 * one kv head: `rows` x `heads` queries.  For every tile of B keys its K and V are packed like a
 * weight once, then scores and weighted values are products (product.h) of all queries that see the
 * tile.  A row whose last visible key lies in the tile is computed alone with its own `live` count;
 * terms past it are +0 in both factors, whatever memory holds.  With tiles of rows (AMX) those
 * whose last keys lie in one tile of 16 share all but the block of 32 that holds them.  A task of
 * one row (decode) packs nothing: `attn_step`.  Order and combination: ops.h, spec models 15. */
#ifndef MODEL_CPU_ATTN_H
#define MODEL_CPU_ATTN_H

#include <string.h>

#include "model/cpu/level.h"
#include "model/cpu/norm.h"
#include "model/cpu/product.h"
#include "model/cpu/rope.h"

struct attn_work {                      /* of one thread                                       */
    u8  *k_pack, *v_pack;               /* one tile: [B keys, d] and [d, B keys]               */
    u64  k_bytes, v_bytes;              /* a tile column of each                               */
    f32 *q;                             /* [queries, d]                                        */
    f32 *s;                             /* [queries, s_stride] scores, then weights            */
    f32 *acc, *tile;                    /* [queries, d] so far, of this tile                   */
    f32 *m, *l;                         /* [queries]                                           */
    f32 *e;                             /* [s_stride] one query's weights, unrounded           */
    u32  s_stride;
};

static u64 attn_layout(struct attn_work *w, u8 *base, u32 queries, u32 d, u32 block_rows, bool wide)
{
    u32 b_pad = (u32)ALIGN_UP(block_rows, LEVEL_BLOCK), d_pad = (u32)ALIGN_UP(d, LEVEL_BLOCK);
    u64 at = 0, rows = (u64)queries * d * sizeof(f32);
    u64 packed = (u64)b_pad * d_pad * sizeof(f32) + (u64)(b_pad + d_pad) * sizeof(f32);
    w->s_stride = b_pad;
    w->k_bytes = pack_bytes(LEVEL_COLUMNS, d, wide) + PRODUCT_LINE;    /* not a power of two:  */
    w->v_bytes = pack_bytes(LEVEL_COLUMNS, block_rows, wide) + PRODUCT_LINE;   /* cache sets   */
    w->k_pack = base + at;
    w->v_pack = base + (at += packed);
    w->q = (f32 *)(void *)(base + (at += packed));
    w->acc = (f32 *)(void *)(base + (at += ALIGN_UP(rows, 64)));
    w->tile = (f32 *)(void *)(base + (at += ALIGN_UP(rows, 64)));
    w->s = (f32 *)(void *)(base + (at += ALIGN_UP(rows, 64)));
    w->m = (f32 *)(void *)(base + (at += (u64)queries * b_pad * sizeof(f32)));
    w->l = (f32 *)(void *)(base + (at += ALIGN_UP(queries * sizeof(f32), 64)));
    w->e = (f32 *)(void *)(base + (at += ALIGN_UP(queries * sizeof(f32), 64)));
    return at + b_pad * sizeof(f32);
}

static u64 level_attn_bytes(u32 heads, u32 d, u32 block_rows)
{
    struct attn_work w;
    return attn_layout(&w, NULL, heads, d, block_rows, true);
}

/* ---- packing one tile of K and V ------------------------------------------------------------- */

/* Asks for rows [n, n + count) of a strip that will be read soon; NULL: nothing.  A decode round
 * reads every row once, 512 bytes here and there: the hardware's prefetch does not see that. */
VEC_FN void attn_ask(const u8 *rows, u64 stride, u32 n, u32 count, u32 bytes)
{
    if (!rows) return;
    for (u32 i = n; i < n + count; i++)
        for (u32 at = 0; at < bytes; at += PRODUCT_LINE)
            __builtin_prefetch(rows + i * stride + at, 0, 2);
}

/* Keys [0, keys) of a tile, rows `stride` bytes apart, to tiles of 16 keys x 32 terms of d; asks
 * for the same values of `next`, the rows read after. */
static void attn_pack_k(const struct attn_work *w, const u8 *rows, u64 stride, u32 keys, u32 d,
                        const u8 *next, u64 next_stride)
{
    u32 words = 2 * LEVEL_COLUMNS;                          /* terms a transpose moves         */
    for (u32 n0 = 0; n0 < keys; n0 += LEVEL_COLUMNS) {
        for (u32 t = 0; t < d; t += words) {
            const u8 *from = rows + n0 * stride + t * sizeof(bf16);
            u8 *to = w->k_pack + n0 / LEVEL_COLUMNS * w->k_bytes + t / 2 * (u64)PRODUCT_LINE;
            attn_ask(next + t * sizeof(bf16), next_stride, n0,
                     MIN(keys - n0, (u32)LEVEL_COLUMNS), PRODUCT_LINE);
            if (n0 + LEVEL_COLUMNS <= keys && t + words <= d) {
                vec_transpose(from, stride, to);
                continue;
            }
            u8 part[LEVEL_COLUMNS][PRODUCT_LINE] = { { 0 } };
            for (u32 n = 0; n < MIN(keys - n0, (u32)LEVEL_COLUMNS); n++)
                memcpy(part[n], from + n * stride, MIN(d - t, words) * sizeof(bf16));
            vec_transpose(part[0], sizeof part[0], to);
        }
    }
}

/* The same rows to tiles of 16 dims x 32 keys: a line is the keys (2i, 2i + 1). */
static void attn_pack_v(const struct attn_work *w, const u8 *rows, u64 stride, u32 keys, u32 d,
                        const u8 *next, u64 next_stride)
{
    u8 low[2 * LEVEL_COLUMNS], high[2 * LEVEL_COLUMNS];
    for (u32 n = 0; n < keys; n += 2) {
        attn_ask(next, next_stride, n, MIN(keys - n, 2u), d * 2);
        for (u32 c = 0; c < d; c += LEVEL_COLUMNS) {
            const u8 *from = rows + n * stride + c * sizeof(bf16);
            u8 *to = w->v_pack + c / LEVEL_COLUMNS * w->v_bytes + n / 2 * (u64)PRODUCT_LINE;
            if (n + 1 < keys && c + LEVEL_COLUMNS <= d) {
                vec_pair(from, from + stride, to);
                continue;
            }
            u32 bytes = MIN(d - c, (u32)LEVEL_COLUMNS) * (u32)sizeof(bf16);
            memset(low, 0, sizeof low);
            memset(high, 0, sizeof high);
            memcpy(low, from, bytes);
            if (n + 1 < keys) memcpy(high, from + stride, bytes);
            vec_pair(low, high, to);
        }
    }
}

/* F32 rows (reference mode), value by value. */
static void attn_pack_wide(const struct attn_work *w, const u8 *k_rows, const u8 *v_rows,
                           u64 k_stride, u64 v_stride, u32 keys, u32 d)
{
    u32 pad = (u32)ALIGN_UP(keys, LEVEL_COLUMNS);
    for (u32 n = 0; n < pad; n++)
        for (u32 t = 0; t < d; t++) {
            u64 k_at = (u64)(t / 2) * LEVEL_BLOCK + (t % 2) * LEVEL_COLUMNS + n % LEVEL_COLUMNS;
            u64 v_at = (u64)(n / 2) * LEVEL_BLOCK + (n % 2) * LEVEL_COLUMNS + t % LEVEL_COLUMNS;
            u8 *k_to = w->k_pack + n / LEVEL_COLUMNS * w->k_bytes + 4 * k_at;
            u8 *v_to = w->v_pack + t / LEVEL_COLUMNS * w->v_bytes + 4 * v_at;
            f32 zero = 0.0f;
            memcpy(k_to, n < keys ? k_rows + n * k_stride + 4 * t : (u8 *)&zero, 4);
            memcpy(v_to, n < keys ? v_rows + n * v_stride + 4 * t : (u8 *)&zero, 4);
        }
}

/* Packs the tile of keys from position `first` on; `last` is the last position any row sees. */
static void attn_pack(const struct ops_attn *p, const struct ops_span *span, u32 group, u64 first,
                      u64 last, const struct attn_work *w, bool reference)
{
    u32 keys = (u32)MIN((u64)p->block_rows, last + 1 - first);
    u64 offset = (u64)group * p->d * (reference ? sizeof(f32) : sizeof(bf16));
    const u8 *k = rope_row(span, p->k_strip, p->block_rows, first) + offset;
    const u8 *v = rope_row(span, p->v_strip, p->block_rows, first) + offset;
    if (reference) {
        attn_pack_wide(w, k, v, p->k_strip.row_bytes, p->v_strip.row_bytes, keys, p->d);
        return;
    }
    const u8 *next = last < first + keys ? NULL     /* keys past the last tile: none           */
        : rope_row(span, p->k_strip, p->block_rows, first + keys) + offset;
    attn_pack_k(w, k, p->k_strip.row_bytes, keys, p->d, v, p->v_strip.row_bytes);
    attn_pack_v(w, v, p->v_strip.row_bytes, keys, p->d, next, p->k_strip.row_bytes);
}

/* ---- one tile -------------------------------------------------------------------------------- */

/* treeB of x[0, count), count a power of two; x is overwritten. */
VEC_FN f32 attn_tree(f32 *x, u32 count)
{
    for (u32 w = count / 2; w >= LEVEL_COLUMNS; w /= 2)
        for (u32 i = 0; i < w; i += LEVEL_COLUMNS)
            vec_store(x + i, vec_add(vec_load(x + i), vec_load(x + i + w)));
    if (count >= LEVEL_COLUMNS) return vec_tree(vec_load(x));
    for (u32 w = count / 2; w > 0; w /= 2)
        for (u32 i = 0; i < w; i++) x[i] += x[i + w];
    return x[0];
}

/* Scores of one query to its weights R(exp(s - m)); invisible keys (the first `blind`, those past
 * `live`) and padding become +0. */
static VEC_LOOP void attn_weights(f32 *restrict s, f32 *restrict e, u32 blind, u32 live, u32 keys,
                                  u32 s_stride, f32 scale, f32 *m_out, f32 *l_out, bool reference)
{
    u32 padded = (u32)ALIGN_UP(keys, LEVEL_COLUMNS);
    vec top = vec_all(-MATHS_INF), by = vec_all(scale);
    f32 lane[LEVEL_COLUMNS];
    for (u32 n = 0; n < blind; n++) s[n] = -MATHS_INF;
    for (u32 n = live; n < padded; n++) s[n] = -MATHS_INF;
    for (u32 n = 0; n < padded; n += LEVEL_COLUMNS) {
        vec a = vec_mul(vec_load(s + n), by);
        vec_store(s + n, a);
        top = vec_max(a, top);
    }
    vec_store(lane, top);
    f32 m = lane[0];
    for (u32 i = 1; i < LEVEL_COLUMNS; i++) m = lane[i] > m ? lane[i] : m;
    for (u32 n = 0; n < padded; n++) e[n] = maths_exp(s[n] - m);
    for (u32 n = live; n < padded; n++) e[n] = 0.0f;
    if (reference) memcpy(s, e, padded * sizeof(f32));
    else
        for (u32 n = 0; n < padded; n++) s[n] = maths_round_bf16(e[n]);
    for (u32 n = padded; n < s_stride; n++) s[n] = 0.0f;
    *m_out = m;
    *l_out = attn_tree(e, keys);
}

static VEC_LOOP void attn_combine(f32 *restrict acc, const f32 *restrict tile, f32 c,
                                  f32 c_tile, u32 d)
{
    for (u32 i = 0; i < d; i++) acc[i] = HF_FMA(acc[i], c, tile[i] * c_tile);
}

/* m' = max; l and acc of both sides scaled to it and added, the earlier side first. */
VEC_FN void attn_add(f32 *m, f32 *l, f32 *acc, f32 tile_m, f32 tile_l, const f32 *tile, u32 d)
{
    f32 top = *m > tile_m ? *m : tile_m;
    f32 c = maths_exp(*m - top), c_tile = maths_exp(tile_m - top);
    *l = HF_FMA(*l, c, tile_l * c_tile);
    attn_combine(acc, tile, c, c_tile, d);
    *m = top;
}

/* A tile's m and l of queries [lo, hi), its values in `acc` (first) or `tile`, to the sums. */
static void attn_keep(const struct attn_work *w, u32 lo, u32 hi, u32 d, const f32 *m, const f32 *l,
                      bool first)
{
    for (u32 i = lo; i < hi; i++) {
        if (first) {
            w->m[i] = m[i - lo];
            w->l[i] = l[i - lo];
        } else {
            attn_add(&w->m[i], &w->l[i], w->acc + (u64)i * d, m[i - lo], l[i - lo],
                     w->tile + (u64)i * d, d);
        }
    }
}

/* Queries [lo, hi) of a task, and the keys of a tile they see: [blind, live), and one more with
 * every `each` queries, those of a row. */
struct attn_seen { u32 lo, hi, blind, live, each; };

/* Rows that end in one tile of so many keys go together.  Not worth it in vector registers: a row's
 * own block then begins and ends in memory (512 rows from 0: 5 % slower with AVX-512). */
#ifdef VEC_AMX
enum { ATTN_TOGETHER = LEVEL_COLUMNS };
#else
enum { ATTN_TOGETHER = 1 };
#endif

/* Weights times V, to `out`.  Whole blocks of 32 keys that all rows see are one product; the block
 * that holds a row's last key is that row's own, with its own count of terms, and goes on from the
 * sums so far.  A common block would not do: a weight of +0 times a value of a later row is -0 or
 * NaN where the order has +0. */
static void attn_weighted(const struct ops_attn *p, const struct attn_work *w,
                          const struct attn_seen *q, f32 *out, bool reference)
{
    u32 count = q->hi - q->lo, whole = (q->live - 1) / LEVEL_BLOCK;
    struct product_strip v = {
        .x = w->s + (u64)q->lo * w->s_stride, .x_stride = w->s_stride, .w = w->v_pack,
        .tile_bytes = w->v_bytes, .y = out + (u64)q->lo * p->d, .y_stride = p->d, .rows = count,
        .columns = p->d, .live = q->live, .k = p->block_rows, .wide = reference,
    };
    if (count <= q->each) {
        product_run(&v);
        return;
    }
    if (whole > 0) {
        v.live = v.k = whole * LEVEL_BLOCK;
        product_run(&v);
        v.resume = true;
    }
    v.x += whole * LEVEL_BLOCK;
    v.w += whole * LEVEL_TILE * (reference ? sizeof(f32) : sizeof(bf16));
    v.k = p->block_rows - whole * LEVEL_BLOCK;
    v.rows = q->each;
    for (u32 i = 0; i < count; i += q->each) {
        v.live = q->live + i / q->each - whole * LEVEL_BLOCK;
        product_run(&v);
        v.x += q->each * v.x_stride;
        v.y += q->each * v.y_stride;
    }
}

/* Queries against the packed tile.  Scores of keys that one row of them sees and another does not
 * are computed for both: attn_weights puts the other's out. */
static void attn_tile(const struct ops_attn *p, const struct attn_work *w,
                      const struct attn_seen *q, bool first, bool reference)
{
    u32 d = p->d, lo = q->lo, count = q->hi - lo;
    f32 scale = maths_root_scale(d);
    f32 *out = first ? w->acc : w->tile;
    product_run(&(struct product_strip){
        .x = w->q + (u64)lo * d, .x_stride = d, .w = w->k_pack, .tile_bytes = w->k_bytes,
        .y = w->s + (u64)lo * w->s_stride, .y_stride = w->s_stride, .rows = count,
        .columns = q->live + (count - 1) / q->each, .live = d, .k = d, .wide = reference,
    });
    f32 m[count], l[count];
    for (u32 i = 0; i < count; i++)
        attn_weights(w->s + (u64)(lo + i) * w->s_stride, w->e, q->blind, q->live + i / q->each,
                     p->block_rows, w->s_stride, scale, &m[i], &l[i], reference);
    attn_weighted(p, w, q, out, reference);
    attn_keep(w, lo, q->hi, d, m, l, first);
}

/* ---- one row: K transposed a strip at a time in L1, V read where it lies --------------------- */

enum { ATTN_STRIP = 32 };               /* keys: two tiles of the product                      */

/* `pairs` key pairs from v on added to the chains; `half`: the last one's second key is +0. */
VEC_FN void attn_pairs(u32 rows, u32 tiles, const f32 *s, u64 s_stride, const u8 *v, u64 stride,
                       u32 pairs, bool half, vec *e, vec *o)
{
    for (u32 i = 0; i < pairs; i++) {
        vec even[VEC_TILES], odd[VEC_TILES];
        bool whole = !half || i + 1 < pairs;
        for (u32 c = 0; c < tiles; c++) {
            const u8 *at = v + 2 * i * stride + c * LEVEL_COLUMNS * sizeof(bf16);
            even[c] = vec_narrow(at);
            odd[c] = whole ? vec_narrow(at + stride) : vec_zero();
        }
        for (u32 r = 0; r < rows; r++) {
            vec a = vec_all(s[r * s_stride + 2 * i]), b = vec_all(s[r * s_stride + 2 * i + 1]);
            for (u32 c = 0; c < tiles; c++) {
                e[r * tiles + c] = vec_fma(a, even[c], e[r * tiles + c]);
                o[r * tiles + c] = vec_fma(b, odd[c], o[r * tiles + c]);
            }
        }
    }
}

/* Where one row's tile lies: `live` of `keys` rows of K and V; `next`: K of the tile after, that is
 * asked for meanwhile (NULL: none). */
struct attn_rows_at {
    const u8 *k, *v, *next;
    u64 k_stride, v_stride;
    u32 live, keys, d;
};

/* Weighted values of `rows` queries (constant), out [rows, d]: order32 over all keys. */
VEC_FN void attn_values(u32 rows, const struct attn_work *w, const struct attn_rows_at *t, f32 *out)
{
    u32 full = t->live / LEVEL_BLOCK, left = t->live % LEVEL_BLOCK;
    u32 columns = VEC_TILES * LEVEL_COLUMNS, d = t->d;
    u32 each = t->keys * columns / d / MAX(full, 1u), asked = 0;
    u64 stride = t->v_stride;
    for (u32 c = 0; c < d; c += columns) {
        vec sum[VEC_CHAINS], e[VEC_CHAINS], o[VEC_CHAINS];
        const u8 *at = t->v + c * sizeof(bf16);
        for (u32 i = 0; i < rows * VEC_TILES; i++) sum[i] = vec_zero();
        for (u32 b = 0; b < full + (left > 0); b++) {
            u32 count = b < full ? LEVEL_BLOCK : left;
            for (u32 i = 0; i < rows * VEC_TILES; i++) e[i] = o[i] = vec_zero();
            if (b < full) {
                attn_ask(t->next, t->k_stride, asked, each, d * 2);
                asked += each;
                attn_pairs(rows, VEC_TILES, w->s + b * LEVEL_BLOCK, w->s_stride,
                           at + b * LEVEL_BLOCK * stride, stride, LEVEL_BLOCK / 2, false, e, o);
            } else {
                attn_pairs(rows, VEC_TILES, w->s + b * LEVEL_BLOCK, w->s_stride,
                           at + b * LEVEL_BLOCK * stride, stride, (count + 1) / 2, count % 2, e, o);
                if (count < LEVEL_BLOCK - 1)            /* pairs of zeros                  */
                    for (u32 i = 0; i < rows * VEC_TILES; i++) {
                        e[i] = vec_add(e[i], vec_zero());
                        o[i] = vec_add(o[i], vec_zero());
                    }
            }
            for (u32 i = 0; i < rows * VEC_TILES; i++)
                sum[i] = vec_add(sum[i], vec_add(e[i], o[i]));
        }
        if (full + (left > 0) < (t->keys + LEVEL_BLOCK - 1) / LEVEL_BLOCK)
            for (u32 i = 0; i < rows * VEC_TILES; i++) sum[i] = vec_add(sum[i], vec_zero());
        for (u32 r = 0; r < rows; r++)
            for (u32 i = 0; i < VEC_TILES; i++)
                vec_store(out + r * (u64)d + c + i * LEVEL_COLUMNS, sum[r * VEC_TILES + i]);
    }
}

static void attn_values_of(u32 rows, const struct attn_work *w, const struct attn_rows_at *t,
                           f32 *out)
{
    switch (rows) {
    case 1: attn_values(1, w, t, out); break;
    case 2: attn_values(2, w, t, out); break;
#ifdef VEC_AVX512
    case 3: attn_values(3, w, t, out); break;
    case 4: attn_values(4, w, t, out); break;
    case 5: attn_values(5, w, t, out); break;
    default: attn_values(6, w, t, out); break;
#endif
    }
}

/* Whether one row's `heads` queries take this way: registers hold their chains. */
VEC_FN bool attn_is_step(u32 heads, u32 d, bool reference)
{
    return heads <= VEC_ROWS && d % (VEC_TILES * LEVEL_COLUMNS) == 0 && !reference;
}

/* One row's queries against the tile from `first` on, unpacked; `last` as in attn_pack.  Sums to
 * out [heads, d], m and l [heads]. */
static void attn_step(const struct ops_attn *p, const struct ops_span *span, u32 group, u64 first,
                      u64 last, const struct attn_work *w, f32 *out, f32 *m, f32 *l)
{
    u32 heads = p->nh / p->nkv, d = p->d, keys = p->block_rows;
    u64 offset = (u64)group * d * sizeof(bf16);
    struct attn_rows_at t = {
        .k = rope_row(span, p->k_strip, keys, first) + offset, .k_stride = p->k_strip.row_bytes,
        .v = rope_row(span, p->v_strip, keys, first) + offset, .v_stride = p->v_strip.row_bytes,
        .live = (u32)MIN((u64)keys, last + 1 - first), .keys = keys, .d = d,
    };
    if (last >= first + keys) t.next = rope_row(span, p->k_strip, keys, first + keys) + offset;
    for (u32 n = 0; n < t.live; n += ATTN_STRIP) {
        u32 count = MIN(t.live - n, (u32)ATTN_STRIP);
        attn_pack_k(w, t.k + n * t.k_stride, t.k_stride, count, d, t.v + n * t.v_stride,
                    t.v_stride);
        product_run(&(struct product_strip){
            .x = w->q, .x_stride = d, .w = w->k_pack, .tile_bytes = w->k_bytes, .y = w->s + n,
            .y_stride = w->s_stride, .rows = heads, .columns = count, .live = d, .k = d });
    }
    for (u32 h = 0; h < heads; h++)
        attn_weights(w->s + (u64)h * w->s_stride, w->e, first == 0 ? p->blind : 0, t.live, keys,
                     w->s_stride, maths_root_scale(d), &m[h], &l[h], false);
    attn_values_of(heads, w, &t, out);
}

/* ---- a task ---------------------------------------------------------------------------------- */

VEC_FN void attn_gate(const f32 *restrict acc, f32 l, const f32 *restrict gate, f32 *restrict y,
                      u32 d, bool reference)
{
    for (u32 i = 0; i < d; i++) {
        f32 value = norm_rounded(acc[i] / l, reference);
        y[i] = norm_rounded(value * maths_sigmoid(gate[i]), reference);
    }
}

/* y = R(R(acc / l) sigmoid(gate)) of one query. */
static VEC_LOOP void attn_finish(const f32 *restrict acc, f32 l, const f32 *restrict gate,
                                 f32 *restrict y, u32 d, bool reference)
{
    if (reference) attn_gate(acc, l, gate, y, d, true);
    else attn_gate(acc, l, gate, y, d, false);
}

static void level_attn(const struct ops_attn *p, const struct ops_span *span, u32 group, u32 lo,
                       u32 hi, u8 *base, bool reference)
{
    struct attn_work w;
    u32 heads = p->nh / p->nkv, rows = hi - lo, d = p->d, keys = p->block_rows;
    u64 from = span->pos + (lo - span->lo), last = from + rows - 1;    /* positions            */
    attn_layout(&w, base, rows * heads, d, keys, reference);
    for (u32 r = 0; r < rows; r++)
        memcpy(w.q + (u64)r * heads * d,
               (const f32 *)p->q + ((u64)(lo + r) * p->nh + group * heads) * d,
               (u64)heads * d * sizeof(f32));
    for (u64 first = 0; first <= last; first += keys) {
        u32 r = first > from ? (u32)(first - from) : 0;     /* rows before see nothing here    */
        u32 blind = first == 0 ? p->blind : 0;
        if (rows == 1 && attn_is_step(heads, d, reference)) {
            f32 m[VEC_ROWS], l[VEC_ROWS];
            attn_step(p, span, group, first, last, &w, first == 0 ? w.acc : w.tile, m, l);
            attn_keep(&w, 0, heads, d, m, l, first == 0);
            continue;
        }
        attn_pack(p, span, group, first, last, &w, reference);
        for (u32 n; r < rows && from + r + 1 < first + keys; r += n) {
            u32 live = (u32)(from + r + 1 - first);
            n = MIN(MIN(rows - r, keys - live), ATTN_TOGETHER - (live - 1) % ATTN_TOGETHER);
            attn_tile(p, &w, &(struct attn_seen){ r * heads, (r + n) * heads, blind, live, heads },
                      first == 0, reference);
        }
        if (r < rows)
            attn_tile(p, &w, &(struct attn_seen){ r * heads, rows * heads, blind, keys,
                                                  (rows - r) * heads }, first == 0, reference);
    }
    for (u32 r = 0; r < rows; r++)
        for (u32 h = 0; h < heads; h++) {
            u64 at = (u64)(lo + r) * p->nh + group * heads + h;
            u64 i = (u64)r * heads + h;
            const f32 *gate = (const f32 *)p->qg + at * 2 * d + d;
            attn_finish(w.acc + i * d, w.l[i], gate, (f32 *)p->y + at * d, d, reference);
        }
}

/* Queries of one row against one tile: parts [heads][2 + d]. */
static void level_attn_part(const struct ops_attn *p, const struct ops_span *span, u32 group,
                            u32 row, u64 tile, u8 *base, f32 *part, bool reference)
{
    struct attn_work w;
    u32 heads = p->nh / p->nkv, d = p->d;
    u64 first = tile * p->block_rows, pos = span->pos + (row - span->lo);
    u32 live = (u32)MIN(pos + 1 - first, (u64)p->block_rows);
    attn_layout(&w, base, heads, d, p->block_rows, reference);
    memcpy(w.q, (const f32 *)p->q + ((u64)row * p->nh + group * heads) * d,
           (u64)heads * d * sizeof(f32));
    if (attn_is_step(heads, d, reference)) {
        attn_step(p, span, group, first, first + live - 1, &w, w.acc, w.m, w.l);
    } else {
        attn_pack(p, span, group, first, first + live - 1, &w, reference);
        attn_tile(p, &w, &(struct attn_seen){ 0, heads, first == 0 ? p->blind : 0, live, heads },
                  true, reference);
    }
    for (u32 h = 0; h < heads; h++, part += 2 + d) {
        part[0] = w.m[h];
        part[1] = w.l[h];
        memcpy(part + 2, w.acc + (u64)h * d, d * sizeof(f32));
    }
}

static void level_attn_join(const struct ops_attn *p, u32 row, u32 head,
                            const struct level_parts *parts, bool reference)
{
    u32 d = p->d;
    u64 at = (u64)row * p->nh + head;
    f32 *sum = parts->sum;
    if (parts->first) memcpy(sum, parts->part, (2 + d) * sizeof(f32));
    for (u32 i = parts->first ? 1 : 0; i < parts->count; i++) {
        const f32 *part = parts->part + i * parts->stride;
        attn_add(&sum[0], &sum[1], sum + 2, part[0], part[1], part + 2, d);
    }
    if (parts->last)
        attn_finish(sum + 2, sum[1], (const f32 *)p->qg + at * 2 * d + d, (f32 *)p->y + at * d, d,
                    reference);
}

#endif
