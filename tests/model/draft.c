/* tests/model/draft.c - the draft head against the numpy oracle, and its state through resumes.
 *
 * Goldens of three checkpoints: rows of the draft views as they are stored, mtp.h_last, the draft
 * logits of every row, rounds of speculative decoding; in the reference mode and in serving.  Then
 * what tiers count on, by memcmp: rows, section and proposals are the same whatever chunks, saves,
 * proposals and cuts lay between. */
#include "model/draft.c"

#include "arena/base/rng.h"
#include "tests/model/oracle.h"

enum { K = DRAFT_K, CHAIN = 6 };

static struct distance section_apart(const char *folder)
{
    struct array want = load(folder, "mtp_h_last");
    const struct state_section *s = &state_shape()->section[family_section_draft(model_shape())];
    const u8 *unit = arena_slots_addr(state_sections_arena(), slot_row(0)->unit);
    struct distance d = { 0 };
    CHECK_STR(s->name, "mtp.h_last");
    CHECK_EQ(s->bytes, want.count * model_ops()->store_bytes);
    for (u64 i = 0; i < want.count; i++)
        measure(&d, stored(unit + s->offset_bytes, i), want.data[i]);
    free(want.data);
    return d;
}

/* draft_propose of slot 0 with the logits of every step: [most][vocab]. */
static void chain_logits(u32 next_id, u32 most, u32 *ids, f32 *logits)
{
    struct draft_ask ask = { .slot = 0, .next_id = next_id, .most = most };
    struct forward_batch b = { .rows = 1, .span_count = 1 };
    u32 vocab = forward_vocab(), id = next_id;
    u64 mark = forward_mark();
    chain_span(&ask, 0, &b.span[0]);
    forward_sizes(&b, 1);
    CHECK_OK(forward_push(&b, STAGE_ROWS));
    CHECK_OK(model_ops()->load(h_last(&b.span[0]), b.at[BUFFER_U], model_shape()->hidden));
    for (u32 i = 0; i < most; i++, b.span[0].pos++) {
        u64 step_mark = forward_mark();
        CHECK_OK(step_logits(&b, &id));
        memcpy(logits + (u64)i * vocab, b.at[BUFFER_LOGITS], 4ull * vocab);
        forward_rewind(step_mark);
        ids[i] = id = best_of(logits + (u64)i * vocab, vocab);
    }
    forward_rewind(mark);
}

static f64 margin_of(const f32 *row, u32 vocab)
{
    u32 best = best_of(row, vocab);
    f32 second = -INFINITY;
    for (u32 i = 0; i < vocab; i++)
        if (i != best && row[i] > second) second = row[i];
    return (f64)row[best] - (f64)second;
}

/* Row by row: what the head says of (x_L, h_{L-1}), against row L - 1 of the oracle's list. */
static f64 logits_check(const char *folder, const struct golden *g, f64 max, f64 mean)
{
    struct array want = load(folder, "mtp_logits");
    u32 vocab = forward_vocab(), id, proposed = 0, count = 0;
    f32 *row = malloc(4ull * vocab);
    struct distance d = { 0 };
    CHECK_EQ(want.count, (u64)g->rows * vocab);
    slot_drop(0);
    for (u32 len = 1; len <= g->rows; len++) {
        u32 next = len < g->rows ? g->ids[len] : g->greedy[0];
        CHECK_OK(slot_grow(0, len + 1));
        CHECK_OK(forward_chunk(0, &g->ids[len - 1], 1, NULL));
        CHECK_OK(draft_propose(0, next, 1, &proposed, &count));
        chain_logits(next, 1, &id, row);
        CHECK_EQ(count, 1);
        CHECK_EQ(proposed, id);
        for (u32 i = 0; i < vocab; i++) measure(&d, row[i], want.data[(len - 1) * vocab + i]);
    }
    within(folder, "draft", d, max, mean);
    free(want.data);
    free(row);
    return d.max;
}

/* ---------------------------------------------------------------- speculative decoding */
struct round { u32 drafts[K], accepted; };

static u32 read_rounds(const char *folder, struct round *out)
{
    char path[256];
    struct json_doc doc;
    struct json_at top, list, item, drafts, id;
    snprintf(path, sizeof path, "%s/ids.json", folder);
    CHECK_OK(json_open_file(path, (struct json_limits){ 1 << 20, 16 }, &doc, &top));
    CHECK_OK(json_get(&top, "rounds", &list));
    u32 count = json_count(&list);
    CHECK(count > 0 && count <= NEW_MAX);
    for (u32 r = 0; r < count; r++) {
        CHECK_OK(json_item(&list, r, &item));
        CHECK_OK(json_get(&item, "drafts", &drafts));
        for (u32 i = 0; i < K; i++) {
            CHECK_OK(json_item(&drafts, i, &id));
            CHECK_OK(json_u32(&id, NULL, &out[r].drafts[i]));
        }
        CHECK_OK(json_u32(&item, "accepted", &out[r].accepted));
    }
    json_close(&doc);
    return count;
}

/* The token before the block and its drafts go through the trunk in one piece; accepted ones stay:
 * the state before is loaded and those rows run again.  Returns how many were accepted. */
static u32 verify(unit_id unit, const u32 block[1 + K], f32 *logits, u32 *best)
{
    u64 len;
    u32 accepted = 0, vocab = forward_vocab();
    struct forward_span span = { 0, 1 + K, block, 1 + K };
    CHECK_OK(state_save(0, unit, &len));
    CHECK_OK(forward_rows(&span, 1, logits));
    for (u32 i = 0; i <= K; i++) best[i] = best_of(logits + (u64)i * vocab, vocab);
    while (accepted < K && block[1 + accepted] == best[accepted]) accepted++;
    if (accepted == K) return K;
    CHECK_OK(state_load(0, unit, len));
    CHECK_OK(forward_chunk(0, block, accepted + 1, NULL));
    return accepted;
}

/* Rounds equal the oracle's as long as every choice in them is wider than the noise. */
static u32 rounds_check(const char *folder, const struct golden *g, f64 noise)
{
    struct round want[NEW_MAX];
    u32 count = read_rounds(folder, want), vocab = forward_vocab(), token = g->greedy[0];
    u32 block[1 + K], best[1 + K], ids[K], made = 1, equal = 0, proposed = 0;
    f32 *logits = malloc(4ull * (1 + K) * vocab), *steps = malloc(4ull * K * vocab);
    bool wide = g->margin[0] > 2 * noise;
    unit_id unit;
    CHECK_OK(arena_slots_take(state_sections_arena(), HOLD_ANCHOR, &unit));
    CHECK_EQ(slot_row(0)->len, g->rows);
    for (u32 r = 0; r < count && wide; r++) {
        CHECK_OK(slot_grow(0, slot_row(0)->len + 1 + K));
        CHECK_OK(draft_propose(0, token, K, block + 1, &proposed));
        CHECK_EQ(proposed, K);
        chain_logits(token, K, ids, steps);
        for (u32 i = 0; i < K && wide; i++) {
            wide = margin_of(steps + (u64)i * vocab, vocab) > 2 * noise;
            CHECK_EQ(ids[i], block[1 + i]);
            if (wide) CHECK_EQ(ids[i], want[r].drafts[i]);
        }
        block[0] = token;
        u32 accepted = verify(unit, block, logits, best);
        for (u32 i = 0; i <= accepted && made < NEW_MAX; i++, made++) {
            wide = wide && g->margin[made] > 2 * noise;
            if (wide) CHECK_EQ(best[i], g->greedy[made]);
        }
        if (wide) CHECK_EQ(accepted, want[r].accepted);
        equal += wide;
        token = best[accepted];
    }
    arena_slots_drop(state_sections_arena(), unit, HOLD_ANCHOR);
    free(logits);
    free(steps);
    printf("%s %u of %u rounds are the oracle's\n", folder, equal, count);
    return equal;
}

/* ---------------------------------------------------------------- goldens */
static u32 check_prompt(const char *model, u32 rows, bool reference)
{
    static struct golden g;
    f64 max = reference ? 3e-5 : 0.1, mean = reference ? 3e-5 : 0.02;
    const char *folder = golden_prompt(model, rows, &g);
    if (!reference) max = fmax(max, 1.2 * g.own_noise);
    slot_drop(0);
    CHECK_OK(slot_grow(0, rows));
    CHECK_OK(forward_chunk(0, g.ids, rows, NULL));
    within(folder, "mtp.K", view_apart(folder, "mtp_rows_K", FAMILY_VIEW_DRAFT_K, rows), max,
           mean);
    within(folder, "mtp.V", view_apart(folder, "mtp_rows_V", FAMILY_VIEW_DRAFT_V, rows), max,
           mean);
    within(folder, "h_last", section_apart(folder), max, mean);
    f64 noise = logits_check(folder, &g, max, mean);
    return rounds_check(folder, &g, noise);
}

static void check_model(const char *name, const char *flags, bool reference)
{
    const char *dir = rig_tiny(name, flags);
    rig_open(&(struct rig){ .dir = dir, .block_rows = BLOCK, .grid_rows = 64, .threads = 2,
                            .reference = reference, .draft = MODEL_DRAFT_MTP });
    CHECK(draft_present());
    u32 equal = check_prompt(dir, 1, reference) + check_prompt(dir, 40, reference) +
                check_prompt(dir, 130, reference);
    if (reference) CHECK(equal >= 10);          /* the rounds were really compared            */
    rig_close();
}

TEST(the_heads_reference_mode_is_the_oracle_untied) { check_model("default", "", true); }
TEST(the_heads_reference_mode_is_the_oracle_tied) { check_model("tie", "--tie", true); }
TEST(the_heads_reference_mode_is_the_oracle_block_fp8) { check_model("fp8", "--fp8", true); }
TEST(the_heads_serving_is_near_the_oracle_untied) { check_model("default", "", false); }
TEST(the_heads_serving_is_near_the_oracle_tied) { check_model("tie", "--tie", false); }
TEST(the_heads_serving_is_near_the_oracle_block_fp8) { check_model("fp8", "--fp8", false); }

/* ---------------------------------------------------------------- what tiers count on */
enum { ROWS = 45, SLOTS = 3 };

static u32 prompt[ROWS];

/* Everything a state at `len` is: sections, then rows [0, len) of every view. */
struct image { u64 bytes; u8 at[512 * KIB]; };

static void take_image(u32 slot, struct image *out)
{
    const struct state_shape *shape = state_shape();
    u32 count;
    u64 len;
    const block_id *block = state_rows_out(slot, &count, &len);
    out->bytes = shape->section_bytes;
    memcpy(out->at, arena_slots_addr(state_sections_arena(), slot_row(slot)->unit), out->bytes);
    for (u32 v = 0; v < shape->view_count; v++)
        for (u32 p = 0; p < shape->view[v].planes; p++)
            for (u64 r = 0; r < len; r++) {
                u64 bytes = shape->view[v].row_bytes;
                CHECK(out->bytes + bytes <= sizeof out->at);
                memcpy(out->at + out->bytes, state_strip(block[r / shape->block_rows], v, p) +
                                             r % shape->block_rows * bytes, bytes);
                out->bytes += bytes;
            }
}

static void same_image(const struct image *a, const struct image *b, const char *what, u32 at)
{
    if (a->bytes != b->bytes || memcmp(a->at, b->at, a->bytes) != 0)
        test_failed(__FILE__, __LINE__, "%s: other bytes, at %u", what, at);
}

static void open_head(enum model_draft draft)
{
    rig_open(&(struct rig){ .dir = rig_tiny("default", ""), .block_rows = 4, .grid_rows = 16,
                            .threads = 2, .draft = draft, .slots = SLOTS });
    for (u32 i = 0; i < ROWS; i++) prompt[i] = (u32)(rng_u64(31, i) % 480);
}

static void forward_to(u32 slot, u32 from, u32 to)
{
    if (from == 0) slot_drop(slot);
    CHECK_OK(slot_grow(slot, to));
    CHECK_EQ(slot_row(slot)->len, from);
    if (to > from) CHECK_OK(forward_chunk(slot, prompt + from, to - from, NULL));
}

static void propose_into(u32 slot, u32 next, u32 most, u32 *ids)
{
    u32 count = 0;
    CHECK_OK(slot_grow(slot, slot_row(slot)->len + most));
    CHECK_OK(draft_propose(slot, next, most, ids, &count));
    CHECK_EQ(count, most);
}

TEST(the_head_changes_no_bit_of_the_trunk)
{
    static f32 with[ROWS * 512], without[ROWS * 512];
    static struct image a, b;
    for (u32 draft = 0; draft < 2; draft++) {
        open_head(draft ? MODEL_DRAFT_MTP : MODEL_DRAFT_OFF);
        CHECK_EQ(draft_present(), draft);
        struct forward_span span = { 0, ROWS, prompt, ROWS };
        CHECK_OK(slot_grow(0, ROWS));
        CHECK_OK(forward_rows(&span, 1, draft ? with : without));
        take_image(0, draft ? &a : &b);
        u64 trunk = draft ? state_shape()->section[family_section_draft(model_shape())].offset_bytes
                          : state_shape()->section_bytes;
        u64 head = state_shape()->section_bytes - trunk;
        if (draft) memmove(a.at + trunk, a.at + trunk + head, b.bytes - trunk);
        if (draft) a.bytes = b.bytes;           /* the head's two views stand last            */
        rig_close();
    }
    CHECK(memcmp(with, without, sizeof with) == 0);
    same_image(&a, &b, "with and without a head", 0);
}

TEST(a_saved_state_goes_on_and_proposes_as_if_it_had_never_been_saved)
{
    static struct image never, restored;
    u32 want[CHAIN], got[CHAIN];
    unit_id unit;
    u64 pos;
    open_head(MODEL_DRAFT_MTP);
    CHECK_OK(arena_slots_take(state_sections_arena(), HOLD_ANCHOR, &unit));
    for (u32 at = 1; at < ROWS; at++) {
        forward_to(0, 0, at);
        CHECK_OK(state_save(0, unit, &pos));
        propose_into(0, prompt[at], CHAIN, want);
        forward_to(0, at, ROWS);
        take_image(0, &never);
        CHECK_OK(state_load(0, unit, at));      /* rows below `at` are what they were          */
        propose_into(0, prompt[at], CHAIN, got);
        CHECK(memcmp(want, got, sizeof want) == 0);
        forward_to(0, at, ROWS);
        take_image(0, &restored);
        same_image(&never, &restored, "a saved state", at);
    }
    arena_slots_drop(state_sections_arena(), unit, HOLD_ANCHOR);
    rig_close();
}

TEST(proposals_leave_no_trace_in_the_rows_that_follow)
{
    static struct image plain, drafted;
    u32 ids[CHAIN];
    open_head(MODEL_DRAFT_MTP);
    forward_to(1, 0, ROWS);
    take_image(1, &plain);
    for (u32 step = 1; step <= 5; step += 2) {
        forward_to(0, 0, step);
        for (u32 at = step; at < ROWS; at += step) {
            propose_into(0, prompt[at], CHAIN, ids);
            forward_to(0, at, MIN(at + step, ROWS));
        }
        take_image(0, &drafted);
        same_image(&plain, &drafted, "rows behind proposals", step);
    }
    rig_close();
}

/* Rows of a shorter sequence are the first rows of a longer one: with the sections of that length a
 * cut is a cut of length. */
TEST(a_cut_with_its_sections_is_as_if_the_rest_had_never_been)
{
    static struct image plain, cut;
    unit_id unit;
    u64 pos;
    u32 want[CHAIN], got[CHAIN], other[8];
    open_head(MODEL_DRAFT_MTP);
    CHECK_OK(arena_slots_take(state_sections_arena(), HOLD_ANCHOR, &unit));
    for (u32 i = 0; i < COUNT_OF(other); i++) other[i] = (u32)(rng_u64(99, i) % 480);
    for (u32 at = 1; at < ROWS - 9; at += 3) {
        forward_to(0, 0, at);
        CHECK_OK(state_save(0, unit, &pos));
        CHECK_OK(slot_grow(0, at + COUNT_OF(other)));
        CHECK_OK(forward_chunk(0, other, COUNT_OF(other), NULL));
        CHECK_OK(state_load(0, unit, at));
        forward_to(1, 0, at);
        take_image(0, &cut);
        take_image(1, &plain);
        same_image(&plain, &cut, "a cut", at);
        propose_into(0, prompt[at], CHAIN, got);
        propose_into(1, prompt[at], CHAIN, want);
        CHECK(memcmp(want, got, sizeof want) == 0);
        forward_to(0, at, ROWS);
        forward_to(1, at, ROWS);
        take_image(0, &cut);
        take_image(1, &plain);
        same_image(&plain, &cut, "on from a cut", at);
    }
    arena_slots_drop(state_sections_arena(), unit, HOLD_ANCHOR);
    rig_close();
}

TEST(slots_that_propose_together_propose_what_each_would_alone)
{
    u32 alone[SLOTS][CHAIN], ids[SLOTS][CHAIN];
    static const u32 most[SLOTS] = { 2, CHAIN, 4 }, len[SLOTS] = { 7, 1, 30 };
    struct draft_ask ask[SLOTS];
    open_head(MODEL_DRAFT_MTP);
    for (u32 s = 0; s < SLOTS; s++) {
        forward_to(s, 0, len[s]);
        propose_into(s, prompt[len[s]], most[s], alone[s]);
        ask[s] = (struct draft_ask){ .slot = s, .next_id = prompt[len[s]], .most = most[s],
                                     .ids = ids[s] };
    }
    CHECK_OK(draft_propose_all(ask, SLOTS));
    for (u32 s = 0; s < SLOTS; s++) {
        CHECK_EQ(ask[s].count, most[s]);
        CHECK(memcmp(ids[s], alone[s], 4 * most[s]) == 0);
    }
    rig_close();
}

TEST(proposals_end_where_the_slots_rows_end)
{
    u32 ids[CHAIN], count = 9;
    block_id list[2];
    open_head(MODEL_DRAFT_MTP);
    slot_drop(0);
    CHECK_OK(draft_propose(0, 5, CHAIN, ids, &count));
    CHECK_EQ(count, 0);                         /* empty: there is no hidden row yet          */
    forward_to(0, 0, 7);                        /* two blocks of 4                            */
    CHECK_OK(draft_propose(0, 5, CHAIN, ids, &count));
    CHECK_EQ(count, 1);
    CHECK_OK(draft_propose(0, 5, 0, ids, &count));
    CHECK_EQ(count, 0);
    forward_to(0, 7, 8);
    CHECK_OK(draft_propose(0, 5, CHAIN, ids, &count));
    CHECK_EQ(count, 0);
    /* blocks that another holder counts on are no place for provisional rows */
    CHECK_OK(slot_grow(0, 10));
    CHECK_EQ(slot_writable(0), 12);
    memcpy(list, slot_blocks(0), sizeof list);
    for (u32 i = 0; i < 2; i++) arena_blocks_hold(state_blocks_arena(), list[i], HOLD_LIVE);
    slot_drop(1);
    state_rows_in(1, list, 2, 6);
    CHECK_OK(slot_unit(1));
    CHECK_EQ(slot_writable(1), 6);
    CHECK_OK(draft_propose(1, 5, CHAIN, ids, &count));
    CHECK_EQ(count, 0);
    CHECK_OK(slot_grow(1, 7));
    CHECK_OK(draft_propose(1, 5, CHAIN, ids, &count));
    CHECK_EQ(count, 2);
    rig_close();
}

TEST(padding_ids_are_never_proposed)
{
    u32 ids[CHAIN], count = 0;
    open_head(MODEL_DRAFT_MTP);
    draft_candidates(3);
    forward_to(0, 0, 9);
    CHECK_OK(slot_grow(0, 20));
    CHECK_OK(draft_propose(0, 400, CHAIN, ids, &count));
    CHECK_EQ(count, CHAIN);
    for (u32 i = 0; i < count; i++) CHECK(ids[i] < 3);
    rig_close();
}
