/* tiers/nvme/pieces.c - rows of files: chains, users, charges, scan and eviction. */
#include "tiers/nvme/pieces.h"

#include "arena/base/log.h"
#include "arena/table.h"
#include "tiers/value.h"

#include <string.h>

static struct {
    struct piece_row *row;
    u32 *bucket;
    u32 cap, high;                      /* rows ever used: [0, high)                          */
    const struct fingerprint *place;
    struct pieces_counts counts;
} own;

u64 pieces_table_bytes(u32 row_cap)
{
    return (sizeof(struct piece_row) + sizeof(u32)) * row_cap + 2 * 64;
}

enum err pieces_open(u32 table_arena, u32 row_cap, const struct fingerprint *place)
{
    memset(&own, 0, sizeof own);
    TRY(arena_table_take(table_arena, "pieces", sizeof *own.row, row_cap, &own.row));
    TRY(arena_table_take(table_arena, "piece buckets", sizeof *own.bucket, row_cap, &own.bucket));
    own.cap = row_cap;
    own.place = place;
    for (u32 i = 0; i < row_cap; i++) own.bucket[i] = NONE;
    return OK;
}

struct piece_row *pieces_row(u32 piece)
{
    ASSERT(piece < own.high && own.row[piece].state != PIECE_FREE);
    return &own.row[piece];
}

u32 pieces_next(u32 from)
{
    for (u32 i = from; i < own.high; i++)
        if (own.row[i].state != PIECE_FREE) return i;
    return NONE;
}

struct pieces_counts pieces_counts(void) { return own.counts; }

/* ------------------------------------------------------------------ find and chains */

static u32 *bucket_of(const u64 name[2]) { return &own.bucket[name[0] % own.cap]; }

u32 pieces_find(enum format_kind kind, const u64 name[2])
{
    for (u32 i = *bucket_of(name); i != NONE; i = own.row[i].next)
        if (own.row[i].kind == kind && memcmp(own.row[i].name, name, sizeof own.row[i].name) == 0)
            return i;
    return NONE;
}

static bool on_line(const struct piece_row *r)
{
    return r->kind == FORMAT_ANCHOR && r->hi % state_shape()->grid_rows == 0;
}

u32 pieces_below(u32 piece)
{
    const struct piece_row *r = pieces_row(piece);
    if (on_line(r)) return pieces_find(FORMAT_CHUNK, r->name);
    return r->lo == 0 ? NONE : pieces_find(FORMAT_CHUNK, r->below);
}

/* True when the piece needs no other, or the one it stands on is there. */
static bool grounded(u32 piece)
{
    const struct piece_row *r = &own.row[piece];
    u32 below = pieces_below(piece);
    if (below == NONE) return r->lo == 0 && !on_line(r);
    return !own.row[below].doomed;
}

bool pieces_complete(u32 piece)
{
    for (u32 at = piece; at != NONE; at = pieces_below(at)) {   /* ends: hi falls each step   */
        if (own.row[at].state != PIECE_READY || own.row[at].doomed || !grounded(at)) return false;
    }
    return true;
}

u32 pieces_best(const u64 (*lines)[2], u64 limit)
{
    u32 best = NONE;
    u64 g = state_shape()->grid_rows;
    for (u64 i = 0; (i + 1) * g <= limit; i++) {
        u32 chunk = pieces_find(FORMAT_CHUNK, lines[i]);
        if (chunk == NONE || own.row[chunk].state != PIECE_READY || own.row[chunk].doomed) break;
        u32 anchor = pieces_find(FORMAT_ANCHOR, lines[i]);
        if (anchor != NONE && own.row[anchor].state == PIECE_READY && !own.row[anchor].doomed)
            best = anchor;
    }
    return best;
}

u64 pieces_chain_bytes(u32 piece, u64 from)
{
    u64 bytes = 0;
    for (u32 at = piece; at != NONE && own.row[at].hi > from; at = pieces_below(at))
        bytes += own.row[at].bytes;
    return bytes;
}

/* ------------------------------------------------------------------ users and charges */

static bool is_disk(const struct piece_row *r) { return on_line(r) || r->disk_users > 0; }

static u64 *charge_of(const struct piece_row *r)
{
    return is_disk(r) ? &own.counts.disk_bytes : &own.counts.spill_bytes;
}

/* One more, or one less, of the disk's users on a chunk and, while it is the first, below it. */
static void disk_users(u32 chunk, bool more)
{
    for (u32 at = chunk; at != NONE; at = pieces_below(at)) {
        struct piece_row *r = &own.row[at];
        ASSERT(more || r->disk_users > 0);
        bool turns = more ? r->disk_users == 0 : r->disk_users == 1;
        if (turns) *charge_of(r) -= r->bytes;
        r->disk_users += more ? 1u : UINT32_MAX;
        if (turns) *charge_of(r) += r->bytes;
        if (!turns) return;
    }
}

/* Counts a row in: among the users of what it stands on, in its bytes. */
static void link_row(u32 piece)
{
    struct piece_row *r = &own.row[piece];
    u32 below = pieces_below(piece);
    r->linked = 1;
    *charge_of(r) += r->bytes;
    own.counts.rows++;
    own.counts.anchors += on_line(r);
    if (below == NONE || (r->kind != FORMAT_CHUNK && !on_line(r))) return;
    own.row[below].users++;
    if (is_disk(r)) disk_users(below, true);
}

static u32 insert(const struct piece_row *value)
{
    u32 at = 0;
    while (at < own.high && own.row[at].state != PIECE_FREE) at++;
    if (at == own.cap) return NONE;
    own.high = MAX(own.high, at + 1);
    own.row[at] = *value;
    own.row[at].next = *bucket_of(value->name);
    *bucket_of(value->name) = at;
    return at;
}

static void remove_file(const struct piece_row *r)
{
    char name[FORMAT_NAME_BYTES];
    format_name((enum format_kind)r->kind, r->name, name);
    writer_remove(name);
}

static void take_out(u32 piece)
{
    u32 *link = bucket_of(own.row[piece].name);
    while (*link != piece) link = &own.row[*link].next; /* ends: it is in its bucket          */
    *link = own.row[piece].next;
    own.row[piece] = (struct piece_row){ .state = PIECE_FREE };
}

/* A row nobody uses goes, with its file; what it stood on may be doomed by that. */
static void remove_row(u32 piece)
{
    struct piece_row *r = &own.row[piece];
    u32 below = pieces_below(piece);
    bool counted = below != NONE && (r->kind == FORMAT_CHUNK || on_line(r));
    ASSERT(r->users == 0 && r->reads == 0 && r->state == PIECE_READY);
    if (counted && is_disk(r)) disk_users(below, false);
    if (counted) {
        ASSERT(own.row[below].users > 0);
        if (--own.row[below].users == 0) own.row[below].doomed = 1;
    }
    *charge_of(r) -= r->bytes;
    own.counts.rows--;
    own.counts.anchors -= on_line(r);
    remove_file(r);
    take_out(piece);
}

void pieces_reap(void)
{
    for (bool moved = true; moved;) {   /* ends: each round removes a row                     */
        moved = false;
        for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
            struct piece_row *r = &own.row[i];
            if (!r->doomed || r->users > 0 || r->reads > 0 || r->state != PIECE_READY) continue;
            remove_row(i);
            moved = true;
        }
    }
}

static void doom_above(void)
{
    for (bool moved = true; moved;) {   /* ends: each round dooms a row                       */
        moved = false;
        for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
            if (own.row[i].doomed || grounded(i)) continue;
            own.row[i].doomed = 1;
            moved = true;
        }
    }
}

void pieces_doom(u32 piece)
{
    pieces_row(piece)->doomed = 1;
    own.counts.bad++;
    doom_above();
}

void pieces_doubt(u32 turn)
{
    for (u32 i = pieces_next(0); i != NONE && turn != 0; i = pieces_next(i + 1))
        if (own.row[i].turn == turn && !own.row[i].doomed) pieces_doom(i);
}

void pieces_drop(u32 piece)
{
    struct piece_row *r = pieces_row(piece);
    if (r->users > 0) return;
    r->doomed = 1;
    pieces_reap();
}

void pieces_use(u32 piece) { pieces_row(piece)->users++; }

void pieces_unuse(u32 piece)
{
    struct piece_row *r = pieces_row(piece);
    ASSERT(r->users > 0);
    if (--r->users == 0) r->doomed = 1;
}

void pieces_hold(u32 piece) { pieces_row(piece)->reads++; }

void pieces_release(u32 piece)
{
    ASSERT(pieces_row(piece)->reads > 0);
    pieces_row(piece)->reads--;
}

void pieces_hit(u32 piece, u64 now_s)
{
    struct piece_row *r = pieces_row(piece);
    r->hits++;
    r->used_s = now_s;
}

/* ------------------------------------------------------------------ write */

enum err pieces_write(const struct writer_ask *ask, u64 now_s, u32 *piece_out)
{
    u32 there = pieces_find(ask->piece, ask->hash);
    if (there != NONE) {
        if (own.row[there].doomed) return fail(ERR_FULL, "an old file of that name is going");
        *piece_out = there;
        return OK;
    }
    struct piece_row value = {
        .lo = ask->lo, .hi = ask->hi, .kind = (u8)ask->piece, .state = PIECE_WRITING,
        .bytes = format_bytes(state_shape(), ask->piece, ask->lo, ask->hi), .used_s = now_s,
        .turn = ask->turn,
    };
    memcpy(value.name, ask->hash, sizeof value.name);
    memcpy(value.below, ask->below, sizeof value.below);
    memcpy(value.sums, ask->sums, sizeof value.sums);
    memcpy(value.session, ask->session, sizeof value.session);
    if (own.counts.rows == own.cap) return fail(ERR_FULL, "%u pieces: the table is full", own.cap);
    u32 piece = insert(&value);
    ASSERT(piece != NONE);
    struct writer_ask with_owner = *ask;
    with_owner.owner = piece;
    enum err err = grounded(piece) ? OK : fail(ERR_NOT_FOUND, "its chunk below is not there");
    if (err == OK && !writer_submit(&with_owner)) err = fail(ERR_FULL, "the writer has no room");
    if (err != OK) {
        take_out(piece);
        return err;
    }
    link_row(piece);
    *piece_out = piece;
    return OK;
}

void pieces_written(u32 piece, enum err err)
{
    struct piece_row *r = pieces_row(piece);
    ASSERT(r->state == PIECE_WRITING);
    r->state = PIECE_READY;
    if (err != OK) pieces_doom(piece);
    if (err == ERR_CANCELLED) own.counts.bad--;         /* nothing is wrong with the disk     */
}

/* ------------------------------------------------------------------ scan */

static enum err read_head(const char *path, struct format_head *out, u64 *used_s_out)
{
    static _Alignas(FILE_PAGE_BYTES) u8 page[FILE_PAGE_BYTES];
    struct file_stat stat;
    int fd = -1;
    TRY(file_stat(path, &stat));
    if (stat.bytes < FILE_PAGE_BYTES) return fail(ERR_FORMAT, "%llu bytes long", (ull)stat.bytes);
    TRY(file_open(path, FILE_OPEN_READ, 0, &fd));
    enum err err = file_read_at(fd, 0, page, sizeof page);
    file_close(fd);
    if (err != OK) return err;
    *used_s_out = stat.mtime_ns / 1000000000u;
    return format_check(state_shape(), own.place->id, page, stat.bytes, out);
}

/* A name of the folder: a row, somebody else's (manifests, counts, ABOUT), or litter. */
static enum err scan_one(const char *name, u64 now_s)
{
    char path[FILE_PATH_BYTES];
    u64 hash[2], bytes = strlen(name), used_s = 0;
    enum format_kind kind;
    struct format_head head;
    TRY(file_join(own.place->folder, name, path));
    bool piece = format_name_parse(name, &kind, hash);
    bool litter = bytes > 4 && strcmp(name + bytes - 4, ".tmp") == 0;
    if (!piece && !litter) return OK;
    enum err err = piece ? read_head(path, &head, &used_s) : fail(ERR_FORMAT, "left by a crash");
    if (err == ERR_IO) return err;      /* not the file's fault: it may be good next time     */
    if (err == OK && (head.kind != (u32)kind || memcmp(head.name, hash, sizeof hash) != 0))
        err = fail(ERR_FORMAT, "it is another file than its name says");
    if (err == OK) {
        struct piece_row value = { .lo = head.lo, .hi = head.hi, .bytes = head.file_bytes,
                                   .used_s = MIN(used_s, now_s), .kind = (u8)kind,
                                   .state = PIECE_READY };
        memcpy(value.name, head.name, sizeof value.name);
        memcpy(value.below, head.below, sizeof value.below);
        memcpy(value.sums, head.sums, sizeof value.sums);
        memcpy(value.session, head.session, sizeof value.session);
        if (insert(&value) != NONE) {
            own.counts.found_at_start++;
            return OK;
        }
        err = fail(ERR_FULL, "%u pieces: the table is full", own.cap);
    }
    if (piece) log_line(LOG_LEVEL_WARN, "cache file %s goes: %s", name, err_last()->text);
    own.counts.removed_at_start++;
    return file_remove(path);
}

/* Counts all rows in, each after what it stands on. */
static void link_all(void)
{
    for (bool moved = true; moved;) {   /* ends: each round links a row                       */
        moved = false;
        for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
            u32 below = pieces_below(i);
            if (own.row[i].linked || (below != NONE && !own.row[below].linked)) continue;
            link_row(i);
            moved = true;
        }
    }
}

enum err pieces_scan(u64 now_s)
{
    struct file_list list;
    TRY(file_list_open(own.place->folder, &list));
    while (file_list_next(&list))
        if (scan_one(list.name, now_s) != OK)
            log_line(LOG_LEVEL_WARN, "cache file %s: %s", list.name, err_last()->text);
    file_list_close(&list);
    doom_above();                       /* broken chains, before anybody is counted           */
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
        if (!own.row[i].doomed) continue;
        own.counts.removed_at_start++;
        remove_file(&own.row[i]);
        take_out(i);
    }
    link_all();
    return OK;
}

void pieces_sweep(void)
{
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
        struct piece_row *r = &own.row[i];
        if (r->users > 0 || r->doomed || on_line(r) || r->state != PIECE_READY) continue;
        r->doomed = 1;
        own.counts.removed_at_start++;
    }
    pieces_reap();
}

/* ------------------------------------------------------------------ eviction */

/* Bytes that would come free with a line anchor, and tokens its loss would cost. */
static f64 anchor_value(u32 anchor, u64 now_s)
{
    const struct piece_row *r = &own.row[anchor];
    u64 bytes = r->bytes, next_hi = 0;
    bool last = true;
    for (u32 at = pieces_below(anchor); at != NONE; at = pieces_below(at)) {
        const struct piece_row *c = &own.row[at];
        u32 other = c->hi < r->hi ? pieces_find(FORMAT_ANCHOR, c->name) : NONE;
        if (other != NONE && next_hi == 0) next_hi = c->hi;
        last = last && c->users == 1;
        if (last) bytes += c->bytes;
    }
    u64 idle_us = (now_s - MIN(now_s, r->used_s)) * 1000000u;
    return value_of(r->hits, r->hi - next_hi, idle_us, (u64)PIECES_HALF_LIFE_S * 1000000u, bytes);
}

static bool evictable(const struct piece_row *r)
{
    return on_line(r) && !r->doomed && r->reads == 0 && r->state == PIECE_READY;
}

static u32 cheapest(u64 now_s)
{
    u32 found = NONE;
    f64 least = 0;
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
        if (!evictable(&own.row[i])) continue;
        f64 value = anchor_value(i, now_s);
        if (found != NONE && value >= least) continue;
        found = i;
        least = value;
    }
    return found;
}

bool pieces_evict(u64 cap_bytes, u64 need_bytes, u64 unused_s, u64 now_s)
{
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
        struct piece_row *r = &own.row[i];
        if (unused_s == 0 || !evictable(r) || now_s <= r->used_s + unused_s) continue;
        r->doomed = 1;
        own.counts.aged++;
    }
    pieces_reap();
    while (own.counts.disk_bytes + need_bytes > cap_bytes) {    /* ends: one anchor a round   */
        u32 victim = cheapest(now_s);
        if (victim == NONE) return false;
        own.row[victim].doomed = 1;
        own.counts.evicted++;
        pieces_reap();
    }
    return true;
}

void pieces_clear(void)
{
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1))
        if (on_line(&own.row[i])) own.row[i].doomed = 1;
    pieces_reap();
}

void pieces_unmark(void)
{
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) own.row[i].marks = 0;
}

void pieces_mark(u32 top, enum piece_mark mark)
{
    for (u32 at = top; at != NONE && (own.row[at].marks & mark) == 0; at = pieces_below(at))
        own.row[at].marks |= (u8)mark;  /* ends: hi falls each step                           */
}

u32 pieces_forget(const u64 session[2])
{
    u32 count = 0;
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
        struct piece_row *r = &own.row[i];
        u32 chunk = on_line(r) ? pieces_below(i) : NONE;
        u8 marks = chunk == NONE ? 0 : own.row[chunk].marks;
        bool its = memcmp(r->session, session, sizeof r->session) == 0 || (marks & PIECE_ITS) != 0;
        if (!on_line(r) || r->doomed || !its || (marks & PIECE_OTHERS) != 0) continue;
        r->doomed = 1;
        count++;
    }
    return count;
}

/* ------------------------------------------------------------------ check */

void pieces_check(void)
{
    u64 disk_bytes = 0, spill_bytes = 0;
    u32 rows = 0;
    for (u32 i = pieces_next(0); i != NONE; i = pieces_next(i + 1)) {
        const struct piece_row *r = &own.row[i];
        u32 users = 0, disk = 0;
        rows++;
        for (u32 j = pieces_next(0); j != NONE; j = pieces_next(j + 1)) {
            const struct piece_row *above = &own.row[j];
            bool counts = above->kind == FORMAT_CHUNK || on_line(above);
            if (j == i || !counts || pieces_below(j) != i) continue;
            users++;
            disk += is_disk(above);
        }
        ASSERT(r->users >= users && r->disk_users == disk);
        ASSERT(pieces_find((enum format_kind)r->kind, r->name) == i);
        if (is_disk(r)) disk_bytes += r->bytes;
        else spill_bytes += r->bytes;
    }
    ASSERT(rows == own.counts.rows && disk_bytes == own.counts.disk_bytes);
    ASSERT(spill_bytes == own.counts.spill_bytes);
}
