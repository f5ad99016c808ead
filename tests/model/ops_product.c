/* tests/model/ops_product.c - order32: every level, thread count and cut of the rows, by memcmp. */
#include "tests/model/ops.h"

struct product_case {
    u32 rows, n, k;
    bool reference, y_f32;
    struct ops_pack_source source;
    f32 *x, *want, *got;
};

static const u32 splits[] = { 1, 2, 3, 16, 64, 1000, 0 };

static void pack_case(const struct ops *ops, const struct product_case *c, struct ops_matrix *m)
{
    u8 *to = zeroed(ops->pack_bytes(&c->source));
    memset(to, 0xff, ops->pack_bytes(&c->source));
    CHECK_OK(ops->pack(&c->source, to, m));
    CHECK_EQ(m->packed_bytes, ops->pack_bytes(&c->source));
}

static void run_rows(const struct ops *ops, const struct product_case *c, f32 *y, u32 split)
{
    struct ops_matrix m;
    pack_case(ops, c, &m);
    void *work = zeroed(ops->product_work_bytes(c->rows, c->k));
    for (u32 r = 0, count; r < c->rows; r += count) {
        count = chunk_rows(split, r, c->rows);
        CHECK_OK(ops->product(&(struct ops_product){ .w = &m, .x = c->x + (u64)r * c->k,
                                                     .y = y + (u64)r * c->n, .rows = count,
                                                     .y_f32 = c->y_f32, .work = work }));
    }
    free(work);
    free((u8 *)m.packed);
}

static void run_whole(const struct ops *ops, void *owner)
{
    struct product_case *c = owner;
    run_rows(ops, c, c->want, c->rows);
}

static void run_splits(const struct ops *ops, void *owner)
{
    struct product_case *c = owner;
    u64 bytes = (u64)c->rows * c->n * sizeof(f32);
    for (u32 i = 0; i < COUNT_OF(splits); i++) {
        if (strcmp(ops->level, "scalar") == 0 && i > 1) continue;
        memset(c->got, 0xee, bytes);
        run_rows(ops, c, c->got, splits[i]);
        check_same(c->got, c->want, bytes, "product", ops);
    }
}

static void check_case(struct product_case *c)
{
    u64 bytes = (u64)c->rows * c->n * sizeof(f32);
    c->want = zeroed(bytes);
    c->got = zeroed(bytes);
    c->source.n = c->n;
    c->source.k = c->k;
    scalar_backend(c->reference, run_whole, c);
    each_backend(c->reference, run_splits, c);
    free(c->want);
    free(c->got);
}

static u8 *random_bf16(u64 count)
{
    bf16 *w = malloc(count * sizeof(bf16));
    for (u64 i = 0; i < count; i++) w[i] = maths_to_bf16(random_f32(0.1f));
    return (u8 *)w;
}

static void check_shape(u32 rows, u32 n, u32 k, bool reference)
{
    struct product_case c = { .rows = rows, .n = n, .k = k, .reference = reference };
    c.source = (struct ops_pack_source){ .data = random_bf16((u64)n * k), .type = OPS_BF16 };
    c.x = random_values((u64)rows * k, 1.0f, reference);
    check_case(&c);
    c.y_f32 = true;
    check_case(&c);
    free((u8 *)c.source.data);
    free(c.x);
}

TEST(products_have_the_bits_of_the_reference_for_any_cut)
{
    check_shape(70, 96, 192, false);
    check_shape(1003, 32, 64, false);
    check_shape(13, 272, 1024, false);
    check_shape(9, 4, 128, false);
    check_shape(67, 7, 40, false);
    check_shape(5, 33, 31, false);
    check_shape(70, 40, 2700, false);
    check_shape(13, 50, 3008, false);
}

TEST(products_of_the_reference_mode_keep_f32)
{
    check_shape(70, 96, 192, true);
    check_shape(11, 20, 45, true);
}

TEST(other_formats_expand_to_the_same_products)
{
    enum { ROWS = 8, N = 140, K = 288 };
    u8 *data = zeroed(N * K * 4), *scale = zeroed(64);
    struct product_case c = { .rows = ROWS, .n = N, .k = K };
    c.x = random_values(ROWS * K, 1.0f, false);
    for (u32 i = 0; i < N * K * 2; i++) data[i] = (u8)random_u32() & 0xbfu;
    c.source = (struct ops_pack_source){ .data = data, .type = OPS_F16 };
    check_case(&c);
    for (u32 i = 0; i < N * K; i++) {
        f32 value = random_f32(0.1f);
        memcpy(data + 4 * i, &value, 4);
    }
    c.source.type = OPS_F32;
    check_case(&c);
    for (u32 i = 0; i < N * K; i++)
        data[i] = (data[i] & 0x7f) == 0x7f ? 0 : data[i];
    for (u32 i = 0; i < 2 * 3; i++)
        ((bf16 *)(void *)scale)[i] = maths_to_bf16(0.01f * (f32)(i + 1));
    c.source = (struct ops_pack_source){ .data = data, .type = OPS_FP8_BLOCK, .scale = scale,
                                         .scale_type = OPS_BF16 };
    check_case(&c);
    c.reference = true;
    check_case(&c);
    free(data);
    free(scale);
    free(c.x);
}

TEST(a_block_fp8_value_is_code_times_its_own_scale)
{
    enum { N = 130, K = 160 };
    struct ops ops;
    struct ops_matrix m;
    u8 *codes = zeroed(N * K), *y = zeroed(N * 4);
    f32 *scale = zeroed(64), x[K] = { 0 };
    codes[129 * K + 130] = 0x40;                            /* 2.0                             */
    codes[129 * K + 3] = 0xb8;                              /* -1.0                            */
    scale[2] = 3.0f;                                        /* block (1, 0)                    */
    scale[3] = 5.0f;                                        /* block (1, 1)                    */
    x[130] = 1.0f;
    x[3] = 1.0f;
    CHECK_OK(cpu_open(&ops, 1, NULL, OPS_AUTO));
    struct ops_pack_source source = { .data = codes, .type = OPS_FP8_BLOCK, .scale = (u8 *)scale,
                                      .scale_type = OPS_F32, .n = N, .k = K };
    u8 *to = zeroed(ops.pack_bytes(&source));
    CHECK_OK(ops.pack(&source, to, &m));
    void *work = zeroed(ops.product_work_bytes(1, K));
    CHECK_OK(ops.product(&(struct ops_product){ .w = &m, .x = x, .y = y, .rows = 1,
                                                .work = work }));
    CHECK(((f32 *)(void *)y)[129] == 2.0f * 5.0f - 3.0f && ((f32 *)(void *)y)[128] == 0.0f);
    source.scale = NULL;
    CHECK(ops.pack(&source, to, &m) == ERR_UNSUPPORTED);
    cpu_close();
    free(codes);
    free(y);
    free(work);
    free(scale);
    free(to);
}

/* Sums near 2^-126 flush, and -0 followed by a block of zeros is +0: the same on every level. */
TEST(subnormal_sums_and_zero_blocks_are_walked_alike)
{
    enum { ROWS = 40, N = 48, K = 160 };
    struct product_case c = { .rows = ROWS, .n = N, .k = K, .y_f32 = true };
    bf16 *w = malloc(N * K * sizeof(bf16));
    c.x = malloc(ROWS * K * sizeof(f32));
    for (u32 i = 0; i < N * K; i++)
        w[i] = (bf16)((random_u32() & 0x8000u) | ((60u + random_u32() % 8u) << 7) |
                      (random_u32() & 0x7fu));
    for (u32 i = 0; i < ROWS * K; i++)
        c.x[i] = maths_float((random_u32() & 1u) << 31 | (58u + random_u32() % 12u) << 23 |
                             (random_u32() & 0x7fu) << 16);
    for (u32 r = 0; r < ROWS; r++)
        for (u32 i = r * 4 % K; i < K; i++) c.x[r * K + i] = r % 2 ? 0.0f : -0.0f;
    c.source = (struct ops_pack_source){ .data = (u8 *)w, .type = OPS_BF16 };
    check_case(&c);
    free(w);
    free(c.x);
}

TEST(products_of_random_shapes)
{
    for (u32 i = 0; i < 20; i++) {
        seed = 6300 + i;
        u32 rows = 1 + random_u32() % 45, n = 1 + random_u32() % 100, k = 1 + random_u32() % 200;
        check_shape(rows, n, k, i % 4 == 0);
    }
}
