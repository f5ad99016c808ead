/* model/cpu/gdn.h - gates, the delta rule token by token, and the gated norm, vector levels.
 *
 * One text of avx2.c and avx512.c.  Lanes are value columns; a task holds GDN_COLUMNS columns of
 * one head's S.  One pass over S a token: the update and read-out of token t and the decay and
 * read of token t + 1 touch a value of S once.  Each column's two sums stay one fma chain over the
 * keys, in order, so a pass's shape changes no bit. */
#ifndef MODEL_CPU_GDN_H
#define MODEL_CPU_GDN_H

#include <string.h>

#include "model/cpu/level.h"
#include "model/cpu/norm.h"
#include "model/cpu/vec.h"

enum {
    GDN_COLUMNS = 64,                   /* 128 keys x 64 columns: 32 KiB, in L1                */
    GDN_VECS = GDN_COLUMNS / 16,
    GDN_KEYS_CAP = 256,                 /* keys a local copy of S holds                        */
    GDN_COPY_ROWS = 4,                  /* from here on the copy pays                          */
};

static VEC_LOOP void gdn_unit(const f32 *restrict x, f32 scale, f32 *restrict y, u32 n)
{
    f32 r = maths_rsqrt(norm_squares(x, n) + 1e-6f);
    for (u32 i = 0; i < n; i++) y[i] = (x[i] * r) * scale;
}

/* beta and exp(g) of a row's value heads. */
static VEC_LOOP void gdn_head_gates(const struct ops_gdn *p, const f32 *restrict a,
                                    const f32 *restrict b, f32 *restrict beta, f32 *restrict decay)
{
    const f32 *restrict neg_a = p->neg_a, *restrict dt_bias = p->dt_bias;
    u32 heads = p->hv;
    for (u32 h = 0; h < heads; h++) {
        f32 g = neg_a[h] * maths_softplus(a[h] + dt_bias[h]);
        beta[h] = maths_sigmoid(b[h]);
        decay[h] = maths_exp(g);
    }
}

static void level_gdn_gates(const struct ops_gdn *p, const struct level_gdn_work *work, u32 lo,
                            u32 hi)
{
    u32 hk = p->hk, dk = p->dk, hv = p->hv;
    u64 row = 2ull * hk * dk + (u64)hv * p->dv;
    f32 q_scale = maths_root_scale(dk);
    for (u32 r = lo; r < hi; r++) {
        const f32 *y = (const f32 *)p->y + r * row;
        for (u32 h = 0; h < hk; h++) {
            u64 to = ((u64)r * hk + h) * dk;
            gdn_unit(y + (u64)h * dk, q_scale, work->q + to, dk);
            gdn_unit(y + (u64)(hk + h) * dk, 1.0f, work->k + to, dk);
        }
        gdn_head_gates(p, (const f32 *)p->a + (u64)r * hv, (const f32 *)p->b + (u64)r * hv,
                       work->beta + (u64)r * hv, work->decay + (u64)r * hv);
    }
}

/* What one token hands the rule: its keys, values, gates and where o goes. */
struct gdn_token { const f32 *q, *k, *v; f32 beta, decay, *o; };

VEC_FN struct gdn_token gdn_token_at(const struct ops_gdn *p, const struct level_gdn_work *work,
                                     u32 r, u32 head, u32 v_lo)
{
    u64 at = (u64)r * p->hv + head;
    u64 keys = ((u64)r * p->hk + head / (p->hv / p->hk)) * p->dk;
    u64 row = 2ull * p->hk * p->dk + (u64)p->hv * p->dv;
    return (struct gdn_token){
        .q = work->q + keys, .k = work->k + keys,
        .v = (const f32 *)p->y + r * row + 2ull * p->hk * p->dk + (u64)head * p->dv + v_lo,
        .beta = work->beta[at], .decay = work->decay[at], .o = work->o + at * p->dv + v_lo,
    };
}

/* read_v = sum_i (S[i][v] decay) k_i; S itself is left to gdn_write. */
VEC_FN void gdn_read(const struct gdn_token *t, const f32 *s, u64 stride, u32 dk, u32 vecs,
                     vec *read)
{
    vec decay = vec_all(t->decay);
    for (u32 c = 0; c < vecs; c++) read[c] = vec_zero();
    for (u32 i = 0; i < dk; i++) {
        vec k = vec_all(t->k[i]);
        for (u32 c = 0; c < vecs; c++)
            read[c] = vec_fma(vec_mul(vec_load(s + i * stride + 16 * c), decay), k, read[c]);
    }
}

/* w = beta (v - read); S[i] = fma(k_i, w, S[i]); o = sum_i S[i] q_i.  `fresh`: S still lacks this
 * token's decay.  With `next` its decay and its read follow in the same pass. */
VEC_FN void gdn_write(const struct gdn_token *t, const struct gdn_token *next, f32 *s, u64 stride,
                      u32 dk, u32 vecs, vec *read, bool fresh)
{
    vec w[GDN_VECS], o[GDN_VECS], beta = vec_all(t->beta), own = vec_all(t->decay);
    vec decay = vec_all(next ? next->decay : 1.0f);
    for (u32 c = 0; c < vecs; c++) {
        w[c] = vec_mul(beta, vec_sub(vec_load(t->v + 16 * c), read[c]));
        o[c] = read[c] = vec_zero();
    }
    for (u32 i = 0; i < dk; i++) {
        vec k = vec_all(t->k[i]), q = vec_all(t->q[i]);
        vec k_next = next ? vec_all(next->k[i]) : k;
        for (u32 c = 0; c < vecs; c++) {
            vec a = vec_load(s + i * stride + 16 * c);
            if (fresh) a = vec_mul(a, own);
            a = vec_fma(k, w[c], a);
            o[c] = vec_fma(a, q, o[c]);
            if (next) {
                a = vec_mul(a, decay);
                read[c] = vec_fma(a, k_next, read[c]);
            }
            vec_store(s + i * stride + 16 * c, a);
        }
    }
    for (u32 c = 0; c < vecs; c++) vec_store(t->o + 16 * c, o[c]);
}

/* All rows of a span over `vecs` (a constant of the caller) x 16 columns of S. */
VEC_FN void gdn_rows(const struct ops_gdn *p, const struct level_gdn_work *work,
                     const struct ops_span *span, u32 head, u32 v_lo, f32 *s, u64 stride, u32 vecs)
{
    vec read[GDN_VECS];
    struct gdn_token token = gdn_token_at(p, work, span->lo, head, v_lo);
    gdn_read(&token, s, stride, p->dk, vecs, read);
    if (span->hi - span->lo == 1) {
        gdn_write(&token, NULL, s, stride, p->dk, vecs, read, true);
        return;
    }
    struct gdn_token next = gdn_token_at(p, work, span->lo + 1, head, v_lo);
    gdn_write(&token, &next, s, stride, p->dk, vecs, read, true);
    for (u32 r = span->lo + 2; r < span->hi; r++) {
        token = next;
        next = gdn_token_at(p, work, r, head, v_lo);
        gdn_write(&token, &next, s, stride, p->dk, vecs, read, false);
    }
    gdn_write(&next, NULL, s, stride, p->dk, vecs, read, false);
}

static void gdn_columns(const struct ops_gdn *p, const struct level_gdn_work *work,
                        const struct ops_span *span, u32 head, u32 v_lo, f32 *s, u64 stride,
                        u32 vecs)
{
    switch (vecs) {
    case 1: gdn_rows(p, work, span, head, v_lo, s, stride, 1); break;
    case 2: gdn_rows(p, work, span, head, v_lo, s, stride, 2); break;
    case 3: gdn_rows(p, work, span, head, v_lo, s, stride, 3); break;
    default: gdn_rows(p, work, span, head, v_lo, s, stride, 4); break;
    }
}

static void level_gdn_rule(const struct ops_gdn *p, const struct level_gdn_work *work,
                           const struct ops_span *span, u32 head, u32 v_lo, u32 v_hi)
{
    u32 dk = p->dk, columns = (v_hi - v_lo) / 16 * 16;
    if (span->hold && dk > GDN_KEYS_CAP) columns = 0;
    f32 *s = (f32 *)(void *)(span->sections + p->s_offset) + (u64)head * dk * p->dv + v_lo;
    ASSERT(columns <= GDN_COLUMNS);
    if (span->lo == span->hi) return;
    if (columns > 0 && (span->hold || span->hi - span->lo >= GDN_COPY_ROWS) &&
        dk <= GDN_KEYS_CAP) {
        f32 copy[GDN_KEYS_CAP * GDN_COLUMNS];
        for (u32 i = 0; i < dk; i++)
            memcpy(copy + (u64)i * columns, s + (u64)i * p->dv, columns * sizeof(f32));
        gdn_columns(p, work, span, head, v_lo, copy, columns, columns / 16);
        for (u32 i = 0; i < dk && !span->hold; i++)
            memcpy(s + (u64)i * p->dv, copy + (u64)i * columns, columns * sizeof(f32));
    } else if (columns > 0) {
        gdn_columns(p, work, span, head, v_lo, s, p->dv, columns / 16);
    }
    if (v_lo + columns < v_hi)              /* fewer than 16 columns, or S held over many keys */
        scalar_level.gdn_rule(p, work, span, head, v_lo + columns, v_hi);
}

VEC_FN void gdn_gate(const f32 *restrict o, f32 r, const f32 *restrict norm,
                     const f32 *restrict z, f32 *restrict out, u32 n, bool sigmoid, bool reference)
{
    for (u32 i = 0; i < n; i++) {
        f32 gate = sigmoid ? maths_sigmoid(z[i]) : maths_silu(z[i]);
        out[i] = norm_rounded(((o[i] * r) * norm[i]) * gate, reference);
    }
}

/* One head: o = R(o), r = 1/sqrt(ss(o)/n + eps), out = R(((o r) norm) act(z)). */
static VEC_LOOP void gdn_head_out(const struct ops_gdn *p, f32 *restrict o, const f32 *restrict z,
                                  f32 *restrict out, bool reference)
{
    u32 n = p->dv;
    const f32 *norm = p->norm;
    if (!reference)
        for (u32 i = 0; i < n; i++) o[i] = maths_round_bf16(o[i]);
    f32 r = maths_rsqrt(norm_squares(o, n) / (f32)n + p->eps);
    if (p->gate_sigmoid) gdn_gate(o, r, norm, z, out, n, true, reference);
    else if (reference) gdn_gate(o, r, norm, z, out, n, false, true);
    else gdn_gate(o, r, norm, z, out, n, false, false);
}

static void level_gdn_out(const struct ops_gdn *p, const struct level_gdn_work *work, u32 lo,
                          u32 hi, bool reference)
{
    for (u64 head = (u64)lo * p->hv; head < (u64)hi * p->hv; head++)
        gdn_head_out(p, work->o + head * p->dv, (const f32 *)p->z + head * p->dv,
                     (f32 *)p->out + head * p->dv, reference);
}

#endif
