/* tiers/nvme/reader.c - read rows, and the thread that carries them out. */
#include "tiers/nvme/reader.h"

#include "arena/base/clock.h"
#include "arena/base/crc32.h"
#include "arena/base/file_log.h"
#include "arena/base/log.h"
#include "arena/heap.h"
#include "arena/table.h"

#include <pthread.h>
#include <string.h>

enum { READER_POLL_US = 1000000 };

struct read_row {
    struct reader_ask ask;
    struct reader_answer answer;
    u8  **to;                           /* addresses of the blocks, or of the unit            */
    bool used;
};

static struct {
    struct reader_setup set;
    const struct state_shape *shape;
    struct read_row *row;
    u8 **addrs;                         /* [row_cap][G / B], taken by the engine thread       */
    u8 *bounce;
    u64 bounce_bytes;
    struct ring todo, done;
    struct ring_cell *todo_cell, *done_cell;
    struct ring_wake wake;
    _Atomic bool stop;
    pthread_t thread;
    u32 pending, next;
    struct reader_counts counts;
} own;

static u64 bounce_bytes_of(const struct state_shape *shape)
{
    u64 keys = ALIGN_UP(shape->grid_rows * sizeof(u64), FILE_PAGE_BYTES);
    return MAX(ALIGN_UP(shape->block_bytes, FILE_PAGE_BYTES), MAX(keys, (u64)FORMAT_PART_AREA));
}

u64 reader_table_bytes(const struct state_shape *shape, u32 row_cap)
{
    u64 row = sizeof(struct read_row) + 2 * sizeof(struct ring_cell) +
              shape->grid_rows / shape->block_rows * sizeof(u8 *);
    return row * row_cap + bounce_bytes_of(shape) + FILE_PAGE_BYTES + 5 * 64;
}

/* ------------------------------------------------------------------ the thread's side */

/* Head, parts and key ids: everything that is looked at before rows or sections are read. */
static enum err read_front(int fd, const struct reader_ask *ask, u64 file_bytes,
                           struct format_head *head, struct format_part part[FORMAT_PART_CAP])
{
    TRY(file_read_at(fd, 0, own.bounce, FILE_PAGE_BYTES));
    TRY(format_check(own.shape, own.set.place->id, own.bounce, file_bytes, head));
    if (head->kind != (u32)ask->kind || memcmp(head->name, ask->hash, sizeof head->name) != 0 ||
        head->lo != ask->lo || head->hi != ask->hi)
        return fail(ERR_FORMAT, "it is another file than its name says");
    TRY(file_read_at(fd, head->part_offset, own.bounce, head->key_offset - head->part_offset));
    TRY(format_check_parts(own.shape, head, own.bounce));
    memcpy(part, own.bounce, head->part_count * sizeof *part);
    u64 key_bytes = head->data_offset - head->key_offset;
    TRY(file_read_at(fd, head->key_offset, own.bounce, key_bytes));
    u32 crc = crc32_of(own.bounce, key_bytes);
    if (crc != head->key_crc)
        return fail(ERR_CRC, "key ids: crc %08x, not %08x", crc, head->key_crc);
    u64 asked = (ask->rows_hi - ask->lo) * sizeof(u64);
    if (ask->learn != NULL) memcpy(ask->learn, own.bounce, asked);
    else if (memcmp(own.bounce, ask->keys, asked) != 0)
        return fail(ERR_STALE, "its key ids are not the prompt's");
    return OK;
}

/* Blocks of rows [lo, rows_hi) to their places, further ones past them for their checksum. */
static enum err read_blocks(int fd, const struct read_row *row, const struct format_head *head,
                            struct format_part *sum)
{
    u64 b = own.shape->block_rows, unit = own.shape->block_bytes;
    for (u64 at = 0; at * b < head->hi - head->lo; at++) {
        bool wanted = at * b < row->ask.rows_hi - row->ask.lo;
        u8 *to = wanted ? row->to[at] : own.bounce;
        bool bounce = (uintptr_t)to % FILE_PAGE_BYTES != 0;
        u8 *into = bounce ? own.bounce : to;
        TRY(file_read_at(fd, head->data_offset + at * unit, into, unit));
        format_crc(sum, head->part_count, into, 0, unit);
        if (bounce) memcpy(to, into, unit);
    }
    return OK;
}

static enum err read_unit(int fd, u8 *to, const struct format_head *head, struct format_part *sum)
{
    u64 whole = own.shape->section_bytes;
    for (u64 at = 0; at < head->data_bytes; at += own.bounce_bytes) {
        u64 bytes = MIN(head->data_bytes - at, own.bounce_bytes);
        TRY(file_read_at(fd, head->data_offset + at, own.bounce, bytes));
        format_crc(sum, head->part_count, own.bounce, at, bytes);
        memcpy(to + at, own.bounce, MIN(whole - MIN(whole, at), bytes));
    }
    return OK;
}

static enum err read_file(int fd, const struct read_row *row, u64 file_bytes)
{
    const struct reader_ask *ask = &row->ask;
    struct format_head head;
    struct format_part part[FORMAT_PART_CAP], sum[FORMAT_PART_CAP];
    TRY(read_front(fd, ask, file_bytes, &head, part));
    format_parts(own.shape, ask->kind, sum);
    if (ask->kind != FORMAT_ANCHOR) {
        TRY(read_blocks(fd, row, &head, sum));
    } else {
        TRY(read_unit(fd, row->to[0], &head, sum));
    }
    for (u32 i = 0; i < head.part_count; i++)
        if (sum[i].crc != part[i].crc && !FAULT(FAULT_CRC_UNCHECKED))
            return fail(ERR_CRC, "part \"%.16s\": crc %08x, not %08x", part[i].name, sum[i].crc,
                        part[i].crc);
    return OK;
}

static enum err read_blob(const char *path, u64 file_bytes, struct reader_blob *blob)
{
    if (file_bytes > blob->cap_bytes)
        return fail(ERR_LIMIT, "it is %llu bytes long", (ull)file_bytes);
    u8 *bytes = arena_heap_alloc(file_bytes + 1);
    if (bytes == NULL) return fail(ERR_MEMORY, "no memory for %llu bytes", (ull)file_bytes);
    enum err err = file_read(path, bytes, file_bytes, &blob->count);
    if (err == OK) blob->bytes = bytes;
    else arena_heap_free(bytes);
    return err;
}

static void carry_out(struct read_row *row)
{
    const struct reader_ask *ask = &row->ask;
    char piece[FORMAT_NAME_BYTES], path[FILE_PATH_BYTES];
    const char *name = ask->blob != NULL ? ask->blob->name : piece;
    struct file_stat stat = { 0 };
    u64 from_us = clock_us();
    int fd = -1;
    if (ask->blob == NULL) format_name(ask->kind, ask->hash, piece);
    enum err err = file_join(own.set.place->folder, name, path);
    if (err == OK) err = file_stat(path, &stat);
    if (ask->blob != NULL) {
        if (err == OK) err = read_blob(path, stat.bytes, ask->blob);
    } else {
        if (err == OK) err = file_open_direct(path, &fd);
        if (err == OK) err = read_file(fd, row, stat.bytes);
    }
    file_close(fd);
    if (err != OK) log_line(LOG_LEVEL_WARN, "cache file %s: %s", name, err_last()->text);
    row->answer = (struct reader_answer){ .owner = ask->owner, .piece = ask->piece, .err = err,
                                          .bytes = stat.bytes, .us = clock_us() - from_us };
}

bool reader_step(void)
{
    u32 index;
    if (!ring_pop(&own.todo, &index)) return false;
    bool watched = file_log_watch(false);       /* without a thread: it stands for one        */
    carry_out(&own.row[index]);
    file_log_watch(watched);
    bool pushed = ring_push(&own.done, index);
    ASSERT(pushed);                     /* as many cells as rows                              */
    return true;
}

static void *run(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&own.stop)) {
        u32 seen = ring_word(&own.wake);
        while (reader_step()) continue;
        if (!atomic_load(&own.stop)) ring_wait(&own.wake, seen, clock_us() + READER_POLL_US);
    }
    return NULL;
}

/* ------------------------------------------------------------------ the engine's side */

enum err reader_open(const struct reader_setup *setup)
{
    const struct state_shape *shape = state_shape();
    u32 cap = setup->row_cap, blocks = shape->grid_rows / shape->block_rows;
    u8 *bounce = NULL;
    memset(&own, 0, sizeof own);
    own.set = *setup;
    own.shape = shape;
    own.bounce_bytes = bounce_bytes_of(shape);
    TRY(arena_table_take(setup->table_arena, "read rows", sizeof *own.row, cap, &own.row));
    TRY(arena_table_take(setup->table_arena, "read addresses", blocks * sizeof(u8 *), cap,
                         &own.addrs));
    TRY(arena_table_take(setup->table_arena, "read ring", sizeof(struct ring_cell), cap,
                         &own.todo_cell));
    TRY(arena_table_take(setup->table_arena, "read answers", sizeof(struct ring_cell), cap,
                         &own.done_cell));
    TRY(arena_table_take(setup->table_arena, "read bounce", 1, own.bounce_bytes + FILE_PAGE_BYTES,
                         &bounce));
    own.bounce = bounce + (FILE_PAGE_BYTES - (uintptr_t)bounce % FILE_PAGE_BYTES) % FILE_PAGE_BYTES;
    own.wake.event_fd = -1;
    ring_open(&own.todo, own.todo_cell, cap, &own.wake);
    ring_open(&own.done, own.done_cell, cap, setup->wake);
    if (setup->thread && pthread_create(&own.thread, NULL, run, NULL) != 0) {
        own.row = NULL;
        return fail(ERR_IO, "the I/O thread can't be started");
    }
    return OK;
}

void reader_close(void)
{
    if (own.row == NULL) return;
    if (own.set.thread) {
        atomic_store(&own.stop, true);
        ring_wake_ring(&own.wake);
        pthread_join(own.thread, NULL);
    }
    own.row = NULL;
}

u32 reader_room(void) { return own.row == NULL ? 0 : own.set.row_cap - own.pending; }

bool reader_submit(const struct reader_ask *ask)
{
    if (reader_room() == 0) {
        own.counts.refused++;
        return false;
    }
    ASSERT(ask->blob != NULL || (ask->rows_hi > ask->lo && ask->rows_hi <= ask->hi));
    while (own.row[own.next].used) own.next = (own.next + 1) % own.set.row_cap;
    u32 index = own.next;               /* ends: a row is free                                */
    u32 per_row = own.shape->grid_rows / own.shape->block_rows;
    struct read_row *row = &own.row[index];
    *row = (struct read_row){ .ask = *ask, .used = true,
                              .to = own.addrs + (u64)index * per_row };
    row->ask.block = NULL;
    u64 b = own.shape->block_rows;
    if (ask->blob == NULL && ask->kind == FORMAT_ANCHOR)
        row->to[0] = arena_slots_addr(state_sections_arena(), ask->unit);
    else for (u64 at = 0; at * b < ask->rows_hi - ask->lo; at++)
        row->to[at] = arena_blocks_addr(state_blocks_arena(), ask->block[at]);
    own.pending++;
    bool pushed = ring_push(&own.todo, index);
    ASSERT(pushed);
    return true;
}

bool reader_done(struct reader_answer *out)
{
    u32 index;
    if (own.row == NULL || !ring_pop(&own.done, &index)) return false;
    *out = own.row[index].answer;
    own.row[index].used = false;
    own.pending--;
    if (out->err != OK) own.counts.failed++;
    else {
        own.counts.files++;
        own.counts.bytes += out->bytes;
    }
    return true;
}

struct reader_counts reader_counts(void) { return own.counts; }
