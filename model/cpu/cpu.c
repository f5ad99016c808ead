/* model/cpu/cpu.c - fills `struct ops`: splits every operation's outputs into tasks.
 *
 * A task is a range of output rows, columns, heads or channels; the level's function computes it.
 * Sizes of tasks are for speed only: no sum crosses a task's edge.  Owns the open backend's row. */
#include "model/cpu/cpu.h"

#include <stdatomic.h>
#include <string.h>

#include "model/cpu/format.h"
#include "model/cpu/levels.h"
#include "model/cpu/pack.h"
#include "model/cpu/quant.h"
#include "model/cpu/threads.h"
#include "model/maths.h"

enum {
    ID_BF16 = 1, ID_INT8 = 2,           /* numbers a test ties to bits; change with any bit    */
    ID_CODES = 4,                       /* of Q4_0 by integers; doubled for the next format    */
    ID_REFERENCE = 1001,
    PACKING_ID = 3,                     /* of the layouts of pack.h and format.h               */
    HEAD_DIM_CAP = 1024,                /* row buffers of a head stand on the stack            */
    TASK_VALUES = 16384,                /* elementwise: values a task                          */
    TASK_ROWS = 8,                      /* norm, gates: rows a task                            */
    EMBED_STEP = 256,                   /* values of a table of blocks at a time               */
    CONV_CHANNELS = 256,                /* channels a task: window and taps stay in L1         */
    RULE_COLUMNS = 64,                  /* value columns a task: 32 KiB of S at 128 keys       */
    ATTN_ROWS = 128,                    /* rows x heads a task: amortise packing K and V       */
    WAVE_TILES = 32,                    /* tiles of a row computed before they are joined      */
    WAVE_TILES_LEAST = 2,
    PRODUCT_TILES = 8,                  /* tiles of 16 columns a task                          */
    PRODUCT_STREAM_ROWS = 12,           /* up to here a task is one long run of weights        */
    PROBE_TASKS = 8,                    /* a thread                                            */
    READ_TASK_BYTES = 256 * 1024, READ_AHEAD_BYTES = 4096,
    WORK_NORM = 4, WORK_FUNCTION = 24,  /* rough fused steps of a value: norm; exp and more    */
    PRODUCT_BLOCK_BYTES = 512 * 1024,   /* activations a row block holds: half of L2           */
    READY_BLOCK_BYTES = 1024 * 1024, READY_TILES = 16,  /* the same with tiles (AMX)           */
};

static struct cpu {
    const struct cpu_level *level;      /* NULL: closed                                        */
    bool reference;
    enum ops_arithmetic arithmetic;
    const struct cpu_level *integer;    /* whose integer arithmetic serves                     */
    bool ready, ready_int8;             /* what the last product left in its work memory       */
} cpu;

bool cpu_has_level(const char *level)
{
    return levels_here(level);
}

const char *cpu_level_name(u32 i)
{
    const struct cpu_level *level = levels_at(i);
    return level ? level->name : NULL;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static u32 pieces(u64 count, u64 each)
{
    return (u32)((count + each - 1) / each);
}

static u32 tiles_of(u32 n)
{
    return pieces(n, LEVEL_COLUMNS);
}

/* A task of an operation over spans: `each` rows of one span, `per` tasks beside each other. */
struct span_task { const struct ops_span *span; u32 lo, hi, part; };

static u32 span_tasks(const struct ops_span *span, u32 span_count, u32 each, u32 per)
{
    u32 count = 0;
    for (u32 i = 0; i < span_count; i++) count += pieces(span[i].hi - span[i].lo, each) * per;
    return count;
}

static struct span_task span_task_at(const struct ops_span *span, u32 each, u32 per, u32 task)
{
    for (;; span++) {                   /* ends: task < span_tasks                             */
        u32 here = pieces(span->hi - span->lo, each) * per;
        if (task < here) break;
        task -= here;
    }
    u32 lo = span->lo + task / per * each;
    return (struct span_task){ span, lo, MIN(lo + each, span->hi), task % per };
}

/* ---- pack ------------------------------------------------------------------------------------ */

struct pack_job { const struct ops_pack_source *source; enum ops_source format; u8 *to; };

static void pack_task(const void *owner, u32 task, u32 worker)
{
    const struct pack_job *job = owner;
    (void)worker;
    if (job->format == OPS_BF16 || job->format == OPS_F32)
        pack_tile_row(job->source, job->to, task, cpu.reference);
    else
        format_pack(job->source, job->format,
                    job->to + task * format_strip_bytes(job->format, job->source->k), task);
}

static enum ops_source kept_as(const struct ops_pack_source *source)
{
    return cpu.reference ? OPS_F32 : format_of(source);
}

static u32 cpu_arithmetic_of(enum ops_source type)
{
    if (cpu.reference) return ID_REFERENCE;
    if (!ops_by_integers(cpu.arithmetic, type)) return ID_BF16;
    return type == OPS_Q8_0 ? (u32)ID_INT8 : ID_BF16 | (u32)ID_CODES << (type - OPS_Q4_0);
}

static u64 cpu_pack_bytes(const struct ops_pack_source *source)
{
    enum ops_source format = kept_as(source);
    if (format == OPS_BF16 || format == OPS_F32)
        return pack_bytes(source->n, source->k, cpu.reference);
    return tiles_of(source->n) * format_strip_bytes(format, source->k);
}

static void cpu_packed(const struct ops_pack_source *source, const u8 *at, struct ops_matrix *out)
{
    enum ops_source format = kept_as(source);
    *out = (struct ops_matrix){
        .packed = at, .packed_bytes = cpu_pack_bytes(source), .n = source->n, .k = source->k,
        .format = format, .int8 = ops_by_integers(cpu.arithmetic, format),
        .cols = format_cols(source, format),
    };
}

static enum err cpu_pack(const struct ops_pack_source *source, u8 *to, struct ops_matrix *out)
{
    TRY(pack_check(source));
    struct pack_job job = { source, kept_as(source), to };
    threads_run(pack_task, &job, tiles_of(source->n), (u64)source->n * source->k);
    cpu_packed(source, to, out);
    return OK;
}

/* ---- product --------------------------------------------------------------------------------- */

struct product_job { const struct ops_product *p; u32 tile_tasks, tiles_each, rows_each; };

static u64 plain_bytes(u32 rows, u32 k)
{
    return cpu.level->ready_bytes ? cpu.level->ready_bytes(rows, k, cpu.reference) : 0;
}

static u64 cpu_product_work_bytes(u32 rows, u32 k)
{
    return MAX(plain_bytes(rows, k),
               cpu.reference || cpu.arithmetic == OPS_EXPANDED ? 0 : level_int8_bytes(rows, k));
}

static void ready_task(const void *owner, u32 task, u32 worker)
{
    const struct ops_product *p = owner;
    (void)worker;
    u32 lo = task * LEVEL_READY_ROWS, hi = MIN(lo + LEVEL_READY_ROWS, p->rows);
    if (p->w->int8) cpu.integer->int8_ready(p, lo, hi);
    else cpu.level->ready(p, lo, hi, cpu.reference);
}

static void product_task(const void *owner, u32 task, u32 worker)
{
    const struct product_job *job = owner;
    (void)worker;
    u32 lo = task / job->tile_tasks * job->rows_each;
    u32 tile = task % job->tile_tasks * job->tiles_each;
    u32 hi = MIN(lo + job->rows_each, job->p->rows);
    u32 tile_hi = MIN(tile + job->tiles_each, tiles_of(job->p->w->n));
    if (job->p->w->int8) cpu.integer->int8_product(job->p, lo, hi, tile, tile_hi);
    else cpu.level->product(job->p, lo, hi, tile, tile_hi, cpu.reference);
}

/* Rows and column tiles of a task: a level that makes activations ready halves their bytes. */
static u32 product_rows_each(u32 k)
{
    u64 wanted = PRODUCT_BLOCK_BYTES / (MAX(k, 1u) * sizeof(f32)) / 12 * 12;
    u64 ready = READY_BLOCK_BYTES / (MAX(k, 1u) * sizeof(bf16)) / 32 * 32;
    return cpu.level->ready ? (u32)MIN(MAX(ready, 256ull), 512ull) : (u32)MAX(wanted, 48ull);
}

/* Row blocks outside, columns inside: a block's activations stay in L2 for all columns. */
static enum err cpu_product(const struct ops_product *p)
{
    u32 tiles = tiles_of(p->w->n);
    if (p->rows == 0) return OK;
    u32 rows_each = product_rows_each(p->w->k);
    u32 row_tasks = pieces(p->rows, rows_each);
    u32 wanted = pieces(tiles, MAX(threads_count() * 4 / row_tasks, 1u));
    u32 tiles_most = cpu.level->ready ? READY_TILES : PRODUCT_TILES;
    u32 tiles_each = (u32)ALIGN_UP(MIN(MAX(wanted, 1u), tiles_most), 2);
    if (p->rows <= PRODUCT_STREAM_ROWS) tiles_each = MAX(wanted, 1u);
    struct product_job job = { p, pieces(tiles, tiles_each), tiles_each, rows_each };
    bool ready = p->w->int8 || plain_bytes(p->rows, p->w->k) > 0;
    bool stands = p->same_x && cpu.ready && cpu.ready_int8 == p->w->int8;
    cpu.ready = ready || (p->same_x && cpu.ready);
    if (ready) cpu.ready_int8 = p->w->int8;
    if (ready && !stands)
        threads_run(ready_task, p, pieces(p->rows, LEVEL_READY_ROWS),
                    (u64)p->rows * p->w->k * WORK_NORM);
    threads_run(product_task, &job, job.tile_tasks * row_tasks, (u64)p->rows * p->w->n * p->w->k);
    return OK;
}

struct probe_job { u32 rounds; _Atomic u64 done; };

static void probe_task(const void *owner, u32 task, u32 worker)
{
    struct probe_job *job = (struct probe_job *)(uintptr_t)owner;
    (void)task, (void)worker;
    atomic_fetch_add(&job->done, cpu.level->probe(job->rounds));
}

u64 cpu_probe(u32 rounds)
{
    struct probe_job job = { .rounds = rounds };
    if (cpu.level->probe)
        threads_run(probe_task, &job, threads_count() * PROBE_TASKS, THREADS_WORK_LEAST);
    return atomic_load(&job.done);
}

struct read_job { const u8 *bytes; u64 count; _Atomic u64 sum; };

static void read_task(const void *owner, u32 task, u32 worker)
{
    struct read_job *job = (struct read_job *)(uintptr_t)owner;
    u64 lo = (u64)task * READ_TASK_BYTES, hi = MIN(lo + READ_TASK_BYTES, job->count), sum = 0;
    (void)worker;
    for (u64 at = lo; at + 64 <= hi; at += 64) {
        u64 word[8];
        __builtin_prefetch(job->bytes + at + READ_AHEAD_BYTES);
        memcpy(word, job->bytes + at, sizeof word);
        for (u32 i = 0; i < 8; i++) sum += word[i];
    }
    atomic_fetch_add(&job->sum, sum);
}

u64 cpu_probe_read(const u8 *bytes, u64 count)
{
    struct read_job job = { .bytes = bytes, .count = count };
    threads_run(read_task, &job, pieces(count, READ_TASK_BYTES), THREADS_WORK_LEAST + count);
    return atomic_load(&job.sum);
}

/* ---- rows and values ------------------------------------------------------------------------- */

struct embed_job { const u8 *table; enum ops_source type; const u32 *ids; u32 rows, h; f32 *x; };

static f32 table_value(const u8 *table, enum ops_source type, u64 at)
{
    u16 half = 0;
    f32 wide = 0.0f;
    if (type == OPS_F32) memcpy(&wide, table + 4 * at, sizeof wide);
    else memcpy(&half, table + 2 * at, sizeof half);
    if (type == OPS_BF16) wide = maths_from_bf16(half);
    if (type == OPS_F16) wide = maths_from_f16(half);
    return wide;
}

static f32 table_round(f32 value)
{
    value = maths_flush(value);
    return cpu.reference ? value : maths_round_bf16(value);
}

/* One row of a table of blocks. */
static void embed_blocks(const struct embed_job *job, u32 row, f32 *x)
{
    f32 value[EMBED_STEP];
    for (u32 i = 0; i < job->h; i += EMBED_STEP) {
        u32 count = MIN(job->h - i, (u32)EMBED_STEP);
        quant_expand(job->type, job->table, job->h, row, i, count, value);
        for (u32 k = 0; k < count; k++) x[i + k] = table_round(value[k]);
    }
}

static void embed_task(const void *owner, u32 task, u32 worker)
{
    const struct embed_job *job = owner;
    (void)worker;
    for (u32 r = task * TASK_ROWS; r < MIN((task + 1) * TASK_ROWS, job->rows); r++) {
        f32 *x = job->x + (u64)r * job->h;
        if (job->type > OPS_FP8_BLOCK) {
            embed_blocks(job, job->ids[r], x);
            continue;
        }
        for (u32 i = 0; i < job->h; i++)
            x[i] = table_round(table_value(job->table, job->type, (u64)job->ids[r] * job->h + i));
    }
}

static enum err cpu_embed(const u8 *table, enum ops_source type, const u32 *ids, u32 rows, u32 h,
                          void *x)
{
    if (type == OPS_FP8_BLOCK) return fail(ERR_UNSUPPORTED, "embed: a table of block FP8");
    struct embed_job job = { table, type, ids, rows, h, x };
    threads_run(embed_task, &job, pieces(rows, TASK_ROWS), (u64)rows * h);
    return OK;
}

struct norm_job { const f32 *x, *scale; f32 *y; u32 rows, n; f32 eps; };

static void norm_task(const void *owner, u32 task, u32 worker)
{
    const struct norm_job *job = owner;
    (void)worker;
    u32 lo = task * TASK_ROWS, hi = MIN(lo + TASK_ROWS, job->rows);
    cpu.level->rms_norm(job->x + (u64)lo * job->n, job->scale, job->y + (u64)lo * job->n, hi - lo,
                        job->n, job->eps, cpu.reference);
}

static enum err cpu_rms_norm(const void *x, const f32 *scale, void *y, u32 rows, u32 n, f32 eps)
{
    struct norm_job job = { x, scale, y, rows, n, eps };
    threads_run(norm_task, &job, pieces(rows, TASK_ROWS), (u64)rows * n);
    return OK;
}

struct values_job { f32 *y; const f32 *a, *b; u64 count; };

static void residual_task(const void *owner, u32 task, u32 worker)
{
    const struct values_job *job = owner;
    (void)worker;
    u64 lo = (u64)task * TASK_VALUES;
    cpu.level->residual(job->y + lo, job->a + lo, MIN((u64)TASK_VALUES, job->count - lo),
                        cpu.reference);
}

static enum err cpu_residual(void *x, const void *y, u64 count)
{
    struct values_job job = { .y = x, .a = y, .count = count };
    threads_run(residual_task, &job, pieces(count, TASK_VALUES), count);
    return OK;
}

static void glu_task(const void *owner, u32 task, u32 worker)
{
    const struct values_job *job = owner;
    (void)worker;
    u64 lo = (u64)task * TASK_VALUES;
    cpu.level->glu(job->a + lo, job->b + lo, job->y + lo, MIN((u64)TASK_VALUES, job->count - lo),
                   cpu.reference);
}

static enum err cpu_glu(const void *g, const void *u, void *y, u64 count)
{
    struct values_job job = { y, g, u, count };
    threads_run(glu_task, &job, pieces(count, TASK_VALUES), count * WORK_FUNCTION);
    return OK;
}

static enum err cpu_gather(const void *x, const u32 *rows, u32 count, u32 n, void *y)
{
    for (u32 i = 0; i < count; i++)
        memcpy((f32 *)y + (u64)i * n, (const f32 *)x + (u64)rows[i] * n, (u64)n * sizeof(f32));
    return OK;
}

static enum err cpu_join(const void *a, const void *b, void *y, u32 rows, u32 n)
{
    for (u32 r = 0; r < rows; r++) {
        memcpy((f32 *)y + 2ull * r * n, (const f32 *)a + (u64)r * n, (u64)n * sizeof(f32));
        memcpy((f32 *)y + (2ull * r + 1) * n, (const f32 *)b + (u64)r * n, (u64)n * sizeof(f32));
    }
    return OK;
}

static enum err cpu_store(const void *x, u8 *to, u64 count)
{
    if (cpu.reference) {
        memcpy(to, x, count * sizeof(f32));
        return OK;
    }
    for (u64 i = 0; i < count; i++) {
        bf16 value = maths_to_bf16(((const f32 *)x)[i]);
        memcpy(to + i * sizeof value, &value, sizeof value);
    }
    return OK;
}

static enum err cpu_load(const u8 *from, void *x, u64 count)
{
    for (u64 i = 0; i < count; i++)
        ((f32 *)x)[i] = table_value(from, cpu.reference ? OPS_F32 : OPS_BF16, i);
    return OK;
}

struct best_job { const f32 *x; u32 stride, n, *ids; };

static void best_task(const void *owner, u32 task, u32 worker)
{
    const struct best_job *job = owner;
    const f32 *x = job->x + (u64)task * job->stride;
    u32 best = 0;
    (void)worker;
    for (u32 i = 1; i < job->n; i++)
        if (x[i] > x[best]) best = i;
    job->ids[task] = best;
}

static enum err cpu_best(const f32 *x, u32 rows, u32 stride, u32 n, u32 *ids)
{
    struct best_job job = { x, stride, n, ids };
    ASSERT(n > 0 && n <= stride);
    threads_run(best_task, &job, rows, (u64)rows * n);
    return OK;
}

static enum err cpu_to_f32(const void *x, f32 *y, u64 count)
{
    memcpy(y, x, count * sizeof(f32));
    return OK;
}

/* ---- attention ------------------------------------------------------------------------------- */

static void attn_rows_task(const void *owner, u32 task, u32 worker)
{
    const struct ops_attn_rows *p = owner;
    (void)worker;
    struct span_task at = span_task_at(p->span, TASK_ROWS, 1, task);
    cpu.level->attn_rows(p, at.span, at.lo, at.hi, cpu.reference);
}

static enum err cpu_attn_rows(const struct ops_attn_rows *p)
{
    ASSERT(p->d <= HEAD_DIM_CAP && p->rot <= p->d && p->nh % p->nkv == 0);
    u64 work = (u64)p->rows * (p->nh + 2 * p->nkv) * p->d * WORK_NORM;
    threads_run(attn_rows_task, p, span_tasks(p->span, p->span_count, TASK_ROWS, 1), work);
    return OK;
}

/* Rows of a task of `attn`: rows times heads that share a kv head fill ATTN_ROWS. */
static u32 attn_rows_each(u32 nh, u32 nkv)
{
    return MAX((u32)ATTN_ROWS / (nh / nkv), 1u);
}

static u64 attn_thread_bytes(u32 nh, u32 nkv, u32 d, u32 block_rows)
{
    u32 heads = nh / nkv * attn_rows_each(nh, nkv);
    return ALIGN_UP(cpu.level->attn_bytes(heads, d, block_rows), 4096);
}

/* Rows too few to give every thread a kv head take the tiles of a row side by side, in waves. */
static bool attn_in_waves(u32 rows, u32 nkv)
{
    return (u64)rows * nkv < threads_count();
}

static u64 cpu_attn_work_bytes(u32 rows, u32 nh, u32 nkv, u32 d, u32 block_rows)
{
    u64 waved = MIN(rows, (threads_count() - 1) / nkv);
    u64 parts = waved * (WAVE_TILES + 1) * nh * (2ull + d) * sizeof(f32);
    return threads_count() * attn_thread_bytes(nh, nkv, d, block_rows) + parts;
}

static void attn_task(const void *owner, u32 task, u32 worker)
{
    const struct ops_attn *p = owner;
    struct span_task at = span_task_at(p->span, attn_rows_each(p->nh, p->nkv), p->nkv, task);
    u8 *work = (u8 *)p->work + worker * attn_thread_bytes(p->nh, p->nkv, p->d, p->block_rows);
    cpu.level->attn(p, at.span, at.part, at.lo, at.hi, work, cpu.reference);
}

/* Tiles [lo, lo + tiles) of every row: first their parts, then the joined sums. */
struct wave_job {
    const struct ops_attn *p;
    f32 *parts, *sums;                  /* [rows, WAVE_TILES, nh, 2 + d], [rows, nh, 2 + d]    */
    u64  lo;
    u32  tiles;
};

static u64 tiles_seen(const struct ops_attn *p, struct span_task at)
{
    return (at.span->pos + (at.lo - at.span->lo)) / p->block_rows + 1;
}

static void wave_part_task(const void *owner, u32 task, u32 worker)
{
    const struct wave_job *job = owner;
    const struct ops_attn *p = job->p;
    struct span_task at = span_task_at(p->span, 1, p->nkv * job->tiles, task);
    u32 group = at.part / job->tiles, tile = at.part % job->tiles;
    u64 head = ((u64)at.lo * WAVE_TILES + tile) * p->nh + group * (p->nh / p->nkv);
    if (job->lo + tile >= tiles_seen(p, at)) return;
    cpu.level->attn_part(p, at.span, group, at.lo, job->lo + tile,
                         (u8 *)p->work + worker * attn_thread_bytes(p->nh, p->nkv, p->d,
                                                                    p->block_rows),
                         job->parts + head * (2 + p->d), cpu.reference);
}

static void wave_join_task(const void *owner, u32 task, u32 worker)
{
    const struct wave_job *job = owner;
    const struct ops_attn *p = job->p;
    (void)worker;
    struct span_task at = span_task_at(p->span, 1, p->nh, task);
    u64 tiles = tiles_seen(p, at), size = 2 + p->d;
    if (job->lo >= tiles) return;
    u32 count = (u32)MIN((u64)job->tiles, tiles - job->lo);
    struct level_parts parts = {
        .part = job->parts + ((u64)at.lo * WAVE_TILES * p->nh + at.part) * size,
        .stride = p->nh * size, .count = count, .first = job->lo == 0,
        .last = job->lo + count == tiles, .sum = job->sums + ((u64)at.lo * p->nh + at.part) * size,
    };
    cpu.level->attn_join(p, at.lo, at.part, &parts, cpu.reference);
}

static void attn_waves(const struct ops_attn *p, u64 tiles)
{
    u64 threads = threads_count() * attn_thread_bytes(p->nh, p->nkv, p->d, p->block_rows);
    struct wave_job job = { .p = p, .parts = (f32 *)(void *)((u8 *)p->work + threads) };
    u64 head = 2 + p->d, work = (u64)p->rows * p->nh * p->block_rows * p->d * 2;
    job.sums = job.parts + (u64)p->rows * WAVE_TILES * p->nh * head;
    for (job.lo = 0; job.lo < tiles; job.lo += job.tiles) {
        job.tiles = (u32)MIN((u64)WAVE_TILES, tiles - job.lo);
        threads_run(wave_part_task, &job, p->rows * p->nkv * job.tiles, work * job.tiles);
        threads_run(wave_join_task, &job, p->rows * p->nh, p->rows * p->nh * head * job.tiles);
    }
}

static enum err cpu_attn(const struct ops_attn *p)
{
    ASSERT(p->d <= HEAD_DIM_CAP && p->nh % p->nkv == 0);
    u32 each = attn_rows_each(p->nh, p->nkv);
    u64 keys = 0, tiles = 0;
    for (u32 i = 0; i < p->span_count; i++) {
        const struct ops_span *s = &p->span[i];
        keys += (s->hi - s->lo) * (s->pos + (s->hi - s->lo) / 2 + 1);
        if (s->hi > s->lo)
            tiles = MAX(tiles, (s->pos + (s->hi - s->lo) - 1) / p->block_rows + 1);
    }
    if (attn_in_waves(p->rows, p->nkv) && tiles >= WAVE_TILES_LEAST) attn_waves(p, tiles);
    else
        threads_run(attn_task, p, span_tasks(p->span, p->span_count, each, p->nkv),
                    keys * p->nh * p->d * 2);
    return OK;
}

/* ---- convolution and delta rule -------------------------------------------------------------- */

static void conv_task(const void *owner, u32 task, u32 worker)
{
    const struct ops_conv *p = owner;
    (void)worker;
    u32 parts = pieces(p->c, CONV_CHANNELS), lo = task % parts * CONV_CHANNELS;
    cpu.level->conv(p, &p->span[task / parts], lo, MIN(lo + CONV_CHANNELS, p->c), cpu.reference);
}

static enum err cpu_conv(const struct ops_conv *p)
{
    threads_run(conv_task, p, pieces(p->c, CONV_CHANNELS) * p->span_count,
                (u64)p->rows * p->c * WORK_FUNCTION);
    return OK;
}

struct gdn_job { const struct ops_gdn *p; struct level_gdn_work work; };

static u64 cpu_gdn_work_bytes(u32 rows, u32 hk, u32 hv, u32 dk, u32 dv)
{
    u64 values = 2ull * hk * dk + 2ull * hv + (u64)hv * dv;
    return rows * values * sizeof(f32) + 5 * 64;
}

static struct level_gdn_work gdn_work(const struct ops_gdn *p)
{
    struct level_gdn_work work;
    u64 keys = ALIGN_UP((u64)p->rows * p->hk * p->dk, 16);
    u64 gates = ALIGN_UP((u64)p->rows * p->hv, 16);
    work.q = p->work;
    work.k = work.q + keys;
    work.o = work.k + keys;
    work.beta = work.o + ALIGN_UP((u64)p->rows * p->hv * p->dv, 16);
    work.decay = work.beta + gates;
    return work;
}

static void gdn_gates_task(const void *owner, u32 task, u32 worker)
{
    const struct gdn_job *job = owner;
    (void)worker;
    u32 lo = task * TASK_ROWS;
    cpu.level->gdn_gates(job->p, &job->work, lo, MIN(lo + TASK_ROWS, job->p->rows));
}

static void gdn_rule_task(const void *owner, u32 task, u32 worker)
{
    const struct gdn_job *job = owner;
    const struct ops_gdn *p = job->p;
    (void)worker;
    u32 slices = pieces(p->dv, RULE_COLUMNS), per = p->hv * slices;
    u32 head = task % per / slices, lo = task % slices * RULE_COLUMNS;
    cpu.level->gdn_rule(p, &job->work, &p->span[task / per], head, lo,
                        MIN(lo + RULE_COLUMNS, p->dv));
}

static void gdn_out_task(const void *owner, u32 task, u32 worker)
{
    const struct gdn_job *job = owner;
    (void)worker;
    u32 lo = task * TASK_ROWS;
    cpu.level->gdn_out(job->p, &job->work, lo, MIN(lo + TASK_ROWS, job->p->rows), cpu.reference);
}

static enum err cpu_gdn(const struct ops_gdn *p)
{
    ASSERT(p->dk <= HEAD_DIM_CAP && p->dv <= HEAD_DIM_CAP && p->hv % p->hk == 0);
    struct gdn_job job = { p, gdn_work(p) };
    u32 row_tasks = pieces(p->rows, TASK_ROWS);
    u64 values = (u64)p->rows * p->hv * p->dv, keys = (u64)p->rows * p->hk * p->dk;
    threads_run(gdn_gates_task, &job, row_tasks, keys * WORK_NORM);
    threads_run(gdn_rule_task, &job, pieces(p->dv, RULE_COLUMNS) * p->hv * p->span_count,
                values * p->dk * 4);
    if (p->out == NULL) return OK;
    threads_run(gdn_out_task, &job, row_tasks, values * WORK_FUNCTION);
    return OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

static enum err cpu_sync(void)
{
    return OK;                          /* every call returned with its work done              */
}

/* VNNI came after the AVX-512 that level avx512 asks for; AMX's bytes are a part of their own. */
static const struct cpu_level *integer_of(const struct cpu_level *level)
{
#if defined(__x86_64__)
    bool vnni = __builtin_cpu_supports("avx512vnni");
    if (level == &amx_level && !(vnni && levels_amx_int8())) level = &avx512_level;
    if (level == &avx512_level && !vnni) return &avx2_level;
#endif
    return level;
}

enum err cpu_open(struct ops *out, u32 threads, const char *level, enum ops_arithmetic arithmetic)
{
    bool reference = arithmetic == OPS_REFERENCE;
    ASSERT(!cpu.level);
    const struct cpu_level *chosen = levels_find(level);
    if (!chosen)
        return fail(ERR_UNSUPPORTED, "level \"%s\": not one of scalar, avx2, avx512, amx, neon, or "
                    "not on this machine", level);
    TRY(threads_open(threads));
    cpu = (struct cpu){ .level = chosen, .reference = reference, .arithmetic = arithmetic,
                        .integer = integer_of(chosen) };
    *out = (struct ops){
        .name = "cpu", .level = chosen->name,
        .arithmetic_id = reference ? ID_REFERENCE : ID_BF16, .arithmetic_of = cpu_arithmetic_of,
        .arithmetic_least = ID_BF16, .row_invariant = true, .reference = reference,
        .act_bytes = sizeof(f32), .store_bytes = reference ? sizeof(f32) : sizeof(bf16),
        .thread_count = threads,
        .pack_bytes = cpu_pack_bytes, .pack = cpu_pack, .packed = cpu_packed,
        .packing_id = reference ? ID_REFERENCE : PACKING_ID,
        .product_work_bytes = cpu_product_work_bytes, .product = cpu_product,
        .embed = cpu_embed, .rms_norm = cpu_rms_norm, .residual = cpu_residual,
        .attn_rows = cpu_attn_rows, .attn_work_bytes = cpu_attn_work_bytes, .attn = cpu_attn,
        .conv = cpu_conv, .gdn_work_bytes = cpu_gdn_work_bytes, .gdn = cpu_gdn,
        .glu = cpu_glu, .gather = cpu_gather, .join = cpu_join, .store = cpu_store,
        .load = cpu_load, .best = cpu_best, .to_f32 = cpu_to_f32, .sync = cpu_sync,
    };
    return OK;
}

void cpu_close(void)
{
    if (!cpu.level) return;
    threads_close();
    cpu.level = NULL;
}
