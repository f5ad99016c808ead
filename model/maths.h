/* model/maths.h - the functions of the forward pass: one text for the scalar reference, the vector
 * bodies of every CPU level, and a device's compiler.
 *
 * Never libm and never a vector-math variant: those differ in last bits between levels, versions
 * and machines, and a row's bits must not.  Every function is a straight line of single IEEE
 * operations and fused steps (HF_FMA) without a branch; what depends on a range is computed and
 * then selected by bits, so that a compiler may turn a loop over it into lanes and give the same
 * bits.  Round to nearest even; compute threads flush subnormals (FTZ, DAZ).  The coefficients are
 * minimax fits of this project in double, rounded to f32.  tests/model/maths.c pins the bits of
 * 2^16 arguments each and the error against double.  Source of the rules: spec models 15.
 *
 * Compile with -ffp-contract=off. */
#ifndef MODEL_MATHS_H
#define MODEL_MATHS_H

#include "arena/base/base.h"

#ifndef HF_FMA
#define HF_FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#endif
#ifndef MATHS_FN
#define MATHS_FN static inline __attribute__((always_inline, unused))
#endif

MATHS_FN u32 maths_bits(f32 x)
{
    union { f32 f; u32 u; } word = { .f = x };
    return word.u;
}

MATHS_FN f32 maths_float(u32 bits)
{
    union { u32 u; f32 f; } word = { .u = bits };
    return word.f;
}

/* a when `condition` is 1, b when it is 0: by bits, never a branch. */
MATHS_FN f32 maths_select(u32 condition, f32 a, f32 b)
{
    u32 mask = 0u - condition;
    return maths_float((maths_bits(a) & mask) | (maths_bits(b) & ~mask));
}

MATHS_FN f32 maths_abs(f32 x)
{
    return maths_float(maths_bits(x) & 0x7fffffffu);
}

/* ---- BF16: the upper half of an f32, rounded to nearest even; NaN stays NaN (quiet) ---------- */

/* x rounded to BF16, as an f32. */
MATHS_FN f32 maths_round_bf16(f32 x)
{
    u32 bits = maths_bits(x);
    u32 even = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    u32 quiet = (bits | 0x00400000u) & 0xffff0000u;
    u32 nan = 0u - (u32)((bits & 0x7fffffffu) > 0x7f800000u);
    return maths_float((quiet & nan) | (even & ~nan));
}

MATHS_FN bf16 maths_to_bf16(f32 x)
{
    return (bf16)(maths_bits(maths_round_bf16(x)) >> 16);
}

MATHS_FN f32 maths_from_bf16(bf16 x)
{
    return maths_float((u32)x << 16);
}

/* A subnormal read from a file becomes a zero of its sign, as an arithmetic step would make it. */
MATHS_FN f32 maths_flush(f32 x)
{
    u32 bits = maths_bits(x);
    u32 keep = 0u - (u32)((bits & 0x7f800000u) != 0);
    return maths_float(bits & (keep | 0x80000000u));
}

/* IEEE half to f32 (its subnormals are normal f32 numbers). */
MATHS_FN f32 maths_from_f16(u16 half)
{
    u32 sign = ((u32)half & 0x8000u) << 16;
    u32 exponent = ((u32)half >> 10) & 31u;
    u32 fraction = (u32)half & 0x3ffu;
    f32 small = (f32)(i32)fraction * 0x1p-24f;
    u32 normal = ((exponent + 112u) << 23) | (fraction << 13);
    u32 special = 0x7f800000u | (fraction << 13);
    u32 bits = exponent == 0 ? maths_bits(small) : exponent == 31 ? special : normal;
    return maths_float(bits | sign);
}

/* e4m3 (fn): exponent bias 7, no infinity, 0x7f and 0xff NaN. */
MATHS_FN f32 maths_from_e4m3(u8 code)
{
    u32 sign = ((u32)code & 0x80u) << 24;
    u32 exponent = ((u32)code >> 3) & 15u;
    u32 fraction = (u32)code & 7u;
    f32 small = (f32)(i32)fraction * 0x1p-9f;
    u32 bits = exponent == 0 ? maths_bits(small) : ((exponent + 120u) << 23) | (fraction << 20);
    if ((code & 0x7fu) == 0x7fu) bits = 0x7fc00000u;
    return maths_float(bits | sign);
}

/* ---- exp and its family ---------------------------------------------------------------------- */

#define MATHS_LOG2E   0x1.715476p+0f
#define MATHS_LN2_HI  0x1.62e400p-1f        /* 11 low bits zero: k * LN2_HI is exact           */
#define MATHS_LN2_LO  0x1.7f7d1cp-20f
#define MATHS_ROUND   12582912.0f           /* 1.5 * 2^23: adding it rounds to an integer      */
#define MATHS_INF     maths_float(0x7f800000u)
#define MATHS_NAN     maths_float(0x7fc00000u)

/* x * 2^k for k in [-252, 254], in two exact steps (the last may flush or overflow). */
MATHS_FN f32 maths_scale(f32 x, i32 k)
{
    i32 half = k >> 1;
    f32 first = maths_float((u32)(half + 127) << 23);
    f32 second = maths_float((u32)(k - half + 127) << 23);
    return (x * first) * second;
}

/* e^x; +0 below -87.3 (and at -inf), +inf above 88.73. */
MATHS_FN f32 maths_exp(f32 x)
{
    f32 t = maths_select((u32)(x > -87.3f), x, -87.3f);
    t = maths_select((u32)(t < 89.0f), t, 89.0f);
    f32 k = HF_FMA(t, MATHS_LOG2E, MATHS_ROUND) - MATHS_ROUND;
    f32 r = HF_FMA(-k, MATHS_LN2_HI, t);
    r = HF_FMA(-k, MATHS_LN2_LO, r);
    f32 p = 0x1.6dbc68p-10f;
    p = HF_FMA(p, r, 0x1.124148p-7f);
    p = HF_FMA(p, r, 0x1.555454p-5f);
    p = HF_FMA(p, r, 0x1.555486p-3f);
    p = HF_FMA(p, r, 0.5f);
    p = HF_FMA(p, r * r, r);
    f32 y = maths_scale(p + 1.0f, (i32)k);
    y = maths_select((u32)(x < -87.3f), 0.0f, y);
    return maths_select((u32)(x != x), MATHS_NAN, y);
}

/* e^x - 1, without cancellation near 0. */
MATHS_FN f32 maths_expm1(f32 x)
{
    f32 t = maths_select((u32)(x > -20.0f), x, -20.0f);
    t = maths_select((u32)(t < 89.0f), t, 89.0f);
    f32 k = HF_FMA(t, MATHS_LOG2E, MATHS_ROUND) - MATHS_ROUND;
    f32 r = HF_FMA(-k, MATHS_LN2_HI, t);
    r = HF_FMA(-k, MATHS_LN2_LO, r);
    f32 p = 0x1.a1a930p-13f;
    p = HF_FMA(p, r, 0x1.6d7b7cp-10f);
    p = HF_FMA(p, r, 0x1.11108ap-7f);
    p = HF_FMA(p, r, 0x1.5554a8p-5f);
    p = HF_FMA(p, r, 0x1.555556p-3f);
    p = HF_FMA(p, r, 0.5f);
    p = HF_FMA(p, r * r, r);                                /* e^r - 1                         */
    i32 half = (i32)k >> 1;
    f32 first = maths_float((u32)(half + 127) << 23);
    f32 second = maths_float((u32)((i32)k - half + 127) << 23);
    f32 whole = first * second;                             /* 2^k; +inf at k = 128            */
    f32 y = HF_FMA(p, whole, whole - 1.0f);
    f32 high = ((p + 1.0f) * first) * second;               /* k = 128: no 2^128 in between    */
    y = maths_select((u32)(k > 64.0f), high, y);
    return maths_select((u32)(x != x), MATHS_NAN, y);
}

/* k ln 2 + log(1 + f) for f in [-0.293, 0.415]: f - f^2/2 + s (f^2/2 + R(s^2)), s = f / (2 + f). */
MATHS_FN f32 maths_log_parts(f32 f, f32 k)
{
    f32 s = f / (2.0f + f);
    f32 z = s * s;
    f32 p = 0x1.e340bep-3f;
    p = HF_FMA(p, z, 0x1.2436fep-2f);
    p = HF_FMA(p, z, 0x1.999a82p-2f);
    p = HF_FMA(p, z, 0x1.555554p-1f);
    f32 half = 0.5f * (f * f);
    f32 low = HF_FMA(s, HF_FMA(p, z, half), k * MATHS_LN2_LO);
    return HF_FMA(k, MATHS_LN2_HI, f - (half - low));
}

/* log(1 + x), without cancellation near 0; -inf at -1, NaN below. */
MATHS_FN f32 maths_log1p(f32 x)
{
    u32 bits = maths_bits(1.0f + x);
    i32 k = (i32)(bits - 0x3f3504f4u) >> 23;                /* 1 + x = 2^k m, m from sqrt(1/2) */
    i32 c = k > 100 ? 100 : k;                              /* 2^-k stays normal               */
    f32 down = maths_float((u32)(127 - c) << 23);
    f32 rest = maths_float((u32)(127 - (k - c)) << 23);
    f32 f = HF_FMA(x, down, down - 1.0f);
    f32 large = maths_float(bits - ((u32)k << 23)) - 1.0f;
    f = maths_select((u32)(rest < 1.0f), large, f);
    f32 y = maths_log_parts(f, (f32)k);
    y = maths_select((u32)(x == -1.0f), -MATHS_INF, y);
    y = maths_select((u32)(x == 0.0f), x, y);
    y = maths_select((u32)(x == MATHS_INF), x, y);
    return maths_select((u32)!(x >= -1.0f), MATHS_NAN, y);
}

/* log x; -inf at 0, NaN below.  Used for log-probabilities only: it reaches no row. */
MATHS_FN f32 maths_log(f32 x)
{
    u32 bits = maths_bits(x);
    i32 k = (i32)(bits - 0x3f3504f4u) >> 23;
    f32 f = maths_float(bits - ((u32)k << 23)) - 1.0f;
    f32 y = maths_log_parts(f, (f32)k);
    y = maths_select((u32)(x == 0.0f), -MATHS_INF, y);
    y = maths_select((u32)(x == MATHS_INF), x, y);
    return maths_select((u32)!(x >= 0.0f), MATHS_NAN, y);
}

/* max(x, 0) + log1p(e^-|x|). */
MATHS_FN f32 maths_softplus(f32 x)
{
    f32 high = maths_select((u32)(x > 0.0f), x, 0.0f);
    f32 y = high + maths_log1p(maths_exp(-maths_abs(x)));
    return maths_select((u32)(x != x), MATHS_NAN, y);
}

MATHS_FN f32 maths_sigmoid(f32 x)
{
    return 1.0f / (1.0f + maths_exp(-x));
}

MATHS_FN f32 maths_silu(f32 x)
{
    return x * maths_sigmoid(x);
}

/* |t / (2 + t)| with t = e^(-2|x|) - 1, and the sign of x. */
MATHS_FN f32 maths_tanh(f32 x)
{
    f32 t = maths_expm1(-2.0f * maths_abs(x));
    f32 y = maths_abs(t / (2.0f + t));
    return maths_float(maths_bits(y) | (maths_bits(x) & 0x80000000u));
}

/* 1 / sqrt(x), both IEEE. */
MATHS_FN f32 maths_rsqrt(f32 x)
{
    return 1.0f / __builtin_sqrtf(x);
}

/* f32(n^-0.5), rounded once from double: the scale of scores and of queries. */
MATHS_FN f32 maths_root_scale(u32 n)
{
    return (f32)(1.0 / __builtin_sqrt((f64)n));
}

/* Below 1: x + x P(x^2); above: 1 - e^-Q(|x|), Q a fit of -log erfc. */
MATHS_FN f32 maths_erf(f32 x)
{
    f32 a = maths_abs(x);
    f32 z = a * a;
    f32 p = 0x1.4ae4d0p-14f;
    p = HF_FMA(p, z, -0x1.a485ecp-11f);
    p = HF_FMA(p, z, 0x1.5419f6p-8f);
    p = HF_FMA(p, z, -0x1.b7fbb4p-6f);
    p = HF_FMA(p, z, 0x1.ce2d20p-4f);
    p = HF_FMA(p, z, -0x1.81273ep-2f);
    p = HF_FMA(p, z, 0x1.06eba8p-3f);
    f32 small = HF_FMA(a, p, a);
    f32 b = maths_select((u32)(a < 4.0f), a, 4.0f);
    f32 q = 0x1.6bd7e2p-16f;
    q = HF_FMA(q, b, -0x1.cec5fep-12f);
    q = HF_FMA(q, b, 0x1.138cbcp-8f);
    q = HF_FMA(q, b, -0x1.9d0304p-6f);
    q = HF_FMA(q, b, 0x1.bc1516p-4f);
    q = HF_FMA(q, b, 0x1.443566p-1f);
    q = HF_FMA(q, b, 0x1.212c0cp+0f);
    q = HF_FMA(q, b, -0x1.8a573cp-13f);
    f32 y = maths_select((u32)(a < 1.0f), small, 1.0f - maths_exp(-q));
    y = maths_float(maths_bits(y) | (maths_bits(x) & 0x80000000u));
    return maths_select((u32)(x != x), MATHS_NAN, y);
}

/* ---- sin and cos of an f32 angle in [0, 262143] (RoPE) --------------------------------------- */

/* r in [-0.81, 0.81] with a = k pi/2 + r, in two fused steps; k mod 4 to *quarter. */
MATHS_FN f32 maths_reduce(f32 a, u32 *quarter)
{
    f32 k = HF_FMA(a, 0x1.45f306p-1f, MATHS_ROUND) - MATHS_ROUND;
    *quarter = (u32)(i32)k & 3u;
    f32 r = HF_FMA(-k, maths_float(0x3fc90fdbu), a);
    return HF_FMA(-k, maths_float(0xb33bbd2eu), r);
}

MATHS_FN f32 maths_sin_poly(f32 r)
{
    f32 z = r * r;
    f32 p = 0x1.6c8736p-19f;
    p = HF_FMA(p, z, -0x1.a00e42p-13f);
    p = HF_FMA(p, z, 0x1.111106p-7f);
    p = HF_FMA(p, z, -0x1.555556p-3f);
    return HF_FMA(p, z * r, r);
}

MATHS_FN f32 maths_cos_poly(f32 r)
{
    f32 z = r * r;
    f32 p = -0x1.23ee9ep-22f;
    p = HF_FMA(p, z, 0x1.a00ff8p-16f);
    p = HF_FMA(p, z, -0x1.6c16b6p-10f);
    p = HF_FMA(p, z, 0x1.555556p-5f);
    return HF_FMA(p, z * z, HF_FMA(-0.5f, z, 1.0f));
}

MATHS_FN f32 maths_sin(f32 a)
{
    u32 quarter;
    f32 r = maths_reduce(a, &quarter);
    f32 y = maths_select(quarter & 1u, maths_cos_poly(r), maths_sin_poly(r));
    return maths_float(maths_bits(y) ^ ((quarter & 2u) << 30));
}

MATHS_FN f32 maths_cos(f32 a)
{
    u32 quarter;
    f32 r = maths_reduce(a, &quarter);
    f32 y = maths_select(quarter & 1u, maths_sin_poly(r), maths_cos_poly(r));
    return maths_float(maths_bits(y) ^ (((quarter + 1u) & 2u) << 30));
}

#endif
