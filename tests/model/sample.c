/* sample.c - a token of a row of logits: order, cuts, penalties, one draw for one index. */
#include <stdlib.h>
#include <string.h>

#include "arena/base/rng.h"
#include "model/sample.h"
#include "tests/test.h"

enum { VOCAB = 1500 };
static f32 logits[VOCAB], kept[VOCAB];
static u8 work[8 * VOCAB];

static const struct sample_settings PLAIN = {
    .temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f,
};

static u32 sample(const struct sample_settings *s, u32 candidates, u64 index)
{
    memcpy(kept, logits, sizeof logits);
    struct sample_input in = { .logits = kept, .vocab = VOCAB, .candidates = candidates,
                               .generated_count = index };
    static u32 none[100000];
    in.ids = none;
    in.prompt_count = 0;
    return sample_row(s, &in, work);
}

static void random_logits(u64 seed)
{
    for (u32 i = 0; i < VOCAB; i++) logits[i] = 12.0f * rng_f32(seed, i) - 6.0f;
}

TEST(greedy_takes_the_largest_and_ties_go_to_the_lower_id)
{
    struct sample_settings s = PLAIN;
    s.temperature = 0.0f;
    random_logits(1);
    logits[700] = logits[300] = 50.0f;
    CHECK_EQ(sample(&s, VOCAB, 0), 300);
    logits[0] = 50.0f;
    CHECK_EQ(sample(&s, VOCAB, 0), 0);
}

TEST(padding_is_never_chosen)
{
    struct sample_settings s = PLAIN;
    random_logits(2);
    for (u32 i = 100; i < VOCAB; i++) logits[i] = 90.0f;
    for (u64 i = 0; i < 500; i++) CHECK(sample(&s, 100, i) < 100);
    s.temperature = 0.0f;
    CHECK(sample(&s, 100, 0) < 100);
}

TEST(nan_and_infinite_logits_end_no_turn)
{
    struct sample_settings s = PLAIN;
    random_logits(3);
    for (u32 i = 0; i < VOCAB; i += 2) logits[i] = __builtin_nanf("");
    for (u64 i = 0; i < 200; i++) CHECK(sample(&s, VOCAB, i) % 2 == 1);
    for (u32 i = 0; i < VOCAB; i++) logits[i] = -__builtin_inff();
    CHECK_EQ(sample(&s, VOCAB, 0), 0);
    logits[9] = __builtin_inff();
    CHECK_EQ(sample(&s, VOCAB, 0), 9);
}

TEST(the_draw_is_a_function_of_seed_and_index_alone)
{
    struct sample_settings s = PLAIN;
    u32 first[200], differ = 0;
    random_logits(4);
    for (u64 i = 0; i < 200; i++) first[i] = sample(&s, VOCAB, i);
    for (u64 i = 200; i > 0; i--) CHECK_EQ(sample(&s, VOCAB, i - 1), first[i - 1]);
    s.seed = 1;
    for (u64 i = 0; i < 200; i++) differ += sample(&s, VOCAB, i) != first[i];
    CHECK(differ > 150);
}

TEST(frequencies_are_the_softmax)
{
    struct sample_settings s = PLAIN;
    u32 count[4] = { 0 };
    for (u32 i = 0; i < VOCAB; i++) logits[i] = -100.0f;
    logits[10] = 1.0f;                      /* weights 4 : 2 : 1 : 1 */
    logits[20] = 1.0f - 0.6931472f;
    logits[30] = logits[40] = 1.0f - 2.0f * 0.6931472f;
    for (u64 i = 0; i < 20000; i++) {
        u32 id = sample(&s, VOCAB, i);
        CHECK(id == 10 || id == 20 || id == 30 || id == 40);
        count[id / 10 - 1]++;
    }
    CHECK(count[0] > 9700 && count[0] < 10300);
    CHECK(count[1] > 4750 && count[1] < 5250);
    CHECK(count[2] > 2300 && count[2] < 2700);
}

TEST(temperature_sharpens)
{
    struct sample_settings s = PLAIN;
    u32 best = 0;
    for (u32 i = 0; i < VOCAB; i++) logits[i] = -100.0f;
    logits[7] = 1.0f;
    logits[8] = 0.0f;
    s.temperature = 0.1f;
    for (u64 i = 0; i < 5000; i++) best += sample(&s, VOCAB, i) == 7;
    CHECK(best > 4990);
    s.temperature = 100.0f;
    for (u64 i = best = 0; i < 5000; i++) best += sample(&s, 9, i) == 7;
    CHECK(best < 1500);
}

/* Ids ever drawn are exactly the first `n` of the order. */
static void drawn_are_first(const struct sample_settings *s, u32 n)
{
    static u8 seen[VOCAB];
    u32 count = 0;
    memset(seen, 0, sizeof seen);
    for (u64 i = 0; i < 4000; i++) seen[sample(s, VOCAB, i)] = 1;
    for (u32 i = 0; i < VOCAB; i++) {
        if (!seen[i]) continue;
        u32 before = 0;
        for (u32 k = 0; k < VOCAB; k++)
            before += logits[k] > logits[i] || (logits[k] == logits[i] && k < i);
        CHECK(before < n);
        count++;
    }
    CHECK_EQ(count, n);
}

TEST(top_k_top_p_and_min_p_cut_the_order)
{
    struct sample_settings s = PLAIN;
    random_logits(5);
    for (u32 i = 0; i < VOCAB; i++) logits[i] = (f32)(i % 50) / 10.0f;      /* many ties */
    s.top_k = 20;
    drawn_are_first(&s, 20);
    for (u32 i = 0; i < VOCAB; i++) logits[i] = -100.0f;
    for (u32 i = 0; i < 10; i++) logits[100 * i] = 0.0f;                    /* ten of 0.1 each */
    s = PLAIN;
    s.top_p = 0.45f;
    drawn_are_first(&s, 5);
    s = PLAIN;
    logits[100] = logits[200] = -2.0f;
    s.min_p = 0.2f;                                                         /* e^-2 = 0.135 */
    drawn_are_first(&s, 8);
}

TEST(penalties_count_what_they_say)
{
    struct sample_settings s = PLAIN;
    u32 ids[6] = { 1, 2, 2, 3, 3, 3 };
    struct sample_input in = { .logits = kept, .vocab = VOCAB, .candidates = VOCAB, .ids = ids,
                               .prompt_count = 2, .generated_count = 4 };
    s.temperature = 0.0f;
    for (u32 i = 0; i < VOCAB; i++) kept[i] = 1.0f;
    kept[1] = kept[2] = kept[3] = 4.0f;
    kept[5] = -4.0f;
    s.repetition_penalty = 2.0f;
    s.presence_penalty = 0.5f;
    s.frequency_penalty = 0.25f;
    CHECK_EQ(sample_row(&s, &in, work), 1);             /* prompt only: 4 / 2 */
    CHECK(kept[1] == 2.0f);
    CHECK(kept[2] == 4.0f / 2.0f - 0.25f * 1.0f - 0.5f); /* once in the prompt, once generated */
    CHECK(kept[3] == 4.0f / 2.0f - 0.25f * 3.0f - 0.5f);
    CHECK(kept[0] == 1.0f && kept[5] == -4.0f);
}

TEST(the_order_is_that_of_a_plain_sort)
{
    /* top_k = 1 at any temperature is greedy; top_k = n walks the whole order */
    struct sample_settings s = PLAIN, cold = PLAIN;
    cold.temperature = 0.0f;
    s.top_k = 1;
    for (u64 seed = 0; seed < 50; seed++) {
        random_logits(seed + 100);
        CHECK_EQ(sample(&s, VOCAB, seed), sample(&cold, VOCAB, seed));
    }
}
