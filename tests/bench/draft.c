/* tests/bench/draft.c - what the draft head costs and brings, beside plain steps of the same run.
 *
 *   BENCH_MODEL=folder ./build.sh test bench/draft && cat build/logs/bench_draft.log
 *
 * The model must have a head; without BENCH_MODEL a seeded tiny one is written.  Prints what a
 * loaded head costs prefill and decode, a proposal's token in steps, and greedy decoding in rounds
 * of k drafts (propose, verify, accept) against plain greedy decoding: the same tokens. */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model/draft.h"
#include "model/forward.h"
#include "model/model.h"
#include "model/slot.h"
#include "model/tiny.h"

enum { PROMPT = 1024, STEPS = 48, DRAFTS = 6, ROWS_CAP = PROMPT + 256 };

static u32 ids[PROMPT], plain[STEPS + DRAFTS + 1];
static f32 *logits;

static f64 now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (f64)t.tv_sec + 1e-6 * (f64)t.tv_nsec;
}

static const char *model_dir(void)
{
    const char *dir = getenv("BENCH_MODEL");
    if (dir != NULL) return dir;
    CHECK_OK(tiny_write("build/bench-draft", &(struct tiny_choice){
        .hidden = 512, .layers = 8, .seed = 5, .mtp = true }));
    return "build/bench-draft";
}

static void open_model(enum model_draft draft)
{
    struct model_setup setup = { .dir = model_dir(), .draft = draft };
    struct model_room room = { .slot_count = 1, .ctx_rows = ROWS_CAP, .pool_bytes = 4 * GIB,
                               .verify_rows = DRAFTS + 1 };
    struct arena_decl decl[MODEL_DECL_CAP];
    CHECK_OK(model_open(&setup));
    CHECK_OK(arena_open(decl, model_declare(&room, decl)));
    CHECK_OK(model_load(&room));
    logits = realloc(logits, (DRAFTS + 1ull) * forward_vocab() * sizeof *logits);
    for (u32 i = 0; i < PROMPT; i++) ids[i] = (i * 2654435761u >> 8) % (forward_vocab() - 1);
}

static void close_model(void)
{
    model_close();
    arena_close();
}

static u32 best_of(const f32 *row)
{
    u32 best = 0;
    for (u32 i = 1; i < forward_vocab(); i++)
        if (row[i] > row[best]) best = i;
    return best;
}

/* The prompt, timed; returns the first greedy token. */
static u32 prefill(f64 *ms)
{
    f64 began = now_ms();
    slot_drop(0);
    CHECK_OK(slot_grow(0, ROWS_CAP));
    for (u32 at = 0; at < PROMPT; at += 256)
        CHECK_OK(forward_chunk(0, ids + at, 256, at + 256 == PROMPT ? logits : NULL));
    *ms = now_ms() - began;
    return best_of(logits);
}

/* Plain greedy steps; the best step's time. */
static f64 decode(u32 token, f64 *all_ms)
{
    u32 slot = 0;
    f64 best = 1e9, began = now_ms();
    for (u32 i = 0; i < STEPS; i++) {
        f64 t = now_ms();
        CHECK_OK(forward_step(&slot, &token, 1, logits));
        best = MIN(best, now_ms() - t);
        plain[i] = token = best_of(logits);
    }
    *all_ms = now_ms() - began;
    return best;
}

/* Greedy decoding in rounds of k drafts: milliseconds for STEPS tokens; *rounds_out of them. */
static f64 rounds(u32 token, u32 k, u32 *rounds_out)
{
    u32 made = 0, count = 0, block[DRAFTS + 1], accepted;
    f64 began = now_ms();
    for (*rounds_out = 0; made < STEPS; ++*rounds_out) {
        CHECK_OK(draft_propose(0, token, k, block + 1, &count));
        CHECK_EQ(count, k);
        block[0] = token;
        struct forward_span span = { 0, k + 1, block, k + 1 };
        CHECK_OK(forward_verify(&span, 1, logits));
        for (accepted = 0; ; accepted++) {
            token = best_of(logits + (u64)accepted * forward_vocab());
            if (made < STEPS) CHECK_EQ(token, plain[made]);
            made++;
            if (accepted == k || block[1 + accepted] != token) break;
        }
        CHECK_OK(forward_accept(0, accepted + 1));
    }
    return now_ms() - began;
}

TEST(cost_of_the_head_and_gain_of_its_drafts)
{
    f64 fill[2], step[2], all_ms[2], best;
    u32 token = 0, out[DRAFTS], count, used;
    for (u32 draft = 0; draft < 2; draft++) {
        open_model(draft ? MODEL_DRAFT_MTP : MODEL_DRAFT_OFF);
        token = prefill(&fill[draft]);
        step[draft] = decode(token, &all_ms[draft]);
        if (!draft) close_model();
    }
    printf("%s, %s, %u threads, %u rows\n", model_name(), model_ops()->level,
           model_ops()->thread_count, PROMPT);
    printf("prefill: %.0f ms without the head, %.0f with it: %+.1f %%\n", fill[0], fill[1],
           100 * (fill[1] / fill[0] - 1));
    printf("step: %.2f ms without the head, %.2f with it: %+.1f %% (best of %u)\n", step[0],
           step[1], 100 * (step[1] / step[0] - 1), STEPS);
    for (u32 k = 1; k <= DRAFTS; k++) {
        best = 1e9;
        for (u32 i = 0; i < 10; i++) {
            f64 t = now_ms();
            CHECK_OK(draft_propose(0, token, k, out, &count));
            best = MIN(best, now_ms() - t);
        }
        printf("propose %u: %.2f ms, %.2f of a step a token\n", k, best, best / k / step[0]);
    }
    for (u32 k = 1; k <= DRAFTS; k++) {
        token = prefill(&fill[0]);
        f64 ms = rounds(token, k, &used);
        printf("rounds of %u: %.2f tokens a round, %.1f ms a token, %.2f times plain\n", k,
               (f64)STEPS / used, ms / STEPS, all_ms[0] / ms);
    }
    close_model();
}
