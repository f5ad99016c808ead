/* logprob.c - log softmax against libm's, order of the likeliest, odd rows. */
#include <math.h>

#include "arena/base/rng.h"
#include "model/logprob.h"
#include "tests/test.h"

enum { VOCAB = 5000, PADDED = 5100 };
static f32 logits[PADDED];

static void fill(u64 seed)
{
    for (u32 i = 0; i < PADDED; i++) logits[i] = 30.0f * rng_f32(seed, i) - 15.0f;
}

static f64 reference(u32 id)
{
    f64 most = -INFINITY, sum = 0;
    for (u32 i = 0; i < VOCAB; i++) most = fmax(most, (f64)logits[i]);
    for (u32 i = 0; i < VOCAB; i++) sum += exp((f64)logits[i] - most);
    return (f64)logits[id] - most - log(sum);
}

TEST(every_number_is_the_log_softmax)
{
    struct logprob_row row;
    for (u64 seed = 1; seed <= 5; seed++) {
        fill(seed);
        for (u32 id = 0; id < VOCAB; id += 499) {
            logprob_of(logits, VOCAB, id, LOGPROB_TOP, &row);
            CHECK(fabs((f64)row.chosen - reference(id)) < 4e-6);
        }
        CHECK_EQ(row.top_count, LOGPROB_TOP);
        f64 sum = 0;
        for (u32 k = 0; k < LOGPROB_TOP; k++) {
            CHECK(row.top_id[k] < VOCAB);
            CHECK(k == 0 || row.top[k] <= row.top[k - 1]);
            CHECK(fabs((f64)row.top[k] - reference(row.top_id[k])) < 4e-6);
            sum += exp((f64)row.top[k]);
        }
        CHECK(sum <= 1 + 1e-6);
        u32 above = 0;
        for (u32 i = 0; i < VOCAB; i++) above += logits[i] > logits[row.top_id[LOGPROB_TOP - 1]];
        CHECK_EQ(above, LOGPROB_TOP - 1);
    }
}

TEST(ties_go_to_the_lower_id_and_padding_is_impossible)
{
    struct logprob_row row;
    fill(9);
    logits[40] = logits[7] = logits[4999] = 60.0f;
    logits[5050] = 99.0f;
    logprob_of(logits, VOCAB, 5050, 2, &row);
    CHECK_EQ(row.top_count, 2);
    CHECK_EQ(row.top_id[0], 7);
    CHECK_EQ(row.top_id[1], 40);
    CHECK(isinf(row.chosen) && row.chosen < 0);
    logprob_of(logits, VOCAB, 4999, 0, &row);
    CHECK_EQ(row.top_count, 0);
    CHECK(fabs((f64)row.chosen + log(3.0)) < 1e-6);
    logprob_of(logits, 3, 1, 20, &row);
    CHECK_EQ(row.top_count, 3);
}

TEST(rows_without_numbers_give_none)
{
    struct logprob_row row;
    fill(3);
    logits[5] = NAN;
    logprob_of(logits, VOCAB, 5, 20, &row);
    CHECK(isnan(row.chosen));
    for (u32 k = 0; k < row.top_count; k++) CHECK(row.top_id[k] != 5 && isfinite(row.top[k]));
    for (u32 i = 0; i < VOCAB; i++) logits[i] = NAN;
    logprob_of(logits, VOCAB, 0, 20, &row);
    CHECK(!isfinite(row.chosen));
    CHECK_EQ(row.top_count, 0);
}
