/* tests/http/nvme_turns.c - turns over restarts: what the NVMe tiers give back equals cold. */
#include "tests/embed.h"
#include "tests/restarts.h"

/* After SIGTERM the next turn forwards only its new tokens. */
TEST(K20_after_sigterm_the_next_turn_forwards_only_its_new_tokens)
{
    first_up(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 6 * G + 5, 3, 9);
    micro_run(&ask);
    CHECK_EQ(ask.result.source, SOURCE_COLD);
    restart();
    micro_continue(&again, &ask, 7, 4);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, ask.id_count + ask.result.generated - 1);
    CHECK_EQ(again.result.forwarded, 8);
    micro_equals_cold(&again);
    restart();
    struct micro_ask third = again;                     /* the same request once more        */
    micro_run(&third);
    CHECK_EQ(third.result.cached, third.id_count - 1);  /* one token is left to forward      */
    CHECK_EQ(third.result.source, SOURCE_SPILL);
    CHECK(memcmp(third.out, again.out, sizeof *third.out * again.out_count) == 0);
    micro_equals_cold(&third);
    last_down();
}

/* The conversation used last is in memory before the first request; others come by lookup. */
TEST(the_conversation_used_last_is_back_before_the_first_request)
{
    static struct micro_ask other;
    first_up(&(struct micro_setup){ .slot_count = 2 });
    engine_restore();                                   /* nothing is there yet              */
    micro_prompt(&other, 5 * G, 8, 4);
    micro_run(&other);
    clock_set(clock_us() + 5000000, clock_wall_s() + 5);
    micro_prompt(&ask, 6 * G + 5, 3, 9);
    micro_run(&ask);
    restart();
    engine_restore();
    u64 files = reader_counts().files;
    micro_continue(&again, &ask, 7, 4);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, ask.id_count + ask.result.generated - 1);
    CHECK_EQ(reader_counts().files, files);
    micro_equals_cold(&again);
    micro_continue(&other, &other, 7, 4);
    micro_run(&other);
    CHECK_EQ(other.result.source, SOURCE_SPILL);
    micro_equals_cold(&other);
    micro_continue(&again, &again, 3, 4);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_END);
    clock_run();
    last_down();
}

/* Killed after the write-behind, at most the tokens since are read again. */
TEST(K21_killed_after_the_write_behind_the_last_written_turn_is_there)
{
    first_up(&(struct micro_setup){ .journal_idle_us = 1 });
    micro_prompt(&ask, 3 * G + 1, 5, 6);
    micro_run(&ask);
    u64 until_us = clock_us() + 10000;
    while (spill_counts().complete == 0 || clock_us() < until_us) settle();
    micro_continue(&again, &ask, 40, 6);
    micro_push(&again);
    for (u32 i = 0; i < 2; i++) engine_pass();          /* in the middle of the next one     */
    submit_cancel(again.submit);
    while (!micro_poll(&again)) engine_pass();
    micro_close();
    up(folder);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK(again.result.cached >= ask.id_count + ask.result.generated - 1);
    micro_equals_cold(&again);
    last_down();
}

/* What an edit wrote anew is not taken for what was saved, also when it is no longer than that. */
TEST(an_edited_conversation_is_written_again_though_it_is_shorter)
{
    first_up(&(struct micro_setup){ .journal_idle_us = 1 });
    micro_prompt(&ask, 4 * G + 5, 3, 9);
    micro_run(&ask);
    u64 until_us = clock_us() + 10000;
    while (spill_counts().complete == 0 || clock_us() < until_us) settle();
    again = ask;
    again.ids[4 * G + 2] ^= 1;
    again.max_tokens = 4;
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_GRID);
    u64 rows = again.id_count + again.result.generated - 1;
    for (u32 i = 0; i < 100 && spill_counts().complete < 2; i++) {
        until_us = clock_us() + 1000;
        while (clock_us() < until_us) settle();
    }
    CHECK_EQ(spill_at(spill_session((const u64[2]){ 3, 3 }))->talk.length, rows);
    file_fail_as(1, FILE_FAULT_KILL);
    micro_close();
    file_fail(0);
    up(folder);
    micro_continue(&again, &again, 2, 4);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, rows);
    micro_equals_cold(&again);
    last_down();
}

/* Memory lost the newest of a session and kept an older one: the drain leaves what is on disk. */
TEST(an_older_copy_in_memory_does_not_replace_the_newer_one_on_disk)
{
    const u64 session[2] = { 9, 9 };
    first_up(&(struct micro_setup){ .journal_idle_us = 1 });
    micro_prompt(&again, 2 * G + 5, 3, 2);
    again.session = 9;
    micro_run(&again);
    micro_prompt(&ask, 6 * G + 5, 4, 3);                /* that one is parked                */
    ask.session = 9;
    micro_run(&ask);
    u64 rows = ask.id_count + ask.result.generated - 1, until_us = clock_us() + 2000000;
    while (clock_us() < until_us && (spill_session(session) == NONE ||
           spill_at(spill_session(session))->talk.length != rows)) settle();
    tier_clear_of(1u << HOLD_LIVE | 1u << HOLD_PIN | 1u << HOLD_STORE, session);
    restart();
    micro_continue(&ask, &ask, 7, 4);
    micro_run(&ask);
    CHECK_EQ(ask.result.source, SOURCE_SPILL);
    CHECK_EQ(ask.result.cached, rows);
    micro_equals_cold(&ask);
    last_down();
}

/* Session 9 asks for more rows than there are, over rows of session 4 that are read for it: it is
 * refused, and the part stays aside.  What either session has on disk stays. */
TEST(a_refused_turns_part_does_not_replace_the_longer_conversation)
{
    const u64 session[2] = { 9, 9 }, other[2] = { 4, 4 };
    first_up(&(struct micro_setup){ .ctx = 800, .kv_rows = 12 * G, .park_rows = 12 * G });
    micro_prompt(&ask, 7 * G + 5, 3, 9);
    ask.session = 9;
    micro_run(&ask);
    micro_prompt(&again, 3 * G + 5, 4, 9);
    micro_run(&again);
    u64 rows = ask.id_count + ask.result.generated - 1;
    u64 part = again.id_count + again.result.generated - 1;
    for (u32 live = 0; live < 2; live++) {              /* 1: the part is in the slot, taken over */
        restart();
        CHECK_EQ(spill_at(spill_session(session))->talk.length, rows);
        if (live == 1) {
            micro_continue(&again, &again, 2, 4);
            micro_run(&again);
            part = again.id_count + again.result.generated - 1;
        }
        struct micro_ask *over = malloc(sizeof *over);
        micro_continue(over, &again, 11 * G, 9);
        over->session = 9;
        micro_run(over);
        CHECK_EQ(over->result.error, ERR_MEMORY);
        CHECK(record_count() > 0);
        free(over);
    }
    restart();
    CHECK_EQ(spill_at(spill_session(session))->talk.length, rows);
    CHECK_EQ(spill_at(spill_session(other))->talk.length, part);
    micro_continue(&ask, &ask, 7, 4);
    micro_run(&ask);
    CHECK_EQ(ask.result.source, SOURCE_SPILL);
    CHECK_EQ(ask.result.cached, rows);
    micro_equals_cold(&ask);
    last_down();
}

/* Lent to a turn that is then refused for want of rows: over at once, the park holds nothing. */
TEST(what_was_read_for_a_refused_turn_goes_when_the_park_is_off)
{
    first_up(&(struct micro_setup){ .ctx = 800, .kv_rows = 12 * G, .park_rows = UINT64_MAX });
    micro_prompt(&again, 3 * G + 5, 4, 9);
    micro_run(&again);
    restart();
    micro_continue(&again, &again, 18 * G, 9);
    micro_run(&again);
    CHECK_EQ(again.result.error, ERR_MEMORY);
    CHECK_EQ(reader_counts().failed, 0);
    CHECK(reader_counts().files > 0);                   /* it was read                       */
    CHECK_EQ(record_count(), 0);
    budget_graph_refresh(&micro.graph);
    CHECK_EQ(micro.graph.node[budget_graph_find(&micro.graph, "park")].used_bytes, 0);
    last_down();
}

/* A conversation read anew whose client went away on the way: a part of what is on disk. */
TEST(a_turn_cancelled_while_it_read_does_not_replace_the_longer_conversation)
{
    const u64 session[2] = { 9, 9 };
    first_up(&(struct micro_setup){ .journal_idle_us = 1 });
    micro_prompt(&ask, 7 * G + 5, 3, 9);
    ask.session = 9;
    micro_run(&ask);
    u64 rows = ask.id_count + ask.result.generated - 1;
    restart();
    micro_prompt(&again, 12 * G, 5, 9);
    again.session = 9;
    micro_push(&again);
    while (resident_record(0) == NONE || record_rows(resident_record(0)) == 0) engine_pass();
    submit_cancel(again.submit);
    micro_wait(&again);
    CHECK_EQ(again.result.finish, FINISH_CANCELLED);
    CHECK(record_rows(resident_record(0)) < rows);
    restart();
    CHECK_EQ(spill_at(spill_session(session))->talk.length, rows);
    micro_continue(&ask, &ask, 7, 4);
    micro_run(&ask);
    CHECK_EQ(ask.result.source, SOURCE_SPILL);
    CHECK_EQ(ask.result.cached, rows);
    last_down();
}

static u32 fail_nth;
static void fail_at_start(void) { file_fail_as(fail_nth, FILE_FAULT_KILL); }

/* The disk dies at any call of a start: then there are no files, and the next start has them. */
TEST(a_start_that_fails_at_any_file_call_goes_on_without_files)
{
    u32 left = 0, off = 0;
    first_up(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 3 * G + 5, 3, 9);
    micro_run(&ask);
    stop();
    setup.opening = fail_at_start;
    for (fail_nth = 1; left == 0; fail_nth++) {
        micro_open(&setup);
        left = file_fail_left();
        file_fail(0);
        off += !nvme_on();
        engine_restore();
        micro_close();
    }
    CHECK(off > 10);
    setup.opening = NULL;
    up(folder);
    micro_continue(&again, &ask, 7, 4);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    micro_equals_cold(&again);
    last_down();
}

/* A prompt read twice has an anchor on disk, the third reader starts there. */
TEST(K10_a_prompt_that_was_read_twice_is_on_disk_for_the_third_reader)
{
    first_up(&(struct micro_setup){ 0 });
    for (u32 i = 0; i < 3; i++) {
        micro_prompt(&ask, 6 * G + 9, 7, 4);
        ask.session = 100 + i;
        ask.mark[0] = (struct turn_mark){ .pos = 1, .kind = MARK_USER };
        ask.mark_count = 1;
        micro_run(&ask);
        CHECK_EQ(ask.result.source, i == 2 ? SOURCE_DISK : SOURCE_COLD);
        CHECK_EQ(ask.result.cached, i == 2 ? 6 * G : 0);
        micro_equals_cold(&ask);
        settle();
        spill_clear(NULL);
        settle();
        tier_clear(NULL);
        bool there = false;
        for (u32 p = pieces_next(0); p != NONE; p = pieces_next(p + 1))
            there = there || (pieces_row(p)->kind == FORMAT_ANCHOR && pieces_row(p)->hi == 6 * G);
        CHECK(there == (i > 0));
        restart();
    }
    last_down();
}

/* Ten prompts of 3 to 12 lines, all answers as before. */
TEST(K11_ten_conversations_come_back_with_the_same_answers)
{
    static struct micro_ask asks[10];
    first_up(&(struct micro_setup){ .slot_count = 2, .ctx = 640, .park_rows = 8192 });
    for (u32 i = 0; i < 10; i++) {
        micro_prompt(&asks[i], (3 + i) * G + 3, 20 + i, 5);
        micro_run(&asks[i]);
    }
    restart();
    for (u32 i = 0; i < 10; i++) {
        struct micro_ask same = asks[i];
        micro_run(&same);
        CHECK(same.result.cached > 0 && same.result.source != SOURCE_COLD);
        CHECK(same.out_count == asks[i].out_count);
        CHECK(memcmp(same.out, asks[i].out, same.out_count * sizeof *same.out) == 0);
        micro_equals_cold(&same);
    }
    last_down();
}

/* Other weights under the same name never see these files; the old ones find them again. */
TEST(K22_another_models_files_are_not_read_and_are_there_when_it_is_back)
{
    first_up(&(struct micro_setup){ .weights = 7 });
    micro_prompt(&ask, 4 * G, 9, 4);
    micro_run(&ask);
    stop();
    setup.weights = 8;
    up(folder);
    again = ask;
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_COLD);
    CHECK_EQ(pieces_counts().found_at_start, 0);
    stop();
    setup.weights = 7;
    up(folder);
    again = ask;
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    micro_equals_cold(&again);
    last_down();
}

/* Gone from every tier in memory, the disk is asked. */
TEST(K27_what_memory_lost_is_asked_of_the_disk)
{
    first_up(&(struct micro_setup){ .journal_idle_us = 1 });
    micro_prompt(&ask, 5 * G + 2, 11, 5);
    micro_run(&ask);
    while (spill_counts().complete == 0) settle();
    tier_clear(NULL);
    micro_continue(&again, &ask, 3, 12);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    micro_equals_cold(&again);
    last_down();
}

/* A short side request is the last, the conversation is what comes back. */
TEST(K29_a_side_request_before_the_end_does_not_cost_the_conversation)
{
    static struct micro_ask side;
    first_up(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 8 * G, 13, 6);
    micro_run(&ask);
    micro_prompt(&side, G + 3, 14, 3);
    micro_run(&side);
    restart();
    micro_continue(&again, &ask, 5, 15);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, ask.id_count + ask.result.generated - 1);
    micro_equals_cold(&again);
    last_down();
}

/* The first rows of a conversation on disk are in memory, in a slot or (one slot) aside; another
 * one idles, and the caches hold no byte more. */
static void part_in_memory(u32 slots, struct micro_ask *part)
{
    static struct micro_ask other;
    first_up(&(struct micro_setup){ .slot_count = slots, .pin_rows = UINT64_MAX });
    micro_prompt(&ask, 3 * G + 5, 33, 5);
    micro_run(&ask);
    restart();
    micro_prompt(part, G + 3, 33, 3);
    part->session = 50;
    micro_run(part);
    micro_prompt(&other, 14 * G, 34, 3);
    micro_run(&other);
    if (slots == 1) free(micro_command(COMMAND_SET, "0", "anchors"));
    budget_graph_refresh(&micro.graph);
    u32 caches = budget_graph_find(&micro.graph, "caches");
    CHECK_OK(budget_graph_cap(&micro.graph, caches, micro.graph.node[caches].used_bytes));
    micro_continue(&again, &ask, 3, 9);
}

/* The idle conversation that makes way for the attempt fills the caches more. */
TEST(a_restore_that_finds_no_room_leaves_the_turn_what_it_had_matched)
{
    static struct micro_ask part;
    part_in_memory(1, &part);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_PARK);
    CHECK_EQ(again.result.cached, part.id_count - 1);
    micro_equals_cold(&again);
    last_down();
}

TEST(an_anchor_that_went_for_a_restore_that_came_to_nothing_is_not_started_from)
{
    static struct micro_ask part;
    part_in_memory(2, &part);
    struct budget_node *caches = &micro.graph.node[budget_graph_find(&micro.graph, "caches")];
    caches->cap_bytes = 4096;
    caches->over = true;
    micro_run(&again);
    CHECK(again.result.cached < part.id_count - 1);
    micro_equals_cold(&again);
    last_down();
}

/* The disk tier is full: the anchors that the displaced one is saved with take the place of others,
 * not of those that are about to be read. */
TEST(what_makes_way_for_a_restore_is_not_saved_in_place_of_what_is_restored)
{
    static struct micro_ask other;
    first_up(&(struct micro_setup){ .slot_count = 1, .kv_rows = 9 * G, .park_rows = UINT64_MAX,
                                    .pin_rows = UINT64_MAX, .store_rows = UINT64_MAX });
    micro_prompt(&ask, 6 * G + 5, 33, 5);
    micro_run(&ask);
    restart();
    u64 full = pieces_counts().disk_bytes;
    CHECK_OK(budget_graph_cap(&micro.graph, budget_graph_find(&micro.graph, "disk"), full));
    micro_prompt(&other, 6 * G, 34, 3);
    micro_run(&other);
    micro_continue(&again, &ask, 3, 9);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, ask.id_count + ask.result.generated - 1);
    CHECK(pieces_counts().disk_bytes <= full && pieces_counts().evicted > 0);
    CHECK_EQ(reader_counts().failed, 0);
    micro_equals_cold(&again);
    last_down();
}

/* It bears the conversation's session and is no guest, as nothing is resident after a restart (a
 * title asked for anew), or is one beside it in memory.  Gone on with, it is the conversation. */
TEST(K29_one_short_answer_of_its_own_session_does_not_cost_the_conversation)
{
    static struct micro_ask side;
    const u64 session[2] = { 13, 13 };
    first_up(&(struct micro_setup){ .slot_count = 1 });
    micro_prompt(&ask, 8 * G, 13, 6);
    micro_run(&ask);
    u64 rows = ask.id_count + ask.result.generated - 1;
    micro_prompt(&side, G + 3, 14, 3);
    side.session = 13;
    for (u32 life = 0; life < 2; life++) {
        side.ids[0] ^= life;                            /* not the one in memory again       */
        micro_run(&side);
        CHECK_EQ(side.result.source, SOURCE_COLD);
        restart();
        CHECK_EQ(spill_at(spill_session(session))->talk.length, rows);
    }
    micro_continue(&again, &ask, 5, 15);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, rows);
    micro_equals_cold(&again);
    micro_run(&side);
    micro_continue(&side, &side, 5, 16);
    micro_run(&side);
    restart();
    CHECK_EQ(spill_at(spill_session(session))->talk.length,
             side.id_count + side.result.generated - 1);
    last_down();
}

TEST(K29_one_answer_beside_a_part_of_its_conversation_is_not_written_for_it)
{
    static struct micro_ask side;
    const u64 session[2] = { 21, 21 };
    first_up(&(struct micro_setup){ .slot_count = 2 });
    micro_prompt(&ask, 4 * G + 5, 21, 6);
    micro_run(&ask);
    micro_continue(&again, &ask, 3 * G, 22);
    micro_push(&again);
    for (u32 i = 0; i < 2; i++) engine_pass();          /* cancelled while it is read         */
    submit_cancel(again.submit);
    micro_wait(&again);
    CHECK(again.result.finish == FINISH_CANCELLED && again.result.generated == 0);
    micro_prompt(&side, G + 3, 23, 3);
    side.session = 21;
    micro_run(&side);
    restart();
    CHECK(spill_at(spill_session(session))->talk.length > 4 * G + 5);
    micro_run(&again);
    CHECK(again.result.source == SOURCE_SPILL && again.result.cached > 4 * G + 5);
    micro_equals_cold(&again);
    last_down();
}

/* Nothing stands aside: the title cuts the conversation's record, which a cancelled turn left. */
TEST(K29_one_answer_in_the_place_of_a_cancelled_turn_is_not_written_for_the_conversation)
{
    static struct micro_ask side;
    const u64 session[2] = { 28, 28 };
    first_up(&(struct micro_setup){ .slot_count = 1, .journal_idle_us = 1, .pin_rows = UINT64_MAX,
                                    .park_rows = UINT64_MAX, .store_rows = UINT64_MAX });
    micro_prompt(&ask, 6 * G + 5, 28, 6);
    micro_run(&ask);
    for (u32 i = 0; spill_session(session) == NONE; i++) {
        CHECK(i < 1000000);
        engine_pass();
    }
    micro_continue(&again, &ask, 2 * G, 29);
    micro_push(&again);
    for (u32 i = 0; i < 2; i++) engine_pass();          /* cancelled while it is read         */
    submit_cancel(again.submit);
    micro_wait(&again);
    CHECK(again.result.finish == FINISH_CANCELLED && again.result.generated == 0);
    CHECK(spill_at(spill_session(session))->talk.length > 6 * G + 5);
    micro_prompt(&side, 2 * G + 9, 30, 3);
    memcpy(side.ids, ask.ids, 2 * G * sizeof *ask.ids);
    side.session = 28;
    micro_run(&side);
    CHECK(side.result.source != SOURCE_COLD && side.result.source != SOURCE_SPILL);
    CHECK_EQ(side.result.cached, 2 * G);
    micro_equals_cold(&side);
    restart();
    CHECK(spill_at(spill_session(session))->talk.length > 6 * G + 5);
    last_down();
}

/* An entry of 6 lines; a shorter conversation of two answers in its place; then one answer longer
 * than that, which is beside the entry, but not beside what stands by then. */
TEST(K29_one_answer_is_beside_what_stands_when_it_comes)
{
    static struct micro_ask side;
    const u64 session[2] = { 24, 24 };
    first_up(&(struct micro_setup){ .slot_count = 2 });
    micro_prompt(&ask, 6 * G, 24, 4);
    micro_run(&ask);
    restart();
    micro_prompt(&again, G + 3, 25, 3);
    again.session = 24;
    micro_run(&again);
    micro_continue(&again, &again, 5, 26);
    micro_run(&again);
    micro_prompt(&side, 2 * G + 9, 27, 3);
    side.session = 24;
    micro_run(&side);
    restart();
    CHECK_EQ(spill_at(spill_session(session))->talk.length,
             side.id_count + side.result.generated - 1);
    last_down();
}

/* Two conversations take turns in one slot and the park holds neither. */
TEST(K32_two_conversations_in_turn_come_back_from_disk_each_time)
{
    static struct micro_ask two[2];
    first_up(&(struct micro_setup){ .pin_rows = UINT64_MAX, .store_rows = UINT64_MAX,
                                    .park_rows = 8 * G });
    for (u32 i = 0; i < 2; i++) {
        micro_prompt(&two[i], 6 * G, 30 + i, 5);
        micro_run(&two[i]);
        settle();
    }
    for (u32 round = 0; round < 8; round++) {
        struct micro_ask *t = &two[round % 2];
        u64 old = t->id_count + t->result.generated - 1;
        micro_continue(t, t, 2, 40 + round);
        micro_run(t);
        CHECK(t->result.cached >= old * 95 / 100);
        micro_equals_cold(t);
        settle();
    }
    last_down();
}

/* A file that passes every check but breaks the first forward goes; the next try is cold. */
TEST(K24_a_restore_on_which_the_first_forward_fails_is_not_tried_again)
{
    first_up(&(struct micro_setup){ .wrap = wrap_embed });
    micro_prompt(&ask, 6 * G + 5, 3, 9);
    micro_run(&ask);
    restart();
    micro_continue(&again, &ask, 7, 4);
    struct micro_ask second = again;
    fail_embed = 1;
    micro_run(&again);
    CHECK(again.result.finish == FINISH_ERROR && again.result.error == ERR_DEVICE);
    CHECK_EQ(spill_session((const u64[2]){ ask.session, ask.session }), NONE);
    settle();
    micro_run(&second);
    CHECK_EQ(second.result.finish, FINISH_LENGTH);
    CHECK(second.result.cached < ask.id_count + ask.result.generated - 1);
    micro_equals_cold(&second);
    last_down();
}

/* A damaged file is a longer prefill, counted, and never another token. */
TEST(a_damaged_file_is_a_longer_prefill)
{
    first_up(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 6 * G + 5, 3, 9);
    micro_run(&ask);
    restart();
    u32 piece = NONE;
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1))
        if (pieces_row(i)->kind == FORMAT_CHUNK && pieces_row(i)->lo == 3 * G) piece = i;
    CHECK(piece != NONE);
    stop();
    char name[FORMAT_NAME_BYTES], path[FILE_PATH_BYTES], about[FILE_PATH_BYTES];
    struct file_list list;
    up(folder);
    format_name(FORMAT_CHUNK, pieces_row(piece)->name, name);
    CHECK_OK(file_list_open(folder, &list));
    while (file_list_next(&list)) {
        CHECK_OK(file_join(folder, list.name, about));
        CHECK_OK(file_join(about, name, path));
        int fd = -1;
        if (file_open(path, FILE_OPEN_WRITE, 0600, &fd) != OK) continue;
        u8 byte;
        CHECK_OK(file_read_at(fd, 20000, &byte, 1));
        byte ^= 4;
        CHECK_OK(file_write_at(fd, 20000, &byte, 1));
        file_close(fd);
    }
    file_list_close(&list);
    micro_continue(&again, &ask, 7, 4);
    micro_run(&again);
    CHECK_EQ(pieces_counts().bad, 1);
    CHECK(again.result.cached <= 3 * G);
    CHECK_EQ(again.result.reason, REASON_FAILED_CHECK);
    micro_equals_cold(&again);
    last_down();
}

/* Without a park a restore goes straight to the turn that asked, whole or as a prefix. */
TEST(a_restore_needs_no_park)
{
    for (u32 round = 0; round < 4; round++) {
        u32 fork = round % 2, boot = round / 2;
        first_up(&(struct micro_setup){ .park_rows = UINT64_MAX, .slot_count = 2 });
        micro_prompt(&ask, 6 * G + 5, 3, 9);
        micro_run(&ask);
        restart();
        u64 files = 0;
        if (boot != 0) {                                /* before anybody asked              */
            engine_restore();
            CHECK_EQ(record_count(), 1);
            CHECK_EQ(record_at(resident_record(0))->class, HOLD_LIVE);
            CHECK_EQ(slot_row(0)->len, ask.id_count + ask.result.generated - 1);
            settle();
            files = reader_counts().files;
        }
        micro_continue(&again, &ask, 7, 4);
        if (fork != 0) again.ids[6 * G + 1] ^= 1;       /* parts in the last line            */
        if (fork != 0) again.session = 99;
        micro_run(&again);
        CHECK(fork != 0 || again.result.source == SOURCE_SPILL);
        CHECK(again.result.source != SOURCE_COLD);
        CHECK(boot == 0 || reader_counts().files == files);
        CHECK(again.result.cached >= (fork != 0 ? 5u : 6u) * G);
        micro_equals_cold(&again);
        budget_graph_refresh(&micro.graph);
        u32 park = budget_graph_find(&micro.graph, "park");
        CHECK(micro.graph.node[park].used_bytes <= micro.graph.node[park].cap_bytes);
        CHECK(!micro.graph.node[park].over);
        last_down();
    }
}

/* A folder that another process holds: no tier on disk, and everybody is told. */
TEST(a_locked_folder_is_named_with_its_process_and_answers_say_off)
{
    char text[64];
    int fd = -1;
    first_up(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 6 * G + 5, 3, 9);
    micro_run(&ask);
    stop();
    CHECK_OK(fingerprint_lock(folder, &fd));
    setup.cache_dir = folder;
    micro_open(&setup);
    CHECK(!nvme_on());
    snprintf(text, sizeof text, "is used by process %d: disk, spill and suffix tiers are off",
             (int)getpid());
    CHECK(strstr(nvme_why(), text) != NULL && strstr(nvme_why(), folder) != NULL);
    micro_continue(&again, &ask, 7, 4);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_COLD);
    CHECK_EQ(again.result.reason, REASON_OFF);
    micro_equals_cold(&again);
    micro_close();
    file_close(fd);
    up(folder);
    CHECK_STR(nvme_why(), "");
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    last_down();
}
