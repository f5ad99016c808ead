/* tests/model/ops_attn.c - rows of K and V, and attention: every level, thread count and cut. */
#include <math.h>

#include "tests/model/ops.h"

enum { SPANS = 2 };                     /* sequences of one batch                              */

struct attn_case {
    u32 rows, nh, nkv, d, rot, block_rows;      /* rows: of each sequence                      */
    u32 lag;                            /* rows the second sequence is behind                  */
    u32 blind;                          /* 1: a zero row before the first, seen by none        */
    bool wild;                          /* some values of V are infinite or no numbers         */
    bool reference;
    f32 *qg, *k, *v, *q_scale, *k_scale, *inv_freq;
    struct output { f32 *q, *y; u8 *blocks[SPANS]; } want, got;
    u64 block_bytes;
    struct ops_strip k_strip, v_strip;
};

static u32 blocks_of(const struct attn_case *c)
{
    return (c->blind + c->rows + c->block_rows - 1) / c->block_rows;
}

static void make_output(const struct attn_case *c, struct output *o)
{
    u64 values = (u64)SPANS * c->rows * c->nh * c->d;
    o->q = zeroed(values * sizeof(f32));
    o->y = zeroed(values * sizeof(f32));
    for (u32 s = 0; s < SPANS; s++) o->blocks[s] = zeroed(c->block_bytes * blocks_of(c));
}

static void free_output(struct output *o)
{
    free(o->q);
    free(o->y);
    for (u32 s = 0; s < SPANS; s++) free(o->blocks[s]);
}

/* Blocks lie backwards in memory, filled with NaN: rows not yet written must not matter. */
static void block_addresses(const struct attn_case *c, const struct output *o, u32 s, u8 **addr)
{
    u32 count = blocks_of(c);
    for (u32 i = 0; i < count; i++) addr[i] = o->blocks[s] + (count - 1 - i) * c->block_bytes;
}

/* Where sequence `s` stands after `rows` rows of the first: the second lags, to the end. */
static u32 progress(const struct attn_case *c, u32 s, u32 rows)
{
    if (s == 0 || rows == c->rows) return rows;
    return rows > c->lag ? rows - c->lag : 0;
}

/* One batch: rows [at, at + count) of the first sequence, what the second's lag leaves of its. */
static void run_batch(const struct ops *ops, const struct attn_case *c, struct output *o, u32 at,
                      u32 count)
{
    u32 nh = c->nh, nkv = c->nkv, d = c->d, rows = 0;
    u8 *addr[SPANS][1024];
    struct ops_span span[SPANS];
    u64 cap = 2ull * (count + c->lag);
    f32 *qg = zeroed(cap * nh * 2 * d * 4), *q = zeroed(cap * nh * d * 4);
    f32 *k = zeroed(cap * nkv * d * 4), *v = zeroed(cap * nkv * d * 4);
    f32 *y = zeroed(cap * nh * d * 4);
    for (u32 s = 0; s < SPANS; s++) {
        u32 begin = progress(c, s, at), n = progress(c, s, at + count) - begin;
        u64 from = (u64)s * c->rows + begin;
        block_addresses(c, o, s, addr[s]);
        span[s] = (struct ops_span){ .lo = rows, .hi = rows + n, .pos = c->blind + begin,
                                     .block_addr = addr[s] };
        memcpy(qg + (u64)rows * nh * 2 * d, c->qg + from * nh * 2 * d, (u64)n * nh * 2 * d * 4);
        memcpy(k + (u64)rows * nkv * d, c->k + from * nkv * d, (u64)n * nkv * d * 4);
        memcpy(v + (u64)rows * nkv * d, c->v + from * nkv * d, (u64)n * nkv * d * 4);
        rows += n;
    }
    CHECK_OK(ops->attn_rows(&(struct ops_attn_rows){
        .qg = qg, .k = k, .v = v, .q_scale = c->q_scale, .k_scale = c->k_scale, .q_out = q,
        .k_strip = c->k_strip, .v_strip = c->v_strip, .span = span, .span_count = SPANS,
        .rows = rows, .nh = nh, .nkv = nkv, .d = d, .rot = c->rot, .block_rows = c->block_rows,
        .back = c->blind, .eps = 1e-6f, .inv_freq = c->inv_freq }));
    void *work = zeroed(ops->attn_work_bytes(rows, nh, nkv, d, c->block_rows));
    CHECK_OK(ops->attn(&(struct ops_attn){
        .q = q, .qg = qg, .y = y, .k_strip = c->k_strip, .v_strip = c->v_strip, .span = span,
        .span_count = SPANS, .rows = rows, .nh = nh, .nkv = nkv, .d = d,
        .block_rows = c->block_rows, .blind = c->blind, .work = work }));
    for (u32 s = 0; s < SPANS; s++) {
        u64 to = ((u64)s * c->rows + span[s].pos - c->blind) * nh * d;
        u64 from = (u64)span[s].lo * nh * d;
        u64 bytes = (u64)(span[s].hi - span[s].lo) * nh * d * 4;
        memcpy(o->q + to, q + from, bytes);
        memcpy(o->y + to, y + from, bytes);
        for (u64 i = 0; c->wild && i < bytes / 4; i++)      /* a NaN is any NaN                */
            if (o->y[to + i] != o->y[to + i]) o->y[to + i] = maths_float(0x7fc00000u);
    }
    free(qg), free(q), free(k), free(v), free(y), free(work);
}

static void run_cut(const struct ops *ops, const struct attn_case *c, struct output *o, u32 split)
{
    for (u32 s = 0; s < SPANS; s++) {
        u8 *addr[1024];
        memset(o->blocks[s], 0xff, c->block_bytes * blocks_of(c));
        block_addresses(c, o, s, addr);
        memset(addr[0] + c->k_strip.offset_bytes, 0, c->blind * c->k_strip.row_bytes);
        memset(addr[0] + c->v_strip.offset_bytes, 0, c->blind * c->v_strip.row_bytes);
    }
    for (u32 at = 0, count; at < c->rows; at += count) {
        count = chunk_rows(split, at, c->rows);
        run_batch(ops, c, o, at, count);
    }
}

static void run_whole(const struct ops *ops, void *owner)
{
    struct attn_case *c = owner;
    run_cut(ops, c, &c->want, c->rows);
}

static void run_splits(const struct ops *ops, void *owner)
{
    static const u32 splits[] = { 1, 3, 16, 64, 1000, 0 };
    struct attn_case *c = owner;
    u64 bytes = (u64)SPANS * c->rows * c->nh * c->d * sizeof(f32);
    bool slow = strcmp(ops->level, "scalar") == 0;
    if (slow && ops->thread_count == 1) return;
    for (u32 i = slow ? 5 : 0; i < COUNT_OF(splits); i++) {
        run_cut(ops, c, &c->got, splits[i]);
        check_same(c->got.q, c->want.q, bytes, "queries", ops);
        for (u32 s = 0; s < SPANS; s++)
            check_same(c->got.blocks[s], c->want.blocks[s], c->block_bytes * blocks_of(c),
                       "stored rows", ops);
        check_same(c->got.y, c->want.y, bytes, "attention", ops);
    }
}

/* More threads than kv heads: the tiles of few rows are computed side by side, in waves. */
static void check_waves(struct attn_case *c)
{
    const char *level;
    for (u32 i = 0; (level = cpu_level_name(i)) != NULL; i++) {
        struct ops ops;
        if (!cpu_has_level(level)) continue;
        CHECK_OK(cpu_open(&ops, 7, level, c->reference));
        run_splits(&ops, c);
        cpu_close();
    }
}

static void make_case(struct attn_case *c)
{
    u64 rows = (u64)SPANS * c->rows, value = c->reference ? 4 : 2;
    c->qg = random_values(rows * c->nh * 2 * c->d, 2.0f, c->reference);
    c->k = random_values(rows * c->nkv * c->d, 1.0f, c->reference);
    c->v = random_values(rows * c->nkv * c->d, 1.0f, c->reference);
    for (u32 t = 5; c->wild && t < rows; t += 1 + random_u32() % 40)
        c->v[(u64)t * c->nkv * c->d + random_u32() % (c->nkv * c->d)] =
            maths_float(t % 2 ? 0x7f800000u : 0xffc00000u);
    c->q_scale = random_values(c->d, 2.0f, true);
    c->k_scale = random_values(c->d, 1.0f, true);
    c->inv_freq = zeroed(c->d * sizeof(f32));
    for (u32 i = 0; i < c->rot / 2; i++) c->inv_freq[i] = 1.0f / (f32)(1u << i % 20);
    c->k_strip.row_bytes = c->v_strip.row_bytes = (u32)(c->nkv * c->d * value);
    c->k_strip.offset_bytes = 256;
    c->v_strip.offset_bytes = 256 + ALIGN_UP((u64)c->block_rows * c->k_strip.row_bytes, 256);
    c->block_bytes = ALIGN_UP(2 * c->v_strip.offset_bytes, 4096);
    make_output(c, &c->want);
    make_output(c, &c->got);
}

static void free_case(struct attn_case *c)
{
    free_output(&c->want);
    free_output(&c->got);
    free(c->qg), free(c->k), free(c->v), free(c->q_scale), free(c->k_scale), free(c->inv_freq);
}

static void check_case(struct attn_case c)
{
    make_case(&c);
    scalar_backend(c.reference, run_whole, &c);
    each_backend(c.reference, run_splits, &c);
    check_waves(&c);
    free_case(&c);
}

TEST(attention_of_tiny_heads_over_many_small_blocks)
{
    check_case((struct attn_case){ .rows = 75, .nh = 4, .nkv = 2, .d = 64, .rot = 16,
                                   .block_rows = 16, .lag = 7 });
    check_case((struct attn_case){ .rows = 150, .nh = 4, .nkv = 2, .d = 64, .rot = 16,
                                   .block_rows = 4 });
    check_case((struct attn_case){ .rows = 70, .nh = 6, .nkv = 1, .d = 32, .rot = 8,
                                   .block_rows = 32 });
    check_case((struct attn_case){ .rows = 100, .nh = 3, .nkv = 3, .d = 48, .rot = 16,
                                   .block_rows = 64 });
}

TEST(attention_of_real_heads_over_blocks_of_256)
{
    check_case((struct attn_case){ .rows = 290, .nh = 4, .nkv = 1, .d = 256, .rot = 64,
                                   .block_rows = 256, .lag = 20 });
}

TEST(attention_of_the_reference_mode_keeps_f32)
{
    check_case((struct attn_case){ .rows = 50, .nh = 4, .nkv = 2, .d = 64, .rot = 16,
                                   .block_rows = 16, .reference = true });
    check_case((struct attn_case){ .rows = 21, .nh = 2, .nkv = 1, .d = 40, .rot = 8,
                                   .block_rows = 4, .reference = true });
}

TEST(attention_of_a_draft_head_never_sees_the_zero_row)
{
    check_case((struct attn_case){ .rows = 75, .nh = 4, .nkv = 2, .d = 64, .rot = 16,
                                   .block_rows = 16, .lag = 7, .blind = 1 });
    check_case((struct attn_case){ .rows = 30, .nh = 4, .nkv = 2, .d = 40, .rot = 8,
                                   .block_rows = 4, .blind = 1, .reference = true });
}

/* Rows that share keys of a block see their own only: +0 times a later value is no +0. */
TEST(a_value_that_is_no_number_reaches_no_row_before_it)
{
    check_case((struct attn_case){ .rows = 150, .nh = 4, .nkv = 1, .d = 64, .rot = 16,
                                   .block_rows = 128, .lag = 9, .wild = true });
    check_case((struct attn_case){ .rows = 75, .nh = 12, .nkv = 1, .d = 40, .rot = 8,
                                   .block_rows = 64, .wild = true });
}

/* The rows behind a zero row are those of a sequence that begins with them: the same keys, one
 * lower, turned alike.  Only the grouping by tiles differs, so one tile holds them all. */
TEST(the_zero_row_changes_nothing_within_a_tile)
{
    static f32 plain[20 * 4 * 64], drafted[20 * 4 * 64];
    for (u32 blind = 0; blind < 2; blind++) {
        struct attn_case c = { .rows = 20, .nh = 4, .nkv = 2, .d = 64, .rot = 16,
                               .block_rows = 32, .blind = blind, .reference = true };
        f32 *out = blind ? drafted : plain;
        seed = 77;
        make_case(&c);
        scalar_backend(true, run_whole, &c);
        memcpy(out, c.want.y, sizeof plain);
        free_case(&c);
    }
    for (u32 i = 0; i < COUNT_OF(plain); i++) CHECK(fabsf(plain[i] - drafted[i]) < 1e-5f);
}

TEST(attention_of_random_shapes)
{
    static const u32 dims[] = { 8, 16, 20, 32, 40, 48, 64, 96, 128 };
    for (u32 i = 0; i < 8; i++) {
        seed = 4100 + i;
        u32 nkv = 1 + random_u32() % 3, b = 4u << random_u32() % 6;
        check_case((struct attn_case){
            .rows = 1 + random_u32() % MIN(3 * b, 80u), .nkv = nkv,
            .nh = nkv * (1 + random_u32() % 7), .d = dims[random_u32() % COUNT_OF(dims)],
            .rot = 8, .block_rows = b, .lag = random_u32() % 9, .reference = i % 4 == 0 });
    }
}
