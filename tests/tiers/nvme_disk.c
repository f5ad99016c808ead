/* tests/tiers/nvme_disk.c - files of rows and sections: round trips, what is shared, who goes. */
#include "tests/nvme.h"

#include "arena/base/file_log.h"

static struct talk a, b;

static void up(void)
{
    new_folder();
    memory_open();
    CHECK_OK(nvme_up(false, NULL));
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.session[0] = 1;
    b.session[0] = 2;
}

static void again(void)
{
    nvme_down();
    memory_close();
    memory_open();
    CHECK_OK(nvme_up(false, NULL));
}

static void down(void)
{
    pieces_check();
    nvme_down();
    memory_close();
    remove_all();
}

/* A prefill passes line `line` of a talk: its sections are staged and handed over. */
static bool pass_line(struct talk *t, u64 line)
{
    unit_id unit;
    CHECK_OK(arena_slots_take(state_sections_arena(), HOLD_WRITING, &unit));
    fill_unit(t, unit, line);
    struct transfer_rows rows = { .block = t->block, .rows = line,
                                  .session = { t->session[0], t->session[1] } };
    bool taken = disk_line(&rows, unit, now_s);
    arena_slots_drop(state_sections_arena(), unit, HOLD_WRITING);
    return taken;
}

TEST(rows_and_sections_come_back_byte_for_byte)
{
    up();
    talk_grow(&a, 50, 1);
    CHECK(pass_line(&a, 48));
    CHECK_EQ(start_of_prompt(a.keys, 50), 0);           /* not before it is written          */
    talk_drop(&a);                                      /* the writer still holds its bytes  */
    nvme_settle();
    CHECK_EQ(start_of_prompt(a.keys, 50), 48);
    CHECK_EQ(start_of_prompt(a.keys, 48), 0);           /* one token is left to forward      */
    CHECK_EQ(start_of_prompt(a.keys, 49), 48);
    u64 other = a.keys[47];
    a.keys[47]++;
    CHECK_EQ(start_of_prompt(a.keys, 50), 0);
    a.keys[47] = other;
    again();
    CHECK_EQ(start_of_prompt(a.keys, 50), 48);
    CHECK_EQ(pieces_counts().rows, 4);
    down();
}

TEST(a_shared_prefix_is_written_once_and_goes_with_its_last_user)
{
    up();
    talk_grow(&a, 40, 1);
    memcpy(b.keys, a.keys, sizeof b.keys);
    talk_grow(&a, 64, 1);
    talk_grow(&b, 32, 1);
    talk_grow(&b, 64, 9);
    CHECK(pass_line(&a, 64) && pass_line(&b, 64));
    nvme_settle();
    CHECK_EQ(writer_counts().files, 4 + 2 + 2);         /* 2 of 6 chunks are shared          */
    u64 prompt[65];
    memcpy(prompt, a.keys, sizeof prompt);
    CHECK_EQ(start_of_prompt(prompt, 65), 64);
    now_s += DAY;
    memcpy(prompt, b.keys, sizeof prompt);
    CHECK_EQ(start_of_prompt(prompt, 65), 64);          /* b is worth more now               */
    CHECK(pieces_evict(pieces_counts().disk_bytes - 1, 0, 0, now_s));
    nvme_settle();
    CHECK_EQ(pieces_counts().evicted, 1);
    CHECK_EQ(pieces_counts().rows, 5);
    CHECK_EQ(start_of_prompt(prompt, 65), 64);
    memcpy(prompt, a.keys, sizeof prompt);
    CHECK_EQ(start_of_prompt(prompt, 65), 0);
    pieces_clear();
    nvme_settle();
    CHECK_EQ(pieces_counts().rows, 0);
    CHECK_EQ(pieces_counts().disk_bytes + pieces_counts().spill_bytes, 0);
    talk_drop(&a);
    talk_drop(&b);
    again();
    CHECK_EQ(pieces_counts().found_at_start, 0);
    down();
}

static void damage(enum format_kind kind, u64 hi)
{
    char name[FORMAT_NAME_BYTES], path[FILE_PATH_BYTES];
    u64 lines;
    const u64 (*line)[2] = transfer_prompt(a.keys, CTX, &lines);
    format_name(kind, line[hi / G - 1], name);
    CHECK_OK(file_join(place.folder, name, path));
    CHECK_OK(file_remove(path));
}

/* What all parts support is what is served. */
TEST(K28_a_chunk_missing_in_the_middle_takes_what_stands_on_it_and_nothing_below)
{
    up();
    talk_grow(&a, 90, 1);
    CHECK(pass_line(&a, 32) && pass_line(&a, 64) && pass_line(&a, 80));
    nvme_settle();
    damage(FORMAT_CHUNK, 48);
    CHECK_EQ(start_of_prompt(a.keys, 90), 32);          /* found out while it is read        */
    nvme_settle();
    CHECK_EQ(pieces_counts().rows, 3);
    CHECK(pass_line(&a, 80));
    nvme_settle();
    CHECK_EQ(start_of_prompt(a.keys, 90), 80);
    damage(FORMAT_ANCHOR, 80);
    talk_drop(&a);
    again();                                            /* found out at start                */
    CHECK_EQ(start_of_prompt(a.keys, 90), 32);
    CHECK_EQ(pieces_counts().rows, 3);                  /* chunks nobody used are gone       */
    down();
}

/* Another model's files are never read, and are there when it comes back. */
TEST(K22_K23_another_arithmetic_grid_or_weight_is_another_folder)
{
    up();
    talk_grow(&a, 40, 1);
    CHECK(pass_line(&a, 32));
    nvme_settle();
    talk_drop(&a);
    arithmetic = 6;
    again();
    CHECK_EQ(start_of_prompt(a.keys, 40), 0);
    CHECK_EQ(pieces_counts().found_at_start, 0);
    struct fingerprint_swept swept;
    CHECK_OK(fingerprint_sweep(&place, now_s, 0, &swept));
    CHECK(swept.folders == 0 && swept.kept_bytes > 0);
    arithmetic = 7;
    arithmetic_least = 6;
    again();
    CHECK_EQ(start_of_prompt(a.keys, 40), 32);
    CHECK_OK(fingerprint_sweep(&place, now_s, 0, &swept));
    CHECK(swept.folders == 0 && swept.kept_bytes > 0);  /* another word of this build         */
    arithmetic_least = 7;
    again();
    CHECK_EQ(start_of_prompt(a.keys, 40), 32);
    CHECK_OK(fingerprint_sweep(&place, now_s, 0, &swept));
    CHECK_EQ(swept.folders, 1);                         /* same weights, an older arithmetic */
    u8 first[16], second[16];
    struct fingerprint_source source = source_of_model();
    fingerprint_make(&shape, &source, first);
    source.weights[1] ^= 1;
    fingerprint_make(&shape, &source, second);
    CHECK(memcmp(first, second, 16) != 0);
    source = source_of_model();
    shape.grid_rows = 2 * G;
    fingerprint_make(&shape, &source, second);
    CHECK(memcmp(first, second, 16) != 0);
    shape.grid_rows = G;
    shape.section_count--;
    fingerprint_make(&shape, &source, second);
    CHECK(memcmp(first, second, 16) != 0);
    shape.section_count++;
    shape.view[0].type = 1;
    fingerprint_make(&shape, &source, second);
    CHECK(memcmp(first, second, 16) != 0);
    shape.view[0].type = 0;
    down();
}

TEST(one_process_a_cache_folder_and_nobody_else_looks_in)
{
    struct fingerprint second;
    struct fingerprint_source source = source_of_model();
    up();
    CHECK_EQ(fingerprint_open(folder, &shape, &source, now_s, &second), ERR_FULL);
    char number[32];
    snprintf(number, sizeof number, "process %d", (int)getpid());
    CHECK(strstr(err_last()->text, number) != NULL);
    down();
    new_folder();
    memory_open();
    CHECK(chmod(folder, 0755) == 0);
    CHECK_EQ(nvme_up(false, NULL), ERR_IO);
    CHECK(strstr(err_last()->text, "0700") != NULL);
    memory_close();
    remove_all();
}

/* A read never deletes. */
TEST(K26_the_same_head_is_restored_three_times)
{
    up();
    talk_grow(&a, 40, 1);
    CHECK(pass_line(&a, 32));
    nvme_settle();
    for (u32 i = 0; i < 3; i++) CHECK_EQ(start_of_prompt(a.keys, 40), 32);
    CHECK_EQ(disk_counts().hits, 3);
    talk_drop(&a);
    down();
}

TEST(counts_and_the_bytes_of_the_day_survive_a_restart)
{
    struct count_plan plan;
    u64 line_count;
    up();
    talk_grow(&a, 70, 1);
    const u64 (*lines)[2] = transfer_prompt(a.keys, 70, &line_count);
    struct count_prompt prompt = { .lines = lines, .line_count = line_count, .count = 70 };
    disk_plan(&prompt, now_s, &plan);
    CHECK_EQ(plan.count, 0);                            /* read once: nothing yet            */
    CHECK(pass_line(&a, 16));
    nvme_settle();
    u64 day_bytes = writer_counts().day_bytes;
    CHECK(day_bytes > 0);
    CHECK(disk_counts_save() && !disk_counts_save());
    nvme_settle();
    talk_drop(&a);
    again();
    CHECK(writer_counts().day_bytes >= day_bytes);
    lines = transfer_prompt(a.keys, 70, &line_count);
    prompt.lines = lines;
    disk_plan(&prompt, now_s, &plan);
    CHECK(plan.count == 1 && plan.line[0] == 64);       /* K10: the second reader            */
    CHECK_EQ(count_times(lines[3]), 2);
    down();
}

TEST(the_days_cap_and_a_full_ring_refuse_and_change_nothing)
{
    up();
    talk_grow(&a, 40, 1);
    writer_day_cap(writer_counts().day_bytes + 1);
    CHECK(!pass_line(&a, 32));
    CHECK_EQ(disk_counts().lines_refused, 1);
    CHECK(writer_counts().refused_day > 0);
    nvme_settle();
    CHECK_EQ(pieces_counts().rows, 0);
    writer_day_cap(UINT64_MAX);
    CHECK(pass_line(&a, 32));
    talk_drop(&a);
    while (writer_room() > 0)
        CHECK(writer_submit(&(struct writer_ask){ .kind = WRITER_REMOVE, .name = "nothing" }));
    talk_grow(&b, 40, 3);
    CHECK(!pass_line(&b, 32));
    talk_drop(&b);
    nvme_settle();
    CHECK_EQ(pieces_counts().rows, 3);
    down();
}

TEST(threads_write_and_read_while_the_engine_goes_on)
{
    struct ring_wake wake = { .event_fd = -1 };
    struct reader_answer answer;
    block_id block[CTX / B];
    unit_id unit;
    u32 reads = 0;
    new_folder();
    memory_open();
    clock_run();
    CHECK_OK(nvme_up(true, &wake));
    memset(&a, 0, sizeof a);
    talk_grow(&a, 64, 1);
    CHECK(pass_line(&a, 64));
    talk_drop(&a);
    CHECK(writer_drain(clock_us() + 10000000));
    journal_answers();
    u64 line_count;
    struct disk_hit hit;
    disk_find(transfer_prompt(a.keys, 65, &line_count), 64, 0, &rates, &hit);
    CHECK_EQ(hit.start, 64);
    for (u64 i = 0; i < 16; i++)
        CHECK_OK(arena_blocks_take(state_blocks_arena(), HOLD_LIVE, &block[i]));
    CHECK_OK(arena_slots_take(state_sections_arena(), HOLD_LIVE, &unit));
    CHECK(transfer_load(&(struct transfer_ask){ .anchor = hit.anchor, .cover = NONE,
        .keys = a.keys, .block = block, .unit = unit }, &reads));
    CHECK_EQ(reads, 5);
    while (reads > 0) {
        u32 seen = ring_word(&wake);
        while (reader_done(&answer)) {
            CHECK_OK(answer.err);
            transfer_answer(&answer);
            reads--;
        }
        if (reads > 0) ring_wait(&wake, seen, clock_us() + 1000000);
    }
    CHECK_EQ(differences(a.keys, 64, block, unit), 0);
    for (u64 i = 0; i < 16; i++) arena_blocks_drop(state_blocks_arena(), block[i], HOLD_LIVE);
    arena_slots_drop(state_sections_arena(), unit, HOLD_LIVE);
    clock_set(1000000, (f64)now_s);
    down();
}

TEST(removals_wait_for_a_row_of_the_writer_and_keep_their_order)
{
    enum { MANY = 100 };
    static const u8 bytes[8] = "content";
    struct writer_ask blob = { .kind = WRITER_BLOB, .owner = DISK_COUNTS_OWNER, .always = true,
                               .bytes = bytes, .byte_count = sizeof bytes };
    char path[FILE_PATH_BYTES], name[FORMAT_NAME_BYTES];
    up();
    for (u32 i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "file-%u", i);
        CHECK_OK(file_join(place.folder, name, path));
        CHECK_OK(file_commit(path, bytes, sizeof bytes, 0600));
    }
    file_log_watch(true);
    u64 waits = file_log_waits();
    for (u32 i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "file-%u", i);
        writer_remove(name);
    }
    CHECK_EQ(writer_pending(), MANY);
    CHECK_EQ(writer_room(), 0);
    snprintf(blob.name, sizeof blob.name, "file-%u", MANY - 1);
    CHECK(!writer_submit(&blob));                       /* its removal waits: not before that */
    CHECK_EQ(file_log_waits(), waits);
    file_log_watch(false);
    while (writer_step()) continue;
    journal_answers();
    CHECK(writer_room() > 0);
    CHECK(writer_submit(&blob));
    nvme_settle();
    CHECK_EQ(writer_counts().removed, MANY);
    for (u32 i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "file-%u", i);
        CHECK_OK(file_join(place.folder, name, path));
        CHECK_EQ(file_exists(path), i == MANY - 1);
    }
    down();
}
