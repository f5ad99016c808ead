/* tests/tiers/suffix_files.c - the log's files: what comes back, whatever broke. */
#include "tests/suffix.h"

#include "arena/base/file_log.h"
#include "arena/base/hash.h"

#include <sys/wait.h>
#include <utime.h>

enum { CAP = 48 * 200 * 4, REQUESTS = 12, LENGTH = 90, ALL = REQUESTS * LENGTH };

static const u64 alice[2] = { 1, 11 }, bob[2] = { 2, 22 };
static u32 ids[STORE_CTX];

static const u32 *request(u64 n)
{
    store_draw(ids, LENGTH, 4000, 500 + n);
    return ids;
}

/* A request's pieces of 8 ids that the log knows. */
static u32 known(u64 n)
{
    u32 out[1], match, found = 0;
    request(n);
    for (u32 at = 0; at + 9 <= LENGTH; at += 8) {
        lookup_propose(&(struct lookup_context){ ids + at, 8 }, 1, out, &match);
        found += match == 8;
    }
    return found;
}

static void add_all(void)
{
    for (u64 n = 0; n < REQUESTS; n++) {
        suffix_log_add(request(n), LENGTH, n % 2 ? bob : alice);
        store_write();
    }
}

/* Every file's every word, in order: what the log is. */
static u64 log_hash(void)
{
    u64 hash = 0;
    for (u64 number = 1; number < 40; number++)
        for (u32 row = segment_next(0); row != NONE; row = segment_next(row + 1)) {
            const struct segment_row *r = segment_at(row);
            if (r->number != number || r->words.index == NONE) continue;
            hash = hash * 31 + hash_64(segment_memory(row), r->count * sizeof(u32));
        }
    return hash;
}

TEST(the_log_comes_back_word_for_word_and_goes_on)
{
    store_new_folder();
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    add_all();
    struct suffix_log_counts was = suffix_log_counts();
    u64 hash = log_hash(), number = segment_at(segment_next(0))->number;
    CHECK(was.files && was.segments > 4 && was.file_bytes == was.bytes);
    CHECK_EQ(number, 1);
    store_close();
    for (u32 round = 0; round < 2; round++) {
        store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
        store_settle();
        struct suffix_log_counts is = suffix_log_counts();
        CHECK_EQ(is.ids, was.ids);
        CHECK_EQ(is.segments, was.segments);
        CHECK_EQ(is.repaired + is.bad_files + is.removed, 0);
        CHECK_EQ(log_hash(), hash);
        for (u64 n = 0; n < REQUESTS; n++) CHECK(known(n) >= 8);
        if (round == 1) {                   /* the segment that was open still is             */
            suffix_log_add(request(77), LENGTH, alice);
            CHECK(suffix_log_counts().segments <= was.segments + 1);
            CHECK_EQ(suffix_log_counts().ids, was.ids + LENGTH);
        }
        store_close();
    }
    store_open(&(struct store_setup){ .cap_bytes = CAP / 8, .files = true });
    CHECK(suffix_log_counts().bytes <= CAP / 8);        /* a lower cap: the newest part       */
    store_settle();
    CHECK(known(77) >= 8 && known(0) == 0);
    store_close();
    store_remove_folder();
}

TEST(files_are_for_their_owner_alone_and_hold_ids_not_text)
{
    char path[FILE_PATH_BYTES];
    struct file_stat stat;
    struct file_list list;
    u32 files = 0;
    store_new_folder();
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    add_all();
    store_path("", path);
    CHECK_OK(file_stat(path, &stat));
    CHECK_EQ(stat.mode & 0777, 0700);
    CHECK_OK(file_list_open(path, &list));
    while (file_list_next(&list)) {
        store_path(list.name, path);
        CHECK_OK(file_stat(path, &stat));
        CHECK_EQ(stat.mode & 0777, 0600);
        CHECK(strstr(list.name, ".tmp") == NULL);
        files++;
    }
    file_list_close(&list);
    CHECK_EQ(files, suffix_log_counts().segments + 1);  /* and USED                           */
    store_close();
    store_path("", path);
    path[strlen(path) - 1] = 0;
    CHECK(chmod(path, 0755) == 0);                      /* others could look in: not read     */
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    CHECK(!suffix_log_counts().files && suffix_log_counts().ids == 0);
    store_close();
    CHECK(chmod(path, 0700) == 0);
    store_remove_folder();
}

TEST(the_log_follows_its_node_of_pool_nvme_while_it_runs)
{
    store_new_folder();
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    add_all();
    u32 node = budget_graph_find(&store_graph, "suffix-log");
    struct budget_node *n = &store_graph.node[node];
    CHECK_EQ(n->count_bytes, suffix_log_counts().file_bytes);
    CHECK_EQ(n->cap_bytes, CAP);
    CHECK_OK(budget_graph_cap(&store_graph, node, 4096));
    suffix_log_caps();
    store_write();
    CHECK(suffix_log_counts().bytes <= 4096 && suffix_log_counts().bytes > 2000);
    CHECK_EQ(n->count_bytes, suffix_log_counts().file_bytes);
    CHECK(known(REQUESTS - 1) >= 8);
    suffix_log_add(request(40), LENGTH, alice);
    CHECK(suffix_log_counts().bytes <= 4096 && known(40) >= 8);
    CHECK_OK(budget_graph_cap(&store_graph, node, 0));
    suffix_log_caps();
    suffix_log_add(request(41), LENGTH, alice);
    store_write();
    CHECK_EQ(suffix_log_counts().bytes + n->count_bytes, 0);
    CHECK_OK(budget_graph_cap(&store_graph, node, CAP));
    suffix_log_caps();
    suffix_log_add(request(42), LENGTH, alice);
    CHECK(known(42) >= 8);
    store_close();
    store_remove_folder();
}

/* ------------------------------------------------------------------ kills and faults */

/* A process that reads, adds, closes segments, clears, forgets.  Whether it had files. */
static bool script(void)
{
    store_open(&(struct store_setup){ .cap_bytes = CAP / 6, .files = true });
    bool files = suffix_log_counts().files;
    add_all();
    suffix_log_clear(bob);
    store_write();
    for (u64 n = 20; n < 24; n++) {
        suffix_log_add(request(n), LENGTH, alice);
        store_write();
    }
    suffix_log_flush();
    store_write();
    store_close();
    return files;
}

/* After anything: a clean start; every id is one that was added; no temporary file is left. */
static u64 sound_start(void)
{
    char path[FILE_PATH_BYTES];
    struct file_list list;
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    segment_check();
    CHECK(suffix_log_counts().files);
    store_path("", path);
    CHECK_OK(file_list_open(path, &list));
    while (file_list_next(&list)) CHECK(strstr(list.name, ".tmp") == NULL);
    file_list_close(&list);
    for (u32 row = segment_next(0); row != NONE; row = segment_next(row + 1)) {
        const u32 *words = segment_memory(row);
        for (u64 i = WORDS_FILE; i < segment_at(row)->count; i++)
            CHECK(!words_id(words[i]) || words[i] < STORE_VOCAB);
    }
    suffix_log_add(request(99), LENGTH, alice);         /* it goes on                         */
    store_write();
    CHECK(known(99) >= 8);
    u64 found = suffix_log_counts().found;
    store_close();
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    store_write();
    CHECK_EQ(suffix_log_counts().repaired + suffix_log_counts().bad_files, 0);
    CHECK(known(99) >= 8);
    store_close();
    return found;
}

TEST(killed_at_any_call_that_reaches_the_disk_the_log_is_readable)
{
    u32 n = 1;
    u64 found = 0, most = 0;
    for (bool fired = true; fired; n++) {               /* ends: no call is left to fail      */
        store_new_folder();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            test_alone();
            file_fail_as(n, FILE_FAULT_KILL);
            script();
            _exit(file_fail_left() == 0 ? 3 : 0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 3 || WEXITSTATUS(status) == 0));
        fired = WEXITSTATUS(status) == 3;
        found = sound_start();
        most = MAX(most, found);
        store_remove_folder();
    }
    CHECK(n > 100 && found > 300 && most > found);      /* killed before the clear: more      */
}

TEST(a_call_that_fails_costs_a_write_and_is_made_good)
{
    static const enum file_fault kinds[] = { FILE_FAULT_IO, FILE_FAULT_FULL, FILE_FAULT_SHORT };
    for (u32 k = 0; k < COUNT_OF(kinds); k++)
        for (u32 n = 1; n < 300; n += 7) {
            store_new_folder();
            file_fail_as(n, kinds[k]);
            bool files = script();
            file_fail_as(0, FILE_FAULT_NONE);
            u64 found = sound_start();
            CHECK(found > 0 || !files);     /* a start that fails: memory alone               */
            store_remove_folder();
        }
}

TEST(a_disk_that_takes_nothing_turns_the_files_off_and_not_the_log)
{
    store_new_folder();
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    for (u64 n = 0; n < 6; n++) {
        file_fail_as(1, FILE_FAULT_KILL);
        suffix_log_add(request(n), LENGTH, alice);
        store_settle();
        file_fail_as(0, FILE_FAULT_NONE);
    }
    CHECK(!suffix_log_counts().files && suffix_log_counts().write_failed >= 4);
    CHECK(known(0) >= 8 && known(5) >= 8);
    store_close();
    store_remove_folder();
}

/* ------------------------------------------------------------------ damage */

static u8 bytes[1 << 16];

TEST(damage_of_any_byte_costs_records_and_yields_no_other_id)
{
    char path[FILE_PATH_BYTES];
    u64 count, whole;
    store_new_folder();
    store_open(&(struct store_setup){ .cap_bytes = 48 * 400 * 4, .files = true });
    for (u64 n = 0; n < 3; n++) suffix_log_add(request(n), LENGTH, alice);
    store_settle();
    whole = suffix_log_counts().ids;
    store_close();
    store_path("s-0000000000000001", path);
    CHECK_OK(file_read(path, bytes, sizeof bytes, &count));
    CHECK_EQ(whole, 3 * LENGTH);
    for (u64 at = 0; at < count; at++) {
        u8 kept = bytes[at];
        bytes[at] = (u8)(kept ^ (1 + rng_u64(5, at) % 255));
        CHECK_OK(file_commit(path, bytes, count, 0600));
        bytes[at] = kept;
        store_open(&(struct store_setup){ .cap_bytes = 48 * 400 * 4, .files = true });
        segment_check();
        struct suffix_log_counts c = suffix_log_counts();
        CHECK_EQ(c.repaired + c.bad_files, 1);
        CHECK(c.ids == 0 || c.ids == LENGTH || c.ids == 2 * LENGTH);
        CHECK_EQ(c.ids / LENGTH, at < 64 ? 0 : (at - 64) / (4 * (LENGTH + WORDS_RECORD)));
        for (u64 n = 0; n < 3; n++) CHECK_EQ(known(n) >= 8, n < c.ids / LENGTH);
        store_close();
    }
    for (u64 cut = 0; cut < count; cut += 1 + cut % 7) {        /* and of any end             */
        CHECK_OK(file_commit(path, bytes, cut, 0600));
        store_open(&(struct store_setup){ .cap_bytes = 48 * 400 * 4, .files = true });
        segment_check();
        CHECK_EQ(suffix_log_counts().ids % LENGTH, 0);
        store_close();
    }
    store_remove_folder();
}

TEST(what_does_not_belong_there_goes_and_what_is_of_others_is_not_read)
{
    char path[FILE_PATH_BYTES], old[FILE_PATH_BYTES], young[FILE_PATH_BYTES];
    struct utimbuf long_ago = { 0, 0 };
    store_new_folder();
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    add_all();
    store_close();
    store_path("s-0000000000000001.12-3.tmp", path);
    CHECK_OK(file_commit(path, "x", 1, 0600));
    store_path("s-00000000000000ff", path);             /* named otherwise than it says       */
    store_path("s-0000000000000002", old);
    u64 count;
    CHECK_OK(file_read(old, bytes, sizeof bytes, &count));
    CHECK_OK(file_commit(path, bytes, count, 0600));
    CHECK_OK(file_join(store_folder, "ids-99999999999999999999999999999999", old));
    CHECK_OK(file_join(store_folder, "ids-88888888888888888888888888888888", young));
    CHECK(mkdir(old, 0700) == 0 && mkdir(young, 0700) == 0);
    long_ago.actime = long_ago.modtime = (time_t)(clock_wall_s() - 8 * STORE_DAY);
    CHECK(utime(old, &long_ago) == 0);
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    CHECK_EQ(suffix_log_counts().removed, 1);
    CHECK_EQ(suffix_log_counts().bad_files, 1);
    CHECK(!file_exists(old) && file_exists(young));
    store_close();
    store_tokenizer[0] = 77;                            /* another tokenizer: its own folder  */
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    CHECK(suffix_log_counts().files && suffix_log_counts().ids == 0);
    store_close();
    store_tokenizer[0] = 1;
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    CHECK_EQ(suffix_log_counts().ids, ALL);
    store_close();
    store_remove_folder();
}

/* ------------------------------------------------------------------ clear */

static void only_alice(u64 expected)
{
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    store_settle();
    CHECK_EQ(suffix_log_counts().ids, expected);
    for (u64 n = 0; n < REQUESTS; n++) CHECK(n % 2 ? known(n) == 0 : known(n) >= 8);
    store_close();
}

/* No word of a session is anywhere in the folder's files. */
static void no_trace(const u64 session[2])
{
    char path[FILE_PATH_BYTES];
    struct file_list list;
    u64 count;
    store_path("", path);
    CHECK_OK(file_list_open(path, &list));
    while (file_list_next(&list)) {
        store_path(list.name, path);
        CHECK_OK(file_read(path, bytes, sizeof bytes, &count));
        if (list.name[0] == 's')
            CHECK_EQ(words_of_session((const u32 *)(const void *)bytes, count / 4, session), 0);
    }
    file_list_close(&list);
}

TEST(clear_of_a_session_rewrites_the_files_without_it)
{
    for (u32 way = 0; way < 3; way++) {
        store_new_folder();
        store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
        for (u64 n = 0; n < REQUESTS; n++) {
            suffix_log_add(request(n), LENGTH, n % 2 ? bob : alice);
            if (way == 0) store_settle();   /* 1: writes are under way; 2: builds too         */
            if (way == 2) suffix_log_pass(clock_us());
        }
        CHECK(suffix_log_clear(bob) >= ALL / 2 * 4);
        store_settle();
        store_close();
        no_trace(bob);
        only_alice(ALL / 2);
        store_remove_folder();
    }
}

TEST(a_folder_is_cleared_without_a_server)
{
    static u32 work[SEGMENT_WORDS_MAX];
    static const u64 nobody[2] = { 8, 8 };
    struct folder_cleared cleared;
    u64 was, is;
    store_new_folder();
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    add_all();
    store_close();
    CHECK_OK(suffix_folder_bytes(store_folder, &was));
    CHECK_OK(suffix_folder_clear(store_folder, nobody, work, &cleared));
    CHECK_EQ(cleared.ids + cleared.bytes, 0);
    CHECK_OK(suffix_folder_clear(store_folder, bob, work, &cleared));
    CHECK_EQ(cleared.ids, ALL / 2);
    CHECK_OK(suffix_folder_bytes(store_folder, &is));
    CHECK_EQ(was - is, cleared.bytes);
    no_trace(bob);
    only_alice(ALL / 2);
    CHECK_OK(suffix_folder_clear(store_folder, NULL, work, &cleared));
    CHECK(cleared.bytes > ALL / 2 * 4);
    CHECK_OK(suffix_folder_bytes(store_folder, &is));
    CHECK_EQ(is, 0);
    store_remove_folder();
}

TEST(memory_that_was_yielded_comes_back_at_the_next_start)
{
    static struct budget_record record[SEGMENT_ROWS];
    static struct budget_plan plan;
    store_new_folder();
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    add_all();
    u32 victims = segment_victims(record, SEGMENT_ROWS);
    u32 node = budget_graph_find(&store_graph, "suffix");
    CHECK(victims > 3);
    CHECK_OK(budget_gate_set(&store_graph, node, store_graph.node[node].used_bytes / 2,
        &(struct budget_ask){ .records = record, .record_count = victims }, &plan));
    struct suffix_log_counts c = suffix_log_counts();
    CHECK(c.stored > 0 && c.yielded == c.stored && c.ids == ALL);
    u32 found = 0;
    for (u64 n = 0; n < REQUESTS; n++) found += known(n) >= 8;
    CHECK(found > 0 && found < REQUESTS);
    u64 bytes_of = c.file_bytes;
    store_close();
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    store_settle();
    CHECK_EQ(suffix_log_counts().stored, 0);
    CHECK_EQ(suffix_log_counts().file_bytes, bytes_of);
    for (u64 n = 0; n < REQUESTS; n++) CHECK(known(n) >= 8);
    victims = segment_victims(record, SEGMENT_ROWS);    /* a clear can't look into those      */
    CHECK_OK(budget_gate_set(&store_graph, node, 0, &(struct budget_ask){
        .records = record, .record_count = victims }, &plan));
    CHECK(suffix_log_counts().stored > 3);
    suffix_log_clear(bob);
    CHECK_EQ(suffix_log_counts().stored, 0);
    store_settle();
    store_close();
    no_trace(bob);
    store_remove_folder();
}

/* One session's words in a file, more of them that could not be written; and the cap of its node
 * lowered to nothing then, or not. */
static void half_written(bool cap)
{
    static struct budget_record record[SEGMENT_ROWS];
    static struct budget_plan plan;
    u32 node = budget_graph_find(&store_graph, "suffix");
    suffix_log_add(request(0), LENGTH, bob);
    store_write();
    file_fail_as(1, FILE_FAULT_IO);
    suffix_log_add(request(1), LENGTH / 2, bob);
    store_write();
    file_fail_as(0, FILE_FAULT_NONE);
    CHECK(suffix_log_counts().write_failed == 1 && suffix_log_counts().file_bytes == 0);
    if (!cap) return;
    u32 victims = segment_victims(record, SEGMENT_ROWS);
    CHECK_OK(budget_gate_set(&store_graph, node, 0, &(struct budget_ask){
        .records = record, .record_count = victims }, &plan));
    CHECK_EQ(store_graph.node[node].used_bytes, 0);
    CHECK_EQ(suffix_log_counts().stored, 1);
}

/* A cap holds, also while the disk takes nothing; what its file had before is there again. */
TEST(a_segment_whose_write_failed_is_yielded_and_its_file_is_not_forgotten)
{
    for (u32 way = 0; way < 3; way++) {                 /* a start; a clear; one without cap  */
        store_new_folder();
        store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
        half_written(way < 2);
        segment_check();
        if (way > 0) CHECK(suffix_log_clear(bob) > 0);
        store_settle();
        store_close();
        if (way > 0) no_trace(bob);
        store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
        store_settle();
        CHECK((known(0) > 0) == (way == 0));
        CHECK_EQ(known(1), 0);
        store_close();
        store_remove_folder();
    }
}

/* Writes failed so often that none is tried again; what the file had before goes all the same. */
TEST(a_clear_while_files_are_off_leaves_no_trace_on_disk)
{
    store_new_folder();
    store_open(&(struct store_setup){ .cap_bytes = CAP, .files = true });
    suffix_log_add(request(0), LENGTH, bob);
    store_write();
    file_fail_as(1, FILE_FAULT_IO);
    for (u32 i = 1; suffix_log_counts().files; i++) {
        CHECK(i < 64);
        suffix_log_add(request(i), LENGTH / 4, bob);
        store_write();
        file_fail_as(1, FILE_FAULT_IO);
    }
    file_fail_as(0, FILE_FAULT_NONE);
    CHECK(suffix_log_clear(bob) > 0);
    store_settle();
    store_close();
    no_trace(bob);
    store_remove_folder();
}
