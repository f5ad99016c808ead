/* model/cpu/scalar.c - the readable reference: every operation of ops.h, literally its formula.
 *
 * Nothing here is fast.  The vector levels are compared with it by memcmp (tests/model/ops_*.c), so
 * a sum's order is changed here first, or nowhere.  Owns nothing. */
#include <string.h>

#include "model/cpu/format.h"
#include "model/cpu/level.h"
#include "model/cpu/pack.h"
#include "model/maths.h"

static f32 rounded(f32 x, bool reference)
{
    return reference ? x : maths_round_bf16(x);
}

/* Value `i` of a stored row: BF16, in the reference mode F32. */
static f32 stored(const u8 *row, u64 i, bool reference)
{
    f32 wide;
    bf16 narrow;
    if (reference) {
        memcpy(&wide, row + 4 * i, sizeof wide);
        return wide;
    }
    memcpy(&narrow, row + 2 * i, sizeof narrow);
    return maths_from_bf16(narrow);
}

static void store(u8 *row, u64 i, f32 value, bool reference)
{
    bf16 narrow = maths_to_bf16(value);
    if (reference) memcpy(row + 4 * i, &value, sizeof value);
    else memcpy(row + 2 * i, &narrow, sizeof narrow);
}

/* sum of squares: lane_l = fma(x_i, x_i, lane_l), then the tree. */
static f32 sum_squares(const f32 *x, u32 n)
{
    f32 lane[16] = { 0 };
    for (u32 i = 0; i < (n + 15) / 16 * 16; i++) {
        f32 value = i < n ? x[i] : 0.0f;
        lane[i % 16] = HF_FMA(value, value, lane[i % 16]);
    }
    for (u32 w = 8; w > 0; w /= 2)
        for (u32 l = 0; l < w; l++) lane[l] += lane[l + w];
    return lane[0];
}

/* order32 of terms a(t) b(t), handed in one block at a time. */
static f32 add_block(f32 s, const f32 *a, const f32 *b)
{
    f32 e = 0.0f, o = 0.0f;
    for (u32 i = 0; i < LEVEL_BLOCK / 2; i++) {
        e = HF_FMA(a[2 * i], b[2 * i], e);
        o = HF_FMA(a[2 * i + 1], b[2 * i + 1], o);
    }
    return s + (e + o);
}

/* ---- product, norm, residual, glu ------------------------------------------------------------ */

/* Column j of a packed matrix, k terms in order; +0 up to `padded`. */
static void unpack_column(const struct ops_matrix *w, u32 j, f32 *to, u32 padded)
{
    bool plain = w->format == OPS_BF16 || w->format == OPS_F32, wide = w->format == OPS_F32;
    u64 strip_bytes = plain ? pack_bytes(LEVEL_COLUMNS, w->k, wide)
                            : format_strip_bytes(w->format, w->k);
    const u8 *from = w->packed + j / LEVEL_COLUMNS * strip_bytes;
    u32 c = j % LEVEL_COLUMNS;
    for (u32 t = 0; t < padded; t++) {
        u64 line = (u64)(t / 2) * LEVEL_BLOCK;
        u64 at = wide ? line + (t % 2) * LEVEL_COLUMNS + c : line + c * 2 + t % 2;
        to[t] = t >= w->k ? 0.0f : plain ? stored(from, at, wide)
                                         : maths_round_bf16(format_value(w, from, c, t));
    }
}

static void scalar_product(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo, u32 tile_hi,
                           bool reference)
{
    u32 n = p->w->n, k = p->w->k, padded = (u32)ALIGN_UP(k, LEVEL_BLOCK);
    f32 column[padded], row[padded];
    for (u32 t = 0; t < padded; t++) row[t] = 0.0f;
    for (u32 j = tile_lo * LEVEL_COLUMNS; j < MIN(tile_hi * LEVEL_COLUMNS, n); j++) {
        unpack_column(p->w, j, column, padded);
        for (u32 r = lo; r < hi; r++) {
            f32 s = 0.0f;
            memcpy(row, (const f32 *)p->x + (u64)r * k, k * sizeof(f32));
            for (u32 t = 0; t < padded; t += LEVEL_BLOCK) s = add_block(s, row + t, column + t);
            ((f32 *)p->y)[(u64)r * n + j] = p->y_f32 ? s : rounded(s, reference);
        }
    }
}

static void scalar_expand(const struct ops_matrix *w, u32 tile, u32 lo, u32 hi, u8 *out)
{
    const u8 *strip = w->packed + tile * format_strip_bytes(w->format, w->k);
    for (u32 t = lo * LEVEL_BLOCK; t < hi * LEVEL_BLOCK; t++)
        for (u32 c = 0; c < LEVEL_COLUMNS; c++) {
            f32 value = t < w->k ? format_value(w, strip, c, t) : 0.0f;
            store(out + (u64)(t / 2 - lo * LEVEL_BLOCK / 2) * LEVEL_BLOCK * 2, c * 2 + t % 2,
                  value, false);
        }
}

/* d = max |x| / 127, q = x (1 / d) to the nearest integer; d 0 or not finite: 0. */
static void scalar_int8_ready(const struct ops_product *p, u32 lo, u32 hi)
{
    struct level_int8 to = level_int8_at(p);
    u64 blocks = p->w->k / LEVEL_BLOCK;
    for (u64 b = lo * blocks; b < hi * blocks; b++) {
        const f32 *x = (const f32 *)p->x + b * LEVEL_BLOCK;
        i8 *q = to.q + b * LEVEL_BLOCK;
        u32 most = 0;
        i32 sum = 0;
        for (u32 i = 0; i < LEVEL_BLOCK; i++) most = MAX(most, maths_bits(x[i]) & 0x7fffffffu);
        f32 d = maths_float(most) / 127.0f;
        bool none = d == 0.0f || most >= 0x7f800000u;
        f32 inverse = none ? 0.0f : 1.0f / d;
        for (u32 i = 0; i < LEVEL_BLOCK; i++) {
            q[i] = none ? 0 : (i8)((x[i] * inverse + LEVEL_RINT) - LEVEL_RINT);
            sum += q[i];
            if (i == LEVEL_BLOCK / 2 - 1) to.half[2 * b] = -32 * sum;
        }
        to.d[b] = d;
        to.sum[b] = -128 * sum;
        to.eighth[b] = -8 * sum;
        to.half[2 * b + 1] = -32 * sum - to.half[2 * b];
        to.least[b] = -(d * (f32)sum);
    }
}

/* One block's step of int8 (ops.h): q, d and least of the row's block b; column c of a strip. */
static f32 int8_step(const struct ops_matrix *w, const u8 *strip, u32 c, u32 b, const i8 *q, f32 d,
                     f32 least, f32 s)
{
    const u8 *tile = format_tile(w, strip, b);
    struct format_scales scale = format_scales(w, strip, c, b);
    i32 sum[2] = { 0, 0 };
    for (u32 t = 0; t < LEVEL_BLOCK; t++)
        sum[t / 16] += q[t] * format_code(w->format, tile, c, t);
    if (w->format == OPS_Q8_0) return s + (f32)(sum[0] + sum[1]) * (d * scale.half[0]);
    if (w->format == OPS_Q6_K) {
        s = HF_FMA((f32)sum[0], d * scale.half[0], s);
        return HF_FMA((f32)sum[1], d * scale.half[1], s);
    }
    s = HF_FMA((f32)(sum[0] + sum[1]), d * scale.half[0], s);
    return w->format == OPS_Q4_0 ? s : HF_FMA(least, scale.least, s);
}

static void scalar_int8_product(const struct ops_product *p, u32 lo, u32 hi, u32 tile_lo,
                                u32 tile_hi)
{
    struct level_int8 x = level_int8_at(p);
    u32 n = p->w->n, blocks = p->w->k / LEVEL_BLOCK;
    for (u32 j = tile_lo * LEVEL_COLUMNS; j < MIN(tile_hi * LEVEL_COLUMNS, n); j++) {
        u64 strip_bytes = format_strip_bytes(p->w->format, p->w->k);
        const u8 *strip = p->w->packed + j / LEVEL_COLUMNS * strip_bytes;
        u32 c = j % LEVEL_COLUMNS;
        for (u32 r = lo; r < hi; r++) {
            f32 s = 0.0f;
            for (u64 b = 0, at = (u64)r * blocks; b < blocks; b++, at++)
                s = int8_step(p->w, strip, c, (u32)b, x.q + at * LEVEL_BLOCK, x.d[at],
                              x.least[at], s);
            ((f32 *)p->y)[(u64)r * n + j] = p->y_f32 ? s : rounded(s, false);
        }
    }
}

/* y = R((x r) scale), r = 1/sqrt(ss(x)/n + eps). */
static void norm_row(const f32 *x, const f32 *scale, f32 *y, u32 n, f32 eps, bool reference)
{
    f32 r = maths_rsqrt(sum_squares(x, n) / (f32)n + eps);
    for (u32 i = 0; i < n; i++) y[i] = rounded((x[i] * r) * scale[i], reference);
}

static void scalar_rms_norm(const f32 *x, const f32 *scale, f32 *y, u32 rows, u32 n, f32 eps,
                            bool reference)
{
    for (u32 r = 0; r < rows; r++)
        norm_row(x + (u64)r * n, scale, y + (u64)r * n, n, eps, reference);
}

static void scalar_residual(f32 *x, const f32 *y, u64 count, bool reference)
{
    for (u64 i = 0; i < count; i++) x[i] = rounded(x[i] + y[i], reference);
}

static void scalar_glu(const f32 *g, const f32 *u, f32 *y, u64 count, bool reference)
{
    for (u64 i = 0; i < count; i++)
        y[i] = rounded((g[i] * maths_sigmoid(g[i])) * u[i], reference);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* y_i = fma(x_i, cos, -(x_{i+h} sin)), y_{i+h} = fma(x_{i+h}, cos, x_i sin), h = rot/2. */
static void turn_head(f32 *x, const f32 *inv_freq, u32 rot, u64 pos, bool reference)
{
    u32 half = rot / 2;
    for (u32 i = 0; i < half; i++) {
        f32 angle = (f32)pos * inv_freq[i];
        f32 c = maths_cos(angle), s = maths_sin(angle);
        f32 low = x[i], high = x[i + half];
        x[i] = rounded(HF_FMA(low, c, -(high * s)), reference);
        x[i + half] = rounded(HF_FMA(high, c, low * s), reference);
    }
}

/* Address of the stored row of position `pos`. */
static u8 *row_at(const struct ops_span *span, struct ops_strip strip, u32 block_rows, u64 pos)
{
    return span->block_addr[pos / block_rows] + strip.offset_bytes +
           pos % block_rows * strip.row_bytes;
}

static void scalar_attn_rows(const struct ops_attn_rows *p, const struct ops_span *span, u32 lo,
                             u32 hi, bool reference)
{
    u32 d = p->d;
    f32 head[d];
    for (u32 r = lo; r < hi; r++) {
        u64 pos = span->pos + (r - span->lo);
        u8 *k_row = row_at(span, p->k_strip, p->block_rows, pos);
        u8 *v_row = row_at(span, p->v_strip, p->block_rows, pos);
        for (u32 h = 0; h < p->nkv; h++) {
            u64 at = ((u64)r * p->nkv + h) * d;
            norm_row((const f32 *)p->k + at, p->k_scale, head, d, p->eps, reference);
            turn_head(head, p->inv_freq, p->rot, pos - p->back, reference);
            for (u32 i = 0; i < d; i++) store(k_row, (u64)h * d + i, head[i], reference);
            for (u32 i = 0; i < d; i++)
                store(v_row, (u64)h * d + i, ((const f32 *)p->v)[at + i], reference);
        }
        for (u32 h = 0; h < p->nh; h++) {
            u64 at = (u64)r * p->nh + h;
            norm_row((const f32 *)p->qg + at * 2 * d, p->q_scale, head, d, p->eps, reference);
            turn_head(head, p->inv_freq, p->rot, pos - p->back, reference);
            memcpy((f32 *)p->q_out + at * d, head, d * sizeof(f32));
        }
    }
}

/* A tile's part of one row's softmax: its maximum, sum and weighted values. */
struct tile { f32 m, l, *acc; };

/* Tile of keys [first, first + B) for a query that sees positions <= t. */
static struct tile attend_tile(const struct ops_attn *p, const struct ops_span *span, const f32 *q,
                               u32 g, u64 first, u64 t, f32 *weight, f32 *acc, bool reference)
{
    u32 d = p->d, b_rows = p->block_rows;
    f32 scale = maths_root_scale(d);
    f32 a[LEVEL_BLOCK], b[LEVEL_BLOCK];
    u32 live = (u32)MIN(t + 1 - first, (u64)b_rows), blind = first == 0 ? p->blind : 0;
    struct tile out = { .m = -MATHS_INF, .acc = acc };
    for (u32 n = 0; n < live; n++) {
        const u8 *k_row = row_at(span, p->k_strip, b_rows, first + n);
        f32 s = 0.0f;
        for (u32 i0 = 0; i0 < d; i0 += LEVEL_BLOCK) {
            for (u32 i = 0; i < LEVEL_BLOCK; i++) {
                a[i] = i0 + i < d ? q[i0 + i] : 0.0f;
                b[i] = i0 + i < d ? stored(k_row, (u64)g * d + i0 + i, reference) : 0.0f;
            }
            s = add_block(s, a, b);
        }
        weight[n] = n < blind ? -MATHS_INF : s * scale;
        out.m = weight[n] > out.m ? weight[n] : out.m;
    }
    f32 tree[b_rows];
    for (u32 n = 0; n < b_rows; n++) {
        f32 e = n >= blind && n < live ? maths_exp(weight[n] - out.m) : 0.0f;
        tree[n] = e;
        weight[n] = rounded(e, reference);
    }
    for (u32 w = b_rows / 2; w > 0; w /= 2)
        for (u32 n = 0; n < w; n++) tree[n] += tree[n + w];
    out.l = tree[0];
    for (u32 c = 0; c < d; c++) {
        acc[c] = 0.0f;
        for (u32 n0 = 0; n0 < b_rows; n0 += LEVEL_BLOCK) {
            for (u32 i = 0; i < LEVEL_BLOCK; i++) {
                u32 n = n0 + i;
                a[i] = n < b_rows ? weight[n] : 0.0f;
                b[i] = 0.0f;
                if (n >= blind && n < live)
                    b[i] = stored(row_at(span, p->v_strip, b_rows, first + n), (u64)g * d + c,
                                  reference);
            }
            acc[c] = add_block(acc[c], a, b);
        }
    }
    return out;
}

static u64 scalar_attn_bytes(u32 heads, u32 d, u32 block_rows)
{
    (void)heads;
    return ALIGN_UP((2ull * d + block_rows) * sizeof(f32), 256);
}

/* m' = max; l and acc of both sides scaled to it and added, the earlier side first. */
static void join_tile(struct tile *sum, const struct tile *tile, u32 d)
{
    f32 m = sum->m > tile->m ? sum->m : tile->m;
    f32 c = maths_exp(sum->m - m), c_tile = maths_exp(tile->m - m);
    sum->l = HF_FMA(sum->l, c, tile->l * c_tile);
    for (u32 i = 0; i < d; i++) sum->acc[i] = HF_FMA(sum->acc[i], c, tile->acc[i] * c_tile);
    sum->m = m;
}

/* y = R(R(acc / l) sigmoid(gate)). */
static void finish_head(const struct ops_attn *p, u32 r, u32 h, const struct tile *sum,
                        bool reference)
{
    u32 d = p->d;
    const f32 *gate = (const f32 *)p->qg + ((u64)r * p->nh + h) * 2 * d + d;
    f32 *y = (f32 *)p->y + ((u64)r * p->nh + h) * d;
    for (u32 i = 0; i < d; i++) {
        f32 value = rounded(sum->acc[i] / sum->l, reference);
        y[i] = rounded(value * maths_sigmoid(gate[i]), reference);
    }
}

static void attend_row(const struct ops_attn *p, const struct ops_span *span, u32 r, u32 h,
                       f32 *work, bool reference)
{
    u32 d = p->d, g = h / (p->nh / p->nkv);
    u64 t = span->pos + (r - span->lo);
    const f32 *q = (const f32 *)p->q + ((u64)r * p->nh + h) * d;
    f32 *weight = work + 2 * d;
    struct tile sum = attend_tile(p, span, q, g, 0, t, weight, work, reference);
    for (u64 first = p->block_rows; first <= t; first += p->block_rows) {
        struct tile tile = attend_tile(p, span, q, g, first, t, weight, work + d, reference);
        join_tile(&sum, &tile, d);
    }
    finish_head(p, r, h, &sum, reference);
}

static void scalar_attn(const struct ops_attn *p, const struct ops_span *span, u32 group, u32 lo,
                        u32 hi, u8 *work, bool reference)
{
    u32 heads = p->nh / p->nkv;
    for (u32 r = lo; r < hi; r++)
        for (u32 h = group * heads; h < (group + 1) * heads; h++)
            attend_row(p, span, r, h, (f32 *)(void *)work, reference);
}

static void scalar_attn_part(const struct ops_attn *p, const struct ops_span *span, u32 group,
                             u32 row, u64 tile, u8 *work, f32 *part, bool reference)
{
    u32 heads = p->nh / p->nkv, d = p->d;
    for (u32 h = group * heads; h < (group + 1) * heads; h++, part += 2 + d) {
        const f32 *q = (const f32 *)p->q + ((u64)row * p->nh + h) * d;
        struct tile t = attend_tile(p, span, q, group, tile * p->block_rows,
                                    span->pos + (row - span->lo), (f32 *)(void *)work, part + 2,
                                    reference);
        part[0] = t.m;
        part[1] = t.l;
    }
}

static void scalar_attn_join(const struct ops_attn *p, u32 row, u32 head,
                             const struct level_parts *parts, bool reference)
{
    u32 d = p->d;
    f32 *sum = parts->sum;
    if (parts->first) memcpy(sum, parts->part, (2 + d) * sizeof(f32));
    struct tile all = { sum[0], sum[1], sum + 2 };
    for (u32 i = parts->first ? 1 : 0; i < parts->count; i++) {
        const f32 *part = parts->part + i * parts->stride;
        f32 acc[d];
        memcpy(acc, part + 2, d * sizeof(f32));
        join_tile(&all, &(struct tile){ part[0], part[1], acc }, d);
    }
    sum[0] = all.m;
    sum[1] = all.l;
    if (parts->last) finish_head(p, row, head, &all, reference);
}

/* ---- convolution ----------------------------------------------------------------------------- */

static void scalar_conv(const struct ops_conv *p, const struct ops_span *span, u32 c_lo, u32 c_hi,
                        bool reference)
{
    u8 *tail = span->sections + p->tail_offset;
    const f32 *raw = p->raw;
    for (u32 c = c_lo; c < c_hi; c++) {
        f32 window[4];                      /* rows t-3 .. t                                   */
        for (u32 i = 0; i < 3; i++) window[i + 1] = stored(tail, (u64)c * 3 + i, reference);
        for (u32 r = span->lo; r < span->hi; r++) {
            for (u32 i = 0; i < 3; i++) window[i] = window[i + 1];
            window[3] = raw[(u64)r * p->c + c];
            f32 y = 0.0f;
            for (u32 i = 0; i < 4; i++) y = HF_FMA(p->w[(u64)c * 4 + i], window[i], y);
            ((f32 *)p->y)[(u64)r * p->c + c] = rounded(maths_silu(y), reference);
        }
        for (u32 i = 0; i < 3 && !span->hold; i++)
            store(tail, (u64)c * 3 + i, window[i + 1], reference);
    }
}

/* ---- gated delta rule ------------------------------------------------------------------------ */

static void unit_head(const f32 *x, f32 scale, f32 *y, u32 n)
{
    f32 r = maths_rsqrt(sum_squares(x, n) + 1e-6f);
    for (u32 i = 0; i < n; i++) y[i] = (x[i] * r) * scale;
}

static void scalar_gdn_gates(const struct ops_gdn *p, const struct level_gdn_work *work, u32 lo,
                             u32 hi)
{
    u32 hk = p->hk, dk = p->dk, hv = p->hv;
    u64 row = 2ull * hk * dk + (u64)hv * p->dv;
    f32 q_scale = maths_root_scale(dk);
    for (u32 r = lo; r < hi; r++) {
        const f32 *y = (const f32 *)p->y + r * row;
        for (u32 h = 0; h < hk; h++) {
            u64 to = ((u64)r * hk + h) * dk;
            unit_head(y + (u64)h * dk, q_scale, work->q + to, dk);
            unit_head(y + (u64)(hk + h) * dk, 1.0f, work->k + to, dk);
        }
        for (u32 h = 0; h < hv; h++) {
            u64 at = (u64)r * hv + h;
            f32 g = p->neg_a[h] * maths_softplus(((const f32 *)p->a)[at] + p->dt_bias[h]);
            work->beta[at] = maths_sigmoid(((const f32 *)p->b)[at]);
            work->decay[at] = maths_exp(g);
        }
    }
}

static void scalar_gdn_rule(const struct ops_gdn *p, const struct level_gdn_work *work,
                            const struct ops_span *span, u32 head, u32 v_lo, u32 v_hi)
{
    u32 dk = p->dk, dv = p->dv;
    u64 row = 2ull * p->hk * dk + (u64)p->hv * dv;
    f32 *state = (f32 *)(void *)(span->sections + p->s_offset) + (u64)head * dk * dv;
    for (u32 c = v_lo; c < v_hi; c++) {
        f32 s[dk];                          /* this column                                     */
        for (u32 i = 0; i < dk; i++) s[i] = state[(u64)i * dv + c];
        for (u32 r = span->lo; r < span->hi; r++) {
            u64 at = (u64)r * p->hv + head;
            u64 key_at = ((u64)r * p->hk + head / (p->hv / p->hk)) * dk;
            const f32 *q = work->q + key_at, *k = work->k + key_at;
            const f32 *v = (const f32 *)p->y + r * row + 2ull * p->hk * dk + (u64)head * dv;
            f32 read = 0.0f, o = 0.0f;
            for (u32 i = 0; i < dk; i++) s[i] *= work->decay[at];
            for (u32 i = 0; i < dk; i++) read = HF_FMA(s[i], k[i], read);
            f32 w = work->beta[at] * (v[c] - read);
            for (u32 i = 0; i < dk; i++) s[i] = HF_FMA(k[i], w, s[i]);
            for (u32 i = 0; i < dk; i++) o = HF_FMA(s[i], q[i], o);
            work->o[at * dv + c] = o;
        }
        for (u32 i = 0; i < dk && !span->hold; i++) state[(u64)i * dv + c] = s[i];
    }
}

static void scalar_gdn_out(const struct ops_gdn *p, const struct level_gdn_work *work, u32 lo,
                           u32 hi, bool reference)
{
    u32 dv = p->dv;
    f32 o[dv];
    for (u64 head = (u64)lo * p->hv; head < (u64)hi * p->hv; head++) {
        const f32 *z = (const f32 *)p->z + head * dv;
        for (u32 i = 0; i < dv; i++) o[i] = rounded(work->o[head * dv + i], reference);
        f32 r = maths_rsqrt(sum_squares(o, dv) / (f32)dv + p->eps);
        for (u32 i = 0; i < dv; i++) {
            f32 gate = p->gate_sigmoid ? maths_sigmoid(z[i]) : maths_silu(z[i]);
            ((f32 *)p->out)[head * dv + i] = rounded(((o[i] * r) * p->norm[i]) * gate, reference);
        }
    }
}

const struct cpu_level scalar_level = {
    .name = "scalar",
    .product = scalar_product,
    .expand = scalar_expand,
    .int8_ready = scalar_int8_ready,
    .int8_product = scalar_int8_product,
    .rms_norm = scalar_rms_norm,
    .residual = scalar_residual,
    .glu = scalar_glu,
    .attn_rows = scalar_attn_rows,
    .attn_bytes = scalar_attn_bytes,
    .attn = scalar_attn,
    .attn_part = scalar_attn_part,
    .attn_join = scalar_attn_join,
    .conv = scalar_conv,
    .gdn_gates = scalar_gdn_gates,
    .gdn_rule = scalar_gdn_rule,
    .gdn_out = scalar_gdn_out,
};
