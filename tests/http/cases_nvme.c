/* tests/http/cases_nvme.c - the cases of the NVMe tiers as whole turns: restarts, kills, files of
 * other models, parts and pieces that are missing, caps that hold one conversation. */
#include "arena/base/crc32.h"
#include "http/turn/ledger.h"
#include "tests/embed.h"
#include "tests/micromodel.h"
#include "tests/restarts.h"

static struct micro_ask other, asks[10];
static u8 file[4 * MIB];

static u64 rows_of(const struct micro_ask *a)
{
    return a->id_count + a->result.generated - MIN(a->result.generated, 1u);
}

static void same_answer(const struct micro_ask *x, const struct micro_ask *y)
{
    CHECK_EQ(x->out_count, y->out_count);
    CHECK(memcmp(x->out, y->out, x->out_count * sizeof *x->out) == 0);
}

/* Nobody has it in memory any more. */
static void forget_memory(void)
{
    settle();
    tier_clear(NULL);
}

/* A prompt of one user message in a session of its own, read by nobody's follow-up: its lines are
 * the disk tier's.  `as` gives its ids, `tail` of them anew. */
static void reader(struct micro_ask *to, u64 count, u64 as, u64 session, u64 tail)
{
    micro_prompt(to, count, as, 4);
    micro_random_ids(to->ids + count - tail, tail, 7000 + session, 0);
    to->session = session;
    to->mark[0] = (struct turn_mark){ .pos = 1, .kind = MARK_USER };
    to->mark_count = 1;
}

/* Two readers of the same prompt: its last line is on disk, their conversations are not. */
static void read_twice(u64 count, u64 as, u64 tail)
{
    for (u64 i = 0; i < 2; i++) {
        reader(&other, count, as, 1000 * as + i, tail);
        micro_run(&other);
        forget_memory();
        spill_clear(NULL);
        settle();
    }
}

/* Path of a piece's file. */
static void path_of(u32 piece, char path[FILE_PATH_BYTES])
{
    char name[FORMAT_NAME_BYTES];
    format_name((enum format_kind)pieces_row(piece)->kind, pieces_row(piece)->name, name);
    CHECK_OK(file_join(nvme_folder(), name, path));
}

static u32 piece_at(enum format_kind kind, u64 hi)
{
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1))
        if (pieces_row(i)->kind == kind && pieces_row(i)->hi == hi) return i;
    return NONE;
}

/* ------------------------------------------------------------------ K10, K11 */

TEST(K10_a_line_that_is_refused_is_counted_with_what_refused_it)
{
    first_up(&(struct micro_setup){ .disk_bytes = 4096 });
    read_twice(6 * G + 9, 7, 9);
    struct disk_counts d = disk_counts();
    CHECK(d.lines_written == 0 && d.lines_refused > 0);
    CHECK_EQ(d.refused_cap, d.lines_refused);
    CHECK_EQ(pieces_counts().anchors, 0);
    last_down();
    first_up(&(struct micro_setup){ .anchors = UINT32_MAX });
    read_twice(6 * G + 9, 7, 9);
    d = disk_counts();
    CHECK(d.lines_written == 0 && d.lines_refused > 0);
    CHECK_EQ(d.refused_anchor, d.lines_refused);
    char *stats = micro_command(COMMAND_STATS, "", "");
    CHECK(stats != NULL && strstr(stats, "\"lines_refused_anchor\":") != NULL);
    free(stats);
    last_down();
}

/* The file without one of its parts: names, sizes and every checksum in order. */
static void without_part(const char *path, u32 part)
{
    struct format_head head;
    u64 bytes = 0;
    CHECK_OK(file_read(path, file, sizeof file, &bytes));
    memcpy(&head, file, sizeof head);
    CHECK(head.kind == FORMAT_ANCHOR && part + 1 < head.part_count);
    struct format_part *p = (void *)(file + head.part_offset);
    u8 *data = file + head.data_offset;
    u64 at = p[part].offset, gone = p[part + 1].offset - at;
    memmove(data + at, data + at + gone, head.data_bytes - at - gone);
    memset(data + head.data_bytes - gone, 0, gone);
    memmove(p + part, p + part + 1, (head.part_count - part - 1) * sizeof *p);
    memset(p + --head.part_count, 0, sizeof *p);
    for (u32 i = part; i < head.part_count; i++) p[i].offset -= gone;
    head.data_bytes = ALIGN_UP(head.data_bytes - gone, FILE_PAGE_BYTES);
    head.file_bytes = head.data_offset + head.data_bytes;
    u64 last = p[head.part_count - 1].offset;
    p[head.part_count - 1].crc = crc32_of(data + last, head.data_bytes - last);
    head.part_crc = crc32_of(file + head.part_offset, head.key_offset - head.part_offset);
    memcpy(file, &head, sizeof head);
    format_seal(file);
    CHECK_OK(format_look(file, head.file_bytes, &head));    /* nothing is wrong but the part  */
    CHECK_OK(file_commit(path, file, head.file_bytes, 0600));
}

/* Ten conversations, written; the anchor where the fifth goes on has lost its second section, while
 * the server is down or while it runs.  All ten answer as before. */
static void ten_with_one_section_less(bool running)
{
    char path[FILE_PATH_BYTES];
    first_up(&(struct micro_setup){ .slot_count = 2, .ctx = 640, .park_rows = 8192 });
    for (u32 i = 0; i < 10; i++) {
        micro_prompt(&asks[i], (3 + i) * G + 3, 20 + i, 5);
        micro_run(&asks[i]);
    }
    restart();
    path_of(piece_at(FORMAT_ANCHOR, asks[4].id_count - 1), path);   /* where it would go on   */
    if (!running) stop();
    without_part(path, 1);
    if (!running) up(folder);
    u64 bad = pieces_counts().bad, removed = pieces_counts().removed_at_start;
    CHECK((removed > 0) == !running);
    for (u32 i = 0; i < 10; i++) {
        again = asks[i];
        micro_run(&again);
        CHECK(again.result.cached > 0 && again.result.source != SOURCE_COLD);
        CHECK(i == 4 || again.result.cached == again.id_count - 1);
        same_answer(&again, &asks[i]);
        micro_equals_cold(&again);
        if (i != 4) continue;
        CHECK(again.result.cached <= 7 * G);
        CHECK(!running || again.result.reason == REASON_FAILED_CHECK);
    }
    CHECK_EQ(pieces_counts().bad, bad + running);
    last_down();
}

TEST(K11_an_anchor_without_one_section_is_refused_at_the_start)
{
    ten_with_one_section_less(false);
}

TEST(K11_an_anchor_without_one_section_is_refused_while_it_is_read)
{
    ten_with_one_section_less(true);
}

/* ------------------------------------------------------------------ K19 to K21 */

TEST(K19_a_restore_at_the_prompts_end_has_a_token_left_to_forward)
{
    for (u64 count = 4 * G - 1; count <= 4 * G + 2; count++) {
        first_up(&(struct micro_setup){ .slot_count = 2 });
        micro_prompt(&ask, count, 41, 6);
        micro_run(&ask);
        again = ask;
        again.id_count--;
        micro_run(&again);
        micro_equals_cold(&again);
        restart();
        again = ask;
        micro_run(&again);
        CHECK(again.result.finish == FINISH_LENGTH && again.result.source != SOURCE_COLD);
        CHECK(again.result.cached < count && again.result.forwarded > 0);
        same_answer(&again, &ask);
        micro_equals_cold(&again);
        last_down();
    }
}

TEST(K20_a_restore_that_can_not_be_used_is_in_the_ledger_with_its_reason)
{
    char path[FILE_PATH_BYTES];
    struct spill_hit end;
    first_up(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 6 * G, 3, 9);
    micro_run(&ask);
    restart();
    CHECK(spill_end(spill_session((const u64[2]){ 3, 3 }), &end));
    path_of(end.anchor, path);
    CHECK_OK(file_remove(path));
    micro_continue(&again, &ask, 7, 4);
    micro_run(&again);
    CHECK(again.result.cached < rows_of(&ask));
    CHECK_EQ(ledger_row(0)->reason, REASON_FAILED_CHECK);
    CHECK_EQ(ledger_row(0)->cached, again.result.cached);
    micro_equals_cold(&again);
    last_down();
}

TEST(K21_killed_in_the_middle_of_turn_5_the_last_written_turn_is_there)
{
    first_up(&(struct micro_setup){ .journal_idle_us = 1 });
    micro_prompt(&ask, 3 * G + 1, 5, 6);
    for (u32 turn = 1; turn < 5; turn++) {
        if (turn > 1) micro_continue(&ask, &ask, 9, 50 + turn);
        micro_run(&ask);
        u64 rows = rows_of(&ask), until_us = clock_us() + 2000000;
        while (clock_us() < until_us && (spill_counts().complete < turn || spill_busy())) settle();
        u32 row = spill_session((const u64[2]){ 5, 5 });
        CHECK(row != NONE && spill_at(row)->talk.length == rows);
    }
    micro_continue(&again, &ask, 40, 6);
    again.max_tokens = 20;
    micro_push(&again);
    for (u32 i = 0; i < 6; i++) engine_pass();
    file_fail_as(1, FILE_FAULT_KILL);                   /* nothing reaches the disk any more  */
    submit_cancel(again.submit);
    while (!micro_poll(&again)) engine_pass();
    micro_close();
    file_fail(0);
    up(folder);
    CHECK_EQ(pieces_counts().bad + spill_counts().bad_at_start, 0);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, rows_of(&ask));
    CHECK_EQ(again.result.forwarded, again.id_count - rows_of(&ask));
    micro_equals_cold(&again);
    last_down();
}

/* ------------------------------------------------------------------ K22, K23 */

/* The same prompts to an engine that is another model's: cold, and its files are there after. */
static void nothing_of_it(const struct micro_setup *with, u32 removed)
{
    setup = *with;
    setup.journal_idle_us = (u64)NEVER * 1000000;
    up(folder);
    CHECK_EQ(pieces_counts().found_at_start, 0);
    CHECK_EQ(spill_counts().found_at_start, 0);
    CHECK_EQ(pool_counts().others_removed, removed);
    again = ask;
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_COLD);
    micro_equals_cold(&again);
    CHECK_EQ(reader_counts().files, 0);
    stop();
}

TEST(K22_other_weights_arithmetic_or_grid_read_nothing_and_the_old_ones_find_theirs)
{
    const struct micro_setup first = { .weights = 7, .arithmetic = 3 };
    struct micro_setup with = first;
    first_up(&first);
    micro_prompt(&ask, 4 * G, 9, 4);
    micro_run(&ask);
    stop();
    with.weights = 8;                                   /* one bit of one tensor              */
    nothing_of_it(&with, 0);
    with = first;
    with.arithmetic = 2;
    nothing_of_it(&with, 0);
    with = first;
    with.grid_rows = 2 * G;
    nothing_of_it(&with, 1);                            /* the older arithmetic's, at once    */
    setup = first;
    up(folder);
    again = ask;
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, ask.id_count - 1);
    same_answer(&again, &ask);
    micro_equals_cold(&again);
    stop();
    setup.arithmetic = 4;                               /* the same weights, newer rounding   */
    up(folder);
    settle();
    CHECK_EQ(pool_counts().others_removed, 2);          /* both grids of arithmetic 3         */
    again = ask;
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_COLD);
    micro_equals_cold(&again);
    last_down();
}

/* Every file of rows and sections of that folder under the present fingerprint, heads sealed anew:
 * an upgrade that changed the parts and not the name. */
static u32 under_this_name(const char *from, const u8 fingerprint[16], const char *to)
{
    struct file_list list;
    struct format_head head;
    u32 count = 0;
    CHECK_OK(file_list_open(from, &list));
    while (file_list_next(&list)) {
        char path[FILE_PATH_BYTES];
        u64 name[2], bytes = 0;
        enum format_kind kind;
        if (!format_name_parse(list.name, &kind, name)) continue;
        CHECK_OK(file_join(from, list.name, path));
        CHECK_OK(file_read(path, file, sizeof file, &bytes));
        memcpy(&head, file, sizeof head);
        memcpy(head.fingerprint, fingerprint, sizeof head.fingerprint);
        memcpy(file, &head, sizeof head);
        format_seal(file);
        CHECK_OK(file_join(to, list.name, path));
        CHECK_OK(file_commit(path, file, bytes, 0600));
        count++;
    }
    file_list_close(&list);
    return count;
}

TEST(K23_files_of_another_section_list_are_refused_by_two_requests_at_once)
{
    char with_head[FILE_PATH_BYTES], without[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    struct format_head head;
    u64 bytes = 0;
    u32 count = 0;
    first_up(&(struct micro_setup){ .slot_count = 2, .dir = micromodel_draft_dir() });
    for (u32 i = 0; i < 2; i++) {
        micro_prompt(&asks[i], (4 + i) * G + 3, 60 + i, 6);
        micro_run(&asks[i]);
    }
    stop();
    up(folder);
    snprintf(with_head, sizeof with_head, "%s", nvme_folder());
    stop();
    for (u32 copied = 0; copied < 2; copied++) {
        setup.no_draft = true;
        up(folder);
        CHECK_EQ(pieces_counts().found_at_start, 0);
        CHECK_EQ(pieces_counts().removed_at_start, count);
        for (u32 i = 0; i < 2; i++) {
            asks[2 + i] = asks[i];
            micro_push(&asks[2 + i]);
        }
        for (u32 i = 0; i < 2; i++) {
            micro_wait(&asks[2 + i]);
            CHECK_EQ(asks[2 + i].result.source, SOURCE_COLD);
            same_answer(&asks[2 + i], &asks[i]);
        }
        for (u32 i = 0; i < 2; i++) micro_equals_cold(&asks[2 + i]);
        snprintf(without, sizeof without, "%s", nvme_folder());
        stop();
        if (copied != 0) break;
        CHECK(strcmp(with_head, without) != 0);
        u32 any = NONE;
        up(folder);
        any = piece_at(FORMAT_CHUNK, G);
        CHECK(any != NONE);
        path_of(any, path);
        CHECK_OK(file_read(path, file, sizeof file, &bytes));
        memcpy(&head, file, sizeof head);
        struct forget_counts gone;
        nvme_clear(true, true, NULL, &gone);
        tier_clear(NULL);
        stop();
        count = under_this_name(with_head, head.fingerprint, without);
        CHECK(count > 10);
    }
    setup.no_draft = false;
    up(folder);
    again = asks[0];
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    micro_equals_cold(&again);
    last_down();
}

/* ------------------------------------------------------------------ K24 to K26 */

TEST(K24_a_disk_prefix_on_which_the_first_chunk_fails_goes_and_the_next_try_is_cold)
{
    first_up(&(struct micro_setup){ .wrap = wrap_embed });
    read_twice(6 * G + 9, 7, 9);
    CHECK(piece_at(FORMAT_ANCHOR, 6 * G) != NONE);
    restart();
    reader(&ask, 6 * G + 9, 7, 3000, 9);
    again = ask;
    fail_embed = 1;
    micro_run(&ask);
    CHECK(ask.result.finish == FINISH_ERROR && ask.result.error == ERR_DEVICE);
    settle();
    CHECK_EQ(piece_at(FORMAT_ANCHOR, 6 * G), NONE);
    CHECK_EQ(piece_at(FORMAT_CHUNK, 6 * G), NONE);
    micro_run(&again);
    CHECK_EQ(again.result.finish, FINISH_LENGTH);
    CHECK_EQ(again.result.source, SOURCE_COLD);
    micro_equals_cold(&again);
    last_down();
}

/* One slot, no park, a spill that holds one of two conversations: A is found and kept before the
 * displacement of B may take its place, also when live rows have room for only one of them: then B
 * is displaced before A is read, and would have A's place if nothing held it. */
static void room_for_one(u64 kv_rows)
{
    char number[24];
    first_up(&(struct micro_setup){ .pin_rows = UINT64_MAX, .store_rows = UINT64_MAX,
                                    .park_rows = UINT64_MAX, .disk_bytes = 4096,
                                    .kv_rows = kv_rows });
    for (u32 i = 0; i < 2; i++) micro_prompt(&asks[i], 6 * G + 5, 30 + i, 5);
    micro_run(&asks[0]);
    micro_run(&asks[1]);                                /* the first goes to disk             */
    settle();
    /* A save asks for at most 2.4 times what it takes in the end: room for B, but not beside A. */
    snprintf(number, sizeof number, "%llu", (ull)(pieces_counts().spill_bytes * 3));
    free(micro_command(COMMAND_SET, number, "spill"));
    u64 old = rows_of(&asks[0]);
    micro_continue(&again, &asks[0], 3, 8);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, old);
    micro_equals_cold(&again);
    settle();
    CHECK(pieces_counts().spill_bytes <= spill_cap_bytes());
    CHECK_EQ(spill_counts().saves, 2);                  /* B's asked for A's place ...        */
    CHECK_EQ(spill_counts().refused, kv_rows > 0);      /* ... before A was read: not given   */
    CHECK_EQ(spill_counts().dropped, kv_rows == 0);     /* ... and had it once A was back     */
    last_down();
}

TEST(K25_what_a_request_needs_is_found_before_room_is_made_for_what_it_displaces)
{
    room_for_one(0);
    room_for_one(9 * G);
}

TEST(K26_a_head_is_restored_three_times_with_other_work_between)
{
    first_up(&(struct micro_setup){ 0 });
    read_twice(6 * G + 9, 7, 9);
    u32 files = pieces_counts().rows;
    for (u32 i = 0; i < 3; i++) {
        micro_prompt(&other, 3 * G, 500 + i, 3);
        micro_run(&other);
        forget_memory();
        reader(&ask, 6 * G + 9, 7, 4000 + i, 9);
        micro_run(&ask);
        CHECK_EQ(ask.result.source, SOURCE_DISK);
        CHECK_EQ(ask.result.cached, 6 * G);
        micro_equals_cold(&ask);
        CHECK_EQ(disk_counts().hits, i + 1);
        CHECK(pieces_counts().rows >= files && pieces_counts().bad == 0);
        forget_memory();
    }
    last_down();
}

/* ------------------------------------------------------------------ K28, K29, K32 */

/* Lines 3 to 6 of a first session have anchors on disk; without one of these files the start is the
 * highest that all parts support. */
TEST(K28_with_a_chunk_or_an_anchor_missing_the_start_is_what_all_parts_support)
{
    static const struct { enum format_kind kind; u64 hi, start; } row[] = {
        { FORMAT_ANCHOR, 6, 5 }, { FORMAT_CHUNK, 6, 5 }, { FORMAT_CHUNK, 5, 4 },
        { FORMAT_CHUNK, 4, 3 }, { FORMAT_CHUNK, 2, 0 },
    };
    for (u32 i = 0; i < 2 * COUNT_OF(row); i++) {
        char path[FILE_PATH_BYTES];
        struct forget_counts gone;
        bool running = i % 2 != 0;
        u64 start = row[i / 2].start * G;
        first_up(&(struct micro_setup){ 0 });
        reader(&ask, 6 * G + 9, 7, 100, 9);
        ask.mark[0].pos = 6 * G + 1;
        micro_run(&ask);
        settle();
        for (u32 line = 3; line <= 6; line++) CHECK(piece_at(FORMAT_ANCHOR, line * G) != NONE);
        nvme_clear(false, true, NULL, &gone);
        tier_clear(NULL);
        restart();
        path_of(piece_at(row[i / 2].kind, row[i / 2].hi * G), path);
        if (!running) stop();
        CHECK_OK(file_remove(path));
        if (!running) up(folder);
        reader(&again, 6 * G + 9, 7, 101, 9);
        micro_run(&again);
        CHECK_EQ(again.result.cached, start);
        CHECK_EQ(again.result.source, start > 0 ? SOURCE_DISK : SOURCE_COLD);
        micro_equals_cold(&again);
        last_down();
    }
}

TEST(K29_a_parked_conversation_is_written_too_when_a_side_request_was_last)
{
    first_up(&(struct micro_setup){ 0 });
    micro_prompt(&ask, 8 * G, 13, 6);
    micro_run(&ask);
    micro_prompt(&other, 2 * G, 14, 3);                 /* takes its slot, it is parked       */
    micro_run(&other);
    other.ids[5] ^= 1;
    other.session = 15;
    micro_run(&other);
    restart();
    micro_continue(&again, &ask, 5, 15);
    micro_run(&again);
    CHECK_EQ(again.result.source, SOURCE_SPILL);
    CHECK_EQ(again.result.cached, rows_of(&ask));
    micro_equals_cold(&again);
    last_down();
}

/* The board pays for what is `fixed`, for blocks of so many rows, and for the section sets of two
 * slots and of the anchors' reserve; 0 rows: for anything, cold runs are not the engine's. */
static void board_of(u64 fixed, u64 rows)
{
    struct budget_graph *g = &micro.graph;
    const struct arena_row *blocks = arena_row(state_blocks_arena());
    u64 sets = g->node[budget_graph_find(g, "anchors")].reserve_bytes +
               2 * arena_row(state_sections_arena())->unit_bytes;
    u64 bytes = fixed + rows / micro.set.block_rows * blocks->unit_bytes + sets;
    arena_trim(state_blocks_arena(), 0);
    arena_trim(state_sections_arena(), 0);
    CHECK_OK(budget_graph_cap(g, 0, rows == 0 ? UINT64_MAX / 4 : bytes));
    CHECK(!g->node[0].over);
}

/* Gates that the board's cap stopped. */
static u32 board_refusals(void)
{
    u32 count = 0;
    for (u32 i = 0; i < budget_history_count(&micro.graph.history); i++) {
        const struct gate_row *row = budget_history_row(&micro.graph.history, i);
        if (row->refused_want >= BUDGET_GATE_WANTS) continue;           /* or NONE            */
        const struct gate_want *want = &row->want[row->refused_want];
        count += want->why == WHY_CAP && want->limit == 0;
    }
    return count;
}

/* Eight swaps of two conversations, max_tokens far above what they use; the board pays for so many
 * rows, or (0) any.  All turns from the third one on start at their conversation's end; how many
 * came from where. */
static void eight_swaps(const struct micro_setup *with, u64 board_rows, u32 sources[SOURCE_COUNT])
{
    first_up(with);
    budget_graph_refresh(&micro.graph);
    u64 fixed = micro.graph.node[0].used_bytes;
    for (u32 i = 0; i < 2; i++) {
        micro_prompt(&asks[i], 6 * G, 30 + i, 300);
        asks[i].forced_count = 6;
        micro_random_ids(asks[i].forced, 6, 90 + i, 0);
        asks[i].forced[5] = MICRO_EOS;
    }
    for (u32 turn = 0; turn < 8; turn++) {
        struct micro_ask *t = &asks[turn % 2];
        u64 old = rows_of(t);
        if (turn >= 2) {
            micro_continue(t, t, 2, 40 + turn);
            t->forced_count = 6;
        }
        board_of(fixed, board_rows);
        micro_run(t);
        CHECK_EQ(t->result.finish, FINISH_STOP);
        CHECK(turn < 2 || t->result.cached == old);
        CHECK((t->result.source == SOURCE_COLD) == (turn < 2));
        sources[t->result.source]++;
        settle();
        budget_graph_refresh(&micro.graph);
        CHECK(micro.graph.node[0].used_bytes <= micro.graph.node[0].cap_bytes);
        board_of(fixed, 0);
        micro_equals_cold(t);
        settle();
    }
    CHECK((board_refusals() > 0) == (board_rows > 0));
    last_down();
}

TEST(K32_two_conversations_in_turn_forget_nothing_in_memory_or_by_spill_and_restore)
{
    struct micro_setup two = { .slot_count = 2, .ctx = 1024 }, one = { .ctx = 1024 };
    u32 roomy[SOURCE_COUNT] = { 0 }, rows[SOURCE_COUNT] = { 0 }, slot[SOURCE_COUNT] = { 0 };
    eight_swaps(&two, 0, roomy);
    CHECK_EQ(roomy[SOURCE_END], 6);
    two.pin_rows = two.store_rows = two.park_rows = UINT64_MAX;
    two.kv_rows = 9 * G;                                /* live rows of one and a half        */
    eight_swaps(&two, 0, rows);
    CHECK_EQ(rows[SOURCE_SPILL], 6);
    one.pin_rows = one.store_rows = one.park_rows = UINT64_MAX;
    one.kv_rows = 9 * G;
    eight_swaps(&one, 0, slot);
    CHECK_EQ(slot[SOURCE_SPILL], 6);
}

TEST(K32_nor_where_the_board_is_the_limit)
{
    struct micro_setup two = { .slot_count = 2, .ctx = 1024, .pin_rows = UINT64_MAX,
                               .store_rows = UINT64_MAX, .park_rows = UINT64_MAX }, one = two;
    u32 rows[SOURCE_COUNT] = { 0 }, slot[SOURCE_COUNT] = { 0 };
    eight_swaps(&two, 9 * G, rows);
    CHECK_EQ(rows[SOURCE_SPILL], 6);
    one.slot_count = 1;
    eight_swaps(&one, 9 * G, slot);
    CHECK_EQ(slot[SOURCE_SPILL], 6);
}
