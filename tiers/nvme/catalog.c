/* tiers/nvme/catalog.c - rows of heads and manifests, checks, clearing. */
#include "tiers/nvme/catalog.h"

#include "arena/base/crc32.h"
#include "arena/base/hash.h"
#include "arena/heap.h"

#include <string.h>

enum { HEX = 32, STEP_BYTES = 1 << 20, BLOCK_ROWS_MAX = 1 << 16 };
static const u64 none[2];

bool catalog_is_name(const char *name)
{
    return strlen(name) == HEX && strspn(name, "0123456789abcdef") == HEX;
}

/* ------------------------------------------------------------------ open and close */

static enum err read_head(const char *path, struct catalog_row *r)
{
    static _Alignas(FILE_PAGE_BYTES) u8 page[FILE_PAGE_BYTES];
    int fd = -1;
    if (r->bytes < FILE_PAGE_BYTES) return fail(ERR_FORMAT, "%llu bytes long", (ull)r->bytes);
    TRY(file_open(path, FILE_OPEN_READ, 0, &fd));
    enum err err = file_read_at(fd, 0, page, sizeof page);
    file_close(fd);
    return err != OK ? err : format_look(page, r->bytes, &r->head);
}

/* The bytes of a manifest, of the heap. */
static enum err read_manifest(const struct catalog *c, const u64 session[2], u8 **out, u64 *count)
{
    char name[MANIFEST_NAME_BYTES], path[FILE_PATH_BYTES];
    struct file_stat stat;
    manifest_name(session, name);
    TRY(file_join(c->place.folder, name, path));
    TRY(file_stat(path, &stat));
    if (stat.bytes > MANIFEST_BYTES_MAX) return fail(ERR_LIMIT, "%llu bytes", (ull)stat.bytes);
    u8 *bytes = arena_heap_alloc(stat.bytes + 1);
    if (bytes == NULL) return fail(ERR_MEMORY, "no memory for %s", name);
    enum err err = file_read(path, bytes, stat.bytes, count);
    if (err != OK) arena_heap_free(bytes);
    else *out = bytes;
    return err;
}

enum err catalog_generations(const struct catalog *c, u32 talk, struct generation_list *list)
{
    struct manifest m;
    u8 *bytes = NULL;
    u64 count = 0;
    TRY(read_manifest(c, c->talk[talk].manifest.session, &bytes, &count));
    enum err err = manifest_get(bytes, count, &c->place, &m, list);
    arena_heap_free(bytes);
    return err;
}

static void add_piece(struct catalog *c, const char *path, enum format_kind kind,
                      const u64 name[2], const struct file_stat *stat)
{
    struct catalog_row *r = &c->row[c->row_count];
    *r = (struct catalog_row){ .bytes = stat->bytes, .used_s = stat->mtime_ns / 1000000000u };
    bool good = read_head(path, r) == OK && r->head.kind == (u32)kind &&
                memcmp(r->head.name, name, sizeof r->head.name) == 0 &&
                memcmp(r->head.fingerprint, c->place.id, sizeof c->place.id) == 0;
    r->bad = !good;
    if (r->bad) r->head = (struct format_head){ .kind = kind, .name = { name[0], name[1] } };
    u32 *bucket = &c->bucket[name[0] % c->row_cap];
    r->next = *bucket;
    *bucket = c->row_count++;
}

static void add_talk(struct catalog *c, const u64 session[2], u64 file_bytes)
{
    struct catalog_talk *t = &c->talk[c->talk_count++];
    u8 *bytes = NULL;
    u64 count = 0;
    *t = (struct catalog_talk){ .bytes = file_bytes };
    enum err err = read_manifest(c, session, &bytes, &count);
    if (err == OK) err = manifest_get(bytes, count, &c->place, &t->manifest, NULL);
    arena_heap_free(bytes);
    t->bad = err != OK || memcmp(t->manifest.session, session, sizeof t->manifest.session) != 0;
    if (t->bad) t->manifest = (struct manifest){ .session = { session[0], session[1] } };
}

/* Adds every name of the folder, or with NULL tables counts them. */
static enum err walk(struct catalog *c, bool add, u32 *rows_out, u32 *talks_out)
{
    struct file_list list;
    char path[FILE_PATH_BYTES];
    TRY(file_list_open(c->place.folder, &list));
    while (file_list_next(&list)) {
        enum format_kind kind;
        struct file_stat stat;
        u64 name[2];
        bool piece = format_name_parse(list.name, &kind, name);
        bool talk = !piece && manifest_name_parse(list.name, name);
        *rows_out += piece;
        *talks_out += talk;
        if (!add || file_join(c->place.folder, list.name, path) != OK ||
            file_stat(path, &stat) != OK) continue;     /* gone meanwhile: a server is at work */
        if (piece && c->row_count < c->row_cap) add_piece(c, path, kind, name, &stat);
        else if (talk && c->talk_count < c->talk_cap) add_talk(c, name, stat.bytes);
        else c->rest_bytes += stat.bytes;
    }
    file_list_close(&list);
    return OK;
}

static u32 top_of(const struct catalog *c, const struct manifest *m)
{
    return memcmp(m->top, none, sizeof none) == 0 ? NONE : catalog_find(c, FORMAT_CHUNK, m->top);
}

static u32 tail_of(const struct catalog *c, const struct manifest *m)
{
    return memcmp(m->tail, none, sizeof none) == 0 ? NONE : catalog_find(c, FORMAT_TAIL, m->tail);
}

/* A walk down reaches row 0. */
static bool grounded(const struct catalog *c, u32 row)
{
    u64 lo = c->row[row].head.lo;
    for (u32 at = row; lo > 0; lo = c->row[at].head.lo) {       /* ends: lo falls each step   */
        at = catalog_find(c, FORMAT_CHUNK, c->row[at].head.below);
        if (at == NONE || c->row[at].bad || c->row[at].head.hi != lo) return false;
    }
    return !c->row[row].bad;
}

enum err catalog_verify_talk(const struct catalog *c, u32 talk)
{
    const struct catalog_talk *t = &c->talk[talk];
    const struct manifest *m = &t->manifest;
    u32 tail = tail_of(c, m), top = top_of(c, m), anchors = 0;
    if (t->bad) return fail(ERR_FORMAT, "the manifest can't be read");
    bool has_tail = memcmp(m->tail, none, sizeof none) != 0;
    bool has_top = memcmp(m->top, none, sizeof none) != 0;
    if (!has_tail && !has_top) return fail(ERR_FORMAT, "it names no rows");
    if (has_tail && (tail == NONE || !grounded(c, tail) || c->row[tail].head.hi != m->length))
        return fail(ERR_NOT_FOUND, "its tail or a chunk below it is not there");
    if (has_top && (top == NONE || !grounded(c, top)))
        return fail(ERR_NOT_FOUND, "its top chunk or one below it is not there");
    for (u32 i = 0; i < m->anchor_count; i++) {
        u32 at = catalog_find(c, FORMAT_ANCHOR, m->anchor[i].name);
        anchors += at != NONE && !c->row[at].bad && c->row[at].head.hi == m->anchor[i].pos;
    }
    return anchors > 0 ? OK : fail(ERR_NOT_FOUND, "none of its anchors is there");
}

enum err catalog_open(const char *root, const char *name, struct catalog *out)
{
    u32 rows = 0, talks = 0;
    *out = (struct catalog){ .place = { .lock_fd = -1 } };
    struct catalog *c = out;
    TRY(file_join(root, "", c->place.root));
    TRY(file_join(root, name, c->place.folder));
    TRY(fingerprint_look(root, name, &c->about));
    for (u32 i = 0; i < sizeof c->place.id; i++) {
        u32 hi = (u32)(strchr("0123456789abcdef", name[2 * i]) - "0123456789abcdef");
        u32 lo = (u32)(strchr("0123456789abcdef", name[2 * i + 1]) - "0123456789abcdef");
        c->place.id[i] = (u8)(hi << 4 | lo);
    }
    TRY(walk(c, false, &rows, &talks));
    if (rows > CATALOG_ROWS_MAX || talks > CATALOG_TALKS_MAX)
        return fail(ERR_LIMIT, "%s: %u files, %u conversations", c->place.folder, rows, talks);
    c->row_cap = rows + 1;
    c->talk_cap = talks + 1;
    c->row = arena_heap_alloc(c->row_cap * sizeof *c->row);
    c->bucket = arena_heap_alloc(c->row_cap * sizeof *c->bucket);
    c->talk = arena_heap_alloc(c->talk_cap * sizeof *c->talk);
    if (c->row == NULL || c->bucket == NULL || c->talk == NULL) {
        catalog_close(c);
        return fail(ERR_MEMORY, "no memory for %u files of %s", rows, c->place.folder);
    }
    for (u32 i = 0; i < c->row_cap; i++) c->bucket[i] = NONE;
    enum err err = walk(c, true, &rows, &talks);
    for (u32 i = 0; i < c->talk_count; i++) c->talk[i].whole = catalog_verify_talk(c, i) == OK;
    if (err != OK) catalog_close(c);
    return err;
}

void catalog_close(struct catalog *c)
{
    arena_heap_free(c->row);
    arena_heap_free(c->bucket);
    arena_heap_free(c->talk);
    c->row = NULL;
    c->bucket = NULL;
    c->talk = NULL;
    c->row_count = c->talk_count = 0;
}

/* ------------------------------------------------------------------ find */

u32 catalog_find(const struct catalog *c, enum format_kind kind, const u64 name[2])
{
    for (u32 i = c->bucket[name[0] % c->row_cap]; i != NONE; i = c->row[i].next)
        if (c->row[i].head.kind == (u32)kind &&
            memcmp(c->row[i].head.name, name, sizeof c->row[i].head.name) == 0) return i;
    return NONE;
}

bool catalog_on_line(const struct catalog *c, u32 row)
{
    const struct format_head *h = &c->row[row].head;
    return h->kind == FORMAT_ANCHOR && catalog_find(c, FORMAT_CHUNK, h->name) != NONE;
}

u32 catalog_below(const struct catalog *c, u32 row)
{
    const struct format_head *h = &c->row[row].head;
    if (catalog_on_line(c, row)) return catalog_find(c, FORMAT_CHUNK, h->name);
    return h->lo == 0 ? NONE : catalog_find(c, FORMAT_CHUNK, h->below);
}

u64 catalog_own_bytes(const struct catalog *c, u32 talk)
{
    const struct manifest *m = &c->talk[talk].manifest;
    u32 tail = tail_of(c, m);
    u64 bytes = c->talk[talk].bytes + (tail == NONE ? 0 : c->row[tail].bytes);
    for (u32 i = 0; i < m->anchor_count; i++) {
        u32 at = catalog_find(c, FORMAT_ANCHOR, m->anchor[i].name);
        if (at != NONE && !catalog_on_line(c, at)) bytes += c->row[at].bytes;
    }
    return bytes;
}

/* ------------------------------------------------------------------ verify */

static bool names_to(const struct format_head *h, const u64 *keys, u64 block_rows)
{
    u64 hash[2] = { h->below[0], h->below[1] };
    for (u64 at = 0; at < h->key_count; at += block_rows)
        format_chain(hash, keys + at, MIN(h->key_count - at, block_rows));
    return memcmp(hash, h->name, sizeof hash) == 0;
}

/* B is not in the file: the power of two by which its ids are hashed to its name. */
static enum err check_name(struct catalog *c, const struct format_head *h, const u64 *keys)
{
    if (c->block_rows != 0 && names_to(h, keys, c->block_rows)) return OK;
    for (u64 b = 4; b <= BLOCK_ROWS_MAX; b *= 2)
        if (names_to(h, keys, b)) {
            c->block_rows = b;
            return OK;
        }
    return fail(ERR_FORMAT, "its key ids are not those of its name");
}

static enum err check_data(int fd, const struct format_head *h, struct format_part *part, u8 *step)
{
    struct format_part sum[FORMAT_PART_CAP];
    const struct format_part *last = &part[h->part_count - 1];
    u64 unit = last->offset + last->bytes;
    if (unit == 0 || unit > h->data_bytes || h->data_bytes % unit != 0)
        return fail(ERR_FORMAT, "its parts do not fit its data");
    memcpy(sum, part, h->part_count * sizeof *sum);
    for (u32 i = 0; i < h->part_count; i++) sum[i].crc = 0;
    for (u64 base = 0; base < h->data_bytes; base += unit)
        for (u64 at = 0; at < unit; at += STEP_BYTES) {
            u64 bytes = MIN(unit - at, (u64)STEP_BYTES);
            TRY(file_read_at(fd, h->data_offset + base + at, step, bytes));
            format_crc(sum, h->part_count, step, at, bytes);
        }
    for (u32 i = 0; i < h->part_count; i++)
        if (sum[i].crc != part[i].crc)
            return fail(ERR_CRC, "part \"%.16s\": crc %08x, not %08x", part[i].name, sum[i].crc,
                        part[i].crc);
    return OK;
}

static enum err check_file(struct catalog *c, int fd, const struct format_head *h, u8 *step)
{
    struct format_part part[FORMAT_PART_CAP];
    u64 part_bytes = h->key_offset - h->part_offset, key_bytes = h->data_offset - h->key_offset;
    if (part_bytes > STEP_BYTES || key_bytes > STEP_BYTES)
        return fail(ERR_FORMAT, "%u key ids", h->key_count);
    TRY(file_read_at(fd, h->part_offset, step, part_bytes));
    if (crc32_of(step, part_bytes) != h->part_crc) return fail(ERR_CRC, "parts: bad crc");
    memcpy(part, step, h->part_count * sizeof *part);
    TRY(file_read_at(fd, h->key_offset, step, key_bytes));
    if (crc32_of(step, key_bytes) != h->key_crc) return fail(ERR_CRC, "key ids: bad crc");
    TRY(check_name(c, h, (const u64 *)(const void *)step));
    return check_data(fd, h, part, step);
}

enum err catalog_verify_row(struct catalog *c, u32 row)
{
    struct catalog_row *r = &c->row[row];
    char name[FORMAT_NAME_BYTES], path[FILE_PATH_BYTES];
    int fd = -1;
    format_name((enum format_kind)r->head.kind, r->head.name, name);
    TRY(file_join(c->place.folder, name, path));
    if (r->bad) return fail(ERR_FORMAT, "its head is bad");
    u8 *step = arena_heap_alloc(STEP_BYTES);
    if (step == NULL) return fail(ERR_MEMORY, "no memory to check a file");
    enum err err = file_open(path, FILE_OPEN_READ, 0, &fd);
    if (err == OK) err = check_file(c, fd, &r->head, step);
    file_close(fd);
    arena_heap_free(step);
    if (err == OK && !grounded(c, row))
        err = fail(ERR_NOT_FOUND, "a chunk below it is not there");
    return err;
}

/* ------------------------------------------------------------------ clear */

static void mark(struct catalog *c, u32 row, enum catalog_mark mark)
{
    for (u32 at = row; at != NONE && (c->row[at].marks & mark) == 0; at = catalog_below(c, at))
        c->row[at].marks |= (u8)mark;   /* ends: hi falls each step                           */
}

static bool is_of(const u64 of[2], const u64 session[2])
{
    return session == NULL || memcmp(of, session, 2 * sizeof *of) == 0;
}

static enum err remove_name(const struct catalog *c, const char *name)
{
    char path[FILE_PATH_BYTES];
    TRY(file_join(c->place.folder, name, path));
    return file_remove(path);
}

static bool stays(const struct catalog *c, u32 talk, bool spill, const u64 session[2])
{
    return !spill || !is_of(c->talk[talk].manifest.session, session);
}

/* What every conversation and line anchor that stays needs. */
static void mark_needed(struct catalog *c, bool disk, bool spill, const u64 session[2])
{
    for (u32 i = 0; i < c->talk_count; i++)
        mark(c, top_of(c, &c->talk[i].manifest),
             is_of(c->talk[i].manifest.session, session) ? CATALOG_ITS : CATALOG_OTHERS);
    for (u32 i = 0; i < c->row_count; i++) {
        struct catalog_row *r = &c->row[i];
        u32 chunk = catalog_on_line(c, i) ? catalog_below(c, i) : NONE;
        if (chunk == NONE) continue;
        u8 marks = c->row[chunk].marks;
        bool its = is_of(r->head.session, session) || (marks & CATALOG_ITS) != 0;
        if (!(disk && its && (session == NULL || (marks & CATALOG_OTHERS) == 0)))
            mark(c, i, CATALOG_NEEDED);
    }
    for (u32 i = 0; i < c->talk_count; i++) {
        const struct manifest *m = &c->talk[i].manifest;
        if (!stays(c, i, spill, session)) continue;
        mark(c, top_of(c, m), CATALOG_NEEDED);
        mark(c, tail_of(c, m), CATALOG_NEEDED);
        for (u32 k = 0; k < m->anchor_count; k++) {
            u32 at = catalog_find(c, FORMAT_ANCHOR, m->anchor[k].name);
            if (at != NONE && !catalog_on_line(c, at)) c->row[at].marks |= CATALOG_NEEDED;
        }
    }
}

enum err catalog_clear(struct catalog *c, bool disk, bool spill, const u64 session[2],
                       struct catalog_cleared *out)
{
    char name[FORMAT_NAME_BYTES];
    *out = (struct catalog_cleared){ 0 };
    mark_needed(c, disk, spill, session);
    for (u32 i = 0; i < c->talk_count; i++) {           /* a manifest goes before its files   */
        if (stays(c, i, spill, session)) continue;
        manifest_name(c->talk[i].manifest.session, name);
        TRY(remove_name(c, name));
        out->entries++;
        out->files++;
        out->spill_bytes += c->talk[i].bytes;
    }
    for (u32 pass = 0; pass < 2; pass++)                /* what stands on chunks before them  */
        for (u32 i = 0; i < c->row_count; i++) {
            const struct catalog_row *r = &c->row[i];
            bool chunk = r->head.kind == FORMAT_CHUNK;
            if ((r->marks & CATALOG_NEEDED) != 0 || chunk != (pass == 1)) continue;
            format_name((enum format_kind)r->head.kind, r->head.name, name);
            TRY(remove_name(c, name));
            out->files++;
            if (chunk || catalog_on_line(c, i)) out->disk_bytes += r->bytes;
            else out->spill_bytes += r->bytes;
        }
    if (disk && session == NULL) TRY(remove_name(c, "COUNTS"));
    return OK;
}
