/* tests/tiers/nvme_spill.c - whole conversations: save, restart, grow, replace, evict, drain. */
#include "tests/nvme.h"

#include "arena/heap.h"

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
    nvme_settle();
    pieces_check();
    nvme_down();
    memory_close();
    memory_open();
    CHECK_OK(nvme_up(false, NULL));
}

static void down(void)
{
    nvme_settle();
    pieces_check();
    nvme_down();
    memory_close();
    remove_all();
}

/* A talk of 70 rows with a line's anchor, a mark in the middle of a chunk and two ends. */
static void talk_a(void)
{
    talk_grow(&a, 70, 1);
    talk_anchor(&a, 20, ANCHOR_TURN);
    talk_anchor(&a, 48, ANCHOR_GRID);
    talk_anchor(&a, 66, ANCHOR_END);
    talk_anchor(&a, 70, ANCHOR_END);
    CHECK(end_record(&a.generations, 60, 66, 63) && end_span(&a.generations, 61, 63));
    CHECK(end_record(&a.generations, 68, 70, 0));
}

static void save(const struct talk *t)
{
    struct spill_source source = talk_source(t);
    u32 row = NONE;
    CHECK_OK(spill_save(&source, now_s, &row));
}

static u32 names_in(void)
{
    struct file_list list;
    u32 count = 0;
    CHECK_OK(file_list_open(place.folder, &list));
    while (file_list_next(&list)) count++;
    file_list_close(&list);
    return count;
}

/* As a restore gets them: the manifest read by the I/O thread. */
static enum err generations(u32 row, u64 start, struct generation_list *list)
{
    struct reader_blob file = { .cap_bytes = MANIFEST_BYTES_MAX };
    struct reader_answer answer = { .err = ERR_IO };
    const struct manifest *talk = &spill_at(row)->talk;
    manifest_name(talk->session, file.name);
    CHECK(reader_submit(&(struct reader_ask){ .piece = NONE, .blob = &file }));
    while (reader_step()) continue;
    CHECK(reader_done(&answer));
    CHECK_OK(answer.err);
    struct manifest newer = *talk;
    newer.length++;                     /* the file is another entry's: nothing of it is taken */
    CHECK_EQ(spill_generations(&newer, file.bytes, file.count, start, list), ERR_STALE);
    CHECK_EQ(list->count, 0);
    enum err err = spill_generations(talk, file.bytes, file.count, start, list);
    arena_heap_free(file.bytes);
    return err;
}

TEST(a_conversation_comes_back_at_its_end_its_marks_and_its_lines)
{
    up();
    talk_a();
    save(&a);
    talk_drop(&a);                                      /* class writing holds what is needed */
    CHECK_EQ(start_of_prompt(a.keys, 80), 0);
    nvme_settle();
    CHECK_EQ(names_in(), 4 + 1 + 4 + 1 + 1);    /* chunks, tail, anchors, manifest, ABOUT */
    again();
    static const u64 want[][2] = { { 80, 70 }, { 71, 70 }, { 70, 66 }, { 67, 66 }, { 66, 48 },
                                   { 49, 48 }, { 48, 20 }, { 21, 20 }, { 20, 0 } };
    for (u32 i = 0; i < COUNT_OF(want); i++)
        CHECK_EQ(start_of_prompt(a.keys, want[i][0]), want[i][1]);
    u32 row = spill_session(a.session);
    CHECK(row != NONE && spill_at(row)->talk.length == 70 && spill_at(row)->talk.head_pos == 5);
    struct generation_list got = { 0 };
    CHECK_OK(generations(row, 70, &got));
    CHECK_EQ(got.count, 3);
    CHECK(end_at(end_next(end_first(&got)))->kind == END_SPAN);
    end_cut(&got, 0);
    CHECK_OK(generations(row, 66, &got));
    CHECK_EQ(got.count, 2);
    end_cut(&got, 0);
    CHECK(spill_counts().restored >= 6 && spill_counts().dropped == 0);
    down();
}

TEST(growing_writes_what_is_new_and_removes_what_it_replaces)
{
    up();
    talk_a();
    save(&a);
    nvme_settle();
    u64 files = writer_counts().files;
    talk_grow(&a, 75, 1);
    anchors_drop(&a.list, state_sections_arena(), 2, HOLD_ANCHOR);      /* the older end */
    talk_anchor(&a, 75, ANCHOR_END);
    save(&a);
    nvme_settle();
    CHECK_EQ(writer_counts().files - files, 3);         /* tail, end anchor, manifest        */
    CHECK_EQ(writer_counts().removed, 2);               /* the old tail and the older end    */
    CHECK_EQ(start_of_prompt(a.keys, 80), 75);
    u32 names = names_in();
    talk_drop(&a);
    again();
    CHECK_EQ(names_in(), names);
    CHECK_EQ(start_of_prompt(a.keys, 80), 75);
    CHECK_EQ(start_of_prompt(a.keys, 75), 70);
    CHECK_EQ(spill_counts().rows, 1);
    CHECK_EQ(spill_clear(a.session), 1);
    nvme_settle();
    CHECK_EQ(start_of_prompt(a.keys, 80), 48);          /* the line's anchor is the disk's   */
    pieces_clear();
    nvme_settle();
    CHECK_EQ(names_in(), 1);
    down();
}

/* Two conversations share a head; over its cap the tier drops the less valuable, never
 * one that is being read. */
TEST(K25_K32_two_conversations_share_their_head_and_one_goes_alone)
{
    up();
    talk_a();
    memcpy(b.keys, a.keys, sizeof b.keys);
    b.rows = 0;
    talk_grow(&b, 64, 1);
    CHECK(memcmp(a.keys, b.keys, 64 * sizeof *a.keys) == 0);
    talk_grow(&b, 74, 5);
    talk_anchor(&b, 74, ANCHOR_END);
    save(&a);
    nvme_settle();
    u64 files = writer_counts().files;
    now_s += DAY;
    save(&b);
    nvme_settle();
    CHECK_EQ(writer_counts().files - files, 3);
    CHECK_EQ(start_of_prompt(a.keys, 80), 70);
    CHECK_EQ(start_of_prompt(b.keys, 80), 74);
    spill_at(spill_session(a.session))->reads = 1;
    spill_cap(pieces_counts().spill_bytes - 1, 0);
    CHECK(spill_evict(0, now_s));                       /* b, as a is being read             */
    CHECK_EQ(spill_session(b.session), NONE);
    spill_at(spill_session(a.session))->reads = 0;
    spill_cap(pieces_counts().spill_bytes - 1, 0);
    CHECK(spill_evict(0, now_s));
    nvme_settle();
    CHECK_EQ(start_of_prompt(b.keys, 80), 48);
    spill_cap(100, 0);
    struct spill_source source = talk_source(&b);
    u32 row = 77;
    CHECK_EQ(spill_save(&source, now_s, &row), ERR_LIMIT);
    CHECK(strstr(err_last()->text, "--spill-gb allows 100") != NULL);
    CHECK(row == 77 && spill_counts().refused == 1);
    talk_drop(&a);
    talk_drop(&b);
    down();
}

/* Bytes of `chunks` lines with so many anchors on them. */
static u64 disk_of(u32 chunks, u32 anchors)
{
    return chunks * format_bytes(&shape, FORMAT_CHUNK, 0, G) +
           anchors * format_bytes(&shape, FORMAT_ANCHOR, 0, G);
}

static void disk_cap(u64 bytes)
{
    disk_knobs_set(&(struct disk_knobs){ .cap_bytes = bytes });
}

/* They are the disk tier's: another prompt's goes for them, its cap is never passed, also not until
 * they are written. */
TEST(anchors_on_lines_are_saved_as_far_as_the_disk_tier_has_room_the_newest_first)
{
    up();
    talk_grow(&b, G, 3);
    talk_anchor(&b, G, ANCHOR_GRID);
    struct spill_source source = talk_source(&b);
    CHECK(disk_line(&source.rows, b.anchor[0].unit, now_s));
    nvme_settle();
    CHECK_EQ(pieces_counts().disk_bytes, disk_of(1, 1));
    talk_grow(&a, 4 * G + 5, 1);
    for (u32 line = 1; line <= 4; line++) talk_anchor(&a, line * G, ANCHOR_GRID);
    talk_anchor(&a, 4 * G + 5, ANCHOR_END);
    disk_cap(disk_of(3, 2) + 1);
    save(&a);
    CHECK_EQ(pieces_counts().disk_bytes, disk_of(3, 2));
    nvme_settle();
    CHECK_EQ(start_of_prompt(b.keys, 80), 0);
    static const u64 want[][2] = { { 80, 4 * G + 5 }, { 4 * G + 5, 3 * G }, { 3 * G, 2 * G },
                                   { 2 * G, 0 } };
    for (u32 i = 0; i < COUNT_OF(want); i++)
        CHECK_EQ(start_of_prompt(a.keys, want[i][0]), want[i][1]);
    disk_cap(0);
    u32 row = 77, files = names_in();
    CHECK_EQ(spill_save(&source, now_s, &row), ERR_FULL);   /* only lines: no start           */
    nvme_settle();
    CHECK(row == 77 && names_in() == files && spill_counts().refused == 1);
    talk_drop(&a);
    talk_drop(&b);
    down();
}

TEST(one_save_of_a_session_at_a_time_and_a_failed_write_leaves_the_older_entry)
{
    up();
    talk_a();
    save(&a);
    struct spill_source source = talk_source(&a);
    u32 row;
    CHECK_EQ(spill_save(&source, now_s, &row), ERR_FULL);
    nvme_settle();
    talk_grow(&a, 75, 1);
    talk_anchor(&a, 75, ANCHOR_END);
    file_fail_as(1, FILE_FAULT_FULL);
    save(&a);
    nvme_settle();
    CHECK_EQ(file_fail_left(), 0);
    CHECK_EQ(spill_counts().failed + spill_counts().dropped, 1);
    CHECK_EQ(start_of_prompt(a.keys, 80), 70);
    save(&a);
    nvme_settle();
    CHECK_EQ(start_of_prompt(a.keys, 80), 75);
    talk_drop(&a);
    again();
    CHECK_EQ(start_of_prompt(a.keys, 80), 75);
    down();
}

/* Both manifests have one name: the older one's must not be removed behind the newer one's back. */
TEST(an_entry_that_goes_while_the_newer_manifest_is_written_does_not_take_it_along)
{
    up();
    talk_a();
    save(&a);
    nvme_settle();
    talk_grow(&a, 75, 1);
    talk_anchor(&a, 75, ANCHOR_END);
    save(&a);
    while (writer_step()) continue;
    CHECK(journal_answers() && spill_busy() && writer_pending() == 1);  /* the manifest alone   */
    spill_cap(pieces_counts().spill_bytes - 1, 0);
    spill_evict(0, now_s);
    CHECK(spill_counts().dropped == 1 && spill_counts().rows == 1);
    spill_cap(caps.spill_bytes, 0);
    nvme_settle();
    CHECK(spill_session(a.session) != NONE);
    talk_drop(&a);
    again();
    CHECK_EQ(spill_counts().found_at_start, 1);
    CHECK_EQ(start_of_prompt(a.keys, 80), 75);
    CHECK_EQ(spill_clear(a.session), 1);
    again();
    CHECK_EQ(spill_counts().found_at_start + spill_counts().bad_at_start, 0);
    down();
}

/* The disk tier's eviction took its last start, and a kill came before its manifest went too. */
TEST(an_entry_without_a_start_goes_at_the_next_start_and_is_not_called_bad)
{
    up();
    talk_grow(&a, 2 * G, 1);
    talk_anchor(&a, 2 * G, ANCHOR_END);
    save(&a);
    nvme_settle();
    pieces_clear();
    talk_drop(&a);
    nvme_down();                                        /* files of anchors go, no answer     */
    memory_close();
    memory_open();
    CHECK_OK(nvme_up(false, NULL));
    CHECK(spill_counts().rows == 0 && spill_counts().bad_at_start == 0);
    CHECK_EQ(spill_counts().dropped, 1);
    nvme_settle();
    CHECK_EQ(names_in(), 1);
    down();
}

/* What was used last first, complete or not at all. */
TEST(K29_a_drain_saves_each_conversation_whole_and_counts_what_it_does_not_reach)
{
    struct spill_source source[2];
    struct journal_drained drained;
    up();
    talk_a();
    talk_grow(&b, 33, 8);
    talk_anchor(&b, 33, ANCHOR_END);
    source[0] = talk_source(&a);
    source[1] = talk_source(&b);
    source[0].always = source[1].always = true;
    writer_day_cap(0);                                  /* the day's cap does not hold it up */
    journal_drain(source, 2, UINT64_MAX, now_s, &drained);
    CHECK(drained.saved == 2 && drained.missed == 0);
    talk_drop(&a);
    talk_drop(&b);
    again();
    CHECK_EQ(start_of_prompt(a.keys, 80), 70);
    CHECK_EQ(start_of_prompt(b.keys, 80), 33);
    down();
}
