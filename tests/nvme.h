/* tests/nvme.h - the NVMe rooms over real arenas and a made-up state, in a folder of their own.
 *
 * Row r of every view and the sections at a position are functions of all ids before, so that what
 * comes back from files can be compared with what must stand there.  Writer and reader run without
 * threads: a test decides when.  Header alone: a test includes it once. */
#ifndef TESTS_NVME_H
#define TESTS_NVME_H

#include "arena/base/clock.h"
#include "arena/base/crc32.h"
#include "arena/base/hash.h"
#include "arena/base/log.h"
#include "arena/base/rng.h"
#include "tests/test.h"
#include "tiers/key.h"
#include "tiers/nvme/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { B = 4, G = 16, CTX = 256, SECTIONS = 3, ANCHORS = 8, DAY = 86400 };

static struct state_shape shape;
static struct fingerprint place;
static struct rates rates;
static char folder[64];
static u64 now_s = 1000 * DAY;
static u64 arithmetic = 7, arithmetic_least = 7;

static __attribute__((unused)) const char *new_folder(void)
{
    snprintf(folder, sizeof folder, "%s/holdfast-nvme-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(folder) != NULL);
    return folder;
}

/* The folder with everything in it: one level of folders. */
static __attribute__((unused)) void remove_all(void)
{
    char path[FILE_PATH_BYTES];
    struct file_list list;
    struct file_stat stat;
    CHECK_OK(file_list_open(folder, &list));
    while (file_list_next(&list)) {
        CHECK_OK(file_join(folder, list.name, path));
        CHECK_OK(file_stat(path, &stat));
        if (stat.folder) CHECK_OK(file_remove_folder(path));
        else CHECK_OK(file_remove(path));
    }
    file_list_close(&list);
    CHECK(rmdir(folder) == 0);
}

static void make_shape(void)
{
    static const char *const names[SECTIONS] = { "S.0", "S.1", "tail.0" };
    memset(&shape, 0, sizeof shape);
    shape.block_rows = B;
    shape.grid_rows = G;
    shape.section_count = SECTIONS;
    for (u32 i = 0; i < SECTIONS; i++) {
        shape.section[i] = (struct state_section){ .offset_bytes = 512 * i, .bytes = 320,
                                                   .type = i };
        snprintf(shape.section[i].name, sizeof shape.section[i].name, "%s", names[i]);
    }
    shape.section_bytes = 512 * SECTIONS;
    shape.view_count = 2;
    shape.view[0] = (struct state_view){ .name = "K", .planes = 2, .row_bytes = 24,
                                         .strip_bytes = 256 };
    shape.view[1] = (struct state_view){ .name = "V", .planes = 1, .row_bytes = 40,
                                         .offset_bytes = 512, .strip_bytes = 256, .type = 1 };
    shape.block_bytes = 4096;
}

static __attribute__((unused)) void memory_open(void)
{
    struct arena_decl decl[3];
    make_shape();
    log_level_set(LOG_LEVEL_OFF);
    space_host_granule(4096);
    state_declare(&shape, 2 * MIB, decl);
    decl[2] = (struct arena_decl){ .name = "tables", .kind = ARENA_TABLE, .cap_bytes = 2 * MIB };
    CHECK_OK(arena_open(decl, 3));
    CHECK_OK(state_open(&shape));
    CHECK_OK(end_open(arena_find("tables"), 256));
    clock_set(1000000, (f64)now_s);
}

static __attribute__((unused)) void memory_close(void)
{
    CHECK_EQ(arena_blocks_used(state_blocks_arena()), 0);
    CHECK_EQ(arena_slots_used(state_sections_arena()), 0);
    arena_check();
    arena_close();
    space_host_granule(0);
    clock_run();
    log_level_set(LOG_LEVEL_INFO);
}

struct nvme_caps { u64 disk_bytes, spill_bytes, day_bytes; };
static struct nvme_caps caps = { 64 * MIB, 64 * MIB, UINT64_MAX / 2 };

static struct fingerprint_source source_of_model(void)
{
    return (struct fingerprint_source){ .weights = { 11, 22 }, .arithmetic_id = (u32)arithmetic,
                                        .arithmetic_least = (u32)arithmetic_least,
                                        .backend = "cpu" };
}

/* Everything that a start does, in its order. */
static __attribute__((unused)) enum err nvme_up(bool threads, struct ring_wake *wake)
{
    u32 tables = arena_find("tables");
    struct fingerprint_source source = source_of_model();
    struct disk_knobs knobs = { .cap_bytes = caps.disk_bytes, .unused_s = 7 * DAY,
                                .count = { .admit_after = 2, .min_tokens = 2 * G } };
    TRY(fingerprint_open(folder, &shape, &source, now_s, &place));
    enum err err = writer_open(&(struct writer_setup){ .table_arena = tables, .row_cap = 64,
        .remove_cap = 512, .place = &place, .wake = wake, .thread = threads,
        .day_cap_bytes = caps.day_bytes });
    if (err == OK) err = reader_open(&(struct reader_setup){ .table_arena = tables, .row_cap = 32,
        .place = &place, .wake = wake, .thread = threads });
    if (err == OK) err = pieces_open(tables, 256, &place);
    if (err == OK) err = transfer_open(tables, CTX);
    if (err == OK) err = count_open(tables, 64);
    if (err == OK) err = spill_open(tables, 8, &place, caps.spill_bytes);
    if (err == OK) err = pieces_scan(now_s);
    if (err == OK) err = disk_open(tables, &place, &knobs);
    if (err == OK) err = spill_scan();
    if (err == OK) pieces_sweep();
    if (err != OK) fingerprint_close(&place, now_s);
    return err;
}

static __attribute__((unused)) void nvme_settle(void)
{
    while (writer_step() || journal_answers()) continue;
}

static __attribute__((unused)) void nvme_down(void)
{
    writer_close();
    reader_close();
    spill_close();
    fingerprint_close(&place, now_s);
}

/* ------------------------------------------------------------------ conversations */

struct talk {
    u64 keys[CTX], rows;
    block_id block[CTX / B];
    struct anchor_row anchor[ANCHORS];
    struct anchor_list list;
    struct generation_list generations;
    u64 session[2];
};

/* What stands after these ids: one number a place, of which bytes are made. */
static u64 state_of(const u64 *keys, u64 count)
{
    return hash_64(keys, count * sizeof *keys) ^ count;
}

static void made_up(u8 *to, u64 bytes, u64 seed)
{
    for (u64 i = 0; i < bytes; i++) to[i] = (u8)(rng_u64(seed, i / 8) >> (8 * (i % 8)));
}

static void row_bytes(const u64 *keys, u64 row, u32 view, u32 plane, u8 *to)
{
    made_up(to, shape.view[view].row_bytes, state_of(keys, row + 1) + view * 16 + plane);
}

static void fill_rows(struct talk *t, u64 from)
{
    for (u64 r = from; r < t->rows; r++)
        for (u32 v = 0; v < shape.view_count; v++)
            for (u32 p = 0; p < shape.view[v].planes; p++)
                row_bytes(t->keys, r, v, p, state_strip(t->block[r / B], v, p) +
                          r % B * shape.view[v].row_bytes);
}

static void fill_unit(const struct talk *t, unit_id unit, u64 pos)
{
    u8 *to = arena_slots_addr(state_sections_arena(), unit);
    made_up(to, shape.section_bytes, 0xfeed);          /* gaps hold what was there before    */
    for (u32 i = 0; i < shape.section_count; i++)
        made_up(to + shape.section[i].offset_bytes, shape.section[i].bytes,
                state_of(t->keys, pos) + 1000 + i);
}

/* Rows [t->rows, rows) more, ids drawn by seed; a block left open is replaced (copy on write). */
static __attribute__((unused)) void talk_grow(struct talk *t, u64 rows, u64 seed)
{
    u64 from = t->rows;
    for (u64 i = from; i < rows; i++) t->keys[i] = rng_u64(seed, i) % 1000;
    for (u64 i = (from + B - 1) / B; i < (rows + B - 1) / B; i++)
        CHECK_OK(arena_blocks_take(state_blocks_arena(), HOLD_PARK, &t->block[i]));
    if (from % B != 0) {
        arena_blocks_drop(state_blocks_arena(), t->block[from / B], HOLD_PARK);
        CHECK_OK(arena_blocks_take(state_blocks_arena(), HOLD_PARK, &t->block[from / B]));
    }
    t->rows = rows;
    fill_rows(t, ALIGN_DOWN(from, B));
    key_put(state_blocks_arena(), B, t->block, ALIGN_DOWN(from, B), t->keys + ALIGN_DOWN(from, B),
            rows - ALIGN_DOWN(from, B));
}

static __attribute__((unused)) void talk_anchor(struct talk *t, u64 pos, enum anchor_kind kind)
{
    unit_id unit;
    CHECK_OK(arena_slots_take(state_sections_arena(), HOLD_ANCHOR, &unit));
    fill_unit(t, unit, pos);
    t->list = (struct anchor_list){ t->anchor, ANCHORS };
    CHECK(anchors_take(&t->list, pos, unit, kind, false) != NONE);
}

static __attribute__((unused)) void talk_drop(struct talk *t)
{
    for (u64 i = 0; i * B < t->rows; i++)
        arena_blocks_drop(state_blocks_arena(), t->block[i], HOLD_PARK);
    t->list = (struct anchor_list){ t->anchor, ANCHORS };
    while (anchors_count(&t->list) > 0)
        anchors_drop(&t->list, state_sections_arena(), 0, HOLD_ANCHOR);
    end_cut(&t->generations, 0);
    t->rows = 0;
}

static __attribute__((unused)) struct spill_source talk_source(const struct talk *t)
{
    return (struct spill_source){
        .session = { t->session[0], t->session[1] },
        .rows = { t->block, t->rows, { t->session[0], t->session[1] } },
        .anchors = &t->list, .generations = &t->generations, .taint = UINT64_MAX,
        .head_pos = 5, .hits = 1,
    };
}

/* ------------------------------------------------------------------ restores */

/* Differences between what was read into these blocks and this unit, and what must stand there. */
static __attribute__((unused)) u32 differences(const u64 *keys, u64 pos, const block_id *block,
                                               unit_id unit)
{
    u8 want[512];
    u32 differ = 0;
    for (u64 r = 0; r < pos; r++)
        for (u32 v = 0; v < shape.view_count; v++)
            for (u32 p = 0; p < shape.view[v].planes; p++) {
                row_bytes(keys, r, v, p, want);
                differ += memcmp(want, state_strip(block[r / B], v, p) +
                                 r % B * shape.view[v].row_bytes, shape.view[v].row_bytes) != 0;
            }
    for (u32 i = 0; i < shape.section_count; i++) {
        made_up(want, shape.section[i].bytes, state_of(keys, pos) + 1000 + i);
        differ += memcmp(want, arena_slots_addr(state_sections_arena(), unit) +
                         shape.section[i].offset_bytes, shape.section[i].bytes) != 0;
    }
    return differ;
}

/* Loads a start into blocks and a unit of its own: OK when every read was, and then every byte is
 * what it must be.  Anything else: the first read's error. */
static __attribute__((unused)) enum err restore(const u64 *keys, u32 anchor, u32 cover)
{
    u64 pos = pieces_row(anchor)->hi;
    block_id block[CTX / B];
    unit_id unit;
    u32 reads = 0;
    enum err err = OK;
    struct reader_answer answer;
    for (u64 i = 0; i * B < pos; i++)
        CHECK_OK(arena_blocks_take(state_blocks_arena(), HOLD_LIVE, &block[i]));
    CHECK_OK(arena_slots_take(state_sections_arena(), HOLD_LIVE, &unit));
    CHECK(transfer_load(&(struct transfer_ask){ .owner = 3, .anchor = anchor, .cover = cover,
        .keys = keys, .block = block, .unit = unit }, &reads));
    while (reader_step()) continue;
    for (u32 i = 0; i < reads; i++) {
        CHECK(reader_done(&answer));
        CHECK_EQ(answer.owner, 3);
        if (answer.err != OK && err == OK) err = answer.err;
        transfer_answer(&answer);
    }
    CHECK(!reader_done(&answer));
    if (err == OK) CHECK_EQ(differences(keys, pos, block, unit), 0);
    for (u64 i = 0; i * B < pos; i++)
        arena_blocks_drop(state_blocks_arena(), block[i], HOLD_LIVE);
    arena_slots_drop(state_sections_arena(), unit, HOLD_LIVE);
    return err;
}

/* Where a prompt of these ids starts from disk or spill, restored and compared; 0: nowhere. */
static __attribute__((unused)) u64 start_of_prompt(const u64 *keys, u64 count)
{
    u64 line_count;
    struct disk_hit disk;
    struct spill_hit spill;
    const u64 (*lines)[2] = transfer_prompt(keys, count, &line_count);
    disk_find(lines, count - 1, 0, &rates, &disk);
    spill_find(lines, keys, count - 1, disk.start, &rates, &spill);
    if (spill.row != NONE) {
        enum err err = restore(keys, spill.anchor, spill.cover);
        spill_served(&spill, err == OK, now_s);
        spill_check();
        if (err == OK) return spill.start;
        return start_of_prompt(keys, count);            /* ends: a bad file is gone          */
    }
    if (disk.anchor == NONE) return 0;
    enum err err = restore(keys, disk.anchor, NONE);
    disk_served(&disk, err == OK, now_s);
    spill_check();
    return err == OK ? disk.start : start_of_prompt(keys, count);
}

#endif
