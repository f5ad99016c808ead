/* golden.c - the forward pass against the numpy oracle, made here and now by tests/oracle.
 *
 * Three checkpoints (untied, tied, block FP8), prompts of 1, 40 and 130 rows: logits, S, tails, K
 * and V of every layer, greedy tokens; in the f32 reference mode (2e-5) and in serving (0.1; on a
 * prompt where the oracle's own bf16 rounding costs about that much, 1.2 times its cost). */
#include "tests/model/oracle.h"

static struct distance sections_apart(const char *folder, bool tails)
{
    struct array want = load(folder, tails ? "gdn_conv" : "gdn_S");
    struct distance d = { 0 };
    u64 at = 0;
    const u8 *unit = arena_slots_addr(state_sections_arena(), slot_row(0)->unit);
    for (u32 g = 0; g < model_shape()->gdn_count; g++) {
        u32 index = tails ? family_section_tail(g) : family_section_s(g);
        const struct state_section *s = &state_shape()->section[index];
        u64 count = s->bytes / (tails ? model_ops()->store_bytes : 4);
        for (u64 i = 0; i < count; i++) {
            f32 value;
            if (tails) value = stored(unit + s->offset_bytes, i);
            else memcpy(&value, unit + s->offset_bytes + 4 * i, 4);
            measure(&d, value, want.data[at++]);
        }
    }
    CHECK_EQ(at, want.count);
    free(want.data);
    return d;
}

/* Logits of every row; returns the largest distance, which is the noise of greedy margins. */
static f64 logits_check(const char *folder, const struct golden *g, const f32 *logits, f64 max,
                        f64 mean)
{
    struct array want = load(folder, "logits");
    u32 vocab = forward_vocab(), equal = 0;
    struct distance d = { 0 };
    CHECK_EQ(want.count, (u64)g->rows * vocab);
    for (u64 i = 0; i < want.count; i++) measure(&d, logits[i], want.data[i]);
    within(folder, "logits", d, max, mean);
    for (u32 r = 0; r < g->rows; r++)
        equal += best_of(logits + (u64)r * vocab, vocab) ==
                 best_of(want.data + (u64)r * vocab, vocab);
    if (g->rows == 1) CHECK(equal == 1 || g->margin[0] < 2 * d.max);
    else CHECK(equal * 100 >= g->rows * 97);
    free(want.data);
    return d.max;
}

static void greedy_check(const struct golden *g, const f32 *last, f64 noise)
{
    static f32 row[1 << 12];
    u32 vocab = forward_vocab();
    memcpy(row, last, vocab * 4);
    for (u32 i = 0; i < NEW_MAX && g->margin[i] > 2 * noise; i++) {
        u32 id = best_of(row, vocab);
        CHECK_EQ(id, g->greedy[i]);
        CHECK_OK(slot_grow(0, slot_row(0)->len + 1));
        CHECK_OK(forward_chunk(0, &id, 1, row));
    }
}

static void check_prompt(const char *model, u32 rows, bool reference)
{
    static struct golden g;
    f64 max = reference ? 2e-5 : 0.1, mean = reference ? 2e-5 : 0.02;
    const char *folder = golden_prompt(model, rows, &g);
    f32 *logits = malloc(4ull * rows * forward_vocab());
    struct forward_span span = { 0, rows, g.ids, rows };
    slot_drop(0);
    CHECK_OK(slot_grow(0, rows));
    CHECK_OK(forward_rows(&span, 1, logits));
    if (!reference) max = fmax(max, 1.2 * g.own_noise);
    f64 noise = logits_check(folder, &g, logits, max, mean);
    within(folder, "S", sections_apart(folder, false), max, mean);
    within(folder, "tail", sections_apart(folder, true), max, mean);
    within(folder, "K", view_apart(folder, "attn_K", FAMILY_VIEW_K, rows), max, mean);
    within(folder, "V", view_apart(folder, "attn_V", FAMILY_VIEW_V, rows), max, mean);
    greedy_check(&g, logits + (u64)(rows - 1) * forward_vocab(), noise);
    free(logits);
}

static void check_model(const char *name, const char *flags, bool reference)
{
    const char *dir = rig_tiny(name, flags);
    rig_open(&(struct rig){ .dir = dir, .block_rows = BLOCK, .grid_rows = 64, .threads = 2,
                            .reference = reference });
    check_prompt(dir, 1, reference);
    check_prompt(dir, 40, reference);
    check_prompt(dir, 130, reference);
    rig_close();
}

TEST(reference_mode_is_the_oracle_untied) { check_model("default", "", true); }
TEST(reference_mode_is_the_oracle_tied) { check_model("tie", "--tie", true); }
TEST(reference_mode_is_the_oracle_block_fp8) { check_model("fp8", "--fp8", true); }
TEST(serving_is_near_the_oracle_untied) { check_model("default", "", false); }
TEST(serving_is_near_the_oracle_tied) { check_model("tie", "--tie", false); }
TEST(serving_is_near_the_oracle_block_fp8) { check_model("fp8", "--fp8", false); }
