/* tests/model/ops_int8.c - the integer arithmetic of random shapes: every level, thread count and
 * cut of the rows has level scalar's bits, with any bytes and scales.
 *
 * ops_format.c holds it to its formula; here are shapes no model has, bytes at the ends of their
 * range, blocks of zeros, and scales that are subnormal, infinite or no numbers. */
#include "tests/model/ops.h"

#include "model/cpu/quant.h"

enum { CASES = 48, ROWS_MOST = 70, BLOCK_BYTES = 34 };
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

/* One block in eight is of zeros, one of bytes at both ends; scales of any sign. */
static u8 *random_weights(u32 n, u32 k, enum scales scales)
{
    u64 count = (u64)n * k / 32;
    u8 *data = zeroed(count * BLOCK_BYTES);
    for (u64 b = 0; b < count; b++) {
        u8 *block = data + b * BLOCK_BYTES;
        u32 kind = random_u32() % 8, bits = random_u32();
        for (u32 i = 2; i < BLOCK_BYTES; i++)
            block[i] = kind == 0 ? 0 : kind == 1 ? (random_u32() % 2 ? 0x80 : 0x7f)
                     : (u8)random_u32();
        if (scales == SCALES_PLAIN) bits = (bits & 0x8000) | (9 + bits % 4) << 10 | (bits & 1023);
        if (scales == SCALES_SMALL) bits &= bits % 3 == 0 ? 0x8000 : 0x83ff;
        if (scales == SCALES_ANY && b % 40 == 7)        /* an infinity or a NaN                */
            bits = 0x7c00 | (bits & 0x8000) | (bits % 2 ? 0 : bits & 1023);
        else if ((bits & 0x7c00) == 0x7c00) bits ^= 0x4000;
        put_half(block, bits);
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

TEST(integer_products_of_random_shapes_have_the_bits_of_the_reference)
{
    u64 count[SCALES_COUNT][3] = { { 0 } };
    for (u32 i = 0; i < CASES; i++) {
        seed = 8800 + i;
        u32 scales = i % SCALES_COUNT, rows = i % 6 == 5 ? ROWS_MOST : 1 + random_u32() % ROWS_MOST;
        u32 n = 1 + 2 * (random_u32() % 30), k = 32 * (1 + random_u32() % (i % 8 == 0 ? 64 : 12));
        struct int8_case c = { .rows = rows, .y_f32 = i % 4 < 2 };
        c.source = (struct ops_pack_source){ .type = OPS_Q8_0, .n = n, .k = k };
        c.source.data = random_weights(n, k, scales);
        c.x = random_terms(rows, k, scales);
        c.want = zeroed((u64)rows * n * sizeof *c.want);
        c.got = zeroed((u64)rows * n * sizeof *c.got);
        scalar_backend(OPS_AUTO, run_whole, &c);
        each_backend(OPS_AUTO, run_splits, &c);
        count_sums(&c, count[scales]);
        free(c.want), free(c.got), free(c.x), free((u8 *)c.source.data);
    }
    CHECK(count[SCALES_PLAIN][1] > 1000 && count[SCALES_PLAIN][2] == 0);
    CHECK(count[SCALES_SMALL][0] > 1000 && count[SCALES_SMALL][1] > 1000);
    CHECK(count[SCALES_ANY][1] > 1000 && count[SCALES_ANY][2] > 1000);
}
