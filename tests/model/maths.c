/* tests/model/maths.c - bits and errors of model/maths.h on 2^16 arguments a function.
 *
 * The pinned hashes tie the arithmetic id to the functions: a changed hash is a changed arithmetic.
 * libm appears here only as the measure, in double. */
#include "tests/test.h"

#include <math.h>
#include <string.h>

#include "model/maths.h"
#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET_AVX2 __attribute__((target("avx2,fma"), optimize("O3")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,fma"), optimize("O3")))
#endif

enum { ARGUMENTS = 65536 };
static f32 argument[ARGUMENTS], value[ARGUMENTS];

/* One row a function: loops over it for every level, double twin, range, bound, pinned hash. */
struct function {
    const char *name;
    void (*plain)(void), (*avx2)(void), (*avx512)(void);
    f64 (*twin)(f64);
    f64 lo, hi, ulp_max, abs_max;
    u64 hash;
};

#if defined(__x86_64__)
#define LOOPS(name)                                                                            \
    static void name##_plain(void)                                                             \
    { for (u32 i = 0; i < ARGUMENTS; i++) value[i] = maths_##name(argument[i]); }              \
    TARGET_AVX2 static void name##_avx2(void)                                                  \
    { for (u32 i = 0; i < ARGUMENTS; i++) value[i] = maths_##name(argument[i]); }              \
    TARGET_AVX512 static void name##_avx512(void)                                              \
    { for (u32 i = 0; i < ARGUMENTS; i++) value[i] = maths_##name(argument[i]); }
#else
#define LOOPS(name)                                                                            \
    static void name##_plain(void)                                                             \
    { for (u32 i = 0; i < ARGUMENTS; i++) value[i] = maths_##name(argument[i]); }              \
    static void name##_avx2(void) { name##_plain(); }                                          \
    static void name##_avx512(void) { name##_plain(); }
#endif
#define ROW(name, twin, lo, hi, ulp, absolute, hash)                                           \
    { #name, name##_plain, name##_avx2, name##_avx512, twin, lo, hi, ulp, absolute, hash }

LOOPS(exp) LOOPS(expm1) LOOPS(log1p) LOOPS(log) LOOPS(softplus) LOOPS(sigmoid) LOOPS(silu)
LOOPS(tanh) LOOPS(erf) LOOPS(sin) LOOPS(cos) LOOPS(rsqrt) LOOPS(round_bf16)

static f64 twin_sigmoid(f64 x) { return 1.0 / (1.0 + exp(-x)); }
static f64 twin_silu(f64 x) { return x / (1.0 + exp(-x)); }
static f64 twin_softplus(f64 x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }
static f64 twin_same(f64 x) { return x; }
static f64 twin_rsqrt(f64 x) { return 1.0 / sqrt(x); }

static const struct function functions[] = {
    ROW(exp, exp, -87.2, 88.7, 1.1, INFINITY, 0xeed2b3f39e543d71ull),
    ROW(expm1, expm1, -30.0, 30.0, 1.6, INFINITY, 0x9f1c0747316cdd25ull),
    ROW(log1p, log1p, -0.999, 1.5, 1.6, 1e-6, 0x968710be573ebcb8ull),
    ROW(log, log, 1e-20, 100.0, 1.1, 1e-6, 0xb2c542785502c7c0ull),
    ROW(softplus, twin_softplus, -80.0, 80.0, 1.7, 1e-5, 0x211fbc59762d1e58ull),
    ROW(sigmoid, twin_sigmoid, -80.0, 80.0, 2.6, 1.5e-7, 0x8c36a91f851265e7ull),
    ROW(silu, twin_silu, -80.0, 80.0, 2.8, 1e-5, 0x2b540010cfd6ed8full),
    ROW(tanh, tanh, -12.0, 12.0, 2.8, 2e-7, 0xc5fe8ed3a8c9e2d5ull),
    ROW(erf, erf, -5.0, 5.0, 1.5, 1e-7, 0x75aba61b87bc0587ull),
    ROW(sin, sin, 0.0, 262143.0, INFINITY, 1.2e-7, 0x1bde4b93da7b41deull),
    ROW(cos, cos, 0.0, 262143.0, INFINITY, 1.2e-7, 0x001f9cf74395d680ull),
    ROW(rsqrt, twin_rsqrt, 1e-6, 1e4, 1.6, 1e-3, 0x96fbccd9a6b06651ull),
    ROW(round_bf16, twin_same, -100.0, 100.0, 32768.0, 0.25, 0x95eee01035302325ull),
};

static void fill_arguments(f64 lo, f64 hi)
{
    for (u32 i = 0; i < ARGUMENTS; i++)
        argument[i] = (f32)(lo + (hi - lo) * ((f64)i + 0.5) / ARGUMENTS);
}

static void flush_subnormals(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

static bool has_level(u32 level)
{
#if defined(__x86_64__)
    return level ? __builtin_cpu_supports("avx512dq") : __builtin_cpu_supports("avx2");
#else
    return level == 0;
#endif
}

static u64 hash_values(void)
{
    u64 hash = 14695981039346656037ull;
    for (u32 i = 0; i < ARGUMENTS; i++) {
        hash ^= maths_bits(value[i]);
        hash *= 1099511628211ull;
    }
    return hash;
}

static f64 ulps(f64 got, f64 want)
{
    int exponent;
    frexp(fmax(fabs(want), 0x1p-126), &exponent);
    return fabs(got - want) / ldexp(1.0, exponent - 24);
}

TEST(every_function_is_close_to_double)
{
    flush_subnormals();
    for (u32 f = 0; f < COUNT_OF(functions); f++) {
        const struct function *fn = &functions[f];
        f64 ulp = 0.0, absolute = 0.0;
        fill_arguments(fn->lo, fn->hi);
        fn->plain();
        for (u32 i = 0; i < ARGUMENTS; i++) {
            f64 want = fn->twin((f64)argument[i]);
            ulp = fmax(ulp, ulps((f64)value[i], want));
            absolute = fmax(absolute, fabs((f64)value[i] - want));
        }
        if (ulp > fn->ulp_max || absolute > fn->abs_max)
            test_failed(__FILE__, __LINE__, "%s: %.2f ulp, %.3g", fn->name, ulp, absolute);
    }
}

TEST(every_function_keeps_its_pinned_bits)
{
    flush_subnormals();
    for (u32 f = 0; f < COUNT_OF(functions); f++) {
        const struct function *fn = &functions[f];
        fill_arguments(fn->lo, fn->hi);
        fn->plain();
        if (hash_values() != fn->hash)
            test_failed(__FILE__, __LINE__, "%s: bits changed: 0x%016llxull", fn->name,
                        (ull)hash_values());
    }
}

/* Any bit pattern as an argument: infinities, NaN, subnormals, huge values. */
TEST(vector_bodies_give_the_bits_of_the_plain_text)
{
    static f32 plain[ARGUMENTS];
    flush_subnormals();
    for (u32 f = 0; f < COUNT_OF(functions); f++)
        for (u32 whole = 0; whole < 2; whole++) {
            const struct function *fn = &functions[f];
            fill_arguments(fn->lo, fn->hi);
            bool angle = strcmp(fn->name, "sin") == 0 || strcmp(fn->name, "cos") == 0;
            if (whole && !angle)
                for (u32 i = 0; i < ARGUMENTS; i++) argument[i] = maths_float(i << 16 | 0x1234u);
            fn->plain();
            for (u32 i = 0; i < ARGUMENTS; i++)     /* NaN payloads and signs are not compared */
                plain[i] = value[i] == value[i] ? value[i] : 0.0f;
            for (u32 level = 0; level < 2; level++) {
                if (!has_level(level)) continue;
                memset(value, 0, sizeof value);
                (level ? fn->avx512 : fn->avx2)();
                for (u32 i = 0; i < ARGUMENTS; i++)
                    value[i] = value[i] == value[i] ? value[i] : 0.0f;
                if (memcmp(plain, value, sizeof plain) != 0)
                    test_failed(__FILE__, __LINE__, "%s differs at level %u", fn->name, level);
            }
        }
}

TEST(edges_of_the_functions)
{
    flush_subnormals();
    CHECK(maths_bits(maths_exp(-INFINITY)) == 0);
    CHECK(maths_bits(maths_exp(-87.4f)) == 0);
    CHECK(maths_exp(-87.3f) > 0.0f);
    CHECK(maths_exp(0.0f) == 1.0f && maths_exp(88.8f) == INFINITY);
    CHECK(maths_exp(NAN) != maths_exp(NAN));
    CHECK(maths_log1p(-1.0f) == -INFINITY && maths_log1p(-2.0f) != maths_log1p(-2.0f));
    CHECK(maths_log(0.0f) == -INFINITY && maths_log(1.0f) == 0.0f);
    CHECK(maths_sigmoid(-200.0f) == 0.0f && maths_sigmoid(200.0f) == 1.0f);
    CHECK(maths_bits(maths_tanh(0.0f)) == 0 && maths_tanh(-30.0f) == -1.0f);
    CHECK(maths_softplus(100.0f) == 100.0f && maths_softplus(-200.0f) == 0.0f);
    CHECK(maths_sin(0.0f) == 0.0f && maths_cos(0.0f) == 1.0f);
}

TEST(bf16_rounds_to_nearest_even_and_keeps_nan)
{
    CHECK(maths_bits(maths_round_bf16(maths_float(0x3f808000u))) == 0x3f800000u);
    CHECK(maths_bits(maths_round_bf16(maths_float(0x3f818000u))) == 0x3f820000u);
    CHECK(maths_bits(maths_round_bf16(maths_float(0x3f808001u))) == 0x3f810000u);
    CHECK(maths_bits(maths_round_bf16(maths_float(0x7f7fffffu))) == 0x7f800000u);
    CHECK(maths_bits(maths_round_bf16(maths_float(0x7f800001u))) == 0x7fc00000u);
    CHECK(maths_to_bf16(-2.0f) == 0xc000u && maths_from_bf16(0xc000u) == -2.0f);
    CHECK(maths_bits(maths_flush(maths_float(0x80000001u))) == 0x80000000u);
}

TEST(narrow_formats_expand_exactly)
{
    CHECK(maths_from_f16(0x3c00u) == 1.0f && maths_from_f16(0x0001u) == 0x1p-24f);
    CHECK(maths_from_f16(0xfbffu) == -65504.0f && maths_from_f16(0x7c00u) == INFINITY);
    CHECK(maths_from_e4m3(0x7eu) == 448.0f && maths_from_e4m3(0x01u) == 0x1p-9f);
    CHECK(maths_from_e4m3(0xb8u) == -1.0f && maths_from_e4m3(0x7fu) != maths_from_e4m3(0x7fu));
}
