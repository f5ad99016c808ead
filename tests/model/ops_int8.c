/* tests/model/ops_int8.c - the integer arithmetic of random shapes: every level, thread count and
 * cut of the rows has level scalar's bits, with any bytes and scales, in every format.
 *
 * ops_format.c holds it to its formula; here are shapes no model has, bytes at the ends of their
 * range, blocks of zeros, heads a file holds tiled, scales that are subnormal, infinite or no
 * numbers, and matrices of several formats and arithmetics that read the same rows again. */
#include "tests/model/ops.h"

#include "model/cpu/quant.h"

enum { CASES = 48, ROWS_MOST = 70 };
enum scales { SCALES_PLAIN, SCALES_SMALL, SCALES_ANY, SCALES_COUNT };

struct int8_case {
    struct ops_pack_source source;
    u32 rows;
    bool y_f32;
    f32 *x, *want, *got;
};

static void put_half(u8 *at, u32 bits)
{
    at[0] = (u8)bits;
    at[1] = (u8)(bits >> 8);
}

/* Bits of a scale of the kind of block `b`. */
static u32 random_scale(enum scales scales, u64 b)
{
    u32 bits = random_u32();
    if (scales == SCALES_PLAIN) return (bits & 0x8000) | (9 + bits % 4) << 10 | (bits & 1023);
    if (scales == SCALES_SMALL) return bits & (bits % 3 == 0 ? 0x8000 : 0x83ff);
    if (b % 40 == 7)                                    /* an infinity or a NaN                */
        return 0x7c00 | (bits & 0x8000) | (bits % 2 ? 0 : bits & 1023);
    return (bits & 0x7c00) == 0x7c00 ? bits ^ 0x4000 : bits;
}

/* One block in eight is of zeros, one of bytes at both ends of codes and of scales within a block;
 * scales of any sign. */
static u8 *random_weights(const struct ops_pack_source *s, enum scales scales)
{
    static const u8 ends[2][2] = { { 0x00, 0xff }, { 0x80, 0x7f } };
    u32 bytes = quant_block_bytes(s->type), d = s->type == OPS_Q6_K ? 208 : 0;
    u64 count = (u64)s->n * s->k / quant_block_values(s->type);
    u8 *data = zeroed(count * bytes);
    for (u64 b = 0; b < count; b++) {
        u8 *block = data + b * bytes;
        u32 kind = random_u32() % 8;
        for (u32 i = 0; i < bytes; i++)
            block[i] = kind == 0 ? 0 : kind == 1 ? ends[s->type == OPS_Q8_0][random_u32() % 2]
                     : (u8)random_u32();
        put_half(block + d, random_scale(scales, b));
        if (s->type == OPS_Q4_K || s->type == OPS_Q5_K)
            put_half(block + 2, random_scale(scales, b));
    }
    return data;
}

/* A block's values lie within a few decades; blocks of zeros, and of the largest alone. */
static f32 *random_terms(u32 rows, u32 k, enum scales scales)
{
    f32 *x = zeroed((u64)rows * k * sizeof *x);
    for (u64 b = 0; b < (u64)rows * k / 32; b++) {
        u32 kind = random_u32() % 8, at = random_u32() % 32;
        f32 size = scales == SCALES_SMALL ? maths_float((1 + random_u32() % 48) << 23)
                 : maths_float((97 + random_u32() % 60) << 23);
        for (u32 i = 0; i < 32; i++) {
            f32 value = kind == 1 ? (random_u32() % 2 ? 1.0f : -1.0f) : random_f32(1.0f);
            x[b * 32 + i] = kind == 0 ? 0.0f : maths_flush(maths_round_bf16(value * size));
        }
        if (scales == SCALES_ANY && random_u32() % 50 == 0)
            x[b * 32 + at] = maths_float(random_u32() % 2 ? 0x7f800000u : 0xffc00000u);
    }
    return x;
}

static void run_rows(const struct ops *ops, const struct int8_case *c, f32 *y, u32 split)
{
    struct ops_matrix m;
    u8 *to = zeroed(ops->pack_bytes(&c->source));
    CHECK_OK(ops->pack(&c->source, to, &m));
    CHECK(m.int8);
    void *work = zeroed(ops->product_work_bytes(c->rows, m.k));
    for (u32 r = 0, count; r < c->rows; r += count) {
        count = chunk_rows(split, r, c->rows);
        CHECK_OK(ops->product(&(struct ops_product){
            .w = &m, .x = c->x + (u64)r * m.k, .y = y + (u64)r * m.n, .rows = count,
            .y_f32 = c->y_f32, .work = work }));
    }
    for (u64 i = 0; i < (u64)c->rows * m.n; i++)        /* a NaN is any NaN                    */
        if (y[i] != y[i]) y[i] = maths_float(0x7fc00000u);
    free(work), free(to);
}

static void run_whole(const struct ops *ops, void *owner)
{
    struct int8_case *c = owner;
    run_rows(ops, c, c->want, c->rows);
}

static void run_splits(const struct ops *ops, void *owner)
{
    static const u32 splits[] = { ROWS_MOST, 0, 13, 17 };
    struct int8_case *c = owner;
    u64 bytes = (u64)c->rows * c->source.n * sizeof *c->got;
    if (strcmp(ops->level, "scalar") == 0) return;
    for (u32 i = 0; i < COUNT_OF(splits); i++) {
        memset(c->got, 0xee, bytes);
        run_rows(ops, c, c->got, splits[i]);
        check_same(c->got, c->want, bytes, "integer product", ops);
    }
}

/* Zeros, other numbers, infinities and NaNs among the sums: what a test compared. */
static void count_sums(const struct int8_case *c, u64 count[3])
{
    for (u64 i = 0; i < (u64)c->rows * c->source.n; i++)
        count[c->want[i] == 0.0f ? 0 : maths_abs(c->want[i]) < MATHS_INF ? 1 : 2]++;
}

/* Rows and blocks of columns in a file's tiled order, in half of the shapes that have room. */
static struct ops_heads random_heads(u32 count, u32 unit)
{
    u32 dim = unit << random_u32() % 3, first = random_u32() % 2 ? count / 2 / dim * dim : 0;
    u32 values = (count - first) / dim;
    if (random_u32() % 2 || values < 4 || values % 2 != 0 || values * dim != count - first)
        return (struct ops_heads){ 0 };
    return (struct ops_heads){ .first = first, .keys = 2, .values = values, .dim = dim };
}

static void check_random(enum ops_source type, u32 i, u64 count[SCALES_COUNT][3])
{
    u32 unit = quant_block_values(type), blocks = unit == 32 ? 12 : 3;
    u32 scales = i % SCALES_COUNT, rows = i % 6 == 5 ? ROWS_MOST : 1 + random_u32() % ROWS_MOST;
    u32 n = 1 + 2 * (random_u32() % 30), long_to = unit == 32 ? 64 : 10;
    struct int8_case c = { .rows = rows, .y_f32 = i % 4 < 2 };
    c.source = (struct ops_pack_source){ .type = type, .n = n,
        .k = unit * (1 + random_u32() % (i % 8 == 0 ? long_to : blocks)) };
    c.source.rows = random_heads(n, 1);
    c.source.cols = random_heads(c.source.k, 32);
    c.source.data = random_weights(&c.source, scales);
    c.x = random_terms(rows, c.source.k, scales);
    c.want = zeroed((u64)rows * n * sizeof *c.want);
    c.got = zeroed((u64)rows * n * sizeof *c.got);
    scalar_backend(OPS_INTEGERS, run_whole, &c);
    each_backend(OPS_INTEGERS, run_splits, &c);
    count_sums(&c, count[scales]);
    free(c.want), free(c.got), free(c.x), free((u8 *)c.source.data);
}

static void check_type(enum ops_source type)
{
    u64 count[SCALES_COUNT][3] = { { 0 } };
    for (u32 i = 0; i < CASES; i++) {
        seed = 8800 + 1000 * (type - OPS_Q8_0) + i;
        check_random(type, i, count);
    }
    CHECK(count[SCALES_PLAIN][1] > 1000 && count[SCALES_PLAIN][2] == 0);
    CHECK(count[SCALES_SMALL][0] > 1000 && count[SCALES_SMALL][1] > 1000);
    CHECK(count[SCALES_ANY][1] > 1000 && count[SCALES_ANY][2] > 1000);
}

TEST(integer_products_of_random_shapes_have_the_bits_of_the_reference) { check_type(OPS_Q8_0); }
TEST(q4_0_of_random_shapes_has_the_bits_of_the_reference) { check_type(OPS_Q4_0); }
TEST(q4_k_of_random_shapes_has_the_bits_of_the_reference) { check_type(OPS_Q4_K); }
TEST(q5_k_of_random_shapes_has_the_bits_of_the_reference) { check_type(OPS_Q5_K); }
TEST(q6_k_of_random_shapes_has_the_bits_of_the_reference) { check_type(OPS_Q6_K); }

/* ---- the same rows again --------------------------------------------------------------------- */

enum { AGAIN = 5, AGAIN_K = 512, AGAIN_N = 37 };

struct again_case { struct ops_pack_source source[AGAIN]; f32 *x; u32 rows, integers; };

/* Products of all matrices, each with work of its own, then of the same rows one after another. */
static void run_again(const struct ops *ops, void *owner)
{
    struct again_case *c = owner;
    u64 bytes = (u64)c->rows * AGAIN_N * sizeof(f32);
    u8 *work = zeroed(ops->product_work_bytes(c->rows, AGAIN_K));
    f32 *alone = zeroed(bytes), *again = zeroed(bytes);
    struct ops_matrix m[AGAIN];
    for (u32 i = 0; i < AGAIN; i++) {
        CHECK_OK(ops->pack(&c->source[i], zeroed(ops->pack_bytes(&c->source[i])), &m[i]));
        c->integers += m[i].int8;
    }
    for (u32 i = 0; i < AGAIN; i++) {
        struct ops_product p = { .w = &m[i], .x = c->x, .y = alone, .rows = c->rows,
                                 .work = work, .y_f32 = true };
        memset(work, 0xaa, ops->product_work_bytes(c->rows, AGAIN_K));
        CHECK_OK(ops->product(&p));
        memset(work, 0x55, ops->product_work_bytes(c->rows, AGAIN_K));
        p.y = again;
        for (u32 j = 0; j <= i; j++) {
            p.w = &m[j];
            p.same_x = j > 0;
            CHECK_OK(ops->product(&p));
        }
        check_same(again, alone, bytes, "the same rows again", ops);
    }
    for (u32 i = 0; i < AGAIN; i++) free((u8 *)m[i].packed);
    free(work), free(alone), free(again);
}

/* Q, K and V of a file are of several formats, and each of its own arithmetic. */
TEST(matrices_of_any_formats_and_arithmetics_read_the_same_rows_again)
{
    u32 integers = 0, count = 0;
    for (u32 i = 0; i < CASES; i++) {
        struct again_case c = { .rows = 1 + i };
        seed = 44000 + i;
        u32 words = (random_u32() & (OPS_EXPANDED | OPS_INTEGERS));
        for (u32 w = 0; w < AGAIN; w++) {
            enum ops_source type = OPS_Q8_0 + random_u32() % (OPS_SOURCE_COUNT - OPS_Q8_0);
            c.source[w] = (struct ops_pack_source){ .type = type, .n = AGAIN_N, .k = AGAIN_K };
            c.source[w].data = random_weights(&c.source[w], SCALES_PLAIN);
        }
        c.x = random_terms(c.rows, AGAIN_K, SCALES_PLAIN);
        each_backend((enum ops_arithmetic)words, run_again, &c);
        for (u32 w = 0; w < AGAIN; w++) free((u8 *)c.source[w].data);
        free(c.x);
        integers += c.integers;
        count += AGAIN;
    }
    CHECK(integers > count && count > 0);
}
