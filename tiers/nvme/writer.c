/* tiers/nvme/writer.c - write rows, and the thread that carries them out. */
#include "tiers/nvme/writer.h"

#include "arena/base/clock.h"
#include "arena/base/crc32.h"
#include "arena/base/file_log.h"
#include "arena/base/log.h"
#include "arena/table.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { WRITER_POLL_US = 1000000 };

struct write_row {
    struct writer_ask ask;              /* keys and block point into the tables below         */
    struct writer_answer answer;
    u8  **from;                         /* addresses of the blocks, or of the unit            */
    _Atomic u32 claim;                  /* enum claim: who has it                             */
    bool used;
};
enum claim { CLAIM_QUEUED, CLAIM_BEGUN, CLAIM_CANCELLED };

static struct {
    struct writer_setup set;
    const struct state_shape *shape;
    struct write_row *row;
    u64 *keys;                          /* [row_cap][G]                                       */
    block_id *blocks;                   /* [row_cap][G / B]                                   */
    u8 **addrs;                         /* [row_cap][G / B], taken by the engine thread       */
    u8 *bounce;                         /* a block or unit, page-aligned: unaligned or partial */
    u64 bounce_bytes;
    struct ring todo, done;
    struct ring_cell *todo_cell, *done_cell;
    struct ring_wake wake;              /* the thread sleeps here                             */
    _Atomic bool stop;
    _Atomic u64 space_bytes;            /* free on the file system                            */
    _Atomic bool space_told;            /* the file system said so                            */
    pthread_t thread;
    u32 pending, next;
    char (*waiting)[FORMAT_NAME_BYTES]; /* [remove_cap] removals, the first at wait_next      */
    u32 wait_next, wait_count;
    struct writer_counts counts;
} own;

static u64 bounce_bytes_of(const struct state_shape *shape)
{
    u64 keys = ALIGN_UP(shape->grid_rows * sizeof(u64), FILE_PAGE_BYTES);
    return MAX(ALIGN_UP(shape->block_bytes, FILE_PAGE_BYTES), MAX(keys, (u64)FORMAT_PART_AREA));
}

u64 writer_table_bytes(const struct state_shape *shape, u32 row_cap, u32 remove_cap)
{
    u64 row = sizeof(struct write_row) + shape->grid_rows * sizeof(u64) +
              shape->grid_rows / shape->block_rows * (sizeof(block_id) + sizeof(u8 *)) +
              2 * sizeof(struct ring_cell);
    return row * row_cap + (u64)remove_cap * FORMAT_NAME_BYTES + bounce_bytes_of(shape) +
           FILE_PAGE_BYTES + 8 * 64;
}

/* ------------------------------------------------------------------ the thread's side */

/* Pages of an area smaller than the bounce buffer: `bytes` of `from`, then zeros. */
static enum err write_area(int fd, u64 offset, const void *from, u64 bytes, u64 area, u32 *crc_out)
{
    ASSERT(area <= own.bounce_bytes && bytes <= area);
    memcpy(own.bounce, from, bytes);
    memset(own.bounce + bytes, 0, area - bytes);
    if (crc_out != NULL) *crc_out = crc32_of(own.bounce, area);
    return file_write_at(fd, offset, own.bounce, area);
}

/* Rows [0, rows) of a block and zeros where the others would be. */
static void cut_block(u8 *to, const u8 *from, u32 rows)
{
    memset(to, 0, own.shape->block_bytes);
    for (u32 v = 0; v < own.shape->view_count; v++) {
        const struct state_view *view = &own.shape->view[v];
        for (u32 p = 0; p < view->planes; p++) {
            u64 at = view->offset_bytes + p * view->strip_bytes;
            memcpy(to + at, from + at, (u64)rows * view->row_bytes);
        }
    }
}

static enum err write_rows(int fd, const struct format_head *head, u8 *const *block,
                           struct format_part *part)
{
    u64 b = own.shape->block_rows, unit = own.shape->block_bytes;
    for (u64 at = 0; at * b < head->hi - head->lo; at++) {
        u64 rows = MIN(head->hi - head->lo - at * b, b);
        const u8 *from = block[at];
        if (rows < b || (uintptr_t)from % FILE_PAGE_BYTES != 0) {
            cut_block(own.bounce, from, (u32)rows);
            from = own.bounce;
        }
        format_crc(part, head->part_count, from, 0, unit);
        TRY(file_write_at(fd, head->data_offset + at * unit, from, unit));
    }
    return OK;
}

static enum err write_unit(int fd, const struct format_head *head, const u8 *from,
                           struct format_part *part)
{
    u64 whole = own.shape->section_bytes;
    for (u64 at = 0; at < head->data_bytes; at += own.bounce_bytes) {
        u64 bytes = MIN(head->data_bytes - at, own.bounce_bytes);
        u64 filled = MIN(whole - MIN(whole, at), bytes);
        memcpy(own.bounce, from + at, filled);
        memset(own.bounce + filled, 0, bytes - filled);
        format_crc(part, head->part_count, own.bounce, at, bytes);
        TRY(file_write_at(fd, head->data_offset + at, own.bounce, bytes));
    }
    return OK;
}

/* Data first, as the checksums come of it; the head last. */
static enum err write_draft(int fd, const struct writer_ask *ask, u8 *const *from)
{
    struct format_head head;
    struct format_part part[FORMAT_PART_CAP];
    format_layout(own.shape, ask->piece, ask->lo, ask->hi, &head);
    memcpy(head.fingerprint, own.set.place->id, sizeof head.fingerprint);
    memcpy(head.name, ask->hash, sizeof head.name);
    memcpy(head.below, ask->below, sizeof head.below);
    memcpy(head.sums, ask->sums, sizeof head.sums);
    memcpy(head.session, ask->session, sizeof head.session);
    format_parts(own.shape, ask->piece, part);
    if (ask->piece == FORMAT_ANCHOR) TRY(write_unit(fd, &head, from[0], part));
    else TRY(write_rows(fd, &head, from, part));
    TRY(write_area(fd, head.key_offset, ask->keys, head.key_count * sizeof(u64),
                   head.data_offset - head.key_offset, &head.key_crc));
    TRY(write_area(fd, head.part_offset, part, head.part_count * sizeof *part,
                   head.key_offset - head.part_offset, &head.part_crc));
    memset(own.bounce, 0, FILE_PAGE_BYTES);
    memcpy(own.bounce, &head, sizeof head);
    format_seal(own.bounce);
    return file_write_at(fd, 0, own.bounce, FILE_PAGE_BYTES);
}

static enum err write_piece(const struct writer_ask *ask, u8 *const *from, u64 *bytes_out)
{
    char name[FORMAT_NAME_BYTES], path[FILE_PATH_BYTES];
    struct file_draft draft;
    format_name(ask->piece, ask->hash, name);
    TRY(file_join(own.set.place->folder, name, path));
    TRY(file_draft_direct(path, 0600, own.set.place->direct, &draft));
    enum err err = write_draft(draft.fd, ask, from);
    if (err != OK) {
        file_draft_drop(&draft);
        return err;
    }
    *bytes_out = format_bytes(own.shape, ask->piece, ask->lo, ask->hi);
    return file_draft_end(&draft);
}

/* A file that is there gets more bytes: from the offset on, whatever a failed try left there. */
static enum err append(const char *path, const struct writer_ask *ask)
{
    int fd = -1;
    TRY(file_open(path, FILE_OPEN_WRITE, 0600, &fd));
    enum err err = file_write_at(fd, ask->offset, ask->bytes, ask->byte_count);
    if (err == OK) err = file_sync(fd);
    file_close(fd);
    return err;
}

/* What the file system won't say counts as none; one that counts no blocks at all (ramfs) has no
 * end: a write that fails says so. */
static void look_at_space(void)
{
    u64 free_bytes = 0, total_bytes = 0;
    bool told = file_space(own.set.place->folder, &free_bytes, &total_bytes) == OK;
    if (!told) free_bytes = 0;
    else if (total_bytes == 0) free_bytes = INT64_MAX;
    own.space_told = told;
    own.space_bytes = free_bytes;
}

static void carry_out(struct write_row *row)
{
    const struct writer_ask *ask = &row->ask;
    const char *folder = ask->folder != NULL ? ask->folder : own.set.place->folder;
    char path[FILE_PATH_BYTES];
    enum err err = OK;
    u64 bytes = 0, from_us = clock_us();
    if (ask->kind == WRITER_PIECE) {
        err = write_piece(ask, row->from, &bytes);
    } else {
        bool other = ask->kind == WRITER_FOLDER;
        err = file_join(other ? own.set.place->root : folder, ask->name, path);
        if (err == OK && other) err = file_remove_folder(path);
        else if (err == OK && ask->kind == WRITER_REMOVE) err = file_remove(path);
        else if (err == OK && ask->kind == WRITER_APPEND) err = append(path, ask);
        else if (err == OK) err = file_commit(path, ask->bytes, ask->byte_count, 0600);
        bytes = ask->byte_count;
    }
    if (err != OK) log_line(LOG_LEVEL_WARN, "cache folder: %s", err_last()->text);
    row->answer = (struct writer_answer){ .owner = ask->owner, .kind = ask->kind, .err = err,
                                          .bytes = bytes, .us = clock_us() - from_us,
                                          .folder = ask->folder };
    look_at_space();
}

bool writer_step(void)
{
    u32 index;
    if (!ring_pop(&own.todo, &index)) return false;
    struct write_row *row = &own.row[index];
    u32 claim = CLAIM_QUEUED;
    bool watched = file_log_watch(false);       /* without a thread: it stands for one        */
    if (atomic_compare_exchange_strong(&row->claim, &claim, CLAIM_BEGUN)) carry_out(row);
    else row->answer = (struct writer_answer){ .owner = row->ask.owner, .kind = row->ask.kind,
                                               .err = ERR_CANCELLED };
    bool pushed = ring_push(&own.done, index);
    ASSERT(pushed);                     /* as many cells as rows                              */
    file_log_watch(watched);
    return true;
}

static void *run(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&own.stop)) {
        u32 seen = ring_word(&own.wake);
        while (writer_step()) continue;
        look_at_space();                /* others may have made room: nothing else would tell */
        if (!atomic_load(&own.stop)) ring_wait(&own.wake, seen, clock_us() + WRITER_POLL_US);
    }
    while (writer_step()) continue;
    return NULL;
}

/* ------------------------------------------------------------------ the engine's side */

enum err writer_open(const struct writer_setup *setup)
{
    const struct state_shape *shape = state_shape();
    u32 cap = setup->row_cap, blocks = shape->grid_rows / shape->block_rows;
    memset(&own, 0, sizeof own);
    own.set = *setup;
    own.shape = shape;
    own.bounce_bytes = bounce_bytes_of(shape);
    look_at_space();
    u8 *bounce = NULL;
    TRY(arena_table_take(setup->table_arena, "write rows", sizeof *own.row, cap, &own.row));
    TRY(arena_table_take(setup->table_arena, "write keys", shape->grid_rows * sizeof(u64), cap,
                         &own.keys));
    TRY(arena_table_take(setup->table_arena, "write blocks", blocks * sizeof(block_id), cap,
                         &own.blocks));
    TRY(arena_table_take(setup->table_arena, "write addresses", blocks * sizeof(u8 *), cap,
                         &own.addrs));
    TRY(arena_table_take(setup->table_arena, "write ring", sizeof(struct ring_cell), cap,
                         &own.todo_cell));
    TRY(arena_table_take(setup->table_arena, "write answers", sizeof(struct ring_cell), cap,
                         &own.done_cell));
    TRY(arena_table_take(setup->table_arena, "write bounce", 1, own.bounce_bytes + FILE_PAGE_BYTES,
                         &bounce));
    if (setup->remove_cap > 0)
        TRY(arena_table_take(setup->table_arena, "write removals", FORMAT_NAME_BYTES,
                             setup->remove_cap, &own.waiting));
    own.bounce = bounce + (FILE_PAGE_BYTES - (uintptr_t)bounce % FILE_PAGE_BYTES) % FILE_PAGE_BYTES;
    own.wake.event_fd = -1;
    ring_open(&own.todo, own.todo_cell, cap, &own.wake);
    ring_open(&own.done, own.done_cell, cap, setup->wake);
    if (setup->thread && pthread_create(&own.thread, NULL, run, NULL) != 0) {
        own.row = NULL;
        return fail(ERR_IO, "the writer thread can't be started");
    }
    return OK;
}

void writer_close(void)
{
    struct writer_answer answer;
    if (own.row == NULL) return;
    if (own.set.thread) {
        atomic_store(&own.stop, true);
        ring_wake_ring(&own.wake);
        pthread_join(own.thread, NULL);
    }
    do {
        while (writer_step()) continue;
    } while (writer_done(&answer));     /* ends: removals that waited follow, then none       */
    own.row = NULL;
}

static void hold(const struct writer_ask *ask, bool take)
{
    u32 blocks = state_blocks_arena(), units = state_sections_arena();
    if (ask->kind != WRITER_PIECE || FAULT(FAULT_WRITE_NOT_HELD)) return;
    if (ask->piece == FORMAT_ANCHOR) {
        if (take) arena_slots_hold(units, ask->unit, HOLD_WRITING);
        else arena_slots_drop(units, ask->unit, HOLD_WRITING);
        return;
    }
    for (u64 at = 0; at * own.shape->block_rows < ask->hi - ask->lo; at++) {
        if (take) arena_blocks_hold(blocks, ask->block[at], HOLD_WRITING);
        else arena_blocks_drop(blocks, ask->block[at], HOLD_WRITING);
    }
}

u64 writer_day_left(void)
{
    u64 day = (u64)(clock_wall_s() / 86400.0);
    if (day != own.counts.day) {
        own.counts.day = day;
        own.counts.day_bytes = 0;
    }
    return own.set.day_cap_bytes - MIN(own.set.day_cap_bytes, own.counts.day_bytes);
}

/* True when the day's cap lets so many bytes through. */
static bool day_allows(u64 bytes, bool always)
{
    u64 left = writer_day_left();
    if (!always && bytes > left) return false;
    own.counts.day_bytes += bytes;
    return true;
}

u32 writer_room(void) { return own.wait_count > 0 ? 0 : own.set.row_cap - own.pending; }

/* Copies what the thread will need: ids, handles, addresses. */
static void fill_piece(struct write_row *row, u32 index, const struct writer_ask *ask)
{
    u64 b = own.shape->block_rows, rows = ask->hi - ask->lo;
    u64 *keys = own.keys + (u64)index * own.shape->grid_rows;
    u32 per_row = own.shape->grid_rows / own.shape->block_rows;
    block_id *list = own.blocks + (u64)index * per_row;
    ASSERT(ask->hi > ask->lo && rows <= own.shape->grid_rows);
    memcpy(keys, ask->keys, rows * sizeof *keys);
    row->ask.keys = keys;
    row->from = own.addrs + (u64)index * per_row;
    if (ask->piece == FORMAT_ANCHOR) {
        row->from[0] = arena_slots_addr(state_sections_arena(), ask->unit);
        return;
    }
    for (u64 at = 0; at * b < rows; at++) {
        list[at] = ask->block[at];
        row->from[at] = arena_blocks_addr(state_blocks_arena(), list[at]);
    }
    row->ask.block = list;
}

static void queue(const struct writer_ask *ask)
{
    while (own.row[own.next].used) own.next = (own.next + 1) % own.set.row_cap;
    u32 index = own.next;               /* ends: a row is free                                */
    struct write_row *row = &own.row[index];
    row->ask = *ask;
    row->claim = CLAIM_QUEUED;
    row->used = true;
    if (ask->kind == WRITER_PIECE) fill_piece(row, index, ask);
    hold(&row->ask, true);
    own.pending++;
    bool pushed = ring_push(&own.todo, index);
    ASSERT(pushed);
}

/* Removals that wait get the rows there are. */
static void queue_waiting(void)
{
    for (; own.wait_count > 0 && own.pending < own.set.row_cap; own.wait_count--) {
        struct writer_ask ask = { .kind = WRITER_REMOVE, .owner = NONE };
        memcpy(ask.name, own.waiting[own.wait_next], sizeof ask.name);
        own.wait_next = (own.wait_next + 1) % own.set.remove_cap;
        queue(&ask);
    }
}

void writer_remove(const char *name)
{
    if (own.row == NULL) return;
    queue_waiting();
    ASSERT(own.wait_count < own.set.remove_cap);        /* no two removals of a name wait     */
    u32 at = (own.wait_next + own.wait_count++) % own.set.remove_cap;
    snprintf(own.waiting[at], sizeof own.waiting[at], "%s", name);
    queue_waiting();
}

bool writer_submit(const struct writer_ask *ask)
{
    if (own.row != NULL) queue_waiting();
    if (own.row == NULL || own.pending == own.set.row_cap) {
        own.counts.refused_full++;
        return false;
    }
    bool piece = ask->kind == WRITER_PIECE;
    u64 bytes = piece ? format_bytes(own.shape, ask->piece, ask->lo, ask->hi) : ask->byte_count;
    bool comes = ask->kind != WRITER_REMOVE && ask->kind != WRITER_FOLDER;
    if (comes && !day_allows(bytes, ask->always)) {
        own.counts.refused_day++;
        return false;
    }
    queue(ask);
    return true;
}

bool writer_done(struct writer_answer *out)
{
    u32 index;
    if (own.row == NULL || !ring_pop(&own.done, &index)) return false;
    struct write_row *row = &own.row[index];
    if (row->claim != CLAIM_CANCELLED) hold(&row->ask, false);
    *out = row->answer;
    row->used = false;
    own.pending--;
    if (row->claim == CLAIM_CANCELLED) own.counts.cancelled++;
    else if (out->err != OK) own.counts.failed++;
    else if (out->kind == WRITER_REMOVE || out->kind == WRITER_FOLDER) own.counts.removed++;
    else {
        own.counts.files++;
        own.counts.bytes += out->bytes;
        if (out->kind == WRITER_PIECE) {
            own.counts.piece_bytes += out->bytes;
            own.counts.piece_us += out->us;
        }
    }
    queue_waiting();
    return true;
}

u32 writer_cancel(void)
{
    u32 count = 0;
    for (u32 i = 0; own.row != NULL && i < own.set.row_cap; i++) {
        struct write_row *row = &own.row[i];
        u32 claim = CLAIM_QUEUED;
        if (!row->used || row->ask.kind != WRITER_PIECE) continue;
        if (!atomic_compare_exchange_strong(&row->claim, &claim, CLAIM_CANCELLED)) continue;
        hold(&row->ask, false);         /* the thread looks at nothing of it any more         */
        count++;
    }
    return count;
}

u32 writer_pending(void) { return own.pending + own.wait_count; }

bool writer_drain(u64 deadline_us)
{
    if (own.row == NULL) return true;
    while (ring_count(&own.done) < own.pending) {       /* ends: answers come, or the deadline */
        if (!own.set.thread) {
            if (!writer_step()) break;
            continue;
        }
        u64 now_us = clock_us();
        if (now_us >= deadline_us) return false;
        struct ring_wake *wake = own.set.wake;
        u32 seen = wake != NULL ? ring_word(wake) : 0;
        if (ring_count(&own.done) == own.pending) break;
        if (wake != NULL) ring_wait(wake, seen, MIN(deadline_us, now_us + WRITER_POLL_US));
    }
    return true;
}

struct writer_counts writer_counts(void) { return own.counts; }
u64 writer_space(void) { return own.space_bytes; }
bool writer_space_told(void) { return own.space_told; }

void writer_day_set(u64 day, u64 bytes)
{
    own.counts.day = day;
    own.counts.day_bytes = bytes;
}

void writer_day_cap(u64 bytes) { own.set.day_cap_bytes = bytes; }
