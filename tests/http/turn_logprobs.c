/* tests/http/turn_logprobs.c - log-probabilities of a turn: resumed equals cold, before penalties,
 * a slow reader pauses the turn, hidden ids have none. */
#include "tests/micro.h"

#include <math.h>

enum { ROWS = 600 };
static struct micro_ask ask, next, cold;

struct seen { struct logprob_row row[ROWS]; u64 count; };
static struct seen first, second, third;

static void push(struct micro_ask *a, u32 top)
{
    micro_push(a);
    submit_at(a->submit)->logprobs = true;
    submit_at(a->submit)->top_logprobs = top;
}

/* Pops one id and its row, in step; false: none waits. */
static bool take(struct micro_ask *a, struct seen *seen)
{
    struct submit_row *row = submit_at(a->submit);
    u32 id;
    if (!ring_pop(&row->out, &id)) return false;
    CHECK(seen->count < ROWS);
    a->out[a->out_count++] = id;
    seen->row[seen->count] = row->logprob[seen->count % TURN_LOGPROBS];
    row->logprobs_read = ++seen->count;
    return true;
}

static void run(struct micro_ask *a, u32 top, struct seen *seen)
{
    seen->count = 0;
    push(a, top);
    for (u32 rounds = 0; submit_at(a->submit)->state != SUBMIT_DONE; rounds++) {
        CHECK(rounds < 20000);
        engine_pass();
        while (take(a, seen)) {}
    }
    while (take(a, seen)) {}
    CHECK(micro_poll(a));
}

static void check_rows(const struct micro_ask *a, const struct seen *seen, u32 top, bool greedy)
{
    CHECK_EQ(seen->count, a->out_count);
    for (u64 i = 0; i < seen->count; i++) {
        const struct logprob_row *row = &seen->row[i];
        f64 sum = 0;
        CHECK_EQ(row->top_count, top);
        CHECK(row->chosen <= 0 && isfinite(row->chosen));
        for (u32 k = 0; k < top; k++) {
            sum += exp((f64)row->top[k]);
            CHECK(k == 0 || row->top[k] <= row->top[k - 1]);
        }
        CHECK(sum <= 1 + 1e-6);
        if (greedy && top > 0) {
            CHECK_EQ(row->top_id[0], a->out[i]);
            CHECK(row->top[0] == row->chosen);
        }
    }
}

TEST(a_resumed_turn_gives_the_bits_of_the_cold_one)
{
    micro_open(&(struct micro_setup){ .slot_count = 2 });
    micro_prompt(&ask, 70, 1, 6);
    micro_run(&ask);
    micro_continue(&next, &ask, 9, 2);
    next.max_tokens = 12;
    run(&next, 5, &first);
    CHECK_EQ(next.result.source, SOURCE_END);
    check_rows(&next, &first, 5, true);
    cold = next;
    micro_close();
    micro_open(&(struct micro_setup){ .slot_count = 1 });
    run(&cold, 5, &second);
    CHECK_EQ(cold.result.source, SOURCE_COLD);
    CHECK_EQ(first.count, second.count);
    CHECK(memcmp(cold.out, next.out, cold.out_count * sizeof cold.out[0]) == 0);
    CHECK(memcmp(first.row, second.row, first.count * sizeof first.row[0]) == 0);
    micro_close();
}

TEST(the_numbers_are_those_before_penalties_and_temperature)
{
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 40, 3, 8);
    next = ask;
    run(&ask, 3, &first);
    push(&next, 3);
    struct submit_row *row = submit_at(next.submit);
    row->sampling = (struct sample_settings){ .temperature = 1.5f, .top_p = 1, .seed = 5,
        .repetition_penalty = 1.7f, .frequency_penalty = 1, .presence_penalty = 1 };
    second.count = 0;
    while (row->state != SUBMIT_DONE) engine_pass();
    while (take(&next, &second)) {}
    CHECK(micro_poll(&next));
    check_rows(&next, &second, 3, false);
    CHECK(memcmp(first.row[0].top, second.row[0].top, sizeof first.row[0].top) == 0);
    CHECK(memcmp(first.row[0].top_id, second.row[0].top_id, sizeof first.row[0].top_id) == 0);
    micro_equals_cold(&next);
    third.row[0] = second.row[0];
    micro_close();
}

TEST(a_slow_reader_pauses_the_turn_and_loses_nothing)
{
    micro_open(&(struct micro_setup){ .ctx = 1024 });
    micro_prompt(&ask, 20, 4, 400);
    micro_random_ids(ask.forced, 400, 77, 0);
    ask.forced_count = 400;
    next = ask;
    run(&ask, 1, &first);
    CHECK_EQ(first.count, 400);
    push(&next, 1);
    second.count = 0;
    struct submit_row *row = submit_at(next.submit);
    for (u32 i = 0; i < 1000; i++) engine_pass();
    CHECK_EQ(ring_count(&row->out), TURN_LOGPROBS);
    CHECK_EQ(row->state, SUBMIT_DECODE);
    CHECK(take(&next, &second));
    for (u32 i = 0; i < 100; i++) engine_pass();
    CHECK_EQ(ring_count(&row->out), TURN_LOGPROBS);
    while (row->state != SUBMIT_DONE) {
        take(&next, &second);
        engine_pass();
    }
    while (take(&next, &second)) {}
    CHECK(micro_poll(&next));
    CHECK_EQ(second.count, 400);
    CHECK(memcmp(first.row, second.row, 400 * sizeof first.row[0]) == 0);
    micro_close();
}

TEST(ids_of_a_hidden_phrase_have_no_row)
{
    static const u32 closing[] = { 9, 10, 11, 12 };
    micro_open(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 30, 6, 20);
    ask.think_open = true;
    ask.think_budget = 4;
    ask.closing = closing;
    ask.closing_count = 4;
    ask.closing_hidden = 3;
    run(&ask, 2, &first);
    CHECK_EQ(ask.result.hidden, 3);
    CHECK_EQ(first.count, ask.result.generated - 3 - (ask.result.stop_id != NONE));
    check_rows(&ask, &first, 2, false);
    micro_close();
}

TEST(a_turn_that_asks_is_not_answered_from_the_response_cache)
{
    micro_open(&(struct micro_setup){ .response_bytes = 1 * MIB });
    micro_prompt(&ask, 40, 8, 5);
    next = ask;
    micro_run(&ask);
    cold = next;
    micro_run(&cold);
    CHECK_EQ(cold.result.source, SOURCE_RESPONSE);
    run(&next, 0, &first);
    CHECK(next.result.source != SOURCE_RESPONSE);
    CHECK_EQ(first.count, 5);
    check_rows(&next, &first, 0, true);
    micro_close();
}
