/* tiers/suffix/log.c - adding, forgetting, files, arrays. */
#include "tiers/suffix/log.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "tiers/suffix/array.h"
#include "tiers/suffix/builder.h"
#include "tiers/suffix/folder.h"
#include "tiers/suffix/recent.h"

#include <string.h>

enum { PIECE_MIN = 16,                  /* a segment with less room is closed                 */
       FAILS_MAX = 4,                   /* writes that failed one after the other             */
       RETRY_US = 10000000 };           /* a refused build or write is tried again            */

static struct {
    struct suffix_log_setup set;
    char folder[FILE_PATH_BYTES];
    u64 cap_words, segment_words, last_number;
    u32 node;                           /* suffix-log, or NONE                                */
    u32 open;                           /* segment that is written to, or NONE                */
    u32 fails;
    u64 doomed[SEGMENT_ROWS];           /* numbers of files that go, not yet queued           */
    u32 doomed_count;
    extent_id work, array;              /* of the build under way                             */
    u64 build_after_us, flush_after_us;
    bool on, files, unsorted, unwritten;
    struct suffix_log_counts counts;
} own;

enum err suffix_log_declare(struct budget_graph *g, u64 cap_bytes, u64 arena_bytes)
{
    const char *parent = budget_graph_find(g, "nvme") == NONE ? NULL : "nvme";
    TRY(segment_declare(g, arena_bytes));
    if (cap_bytes == 0) return OK;
    return budget_graph_declare(g, &(struct budget_decl){
        .name = "suffix-log", .parent = parent, .pool = POOL_NVME, .node_class = CLASS_CACHE,
        .used = USED_COUNT, .cap_bytes = cap_bytes }, NULL);
}

u64 suffix_log_table_bytes(u64 cap_bytes, u64 corpus_bytes, u64 ctx)
{
    if (cap_bytes + corpus_bytes == 0) return 0;
    return segment_table_bytes() + recent_table_bytes(ctx);
}

/* ------------------------------------------------------------------ files */

/* What node `suffix-log` is charged. */
static void count_files(void)
{
    u64 words = 0;
    if (own.node == NONE) return;
    for (u32 row = segment_next(0); own.files && row != NONE; row = segment_next(row + 1))
        if (segment_at(row)->state != SEGMENT_GONE) words += segment_at(row)->written;
    budget_graph_count(own.set.graph, own.node, words * sizeof(u32));
}

static void files_off(const char *why)
{
    own.files = false;
    log_line(LOG_LEVEL_WARN, "suffix store: it is in memory alone from now on: %s", why);
}

static bool submit(struct writer_ask ask, u64 number)
{
    suffix_folder_name(number, ask.name);
    ask.folder = own.folder;
    return writer_submit(&ask);
}

/* Queues removals; files of the same number may be written only behind them. */
static bool remove_doomed(void)
{
    while (own.doomed_count > 0) {      /* ends: one less each time                           */
        struct writer_ask ask = { .kind = WRITER_REMOVE, .owner = NONE };
        if (!submit(ask, own.doomed[own.doomed_count - 1])) return false;
        own.doomed_count--;
    }
    return true;
}

static void write_later(void)
{
    own.unwritten = true;
    own.flush_after_us = clock_us() + RETRY_US;
}

static void doom(u64 number)
{
    if (own.doomed_count == SEGMENT_ROWS) {
        log_line(LOG_LEVEL_WARN, "suffix store: a file can't be removed: the writer has no room");
        return;
    }
    own.doomed[own.doomed_count++] = number;
    if (!remove_doomed()) write_later();
}

/* Queues what the file lacks: the whole image when there is none, else the rest. */
static void flush(u32 row)
{
    struct segment_row *r = segment_at(row);
    if (!own.files || r->corpus || r->writing > 0 || r->count == r->written) return;
    if (r->words.index == NONE || r->count == WORDS_FILE || r->state == SEGMENT_GONE) return;
    struct writer_ask ask = {
        .kind = r->written == 0 ? WRITER_BLOB : WRITER_APPEND, .owner = row,
        .bytes = segment_memory(row) + r->written, .offset = r->written * sizeof(u32),
        .byte_count = (r->count - r->written) * sizeof(u32) };
    if (!remove_doomed() || !submit(ask, r->number)) {
        write_later();
        return;
    }
    r->filed = true;
    r->writing = r->count;
    r->holds++;
}

void suffix_log_flush(void)
{
    own.unwritten = false;
    if (!own.on) return;
    if (!remove_doomed()) write_later();
    for (u32 row = segment_next(0); row != NONE; row = segment_next(row + 1)) flush(row);
}

void suffix_log_written(const struct writer_answer *answer)
{
    bool failed = answer->err != OK;
    own.counts.write_failed += failed;
    if (answer->owner == NONE) return;
    struct segment_row *r = segment_at(answer->owner);
    r->written = failed ? 0 : r->writing;       /* failed: the whole image next time          */
    r->writing = 0;
    own.fails = failed ? own.fails + 1 : 0;
    bool gone = r->state == SEGMENT_GONE;
    segment_release(answer->owner);
    if (own.files && own.fails == FAILS_MAX) files_off("writes failed again and again");
    if (failed) write_later();
    if (!gone && !failed) flush(answer->owner);
    count_files();
}

/* ------------------------------------------------------------------ forgetting */

/* A segment of the log: not of the corpus, not on its way out. */
static bool counts_in(u32 row)
{
    return !segment_at(row)->corpus && segment_at(row)->state != SEGMENT_GONE;
}

static u64 log_words(u32 *rows_out)
{
    u64 words = 0;
    *rows_out = 0;
    for (u32 row = segment_next(0); row != NONE; row = segment_next(row + 1)) {
        if (!counts_in(row)) continue;
        words += segment_at(row)->count;
        ++*rows_out;
    }
    return words;
}

static void forget(u32 row)
{
    struct segment_row *r = segment_at(row);
    if (r->filed) doom(r->number);
    if (own.open == row) own.open = NONE;
    segment_forget(row);
    count_files();
}

static u32 oldest(void)
{
    u32 first = NONE;
    for (u32 row = segment_next(0); row != NONE; row = segment_next(row + 1)) {
        if (!counts_in(row)) continue;
        if (first == NONE || segment_at(row)->number < segment_at(first)->number) first = row;
    }
    return first;
}

/* Over the cap, or out of rows: the oldest half goes. */
static void forget_half(void)
{
    u32 rows, row;
    u64 words = log_words(&rows);
    while (rows > 0 && (words > own.cap_words / 2 || rows > SEGMENT_STORE / 2)) {
        row = oldest();                 /* ends: one row less each time                       */
        words -= segment_at(row)->count;
        own.counts.forgotten += segment_at(row)->ids;
        forget(row);
        rows--;
    }
}

void suffix_log_caps(void)
{
    u32 rows;
    if (!own.on || own.node == NONE) return;
    u64 cap = own.set.graph->node[own.node].cap_bytes;
    own.cap_words = cap < SUFFIX_LOG_CAP_MIN ? 0 : cap / sizeof(u32);
    if (own.cap_words < 2 * own.segment_words) own.cap_words = 0;
    while (log_words(&rows) > own.cap_words) {          /* ends: one row less each time       */
        u32 row = oldest();
        own.counts.forgotten += segment_at(row)->ids;
        forget(row);
    }
}

/* ------------------------------------------------------------------ adding */

static void close_segment(u32 row)
{
    own.open = NONE;
    segment_at(row)->state = SEGMENT_CLOSED;
    own.unsorted = true;
}

/* The segment that was written to may have been yielded. */
static void drop_yielded(void)
{
    if (own.open != NONE && segment_at(own.open)->state != SEGMENT_OPEN) own.open = NONE;
}

/* A segment with room for a piece, or NONE. */
static u32 writable(void)
{
    u32 rows;
    u64 words = log_words(&rows);
    drop_yielded();
    if (words + own.segment_words > own.cap_words || rows == SEGMENT_STORE) {
        bool full = own.open == NONE || words + WORDS_RECORD + PIECE_MIN > own.cap_words;
        if (full) forget_half();
    }
    if (own.open != NONE) return own.open;
    u32 row = segment_take(own.segment_words, true);
    if (row == NONE) return NONE;
    segment_at(row)->number = ++own.last_number;
    words_begin(segment_memory(row), own.set.tokenizer, own.set.vocab, own.last_number);
    own.open = row;
    return row;
}

void suffix_log_add(const u32 *ids, u64 count, const u64 session[2])
{
    u32 rows;
    if (!own.on || own.cap_words == 0) return;      /* off, or its cap was taken away         */
    own.counts.requests++;
    u64 at = recent_add(ids, count, session);
    own.counts.repeated += at;
    while (count - at >= SUFFIX_LOG_LEAST) {            /* ends: `at` grows                   */
        u32 row = writable();
        if (row == NONE) break;
        struct segment_row *r = segment_at(row);
        u64 room = MIN(r->cap - r->count, own.cap_words - log_words(&rows)) - WORDS_RECORD;
        u32 piece = (u32)MIN(count - at, room);
        segment_put(row, session, ids + at, piece);
        at += piece;
        own.counts.added += piece;
        if (r->cap - r->count < WORDS_RECORD + PIECE_MIN) close_segment(row);
        flush(row);
    }
    if (count - at >= SUFFIX_LOG_LEAST) own.counts.refused += count - at;
}

enum err suffix_log_corpus(const u32 *ids, u64 count)
{
    static const u64 nobody[2] = { 0, 0 };
    const u64 most = SEGMENT_WORDS_MAX - WORDS_FILE - WORDS_RECORD;
    if (!own.on) return fail(ERR_UNSUPPORTED, "the suffix store is off");
    if (count > SEGMENT_CORPUS * most)
        return fail(ERR_LIMIT, "%llu ids, at most %llu", (ull)count, (ull)(SEGMENT_CORPUS * most));
    for (u64 at = 0; at < count; at += most) {
        u32 piece = (u32)MIN(count - at, most), row;
        row = segment_take(piece + WORDS_FILE + WORDS_RECORD, false);
        if (row == NONE) return fail(ERR_MEMORY, "no memory for %llu ids", (ull)count);
        segment_at(row)->corpus = true;
        words_begin(segment_memory(row), own.set.tokenizer, own.set.vocab, 0);
        segment_put(row, nobody, ids + at, piece);
        segment_at(row)->state = SEGMENT_CLOSED;
    }
    own.unsorted = true;
    return OK;
}

/* ------------------------------------------------------------------ arrays */

static void take_array(const struct builder_job *job)
{
    struct segment_row *r = segment_at(job->owner);
    bool use = job->err == OK && r->state == SEGMENT_CLOSED;
    r->building = false;
    segment_give(&own.work);
    own.counts.builds += job->err == OK;
    own.counts.build_failed += job->err != OK;
    own.counts.build_us += job->us;
    own.counts.build_us_max = MAX(own.counts.build_us_max, job->us);
    if (job->err != OK) own.build_after_us = clock_us() + RETRY_US;
    if (use) segment_sorted(job->owner, own.array, job->places);
    else segment_give(&own.array);
    own.array = (extent_id){ NONE, 0 };
    own.unsorted = true;
    segment_release(job->owner);
}

/* The newest closed segment without an array, or NONE. */
static u32 next_to_sort(void)
{
    u32 best = NONE;
    for (u32 row = segment_next(0); row != NONE; row = segment_next(row + 1)) {
        const struct segment_row *r = segment_at(row);
        if (r->state != SEGMENT_CLOSED || r->array.index != NONE || r->building) continue;
        if (best == NONE || r->number > segment_at(best)->number) best = row;
    }
    return best;
}

static bool start_build(u64 now_us)
{
    u32 row = next_to_sort();
    own.unsorted = row != NONE;
    if (row == NONE) return false;
    struct segment_row *r = segment_at(row);
    u64 count = r->count - WORDS_FILE;
    struct segment_piece piece[] = { { ALIGN_UP(count * ARRAY_WORK_BYTES, sizeof(u32)), &own.work },
                                     { array_words(count) * sizeof(u32), &own.array } };
    if (!segment_gate(piece, COUNT_OF(piece))) {
        own.build_after_us = now_us + RETRY_US;
        return false;
    }
    bool taken = builder_submit(&(struct builder_job){
        .owner = row, .words = segment_memory(row) + WORDS_FILE, .count = count,
        .work = segment_address(own.work), .out = segment_address(own.array) });
    ASSERT(taken);                      /* none was under way                                 */
    r->building = true;
    r->holds++;
    return true;
}

bool suffix_log_pass(u64 now_us)
{
    struct builder_job job;
    bool moved = false;
    if (!own.on) return false;
    if (own.unwritten && now_us >= own.flush_after_us) suffix_log_flush();
    if (!own.set.thread) builder_step();
    if (builder_done(&job)) {
        take_array(&job);
        moved = true;
    }
    if (own.unsorted && !builder_busy() && now_us >= own.build_after_us)
        moved = start_build(now_us) || moved;
    return moved;
}

/* ------------------------------------------------------------------ clear */

static u64 clear_row(u32 row, const u64 session[2])
{
    struct segment_row *r = segment_at(row);
    u64 words = r->count, number = r->number, ids = r->ids;
    bool open = own.open == row, filed = r->filed;
    bool whole = session == NULL || r->state == SEGMENT_STORED;
    if (!whole && words_of_session(segment_memory(row), words, session) == 0) return 0;
    u32 left = NONE;
    if (whole) forget(row);
    else left = segment_cut(row, session);
    if (left == NONE && !whole && filed) doom(number);
    if (open) own.open = left;
    u64 left_words = left == NONE ? 0 : segment_at(left)->count;
    own.counts.cleared += ids - (left == NONE ? 0 : segment_at(left)->ids);
    own.unsorted = true;
    if (left != NONE) flush(left);
    return (words - left_words) * sizeof(u32);
}

u64 suffix_log_clear(const u64 session[2])
{
    u64 bytes = 0;
    if (!own.on) return 0;
    recent_clear(session);
    drop_yielded();
    for (u32 row = segment_next(0); row != NONE; row = segment_next(row + 1))
        if (counts_in(row)) bytes += clear_row(row, session);
    count_files();
    return bytes;
}

struct suffix_log_counts suffix_log_counts(void)
{
    struct suffix_log_counts c = own.counts;
    for (u32 row = segment_next(0); own.on && row != NONE; row = segment_next(row + 1)) {
        const struct segment_row *r = segment_at(row);
        if (r->corpus) c.corpus += r->ids;
        if (!counts_in(row)) continue;
        c.segments++;
        c.sorted += r->array.index != NONE;
        c.stored += r->state == SEGMENT_STORED;
        c.ids += r->ids;
        c.bytes += r->count * sizeof(u32);
        c.file_bytes += r->written * sizeof(u32);
    }
    c.memory_bytes = own.on ? arena_row(arena_find("suffix"))->used_bytes : 0;
    c.yielded = segment_yielded();
    c.memory_refused = segment_refused();
    c.files = own.files;
    return c;
}

/* ------------------------------------------------------------------ start */

/* A file's segment; rows come newest first, only the first may be written to again. */
static enum err load(const struct folder_file *file, bool newest)
{
    char name[FOLDER_NAME_BYTES], path[FILE_PATH_BYTES];
    u64 bytes = 0, number, words = (file->bytes + 3) / sizeof(u32), ids = 0;
    suffix_folder_name(file->number, name);
    TRY(file_join(own.folder, name, path));
    bool open = newest && words + WORDS_RECORD + PIECE_MIN <= own.segment_words;
    u32 row = segment_take(MAX(open ? own.segment_words : words, (u64)SEGMENT_WORDS_MIN), open);
    if (row == NONE) return segment_stored(file->number, words);    /* no memory              */
    u32 *to = segment_memory(row);
    enum err err = file->bytes > FOLDER_WORK_BYTES ? fail(ERR_LIMIT, "it is too long")
                   : file_read(path, to, words * sizeof *to, &bytes);
    if (err == OK) err = words_check(to, bytes, own.set.tokenizer, own.set.vocab, &number);
    if (err == OK && number != file->number) err = fail(ERR_FORMAT, "it is of another number");
    u64 valid = err == OK ? words_valid(to, bytes / sizeof *to, own.set.vocab, &ids) : 0;
    if (err == ERR_IO) {                /* it may be read another time                        */
        log_line(LOG_LEVEL_WARN, "suffix store: %s", err_last()->text);
        segment_forget(row);
        return segment_stored(file->number, words);
    }
    if (valid <= WORDS_FILE) {
        log_line(LOG_LEVEL_WARN, "suffix store: %s goes: %s", path,
                 err == OK ? "no record in it is whole" : err_last()->text);
        own.counts.bad_files++;
        segment_forget(row);
        return file_remove(path);
    }
    struct segment_row *r = segment_at(row);
    r->number = file->number;
    r->count = r->written = valid;
    r->filed = true;
    r->ids = ids;
    own.counts.found += ids;
    if (valid * sizeof *to < file->bytes) {
        own.counts.repaired++;
        TRY(file_commit(path, to, valid * sizeof *to, 0600));
    }
    if (open) segment_rechain(row);
    else r->state = SEGMENT_CLOSED;
    if (open) own.open = row;
    own.unsorted = true;
    return OK;
}

static enum err open_files(void)
{
    struct folder_file file[SEGMENT_STORE];
    u32 count = 0, removed = 0;
    TRY(suffix_folder_open(own.set.cache_dir, own.set.tokenizer, (u64)clock_wall_s(), own.folder));
    TRY(suffix_folder_list(own.folder, file, SEGMENT_STORE, &count, &removed));
    own.counts.removed = removed;
    if (count > 0) own.last_number = file[count - 1].number;
    for (u32 i = count; i-- > 0;) TRY(load(&file[i], i + 1 == count));
    return OK;
}

enum err suffix_log_open(const struct suffix_log_setup *setup)
{
    memset(&own, 0, sizeof own);
    own.set = *setup;
    own.open = own.node = NONE;
    own.work = own.array = (extent_id){ NONE, 0 };
    own.cap_words = setup->cap_bytes / sizeof(u32);
    own.segment_words = segment_words(setup->cap_bytes);
    ASSERT(own.cap_words == 0 || setup->cap_bytes >= SUFFIX_LOG_CAP_MIN);
    if (setup->vocab > WORDS_ID_CAP)
        return fail(ERR_UNSUPPORTED, "a vocabulary of %u ids", setup->vocab);
    TRY(segment_open(setup->table_arena, setup->graph));
    TRY(recent_open(setup->table_arena, setup->ctx));
    TRY(builder_open(setup->wake, setup->thread));
    own.on = true;
    own.node = budget_graph_find(setup->graph, "suffix-log");
    if (own.cap_words == 0 || setup->cache_dir[0] == 0) return OK;
    own.files = true;
    u32 rows;
    if (open_files() != OK) files_off(err_last()->text);
    if (log_words(&rows) > own.cap_words) forget_half();
    count_files();
    log_line(LOG_LEVEL_INFO, "suffix store: %llu ids in %u segments", (ull)own.counts.found, rows);
    return OK;
}

void suffix_log_close(void)
{
    if (!own.on) return;
    if (own.node != NONE) budget_graph_count(own.set.graph, own.node, 0);
    builder_close();
    segment_give(&own.work);
    segment_give(&own.array);
    recent_close();
    segment_close();
    memset(&own, 0, sizeof own);
}
