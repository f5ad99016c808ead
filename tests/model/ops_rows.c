/* tests/model/ops_rows.c - norm, residual, gated product, embedding, gather on every level. */
#include "tests/model/ops.h"

struct rows_case {
    u32 rows, n;
    bool reference;
    f32 *x, *y, *scale;
    struct output { f32 *norm, *glu, *residual; } want, got;
};

static void run_cut(const struct ops *ops, const struct rows_case *c, struct output *o, u32 split)
{
    memcpy(o->residual, c->x, (u64)c->rows * c->n * 4);
    for (u32 r = 0, count; r < c->rows; r += count) {
        u64 at = (u64)r * c->n;
        count = chunk_rows(split, r, c->rows);
        CHECK_OK(ops->rms_norm(c->x + at, c->scale, o->norm + at, count, c->n, 1e-6f));
        CHECK_OK(ops->glu(c->x + at, c->y + at, o->glu + at, (u64)count * c->n));
        CHECK_OK(ops->residual(o->residual + at, c->y + at, (u64)count * c->n));
    }
}

static void run_whole(const struct ops *ops, void *owner)
{
    struct rows_case *c = owner;
    run_cut(ops, c, &c->want, c->rows);
}

static void run_splits(const struct ops *ops, void *owner)
{
    static const u32 splits[] = { 1, 3, 16, 64, 1000, 0 };
    struct rows_case *c = owner;
    u64 bytes = (u64)c->rows * c->n * 4;
    for (u32 i = 0; i < COUNT_OF(splits); i++) {
        run_cut(ops, c, &c->got, splits[i]);
        check_same(c->got.norm, c->want.norm, bytes, "norm", ops);
        check_same(c->got.glu, c->want.glu, bytes, "glu", ops);
        check_same(c->got.residual, c->want.residual, bytes, "residual", ops);
    }
}

static void check_case(u32 rows, u32 n, bool reference)
{
    struct rows_case c = { .rows = rows, .n = n, .reference = reference };
    u64 count = (u64)rows * n;
    c.x = random_values(count, 5.0f, reference);
    c.y = random_values(count, 5.0f, reference);
    c.scale = random_values(n, 1.0f, true);
    struct output *both[] = { &c.want, &c.got };
    for (u32 i = 0; i < 2; i++) {
        both[i]->norm = zeroed(count * 4);
        both[i]->glu = zeroed(count * 4);
        both[i]->residual = zeroed(count * 4);
    }
    scalar_backend(reference, run_whole, &c);
    each_backend(reference, run_splits, &c);
    for (u32 i = 0; i < 2; i++) free(both[i]->norm), free(both[i]->glu), free(both[i]->residual);
    free(c.x), free(c.y), free(c.scale);
}

TEST(norms_residuals_and_gated_products_have_the_bits_of_the_reference)
{
    check_case(70, 128, false);
    check_case(1000, 192, false);
    check_case(9, 5120, false);
    check_case(5, 37, false);
    check_case(70, 128, true);
}

TEST(a_norm_is_its_formula)
{
    enum { N = 48 };
    struct ops ops;
    f32 x[N], scale[N], y[N];
    for (u32 i = 0; i < N; i++) x[i] = random_f32(3.0f), scale[i] = 1.0f + random_f32(0.1f);
    CHECK_OK(cpu_open(&ops, 1, NULL, OPS_REFERENCE));
    CHECK_OK(ops.rms_norm(x, scale, y, 1, N, 1e-6f));
    f64 sum = 0.0;
    for (u32 i = 0; i < N; i++) sum += (f64)x[i] * (f64)x[i];
    for (u32 i = 0; i < N; i++) {
        f64 want = (f64)x[i] / __builtin_sqrt(sum / N + 1e-6) * (f64)scale[i];
        CHECK((f64)y[i] - want < 1e-5 && want - (f64)y[i] < 1e-5);
    }
    cpu_close();
}

TEST(embedding_rows_are_rounded_and_flushed)
{
    struct ops ops;
    f32 wide[2][2] = { { 1.0f, maths_float(0x00000001u) }, { maths_float(0x3f808001u), -3.0f } };
    bf16 narrow[2][2] = { { 0x3f80u, 0x0001u }, { 0x4040u, 0xc000u } };
    u16 half[2][2] = { { 0x3c00u, 0x0001u }, { 0x3555u, 0xfc00u } };
    u32 ids[3] = { 1, 0, 1 };
    f32 x[3][2];
    CHECK_OK(cpu_open(&ops, 2, NULL, OPS_AUTO));
    CHECK_OK(ops.embed((u8 *)wide, OPS_F32, ids, 3, 2, x));
    CHECK(maths_bits(x[0][0]) == 0x3f810000u && x[0][1] == -3.0f && maths_bits(x[1][1]) == 0);
    CHECK_OK(ops.embed((u8 *)narrow, OPS_BF16, ids, 3, 2, x));
    CHECK(x[0][0] == 3.0f && x[1][0] == 1.0f && maths_bits(x[1][1]) == 0 && x[2][1] == -2.0f);
    CHECK_OK(ops.embed((u8 *)half, OPS_F16, ids, 3, 2, x));
    CHECK(x[1][1] == 0x1p-24f && maths_bits(x[0][0]) == 0x3eab0000u);
    CHECK(ops.embed((u8 *)half, OPS_FP8_BLOCK, ids, 3, 2, x) == ERR_UNSUPPORTED);
    u32 rows[2] = { 2, 0 };
    f32 gathered[2][2], plain[4];
    CHECK_OK(ops.gather(x, rows, 2, 2, gathered));
    CHECK(memcmp(gathered[0], x[2], 8) == 0 && memcmp(gathered[1], x[0], 8) == 0);
    CHECK_OK(ops.to_f32(gathered, plain, 4));
    CHECK(memcmp(plain, gathered, 16) == 0);
    cpu_close();
}

TEST(an_unknown_level_is_refused_by_name)
{
    struct ops ops;
    CHECK(cpu_open(&ops, 1, "avx1024", OPS_AUTO) == ERR_UNSUPPORTED);
    CHECK(strstr(err_last()->text, "avx1024") != NULL);
    CHECK(cpu_open(&ops, 65, NULL, OPS_AUTO) == ERR_LIMIT);
    CHECK_OK(cpu_open(&ops, 1, "auto", OPS_REFERENCE));
    CHECK_EQ(ops.arithmetic_id, 1001);
    CHECK_EQ(ops.store_bytes, 4);
    cpu_close();
}
