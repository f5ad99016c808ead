/* arena/base/pack.c - written by msgpack-c's packer; read by one walker over checked bytes. */
#include "arena/base/pack.h"

#include <msgpack.h>
#include <string.h>

/* ---------------------------------------------------------------- writing */
/* The packer's sink: its own growing buffer, kept in our three fields between calls. */
static int put(void *data, const char *from, size_t bytes)
{
    struct pack_out *out = data;
    if (out->failed) return -1;
    msgpack_sbuffer buffer = { .size = out->count, .data = (char *)out->bytes, .alloc = out->cap };
    if (msgpack_sbuffer_write(&buffer, from, bytes) != 0) out->failed = true;
    out->count = buffer.size;
    out->bytes = (u8 *)buffer.data;
    out->cap = buffer.alloc;
    return out->failed ? -1 : 0;
}

static msgpack_packer packer(struct pack_out *out)
{
    msgpack_packer p;
    msgpack_packer_init(&p, out, put);
    return p;
}

void pack_map(struct pack_out *out, u32 pairs)
{
    msgpack_packer p = packer(out);
    msgpack_pack_map(&p, pairs);
}

void pack_array(struct pack_out *out, u32 items)
{
    msgpack_packer p = packer(out);
    msgpack_pack_array(&p, items);
}

void pack_str(struct pack_out *out, const char *text, u32 bytes)
{
    msgpack_packer p = packer(out);
    msgpack_pack_str(&p, bytes);
    if (bytes > 0) msgpack_pack_str_body(&p, text, bytes);
}

void pack_cstr(struct pack_out *out, const char *text)
{
    if (text == NULL) pack_nil(out);
    else pack_str(out, text, (u32)strlen(text));
}

void pack_bin(struct pack_out *out, const void *from, u32 bytes)
{
    msgpack_packer p = packer(out);
    msgpack_pack_bin(&p, bytes);
    if (bytes > 0) msgpack_pack_bin_body(&p, from, bytes);
}

void pack_u64(struct pack_out *out, u64 value)
{
    msgpack_packer p = packer(out);
    msgpack_pack_uint64(&p, value);
}

void pack_i64(struct pack_out *out, i64 value)
{
    msgpack_packer p = packer(out);
    msgpack_pack_int64(&p, value);
}

void pack_f64(struct pack_out *out, f64 value)
{
    msgpack_packer p = packer(out);
    msgpack_pack_double(&p, value);
}

void pack_bool(struct pack_out *out, bool value)
{
    msgpack_packer p = packer(out);
    if (value) msgpack_pack_true(&p);
    else msgpack_pack_false(&p);
}

void pack_nil(struct pack_out *out)
{
    msgpack_packer p = packer(out);
    msgpack_pack_nil(&p);
}

enum err pack_out_check(const struct pack_out *out)
{
    return out->failed ? fail(ERR_MEMORY, "no memory for a message above %llu bytes",
                              (ull)out->count) : OK;
}

void pack_out_clear(struct pack_out *out)
{
    out->count = 0;
    out->failed = false;
}

void pack_out_close(struct pack_out *out)
{
    msgpack_sbuffer buffer = { .size = out->count, .data = (char *)out->bytes, .alloc = out->cap };
    msgpack_sbuffer_destroy(&buffer);
    *out = (struct pack_out){ 0 };
}

/* ---------------------------------------------------------------- reading */
static u64 big_endian(const u8 *at, u32 bytes)
{
    u64 value = 0;
    for (u32 i = 0; i < bytes; i++) value = value << 8 | at[i];
    return value;
}

static void set_signed(struct pack_item *item, i64 value)
{
    item->kind = value < 0 ? PACK_INT : PACK_UINT;
    item->sint = value;
    item->uint = value < 0 ? 0 : (u64)value;
}

static void set_float(struct pack_item *item, u64 bits, u32 bytes)
{
    item->kind = PACK_FLOAT;
    if (bytes == 8) {
        memcpy(&item->real, &bits, 8);
        return;
    }
    u32 low = (u32)bits;
    f32 real;
    memcpy(&real, &low, 4);
    item->real = (f64)real;
}

/* What the first byte says: bytes of the number or length that follows it, and the rest of the
 * item.  False for 0xC1.  Format: github.com/msgpack/msgpack/blob/master/spec.md */
struct head { enum pack_kind kind; u32 more; u32 ext; };

static bool head_of(u8 c, struct head *out)
{
    static const struct head heads[32] = {              /* 0xC0 .. 0xDF                       */
        [0x00] = { .kind = PACK_NIL }, [0x02] = { .kind = PACK_BOOL },
        [0x03] = { .kind = PACK_BOOL },
        [0x04] = { PACK_BIN, 1, 0 }, [0x05] = { PACK_BIN, 2, 0 },
        [0x06] = { PACK_BIN, 4, 0 }, [0x07] = { PACK_EXT, 1, 1 },
        [0x08] = { PACK_EXT, 2, 1 }, [0x09] = { PACK_EXT, 4, 1 },
        [0x0A] = { PACK_FLOAT, 4, 0 }, [0x0B] = { PACK_FLOAT, 8, 0 },
        [0x0C] = { PACK_UINT, 1, 0 }, [0x0D] = { PACK_UINT, 2, 0 },
        [0x0E] = { PACK_UINT, 4, 0 }, [0x0F] = { PACK_UINT, 8, 0 },
        [0x10] = { PACK_INT, 1, 0 }, [0x11] = { PACK_INT, 2, 0 },
        [0x12] = { PACK_INT, 4, 0 }, [0x13] = { PACK_INT, 8, 0 },
        [0x14] = { PACK_EXT, 0, 1 + 1 }, [0x15] = { PACK_EXT, 0, 1 + 2 },
        [0x16] = { PACK_EXT, 0, 1 + 4 }, [0x17] = { PACK_EXT, 0, 1 + 8 },
        [0x18] = { PACK_EXT, 0, 1 + 16 },
        [0x19] = { PACK_STR, 1, 0 }, [0x1A] = { PACK_STR, 2, 0 },
        [0x1B] = { PACK_STR, 4, 0 }, [0x1C] = { PACK_ARRAY, 2, 0 },
        [0x1D] = { PACK_ARRAY, 4, 0 }, [0x1E] = { PACK_MAP, 2, 0 },
        [0x1F] = { PACK_MAP, 4, 0 },
    };
    if (c == 0xC1 || c < 0xC0 || c > 0xDF) return false;
    *out = heads[c - 0xC0];
    return true;
}

/* Heads that carry their value in the byte itself. */
static bool fixed(u8 c, struct pack_item *item)
{
    if (c < 0x80) set_signed(item, c);
    else if (c >= 0xE0) set_signed(item, (i8)c);
    else if (c < 0x90) { item->kind = PACK_MAP; item->count = c & 15; }
    else if (c < 0xA0) { item->kind = PACK_ARRAY; item->count = c & 15; }
    else if (c < 0xC0) { item->kind = PACK_STR; item->count = c & 31; }
    else return false;
    return true;
}

/* Takes one head (with the bytes of a string) at *at and moves past it; false when it is no head
 * or runs over `end`. */
static bool take(const u8 **at, const u8 *end, struct pack_item *out)
{
    struct pack_item item = { 0 };
    const u8 *p = *at;
    if (p >= end) return false;
    u8 c = *p++;
    if (!fixed(c, &item)) {
        struct head head;
        if (!head_of(c, &head) || (u64)(end - p) < head.more) return false;
        u64 value = big_endian(p, head.more);
        p += head.more;
        item.kind = head.kind;
        switch (head.kind) {
        case PACK_NIL: break;
        case PACK_BOOL: item.uint = c & 1; break;
        case PACK_FLOAT: set_float(&item, value, head.more); break;
        case PACK_UINT:
            item.uint = value;
            item.sint = value > INT64_MAX ? INT64_MAX : (i64)value;
            break;
        case PACK_INT: set_signed(&item, (i64)(value << (64 - 8 * head.more)) >>
                                         (64 - 8 * head.more)); break;
        case PACK_EXT:                  /* its type byte is counted with its bytes            */
            if (value > UINT32_MAX - head.ext) return false;
            item.count = (u32)value + head.ext;
            break;
        case PACK_STR:
        case PACK_BIN:
        case PACK_ARRAY:
        case PACK_MAP: item.count = (u32)value; break;
        }
    }
    if (item.kind == PACK_STR || item.kind == PACK_BIN || item.kind == PACK_EXT) {
        if ((u64)(end - p) < item.count) return false;
        item.bytes = p;
        p += item.count;
    }
    *at = p;
    *out = item;
    return true;
}

enum err pack_open(const void *bytes, u64 count, u64 cap_bytes, struct pack_at *out)
{
    if (count > cap_bytes)
        return fail(ERR_LIMIT, "a message of %llu bytes, at most %llu are read", (ull)count,
                    (ull)cap_bytes);
    const u8 *start = bytes, *at = start, *end = start + count;
    u64 open[PACK_DEPTH_MAX + 1] = { 1 };               /* values still to come at each depth */
    u32 depth = 0;
    for (;;) {                                          /* each round takes a byte or pops    */
        if (open[depth] == 0) {
            if (depth-- == 0) break;
            continue;
        }
        open[depth]--;
        struct pack_item item;
        const u8 *head = at;
        if (!take(&at, end, &item))
            return fail(ERR_FORMAT, "no msgpack value at byte %llu", (ull)(head - start));
        if (item.kind != PACK_ARRAY && item.kind != PACK_MAP) continue;
        u64 inside = (u64)item.count * (item.kind == PACK_MAP ? 2 : 1);
        if (inside > (u64)(end - at))
            return fail(ERR_FORMAT, "byte %llu announces %llu values, %llu bytes are left",
                        (ull)(head - start), (ull)inside, (ull)(end - at));
        if (depth == PACK_DEPTH_MAX)
            return fail(ERR_LIMIT, "values nested deeper than %d at byte %llu", PACK_DEPTH_MAX,
                        (ull)(head - start));
        open[++depth] = inside;
    }
    if (at != end)
        return fail(ERR_FORMAT, "%llu bytes after the message", (ull)(end - at));
    *out = (struct pack_at){ start, end };
    return OK;
}

bool pack_next(struct pack_at *at, struct pack_item *out)
{
    return take(&at->at, at->end, out);
}

void pack_skip(struct pack_at *at)
{
    struct pack_item item;
    for (u64 left = 1; left > 0; left--) {              /* pack_open bounded the counts       */
        if (!take(&at->at, at->end, &item)) return;
        if (item.kind == PACK_ARRAY) left += item.count;
        if (item.kind == PACK_MAP) left += 2 * (u64)item.count;
    }
}

bool pack_find(struct pack_at map, const char *key, struct pack_at *out)
{
    struct pack_item item;
    u64 bytes = strlen(key);
    if (!take(&map.at, map.end, &item) || item.kind != PACK_MAP) return false;
    for (u32 pairs = item.count; pairs > 0; pairs--) {
        struct pack_at name = map;
        pack_skip(&map);
        if (pack_next(&name, &item) && item.kind == PACK_STR && item.count == bytes &&
            memcmp(item.bytes, key, bytes) == 0) {
            *out = map;
            return true;
        }
        pack_skip(&map);
    }
    return false;
}

/* The member's head; ERR_FORMAT when it is absent. */
static enum err member(struct pack_at map, const char *key, struct pack_item *out)
{
    struct pack_at at;
    if (!pack_find(map, key, &at) || !pack_next(&at, out))
        return fail(ERR_FORMAT, "%s: missing", key);
    return OK;
}

enum err pack_get_u64(struct pack_at map, const char *key, u64 *out)
{
    struct pack_item item;
    TRY(member(map, key, &item));
    if (item.kind != PACK_UINT) return fail(ERR_FORMAT, "%s: expected an integer >= 0", key);
    *out = item.uint;
    return OK;
}

enum err pack_get_i64(struct pack_at map, const char *key, i64 *out)
{
    struct pack_item item;
    TRY(member(map, key, &item));
    if (item.kind != PACK_INT && (item.kind != PACK_UINT || item.uint > INT64_MAX))
        return fail(ERR_FORMAT, "%s: expected a signed integer of 64 bits", key);
    *out = item.sint;
    return OK;
}

enum err pack_get_f64(struct pack_at map, const char *key, f64 *out)
{
    struct pack_item item;
    TRY(member(map, key, &item));
    if (item.kind == PACK_FLOAT) *out = item.real;
    else if (item.kind == PACK_UINT) *out = (f64)item.uint;
    else if (item.kind == PACK_INT) *out = (f64)item.sint;
    else return fail(ERR_FORMAT, "%s: expected a number", key);
    return OK;
}

enum err pack_get_bool(struct pack_at map, const char *key, bool *out)
{
    struct pack_item item;
    TRY(member(map, key, &item));
    if (item.kind != PACK_BOOL) return fail(ERR_FORMAT, "%s: expected a boolean", key);
    *out = item.uint != 0;
    return OK;
}

enum err pack_get_str(struct pack_at map, const char *key, const char **text, u32 *bytes)
{
    struct pack_item item;
    TRY(member(map, key, &item));
    if (item.kind != PACK_STR) return fail(ERR_FORMAT, "%s: expected a string", key);
    *text = (const char *)item.bytes;
    *bytes = item.count;
    return OK;
}
