/* tests/bench/verify.c - what looking at rows and keeping some of them costs, beside plain rows and
 * beside a copy of the sections before each verification.
 *
 *   BENCH_MODEL=folder ./build.sh test bench/verify && cat build/logs/bench_verify.log
 *
 * Without BENCH_MODEL the embedded model.  Also BENCH_THREADS.  Best of ROUNDS. */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model/forward.h"
#include "model/model.h"
#include "model/slot.h"

enum { ROUNDS = 12, ROWS = 16 };

static u32 ids[4096];
static f32 *logits;

static f64 now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (f64)t.tv_sec + 1e-3 * (f64)t.tv_nsec;
}

static void least(f64 *best, f64 us)
{
    if (us < *best) *best = us;
}

static f64 plain_us(u32 rows)
{
    struct forward_span span = { 0, rows, ids, rows };
    f64 started = now_us();
    CHECK_OK(forward_rows(&span, 1, logits));
    return now_us() - started;
}

static f64 look_us(u32 rows)
{
    struct forward_span span = { 0, rows, ids, rows };
    f64 started = now_us();
    CHECK_OK(forward_verify(&span, 1, logits));
    return now_us() - started;
}

static f64 accept_us(u32 rows)
{
    f64 started = now_us();
    CHECK_OK(forward_accept(0, rows));
    return now_us() - started;
}

static f64 copy_us(unit_id unit)
{
    u64 pos;
    f64 started = now_us();
    CHECK_OK(state_save(0, unit, &pos));
    return now_us() - started;
}

TEST(cost_of_looking_at_rows_and_of_keeping_them)
{
    const char *threads = getenv("BENCH_THREADS");
    struct model_setup setup = { .dir = getenv("BENCH_MODEL"), .draft = MODEL_DRAFT_AUTO,
                                 .backend = { .threads = threads ? (u32)atoi(threads) : 0 } };
    struct model_room room = { .slot_count = 1, .ctx_rows = 4096, .pool_bytes = 2 * GIB,
                               .verify_rows = ROWS };
    struct arena_decl decl[MODEL_DECL_CAP];
    unit_id unit;
    CHECK_OK(model_open(&setup));
    CHECK_OK(arena_open(decl, model_declare(&room, decl)));
    CHECK_OK(model_load(&room));
    logits = malloc((u64)ROWS * forward_vocab() * sizeof *logits);
    for (u32 i = 0; i < COUNT_OF(ids); i++) ids[i] = (i * 2654435761u >> 8) % (forward_vocab() - 1);
    CHECK_OK(slot_grow(0, 4096));
    CHECK_OK(forward_chunk(0, ids, 256, NULL));
    CHECK_OK(arena_slots_take(state_sections_arena(), HOLD_LIVE, &unit));
    static const u32 counts[] = { 1, 2, 4, 9, 16 };
    printf("%s, %u threads, sections %llu KiB\n", model_name(), model_ops()->thread_count,
           (ull)(model_layout()->section_bytes / KIB));
    for (u32 i = 0; i < COUNT_OF(counts); i++) {
        f64 best[5] = { 1e12, 1e12, 1e12, 1e12, 1e12 };
        for (u32 r = 0; r < ROUNDS; r++) {
            least(&best[0], plain_us(counts[i]));
            least(&best[1], look_us(counts[i]));
            least(&best[2], accept_us(1));
            (void)look_us(counts[i]);
            least(&best[3], accept_us(counts[i]));
            least(&best[4], copy_us(unit));
        }
        printf("%2u rows: plain %7.0f us, looked at %7.0f, then 1 kept %5.0f, all kept %5.0f; a "
               "copy of the sections %5.0f\n", counts[i], best[0], best[1], best[2], best[3],
               best[4]);
    }
    arena_slots_drop(state_sections_arena(), unit, HOLD_LIVE);
    free(logits);
    model_close();
    arena_close();
}
