/* tests/http/turn_nan.c - a NaN among a row's logits ends that turn and no other: its rows and
 * anchors are dropped, the reason is told and counted, the next turn starts cold and is exact. */
#include "tests/micro.h"

static struct micro_ask ask, next, side;

/* The head's products from now until one is spoiled, and which of its rows is. */
static u32 spoil_in, spoil_row;
static enum err (*straight)(const struct ops_product *p);

static enum err spoiled_product(const struct ops_product *p)
{
    enum err err = straight(p);
    if (p->y_f32 && spoil_in > 0 && --spoil_in == 0 && spoil_row < p->rows) {
        union { u32 u; f32 f; } nan = { 0x7fc00000u };
        ((f32 *)p->y)[(u64)spoil_row * p->w->n + p->w->n - 1] = nan.f;
    }
    return err;
}

static void wrap(struct ops *ops)
{
    straight = ops->product;
    ops->product = spoiled_product;
}

static void open_engine(u32 slots)
{
    spoil_in = spoil_row = 0;
    micro_open(&(struct micro_setup){ .slot_count = slots, .wrap = wrap });
}

static void check_failed(const struct micro_ask *a, u64 at)
{
    char word[64];
    snprintf(word, sizeof word, "logits for token %llu are not numbers (NaN)", (ull)at);
    CHECK_EQ(a->result.finish, FINISH_ERROR);
    CHECK_EQ(a->result.error, ERR_DEVICE);
    CHECK(a->result.nan);
    if (strstr(a->result.error_text, word) == NULL)
        test_failed(__FILE__, __LINE__, "%s", a->result.error_text);
}

TEST(a_nan_after_the_prompt_fails_the_turn_and_drops_its_rows_and_anchors)
{
    open_engine(1);
    micro_prompt(&ask, 100, 1, 6);
    next = ask;
    spoil_in = 1;
    micro_run(&ask);
    check_failed(&ask, 100);
    CHECK_EQ(ask.out_count, 0);
    CHECK_EQ(slot_row(0)->len, 0);
    micro_run(&next);                       /* three lines were passed: none is there          */
    CHECK_EQ(next.result.source, SOURCE_COLD);
    CHECK_EQ(next.result.cached, 0);
    CHECK_EQ(next.result.finish, FINISH_LENGTH);
    micro_equals_cold(&next);
    micro_close();
}

TEST(a_nan_in_decode_ends_its_turn_after_the_ids_that_were_numbers)
{
    open_engine(1);
    micro_prompt(&ask, 70, 2, 12);
    next = ask;
    spoil_in = 5;
    micro_run(&ask);
    check_failed(&ask, 74);
    CHECK_EQ(ask.out_count, 4);
    micro_run(&next);
    CHECK_EQ(next.result.source, SOURCE_COLD);
    CHECK_EQ(next.out_count, 12);
    CHECK(memcmp(next.out, ask.out, 4 * sizeof ask.out[0]) == 0);
    micro_equals_cold(&next);
    micro_close();
}

TEST(the_turn_beside_it_goes_on_exactly)
{
    for (u32 row = 0; row < 2; row++) {
        open_engine(2);
        struct micro_ask *bad = row == 0 ? &ask : &side, *good = row == 0 ? &side : &ask;
        micro_prompt(&ask, 70, 3, 12);
        micro_prompt(&side, 50, 4, 12);
        micro_push(&ask);
        micro_push(&side);
        for (u32 i = 0; turn_count(TURN_DECODE) < 2; i++) {
            CHECK(i < 1000);
            engine_pass();
        }
        spoil_in = 3;
        spoil_row = row;                    /* slot 0 is ask's: rows in order of slots         */
        micro_wait(bad);
        micro_wait(good);
        CHECK_EQ(bad->result.finish, FINISH_ERROR);
        CHECK(bad->result.nan && bad->out_count < 12);
        CHECK_EQ(good->result.finish, FINISH_LENGTH);
        CHECK_EQ(good->out_count, 12);
        micro_equals_cold(good);
        micro_close();
    }
}
