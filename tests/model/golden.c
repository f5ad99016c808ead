/* golden.c - the forward pass against the numpy oracle, made here and now by tests/oracle.
 *
 * Three checkpoints (untied, tied, block FP8), prompts of 1, 40 and 130 rows: logits, S, tails, K
 * and V of every layer, greedy tokens; in the f32 reference mode (2e-5) and in serving (0.1; on a
 * prompt where the oracle's own bf16 rounding costs about that much, 1.2 times its cost). */
#include <math.h>

#include "arena/base/json.h"
#include "model/family/family.h"
#include "tests/model/rig.h"

enum { ROWS_MAX = 160, NEW_MAX = 16, BLOCK = 16 };

/* ---------------------------------------------------------------- .npy */
struct array { f32 *data; u64 count; };

static struct array load(const char *folder, const char *name)
{
    char path[256], head[10];
    struct array a = { NULL, 0 };
    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL && fread(head, 1, 10, f) == 10 && memcmp(head, "\x93NUMPY\x01", 7) == 0);
    u32 header = (u8)head[8] | (u32)(u8)head[9] << 8;
    char *text = calloc(1, header + 1);
    CHECK(fread(text, 1, header, f) == header);
    CHECK(strstr(text, "'<f4'") != NULL && strstr(text, "False") != NULL);
    free(text);
    long at = ftell(f);
    fseek(f, 0, SEEK_END);
    a.count = (u64)(ftell(f) - at) / 4;
    fseek(f, at, SEEK_SET);
    a.data = malloc(a.count * 4);
    CHECK(fread(a.data, 4, a.count, f) == a.count);
    fclose(f);
    return a;
}

/* ---------------------------------------------------------------- comparing */
struct distance { f64 max, sum; u64 count; };

static void measure(struct distance *d, f32 a, f32 b)
{
    f64 apart = fabs((f64)a - (f64)b);
    if (!(apart <= d->max)) d->max = apart;             /* NaN is far away too */
    d->sum += apart;
    d->count++;
}

static f32 stored(const u8 *at, u64 i)
{
    union { u32 u; f32 f; } x = { 0 };
    if (model_ops()->store_bytes == 4) memcpy(&x.u, at + 4 * i, 4);
    else {
        u16 half;
        memcpy(&half, at + 2 * i, 2);
        x.u = (u32)half << 16;
    }
    return x.f;
}

static struct distance sections_apart(const char *folder, bool tails)
{
    struct array want = load(folder, tails ? "gdn_conv" : "gdn_S");
    struct distance d = { 0 };
    u64 at = 0;
    const u8 *unit = arena_slots_addr(state_sections_arena(), slot_row(0)->unit);
    for (u32 g = 0; g < model_shape()->gdn_count; g++) {
        u32 index = tails ? family_section_tail(g) : family_section_s(g);
        const struct state_section *s = &state_shape()->section[index];
        u64 count = s->bytes / (tails ? model_ops()->store_bytes : 4);
        for (u64 i = 0; i < count; i++) {
            f32 value;
            if (tails) value = stored(unit + s->offset_bytes, i);
            else memcpy(&value, unit + s->offset_bytes + 4 * i, 4);
            measure(&d, value, want.data[at++]);
        }
    }
    CHECK_EQ(at, want.count);
    free(want.data);
    return d;
}

static struct distance rows_apart(const char *folder, u32 view, u64 rows)
{
    struct array want = load(folder, view == FAMILY_VIEW_K ? "attn_K" : "attn_V");
    const struct state_view *v = &state_shape()->view[view];
    struct distance d = { 0 };
    u64 at = 0, values = v->row_bytes / model_ops()->store_bytes;
    u32 count;
    u64 len;
    const block_id *block = state_rows_out(0, &count, &len);
    CHECK_EQ(len, rows);
    for (u32 p = 0; p < v->planes; p++)
        for (u64 r = 0; r < rows; r++) {
            const u8 *strip = state_strip(block[r / BLOCK], view, p);
            for (u64 i = 0; i < values; i++)
                measure(&d, stored(strip + r % BLOCK * v->row_bytes, i), want.data[at++]);
        }
    CHECK_EQ(at, want.count);
    free(want.data);
    return d;
}

static u32 best_of(const f32 *row, u32 count)
{
    u32 best = 0;
    for (u32 i = 1; i < count; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

/* ---------------------------------------------------------------- one prompt */
struct golden {
    u32 ids[ROWS_MAX], greedy[NEW_MAX], rows, fresh;
    f64 margin[NEW_MAX];
    f64 own_noise;                      /* what bf16 rounding costs the oracle itself         */
};

static void read_ids(const char *folder, struct golden *g)
{
    char path[256];
    struct json_doc doc;
    struct json_at top, list, item;
    snprintf(path, sizeof path, "%s/ids.json", folder);
    CHECK_OK(json_open_file(path, (struct json_limits){ 1 << 20, 16 }, &doc, &top));
    CHECK_OK(json_get(&top, "ids", &list));
    g->rows = json_count(&list);
    CHECK(g->rows > 0 && g->rows <= ROWS_MAX);
    for (u32 i = 0; i < g->rows; i++) {
        CHECK_OK(json_item(&list, i, &item));
        CHECK_OK(json_u32(&item, NULL, &g->ids[i]));
    }
    CHECK_OK(json_get(&top, "greedy", &list));
    g->fresh = json_count(&list);
    CHECK_EQ(g->fresh, NEW_MAX);
    for (u32 i = 0; i < NEW_MAX; i++) {
        CHECK_OK(json_item(&list, i, &item));
        CHECK_OK(json_u32(&item, NULL, &g->greedy[i]));
    }
    CHECK_OK(json_get(&top, "greedy_margin", &list));
    for (u32 i = 0; i < NEW_MAX; i++) {
        CHECK_OK(json_item(&list, i, &item));
        CHECK_OK(json_f64(&item, NULL, &g->margin[i]));
    }
    CHECK_OK(json_f64(&top, "bf16_rounded_logit_max_abs", &g->own_noise));
    json_close(&doc);
}

static void within(const char *folder, const char *what, struct distance d, f64 max, f64 mean)
{
    printf("%s %-6s max %.3g mean %.3g\n", folder, what, d.max, d.sum / (f64)d.count);
    if (!(d.max <= max) || !(d.sum / (f64)d.count <= mean))
        test_failed(__FILE__, __LINE__, "%s: %s: max %g (%g), mean %g (%g)", folder, what, d.max,
                    max, d.sum / (f64)d.count, mean);
}

/* Logits of every row; returns the largest distance, which is the noise of greedy margins. */
static f64 logits_check(const char *folder, const struct golden *g, const f32 *logits, f64 max,
                        f64 mean)
{
    struct array want = load(folder, "logits");
    u32 vocab = forward_vocab(), equal = 0;
    struct distance d = { 0 };
    CHECK_EQ(want.count, (u64)g->rows * vocab);
    for (u64 i = 0; i < want.count; i++) measure(&d, logits[i], want.data[i]);
    within(folder, "logits", d, max, mean);
    for (u32 r = 0; r < g->rows; r++)
        equal += best_of(logits + (u64)r * vocab, vocab) ==
                 best_of(want.data + (u64)r * vocab, vocab);
    if (g->rows == 1) CHECK(equal == 1 || g->margin[0] < 2 * d.max);
    else CHECK(equal * 100 >= g->rows * 97);
    free(want.data);
    return d.max;
}

static void greedy_check(const struct golden *g, const f32 *last, f64 noise)
{
    static f32 row[1 << 12];
    u32 vocab = forward_vocab();
    memcpy(row, last, vocab * 4);
    for (u32 i = 0; i < NEW_MAX && g->margin[i] > 2 * noise; i++) {
        u32 id = best_of(row, vocab);
        CHECK_EQ(id, g->greedy[i]);
        CHECK_OK(slot_grow(0, slot_row(0)->len + 1));
        CHECK_OK(forward_chunk(0, &id, 1, row));
    }
}

static void check_prompt(const char *model, u32 rows, bool reference)
{
    char folder[128], flags[192];
    static struct golden g;
    f64 max = reference ? 2e-5 : 0.1, mean = reference ? 2e-5 : 0.02;
    snprintf(folder, sizeof folder, "%s-%u", model, rows);
    snprintf(flags, sizeof flags, "%s --len %u --new %d --draft 2", folder, rows, NEW_MAX);
    if (access(folder, F_OK) != 0)
        rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
                "tests/oracle/golden.py %s %s", model, flags);
    read_ids(folder, &g);
    CHECK_EQ(g.rows, rows);
    f32 *logits = malloc(4ull * rows * forward_vocab());
    struct forward_span span = { 0, rows, g.ids, rows };
    slot_drop(0);
    CHECK_OK(slot_grow(0, rows));
    CHECK_OK(forward_rows(&span, 1, logits));
    if (!reference) max = fmax(max, 1.2 * g.own_noise);
    f64 noise = logits_check(folder, &g, logits, max, mean);
    within(folder, "S", sections_apart(folder, false), max, mean);
    within(folder, "tail", sections_apart(folder, true), max, mean);
    within(folder, "K", rows_apart(folder, FAMILY_VIEW_K, rows), max, mean);
    within(folder, "V", rows_apart(folder, FAMILY_VIEW_V, rows), max, mean);
    greedy_check(&g, logits + (u64)(rows - 1) * forward_vocab(), noise);
    free(logits);
}

static void check_model(const char *name, const char *flags, bool reference)
{
    const char *dir = rig_tiny(name, flags);
    rig_open(&(struct rig){ .dir = dir, .block_rows = BLOCK, .grid_rows = 64, .threads = 2,
                            .reference = reference });
    check_prompt(dir, 1, reference);
    check_prompt(dir, 40, reference);
    check_prompt(dir, 130, reference);
    rig_close();
}

TEST(reference_mode_is_the_oracle_untied) { check_model("default", "", true); }
TEST(reference_mode_is_the_oracle_tied) { check_model("tie", "--tie", true); }
TEST(reference_mode_is_the_oracle_block_fp8) { check_model("fp8", "--fp8", true); }
TEST(serving_is_near_the_oracle_untied) { check_model("default", "", false); }
TEST(serving_is_near_the_oracle_tied) { check_model("tie", "--tie", false); }
TEST(serving_is_near_the_oracle_block_fp8) { check_model("fp8", "--fp8", false); }
