/* tests/http/cases_drafts.c - K15-K17: caches, resumes and caps beside drafts. */
#include "tests/http/cases.h"

#include "http/turn/hostile.h"

enum { PROMPTS = 20, TURNS = 8, IDS = 640, THINK_CLOSE = 58 };

static const struct drafting { const char *name; u32 mode; u64 seed; } drafting[] = {
    { "off", DRAFT_OFF, 0 }, { "mtp", DRAFT_MTP, 0 }, { "lookup", DRAFT_LOOKUP, 0 },
    { "auto", DRAFT_AUTO, 0 }, { "hostile", DRAFT_OFF, 7 },
};

static u32 known[TURNS][IDS];

static void open_drafting(const struct drafting *d, struct micro_setup s)
{
    s.slot_count = 1;
    s.draft = d->mode;
    s.draft_seed = d->seed;
    s.draft_max = 3;
    s.dir = micromodel_draft_dir();
    s.ctx = IDS;
    cases_open(s);
}

static u32 accepted(const struct micro_ask *t)
{
    u32 sum = 0;
    for (u32 d = 0; d < DRAFTER_COUNT; d++) sum += t->result.drafts[d].accepted;
    return sum;
}

/* ------------------------------------------------------------------ K15 */

/* Prompt `i`: rows shared with the one before it, then its own. */
static u64 shared_rows(u32 i) { return i == 0 ? 0 : 2 * G + 3 + (i % 5) * (G / 2); }

static void build(struct micro_ask *t, const struct micro_ask *before, u32 i)
{
    micro_prompt(t, shared_rows(i) + G + 5 + i, 100 + i, 12);
    t->session = 1;
    if (i > 0) memcpy(t->ids, before->ids, shared_rows(i) * sizeof *t->ids);
    if (i > 0) alter(t, shared_rows(i));
    if (i > 0 && t->ids[shared_rows(i)] == before->ids[shared_rows(i)]) alter(t, shared_rows(i));
}

TEST(K15_answers_are_the_same_with_caches_and_drafters_on_or_off)
{
    static u32 first[PROMPTS][16];
    static u64 count[PROMPTS];
    for (u32 d = 0; d < COUNT_OF(drafting); d++)
        for (u32 cache = 0; cache < 2; cache++) {
            struct micro_setup s = { .anchors = cache ? 0 : UINT32_MAX };
            if (!cache) s.pin_rows = s.park_rows = s.store_rows = UINT64_MAX;
            u64 cached = 0;
            open_drafting(&drafting[d], s);
            for (u32 i = 0; i < PROMPTS; i++) {
                build(&a, &b, i);
                micro_run(&a);
                micro_equals_cold(&a);
                if (d + cache == 0) memcpy(first[i], a.out, sizeof first[i]);
                if (d + cache == 0) count[i] = a.out_count;
                CHECK_EQ(a.out_count, count[i]);
                CHECK(memcmp(first[i], a.out, count[i] * sizeof *a.out) == 0);
                CHECK(a.result.cached <= shared_rows(i));       /* no anchor beyond it        */
                cached += a.result.cached;
                b = a;
            }
            CHECK(cache ? cached > PROMPTS * G : cached == 0);
            micro_close();
        }
}

/* ------------------------------------------------------------------ K16 */

/* One turn more: an answer, a tool's result, which every other time repeats one it gave before. */
static void tool_turn(struct micro_ask *t, u32 turn)
{
    micro_continue(t, t, 14, turn % 2 == 0 ? 70 : 70 + turn);
    if (turn % 2 == 0) micro_random_ids(t->ids + t->id_count - 14, 14, 70, 0);
    t->mark_count = 0;
    mark(t, t->id_count - 14, MARK_TOOL);
    t->max_tokens = 30;
}

TEST(K16_a_tool_conversation_of_eight_turns_is_the_same_with_a_drafter_of_three)
{
    for (u32 d = 0; d < COUNT_OF(drafting); d++) {
        u32 sum = 0, some = 0;
        open_drafting(&drafting[d], (struct micro_setup){ 0 });
        micro_prompt(&a, 3 * G + 5, 9, 30);
        for (u32 turn = 0; turn < TURNS; turn++) {
            if (turn > 0) tool_turn(&a, turn);
            u64 count = a.id_count;
            if (d > 0) hostile_know(known[turn], count + 30);
            micro_run(&a);
            micro_equals_cold(&a);
            CHECK(turn == 0 || a.result.source == SOURCE_END);
            memcpy(a.ids + count, a.out, a.out_count * sizeof *a.out);
            if (d == 0) memcpy(known[turn], a.ids, (count + a.out_count) * sizeof *a.ids);
            CHECK(memcmp(known[turn], a.ids, (count + a.out_count) * sizeof *a.ids) == 0);
            if (turn > 0) sum += accepted(&a);
            if (turn > 0) some += accepted(&a) > 0;
        }
        printf("%s: %u accepted after a resume, in %u of %u turns\n", drafting[d].name, sum, some,
               TURNS - 1);
        if (drafting[d].mode == DRAFT_OFF && drafting[d].seed == 0) CHECK_EQ(sum, 0);
        else if (drafting[d].mode != DRAFT_AUTO) CHECK(sum > 0 && some >= TURNS / 2);
        micro_close();
    }
}

/* ------------------------------------------------------------------ K17 */

static void open_vocab(void)
{
    static struct vocab vocab;
    static u64 memory[512];
    vocab_open(&vocab, memory, micro.vocab, 512);
    for (u32 id = 0; id < micro.vocab; id++) {
        char letter = (char)('0' + id);
        if (id == THINK_CLOSE) CHECK_OK(vocab_put(&vocab, "</think>", 8, VOCAB_THINK_CLOSE));
        else CHECK_OK(vocab_put(&vocab, &letter, 1, VOCAB_TEXT));
    }
    stop_vocab(&vocab);
}

/* The newest anchor stands at the last row, and no row is more than what was given. */
static void check_end(const struct micro_ask *t)
{
    u64 rows = t->id_count + t->result.generated - 1;
    struct anchor_list list = record_anchors(resident_record(t->result.slot));
    CHECK_EQ(slot_row(t->result.slot)->len, rows);
    CHECK(anchor_at(t->result.slot, rows));
    for (u32 i = 0; i < anchors_count(&list); i++) CHECK(list.row[i].pos <= rows);
}

TEST(K17_a_cap_on_thinking_fires_inside_a_block_as_it_does_without_drafts)
{
    static const u64 caps[] = { 1, 2, 64, 65 };
    static const u32 closing[] = { 50, 51, 52, THINK_CLOSE, 49 };
    static u64 count[COUNT_OF(caps)];
    for (u32 d = 0; d < COUNT_OF(drafting); d++) {
        open_drafting(&drafting[d], (struct micro_setup){ 0 });
        open_vocab();
        for (u32 i = 0; i < COUNT_OF(caps); i++) {
            micro_prompt(&a, 2 * G + 7, 30 + i, caps[i] + 20);
            a.think_open = true;
            a.think_budget = caps[i];
            a.closing = closing;
            a.closing_count = COUNT_OF(closing);
            a.closing_hidden = 3;
            if (d > 0) hostile_know(known[i], count[i]);
            micro_push(&a);
            submit_at(a.submit)->ignore_eos = true;
            micro_wait(&a);
            check_end(&a);
            u32 ids[IDS], blocks;
            u64 rows;
            const block_id *list = state_rows_out(0, &blocks, &rows);
            for (u64 k = 0; k < rows; k++) {
                const u64 *label = arena_blocks_label(state_blocks_arena(), list[k / B]);
                ids[k] = (u32)label[k % B];
            }
            ids[rows] = a.out[a.out_count - 1];
            CHECK_EQ(ids[a.id_count + caps[i]], closing[0]);
            CHECK_EQ(a.result.hidden, 3);
            if (d == 0) memcpy(known[i], ids, (rows + 1) * sizeof *ids);
            if (d == 0) count[i] = rows + 1;
            CHECK_EQ(rows + 1, count[i]);
            CHECK(memcmp(known[i], ids, count[i] * sizeof *ids) == 0);
            cold_compare(micro.set.slot_count, 0, ids, rows, micro.logits);
        }
        micro_close();
    }
}
