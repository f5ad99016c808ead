/* tests/tiers/nvme_crash.c - whatever breaks, what survives is exact and the start is clean.
 *
 * One scripted run of both tiers.  It is killed at every call that reaches the disk; every call
 * fails by itself with EIO, ENOSPC or a short count; its logged calls are replayed with un-synced
 * ones dropped; and its files are damaged at random.  After each: a clean start, every entry that
 * is left restores byte for byte, no temporary file is left. */
#include "tests/nvme.h"

#include "arena/base/file_log.h"

enum { LOG_ROWS = 4096, LOG_BYTES = 16 << 20, REPLAYS = 400, CORRUPTIONS = 10000 };

static struct talk a, b;
static u64 keys_a[CTX], keys_b[CTX];    /* of the whole script                                */

/* ------------------------------------------------------------------ the script */

static void line(struct talk *t, u64 pos)
{
    unit_id unit;
    struct transfer_rows rows = { .block = t->block, .rows = pos };
    CHECK_OK(arena_slots_take(state_sections_arena(), HOLD_WRITING, &unit));
    fill_unit(t, unit, pos);
    (void)disk_line(&rows, unit, now_s);
    arena_slots_drop(state_sections_arena(), unit, HOLD_WRITING);
}

static void save(const struct talk *t)
{
    struct spill_source source = talk_source(t);
    u32 row;
    (void)!spill_save(&source, now_s, &row);
    nvme_settle();
}

/* Grows, saves, replaces, shares, evicts, clears: every kind of write and removal. */
static void script(void)
{
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.session[0] = 1;
    b.session[0] = 2;
    talk_grow(&a, 40, 1);
    line(&a, 32);
    nvme_settle();
    talk_anchor(&a, 40, ANCHOR_END);
    CHECK(end_record(&a.generations, 35, 40, 0));
    save(&a);
    memcpy(b.keys, a.keys, sizeof b.keys);
    talk_grow(&b, 32, 1);
    talk_grow(&b, 51, 9);
    talk_anchor(&b, 51, ANCHOR_END);
    save(&b);
    talk_grow(&a, 60, 1);
    talk_anchor(&a, 60, ANCHOR_END);
    line(&a, 48);
    save(&a);
    (void)disk_counts_save();
    pieces_evict(pieces_counts().disk_bytes - MIN(pieces_counts().disk_bytes, 1), 0, 0, now_s);
    nvme_settle();
    talk_grow(&b, 70, 9);
    talk_anchor(&b, 70, ANCHOR_END);
    line(&b, 64);
    save(&b);
    spill_clear(a.session);
    nvme_settle();
    save(&a);
    memcpy(keys_a, a.keys, sizeof keys_a);
    memcpy(keys_b, b.keys, sizeof keys_b);
}

/* A process that runs the script; whatever fails, it ends. */
static void run_script(void)
{
    memory_open();
    if (nvme_up(false, NULL) == OK) {
        script();
        pieces_check();
        talk_drop(&a);
        talk_drop(&b);
        nvme_down();
    }
    memory_close();
}

/* ------------------------------------------------------------------ what must hold after */

/* Every anchor on disk is of one of the two conversations. */
static u32 anchors_known(void)
{
    u32 count = 0;
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
        const struct piece_row *r = pieces_row(i);
        u64 lines, name[2][2];
        if (r->kind != FORMAT_ANCHOR) continue;
        transfer_name(transfer_prompt(keys_a, CTX, &lines), keys_a, r->hi, name[0]);
        transfer_name(transfer_prompt(keys_b, CTX, &lines), keys_b, r->hi, name[1]);
        CHECK(memcmp(name[0], r->name, 16) == 0 || memcmp(name[1], r->name, 16) == 0);
        count++;
    }
    return count;
}

static void no_litter(void)
{
    struct file_list list;
    u64 name[2];
    enum format_kind kind;
    CHECK_OK(file_list_open(place.folder, &list));
    while (file_list_next(&list)) {
        bool row = format_name_parse(list.name, &kind, name) && pieces_find(kind, name) != NONE;
        bool talk = manifest_name_parse(list.name, name) && spill_session(name) != NONE;
        if (!row && !talk && strcmp(list.name, "ABOUT") != 0 && strcmp(list.name, "COUNTS") != 0)
            test_failed(__FILE__, __LINE__, "%s is left", list.name);
    }
    file_list_close(&list);
}

/* A start after anything: every start of every prompt is exact.  Returns the best starts. */
static u64 clean_start(void)
{
    memory_open();
    CHECK_OK(nvme_up(false, NULL));
    nvme_settle();
    pieces_check();
    no_litter();
    u32 anchors = anchors_known(), starts = 0;
    u64 best_a = start_of_prompt(keys_a, 100), best_b = start_of_prompt(keys_b, 100);
    for (u64 at = best_a; at > 0; starts++) at = start_of_prompt(keys_a, at);
    for (u64 at = best_b; at > 0; starts++) at = start_of_prompt(keys_b, at);
    CHECK(starts >= anchors);                           /* all of them, shared ones twice    */
    CHECK_EQ(disk_counts().read_failed + spill_counts().read_failed, 0);
    nvme_down();
    memory_close();
    return best_a * 1000 + best_b;
}

static void learn_keys(void)
{
    new_folder();
    run_script();
    CHECK_EQ(clean_start(), 60070);                     /* undisturbed: both ends            */
    remove_all();
}

/* ------------------------------------------------------------------ kills and faults */

static u32 every_step(enum file_fault kind)
{
    u32 fired = 0;
    for (u32 n = 1;; n++) {                             /* ends when none fires              */
        CHECK(n < 3000);
        new_folder();
        file_fail_as(n, kind);
        run_script();
        bool ended = file_fail_left() != 0;
        file_fail(0);
        clean_start();
        remove_all();
        if (ended) return fired;
        fired++;
    }
}

TEST(killed_at_any_step_what_is_left_restores)
{
    learn_keys();
    CHECK(every_step(FILE_FAULT_KILL) > 200);
}

TEST(any_call_that_fails_is_a_smaller_cache_and_nothing_else)
{
    learn_keys();
    CHECK(every_step(FILE_FAULT_IO) > 200);
    CHECK(every_step(FILE_FAULT_FULL) > 200);
    CHECK(every_step(FILE_FAULT_SHORT) > 200);
}

TEST(a_read_that_fails_drops_its_file_and_the_next_best_start_is_taken)
{
    learn_keys();
    for (u32 n = 1;; n++) {                             /* ends when none fires              */
        CHECK(n < 500);
        new_folder();
        run_script();
        memory_open();
        CHECK_OK(nvme_up(false, NULL));
        file_fail(n);
        start_of_prompt(keys_a, 100);
        start_of_prompt(keys_b, 100);
        bool ended = file_fail_left() != 0;
        file_fail(0);
        nvme_settle();
        pieces_check();
        nvme_down();
        memory_close();
        clean_start();
        remove_all();
        if (ended) break;
    }
}

/* ------------------------------------------------------------------ power cuts */

static struct file_log_row log_rows[LOG_ROWS];
static u8 log_bytes[LOG_BYTES];
static struct file_log log_of_run = { .row = log_rows, .cap = LOG_ROWS, .bytes = log_bytes,
                                      .byte_cap = LOG_BYTES };

static bool in_folder(const char *path, const char *of)
{
    u64 bytes = strlen(of);
    while (bytes > 1 && of[bytes - 1] == '/') bytes--;
    return strncmp(path, of, bytes) == 0 && path[bytes] == '/' &&
           strchr(path + bytes + 1, '/') == NULL;
}

/* True when call i reached the disk for good before the cut. */
static bool settled(u32 i, u32 cut)
{
    const struct file_log_row *r = &log_rows[i];
    for (u32 j = i + 1; j < cut; j++) {
        const struct file_log_row *s = &log_rows[j];
        if (r->call == FILE_CALL_WRITE && s->call == FILE_CALL_SYNC && s->file == r->file)
            return true;
        if (r->call != FILE_CALL_WRITE && s->call == FILE_CALL_SYNC_FOLDER &&
            in_folder(r->path, s->path)) return true;
    }
    return false;
}

/* Files of the disk after the cut: names stand for numbers of files. */
struct disk_name { char path[128]; u64 file; bool used; };
enum { NAMES = 512 };
static struct disk_name disk_names[NAMES];

static struct disk_name *name_of(const char *path, bool make)
{
    struct disk_name *free_row = NULL;
    for (u32 i = 0; i < NAMES; i++) {
        if (disk_names[i].used && strcmp(disk_names[i].path, path) == 0) return &disk_names[i];
        if (!disk_names[i].used && free_row == NULL) free_row = &disk_names[i];
    }
    if (!make) return NULL;
    CHECK(free_row != NULL);
    *free_row = (struct disk_name){ .used = true };
    memcpy(free_row->path, path, sizeof free_row->path);
    return free_row;
}

static void apply_name(const struct file_log_row *r)
{
    struct disk_name *at;
    if (r->call == FILE_CALL_FOLDER) CHECK_OK(file_make_folder(r->path, 0700));
    if (r->call == FILE_CALL_CREATE || r->call == FILE_CALL_RENAME)
        name_of(r->path, true)->file = r->file;
    if (r->call == FILE_CALL_RENAME && (at = name_of(r->to, false)) != NULL) at->used = false;
    if (r->call == FILE_CALL_REMOVE && (at = name_of(r->path, false)) != NULL) at->used = false;
}

/* The disk as a cut after `cut` calls may leave it, by this seed. */
static void replay(u32 cut, u64 seed)
{
    static bool kept[LOG_ROWS];
    memset(disk_names, 0, sizeof disk_names);
    for (u32 i = 0; i < cut; i++) kept[i] = settled(i, cut) || rng_u64(seed, i) % 2 == 0;
    for (u32 i = 0; i < cut; i++)
        if (kept[i] && log_rows[i].call != FILE_CALL_WRITE) apply_name(&log_rows[i]);
    for (u32 i = 0; i < NAMES; i++) {
        int fd = -1;
        if (!disk_names[i].used) continue;
        if (file_open(disk_names[i].path, FILE_OPEN_CREATE, 0600, &fd) != OK) continue;
        for (u32 j = 0; j < cut; j++) {
            const struct file_log_row *r = &log_rows[j];
            if (kept[j] && r->call == FILE_CALL_WRITE && r->file == disk_names[i].file)
                CHECK_OK(file_write_at(fd, r->offset, log_bytes + r->at, r->bytes));
        }
        file_close(fd);
    }
}

TEST(a_power_cut_loses_what_was_not_synced_and_nothing_else)
{
    char first[64];
    learn_keys();
    new_folder();
    memcpy(first, folder, sizeof first);
    file_log_open(&log_of_run);
    run_script();
    file_log_open(NULL);
    CHECK(!log_of_run.full && log_of_run.count > 200);
    remove_all();
    for (u64 n = 0; n < REPLAYS; n++) {
        u32 cut = 1 + (u32)(rng_u64(5, n) % log_of_run.count);
        memcpy(folder, first, sizeof first);
        CHECK_OK(file_make_folder(folder, 0700));
        replay(cut, n);
        clean_start();
        remove_all();
    }
    memcpy(folder, first, sizeof first);
    CHECK_OK(file_make_folder(folder, 0700));
    replay(log_of_run.count, 1);                        /* after the end: nothing was lost   */
    CHECK_EQ(clean_start(), 60070);
    remove_all();
}

/* ------------------------------------------------------------------ damage */

static u8 whole[64 * 1024];

static void write_whole(const char *path, u64 bytes)
{
    CHECK_OK(file_commit(path, whole, bytes, 0600));
}

/* One part less, checksums and sizes all in order: a file of an older build. */
static void drop_part(u64 bytes)
{
    struct format_head head;
    memcpy(&head, whole, sizeof head);
    head.part_count--;
    u64 last = head.part_offset + head.part_count * sizeof(struct format_part);
    memset(whole + last, 0, sizeof(struct format_part));
    head.part_crc = crc32_of(whole + head.part_offset, head.key_offset - head.part_offset);
    memcpy(whole, &head, sizeof head);
    format_seal(whole);
    (void)bytes;
}

/* Damages a file by this seed; false: it is what it was. */
static bool damage(const char *path, const char *other, u64 seed)
{
    u64 bytes = 0, kind = rng_u64(seed, 0) % 8, at;
    CHECK_OK(file_read(path, whole, sizeof whole, &bytes));
    if (bytes == 0) return false;
    if (kind < 4) {
        for (u64 i = 0; i <= kind; i++) {
            at = rng_u64(seed, 1 + i) % (8 * bytes);
            whole[at / 8] ^= (u8)(1u << at % 8);
        }
    } else if (kind == 4) bytes = rng_u64(seed, 1) % bytes;
    else if (kind == 5) CHECK_OK(file_read(other, whole, sizeof whole, &bytes));
    else if (kind == 6) memset(whole + rng_u64(seed, 1) % bytes / 4096 * 4096, 0,
                               MIN(bytes, 4096u));
    else drop_part(bytes);
    write_whole(path, bytes);
    return true;
}

static u32 list_files(char path[][128], u32 cap)
{
    struct file_list list;
    u32 count = 0;
    CHECK_OK(file_list_open(place.folder, &list));
    while (count < cap && file_list_next(&list)) {
        char whole_path[FILE_PATH_BYTES];
        u64 name[2];
        enum format_kind kind;
        if (!format_name_parse(list.name, &kind, name)) continue;
        CHECK_OK(file_join(place.folder, list.name, whole_path));
        memcpy(path[count++], whole_path, 128);
    }
    file_list_close(&list);
    return count;
}

/* Every file that can still be read is read, against both prompts: what comes back is exact. */
TEST(ten_thousand_damaged_files_and_none_reaches_a_slot)
{
    static char path[64][128];
    static u8 saved[sizeof whole];
    u64 refused = 0, saved_bytes;
    learn_keys();
    new_folder();
    run_script();
    memory_open();
    CHECK_OK(nvme_up(false, NULL));
    nvme_settle();
    u32 files = list_files(path, 64);
    CHECK(files > 8);
    for (u64 n = 0; n < CORRUPTIONS; n++) {
        u32 which = (u32)(rng_u64(77, n) % files), other = (u32)(rng_u64(78, n) % files);
        u64 name[2], lines;
        enum format_kind kind;
        CHECK(format_name_parse(strrchr(path[which], '/') + 1, &kind, name));
        const struct piece_row *r = pieces_row(pieces_find(kind, name));
        CHECK_OK(file_read(path[which], saved, sizeof saved, &saved_bytes));
        if (!damage(path[which], path[other], n)) continue;
        CHECK_OK(file_read(path[which], whole, sizeof whole, &lines));
        bool same = lines == saved_bytes && memcmp(whole, saved, lines) == 0;
        block_id block[G / B];
        unit_id unit;
        struct reader_answer answer;
        for (u32 i = 0; i < G / B; i++)
            CHECK_OK(arena_blocks_take(state_blocks_arena(), HOLD_LIVE, &block[i]));
        CHECK_OK(arena_slots_take(state_sections_arena(), HOLD_LIVE, &unit));
        const u64 (*line_a)[2] = transfer_prompt(keys_a, CTX, &lines);
        u64 of_a[2];
        transfer_name(line_a, keys_a, r->hi, of_a);
        const u64 *keys = memcmp(of_a, name, sizeof name) == 0 ? keys_a : keys_b;
        CHECK(reader_submit(&(struct reader_ask){ .kind = kind, .hash = { name[0], name[1] },
            .lo = r->lo, .hi = r->hi, .rows_hi = r->hi, .keys = keys + r->lo, .block = block,
            .unit = unit }));
        CHECK(reader_step() && reader_done(&answer));
        CHECK((answer.err == OK) == same);
        refused += answer.err != OK;
        for (u32 i = 0; i < G / B; i++)
            arena_blocks_drop(state_blocks_arena(), block[i], HOLD_LIVE);
        arena_slots_drop(state_sections_arena(), unit, HOLD_LIVE);
        memcpy(whole, saved, saved_bytes);
        write_whole(path[which], saved_bytes);
    }
    CHECK(refused > CORRUPTIONS * 8 / 10);
    nvme_down();
    memory_close();
    CHECK_EQ(clean_start(), 60070);
    remove_all();
}
