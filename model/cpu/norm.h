/* model/cpu/norm.h - norms, residual and gated products for the vector levels.
 *
 * One text of avx2.c and avx512.c.  Sums of squares take 16 lanes by index mod 16, each one fma
 * chain, then the tree; the rest is element by element in plain loops over model/maths.h, which the
 * compiler turns into lanes of the target. */
#ifndef MODEL_CPU_NORM_H
#define MODEL_CPU_NORM_H

#include <string.h>

#include "model/cpu/vec.h"
#include "model/maths.h"

VEC_FN f32 norm_rounded(f32 x, bool reference)
{
    return reference ? x : maths_round_bf16(x);
}

/* ss(x) of ops.h. */
VEC_FN f32 norm_squares(const f32 *x, u32 n)
{
    vec lane = vec_zero();
    u32 i = 0;
    for (; i + 16 <= n; i += 16) {
        vec a = vec_load(x + i);
        lane = vec_fma(a, a, lane);
    }
    if (i < n) {
        f32 last[16] = { 0 };
        memcpy(last, x + i, (n - i) * sizeof(f32));
        vec a = vec_load(last);
        lane = vec_fma(a, a, lane);
    }
    return vec_tree(lane);
}

/* y = R((x r) scale). */
VEC_FN void norm_apply(const f32 *restrict x, f32 r, const f32 *restrict scale, f32 *restrict y,
                       u32 n, bool reference)
{
    for (u32 i = 0; i < n; i++) y[i] = norm_rounded((x[i] * r) * scale[i], reference);
}

static VEC_LOOP void norm_row(const f32 *restrict x, const f32 *restrict scale, f32 *restrict y,
                              u32 n, f32 eps, bool reference)
{
    f32 r = maths_rsqrt(norm_squares(x, n) / (f32)n + eps);
    if (reference) norm_apply(x, r, scale, y, n, true);
    else norm_apply(x, r, scale, y, n, false);
}

static void level_rms_norm(const f32 *x, const f32 *scale, f32 *y, u32 rows, u32 n, f32 eps,
                           bool reference)
{
    for (u32 r = 0; r < rows; r++)
        norm_row(x + (u64)r * n, scale, y + (u64)r * n, n, eps, reference);
}

static void level_residual(f32 *restrict x, const f32 *restrict y, u64 count, bool reference)
{
    if (reference)
        for (u64 i = 0; i < count; i++) x[i] = x[i] + y[i];
    else
        for (u64 i = 0; i < count; i++) x[i] = maths_round_bf16(x[i] + y[i]);
}

VEC_FN void norm_glu(const f32 *restrict g, const f32 *restrict u, f32 *restrict y, u64 count,
                     bool reference)
{
    for (u64 i = 0; i < count; i++)
        y[i] = norm_rounded((g[i] * maths_sigmoid(g[i])) * u[i], reference);
}

static void level_glu(const f32 *restrict g, const f32 *restrict u, f32 *restrict y, u64 count,
                      bool reference)
{
    if (reference) norm_glu(g, u, y, count, true);
    else norm_glu(g, u, y, count, false);
}

#endif
