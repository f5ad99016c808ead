/* tests/http/nvme_clear.c - one chat is forgotten on disk, and nobody else's rows go with it. */
#include "tests/restarts.h"

static struct micro_ask other;

static u32 files_now(void)
{
    struct pieces_counts p = pieces_counts();
    return p.rows + spill_counts().rows;
}

/* Names in the folder of this model, ABOUT and COUNTS aside. */
static u32 names_now(void)
{
    struct file_list list, in;
    char path[FILE_PATH_BYTES];
    u32 count = 0;
    CHECK_OK(file_list_open(folder, &list));
    while (file_list_next(&list)) {
        CHECK_OK(file_join(folder, list.name, path));
        if (file_list_open(path, &in) != OK) continue;
        while (file_list_next(&in)) count += in.name[1] == '-';
        file_list_close(&in);
    }
    file_list_close(&list);
    return count;
}

static struct forget_counts clear(u64 id)
{
    struct forget_counts gone;
    u64 session[2] = { id, id };
    nvme_clear(true, true, session, &gone);
    tier_clear(session);
    settle();
    pieces_check();
    return gone;
}

/* Two talks over the same 4 lines; the first one's 7 lines are on disk for the next reader too. */
static void two_talks(void)
{
    first_up(&(struct micro_setup){ .slot_count = 2, .journal_idle_us = 1 });
    micro_prompt(&ask, 7 * G + 9, 21, 5);
    micro_prompt(&other, 6 * G + 3, 22, 5);
    memcpy(other.ids, ask.ids, 4 * G * sizeof *ask.ids);
    micro_run(&ask);
    micro_run(&other);
    u64 until_us = clock_us() + 10000;
    while (spill_counts().complete < 2 || clock_us() < until_us) settle();
}

TEST(a_forgotten_chat_is_gone_and_what_others_stand_on_is_not)
{
    two_talks();
    u32 files = files_now();
    struct forget_counts gone = clear(21);
    CHECK_EQ(gone.entries, 1);
    CHECK(gone.disk_bytes + gone.spill_bytes > 0);
    CHECK(files_now() < files);
    CHECK_EQ(names_now(), files_now());
    CHECK_EQ(spill_session((const u64[2]){ 21, 21 }), NONE);
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
        const struct piece_row *r = pieces_row(i);
        CHECK(r->session[0] == 22 || r->hi <= 4 * G);   /* only the head both of them share  */
    }
    restart();
    again = ask;
    micro_run(&again);                                  /* its own rows are read again       */
    CHECK(again.result.cached <= 4 * G);
    micro_equals_cold(&again);
    micro_continue(&other, &other, 3, 9);
    micro_run(&other);
    CHECK_EQ(other.result.forwarded, 4);
    micro_equals_cold(&other);
    last_down();
}

TEST(the_last_chat_to_be_forgotten_leaves_no_file)
{
    two_talks();
    clear(21);
    struct forget_counts gone = clear(22);
    CHECK_EQ(gone.entries, 1);
    CHECK_EQ(files_now(), 0);
    CHECK_EQ(names_now(), 0);
    gone = clear(22);
    CHECK(gone.entries == 0 && gone.anchors == 0 && gone.disk_bytes + gone.spill_bytes == 0);
    last_down();
}

TEST(a_chat_forgotten_while_it_is_written_does_not_come_back)
{
    struct forget_counts gone;
    u64 session[2] = { 21, 21 };
    first_up(&(struct micro_setup){ .journal_idle_us = 1 });
    micro_prompt(&ask, 3 * G + 9, 21, 5);
    micro_run(&ask);
    for (u32 i = 0; spill_counts().saves == 0 && i < 1000000; i++) engine_pass();
    CHECK_EQ(spill_counts().complete, 0);
    nvme_clear(true, true, session, &gone);
    tier_clear(session);
    settle();
    CHECK_EQ(files_now(), 0);
    CHECK_EQ(names_now(), 0);
    restart();
    again = ask;
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_COLD);
    last_down();
}
