/* tests/http/drafts.c - answers with drafts equal answers without, bit for bit: ids, ends, rows,
 * sections, logits, log-probabilities; greedy and sampled, with penalties, stop strings, caps,
 * cancels and neighbours, whoever proposes. */
#include "tests/micro.h"
#include "tests/micromodel.h"
#include "tests/skew.h"

#include "http/turn/hostile.h"

enum {
    PROMPTS = 200, BESIDE = 3, ANSWER = 40, KEEP = 160,
    THINK = 57, CLOSE, BLANK, WORDS = 56,
};

struct answer {
    u32 out[KEEP], rows[KEEP], known[KEEP];     /* known: prompt and pushed ids               */
    u64 out_count, row_count, known_count;
    struct turn_result result;
    struct logprob_row logprob[ANSWER];
    bool cancelled;
};

static struct answer plain[PROMPTS];
static struct micro_ask asks[BESIDE];

static void open_vocab(void)
{
    static struct vocab vocab;
    static u64 memory[512];
    CHECK(vocab_bytes(micro.vocab, 512) <= sizeof memory);
    vocab_open(&vocab, memory, micro.vocab, 512);
    for (u32 id = 0; id < micro.vocab; id++) {
        char letter = (char)('0' + id);
        if (id == THINK) CHECK_OK(vocab_put(&vocab, "<think>", 7, VOCAB_THINK_OPEN));
        else if (id == CLOSE) CHECK_OK(vocab_put(&vocab, "</think>", 8, VOCAB_THINK_CLOSE));
        else if (id == BLANK) CHECK_OK(vocab_put(&vocab, "\n\n", 2, VOCAB_TEXT));
        else CHECK_OK(vocab_put(&vocab, &letter, 1, VOCAB_TEXT));
    }
    stop_vocab(&vocab);
}

/* Prompt `i`: every other one shares a head with its neighbours. */
static void make(struct micro_ask *a, u32 i)
{
    memset(a, 0, sizeof *a);
    a->id_count = 5 + rng_u64(11, i) % 60;
    for (u64 k = 0; k < a->id_count; k++)
        a->ids[k] = 4 + (u32)(rng_u64(i % 2 == 0 || k > 20 ? 100 + i : 7, k) % 40);
    a->session = 1 + i / 3;
    a->max_tokens = 1 + rng_u64(12, i) % ANSWER;
    static const u32 closing[] = { 50, 51, CLOSE, BLANK };
    a->think_open = i % 4 == 1;
    a->think_budget = rng_u64(13, i) % 9;
    a->closing = closing;
    a->closing_count = a->think_open ? COUNT_OF(closing) : 0;
    a->closing_hidden = 2;
}

/* What a client may ask for besides; the row was pushed and no pass has seen it. */
static void shape(struct submit_row *row, u32 i, bool sampled)
{
    if (sampled) {
        row->sampling = (struct sample_settings){
            .temperature = 0.3f + (f32)(i % 7) * 0.2f, .top_p = i % 3 == 0 ? 1.0f : 0.9f,
            .min_p = i % 5 == 0 ? 0.02f : 0.0f, .top_k = i % 4 == 0 ? 12 : 0,
            .repetition_penalty = i % 3 == 1 ? 1.3f : 1.0f,
            .presence_penalty = i % 6 == 2 ? 0.7f : 0.0f,
            .frequency_penalty = i % 6 == 4 ? 0.4f : 0.0f, .seed = 1000 + i };
    }
    if (i % 3 == 0) {
        row->stop_count = 2;
        row->stop_bytes[0] = 1;
        row->stop[0][0] = (u8)('4' + i % 40);
        row->stop_bytes[1] = 2;
        row->stop[1][0] = (u8)('4' + i % 17);
        row->stop[1][1] = (u8)('4' + i % 23);
    }
    row->ignore_eos = i % 9 == 0;
    row->logprobs = i % 5 == 2;
    row->top_logprobs = 2;
}

/* A turn that just ended: its slot holds the cold run of its own rows. */
static void keep(const struct micro_ask *a, struct answer *to)
{
    u32 slot = a->result.slot, blocks;
    to->result = a->result;
    to->cancelled = a->result.finish == FINISH_CANCELLED;
    if (to->cancelled && (slot == NONE || slot_row(slot)->len == 0)) return;
    f32 *logits = micro.logits + (u64)slot * micro.vocab;
    const block_id *list = state_rows_out(slot, &blocks, &to->row_count);
    u64 rows = to->row_count;
    CHECK(rows <= KEEP && a->out_count <= KEEP);
    for (u64 k = 0; k < rows; k++) {
        const u64 *label = arena_blocks_label(state_blocks_arena(), list[k / 8]);
        to->rows[k] = (u32)label[k % 8];
    }
    memcpy(to->out, a->out, a->out_count * sizeof *to->out);
    to->out_count = a->out_count;
    memcpy(to->known, to->rows, rows * sizeof *to->rows);
    if (a->out_count > 0) to->known[rows] = a->out[a->out_count - 1];
    to->known_count = rows + (a->out_count > 0);
    bool whole = !to->cancelled || a->result.generated > 0;
    cold_compare(micro.set.slot_count, slot, to->rows, rows, whole ? logits : NULL);
}

/* Prompts [first, first + BESIDE) at once. */
static void run(u32 first, bool sampled, struct answer out[BESIDE])
{
    struct logprob_row logprob[BESIDE][ANSWER];
    bool done[BESIDE] = { 0 };
    u32 count = MIN((u32)BESIDE, PROMPTS - first), left = count, passes = 0;
    for (u32 j = 0; j < count; j++) {
        make(&asks[j], first + j);
        micro_push(&asks[j]);
        shape(submit_at(asks[j].submit), first + j, sampled);
    }
    while (left > 0) {
        CHECK(++passes < 4000);
        for (u32 j = 0; j < count; j++)
            if ((first + j) % 13 == 4 && !done[j] && passes == 3 + (first + j) % 9)
                submit_cancel(asks[j].submit);
        engine_pass();
        for (u32 j = 0; j < count; j++) {
            if (done[j]) continue;
            memcpy(logprob[j], submit_at(asks[j].submit)->logprob, sizeof logprob[j]);
            if (!micro_poll(&asks[j])) continue;
            done[j] = true;
            left--;
            memset(&out[j], 0, sizeof out[j]);
            keep(&asks[j], &out[j]);
            memcpy(out[j].logprob, logprob[j], out[j].out_count * sizeof *out[j].logprob);
        }
    }
}

static void same(const struct answer *a, const struct answer *b, u32 i)
{
    u64 common = MIN(a->row_count, b->row_count), ids = MIN(a->out_count, b->out_count);
    bool cut = a->cancelled || b->cancelled;
    CHECK(memcmp(a->rows, b->rows, common * sizeof *a->rows) == 0);
    CHECK(memcmp(a->out, b->out, ids * sizeof *a->out) == 0);
    if (i % 5 == 2) CHECK(memcmp(a->logprob, b->logprob, ids * sizeof *a->logprob) == 0);
    if (cut) return;                    /* by a clock of passes: as far as it came            */
    CHECK_EQ(a->row_count, b->row_count);
    CHECK_EQ(a->out_count, b->out_count);
    CHECK_EQ(a->result.finish, b->result.finish);
    CHECK_EQ(a->result.generated, b->result.generated);
    CHECK_EQ(a->result.hidden, b->result.hidden);
    CHECK_EQ(a->result.stop_id, b->result.stop_id);
    CHECK(a->result.by_stop_string == b->result.by_stop_string);
}

static struct micro_setup setup_of(u32 draft, u64 seed)
{
    return (struct micro_setup){ .dir = micromodel_draft_dir(), .slot_count = BESIDE, .ctx = KEEP,
                                 .pool_bytes = 16 * MIB, .draft = draft, .draft_seed = seed };
}

static void plain_answers(bool sampled)
{
    struct micro_setup setup = setup_of(DRAFT_OFF, 0);
    micro_open(&setup);
    open_vocab();
    for (u32 i = 0; i < PROMPTS; i += BESIDE) run(i, sampled, &plain[i]);
    micro_close();
}

static void with_drafts(u32 draft, u64 seed, bool sampled)
{
    static struct answer got[BESIDE];
    struct micro_setup setup = setup_of(draft, seed);
    u32 ends[FINISH_ERROR + 1] = { 0 };
    enum turn_drafter who = seed > 0 ? DRAFTER_HOSTILE
                          : draft == DRAFT_MTP ? DRAFTER_MTP : DRAFTER_LOOKUP;
    micro_open(&setup);
    open_vocab();
    for (u32 i = 0; i < PROMPTS; i += BESIDE) {
        for (u32 j = i; j < MIN(i + BESIDE, (u32)PROMPTS); j++)
            hostile_know(plain[j].known, plain[j].known_count);
        run(i, sampled, got);
        for (u32 j = i; j < MIN(i + BESIDE, (u32)PROMPTS); j++) {
            same(&plain[j], &got[j - i], j);
            ends[got[j - i].result.finish] += got[j - i].result.by_stop_string ? 0 : 1;
        }
    }
    const struct drafters_counts *c = drafters_counted(who);
    CHECK(ends[FINISH_LENGTH] > 0 && ends[FINISH_CANCELLED] > 0);
    printf("%s: %llu blocks, %llu ids, %llu right\n", drafters_mode(), (ull)c->blocks,
           (ull)c->drafted, (ull)c->accepted);
    if (seed > 0) {                     /* cuts at many places of a block                     */
        u32 lengths = 0;
        for (u32 k = 0; k <= micro.profile.draft_max; k++) lengths += drafters_accepted(k) > 0;
        CHECK(lengths == micro.profile.draft_max + 1);
        CHECK(c->accepted > c->drafted / 10 && c->accepted < c->drafted / 10 * 9);
    }
    if (draft != DRAFT_AUTO) CHECK(c->blocks > 50 && c->accepted > 0);      /* auto: if it pays */
    micro_close();
}

TEST(greedy_answers_are_the_same_whoever_proposes)
{
    plain_answers(false);
    for (u64 seed = 1; seed <= 3; seed++) with_drafts(DRAFT_OFF, seed, false);
    with_drafts(DRAFT_MTP, 0, false);
    with_drafts(DRAFT_LOOKUP, 0, false);
    with_drafts(DRAFT_AUTO, 0, false);
}

TEST(sampled_answers_are_the_same_whoever_proposes)
{
    plain_answers(true);
    for (u64 seed = 1; seed <= 3; seed++) with_drafts(DRAFT_OFF, seed, true);
    with_drafts(DRAFT_MTP, 0, true);
    with_drafts(DRAFT_LOOKUP, 0, true);
    with_drafts(DRAFT_AUTO, 0, true);
}

/* Rows for the next id and no draft: plain steps, the same answer up to where memory ends it. */
TEST(a_slot_without_room_for_drafts_decodes_plainly)
{
    static u32 out[ANSWER];
    for (u64 seed = 0; seed <= 2; seed++) {
        struct micro_setup setup = setup_of(DRAFT_OFF, seed);
        setup.slot_count = 1;
        setup.block_rows = 4;
        setup.grid_rows = 16;
        setup.kv_rows = 48;
        setup.reserve_tokens = 1;
        micro_open(&setup);
        micro_prompt(&asks[0], 30, 5, ANSWER);
        if (seed > 0) hostile_know(plain[0].known, plain[0].known_count);
        micro_push(&asks[0]);
        submit_at(asks[0].submit)->ignore_eos = true;
        micro_wait(&asks[0]);
        CHECK(asks[0].result.finish == FINISH_LENGTH && asks[0].result.by_memory);
        CHECK_EQ(slot_row(0)->len, slot_row(0)->row_cap);       /* the last row too is used   */
        micro_equals_cold(&asks[0]);
        if (seed == 0) {
            memcpy(out, asks[0].out, asks[0].out_count * sizeof *out);
            memcpy(plain[0].known, asks[0].ids, 30 * sizeof *out);
            memcpy(plain[0].known + 30, out, asks[0].out_count * sizeof *out);
            plain[0].known_count = 30 + asks[0].out_count;
        } else {
            CHECK_EQ(asks[0].out_count, plain[0].known_count - 30);
            CHECK(memcmp(out, asks[0].out, asks[0].out_count * sizeof *out) == 0);
            CHECK(asks[0].result.drafts[DRAFTER_HOSTILE].accepted > 0);
        }
        micro_close();
    }
}

TEST(no_draft_is_proposed_where_a_rows_bits_depend_on_its_batch)
{
    struct micro_setup setup = setup_of(DRAFT_AUTO, 0);
    setup.wrap = skew_wrap;
    micro_open(&setup);
    CHECK_STR(drafters_mode(), "off");
    micro_prompt(&asks[0], 30, 5, ANSWER);
    micro_run(&asks[0]);
    for (u32 d = 0; d < DRAFTER_COUNT; d++) CHECK_EQ(asks[0].result.drafts[d].blocks, 0);
    micro_close();
}
