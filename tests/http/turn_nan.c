/* tests/http/turn_nan.c - a NaN among a row's logits ends that turn and no other: its rows and
 * anchors are dropped, on disk too, the reason is told and counted, the next turn starts cold and
 * is exact. */
#include "tests/restarts.h"

static struct micro_ask side;

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
    again = ask;
    spoil_in = 1;
    micro_run(&ask);
    check_failed(&ask, 100);
    CHECK_EQ(ask.out_count, 0);
    CHECK_EQ(slot_row(0)->len, 0);
    micro_run(&again);                      /* three lines were passed: none is there          */
    CHECK_EQ(again.result.source, SOURCE_COLD);
    CHECK_EQ(again.result.cached, 0);
    CHECK_EQ(again.result.finish, FINISH_LENGTH);
    micro_equals_cold(&again);
    micro_close();
}

TEST(a_nan_in_decode_ends_its_turn_after_the_ids_that_were_numbers)
{
    open_engine(1);
    micro_prompt(&ask, 70, 2, 12);
    again = ask;
    spoil_in = 5;
    micro_run(&ask);
    check_failed(&ask, 74);
    CHECK_EQ(ask.out_count, 4);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_COLD);
    CHECK_EQ(again.out_count, 12);
    CHECK(memcmp(again.out, ask.out, 4 * sizeof ask.out[0]) == 0);
    micro_equals_cold(&again);
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

/* A prompt that starts a session: its lines below the last user message go to disk on the way. */
static void prompt_of_lines(struct micro_ask *a, u64 count, u64 seed)
{
    micro_prompt(a, count, seed, 6);
    a->mark[0] = (struct turn_mark){ .pos = count - 5, .kind = MARK_USER };
    a->mark_count = 1;
}

static u32 files_of_lines(void)
{
    struct file_list list;
    u32 count = 0;
    u64 hash[2];
    enum format_kind kind;
    CHECK_OK(file_list_open(nvme_folder(), &list));
    while (file_list_next(&list)) count += format_name_parse(list.name, &kind, hash);
    file_list_close(&list);
    return count;
}

TEST(lines_that_went_to_disk_before_the_nan_go_with_the_turn)
{
    spoil_in = spoil_row = 0;
    first_up(&(struct micro_setup){ .wrap = wrap });
    prompt_of_lines(&ask, 6 * G + 9, 11);
    again = ask;
    spoil_in = 1;
    micro_run(&ask);
    check_failed(&ask, 6 * G + 9);
    settle();
    CHECK(disk_counts().lines_written > 0);
    CHECK_EQ(pieces_counts().rows, 0);
    CHECK_EQ(files_of_lines(), 0);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_COLD);
    micro_equals_cold(&again);
    last_down();
}

TEST(lines_that_other_turns_wrote_stay_on_disk)
{
    spoil_in = spoil_row = 0;
    first_up(&(struct micro_setup){ .slot_count = 2, .wrap = wrap });
    prompt_of_lines(&ask, 4 * G + 9, 12);
    micro_run(&ask);
    settle();
    u32 rows = pieces_counts().rows;
    CHECK(rows > 4 && files_of_lines() == rows);
    u64 lines = disk_counts().lines_written;
    for (u32 i = 0; i < 2; i++) {           /* what is read twice is written                   */
        prompt_of_lines(&side, 8 * G + 9, 13);
        memcpy(side.ids, ask.ids, ask.id_count * sizeof *ask.ids);
        spoil_in = 3;                       /* two ids of its answer are numbers               */
        micro_run(&side);
        CHECK(side.result.nan && side.out_count == 2 && side.result.cached >= 4 * G);
    }
    settle();
    CHECK(disk_counts().lines_written > lines);
    CHECK_EQ(pieces_counts().rows, rows);
    CHECK_EQ(files_of_lines(), rows);
    tier_clear(NULL);
    again = ask;
    again.session = 14;
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_DISK);
    CHECK_EQ(again.result.cached, 4 * G);
    micro_equals_cold(&again);
    last_down();
}
