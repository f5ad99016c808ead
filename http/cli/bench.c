/* http/cli/bench.c - times the forward pass as the engine drives it: chunks, rounds, a resume.
 *
 * No server, no tiers, no draft head: one slot, random ids.  Rates are wall time of the whole call,
 * logits of the last row included.  The roofline stands beside them, probed in the same run: the
 * multiplications the level's product unit can do on all threads, and the bytes that the weights'
 * own memory gives.  A share is what the model needs at its rate, over the probe. */
#include "http/cli/bench.h"

#include <stdio.h>
#include <string.h>

#include "arena/base/clock.h"
#include "arena/base/json.h"
#include "arena/base/rng.h"
#include "arena/heap.h"
#include "http/cli/start.h"
#include "model/cpu/cpu.h"
#include "model/forward.h"
#include "model/model.h"
#include "model/slot.h"
#include "model/weights.h"

enum {
    PREFILL_CAP = 3, DECODE_ROWS = 64, DECODE_QUICK_ROWS = 24, DECODE_FROM = 512,
    PEAK_ROWS = 512, PEAK_ROUNDS = 3, MARGIN_ROWS = 512, PROBE_ROUNDS = 200000, PROBE_REPEATS = 5,
};
static const u32 PREFILLS[PREFILL_CAP] = { 512, 2048, 8192 };

struct figures {
    u32 prefill_count;
    f64 prefill[PREFILL_CAP];           /* tokens a second                                    */
    f64 decode, decode_long, resume_ms, peak_gflops, read_gb;
    u32 long_rows;                      /* rows in place where decode_long began              */
    f64 probe_gflops, probe_read_gb;    /* what this machine can                              */
    f64 terms, bytes;                   /* of all layers' products for a row; read for a row  */
};

static f64 seconds_since(u64 from_us) { return (f64)MAX(clock_us() - from_us, 1) * 1e-6; }

/* ---------------------------------------------------------------- opening */
static enum err open_model(const struct profile_row *p, u64 ctx)
{
    struct model_setup setup;
    struct arena_decl decl[MODEL_DECL_CAP];
    TRY(start_setup(p, &setup));
    setup.draft = MODEL_DRAFT_OFF;
    TRY(model_open(&setup));
    const struct state_shape *layout = model_layout();
    u64 blocks = ctx / layout->block_rows + 4;
    struct model_room room = {
        .slot_count = 1, .ctx_rows = ctx,
        .pool_bytes = blocks * layout->block_bytes + 8 * layout->section_bytes + 8 * MIB,
    };
    TRY(arena_open(decl, model_declare(&room, decl)));
    return model_load(&room);
}

/* ---------------------------------------------------------------- measuring */
static void fill_ids(u32 *ids, u32 count)
{
    u32 vocab = model_shape()->vocab;
    for (u32 i = 0; i < count; i++) ids[i] = (u32)(rng_u64(1, i) % vocab);
}

static enum err forward_all(const u32 *ids, u32 count, f32 *logits)
{
    TRY(slot_grow(0, slot_row(0)->len + count));
    for (u32 done = 0; done < count;) {
        u32 n = MIN(forward_rows_max(), count - done);
        TRY(forward_chunk(0, ids + done, n, done + n == count ? logits : NULL));
        done += n;
    }
    return OK;
}

static enum err measure_prefill(struct figures *f, const u32 *ids, f32 *logits)
{
    for (u32 i = 0; i < f->prefill_count; i++) {
        slot_drop(0);
        TRY(slot_grow(0, PREFILLS[i]));
        u64 from = clock_us();
        TRY(forward_all(ids, PREFILLS[i], logits));
        f->prefill[i] = PREFILLS[i] / seconds_since(from);
    }
    return OK;
}

/* Behind the rows that are in place. */
static enum err decode_here(const u32 *ids, u32 rows, f32 *logits, f64 *rate_out)
{
    u32 slot = 0;
    TRY(slot_grow(0, slot_row(0)->len + rows));
    u64 from = clock_us();
    for (u32 i = 0; i < rows; i++) TRY(forward_step(&slot, ids + i, 1, logits));
    *rate_out = rows / seconds_since(from);
    return OK;
}

/* Behind the longest prefill, and behind a short one. */
static enum err measure_decode(struct figures *f, const u32 *ids, u32 rows, f32 *logits)
{
    f->long_rows = (u32)slot_row(0)->len;
    TRY(decode_here(ids, rows, logits, &f->decode_long));
    slot_drop(0);
    TRY(forward_all(ids, DECODE_FROM, logits));
    return decode_here(ids, rows, logits, &f->decode);
}

/* Sections saved, loaded again, one row forwarded: what a turn costs whose prompt is all cached. */
static enum err measure_resume(struct figures *f, const u32 *ids, f32 *logits)
{
    unit_id unit;
    u64 pos;
    u32 arena = state_sections_arena();
    TRY(arena_slots_take(arena, HOLD_ANCHOR, &unit));
    enum err err = state_save(0, unit, &pos);
    u64 from = clock_us();
    if (err == OK) err = state_load(0, unit, pos);
    if (err == OK) err = forward_all(ids, 1, logits);
    f->resume_ms = seconds_since(from) * 1e3;
    arena_slots_drop(arena, unit, HOLD_ANCHOR);
    return err;
}

/* One product of the head with many rows: multiplications and additions a second. */
static enum err measure_peak(struct figures *f, u8 *x, u8 *y, u8 *work)
{
    const struct ops_matrix *w = weights_matrix(model_shape()->layer_count, ROLE_HEAD);
    struct ops_product p = { .w = w, .x = x, .y = y, .rows = PEAK_ROWS, .y_f32 = true,
                             .work = work };
    for (u32 i = 0; i < PEAK_ROUNDS; i++) {
        u64 from = clock_us();
        TRY(model_ops()->product(&p));
        TRY(model_ops()->sync());
        f64 rate = 2.0 * PEAK_ROWS * w->n * w->k / seconds_since(from) * 1e-9;
        f->peak_gflops = MAX(f->peak_gflops, rate);
    }
    return OK;
}

/* One row through every MLP matrix: bytes of weights read a second. */
static enum err measure_read(struct figures *f, u8 *x, u8 *y, u8 *work)
{
    static const enum family_role roles[] = { ROLE_MLP_GATE, ROLE_MLP_UP, ROLE_MLP_DOWN };
    u64 bytes = 0, from = clock_us();
    for (u32 layer = 0; layer < model_shape()->layer_count; layer++)
        for (u32 k = 0; k < COUNT_OF(roles); k++) {
            const struct ops_matrix *w = weights_matrix(layer, roles[k]);
            struct ops_product p = { .w = w, .x = x, .y = y, .rows = 1, .work = work };
            TRY(model_ops()->product(&p));
            bytes += w->packed_bytes;
        }
    TRY(model_ops()->sync());
    f->read_gb = (f64)bytes / seconds_since(from) * 1e-9;
    return OK;
}

/* The best of a few: a probe says what the machine can, not what it did just now. */
static void measure_probes(struct figures *f)
{
    const struct ops_matrix *w;
    enum family_role role;
    for (u32 at = weights_next(0, &w, &role); at != NONE; at = weights_next(at, &w, &role)) {
        f->terms += role == ROLE_HEAD ? 0.0 : (f64)w->n * w->k;
        f->bytes += (f64)w->packed_bytes;
    }
    for (u32 i = 0; i < PROBE_REPEATS; i++) {
        u64 from = clock_us(), done = cpu_probe(PROBE_ROUNDS);
        f->probe_gflops = MAX(f->probe_gflops, (f64)done / seconds_since(from) * 1e-9);
        from = clock_us();
        for (u32 at = weights_next(0, &w, &role); at != NONE; at = weights_next(at, &w, &role))
            (void)cpu_probe_read(w->packed, w->packed_bytes);
        f->probe_read_gb = MAX(f->probe_read_gb, f->bytes / seconds_since(from) * 1e-9);
    }
}

static enum err measure(struct figures *f, bool quick)
{
    const struct model_shape *s = model_shape();
    u32 longest = PREFILLS[f->prefill_count - 1];
    u64 wide = MAX(MAX(s->vocab, s->ffn), s->hidden);
    u32 *ids = arena_heap_alloc(4ull * longest);
    f32 *logits = arena_heap_alloc(4ull * s->vocab);
    u8 *x = arena_heap_alloc(PEAK_ROWS * 4ull * MAX(s->hidden, s->ffn));
    u8 *y = arena_heap_alloc(PEAK_ROWS * 4ull * wide);
    u64 work_bytes = model_ops()->product_work_bytes(PEAK_ROWS, MAX(s->hidden, s->ffn));
    u8 *work = arena_heap_alloc(MAX(work_bytes, 64ull));
    enum err err = OK;
    if (ids == NULL || logits == NULL || x == NULL || y == NULL || work == NULL)
        err = fail(ERR_MEMORY, "bench: no memory for its buffers");
    if (err == OK) {
        memset(x, 0, PEAK_ROWS * 4ull * MAX(s->hidden, s->ffn));
        fill_ids(ids, longest);
        err = measure_prefill(f, ids, logits);
    }
    if (err == OK) err = measure_decode(f, ids, quick ? DECODE_QUICK_ROWS : DECODE_ROWS, logits);
    if (err == OK) err = measure_resume(f, ids, logits);
    if (err == OK) err = measure_peak(f, x, y, work);
    if (err == OK) err = measure_read(f, x, y, work);
    if (err == OK) measure_probes(f);
    arena_heap_free(ids);
    arena_heap_free(logits);
    arena_heap_free(x);
    arena_heap_free(y);
    arena_heap_free(work);
    return err;
}

/* ---------------------------------------------------------------- printing */
static f64 share(f64 part, f64 whole) { return whole > 0 ? part / whole : 0; }

static f64 prefill_share(const struct figures *f, u32 i)
{
    return share(2e-9 * f->terms * f->prefill[i], f->probe_gflops);
}

static f64 decode_share(const struct figures *f, f64 rate)
{
    return share(1e-9 * f->bytes * rate, f->probe_read_gb);
}

static void put_figure(struct json_out *out, const char *key, f64 value)
{
    json_put_key(out, key);
    json_put_f64(out, value);
}

/* {"512": value, ...} */
static void put_by_count(struct json_out *out, const char *key, const u32 *counts,
                         const f64 *values, u32 count)
{
    char word[16];
    json_put_key(out, key);
    json_put_object(out);
    for (u32 i = 0; i < count; i++) {
        snprintf(word, sizeof word, "%u", counts[i]);
        put_figure(out, word, values[i]);
    }
    json_put_object_end(out);
}

static void put_roofline(struct json_out *out, const struct figures *f)
{
    const u32 rows[] = { DECODE_FROM, f->long_rows };
    f64 prefill[PREFILL_CAP];
    for (u32 i = 0; i < f->prefill_count; i++) prefill[i] = prefill_share(f, i);
    json_put_key(out, "roofline");
    json_put_object(out);
    put_figure(out, "probe_gflops", f->probe_gflops);
    put_figure(out, "probe_read_gb_per_s", f->probe_read_gb);
    put_figure(out, "products_share", share(f->peak_gflops, f->probe_gflops));
    put_by_count(out, "prefill_share", PREFILLS, prefill, f->prefill_count);
    put_by_count(out, "decode_share", rows, (f64[]){ decode_share(f, f->decode),
                                                    decode_share(f, f->decode_long) }, 2);
    json_put_object_end(out);
}

static enum err print_json(const struct figures *f)
{
    struct json_out out = { 0 };
    json_put_object(&out);
    json_put_key(&out, "model");
    json_put_cstr(&out, model_name());
    put_by_count(&out, "prefill_tokens_per_s", PREFILLS, f->prefill, f->prefill_count);
    put_figure(&out, "decode_tokens_per_s", f->decode);
    put_by_count(&out, "decode_tokens_per_s_after", (u32[]){ DECODE_FROM, f->long_rows },
                 (f64[]){ f->decode, f->decode_long }, 2);
    put_figure(&out, "resume_ms", f->resume_ms);
    put_figure(&out, "peak_gflops", f->peak_gflops);
    put_figure(&out, "read_gb_per_s", f->read_gb);
    put_roofline(&out, f);
    json_put_key(&out, "threads");
    json_put_u64(&out, model_ops()->thread_count);
    json_put_key(&out, "level");
    json_put_cstr(&out, model_ops()->level);
    json_put_key(&out, "levels");
    json_put_array(&out);
    for (u32 i = 0; cpu_level_name(i) != NULL; i++)
        if (cpu_has_level(cpu_level_name(i))) json_put_cstr(&out, cpu_level_name(i));
    json_put_array_end(&out);
    json_put_object_end(&out);
    enum err err = json_out_check(&out);
    if (err == OK) printf("%.*s\n", (int)out.bytes, out.text);
    json_out_close(&out);
    return err;
}

static void print_table(const struct figures *f)
{
    printf("%s, level %s, %u threads\n", model_name(), model_ops()->level,
           model_ops()->thread_count);
    for (u32 i = 0; i < f->prefill_count; i++)
        printf("prefill %5u tokens %10.1f tokens/s %6.1f %% of the probed GFLOP/s\n", PREFILLS[i],
               f->prefill[i], 100 * prefill_share(f, i));
    printf("decode after %5u %12.1f tokens/s %6.1f %% of the probed GB/s\n", DECODE_FROM, f->decode,
           100 * decode_share(f, f->decode));
    printf("decode after %5u %12.1f tokens/s %6.1f %%\n", f->long_rows, f->decode_long,
           100 * decode_share(f, f->decode_long));
    printf("resume %24.2f ms\n", f->resume_ms);
    printf("products, %u rows %13.1f GFLOP/s  %6.1f %%\n", PEAK_ROWS, f->peak_gflops,
           100 * share(f->peak_gflops, f->probe_gflops));
    printf("products, 1 row %15.1f GB/s of weights\n", f->read_gb);
    printf("probe, this machine %11.1f GFLOP/s, %.1f GB/s\n", f->probe_gflops, f->probe_read_gb);
}

enum err bench_run(const struct options *o)
{
    struct figures f = { .prefill_count = o->quick ? 2 : PREFILL_CAP };
    enum err err = open_model(&o->profile, PREFILLS[f.prefill_count - 1] + MARGIN_ROWS);
    if (err == OK) err = measure(&f, o->quick);
    if (err == OK && o->json) err = print_json(&f);
    else if (err == OK) print_table(&f);
    model_close();
    arena_close();
    return err;
}
