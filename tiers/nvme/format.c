/* tiers/nvme/format.c - heads, parts and names of files. */
#include "tiers/nvme/format.h"

#include "arena/base/crc32.h"
#include "arena/base/hash.h"

#include <string.h>

static const char magic[8] = "HFPIECE";
static const char letter[FORMAT_KIND_COUNT] = { 0, 'c', 't', 'a' };

void format_chain(u64 hash[2], const u64 *keys, u64 count)
{
    hash_chain(hash, keys, count, hash);
}

void format_name_hash(const struct state_shape *shape, const u64 below[2], const u64 *keys,
                      u64 count, u64 out[2])
{
    u64 hash[2] = { below[0], below[1] };
    for (u64 at = 0; at < count; at += shape->block_rows)
        format_chain(hash, keys + at, MIN(count - at, shape->block_rows));
    out[0] = hash[0];
    out[1] = hash[1];
}

void format_name(enum format_kind kind, const u64 name[2], char out[FORMAT_NAME_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    u8 bytes[16];
    hash_put(name, bytes);
    out[0] = letter[kind];
    out[1] = '-';
    for (u32 i = 0; i < 16; i++) {
        out[2 + 2 * i] = digits[bytes[i] >> 4];
        out[3 + 2 * i] = digits[bytes[i] & 15];
    }
    out[34] = 0;
}

bool format_name_parse(const char *text, enum format_kind *kind_out, u64 name_out[2])
{
    u8 bytes[16];
    enum format_kind kind = FORMAT_NONE;
    for (u32 i = 1; i < FORMAT_KIND_COUNT; i++)
        if (text[0] == letter[i] && text[1] == '-') kind = (enum format_kind)i;
    if (kind == FORMAT_NONE || strlen(text) != 34) return false;
    for (u32 i = 0; i < 16; i++) {
        u32 value = 0;
        for (u32 j = 0; j < 2; j++) {
            char c = text[2 + 2 * i + j];
            if (c >= '0' && c <= '9') value = value * 16 + (u32)(c - '0');
            else if (c >= 'a' && c <= 'f') value = value * 16 + (u32)(c - 'a') + 10;
            else return false;
        }
        bytes[i] = (u8)value;
    }
    hash_get(bytes, name_out);
    *kind_out = kind;
    return true;
}

u32 format_parts(const struct state_shape *shape, enum format_kind kind,
                 struct format_part out[FORMAT_PART_CAP])
{
    bool anchor = kind == FORMAT_ANCHOR;
    u32 count = anchor ? shape->section_count : shape->view_count;
    u64 end = anchor ? ALIGN_UP(shape->section_bytes, FILE_PAGE_BYTES) : shape->block_bytes;
    memset(out, 0, count * sizeof *out);
    for (u32 i = count; i > 0; i--) {   /* from the last: each part runs to the next one's    */
        struct format_part *part = &out[i - 1];
        if (anchor) {
            const struct state_section *s = &shape->section[i - 1];
            memcpy(part->name, s->name, sizeof part->name);
            part->offset = i == 1 ? 0 : s->offset_bytes;
            part->type = s->type;
        } else {
            const struct state_view *v = &shape->view[i - 1];
            memcpy(part->name, v->name, sizeof part->name);
            part->offset = i == 1 ? 0 : v->offset_bytes;
            part->type = v->type;
            part->planes = v->planes;
            part->row_bytes = v->row_bytes;
        }
        ASSERT(part->offset <= end);
        part->bytes = end - part->offset;
        end = part->offset;
    }
    return count;
}

void format_layout(const struct state_shape *shape, enum format_kind kind, u64 lo, u64 hi,
                   struct format_head *out)
{
    u64 b = shape->block_rows, rows = hi - lo;
    u32 parts = kind == FORMAT_ANCHOR ? shape->section_count : shape->view_count;
    *out = (struct format_head){
        .version = FORMAT_VERSION, .kind = kind, .lo = lo, .hi = hi,
        .part_count = parts, .key_count = (u32)rows, .part_offset = FILE_PAGE_BYTES,
    };
    memcpy(out->magic, magic, sizeof magic);
    u64 part_bytes = ALIGN_UP(parts * sizeof(struct format_part), FILE_PAGE_BYTES);
    out->key_offset = out->part_offset + part_bytes;
    out->data_offset = out->key_offset + ALIGN_UP(rows * sizeof(u64), FILE_PAGE_BYTES);
    out->data_bytes = kind == FORMAT_ANCHOR ? ALIGN_UP(shape->section_bytes, FILE_PAGE_BYTES)
                                            : (rows + b - 1) / b * shape->block_bytes;
    out->file_bytes = out->data_offset + out->data_bytes;
}

u64 format_bytes(const struct state_shape *shape, enum format_kind kind, u64 lo, u64 hi)
{
    struct format_head head;
    format_layout(shape, kind, lo, hi, &head);
    return head.file_bytes;
}

void format_crc(struct format_part *part, u32 count, const u8 *from, u64 at, u64 bytes)
{
    for (u32 i = 0; i < count; i++) {
        u64 lo = MAX(part[i].offset, at), hi = MIN(part[i].offset + part[i].bytes, at + bytes);
        if (lo < hi) part[i].crc = crc32_more(part[i].crc, from + (lo - at), hi - lo);
    }
}

static u32 head_crc_of(const u8 *page)
{
    static const u32 zero;
    enum { AT = offsetof(struct format_head, head_crc) };
    u32 crc = crc32_more(crc32_of(page, AT), &zero, sizeof zero);
    return crc32_more(crc, page + AT + sizeof zero, FILE_PAGE_BYTES - AT - sizeof zero);
}

void format_seal(u8 page[FILE_PAGE_BYTES])
{
    u32 crc = head_crc_of(page);
    memcpy(page + offsetof(struct format_head, head_crc), &crc, sizeof crc);
}

enum err format_look(const u8 page[FILE_PAGE_BYTES], u64 file_bytes, struct format_head *out)
{
    struct format_head head;
    memcpy(&head, page, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0) return fail(ERR_FORMAT, "not a piece file");
    if (head.version != FORMAT_VERSION)
        return fail(ERR_FORMAT, "version %u, expected %u", head.version, FORMAT_VERSION);
    if (head.head_crc != head_crc_of(page))
        return fail(ERR_CRC, "head: crc %08x, not %08x", head_crc_of(page), head.head_crc);
    if (head.kind == FORMAT_NONE || head.kind >= FORMAT_KIND_COUNT)
        return fail(ERR_FORMAT, "kind %u", head.kind);
    u64 parts = ALIGN_UP(head.part_count * sizeof(struct format_part), FILE_PAGE_BYTES);
    bool good = head.hi > head.lo && head.hi - head.lo == head.key_count &&
                head.part_count > 0 && head.part_count <= FORMAT_PART_CAP &&
                head.part_offset == FILE_PAGE_BYTES &&
                head.key_offset == head.part_offset + parts &&
                head.data_offset == head.key_offset +
                                    ALIGN_UP(head.key_count * sizeof(u64), FILE_PAGE_BYTES) &&
                head.data_bytes > 0 && head.data_bytes < head.file_bytes &&
                head.file_bytes == head.data_offset + head.data_bytes;
    if (!good) return fail(ERR_FORMAT, "its sizes do not fit each other");
    if (file_bytes != head.file_bytes)
        return fail(ERR_FORMAT, "%llu bytes long, expected %llu", (ull)file_bytes,
                    (ull)head.file_bytes);
    *out = head;
    return OK;
}

enum err format_check(const struct state_shape *shape, const u8 fingerprint[16],
                      const u8 page[FILE_PAGE_BYTES], u64 file_bytes, struct format_head *out)
{
    struct format_head head, want;
    TRY(format_look(page, file_bytes, &head));
    if (memcmp(head.fingerprint, fingerprint, 16) != 0)
        return fail(ERR_FORMAT, "the fingerprint is another model's");
    u64 g = shape->grid_rows;
    bool rows_good = head.lo % g == 0 && head.hi > head.lo && head.hi - head.lo <= g &&
                     (head.kind != FORMAT_CHUNK || head.hi == head.lo + g) &&
                     (head.kind != FORMAT_TAIL || head.hi < head.lo + g);
    if (!rows_good)
        return fail(ERR_FORMAT, "rows %llu to %llu on lines of %llu", (ull)head.lo, (ull)head.hi,
                    (ull)g);
    format_layout(shape, (enum format_kind)head.kind, head.lo, head.hi, &want);
    bool sizes_good = head.part_count == want.part_count && head.key_count == want.key_count &&
                      head.part_offset == want.part_offset && head.key_offset == want.key_offset &&
                      head.data_offset == want.data_offset && head.data_bytes == want.data_bytes &&
                      head.file_bytes == want.file_bytes;
    if (!sizes_good) return fail(ERR_FORMAT, "sizes are not those of this model's state");
    *out = head;
    return OK;
}

enum err format_check_parts(const struct state_shape *shape, const struct format_head *head,
                            const u8 *area)
{
    u64 bytes = head->key_offset - head->part_offset;
    u32 crc = crc32_of(area, bytes);
    if (crc != head->part_crc) return fail(ERR_CRC, "parts: crc %08x, not %08x", crc,
                                           head->part_crc);
    struct format_part want[FORMAT_PART_CAP], got;
    u32 count = format_parts(shape, (enum format_kind)head->kind, want);
    for (u32 i = 0; i < count; i++) {
        memcpy(&got, area + i * sizeof got, sizeof got);
        want[i].crc = got.crc;
        if (memcmp(&got, &want[i], sizeof got) != 0)
            return fail(ERR_FORMAT, "part %u is not \"%.16s\" of this model", i, want[i].name);
    }
    return OK;
}
