/* tests/model/oracle.h - goldens of the numpy oracle, made here and now by tests/oracle.
 *
 * A folder a model and prompt length under build/golden; arrays as float32 .npy, ids and margins
 * as JSON.  Header alone: a test includes it once. */
#ifndef MODEL_ORACLE_H
#define MODEL_ORACLE_H

#include <math.h>

#include "arena/base/json.h"
#include "model/family/family.h"
#include "tests/model/rig.h"

enum { ROWS_MAX = 160, NEW_MAX = 16, BLOCK = 16, DRAFT_K = 2 };

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

/* Rows [0, rows) of every plane of a view of slot 0 against array `name`. */
static struct distance view_apart(const char *folder, const char *name, u32 view, u64 rows)
{
    struct array want = load(folder, name);
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

/* The folder of a prompt of `rows` ids of a model of rig_tiny, made once a build folder. */
static const char *golden_prompt(const char *model, u32 rows, struct golden *g)
{
    static char folder[128];
    char flags[192];
    snprintf(folder, sizeof folder, "%s-%u", model, rows);
    snprintf(flags, sizeof flags, "%s --len %u --new %d --draft %d", folder, rows, NEW_MAX,
             DRAFT_K);
    if (access(folder, F_OK) != 0)
        rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
                "tests/oracle/golden.py %s %s", model, flags);
    read_ids(folder, g);
    CHECK_EQ(g->rows, rows);
    return folder;
}

#endif
