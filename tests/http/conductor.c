/* tests/http/conductor.c - a reasoning budget closes the block at its last token, once; a forced
 * answer goes on behind its own block. */
#include "tests/test.h"

#include "http/turn/conductor.h"
#include "http/turn/stop.h"

#include <string.h>

enum { OPEN, CLOSE, TEXT, BLANK, IDS = 200 };

static u8 memory[4096] __attribute__((aligned(64)));
static struct vocab vocab;
static const u32 phrase[] = { 10, 11, CLOSE, BLANK };
static struct submit_row row;

static void house_open(u64 budget)
{
    vocab_open(&vocab, memory, 16, 256);
    CHECK_OK(vocab_put(&vocab, "<think>", 7, VOCAB_THINK_OPEN));
    CHECK_OK(vocab_put(&vocab, "</think>", 8, VOCAB_THINK_CLOSE));
    CHECK_OK(vocab_put(&vocab, "text", 4, VOCAB_TEXT));
    CHECK_OK(vocab_put(&vocab, "\n\n", 2, VOCAB_TEXT));
    while (vocab.filled < 16) CHECK_OK(vocab_put(&vocab, "x", 1, VOCAB_TEXT));
    stop_vocab(&vocab);
    memset(&row, 0, sizeof row);
    row.think_open = true;
    row.think_budget = budget;
    row.close_ids = phrase;
    row.close_count = COUNT_OF(phrase);
    row.close_hidden = 2;
}

/* The ids of a turn whose model says `said` [count] while it may choose. */
static u64 run(const u32 *said, u64 count, u32 *out, bool *hidden)
{
    struct conductor_state s = { 0 };
    struct stop_state stop;
    u32 cut, back;
    u64 given = 0, at = 0;
    stop_start(&stop, &row);
    while (at < count) {
        u32 phase = stop.phase;
        u32 id = NONE;
        enum conductor_kind kind = conductor_next(&s, &row, phase, &id);
        if (kind == CONDUCTOR_MODEL) id = said[at++];
        hidden[given] = kind == CONDUCTOR_NOTE || kind == CONDUCTOR_PHRASE;
        conductor_fed(&s, phase, kind);
        out[given++] = id;
        if (!hidden[given - 1]) (void)stop_feed(&stop, &row, id, &cut, &back);
        CHECK(given < IDS);
    }
    return given;
}

TEST(K17_the_phrase_follows_the_last_id_that_the_budget_pays_for)
{
    static const u64 budgets[] = { 0, 1, 2, 64, 65 };
    u32 said[100], out[IDS];
    bool hidden[IDS];
    for (u32 i = 0; i < 100; i++) said[i] = TEXT;
    for (u32 b = 0; b < COUNT_OF(budgets); b++) {
        house_open(budgets[b]);
        CHECK_EQ(run(said, 100, out, hidden), 104);
        for (u64 i = 0; i < 104; i++) {
            u64 at = i - budgets[b];
            CHECK_EQ(out[i], i >= budgets[b] && at < 4 ? phrase[at] : TEXT);
            CHECK(hidden[i] == (i >= budgets[b] && at < 2));
        }
    }
    stop_vocab(NULL);
}

TEST(a_block_closed_in_time_or_never_open_or_without_a_phrase_is_left_alone)
{
    static const u32 said[] = { TEXT, TEXT, CLOSE, BLANK, TEXT, TEXT, TEXT, TEXT };
    u32 out[IDS];
    bool hidden[IDS];
    house_open(3);
    CHECK_EQ(run(said, 8, out, hidden), 8);
    CHECK(memcmp(out, said, sizeof said) == 0);
    house_open(2);                              /* used up as the model would have closed it */
    CHECK_EQ(run(said, 8, out, hidden), 12);
    house_open(0);
    row.think_open = false;
    CHECK_EQ(run(said + 4, 4, out, hidden), 4);
    house_open(0);
    row.close_count = 0;
    CHECK_EQ(run(said, 8, out, hidden), 8);
    house_open(UINT64_MAX);
    CHECK_EQ(run(said, 8, out, hidden), 8);
    stop_vocab(NULL);
}

TEST(reasoning_that_opens_again_is_closed_once)
{
    static const u32 said[] = { TEXT, OPEN, TEXT, TEXT, CLOSE, TEXT, OPEN, TEXT, TEXT };
    u32 out[IDS];
    bool hidden[IDS];
    house_open(1);
    u64 count = run(said, COUNT_OF(said), out, hidden), phrases = 0;
    for (u64 i = 0; i < count; i++) phrases += out[i] == phrase[0];
    CHECK_EQ(phrases, 1);
    CHECK_EQ(count, COUNT_OF(said) + 4);
    stop_vocab(NULL);
}

TEST(a_note_stands_once_inside_the_block_and_none_where_the_budget_is_used_up)
{
    static const u32 note[] = { 12, 13, 14 };
    u32 said[20], out[IDS];
    bool hidden[IDS];
    for (u32 i = 0; i < 20; i++) said[i] = TEXT;
    for (u64 at = 0; at < 9; at++) {
        house_open(8);
        row.note_at = at;
        row.note_ids = note;
        row.note_count = COUNT_OF(note);
        u64 given = at < 8 ? 3 : 0;             /* at 8 the phrase is due, and goes alone    */
        CHECK_EQ(run(said, 20, out, hidden), 24 + given);
        for (u64 i = 0; i < 24 + given; i++) {
            bool here = i >= at && i < at + given, closing = i >= 8 + given && i < 12 + given;
            CHECK_EQ(out[i], here ? note[i - at] : closing ? phrase[i - 8 - given] : TEXT);
            CHECK(hidden[i] == (here || (closing && i < 10 + given)));
        }
    }
    said[2] = CLOSE;                            /* the model closes it before                */
    house_open(8);
    row.note_at = 4;
    row.note_ids = note;
    row.note_count = COUNT_OF(note);
    CHECK_EQ(run(said, 20, out, hidden), 20);
    CHECK(memcmp(out, said, sizeof said) == 0);
    stop_vocab(NULL);
}

TEST(a_forced_answer_goes_on_behind_its_own_block)
{
    static const u32 forced[] = { TEXT, TEXT, BLANK, CLOSE, BLANK, BLANK, TEXT, CLOSE };
    house_open(1);
    row.forced = forced;
    row.forced_count = COUNT_OF(forced);
    CHECK_EQ(conductor_resume(&row, 0), 6);
    CHECK_EQ(conductor_resume(&row, 3), 6);
    CHECK_EQ(conductor_resume(&row, 6), 8);
    CHECK_EQ(conductor_resume(&row, 8), 8);
    row.forced_count = 3;                       /* no end of reasoning: the next id */
    CHECK_EQ(conductor_resume(&row, 1), 1);
    stop_vocab(NULL);
    CHECK_EQ(conductor_resume(&row, 1), 1);
}
