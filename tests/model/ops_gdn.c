/* tests/model/ops_gdn.c - convolution and delta rule: every level, thread count and cut. */
#include "tests/model/ops.h"

enum { SPANS = 2 };

struct gdn_case {
    u32 rows, hk, hv, dk, dv;           /* rows: of each sequence                              */
    bool reference, sigmoid;
    bool held;                          /* looked at before the sections move on           */
    u32 c;                              /* channels                                            */
    f32 *raw, *a, *b, *z, *w, *neg_a, *dt_bias, *norm;
    struct output { f32 *conv, *out; u8 *sections[SPANS]; } want, got;
    u64 tail_offset, section_bytes;
};

static void make_output(const struct gdn_case *c, struct output *o)
{
    o->conv = zeroed((u64)SPANS * c->rows * c->c * sizeof(f32));
    o->out = zeroed((u64)SPANS * c->rows * c->hv * c->dv * sizeof(f32));
    for (u32 s = 0; s < SPANS; s++) o->sections[s] = zeroed(c->section_bytes);
}

static void free_output(struct output *o)
{
    free(o->conv), free(o->out);
    for (u32 s = 0; s < SPANS; s++) free(o->sections[s]);
}

/* Rows [at, at + count) of `width` values of both sequences, one after the other. */
static f32 *gathered(const struct gdn_case *c, const f32 *x, u32 width, u32 at, u32 count)
{
    f32 *out = zeroed((u64)SPANS * count * width * sizeof(f32));
    for (u32 s = 0; s < SPANS; s++)
        memcpy(out + (u64)s * count * width, x + ((u64)s * c->rows + at) * width,
               (u64)count * width * sizeof(f32));
    return out;
}

static void scatter(const struct gdn_case *c, f32 *to, const f32 *x, u32 width, u32 at, u32 count)
{
    for (u32 s = 0; s < SPANS; s++)
        memcpy(to + ((u64)s * c->rows + at) * width, x + (u64)s * count * width,
               (u64)count * width * sizeof(f32));
}

/* Convolution and rule over a batch; `out` NULL: only the sections count. */
static void run_ops(const struct ops *ops, struct ops_conv *conv, struct ops_gdn *gdn, bool hold,
                    void *out)
{
    struct ops_span span[SPANS];
    for (u32 s = 0; s < SPANS; s++) {
        span[s] = conv->span[s];
        span[s].hold = hold;
    }
    struct ops_conv c = *conv;
    struct ops_gdn g = *gdn;
    c.span = g.span = span;
    g.out = out;
    if (out == NULL) g.z = NULL;
    CHECK_OK(ops->conv(&c));
    CHECK_OK(ops->gdn(&g));
}

/* Looked at first (hold): nothing moves; then the sections alone move on. */
static void run_held(const struct ops *ops, const struct gdn_case *c, const struct output *o,
                     struct ops_conv *conv, struct ops_gdn *gdn)
{
    for (u32 s = 0; s < SPANS; s++) {
        u8 *before = zeroed(c->section_bytes);
        memcpy(before, o->sections[s], c->section_bytes);
        if (s == 0) run_ops(ops, conv, gdn, true, gdn->out);
        check_same(o->sections[s], before, c->section_bytes, "held sections", ops);
        free(before);
    }
    run_ops(ops, conv, gdn, false, NULL);
}

static void run_batch(const struct ops *ops, const struct gdn_case *c, struct output *o, u32 at,
                      u32 count)
{
    u32 rows = SPANS * count, hv = c->hv, width = hv * c->dv;
    struct ops_span span[SPANS];
    for (u32 s = 0; s < SPANS; s++)
        span[s] = (struct ops_span){ .lo = s * count, .hi = (s + 1) * count, .pos = at,
                                     .sections = o->sections[s] };
    f32 *raw = gathered(c, c->raw, c->c, at, count), *z = gathered(c, c->z, width, at, count);
    f32 *a = gathered(c, c->a, hv, at, count), *b = gathered(c, c->b, hv, at, count);
    f32 *y = zeroed((u64)rows * c->c * sizeof(f32)), *out = zeroed((u64)rows * width * 4);
    void *work = zeroed(ops->gdn_work_bytes(rows, c->hk, hv, c->dk, c->dv));
    struct ops_conv conv = { .raw = raw, .w = c->w, .y = y, .span = span, .span_count = SPANS,
                             .tail_offset = c->tail_offset, .rows = rows, .c = c->c };
    struct ops_gdn gdn = {
        .y = y, .a = a, .b = b, .z = z, .neg_a = c->neg_a, .dt_bias = c->dt_bias, .norm = c->norm,
        .out = out, .s_offset = 0, .span = span, .span_count = SPANS, .rows = rows, .hk = c->hk,
        .hv = hv, .dk = c->dk, .dv = c->dv, .eps = 1e-6f, .gate_sigmoid = c->sigmoid,
        .work = work };
    if (c->held) run_held(ops, c, o, &conv, &gdn);
    else run_ops(ops, &conv, &gdn, false, out);
    scatter(c, o->conv, y, c->c, at, count);
    scatter(c, o->out, out, width, at, count);
    free(raw), free(z), free(a), free(b), free(y), free(out), free(work);
}

static void run_cut(const struct ops *ops, const struct gdn_case *c, struct output *o, u32 split)
{
    for (u32 s = 0; s < SPANS; s++) memset(o->sections[s], 0, c->section_bytes);
    for (u32 at = 0, count; at < c->rows; at += count) {
        count = chunk_rows(split, at, c->rows);
        run_batch(ops, c, o, at, count);
    }
}

static void run_whole(const struct ops *ops, void *owner)
{
    struct gdn_case *c = owner;
    c->held = false;
    run_cut(ops, c, &c->want, c->rows);
}

static void run_splits(const struct ops *ops, void *owner)
{
    static const u32 splits[] = { 1, 3, 16, 64, 1000, 0 };
    struct gdn_case *c = owner;
    bool slow = strcmp(ops->level, "scalar") == 0;
    if (slow && ops->thread_count == 1) return;
    for (u32 i = slow ? 5 : 0; i < COUNT_OF(splits); i++) {
        c->held = !c->held;
        run_cut(ops, c, &c->got, splits[i]);
        check_same(c->got.conv, c->want.conv, (u64)SPANS * c->rows * c->c * 4, "conv", ops);
        check_same(c->got.out, c->want.out, (u64)SPANS * c->rows * c->hv * c->dv * 4, "out", ops);
        for (u32 s = 0; s < SPANS; s++)
            check_same(c->got.sections[s], c->want.sections[s], c->section_bytes, "sections", ops);
    }
}

static void check_case(struct gdn_case c)
{
    u64 rows = (u64)SPANS * c.rows, tail = c.reference ? 4 : 2;
    c.c = 2 * c.hk * c.dk + c.hv * c.dv;
    c.raw = random_values(rows * c.c, 1.0f, c.reference);
    c.a = random_values(rows * c.hv, 2.0f, c.reference);
    c.b = random_values(rows * c.hv, 2.0f, c.reference);
    c.z = random_values(rows * c.hv * c.dv, 2.0f, c.reference);
    c.w = random_values(c.c * 4ull, 0.5f, false);
    c.neg_a = random_values(c.hv, 1.0f, true);
    for (u32 i = 0; i < c.hv; i++) c.neg_a[i] = -maths_exp(c.neg_a[i] - 2.0f);
    c.dt_bias = random_values(c.hv, 1.0f, false);
    c.norm = random_values(c.dv, 1.0f, false);
    c.tail_offset = ALIGN_UP((u64)c.hv * c.dk * c.dv * 4, 256);
    c.section_bytes = c.tail_offset + c.c * 3 * tail;
    make_output(&c, &c.want);
    make_output(&c, &c.got);
    scalar_backend(c.reference, run_whole, &c);
    each_backend(c.reference, run_splits, &c);
    free_output(&c.want);
    free_output(&c.got);
    free(c.raw), free(c.a), free(c.b), free(c.z), free(c.w), free(c.neg_a), free(c.dt_bias);
    free(c.norm);
}

TEST(delta_rule_of_tiny_heads)
{
    check_case((struct gdn_case){ .rows = 80, .hk = 2, .hv = 4, .dk = 32, .dv = 32 });
    check_case((struct gdn_case){ .rows = 70, .hk = 2, .hv = 6, .dk = 32, .dv = 32 });
    check_case((struct gdn_case){ .rows = 70, .hk = 4, .hv = 8, .dk = 32, .dv = 32,
                                  .sigmoid = true });
    check_case((struct gdn_case){ .rows = 19, .hk = 1, .hv = 2, .dk = 20, .dv = 24 });
}

TEST(delta_rule_of_real_heads)
{
    check_case((struct gdn_case){ .rows = 66, .hk = 2, .hv = 6, .dk = 128, .dv = 128 });
}

TEST(delta_rule_of_the_reference_mode_keeps_f32)
{
    check_case((struct gdn_case){ .rows = 40, .hk = 2, .hv = 4, .dk = 32, .dv = 48,
                                  .reference = true });
    check_case((struct gdn_case){ .rows = 10, .hk = 1, .hv = 1, .dk = 32, .dv = 32,
                                  .reference = true, .sigmoid = true });
}

/* The widest published convolution: 10,240 channels, tail restored between calls. */
TEST(convolution_of_real_width)
{
    check_case((struct gdn_case){ .rows = 9, .hk = 16, .hv = 48, .dk = 128, .dv = 128 });
}

TEST(delta_rule_of_random_shapes)
{
    for (u32 i = 0; i < 12; i++) {
        seed = 5200 + i;
        u32 hk = 1 + random_u32() % 3;
        check_case((struct gdn_case){
            .rows = 1 + random_u32() % 40, .hk = hk, .hv = hk * (1 + random_u32() % 3),
            .dk = 4 * (1 + random_u32() % 20), .dv = 4 * (1 + random_u32() % 40),
            .reference = i % 4 == 0, .sigmoid = i % 3 == 0 });
    }
}
