/* tests/http/drafters.c - what drafting costs and brings in a made-up time: every product takes so
 * long and longer by the row, whatever this machine does. */
#include "tests/micro.h"
#include "tests/micromodel.h"

enum { ANSWER = 900, CALL_US = 100 };

static struct micro_ask ask;
static u64 now_us, row_ns;              /* of a product, by the row                           */
static enum err (*straight)(const struct ops_product *p);

static enum err timed_product(const struct ops_product *p)
{
    now_us += CALL_US + p->rows * row_ns / 1000;
    clock_set(now_us, (f64)now_us * 1e-6);
    return straight(p);
}

static void wrap(struct ops *ops)
{
    straight = ops->product;
    ops->product = timed_product;
}

/* Time of an answer's ids in a mode; `period` > 0: it says the same again and again. */
static u64 answer_us(u32 mode, u64 period, u64 each_row_ns)
{
    row_ns = each_row_ns;
    now_us = 1000000;
    clock_set(now_us, 1);
    micro_open(&(struct micro_setup){ .dir = micromodel_draft_dir(), .ctx = 2048, .wrap = wrap,
                                      .pool_bytes = 16 * MIB, .draft = mode, .draft_max = 15,
                                      .reserve_tokens = 1024 });
    micro_prompt(&ask, 40, 5, 4096);
    ask.forced_count = ANSWER;
    micro_random_ids(ask.forced, ANSWER, 6, 0);
    for (u64 i = period; period > 0 && i < ANSWER; i++) ask.forced[i] = ask.forced[i - period];
    micro_run(&ask);
    CHECK_EQ(ask.result.generated, ANSWER);
    u64 us = ask.result.decode_us;
    for (u32 d = 0; d < DRAFTER_COUNT; d++) us += drafters_counted((enum turn_drafter)d)->ask_us;
    micro_close();
    clock_run();
    return us;
}

TEST(where_nothing_repeats_auto_costs_next_to_nothing)
{
    static const u64 rows[] = { 2000, 10000, 30000, 100000 };
    for (u32 i = 0; i < COUNT_OF(rows); i++) {
        u64 off = answer_us(DRAFT_OFF, 0, rows[i]), with = answer_us(DRAFT_AUTO, 0, rows[i]);
        printf("a row more is %.2f of a round: auto costs %.2f %%\n",
               (f64)rows[i] / (CALL_US * 1000.0 + (f64)rows[i]),
               100.0 * ((f64)with / (f64)off - 1));
        CHECK(with <= off + off / 50);
    }
}

TEST(what_repeats_is_drafted_as_far_as_it_pays)
{
    u64 off = answer_us(DRAFT_OFF, 60, 10000), with = answer_us(DRAFT_AUTO, 60, 10000);
    CHECK(with < off / 3);
    CHECK(drafters_counted(DRAFTER_LOOKUP)->accepted > ANSWER / 2);
    off = answer_us(DRAFT_OFF, 60, 100000), with = answer_us(DRAFT_AUTO, 60, 100000);
    CHECK(with <= off + off / 50);      /* a draft costs what a step does                     */
}
