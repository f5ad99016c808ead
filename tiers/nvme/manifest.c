/* tiers/nvme/manifest.c - msgpack of a conversation. */
#include "tiers/nvme/manifest.h"

#include "arena/base/crc32.h"
#include "arena/base/hash.h"

#include <string.h>

static const char magic[8] = "HFTALK";
enum { MANIFEST_VERSION = 2, ROW_COLUMNS = 7, ANCHOR_COLUMNS = 4, IMAGE_COLUMNS = 5 };
static_assert(sizeof(struct manifest_head) - 2 < 256, "a bin of one length byte holds its place");

void manifest_name(const u64 session[2], char out[MANIFEST_NAME_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    u8 bytes[16];
    hash_put(session, bytes);
    memcpy(out, "m-", 2);
    for (u32 i = 0; i < 16; i++) {
        out[2 + 2 * i] = digits[bytes[i] >> 4];
        out[3 + 2 * i] = digits[bytes[i] & 15];
    }
    out[34] = 0;
}

bool manifest_name_parse(const char *text, u64 session_out[2])
{
    u64 half[2] = { 0, 0 };
    if (strncmp(text, "m-", 2) != 0 || strlen(text) != 34) return false;
    for (u32 i = 0; i < 32; i++) {
        char c = text[2 + i];
        bool digit = c >= '0' && c <= '9';
        if (!digit && !(c >= 'a' && c <= 'f')) return false;
        half[i / 16] = half[i / 16] << 4 | (u64)(digit ? c - '0' : c - 'a' + 10);
    }
    session_out[0] = half[1];
    session_out[1] = half[0];
    return true;
}

/* ------------------------------------------------------------------ put */

static void put_hash(struct pack_out *out, const u64 hash[2])
{
    u8 bytes[16];
    hash_put(hash, bytes);
    pack_bin(out, bytes, sizeof bytes);
}

static void put_pair(struct pack_out *out, const char *key, u64 value)
{
    pack_cstr(out, key);
    pack_u64(out, value);
}

static void put_rows(struct pack_out *out, const struct generation_list *list)
{
    u32 count = 0;
    for (u32 row = list == NULL ? 0 : end_first(list); row != 0; row = end_next(row)) count++;
    pack_array(out, count);
    for (u32 row = count == 0 ? 0 : end_first(list); row != 0; row = end_next(row)) {
        const struct end_row *r = end_at(row);
        bool lost = FAULT(FAULT_SPAN_NOT_SAVED) && r->kind == END_SPAN;
        pack_array(out, ROW_COLUMNS);
        pack_u64(out, lost ? END_CALL : r->kind);
        pack_u64(out, r->lo);
        pack_u64(out, r->hi);
        pack_u64(out, r->think_hi);
        pack_u64(out, r->id_hash);
        pack_u64(out, r->value_hash[0]);
        pack_u64(out, r->value_hash[1]);
    }
}

static void put_images(struct pack_out *out, const struct manifest *m)
{
    pack_cstr(out, "rope_delta");
    pack_i64(out, m->rope_delta);
    pack_cstr(out, "images");
    pack_array(out, m->image_count);
    for (u32 i = 0; i < m->image_count; i++) {
        const struct manifest_image *image = &m->image[i];
        pack_array(out, IMAGE_COLUMNS);
        pack_u64(out, image->first);
        pack_u64(out, image->t);
        pack_u64(out, image->gh);
        pack_u64(out, image->gw);
        put_hash(out, image->digest);
    }
}

enum err manifest_put(const struct manifest *m, const struct generation_list *list,
                      const struct fingerprint *place, struct pack_out *out)
{
    static const u8 room[sizeof(struct manifest_head) - 2];     /* a bin of it takes 2 more   */
    pack_out_clear(out);
    pack_bin(out, room, sizeof room);
    pack_map(out, 12);
    pack_cstr(out, "session");
    put_hash(out, m->session);
    put_pair(out, "length", m->length);
    put_pair(out, "head_pos", m->head_pos);
    put_pair(out, "taint", m->taint);
    put_pair(out, "used_s", m->used_s);
    put_pair(out, "hits", m->hits);
    pack_cstr(out, "top");
    put_hash(out, m->top);
    pack_cstr(out, "tail");
    put_hash(out, m->tail);
    pack_cstr(out, "anchors");
    pack_array(out, m->anchor_count);
    for (u32 i = 0; i < m->anchor_count; i++) {
        pack_array(out, ANCHOR_COLUMNS);
        pack_u64(out, m->anchor[i].pos);
        put_hash(out, m->anchor[i].name);
        pack_u64(out, m->anchor[i].kind);
        pack_bool(out, m->anchor[i].head);
    }
    put_images(out, m);
    pack_cstr(out, "generations");
    put_rows(out, list);
    TRY(pack_out_check(out));
    struct manifest_head head = { .version = MANIFEST_VERSION, .bytes = out->count - sizeof head };
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.fingerprint, place->id, sizeof head.fingerprint);
    head.crc = crc32_of(out->bytes + sizeof head, head.bytes);
    if (out->count > MANIFEST_BYTES_MAX)
        return fail(ERR_LIMIT, "a manifest of %llu bytes", (ull)out->count);
    memcpy(out->bytes, &head, sizeof head);
    return OK;
}

/* ------------------------------------------------------------------ get */

static enum err get_hash(struct pack_at map, const char *key, u64 out[2])
{
    struct pack_at at;
    struct pack_item item;
    if (!pack_find(map, key, &at) || !pack_next(&at, &item) || item.kind != PACK_BIN ||
        item.count != 16)
        return fail(ERR_FORMAT, "manifest: \"%s\" is not 16 bytes", key);
    hash_get(item.bytes, out);
    return OK;
}

static bool next_u64(struct pack_at *at, u64 *out)
{
    struct pack_item item;
    if (!pack_next(at, &item) || item.kind != PACK_UINT) return false;
    *out = item.uint;
    return true;
}

static enum err get_anchors(struct pack_at map, struct manifest *m)
{
    struct pack_at at;
    struct pack_item item, name, head;
    if (!pack_find(map, "anchors", &at) || !pack_next(&at, &item) || item.kind != PACK_ARRAY ||
        item.count > MANIFEST_ANCHORS)
        return fail(ERR_FORMAT, "manifest: \"anchors\" is no list of at most %u",
                    MANIFEST_ANCHORS);
    m->anchor_count = item.count;
    for (u32 i = 0; i < m->anchor_count; i++) {
        struct manifest_anchor *a = &m->anchor[i];
        u64 kind = 0, above = i == 0 ? 0 : m->anchor[i - 1].pos;
        bool good = pack_next(&at, &item) && item.kind == PACK_ARRAY &&
                    item.count == ANCHOR_COLUMNS && next_u64(&at, &a->pos) &&
                    pack_next(&at, &name) && name.kind == PACK_BIN && name.count == 16 &&
                    next_u64(&at, &kind) && pack_next(&at, &head) && head.kind == PACK_BOOL;
        if (!good || a->pos <= above || a->pos > m->length || kind > UINT8_MAX)
            return fail(ERR_FORMAT, "manifest: anchor %u", i);
        hash_get(name.bytes, a->name);
        a->kind = (u32)kind;
        a->head = head.uint != 0;
    }
    return OK;
}

static enum err get_images(struct pack_at map, struct manifest *m)
{
    struct pack_at at;
    struct pack_item item, digest;
    if (!pack_find(map, "rope_delta", &at) || !pack_next(&at, &item) ||
        (item.kind != PACK_INT && (item.kind != PACK_UINT || item.uint > INT64_MAX)))
        return fail(ERR_FORMAT, "manifest: \"rope_delta\" is no number");
    m->rope_delta = item.sint;
    if (!pack_find(map, "images", &at) || !pack_next(&at, &item) || item.kind != PACK_ARRAY ||
        item.count > MANIFEST_IMAGES)
        return fail(ERR_FORMAT, "manifest: \"images\" is no list of at most %u", MANIFEST_IMAGES);
    m->image_count = item.count;
    for (u32 i = 0; i < m->image_count; i++) {
        struct manifest_image *image = &m->image[i];
        u64 grid[3] = { 0 };
        bool good = pack_next(&at, &item) && item.kind == PACK_ARRAY &&
                    item.count == IMAGE_COLUMNS && next_u64(&at, &image->first);
        for (u32 k = 0; good && k < COUNT_OF(grid); k++)
            good = next_u64(&at, &grid[k]) && grid[k] > 0 && grid[k] <= MANIFEST_GRID_MAX;
        good = good && pack_next(&at, &digest) && digest.kind == PACK_BIN && digest.count == 16 &&
               image->first < m->length && (i == 0 || image->first > m->image[i - 1].first);
        if (!good) return fail(ERR_FORMAT, "manifest: image %u", i);
        image->t = (u32)grid[0];
        image->gh = (u32)grid[1];
        image->gw = (u32)grid[2];
        hash_get(digest.bytes, image->digest);
    }
    return OK;
}

/* One row of the list into the pool, if it is in order; a full pool takes no more. */
static bool add_row(struct generation_list *list, const u64 row[ROW_COLUMNS], u64 length,
                    u64 *above, bool *full)
{
    bool empty = row[1] == row[2] && row[0] != END_GENERATION;
    if (row[1] > row[2] || empty || row[2] > length || row[3] > row[2] + 1) return false;
    if (row[0] == END_GENERATION) {
        if (row[1] < *above) return false;
        *above = row[2];
        *full = *full || !end_record(list, row[1], row[2], row[3]);
        return true;
    }
    if (row[2] > *above) return false;
    struct call_row call = { .id_hash = row[4], .value_hash = { row[5], row[6] }, .lo = row[1],
                             .hi = row[2] };
    if (row[0] == END_SPAN) *full = *full || !end_span(list, row[1], row[2]);
    else if (row[0] == END_CALL) *full = *full || !end_call(list, &call);
    else return false;
    return true;
}

static enum err get_rows(struct pack_at map, u64 length, struct generation_list *list)
{
    struct pack_at at;
    struct pack_item item;
    u64 above = 0;
    bool full = list == NULL;
    if (!pack_find(map, "generations", &at) || !pack_next(&at, &item) ||
        item.kind != PACK_ARRAY || item.count > MANIFEST_END_ROWS_MAX)
        return fail(ERR_FORMAT, "manifest: \"generations\" is no list");
    for (u32 i = 0, count = item.count; i < count; i++) {
        u64 row[ROW_COLUMNS] = { 0 };
        bool good = pack_next(&at, &item) && item.kind == PACK_ARRAY && item.count == ROW_COLUMNS;
        for (u32 j = 0; good && j < ROW_COLUMNS; j++) good = next_u64(&at, &row[j]);
        if (!good || !add_row(list, row, length, &above, &full))
            return fail(ERR_FORMAT, "manifest: generation row %u", i);
    }
    return OK;
}

static enum err get_body(const u8 *bytes, u64 count, struct manifest *m,
                         struct generation_list *list)
{
    struct pack_at map;
    TRY(pack_open(bytes, count, MANIFEST_BYTES_MAX, &map));
    TRY(get_hash(map, "session", m->session));
    TRY(pack_get_u64(map, "length", &m->length));
    TRY(pack_get_u64(map, "head_pos", &m->head_pos));
    TRY(pack_get_u64(map, "taint", &m->taint));
    TRY(pack_get_u64(map, "used_s", &m->used_s));
    TRY(pack_get_u64(map, "hits", &m->hits));
    TRY(get_hash(map, "top", m->top));
    TRY(get_hash(map, "tail", m->tail));
    if (m->length == 0 || m->length > MANIFEST_ROWS_MAX || m->head_pos > m->length)
        return fail(ERR_FORMAT, "manifest: %llu rows, head %llu", (ull)m->length,
                    (ull)m->head_pos);
    TRY(get_anchors(map, m));
    TRY(get_images(map, m));
    return get_rows(map, m->length, list);
}

enum err manifest_get(const u8 *bytes, u64 count, const struct fingerprint *place,
                      struct manifest *out, struct generation_list *list)
{
    struct manifest_head head;
    struct manifest m = { .length = 0 };
    if (count < sizeof head) return fail(ERR_FORMAT, "manifest: %llu bytes", (ull)count);
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.version != MANIFEST_VERSION)
        return fail(ERR_FORMAT, "not a manifest of version %u", MANIFEST_VERSION);
    if (memcmp(head.fingerprint, place->id, sizeof head.fingerprint) != 0)
        return fail(ERR_FORMAT, "manifest: the fingerprint is another model's");
    if (head.bytes != count - sizeof head)
        return fail(ERR_FORMAT, "manifest: %llu bytes, expected %llu", (ull)count,
                    (ull)(head.bytes + sizeof head));
    if (crc32_of(bytes + sizeof head, head.bytes) != head.crc)
        return fail(ERR_CRC, "manifest: bad crc");
    enum err err = get_body(bytes + sizeof head, head.bytes, &m, list);
    if (err != OK) {
        if (list != NULL) end_cut(list, 0);
        return err;
    }
    *out = m;
    return OK;
}
