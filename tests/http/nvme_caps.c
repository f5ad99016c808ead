/* tests/http/nvme_caps.c - nodes of pool nvme: what they count, caps and knobs changed while turns
 * come, folders of other models within what is left. */
#include "tests/restarts.h"

static struct micro_ask other;

static const struct budget_node *node(const char *name)
{
    budget_graph_refresh(&micro.graph);
    u32 at = budget_graph_find(&micro.graph, name);
    CHECK(at != NONE);
    return &micro.graph.node[at];
}

/* `mem set NAME VALUE`; false: refused. */
static bool set(const char *name, u64 value)
{
    char number[24];
    snprintf(number, sizeof number, "%llu", (ull)value);
    char *text = micro_command(COMMAND_SET, number, name);
    bool done = text != NULL;
    free(text);
    settle();
    pieces_check();
    return done;
}

/* Passes until so many saves are complete, and for a while after. */
static void written(u64 saves)
{
    u64 until_us = clock_us() + 10000;
    for (u32 i = 0; spill_counts().complete < saves || clock_us() < until_us; i++) {
        CHECK(i < 1000000);
        settle();
    }
}

/* Two conversations of 5 and 7 lines on disk, line anchors among them. */
static void two_on_disk(void)
{
    first_up(&(struct micro_setup){ .slot_count = 2, .journal_idle_us = 1 });
    micro_prompt(&other, 5 * G + 9, 31, 5);
    micro_run(&other);
    micro_prompt(&ask, 7 * G + 9, 32, 5);
    micro_run(&ask);
    written(2);
}

TEST(nodes_of_the_pool_count_what_lies_on_disk)
{
    two_on_disk();
    struct pieces_counts p = pieces_counts();
    CHECK(p.disk_bytes > 0 && p.spill_bytes > 0);
    CHECK_EQ(node("disk")->used_bytes, p.disk_bytes);
    CHECK_EQ(node("spill")->used_bytes, p.spill_bytes);
    CHECK_EQ(node("nvme")->used_bytes, p.disk_bytes + p.spill_bytes);
    CHECK_EQ(node("disk")->cap_bytes, 50 * GIB);
    CHECK_EQ(node("spill")->cap_bytes, 40 * GIB);
    static const enum command_op forms[] = { COMMAND_MEMORY_TREE, COMMAND_MEMORY_JSON,
                                             COMMAND_MEMORY_DOT, COMMAND_MEMORY_FOLDED };
    for (u32 i = 0; i < COUNT_OF(forms); i++) {
        char *text = micro_command(forms[i], "", "");
        CHECK(strstr(text, "nvme") != NULL && strstr(text, "spill") != NULL);
        free(text);
    }
    CHECK(!set("nvme", 1 * GIB));                       /* a sum has no cap of its own       */
    last_down();
}

TEST(a_cap_of_0_takes_all_of_the_disk_tier_and_nothing_is_written_to_it)
{
    two_on_disk();
    CHECK(set("disk", 0));
    CHECK_EQ(node("disk")->used_bytes, 0);
    CHECK_EQ(pieces_counts().anchors, 0);
    u64 lines = disk_counts().lines_written, saves = spill_counts().complete;
    for (u32 i = 0; i < 3; i++) {                       /* read as often as would admit it   */
        micro_prompt(&again, 6 * G, 40, 3);
        again.session = 50 + i;
        tier_clear(NULL);
        micro_run(&again);
        micro_equals_cold(&again);
        written(saves + 1 + i);
    }
    CHECK_EQ(disk_counts().lines_written, lines);
    CHECK_EQ(node("disk")->used_bytes, 0);
    tier_clear(NULL);
    micro_continue(&ask, &ask, 3, 9);                   /* conversations are still there     */
    micro_run(&ask);
    CHECK_EQ(ask.result.source, SOURCE_SPILL);
    micro_equals_cold(&ask);
    CHECK(set("disk", 50 * GIB));
    last_down();
}

TEST(a_lower_cap_of_the_spill_drops_the_least_valuable_conversation_at_once)
{
    two_on_disk();
    CHECK(set("disk", 0));                              /* all bytes are the spill's now     */
    u64 used = node("spill")->used_bytes;
    CHECK(set("spill", used - 1));
    CHECK_EQ(spill_counts().rows, 1);
    CHECK(node("spill")->used_bytes < used);
    CHECK(set("spill", 0));
    CHECK_EQ(spill_counts().rows, 0);
    CHECK_EQ(node("nvme")->used_bytes, 0);
    u64 files = writer_counts().files;
    micro_prompt(&again, 6 * G, 41, 3);
    micro_run(&again);
    u64 until_us = clock_us() + 10000;
    while (clock_us() < until_us) settle();
    CHECK_EQ(writer_counts().files, files);             /* caps of 0: nothing is written     */
    engine_stop();
    while (engine_pass()) continue;
    CHECK_EQ(spill_counts().rows, 0);
    last_down();
}

TEST(knobs_of_age_and_free_space_change_while_turns_come)
{
    two_on_disk();
    CHECK(pieces_counts().anchors > 0);
    clock_set(clock_us(), clock_wall_s() + 100);
    CHECK(set("disk-unused-s", 1000ull * 1000000));
    CHECK(pieces_counts().anchors > 0);
    CHECK(set("disk-unused-s", 50ull * 1000000));
    CHECK_EQ(pieces_counts().anchors, 0);
    clock_run();
    u64 refused = disk_counts().lines_refused, saves = spill_counts().refused;
    CHECK(set("disk-free-gb", 1ull << 60) && set("spill-free-gb", 1ull << 60));
    micro_prompt(&again, 6 * G, 42, 3);
    micro_run(&again);
    for (u32 i = 0; spill_counts().refused == saves && i < 1000000; i++) settle();
    CHECK(disk_counts().lines_refused > refused && spill_counts().refused > saves);
    CHECK(!set("disk-free", 1) && !set("disk-min-tokens", 1));
    CHECK(set("nvme-write-gb-day", 5 * GIB));
    last_down();
}

TEST(what_a_write_held_when_the_board_was_lowered_is_given_back_once_it_is_answered)
{
    first_up(&(struct micro_setup){ .slot_count = 1, .journal_idle_us = 1 });
    micro_prompt(&ask, 6 * G + 5, 36, 5);
    micro_run(&ask);
    for (u32 i = 0; writer_pending() == 0; i++) {
        CHECK(i < 1000000);
        engine_pass();
    }
    CHECK(aside_used(HOLD_WRITING) + aside_used(HOLD_LIVE) > 0);
    u64 cap = micro_committed(true) + 4096;
    CHECK(set("board", cap));
    CHECK_EQ(writer_pending(), 0);
    CHECK_EQ(aside_used(HOLD_WRITING), 0);
    CHECK(micro_committed(false) <= cap);
    CHECK(!node("board")->over);
    last_down();
}

/* Log lines that hold both, and the last of them. */
static u32 lines_of(const char *word, const char *limit, char last[LOG_LINE_BYTES])
{
    static char tail[LOG_TAIL_LINES * LOG_LINE_BYTES];
    u32 count = 0;
    tail[log_tail(tail, sizeof tail - 1)] = 0;
    for (char *line = strtok(tail, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strstr(line, word) == NULL || strstr(line, limit) == NULL) continue;
        snprintf(last, LOG_LINE_BYTES, "%s", line);
        count++;
    }
    return count;
}

static u64 saves_refused(void) { return spill_counts().refused; }
static u64 saves_complete(void) { return spill_counts().complete; }

/* Passes, the clock moved on, until a count of saves has grown by so many. */
static void grown(u64 (*count)(void), u64 more)
{
    u64 until = count() + more;
    for (u32 i = 0; count() < until; i++) {
        CHECK(i < 1000);
        clock_set(clock_us() + 100000, clock_wall_s());
        settle();
    }
}

TEST(a_conversation_without_room_on_disk_is_said_with_its_bytes_and_limit_once_a_minute)
{
    char line[LOG_LINE_BYTES], limit[64];
    two_on_disk();
    clock_set(clock_us(), clock_wall_s());
    CHECK(set("disk", 0) && set("spill-free-gb", 1ull << 60));
    u32 before = lines_of("spill: ", "--spill-free-gb", line);
    micro_prompt(&again, 6 * G + 3, 43, 3);
    micro_run(&again);
    grown(saves_refused, 5);
    CHECK_EQ(lines_of("spill: ", "--spill-free-gb", line), before + 1);
    CHECK(strstr(line, "warn spill: ") != NULL && strstr(line, " bytes of a conversation") != NULL);
    CHECK(strstr(line, "keeps 1152921504606846976") != NULL);
    clock_set(clock_us() + 60000000, clock_wall_s() + 60);
    grown(saves_refused, 3);
    CHECK_EQ(lines_of("spill: ", "--spill-free-gb", line), before + 2);
    CHECK(strstr(line, "refused since the last such line") != NULL);
    CHECK(set("spill-free-gb", 0) && set("spill", 1000));
    clock_set(clock_us() + 60000000, clock_wall_s() + 60);
    grown(saves_refused, 2);
    snprintf(limit, sizeof limit, "--spill-gb allows %u", 1000);
    CHECK_EQ(lines_of("spill: ", limit, line), 1);
    clock_run();
    last_down();
}

TEST(a_conversation_over_the_days_cap_is_said_with_its_bytes_once_a_minute)
{
    char line[LOG_LINE_BYTES];
    two_on_disk();
    clock_set(clock_us(), 86400.0 * 20000);
    CHECK(set("disk", 0) && set("nvme-write-gb-day", 1000));
    u64 files = writer_counts().files;
    micro_prompt(&again, 6 * G + 3, 44, 3);
    micro_run(&again);
    grown(saves_refused, 5);
    CHECK_EQ(lines_of("spill: ", "--nvme-write-gb-day", line), 1);
    CHECK(strstr(line, "warn spill: ") != NULL && strstr(line, " bytes of a conversation") != NULL);
    CHECK(strstr(line, "--nvme-write-gb-day leaves 1000") != NULL);
    CHECK_EQ(writer_counts().files, files);
    CHECK_EQ(writer_counts().refused_day, 0);           /* nothing of it was begun           */
    clock_set(clock_us() + 60000000, clock_wall_s() + 60);
    grown(saves_refused, 3);
    CHECK_EQ(lines_of("spill: ", "--nvme-write-gb-day", line), 2);
    CHECK(strstr(line, "refused since the last such line") != NULL);
    CHECK(set("nvme-write-gb-day", 1 * GIB));           /* a cap raised is looked at again   */
    grown(saves_complete, 1);
    clock_run();
    last_down();
}

TEST(what_a_day_wrote_is_no_part_of_the_next_days_cap)
{
    two_on_disk();
    clock_set(clock_us(), 86400.0 * 20000);             /* the start of a day                */
    CHECK(set("disk", 0));
    for (u32 i = 0; i < 3; i++) {
        micro_prompt(&again, 6 * G + 3, 47 + i, 3);
        again.session = 50 + i;
        micro_run(&again);
        grown(saves_complete, 1);
    }
    CHECK(set("nvme-write-gb-day", writer_counts().day_bytes));
    micro_prompt(&other, 3 * G + 3, 46, 3);
    other.session = 60;
    micro_run(&other);
    grown(saves_refused, 2);
    clock_set(clock_us(), clock_wall_s() + 86400);
    grown(saves_complete, 1);
    clock_run();
    last_down();
}

/* Folders of other models: counted, and the first to go when there is no room. */
TEST(other_models_folders_are_counted_and_go_first)
{
    two_on_disk();
    u64 bytes = node("nvme")->used_bytes;
    stop();
    setup.weights = 8;
    up(folder);
    u64 others = node("others")->used_bytes;
    CHECK(others > bytes);                              /* ABOUT and COUNTS are bytes too    */
    CHECK_EQ(pool_counts().others, 1);
    CHECK_EQ(node("nvme")->used_bytes, others);
    CHECK(set("others", others));
    CHECK_EQ(node("others")->used_bytes, others);
    CHECK(set("spill", others / 2) && set("disk", others / 4));
    CHECK_EQ(node("others")->used_bytes, 0);            /* both caps together lack room      */
    CHECK_EQ(pool_counts().others_removed, 1);
    stop();
    setup.weights = 0;
    up(folder);
    CHECK_EQ(pieces_counts().found_at_start, 0);
    last_down();
}

/* Its record is over the park's cap, lent to the turn it was read for until that one is gone. */
TEST(a_record_lent_to_a_cancelled_turn_goes_at_once)
{
    first_up(&(struct micro_setup){ .slot_count = 1, .park_rows = UINT64_MAX,
                                    .pin_rows = UINT64_MAX, .store_rows = UINT64_MAX });
    micro_prompt(&ask, 6 * G + 5, 33, 5);
    micro_run(&ask);
    restart();
    micro_continue(&again, &ask, 3, 9);
    micro_prompt(&other, 5 * G, 34, 5);                 /* takes the slot meanwhile          */
    micro_push(&again);
    micro_push(&other);
    engine_pass();
    CHECK_EQ(turn_count(TURN_LOADING), 1);
    while (turn_count(TURN_LOADING) > 0) engine_pass();
    CHECK_EQ(turn_count(TURN_QUEUED), 1);
    CHECK(aside_used(HOLD_PARK) > aside_cap(HOLD_PARK));
    submit_cancel(again.submit);
    engine_pass();
    CHECK_EQ(aside_used(HOLD_PARK), 0);
    micro_wait(&again);
    CHECK_EQ(again.result.finish, FINISH_CANCELLED);
    micro_wait(&other);
    micro_equals_cold(&other);
    last_down();
}
