/* tests/bench/products.c - speed of the operations at every level: GFLOP/s and GB/s.
 *
 *   ./build.sh test bench/products && cat build/logs/bench_products.log
 *
 * Shapes are those of the bench model (hidden 1024, heads 8 to 2 of 256, delta heads 4 to 12 of
 * 128).  The best of a few rounds a figure, with one thread in its CPU time.
 * BENCH_LEVEL and BENCH_THREADS pick one level, one number of threads. */
#include "tests/model/ops.h"

#include <time.h>

/* One thread: its own CPU time, which neighbours on the machine disturb least. */
static clockid_t clock_of = CLOCK_MONOTONIC;

static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(clock_of, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

/* Seconds of the fastest of the rounds that fit in `budget_s` (at least two). */
#define BEST_S(best, budget_s, call)                                                           \
    do {                                                                                       \
        f64 began_ = now_s();                                                                  \
        best = 1e9;                                                                            \
        for (u32 i_ = 0; i_ < 2 || now_s() - began_ < (budget_s); i_++) {                      \
            f64 t_ = now_s();                                                                  \
            CHECK_OK(call);                                                                    \
            best = MIN(best, now_s() - t_);                                                    \
        }                                                                                      \
    } while (0)

static const char *const type_words[OPS_SOURCE_COUNT] = {
    [OPS_BF16] = "bf16", [OPS_FP8_BLOCK] = "fp8", [OPS_Q8_0] = "q8_0", [OPS_Q4_0] = "q4_0",
    [OPS_Q4_K] = "q4_k", [OPS_Q5_K] = "q5_k", [OPS_Q6_K] = "q6_k",
};

/* Random bytes are blocks of any format; their values do not matter to the speed, but for BF16. */
static void bench_format(const struct ops *ops, enum ops_source type, u32 n, u32 k, u32 rows)
{
    u8 *w = zeroed((u64)n * k * 2), *scale = zeroed((u64)n * k / 128 + 64);
    for (u64 i = 0; i < (u64)n * k; i++) {
        if (type == OPS_BF16) ((bf16 *)(void *)w)[i] = maths_to_bf16(random_f32(0.1f));
        else w[i] = (u8)random_u32() & 0x3f;
    }
    struct ops_pack_source source = { .data = w, .type = type, .n = n, .k = k, .scale = scale,
                                      .scale_type = OPS_F32 };
    u64 bytes = ops->pack_bytes(&source);
    /* Enough copies that a decode round streams its weights from memory, not from a cache. */
    u32 copies = rows <= 16 ? (u32)(256 * MIB / bytes) : 1;
    struct ops_matrix *m = malloc(copies * sizeof *m);
    u8 *packed = zeroed(bytes * copies);
    CHECK_OK(ops->pack(&source, packed, m));
    for (u32 i = 1; i < copies; i++) {
        memcpy(packed + bytes * i, packed, bytes);
        ops->packed(&source, packed + bytes * i, &m[i]);
    }
    f32 *x = random_values((u64)rows * k, 1.0f, false), *y = zeroed((u64)rows * n * 4);
    void *work = zeroed(ops->product_work_bytes(rows, k));
    f64 best = 1e9, began = now_s();
    for (u32 round = 0; round < 2 || now_s() - began < 0.3; round++) {
        f64 t = now_s();
        for (u32 i = 0; i < copies; i++)
            CHECK_OK(ops->product(&(struct ops_product){
                .w = &m[i], .x = x, .y = y, .rows = rows, .work = work }));
        best = MIN(best, (now_s() - t) / copies);
    }
    printf("product  %-7s %u threads  %-5s%s n %5u k %4u rows %4u: %8.1f us  %6.1f GFLOP/s  "
           "%5.1f GB/s\n", ops->level, ops->thread_count, type_words[type],
           m->int8 ? " int8" : "     ", n, k, rows, best * 1e6,
           2.0 * n * k * rows / best * 1e-9, (f64)bytes / best * 1e-9);
    free(m), free(w), free(packed), free(x), free(y), free(work), free(scale);
}

static void bench_product(const struct ops *ops, u32 n, u32 k, u32 rows)
{
    bench_format(ops, OPS_BF16, n, k, rows);
}

static void bench_attn(const struct ops *ops, u32 rows, u32 context)
{
    enum { NH = 8, NKV = 2, D = 256, B = 256 };
    u32 blocks = (context + rows + B - 1) / B;
    u64 strip = (u64)B * NKV * D * 2;
    u8 **addr = malloc(blocks * sizeof *addr);
    u8 *all = zeroed(blocks * 2 * strip);
    for (u32 i = 0; i < blocks; i++) {
        addr[i] = all + i * 2 * strip;
        for (u64 v = 0; v < strip; v++)
            ((bf16 *)(void *)addr[i])[v] = maths_to_bf16(random_f32(1.0f));
    }
    f32 *q = random_values((u64)rows * NH * D, 0.1f, false), *y = zeroed((u64)rows * NH * D * 4);
    f32 *qg = random_values((u64)rows * NH * D * 2, 1.0f, false);
    struct ops_span span = { .lo = 0, .hi = rows, .pos = context, .block_addr = addr };
    void *work = zeroed(ops->attn_work_bytes(rows, NH, NKV, D, B));
    f64 best;
    BEST_S(best, 0.3, ops->attn(&(struct ops_attn){
        .q = q, .qg = qg, .y = y, .k_strip = { 0, NKV * D * 2 }, .v_strip = { strip, NKV * D * 2 },
        .span = &span, .span_count = 1, .rows = rows, .nh = NH, .nkv = NKV, .d = D,
        .block_rows = B, .work = work }));
    f64 keys = (f64)rows * context + 0.5 * rows * (rows + 1.0);
    printf("attn     %-7s %u threads  rows %4u after %5u: %8.1f us  %6.1f GFLOP/s\n", ops->level,
           ops->thread_count, rows, context, best * 1e6, keys * NH * D * 4.0 / best * 1e-9);
    free(all), free(addr), free(q), free(y), free(qg), free(work);
}

static void bench_gdn(const struct ops *ops, u32 rows)
{
    enum { HK = 4, HV = 12, D = 128, C = (2 * HK + HV) * D };
    f32 *raw = random_values((u64)rows * C, 1.0f, false), *y = zeroed((u64)rows * C * 4);
    f32 *w = random_values(C * 4, 0.5f, false), *a = random_values((u64)rows * HV, 1.0f, false);
    f32 *z = random_values((u64)rows * HV * D, 1.0f, false), *out = zeroed((u64)rows * HV * D * 4);
    f32 *norm = random_values(D, 1.0f, false), neg_a[HV];
    for (u32 i = 0; i < HV; i++) neg_a[i] = -0.01f;
    u8 *sections = zeroed(HV * D * D * 4 + C * 3 * 2);
    struct ops_span span = { .lo = 0, .hi = rows, .sections = sections };
    void *work = zeroed(ops->gdn_work_bytes(rows, HK, HV, D, D));
    f64 conv, gdn;
    BEST_S(conv, 0.2, ops->conv(&(struct ops_conv){
        .raw = raw, .w = w, .y = y, .tail_offset = HV * D * D * 4, .span = &span, .span_count = 1,
        .rows = rows, .c = C }));
    BEST_S(gdn, 0.2, ops->gdn(&(struct ops_gdn){
        .y = y, .a = a, .b = a, .z = z, .neg_a = neg_a, .dt_bias = neg_a, .norm = norm, .out = out,
        .span = &span, .span_count = 1, .rows = rows, .hk = HK, .hv = HV, .dk = D, .dv = D,
        .eps = 1e-6f, .work = work }));
    printf("conv     %-7s %u threads  rows %4u: %8.1f us    gdn: %8.1f us, %.2f us a row\n",
           ops->level, ops->thread_count, rows, conv * 1e6, gdn * 1e6, gdn * 1e6 / rows);
    free(raw), free(y), free(w), free(a), free(z), free(out), free(norm), free(sections);
    free(work);
}

static void bench_rows(const struct ops *ops, u32 rows)
{
    enum { H = 1024, I = 2304 };
    f32 *x = random_values((u64)rows * I, 1.0f, false), *y = zeroed((u64)rows * I * 4);
    f64 norm, glu, residual;
    BEST_S(norm, 0.05, ops->rms_norm(x, x, y, rows, H, 1e-6f));
    BEST_S(glu, 0.05, ops->glu(x, x, y, (u64)rows * I));
    BEST_S(residual, 0.05, ops->residual(x, y, (u64)rows * H));
    printf("rows     %-7s %u threads  rows %4u: norm %8.1f us  glu %8.1f us  residual %8.1f us\n",
           ops->level, ops->thread_count, rows, norm * 1e6, glu * 1e6, residual * 1e6);
    free(x), free(y);
}

static void bench_probe(const struct ops *ops)
{
    f64 best = 0;
    for (u32 i = 0; i < 5; i++) {
        f64 from = now_s();
        u64 done = cpu_probe(20000);
        best = MAX(best, (f64)done / (now_s() - from) * 1e-9);
    }
    printf("probe    %-7s %u threads: %.1f GFLOP/s in registers\n", ops->level, ops->thread_count,
           best);
}

static void bench_level(const struct ops *ops)
{
    if (strcmp(ops->level, "scalar") == 0) return;
    clock_of = ops->thread_count == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    bench_probe(ops);
    static const u32 rows[] = { 1, 2, 4, 8, 16, 256, 1024 };
    for (u32 i = 0; i < COUNT_OF(rows); i++) bench_product(ops, 2304, 1024, rows[i]);
    bench_product(ops, 1024, 2304, 1024);
    bench_product(ops, 1024, 2304, 1);
    bench_product(ops, 16384, 1024, 1);
    bench_product(ops, 12, 1024, 1024);
    bench_attn(ops, 1, 2048);
    bench_attn(ops, 1, 16384);
    bench_attn(ops, 512, 0);
    bench_attn(ops, 512, 4096);
    bench_gdn(ops, 1);
    bench_gdn(ops, 1024);
    bench_rows(ops, 1);
    bench_rows(ops, 1024);
}

static void bench_types(const struct ops *ops, u32 lo, u32 hi)
{
    static const u32 rows[] = { 1, 2, 4, 8, 64, 512 };
    if (strcmp(ops->level, "scalar") == 0) return;
    clock_of = ops->thread_count == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    for (u32 type = lo; type <= hi; type++)
        for (u32 i = 0; i < COUNT_OF(rows); i++) bench_format(ops, type, 2304, 1024, rows[i]);
}

static void bench_formats(const struct ops *ops) { bench_types(ops, OPS_FP8_BLOCK, OPS_Q6_K); }
static void bench_codes(const struct ops *ops) { bench_types(ops, OPS_Q4_0, OPS_Q6_K); }

static void each_wanted(u32 threads_most, enum ops_arithmetic arithmetic,
                        void (*bench)(const struct ops *ops))
{
    const char *only = getenv("BENCH_LEVEL"), *threads = getenv("BENCH_THREADS"), *level;
    u32 first = threads ? (u32)atoi(threads) : 1, last = threads ? first : threads_most;
    for (u32 i = 0; (level = cpu_level_name(i)) != NULL; i++)
        for (u32 t = first; t <= last && cpu_has_level(level); t++) {
            struct ops ops;
            if (only && strcmp(only, level) != 0) continue;
            CHECK_OK(cpu_open(&ops, t, level, arithmetic));
            bench(&ops);
            cpu_close();
        }
}

/* Q8_0 by the integer arithmetic; expanded it costs what Q4_0 does. */
TEST(speed_of_every_format) { each_wanted(1, OPS_AUTO, bench_formats); }
TEST(speed_of_codes_by_integers) { each_wanted(1, OPS_INTEGERS, bench_codes); }

TEST(speed_of_every_level) { each_wanted(2, OPS_AUTO, bench_level); }
