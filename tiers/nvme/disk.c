/* tiers/nvme/disk.c - candidates, lines to write, room. */
#include "tiers/nvme/disk.h"

#include "arena/base/log.h"
#include "arena/table.h"

#include <string.h>

static struct {
    struct disk_knobs knobs;
    const struct fingerprint *place;
    struct disk_counts counts;
    u8  *file;                          /* the counts' bytes while they are written           */
    u64  file_cap;
    bool saving;
    bool lacks;                         /* see disk_lacks_space                               */
} own;

u64 disk_table_bytes(u32 count_cap)
{
    return sizeof(struct count_head) + (u64)count_cap * sizeof(struct line_count_row) + 64;
}

enum err disk_open(u32 table_arena, const struct fingerprint *place,
                   const struct disk_knobs *knobs)
{
    u64 day, day_bytes;
    memset(&own, 0, sizeof own);
    own.knobs = *knobs;
    own.place = place;
    count_load(place, &day, &day_bytes);
    writer_day_set(day, day_bytes);
    own.file_cap = disk_table_bytes(count_cap());
    return arena_table_take(table_arena, "counts file", 1, own.file_cap, &own.file);
}

void disk_knobs_set(const struct disk_knobs *knobs) { own.knobs = *knobs; }

struct disk_counts disk_counts(void) { return own.counts; }

void disk_find(const u64 (*lines)[2], u64 limit, u64 best_start, const struct rates *rates,
               struct disk_hit *out)
{
    *out = (struct disk_hit){ .anchor = NONE };
    if (own.knobs.cap_bytes == 0) return;
    u32 anchor = pieces_best(lines, limit);
    u64 start = anchor == NONE ? 0 : pieces_row(anchor)->hi;
    if (start <= best_start) {
        own.counts.misses++;
        return;
    }
    u64 bytes = transfer_bytes(anchor, NONE);
    if (!rates_worth(rates, bytes, start - best_start)) {
        own.counts.slower++;
        return;
    }
    *out = (struct disk_hit){ .anchor = anchor, .start = start, .bytes = bytes };
}

void disk_served(const struct disk_hit *hit, bool good, u64 now_s)
{
    own.counts.hits += good;
    own.counts.read_failed += !good;
    if (good) pieces_hit(hit->anchor, now_s);
}

void disk_plan(const struct count_prompt *prompt, u64 now_s, struct count_plan *out)
{
    u64 g = state_shape()->grid_rows;
    u32 kept = 0;
    *out = (struct count_plan){ .count = 0 };
    if (own.knobs.cap_bytes == 0) return;
    count_plan(prompt, &own.knobs.count, out);
    for (u32 i = 0; i < out->count; i++)
        if (pieces_find(FORMAT_ANCHOR, prompt->lines[out->line[i] / g - 1]) == NONE)
            out->line[kept++] = out->line[i];
    out->count = kept;
    if (prompt->count >= own.knobs.count.min_tokens) count_add(prompt, now_s);
}

/* ------------------------------------------------------------------ write */

/* Bytes that anchors on these lines, the highest first, would add to the disk's, and to the file
 * system. */
static u64 line_bytes(const u64 (*lines)[2], const u64 *line, u32 count, u64 *new_out)
{
    u64 g = state_shape()->grid_rows, bytes = 0, spilled = 0;
    for (u32 i = 0; i < count; i++)
        if (pieces_find(FORMAT_ANCHOR, lines[line[i] / g - 1]) == NONE)
            bytes += format_bytes(state_shape(), FORMAT_ANCHOR, line[i] - g, line[i]);
    for (u64 lo = 0; lo < line[0]; lo += g) {
        u32 there = pieces_find(FORMAT_CHUNK, lines[lo / g]);
        u64 chunk = format_bytes(state_shape(), FORMAT_CHUNK, lo, lo + g);
        if (there != NONE && pieces_row(there)->disk_users > 0) continue;
        bytes += chunk;
        spilled += there != NONE ? chunk : 0;
    }
    *new_out = bytes - spilled;
    return bytes;
}

/* Evicting may take anchors and chunks that it counted on: asked again until it holds still, which
 * ends as each round has fewer anchors. */
bool disk_room(const u64 (*lines)[2], const u64 *line, u32 count, u64 now_s)
{
    u64 fresh, cap = own.knobs.cap_bytes, bytes = line_bytes(lines, line, count, &fresh);
    for (u64 before = UINT64_MAX; bytes != before;) {
        before = bytes;
        if (bytes > cap || !pieces_evict(cap, bytes, own.knobs.unused_s, now_s)) return false;
        bytes = line_bytes(lines, line, count, &fresh);
    }
    return true;
}

static bool lacks_space(const u64 (*lines)[2], u64 line)
{
    u64 fresh;
    line_bytes(lines, &line, 1, &fresh);
    bool lacks = writer_space() < own.knobs.floor_bytes + fresh;
    own.lacks = own.lacks || (lacks && writer_space_told());
    return lacks;
}

/* What leaves no room for a line, or NULL.  What is evicted may have to be written anew. */
static u64 *no_room(const u64 (*lines)[2], u64 line, u64 now_s)
{
    if (lacks_space(lines, line)) return &own.counts.refused_space;
    if (!disk_room(lines, &line, 1, now_s)) return &own.counts.refused_cap;
    return lacks_space(lines, line) ? &own.counts.refused_space : NULL;
}

bool disk_line(const struct transfer_rows *rows, unit_id unit, u64 now_s)
{
    u64 line_count, g = state_shape()->grid_rows, line = rows->rows;
    u32 top = NONE, anchor = NONE;
    ASSERT(line > 0 && line % g == 0);
    const u64 (*lines)[2] = transfer_lines(rows, &line_count);
    ASSERT(line_count == line / g);
    u64 *why = no_room(lines, line, now_s);
    if (why == NULL && (transfer_chunks(rows, lines, 0, line, false, now_s, &top) != OK ||
                        transfer_anchor(rows, lines, line, unit, false, now_s, &anchor) != OK))
        why = &own.counts.refused_writer;
    if (why != NULL && top != NONE) pieces_drop(top);
    pieces_reap();
    own.counts.lines_written += why == NULL;
    own.counts.lines_refused += why != NULL;
    if (why != NULL) ++*why;
    return why == NULL;
}

void disk_line_lost(void)
{
    own.counts.lines_refused++;
    own.counts.refused_anchor++;
}

void disk_trim(u64 now_s)
{
    pieces_evict(own.knobs.cap_bytes, 0, own.knobs.unused_s, now_s);
}

bool disk_lacks_space(void)
{
    bool lacks = own.lacks;
    own.lacks = false;
    return lacks;
}

/* ------------------------------------------------------------------ counts file */

bool disk_counts_save(void)
{
    struct writer_counts written = writer_counts();
    if (own.saving || count_bytes() > own.file_cap) return false;
    count_put(own.file, own.place, written.day, written.day_bytes);
    struct writer_ask ask = { .kind = WRITER_BLOB, .owner = DISK_COUNTS_OWNER, .always = true,
                              .name = "COUNTS", .bytes = own.file, .byte_count = count_bytes() };
    own.saving = writer_submit(&ask);
    return own.saving;
}

void disk_counts_saved(void) { own.saving = false; }
