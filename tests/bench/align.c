/* tests/bench/align.c - aligning a long conversation: time by its length, on this machine. */
#include "tests/test.h"

#include "arena/arena.h"
#include "tiers/align.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 9, TURN = 400, THINK = 150, ANSWER = 100, PIECES = 64 };

static struct vocab vocab;
static u8 memory[1 << 14] __attribute__((aligned(64)));
static struct generation_list list;

static f64 now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (f64)t.tv_sec * 1e6 + (f64)t.tv_nsec / 1e3;
}

static void open_pieces(void)
{
    static const struct { const char *piece; enum vocab_kind kind; } tags[] = {
        { "<s>", VOCAB_SPECIAL }, { "<e>", VOCAB_TURN_END }, { "<think>", VOCAB_THINK_OPEN },
        { "</think>", VOCAB_THINK_CLOSE }, { "\n", VOCAB_TEXT }, { "\n\n", VOCAB_TEXT } };
    struct arena_decl decl = { .name = "tables", .kind = ARENA_TABLE, .cap_bytes = MIB };
    CHECK_OK(arena_open(&decl, 1));
    CHECK_OK(end_open(arena_find("tables"), 4096));
    vocab_open(&vocab, memory, PIECES, 4096);
    for (u32 i = 0; i < COUNT_OF(tags); i++)
        CHECK_OK(vocab_put(&vocab, tags[i].piece, strlen(tags[i].piece), tags[i].kind));
    for (char word[8]; vocab.filled < PIECES;) {
        snprintf(word, sizeof word, " word%u", vocab.filled % 10);
        CHECK_OK(vocab_put(&vocab, word, strlen(word), VOCAB_TEXT));
    }
}

/* Turns of user, reasoning, answer; the prompt has the same without reasoning.  Best of ROUNDS. */
static f64 replay_us(u64 *rows, u64 *sent, u64 row_count)
{
    u64 n = 0, m = 0;
    f64 best = 1e12;
    struct align_result out;
    end_cut(&list, 0);
    while (n + TURN < row_count) {
        u64 from = n, think;
        rows[n++] = 0;
        for (; n < from + TURN - THINK - ANSWER; n++) rows[n] = 6 + n % 50;
        rows[n++] = 1;
        rows[n++] = 0;
        rows[n++] = 2;
        memcpy(sent + m, rows + from, (n - from) * sizeof *sent);
        m += n - from;
        rows[n++] = 4;
        u64 lo = n;
        for (; n < lo + THINK; n++) rows[n] = 6 + n % 50;
        rows[n++] = 3;
        think = n;
        for (; n < from + TURN; n++) rows[n] = 6 + n % 50;
        CHECK(end_record(&list, lo, n, think));
        sent[m++] = 5;
        memcpy(sent + m, rows + think - 1, (n - think + 1) * sizeof *sent);
        m += n - think + 1;
    }
    sent[m++] = 1;
    for (u32 i = 0; i < ROUNDS; i++) {
        f64 from = now_us();
        align_replay(&(struct align_setup){ .vocab = &vocab, .reasoning = true },
                     &(struct align_prompt){ .key = sent, .count = m },
                     &(struct align_record){ .key = rows, .count = n, .list = &list }, NULL, &out);
        best = MIN(best, now_us() - from);
    }
    CHECK_EQ(out.rows, n);
    CHECK_EQ(out.sent, m - 1);
    return best;
}

TEST(aligning_is_linear_and_far_below_a_prefill)
{
    u64 *rows = malloc(400000 * sizeof *rows), *sent = malloc(400000 * sizeof *sent);
    open_pieces();
    f64 first = replay_us(rows, sent, 50000);
    printf("align_replay: 50k rows %.0f us, ", first);
    f64 last = replay_us(rows, sent, 200000);
    printf("200k rows %.0f us\n", last);
    CHECK(last < 8 * first);
    free(rows);
    free(sent);
    arena_close();
}
