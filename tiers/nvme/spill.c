/* tiers/nvme/spill.c - entries: save, manifest, find, let go. */
#include "tiers/nvme/spill.h"

#include "arena/base/log.h"
#include "arena/heap.h"
#include "arena/table.h"
#include "tiers/nvme/disk.h"
#include "tiers/value.h"

#include <string.h>

static struct {
    struct spill_row *row;
    u32 cap;
    u64 cap_bytes, floor_bytes;
    const struct fingerprint *place;
    struct spill_counts counts;
} own;

u64 spill_table_bytes(u32 row_cap) { return (u64)row_cap * sizeof(struct spill_row) + 64; }

enum err spill_open(u32 table_arena, u32 row_cap, const struct fingerprint *place, u64 cap_bytes)
{
    memset(&own, 0, sizeof own);
    own.cap = row_cap;
    own.cap_bytes = cap_bytes;
    own.place = place;
    return arena_table_take(table_arena, "spill", sizeof *own.row, row_cap, &own.row);
}

void spill_close(void)
{
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1)) pack_out_close(&own.row[i].file);
    own.cap = 0;
}

void spill_cap(u64 bytes, u64 floor_bytes)
{
    own.cap_bytes = bytes;
    own.floor_bytes = floor_bytes;
}

u64 spill_cap_bytes(void) { return own.cap_bytes; }

struct spill_row *spill_at(u32 row)
{
    ASSERT(row < own.cap && own.row[row].state != SPILL_FREE);
    return &own.row[row];
}

u32 spill_next(u32 from)
{
    for (u32 i = from; i < own.cap; i++)
        if (own.row[i].state != SPILL_FREE) return i;
    return NONE;
}

static u32 find_session(const u64 session[2], bool complete)
{
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1))
        if (memcmp(own.row[i].talk.session, session, 2 * sizeof *session) == 0 &&
            (own.row[i].state == SPILL_COMPLETE) == complete) return i;
    return NONE;
}

u32 spill_session(const u64 session[2]) { return find_session(session, true); }

struct spill_counts spill_counts(void)
{
    own.counts.rows = 0;
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1)) own.counts.rows++;
    return own.counts;
}

/* ------------------------------------------------------------------ users */

static u64 top_line(const struct manifest *m)
{
    return ALIGN_DOWN(m->length, state_shape()->grid_rows);
}

static bool off_line(u64 pos) { return pos % state_shape()->grid_rows != 0; }

/* The row lets go of its pieces; whoever it is the last user of is doomed. */
static void let_go(struct spill_row *r)
{
    if (r->top != NONE) pieces_unuse(r->top);
    if (r->tail != NONE) pieces_unuse(r->tail);
    for (u32 i = 0; i < r->talk.anchor_count; i++)
        if (r->anchor[i] != NONE) pieces_unuse(r->anchor[i]);
    pack_out_close(&r->file);
    *r = (struct spill_row){ .state = SPILL_FREE };
}

static void remove_manifest(const struct manifest *m)
{
    char name[FORMAT_NAME_BYTES];
    manifest_name(m->session, name);
    writer_remove(name);
}

/* An entry goes, its manifest first when it has one on disk; one that is being written has the same
 * name and takes its place, or goes with what was there if it fails. */
static void drop(u32 row)
{
    struct spill_row *r = &own.row[row];
    u32 save = find_session(r->talk.session, false);
    bool newer = save != NONE && own.row[save].state == SPILL_MANIFEST;
    if (r->state == SPILL_COMPLETE && !newer) remove_manifest(&r->talk);
    let_go(r);
    own.counts.dropped++;
}

static bool doomed(u32 piece) { return piece != NONE && pieces_row(piece)->doomed; }

static bool uses_doomed(const struct spill_row *r)
{
    if (doomed(r->top) || doomed(r->tail)) return true;
    for (u32 at = r->top; at != NONE; at = pieces_below(at))
        if (doomed(at)) return true;
    for (u32 i = 0; i < r->talk.anchor_count; i++)
        if (doomed(r->anchor[i])) return true;
    return false;
}

/* No start is left in it: its anchors on lines went with the disk tier's. */
static bool startless(const struct spill_row *r)
{
    for (u32 i = 0; i < r->talk.anchor_count; i++) {
        u32 line = r->anchor[i] == NONE ? pieces_find(FORMAT_ANCHOR, r->talk.anchor[i].name) : NONE;
        if (r->anchor[i] != NONE || (line != NONE && !doomed(line))) return false;
    }
    return r->state == SPILL_COMPLETE;
}

void spill_check(void)
{
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1)) {
        const struct spill_row *r = &own.row[i];
        if (r->state != SPILL_MANIFEST && (uses_doomed(r) || startless(r))) drop(i);
    }
    pieces_reap();
}

/* ------------------------------------------------------------------ save */

/* Which anchors are kept: the newest, as many as fit and are at or below the rows. */
static u32 first_anchor(const struct anchor_list *list, u32 *count_out)
{
    u32 count = anchors_count(list), first = count - MIN(count, MANIFEST_ANCHORS);
    *count_out = count - first;
    return first;
}

/* Of those, the ones to save: off a line all, on lines as many as the disk tier makes room for, the
 * newest first.  How many; without one nothing could ever start from the entry. */
static u32 choose_anchors(const struct spill_source *source, u64 now_s, bool keep[MANIFEST_ANCHORS])
{
    u64 line_count, line[MANIFEST_ANCHORS];
    const u64 (*lines)[2] = transfer_lines(&source->rows, &line_count);
    u32 count, first = first_anchor(source->anchors, &count), kept = 0, n = 0;
    for (u32 i = count; i-- > 0;) {
        u64 pos = source->anchors->row[first + i].pos;
        keep[i] = pos > 0 && pos <= source->rows.rows;
        if (keep[i] && !off_line(pos)) {
            line[n] = pos;
            keep[i] = disk_room(lines, line, n + 1, now_s);
            n += keep[i];
        }
        kept += keep[i];
    }
    return kept;
}

static enum err save_anchors(const struct spill_source *source, const u64 (*lines)[2],
                             const bool *keep, struct spill_row *r, u64 now_s)
{
    u32 count, first = first_anchor(source->anchors, &count);
    for (u32 i = 0; i < count; i++) {
        const struct anchor_row *a = &source->anchors->row[first + i];
        u32 n = r->talk.anchor_count, piece;
        if (!keep[i]) continue;
        TRY(transfer_anchor(&source->rows, lines, a->pos, a->unit, source->always, now_s, &piece));
        const struct piece_row *p = pieces_row(piece);
        r->talk.anchor[n] = (struct manifest_anchor){ .pos = a->pos, .kind = a->kind,
            .name = { p->name[0], p->name[1] }, .head = a->head != 0 };
        r->anchor[n] = off_line(a->pos) ? piece : NONE;
        if (r->anchor[n] != NONE) pieces_use(piece);
        r->talk.anchor_count++;
    }
    return OK;
}

static enum err save_files(const struct spill_source *source, const bool *keep, struct spill_row *r,
                           u64 now_s)
{
    u64 line_count, line = ALIGN_DOWN(source->rows.rows, state_shape()->grid_rows);
    const u64 (*lines)[2] = transfer_lines(&source->rows, &line_count);
    u32 top = NONE, tail = NONE;
    enum err err = transfer_chunks(&source->rows, lines, source->from, line, source->always, now_s,
                                   &top);
    if (top != NONE) {                  /* also after an error: to let go of what was begun   */
        pieces_use(top);
        r->top = top;
    }
    if (err != OK) return err;
    if (top != NONE) memcpy(r->talk.top, pieces_row(top)->name, sizeof r->talk.top);
    if (line < source->rows.rows) {
        TRY(transfer_tail(&source->rows, lines, source->always, now_s, &tail));
        pieces_use(tail);
        r->tail = tail;
        memcpy(r->talk.tail, pieces_row(tail)->name, sizeof r->talk.tail);
    }
    return save_anchors(source, lines, keep, r, now_s);
}

/* Bytes a save may add at most. */
static u64 save_bytes(const struct spill_source *source)
{
    const struct state_shape *shape = state_shape();
    u64 g = shape->grid_rows, rows = source->rows.rows, bytes = 0;
    u64 from = ALIGN_DOWN(source->from, g);
    u32 count;
    first_anchor(source->anchors, &count);
    for (u64 lo = from; lo < rows; lo += g)
        bytes += format_bytes(shape, FORMAT_TAIL, lo, MIN(lo + g, rows));
    return bytes + count * format_bytes(shape, FORMAT_ANCHOR, 0, g);
}

/* Planted: the manifest is there before what it names. */
static enum err write_early(const struct spill_row *r)
{
    char name[MANIFEST_NAME_BYTES], path[FILE_PATH_BYTES];
    manifest_name(r->talk.session, name);
    TRY(file_join(own.place->folder, name, path));
    return file_commit(path, r->file.bytes, r->file.count, 0600);
}

/* Bytes on the file system and under the caps; what is evicted makes the latter. */
static enum err find_room(const struct spill_source *source, u64 now_s, bool keep[MANIFEST_ANCHORS])
{
    u64 bytes = save_bytes(source), left = writer_space();
    if (left < own.floor_bytes + bytes)
        return fail(ERR_LIMIT, "%llu bytes of a conversation have no room: the file system has "
                    "%llu left, --spill-free-gb keeps %llu", (ull)bytes, (ull)left,
                    (ull)own.floor_bytes);
    u64 day_left = writer_day_left();
    if (!source->always && bytes > day_left)
        return fail(ERR_LIMIT, "%llu bytes of a conversation are not written: %llu were today, "
                    "--nvme-write-gb-day leaves %llu", (ull)bytes,
                    (ull)writer_counts().day_bytes, (ull)day_left);
    if (choose_anchors(source, now_s, keep) == 0)
        return fail(ERR_FULL, "all its anchors stand on lines, and the disk tier has no room");
    if (spill_evict(bytes, now_s)) return OK;
    return fail(ERR_LIMIT, "%llu bytes of a conversation have no room: --spill-gb allows %llu, "
                "%llu are in use", (ull)bytes, (ull)own.cap_bytes,
                (ull)pieces_counts().spill_bytes);
}

enum err spill_save(const struct spill_source *source, u64 now_s, u32 *row_out)
{
    u32 row = 0;
    bool keep[MANIFEST_ANCHORS];
    ASSERT(source->rows.rows > 0);
    own.counts.saves++;
    while (row < own.cap && own.row[row].state != SPILL_FREE) row++;
    enum err err = OK;
    if (find_session(source->session, false) != NONE)
        err = fail(ERR_FULL, "a save of that session is under way");
    else if (row == own.cap) err = fail(ERR_FULL, "%u spilled conversations", own.cap);
    else err = find_room(source, now_s, keep);
    if (err != OK) {
        own.counts.refused++;
        return err;
    }
    struct spill_row *r = &own.row[row];
    *r = (struct spill_row){ .top = NONE, .tail = NONE, .state = SPILL_PIECES,
                             .used_us = source->used_us };
    r->talk = (struct manifest){
        .session = { source->session[0], source->session[1] }, .length = source->rows.rows,
        .head_pos = source->head_pos, .taint = source->taint,
        .used_s = source->used_s == 0 ? now_s : source->used_s,
        .hits = source->hits,
    };
    err = save_files(source, keep, r, now_s);
    if (err == OK) err = manifest_put(&r->talk, source->generations, own.place, &r->file);
    if (err == OK && FAULT(FAULT_MANIFEST_EARLY)) err = write_early(r);
    if (err != OK) {
        let_go(r);
        pieces_reap();
        own.counts.refused++;
        return err;
    }
    pieces_reap();
    *row_out = row;
    return OK;
}

static bool ready(u32 piece) { return piece == NONE || pieces_row(piece)->state == PIECE_READY; }

/* Every file the manifest names is READY. */
static bool all_ready(const struct spill_row *r)
{
    bool good = ready(r->tail) && (r->top == NONE || pieces_complete(r->top));
    for (u32 i = 0; good && i < r->talk.anchor_count; i++) {
        u32 line = r->anchor[i] == NONE ? pieces_find(FORMAT_ANCHOR, r->talk.anchor[i].name) : NONE;
        good = ready(r->anchor[i]) && ready(line);
    }
    return good;
}

void spill_pass(void)
{
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1)) {
        struct spill_row *r = &own.row[i];
        if (r->state != SPILL_PIECES) continue;
        if (uses_doomed(r)) {
            own.counts.failed++;
            let_go(r);
            pieces_reap();
            continue;
        }
        if (!all_ready(r)) continue;
        struct writer_ask ask = { .kind = WRITER_BLOB, .owner = i, .always = true,
                                  .bytes = r->file.bytes, .byte_count = r->file.count };
        manifest_name(r->talk.session, ask.name);
        if (writer_submit(&ask)) r->state = SPILL_MANIFEST;     /* else: at the next pass     */
    }
}

void spill_written(u32 row, enum err err)
{
    struct spill_row *r = spill_at(row);
    ASSERT(r->state == SPILL_MANIFEST);
    pack_out_close(&r->file);
    u32 old = find_session(r->talk.session, true);
    r->state = SPILL_COMPLETE;
    bool good = err == OK && !uses_doomed(r);
    own.counts.failed += !good;
    own.counts.complete += good;
    if (!good || r->forget) drop(row);  /* its name may be old or new on disk: both go        */
    if (old != NONE) let_go(&own.row[old]);
    pieces_reap();
}

bool spill_busy(void)
{
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1))
        if (own.row[i].state != SPILL_COMPLETE) return true;
    return false;
}

/* ------------------------------------------------------------------ find */

/* The piece that holds rows [pos's line, pos) of an entry: its tail, or the chunk of that line. */
static u32 cover_of(const struct spill_row *r, u64 pos)
{
    u64 lo = ALIGN_DOWN(pos, state_shape()->grid_rows);
    if (r->tail != NONE && lo == top_line(&r->talk)) return r->tail;
    u32 at = r->top;
    while (at != NONE && pieces_row(at)->lo > lo) at = pieces_below(at);
    return at;
}

/* The prompt has the same key ids below this anchor, and its files are there. */
static bool usable(const struct spill_row *r, const struct manifest_anchor *a,
                   const u64 (*lines)[2], const u64 *keys, struct spill_hit *hit)
{
    u64 name[2];
    transfer_name(lines, keys, a->pos, name);
    if (memcmp(name, a->name, sizeof name) != 0) return false;
    hit->anchor = pieces_find(FORMAT_ANCHOR, name);
    if (hit->anchor == NONE || !pieces_complete(hit->anchor)) return false;
    hit->cover = off_line(a->pos) ? cover_of(r, a->pos) : NONE;
    return !off_line(a->pos) || (hit->cover != NONE && pieces_complete(hit->cover));
}

void spill_find(const u64 (*lines)[2], const u64 *keys, u64 limit, u64 best_start,
                const struct rates *rates, struct spill_hit *out)
{
    *out = (struct spill_hit){ .row = NONE, .start = best_start };
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1)) {
        const struct spill_row *r = &own.row[i];
        if (r->state != SPILL_COMPLETE) continue;
        for (u32 j = r->talk.anchor_count; j > 0; j--) {
            const struct manifest_anchor *a = &r->talk.anchor[j - 1];
            struct spill_hit here = { .row = i, .start = a->pos };
            if (a->pos > limit || a->pos <= out->start) continue;
            if (!usable(r, a, lines, keys, &here)) continue;
            here.bytes = transfer_bytes(here.anchor, here.cover);
            here.slow = out->slow;
            if (rates_worth(rates, here.bytes, here.start - best_start)) *out = here;
            else out->slow = true;
            break;
        }
    }
}

bool spill_end(u32 row, struct spill_hit *out)
{
    const struct spill_row *r = spill_at(row);
    for (u32 j = r->talk.anchor_count; j > 0; j--) {
        const struct manifest_anchor *a = &r->talk.anchor[j - 1];
        struct spill_hit hit = { .row = row, .start = a->pos, .cover = NONE };
        hit.anchor = pieces_find(FORMAT_ANCHOR, a->name);
        if (hit.anchor == NONE || !pieces_complete(hit.anchor)) continue;
        if (off_line(a->pos)) hit.cover = cover_of(r, a->pos);
        if (off_line(a->pos) && (hit.cover == NONE || !pieces_complete(hit.cover))) continue;
        hit.bytes = transfer_bytes(hit.anchor, hit.cover);
        *out = hit;
        return true;
    }
    return false;
}

bool spill_saving(const u64 session[2]) { return find_session(session, false) != NONE; }

/* The manifest's file into memory of the heap, freed by the caller. */
static enum err read_manifest(const char *name, u8 **bytes_out, u64 *count_out)
{
    char path[FILE_PATH_BYTES];
    struct file_stat stat;
    TRY(file_join(own.place->folder, name, path));
    TRY(file_stat(path, &stat));
    if (stat.bytes > MANIFEST_BYTES_MAX)
        return fail(ERR_LIMIT, "%s is %llu bytes long", name, (ull)stat.bytes);
    u8 *bytes = arena_heap_alloc(stat.bytes + 1);
    if (bytes == NULL) return fail(ERR_MEMORY, "no memory for %s", name);
    enum err err = file_read(path, bytes, stat.bytes, count_out);
    if (err == OK) *bytes_out = bytes;
    else arena_heap_free(bytes);
    return err;
}

bool spill_is(u32 row, const struct manifest *talk)
{
    return row < own.cap && own.row[row].state == SPILL_COMPLETE &&
           memcmp(own.row[row].talk.session, talk->session, sizeof talk->session) == 0 &&
           own.row[row].talk.length == talk->length &&
           memcmp(own.row[row].talk.tail, talk->tail, sizeof talk->tail) == 0;
}

enum err spill_generations(const struct manifest *talk, const u8 *bytes, u64 count, u64 start,
                           struct generation_list *list)
{
    struct manifest m;
    TRY(manifest_get(bytes, count, own.place, &m, list));
    bool same = m.length == talk->length && memcmp(m.session, talk->session, 16) == 0 &&
                memcmp(m.top, talk->top, 16) == 0 && memcmp(m.tail, talk->tail, 16) == 0;
    end_cut(list, same ? start : 0);
    return same ? OK : fail(ERR_STALE, "the manifest was written anew meanwhile");
}

void spill_served(const struct spill_hit *hit, bool good, u64 now_s)
{
    own.counts.restored += good;
    own.counts.read_failed += !good;
    if (!good || own.row[hit->row].state != SPILL_COMPLETE) return;
    own.row[hit->row].talk.hits++;
    own.row[hit->row].talk.used_s = now_s;
}

/* ------------------------------------------------------------------ scan */

/* The pieces and anchors of a manifest that are there; false: rows, or all starts and one of its
 * own among them, are missing. */
static bool adopt(const struct manifest *m, struct spill_row *r)
{
    static const u64 none[2];
    u64 line = top_line(m);
    bool top = memcmp(m->top, none, sizeof none) != 0, tail = memcmp(m->tail, none, 16) != 0;
    *r = (struct spill_row){ .talk = *m, .top = NONE, .tail = NONE, .state = SPILL_COMPLETE };
    if (top != (line > 0) || tail != (line < m->length)) return false;
    r->top = top ? pieces_find(FORMAT_CHUNK, m->top) : NONE;
    r->tail = tail ? pieces_find(FORMAT_TAIL, m->tail) : NONE;
    if (top && (r->top == NONE || pieces_row(r->top)->hi != line)) return false;
    if (tail && (r->tail == NONE || pieces_row(r->tail)->hi != m->length)) return false;
    if (r->tail != NONE && pieces_below(r->tail) != r->top) return false;
    u32 kept = 0, its = 0;
    for (u32 i = 0; i < m->anchor_count; i++) {
        its += off_line(m->anchor[i].pos);
        u32 piece = pieces_find(FORMAT_ANCHOR, m->anchor[i].name);
        if (piece == NONE || pieces_row(piece)->hi != m->anchor[i].pos) continue;
        r->talk.anchor[kept] = m->anchor[i];
        r->anchor[kept++] = off_line(m->anchor[i].pos) ? piece : NONE;
    }
    r->talk.anchor_count = kept;
    return kept > 0 || its == 0;
}

static enum err scan_one(const char *name, const u64 session[2])
{
    struct manifest m;
    struct spill_row r;
    u8 *bytes = NULL;
    u64 count = 0;
    u32 row = 0;
    TRY(read_manifest(name, &bytes, &count));
    enum err err = manifest_get(bytes, count, own.place, &m, NULL);
    arena_heap_free(bytes);
    if (err != OK) return err;
    if (memcmp(m.session, session, sizeof m.session) != 0)
        return fail(ERR_FORMAT, "it is another session's than its name says");
    if (!adopt(&m, &r)) return fail(ERR_NOT_FOUND, "files it names are not there");
    if (r.talk.anchor_count == 0) {     /* startless: a kill came before its manifest went    */
        char path[FILE_PATH_BYTES];
        own.counts.dropped++;
        TRY(file_join(own.place->folder, name, path));
        return file_remove(path);
    }
    while (row < own.cap && own.row[row].state != SPILL_FREE) row++;
    if (row == own.cap) return fail(ERR_FULL, "%u spilled conversations", own.cap);
    if (r.top != NONE) pieces_use(r.top);
    if (r.tail != NONE) pieces_use(r.tail);
    for (u32 i = 0; i < r.talk.anchor_count; i++)
        if (r.anchor[i] != NONE) pieces_use(r.anchor[i]);
    own.row[row] = r;
    own.counts.found_at_start++;
    return OK;
}

enum err spill_scan(void)
{
    struct file_list list;
    char path[FILE_PATH_BYTES];
    u64 session[2];
    TRY(file_list_open(own.place->folder, &list));
    while (file_list_next(&list)) {
        if (!manifest_name_parse(list.name, session)) continue;
        enum err err = scan_one(list.name, session);
        if (err == OK) continue;
        log_line(LOG_LEVEL_WARN, "cache file %s%s: %s", list.name, err == ERR_IO ? "" : " goes",
                 err_last()->text);
        own.counts.bad_at_start++;
        if (err == ERR_IO || err == ERR_MEMORY) continue;
        if (file_join(own.place->folder, list.name, path) == OK && file_remove(path) != OK)
            log_line(LOG_LEVEL_WARN, "cache folder: %s", err_last()->text);
    }
    file_list_close(&list);
    return OK;
}

/* ------------------------------------------------------------------ let go */

static f64 value(const struct spill_row *r, u64 now_s)
{
    u64 idle_us = (now_s - MIN(now_s, r->talk.used_s)) * 1000000u;
    u64 bytes = r->top == NONE ? 0 : pieces_chain_bytes(r->top, 0);
    if (r->tail != NONE) bytes += pieces_row(r->tail)->bytes;
    return value_of(r->talk.hits, r->talk.length, idle_us, (u64)PIECES_HALF_LIFE_S * 1000000u,
                    bytes);
}

bool spill_evict(u64 need_bytes, u64 now_s)
{
    if (need_bytes > own.cap_bytes) return false;
    while (pieces_counts().spill_bytes + need_bytes > own.cap_bytes) {  /* one entry a round  */
        u32 victim = NONE;
        for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1)) {
            const struct spill_row *r = &own.row[i];
            if (r->state != SPILL_COMPLETE || r->reads > 0) continue;
            if (victim == NONE || value(r, now_s) < value(&own.row[victim], now_s)) victim = i;
        }
        if (victim == NONE) return false;
        drop(victim);
        pieces_reap();
    }
    return true;
}

u32 spill_clear(const u64 session[2])
{
    u32 count = 0;
    for (u32 i = spill_next(0); i != NONE; i = spill_next(i + 1)) {
        struct spill_row *r = &own.row[i];
        if (session != NULL && memcmp(r->talk.session, session, sizeof r->talk.session) != 0)
            continue;
        count++;
        if (r->state == SPILL_MANIFEST) r->forget = true;
        else drop(i);
    }
    pieces_reap();
    return count;
}
