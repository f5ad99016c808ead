/* tests/model/ops_format.c - matrices that keep their file's bits, by memcmp at every level.
 *
 * Expanded formats: the product of the same numbers packed as BF16, for every number of rows that
 * changes a kernel's path.  The integer arithmetic: the formula of ops.h written out here. */
#include "tests/model/ops.h"

#include "model/cpu/quant.h"

enum { N = 70, K = 768, ROWS = 513, FP8_EDGE = 128 };

static const u32 row_counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32,
                                  33, 128, 513 };

struct format_case {
    struct ops_pack_source source;
    f32 *x, *want;                      /* [ROWS, k], [ROWS, n]                                */
    bool y_f32;
    enum ops_arithmetic arithmetic;
};

static void run_counts(const struct ops *ops, const struct format_case *c)
{
    u32 n = c->source.n, k = c->source.k;
    struct ops_matrix m;
    u8 *to = zeroed(ops->pack_bytes(&c->source));
    u8 *work = zeroed(ops->product_work_bytes(ROWS, k));
    f32 *y = zeroed((u64)ROWS * n * sizeof *y);
    memset(to, 0xff, ops->pack_bytes(&c->source));
    CHECK_OK(ops->pack(&c->source, to, &m));
    for (u32 i = 0; i < COUNT_OF(row_counts); i++) {
        u32 rows = row_counts[i];
        if (strcmp(ops->level, "scalar") == 0 && rows > 3 && rows != ROWS) continue;
        memset(y, 0xee, (u64)rows * n * sizeof *y);
        CHECK_OK(ops->product(&(struct ops_product){ .w = &m, .x = c->x, .y = y, .rows = rows,
                                                     .y_f32 = c->y_f32, .work = work }));
        check_same(y, c->want, (u64)rows * n * sizeof *y, "product", ops);
    }
    free(y), free(work), free(to);
}

static void run_level(const struct ops *ops, void *owner)
{
    if (strcmp(ops->level, "scalar") != 0 || ops->thread_count == 1) run_counts(ops, owner);
}

/* ---- expanded formats ------------------------------------------------------------------------ */

/* The file's value of the model's row j, column t, by quant.c and maths.h. */
static f32 value_of(const struct ops_pack_source *s, u32 j, u32 t)
{
    u32 row = ops_heads_from(&s->rows, j), col = ops_heads_from(&s->cols, t), across;
    f32 value;
    if (s->type != OPS_FP8_BLOCK) {
        quant_expand(s->type, s->data, s->k, row, col, 1, &value);
        return value;
    }
    across = (s->k + FP8_EDGE - 1) / FP8_EDGE;
    memcpy(&value, s->scale + 4ull * (row / FP8_EDGE * across + col / FP8_EDGE), 4);
    return maths_from_e4m3(s->data[(u64)row * s->k + col]) * value;
}

/* `want` of the same numbers as a BF16 matrix, at level scalar. */
static void want_of_numbers(struct format_case *c)
{
    u32 n = c->source.n, k = c->source.k;
    struct ops ops;
    struct ops_matrix m;
    bf16 *w = zeroed((u64)n * k * sizeof *w);
    for (u32 j = 0; j < n; j++)
        for (u32 t = 0; t < k; t++)
            w[(u64)j * k + t] = maths_to_bf16(value_of(&c->source, j, t));
    struct ops_pack_source plain = { .data = (u8 *)w, .type = OPS_BF16, .n = n, .k = k };
    CHECK_OK(cpu_open(&ops, 1, "scalar", OPS_EXPANDED));
    u8 *to = zeroed(ops.pack_bytes(&plain));
    CHECK_OK(ops.pack(&plain, to, &m));
    CHECK_OK(ops.product(&(struct ops_product){ .w = &m, .x = c->x, .y = c->want, .rows = ROWS,
                                                .y_f32 = c->y_f32 }));
    cpu_close();
    free(to), free(w);
}

static void put_half(u8 *at, u32 bits)
{
    at[0] = (u8)bits;
    at[1] = (u8)(bits >> 8);
}

/* A scale of either sign: 1/64 to 1/4; small: a subnormal half, or a zero of either sign. */
static u32 random_half(bool small)
{
    u32 sign = random_u32() % 2 << 15;
    if (!small) return sign | (9 + random_u32() % 4) << 10 | (random_u32() & 1023);
    return sign | (random_u32() % 4 == 0 ? 0 : random_u32() & 1023);
}

/* Random blocks whose scales are numbers. */
static u8 *random_blocks(enum ops_source type, u32 n, u32 k, bool small)
{
    static const u32 half_at[][2] = { [OPS_Q8_0] = { 0, 0 }, [OPS_Q4_0] = { 0, 0 },
                                      [OPS_Q4_K] = { 0, 2 }, [OPS_Q5_K] = { 0, 2 },
                                      [OPS_Q6_K] = { 208, 208 } };
    u32 bytes = quant_block_bytes(type);
    u64 count = (u64)n * (k / quant_block_values(type));
    u8 *data = zeroed(count * bytes);
    for (u64 i = 0; i < count * bytes; i++) data[i] = (u8)random_u32();
    for (u64 i = 0; i < count; i++)
        for (u32 h = 0; h < 2; h++) put_half(data + i * bytes + half_at[type][h],
                                             random_half(small));
    return data;
}

/* Sums near 2^-126 are among those of small rows: they flush alike. */
static f32 *random_rows(u32 k, bool small)
{
    f32 *x = random_values((u64)ROWS * k, small ? 0x1p-104f : 1.0f, false);
    for (u64 i = 0; i < (u64)ROWS * k; i++) {
        if (small) x[i] = maths_round_bf16(maths_flush(x[i] * (i % 3 == 0 ? 0x1p-6f : 1.0f)));
        if (i % 41 == 0) x[i] = i % 2 ? 0.0f : -0.0f;
    }
    return x;
}

static void check_expanded(const struct ops_pack_source *source, bool small, bool y_f32)
{
    struct format_case c = { .source = *source, .y_f32 = y_f32, .arithmetic = OPS_EXPANDED };
    c.x = random_rows(source->k, small);
    c.want = zeroed((u64)ROWS * source->n * sizeof *c.want);
    want_of_numbers(&c);
    each_backend(c.arithmetic, run_level, &c);
    free(c.x), free(c.want);
}

static void check_format(enum ops_source type)
{
    for (u32 small = 0; small < 2; small++) {
        struct ops_pack_source source = { .type = type, .n = N, .k = K };
        source.data = random_blocks(type, N, K, small);
        check_expanded(&source, small, small);
        free((u8 *)source.data);
    }
}

TEST(q8_0_expanded_has_the_bits_of_its_numbers) { check_format(OPS_Q8_0); }
TEST(q4_0_has_the_bits_of_its_numbers) { check_format(OPS_Q4_0); }
TEST(q4_k_has_the_bits_of_its_numbers) { check_format(OPS_Q4_K); }
TEST(q5_k_has_the_bits_of_its_numbers) { check_format(OPS_Q5_K); }
TEST(q6_k_has_the_bits_of_its_numbers) { check_format(OPS_Q6_K); }

TEST(block_fp8_has_the_bits_of_its_numbers)
{
    static const u32 shapes[][2] = { { 150, 300 }, { 33, 1021 }, { 16, 64 }, { 17, 21 } };
    for (u32 i = 0; i < COUNT_OF(shapes); i++) {
        u32 n = shapes[i][0], k = shapes[i][1];
        u8 *data = zeroed((u64)n * k);
        f32 *scale = zeroed(4096);
        for (u64 b = 0; b < (u64)n * k; b++) {
            data[b] = (u8)(b < 512 ? b : random_u32());
            if ((data[b] & 0x7f) == 0x7f) data[b] = 0x80;
        }
        for (u32 b = 0; b < 64; b++) scale[b] = random_f32(0.05f);
        struct ops_pack_source source = { .data = data, .type = OPS_FP8_BLOCK, .n = n, .k = k,
                                          .scale = (u8 *)scale, .scale_type = OPS_F32 };
        check_expanded(&source, i == 2, i == 1);
        free(data), free(scale);
    }
}

TEST(a_row_of_one_block_or_of_three_has_the_bits_of_its_numbers)
{
    for (u32 k = 32; k <= 96; k += 64) {
        struct ops_pack_source source = { .type = OPS_Q4_0, .n = 35, .k = k };
        source.data = random_blocks(OPS_Q4_0, source.n, k, false);
        check_expanded(&source, false, true);
        free((u8 *)source.data);
    }
}

/* Heads that a file holds tiled: rows, columns by whole blocks, and columns that tear blocks. */
TEST(heads_a_file_holds_tiled_go_back_to_their_places_in_every_format)
{
    for (u32 type = OPS_Q8_0; type <= OPS_Q6_K; type++)
        for (u32 dim = 16; dim <= 128; dim *= 2) {
            u32 keys = 2, values = 6 * 128 / dim * 2;
            struct ops_pack_source source = { .type = type, .n = 48, .k = values * dim };
            source.rows = (struct ops_heads){ .first = 16, .keys = 2, .values = 4, .dim = 8 };
            source.cols = (struct ops_heads){ .keys = keys, .values = values, .dim = dim };
            source.data = random_blocks(type, source.n, source.k, false);
            check_expanded(&source, false, true);
            free((u8 *)source.data);
        }
}

/* As many blocks as level amx expands in one go, and sums of a K beyond that. */
TEST(blocks_of_a_long_row_have_the_bits_of_their_numbers)
{
    static const u32 lengths[] = { 2560, 2816 };
    for (u32 i = 0; i < COUNT_OF(lengths); i++) {
        struct ops_pack_source source = { .type = OPS_Q4_K, .n = 40, .k = lengths[i] };
        source.data = random_blocks(source.type, source.n, source.k, false);
        check_expanded(&source, false, i == 0);
        free((u8 *)source.data);
    }
}

static void keeps_size(const struct ops *ops, void *owner)
{
    (void)owner;
    for (u32 type = OPS_Q8_0; type <= OPS_Q6_K; type++) {
        struct ops_pack_source source = { .type = type, .n = 64, .k = 1024 };
        u64 file = 64 * (1024 / quant_block_values(type)) * quant_block_bytes(type);
        CHECK_EQ(ops->pack_bytes(&source), file);
    }
    struct ops_pack_source fp8 = { .type = OPS_FP8_BLOCK, .n = 256, .k = 1024 };
    CHECK_EQ(ops->pack_bytes(&fp8), 256 * 1024 + 256 / 16 * 64);    /* scales a strip, 8 x 4 B */
}

TEST(a_packed_matrix_has_the_size_of_its_blocks) { each_backend(OPS_AUTO, keeps_size, NULL); }

/* A NaN in a scale reaches its column, and no other. */
static void nan_column(const struct ops *ops, void *owner)
{
    const struct ops_pack_source *source = owner;
    struct ops_matrix m;
    u8 *to = zeroed(ops->pack_bytes(source)), *work = zeroed(ops->product_work_bytes(2, K));
    f32 *x = random_values(2 * K, 1.0f, false), y[2 * N];
    CHECK_OK(ops->pack(source, to, &m));
    CHECK_OK(ops->product(&(struct ops_product){ .w = &m, .x = x, .y = y, .rows = 2,
                                                 .y_f32 = true, .work = work }));
    for (u32 i = 0; i < 2 * N; i++) CHECK_EQ(y[i] != y[i], i % N == 33);
    free(to), free(work), free(x);
}

TEST(a_nan_scale_makes_its_column_nan_at_every_level)
{
    for (u32 type = OPS_Q8_0; type <= OPS_Q6_K; type++) {
        struct ops_pack_source source = { .type = type, .n = N, .k = K };
        source.data = random_blocks(type, N, K, false);
        u64 row = (u64)K / quant_block_values(type) * quant_block_bytes(type);
        put_half((u8 *)source.data + 33 * row + (type == OPS_Q6_K ? 208 : 0), 0x7fff);
        each_backend(OPS_AUTO, nan_column, &source);
        free((u8 *)source.data);
    }
}

/* ---- the integer arithmetic ------------------------------------------------------------------ */

static f32 half_at(const u8 *at)
{
    return maths_from_f16((u16)(at[0] | at[1] << 8));
}

/* 32 weights of a file: code (with its offset off) times its half's scale, less `least`. */
struct block32 { i32 code[32]; f32 scale[2], least; };

/* Part `part` of a block at `b`: the format's definition (spec: gguf). */
static struct block32 block32_of(enum ops_source type, const u8 *b, u32 part)
{
    struct block32 to = { .scale = { half_at(b), half_at(b) } };
    for (u32 i = 0; i < 32; i++) {
        u32 wide = i + part % 2 * 32, pair = part / 2 * 32 + i;         /* of 64; of 128        */
        if (type == OPS_Q8_0) to.code[i] = (i8)b[2 + i];
        if (type == OPS_Q4_0) to.code[i] = (b[2 + i % 16] >> i / 16 * 4 & 15) - 8;
        if (type == OPS_Q4_K) to.code[i] = b[16 + pair] >> part % 2 * 4 & 15;
        if (type == OPS_Q5_K)
            to.code[i] = (b[48 + pair] >> part % 2 * 4 & 15) | (b[16 + i] >> part & 1) << 4;
        if (type == OPS_Q6_K)
            to.code[i] = ((b[part / 4 * 64 + wide] >> part % 4 / 2 * 4 & 15) |
                          (b[128 + part / 4 * 32 + i] >> part % 4 * 2 & 3) << 4) - 32;
    }
    if (type == OPS_Q6_K)
        for (u32 h = 0; h < 2; h++)
            to.scale[h] = half_at(b + 208) * (f32)(i8)b[192 + part * 2 + h];
    if (type == OPS_Q4_K || type == OPS_Q5_K) {
        const u8 *s = b + 4;
        u32 scale = part < 4 ? s[part] & 63u : (s[part + 4] & 15u) | (s[part - 4] >> 6) * 16u;
        u32 least = part < 4 ? s[part + 4] & 63u : (s[part + 4] >> 4) | (s[part] >> 6) * 16u;
        to.scale[0] = to.scale[1] = half_at(b) * (f32)scale;
        to.least = half_at(b + 2) * (f32)least;
    }
    return to;
}

/* One block's step from the sum s: the rule of ops.h. */
static f32 int8_block_step(enum ops_source type, const struct block32 *w, const i32 *q, f32 d,
                           f32 s)
{
    i32 dot[2] = { 0, 0 }, sum = 0;
    for (u32 i = 0; i < 32; i++) {
        dot[i / 16] += q[i] * w->code[i];
        sum += q[i];
    }
    if (type == OPS_Q8_0)
        return maths_flush(s + maths_flush((f32)(dot[0] + dot[1]) * maths_flush(d * w->scale[0])));
    if (type != OPS_Q6_K) dot[0] += dot[1];
    s = maths_flush(HF_FMA((f32)dot[0], maths_flush(d * w->scale[0]), s));
    if (type == OPS_Q6_K)
        s = maths_flush(HF_FMA((f32)dot[1], maths_flush(d * w->scale[1]), s));
    if (type == OPS_Q4_K || type == OPS_Q5_K)
        s = maths_flush(HF_FMA(maths_flush(-(d * (f32)sum)), w->least, s));
    return s;
}

/* The rule of ops.h for one row and one column, written out. */
static f32 int8_value(const struct ops_pack_source *s, const f32 *x, u32 j)
{
    u32 row = ops_heads_from(&s->rows, j), blocks = s->k / 32;
    u32 each = quant_block_values(s->type) / 32, bytes = quant_block_bytes(s->type);
    f32 sum = 0.0f;
    for (u32 b = 0; b < blocks; b++) {
        u32 from = ops_heads_from(&s->cols, b * 32) / 32;
        const u8 *at_block = s->data + ((u64)row * (blocks / each) + from / each) * bytes;
        struct block32 w = block32_of(s->type, at_block, from % each);
        i32 code[32] = { 0 };
        f32 most = 0.0f;
        for (u32 i = 0; i < 32; i++) {
            f32 size = maths_float(maths_bits(x[b * 32 + i]) & 0x7fffffffu);
            most = size > most || size != size ? size : most;
        }
        f32 d = maths_flush(most / 127.0f);
        bool none = d == 0.0f || !(most < 0x1p+127f * 2.0f);
        for (u32 i = 0; i < 32 && !none; i++) {
            f64 at = (f64)maths_flush(maths_flush(x[b * 32 + i]) * (1.0f / d)), low = (f64)(i64)at;
            i64 q = (i64)low;
            f64 over = at < 0 ? low - at : at - low;
            if (over > 0.5 || (over == 0.5 && q % 2 != 0)) q += at < 0 ? -1 : 1;
            code[i] = (i32)q;
        }
        sum = int8_block_step(s->type, &w, code, d, sum);
    }
    return sum;
}

static void check_int8(const struct ops_pack_source *source, f32 *x, bool y_f32)
{
    struct format_case c = { .source = *source, .x = x, .y_f32 = y_f32,
                             .arithmetic = OPS_INTEGERS };
    c.want = zeroed((u64)ROWS * source->n * sizeof *c.want);
    for (u32 r = 0; r < ROWS; r++)
        for (u32 j = 0; j < source->n; j++) {
            f32 value = int8_value(source, x + (u64)r * source->k, j);
            c.want[(u64)r * source->n + j] = y_f32 ? value : maths_round_bf16(value);
        }
    each_backend(c.arithmetic, run_level, &c);
    free(c.want);
}

TEST(the_integer_arithmetic_is_its_formula_at_every_level)
{
    static const u32 shapes[][2] = { { 70, 256 }, { 16, 32 }, { 97, 416 }, { 5, 1024 } };
    for (u32 i = 0; i < COUNT_OF(shapes); i++) {
        struct ops_pack_source source = { .type = OPS_Q8_0, .n = shapes[i][0], .k = shapes[i][1] };
        source.data = random_blocks(OPS_Q8_0, source.n, source.k, false);
        f32 *x = random_rows(source.k, false);
        check_int8(&source, x, i % 2);
        free(x), free((u8 *)source.data);
    }
}

TEST(codes_by_integers_are_their_formula_at_every_level)
{
    static const u32 shapes[][2] = { { 70, 256 }, { 16, 768 }, { 33, 1280 }, { 5, 512 } };
    for (u32 type = OPS_Q4_0; type <= OPS_Q6_K; type++)
        for (u32 i = 0; i < COUNT_OF(shapes); i++) {
            struct ops_pack_source source = { .type = type, .n = shapes[i][0], .k = shapes[i][1] };
            source.data = random_blocks(type, source.n, source.k, i == 3);
            f32 *x = random_rows(source.k, i == 3);
            check_int8(&source, x, i % 2);
            free(x), free((u8 *)source.data);
        }
}

/* Codes, scales and activations at the ends of their ranges, in all signs. */
TEST(integer_sums_of_the_largest_codes_are_exact)
{
    enum { COLUMNS = 20, TERMS = 256 };
    for (u32 type = OPS_Q4_0; type <= OPS_Q6_K; type++) {
        struct ops_pack_source source = { .type = type, .n = COLUMNS, .k = TERMS };
        u32 bytes = quant_block_bytes(type), blocks = COLUMNS * TERMS / quant_block_values(type);
        u8 *data = zeroed((u64)blocks * bytes);
        f32 *x = random_rows(TERMS, false);
        for (u32 b = 0; b < blocks; b++) {
            memset(data + b * bytes, b % 3 == 0 ? 0xff : b % 3 == 1 ? 0 : 0xf0, bytes);
            for (u32 h = 0; h < 2; h++)
                put_half(data + b * bytes + (type == OPS_Q6_K ? 208 : type == OPS_Q4_0 ? 0 : 2 * h),
                         b % 2 ? 0x7bff : 0xbc00);
        }
        for (u32 i = 0; i < ROWS * TERMS; i++)
            x[i] = (i / TERMS % 4 == 0 ? 1.0f : i / TERMS % 4 == 1 ? -1.0f : i % 2 ? -1.0f : 1.0f) *
                   (i / 32 % 5 == 4 ? 0.0f : 3.0f);
        source.data = data;
        check_int8(&source, x, true);
        free(x), free(data);
    }
}

/* Every weight and activation at an end of its range, in all signs, and blocks of zeros. */
TEST(integer_sums_of_the_largest_bytes_are_exact)
{
    enum { COLUMNS = 20, TERMS = 128 };
    struct ops_pack_source source = { .type = OPS_Q8_0, .n = COLUMNS, .k = TERMS };
    u8 *data = random_blocks(OPS_Q8_0, COLUMNS, TERMS, false);
    f32 *x = random_rows(TERMS, false);
    for (u32 j = 0; j < COLUMNS; j++)
        for (u32 t = 0; t < TERMS; t++)
            data[(j * 4 + t / 32) * 34 + 2 + t % 32] =
                (u8)(j % 5 == 0 ? -128 : j % 5 == 1 ? 127 : j % 5 == 2 ? (t % 2 ? -128 : 127) :
                     j % 5 == 3 ? (t % 4 < 2 ? -128 : 0) : 0);
    for (u32 r = 0; r < 40; r++)
        for (u32 t = 0; t < TERMS; t++) {
            f32 one = r % 5 == 0 ? 1.0f : r % 5 == 1 ? -1.0f : r % 5 == 2 ? (t % 2 ? -1.0f : 1.0f) :
                      r % 5 == 3 ? -0.0f : t % 3 ? 1.0f : 0.5f;
            x[r * TERMS + t] = t / 32 == r % 4 ? 0.0f : one * (f32)(1u << r % 11);
        }
    source.data = data;
    check_int8(&source, x, true);
    free(x), free(data);
}

/* Scales and sums near 2^-126: both sides flush where a step of the arithmetic does. */
TEST(small_integer_products_flush_alike)
{
    struct ops_pack_source source = { .type = OPS_Q8_0, .n = 40, .k = 256 };
    source.data = random_blocks(OPS_Q8_0, source.n, source.k, true);
    f32 *x = random_rows(source.k, true);
    for (u32 i = 0; i < ROWS * 256; i++)
        if (i / 256 % 3 == 2) x[i] = maths_flush(maths_round_bf16(x[i] * 0x1p-14f));
    check_int8(&source, x, true);
    free(x), free((u8 *)source.data);
}

TEST(tiled_heads_of_an_integer_matrix_go_back_to_their_places)
{
    for (u32 type = OPS_Q8_0; type <= OPS_Q6_K; type++) {
        struct ops_pack_source source = { .type = type, .n = 48, .k = 768 };
        source.rows = (struct ops_heads){ .first = 16, .keys = 2, .values = 4, .dim = 8 };
        source.cols = (struct ops_heads){ .keys = 2, .values = 12, .dim = 64 };
        source.data = random_blocks(type, source.n, source.k, false);
        f32 *x = random_rows(source.k, false);
        check_int8(&source, x, true);
        free(x), free((u8 *)source.data);
    }
}

static void nan_row(const struct ops *ops, void *owner)
{
    const struct ops_pack_source *source = owner;
    struct ops_matrix m;
    u8 *to = zeroed(ops->pack_bytes(source)), *work = zeroed(ops->product_work_bytes(3, K));
    f32 *x = random_values(3 * K, 1.0f, false), y[3 * N];
    x[K + 77] = maths_float(0x7fc00000u);
    x[2 * K + 500] = maths_float(0xff800000u);
    CHECK_OK(ops->pack(source, to, &m));
    CHECK_OK(ops->product(&(struct ops_product){ .w = &m, .x = x, .y = y, .rows = 3,
                                                 .y_f32 = true, .work = work }));
    for (u32 i = 0; i < 3 * N; i++) CHECK_EQ(y[i] != y[i], i >= N);
    free(to), free(work), free(x);
}

TEST(a_nan_or_infinite_activation_makes_its_row_nan_and_no_other)
{
    for (u32 type = OPS_Q8_0; type <= OPS_Q6_K; type++) {
        struct ops_pack_source source = { .type = type, .n = N, .k = K };
        source.data = random_blocks(type, N, K, false);
        each_backend(OPS_INTEGERS, nan_row, &source);
        free((u8 *)source.data);
    }
}
