/* tests/bench/forward.c - speed of the forward pass: cold prefill and decode, tokens a second.
 *
 *   BENCH_MODEL=folder ./build.sh test bench/forward && cat build/logs/bench_forward.log
 *
 * Without BENCH_MODEL the embedded model.  Also BENCH_LEVEL, BENCH_THREADS (0: all). */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model/forward.h"
#include "model/model.h"
#include "model/slot.h"

enum { PROMPT = 4096, STEPS = 32 };

/* One thread: its own CPU time, which neighbours on the machine disturb least. */
static clockid_t clock_of = CLOCK_MONOTONIC;

static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(clock_of, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

static void decode(f32 *logits, u64 pos)
{
    u32 slot = 0, id = 5;
    f64 best = 1e9, began = now_s();
    for (u32 i = 0; i < STEPS; i++) {
        f64 t = now_s();
        CHECK_OK(forward_step(&slot, &id, 1, logits));
        best = best < now_s() - t ? best : now_s() - t;
        id = (id * 7 + i) % (forward_vocab() - 1);
    }
    printf("decode at %5llu: %7.1f tokens/s (best step %6.2f ms)\n", (ull)pos,
           STEPS / (now_s() - began), best * 1e3);
}

TEST(speed_of_prefill_and_decode)
{
    const char *threads = getenv("BENCH_THREADS");
    struct model_setup setup = { .dir = getenv("BENCH_MODEL"), .backend = {
        .level = getenv("BENCH_LEVEL"), .threads = threads ? (u32)atoi(threads) : 0 } };
    struct model_room room = { .slot_count = 1, .ctx_rows = PROMPT + 1024, .pool_bytes = 4 * GIB };
    struct arena_decl decl[MODEL_DECL_CAP];
    if (setup.backend.threads == 1) clock_of = CLOCK_THREAD_CPUTIME_ID;
    CHECK_OK(model_open(&setup));
    CHECK_OK(arena_open(decl, model_declare(&room, decl)));
    f64 t = now_s();
    CHECK_OK(model_load(&room));
    printf("%s, %s, %u threads: packed in %.2f s\n", model_name(), model_ops()->level,
           model_ops()->thread_count, now_s() - t);
    f32 *logits = malloc(forward_vocab() * sizeof *logits);
    static u32 ids[PROMPT];
    for (u32 i = 0; i < PROMPT; i++) ids[i] = (i * 2654435761u >> 8) % (forward_vocab() - 1);
    CHECK_OK(slot_grow(0, PROMPT + 512));
    decode(logits, 0);
    f64 first = now_s();
    for (u32 at = 0; at < PROMPT;) {
        u32 rows = forward_rows_max() < PROMPT - at ? forward_rows_max() : PROMPT - at;
        t = now_s();
        CHECK_OK(forward_chunk(0, ids + at, rows, logits));
        at += rows;
        printf("prefill to %5u: %7.1f tokens/s of the chunk, %7.1f of all\n", at,
               rows / (now_s() - t), at / (now_s() - first));
        if (at == 2048 || at == PROMPT) {
            f64 pause = now_s();
            decode(logits, at);
            first += now_s() - pause;
        }
    }
    free(logits);
    model_close();
    arena_close();
}
