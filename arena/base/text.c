/* arena/base/text.c - the builder, the pool, and UTF-8 by Unicode table 3-7. */
#include "arena/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_FIRST_BYTES = 256, POOL_CHUNK_BYTES = 32 * 1024, POOL_LINE = 16 };

void text_open(struct text *t, char *bytes, u64 cap)
{
    ASSERT(cap >= 1);
    bytes[0] = 0;
    *t = (struct text){ .data = bytes, .cap = cap };
}

void text_open_growing(struct text *t, const struct text_source *source, u64 cap_max)
{
    ASSERT(cap_max >= 1);
    *t = (struct text){ .source = source, .cap_max = cap_max };
}

void text_close(struct text *t)
{
    if (t->cap_max > 0 && t->data != NULL) t->source->give(t->data);
    *t = (struct text){ .source = t->source, .cap_max = t->cap_max };
}

void text_clear(struct text *t)
{
    t->len = 0;
    t->cut = false;
    if (t->data != NULL) t->data[0] = 0;
}

bool text_reserve(struct text *t, u64 more)
{
    if (t->data != NULL && more < t->cap - t->len) return true;
    if (more >= t->cap_max || t->len >= t->cap_max - more) {
        t->cut = true;                          /* a fixed text's cap_max is 0 */
        return false;
    }
    u64 cap = MIN(MAX(MAX(t->len + more + 1, t->cap * 2), TEXT_FIRST_BYTES), t->cap_max);
    char *data = t->source->take(cap);
    if (data == NULL) {
        t->cut = true;
        return false;
    }
    if (t->len > 0) memcpy(data, t->data, t->len);
    data[t->len] = 0;
    if (t->data != NULL) t->source->give(t->data);
    t->data = data;
    t->cap = cap;
    return true;
}

void text_put(struct text *t, const char *bytes, u64 len)
{
    if (len == 0) return;
    if (!text_reserve(t, len)) {
        if (t->cap_max > 0 || t->cap == 0) return;
        len = t->cap - t->len - 1;              /* a fixed text keeps what fits */
    }
    if (len > 0) memcpy(t->data + t->len, bytes, len);
    t->len += len;
    t->data[t->len] = 0;
}

void text_str(struct text *t, const char *zero_terminated)
{
    text_put(t, zero_terminated, strlen(zero_terminated));
}

void text_char(struct text *t, char c)
{
    text_put(t, &c, 1);
}

void text_f(struct text *t, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (len < 0) return;
    if ((u64)len < sizeof line) {
        text_put(t, line, (u64)len);
        return;
    }
    bool room = text_reserve(t, (u64)len);
    if (!room && (t->cap_max > 0 || t->cap == 0)) return;
    va_start(args, format);
    vsnprintf(t->data + t->len, t->cap - t->len, format, args);
    va_end(args);
    t->len = MIN(t->len + (u64)len, t->cap - 1);
}

void text_json_inner(struct text *t, const char *bytes, u64 len)
{
    u64 from = 0;
    for (u64 i = 0; i < len; i++) {
        u8 c = (u8)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        text_put(t, bytes + from, i - from);
        from = i + 1;
        switch (c) {
        case '"':  text_str(t, "\\\""); break;
        case '\\': text_str(t, "\\\\"); break;
        case '\b': text_str(t, "\\b"); break;
        case '\f': text_str(t, "\\f"); break;
        case '\n': text_str(t, "\\n"); break;
        case '\r': text_str(t, "\\r"); break;
        case '\t': text_str(t, "\\t"); break;
        default:   text_f(t, "\\u%04x", c); break;
        }
    }
    text_put(t, bytes + from, len - from);
}

void text_json(struct text *t, const char *bytes, u64 len)
{
    text_char(t, '"');
    text_json_inner(t, bytes, len);
    text_char(t, '"');
}

bool text_span_is(struct text_span s, const char *zero_terminated)
{
    u64 len = strlen(zero_terminated);
    return s.len == len && (len == 0 || memcmp(s.bytes, zero_terminated, len) == 0);
}

/* ------------------------------------------------------------------ UTF-8 */

/* Bytes of the sequence that `lead` begins and the range of its second byte; 0: no lead. */
static u32 sequence_of(u8 lead, u8 *low, u8 *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0x80) return 1;
    if (lead < 0xC2) return 0;
    if (lead < 0xE0) return 2;
    if (lead < 0xF0) {
        if (lead == 0xE0) *low = 0xA0;
        if (lead == 0xED) *high = 0x9F;
        return 3;
    }
    if (lead > 0xF4) return 0;
    if (lead == 0xF0) *low = 0x90;
    if (lead == 0xF4) *high = 0x8F;
    return 4;
}

/* How many of the bytes at `b` belong to one well-formed sequence, and how many it needs in all. */
static u32 sequence_good(const u8 *b, u64 len, u32 *need)
{
    u8 low, high;
    *need = sequence_of(b[0], &low, &high);
    if (*need == 0) return 0;
    u32 have = 1;
    while (have < *need && have < len) {
        u8 c = b[have];
        if (have == 1 ? c < low || c > high : (c & 0xC0) != 0x80) break;
        have++;
    }
    return have;
}

u64 text_utf8_valid(const char *bytes, u64 len)
{
    const u8 *b = (const u8 *)bytes;
    u64 i = 0;
    while (i < len) {
        if (len - i >= 8) {                     /* eight ASCII bytes at once */
            u64 word;
            memcpy(&word, b + i, 8);
            if ((word & 0x8080808080808080ull) == 0) {
                i += 8;
                continue;
            }
        }
        u32 need, have = sequence_good(b + i, len - i, &need);
        if (have == 0 || have < need) return i;
        i += need;
    }
    return len;
}

u32 text_utf8_at(const char *bytes, u64 len, u32 *len_out)
{
    const u8 *b = (const u8 *)bytes;
    u32 need = 0, have = len > 0 ? sequence_good(b, len, &need) : 0;
    ASSERT(have > 0 && have == need);
    *len_out = need;
    switch (need) {
    case 1:  return b[0];
    case 2:  return ((u32)b[0] & 0x1F) << 6 | (b[1] & 0x3F);
    case 3:  return ((u32)b[0] & 0x0F) << 12 | ((u32)b[1] & 0x3F) << 6 | (b[2] & 0x3F);
    default: return ((u32)b[0] & 0x07) << 18 | ((u32)b[1] & 0x3F) << 12 |
                    ((u32)b[2] & 0x3F) << 6 | (b[3] & 0x3F);
    }
}

u32 text_utf8_encode(u32 c, char out[4])
{
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = 0xFFFD;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

bool text_is_space(u32 c)
{
    if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0D) || c >= 0x1C;
    if (c < 0x1680) return c == 0x85 || c == 0xA0;
    return c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

struct text_span text_trim(struct text_span s)
{
    u32 len;
    while (s.len > 0 && text_is_space(text_utf8_at(s.bytes, s.len, &len))) {
        s.bytes += len;
        s.len -= len;
    }
    while (s.len > 0) {
        u64 at = s.len - 1;
        while (at > 0 && ((u8)s.bytes[at] & 0xC0) == 0x80) at--;
        if (!text_is_space(text_utf8_at(s.bytes + at, s.len - at, &len))) break;
        s.len = at;
    }
    return s;
}

static void put_replacement(struct text *out)
{
    text_put(out, "\xEF\xBF\xBD", 3);
}

void text_utf8_feed(struct text_utf8 *u, const char *bytes, u64 len, struct text *out)
{
    const u8 *b = (const u8 *)bytes;
    u64 i = 0;
    while (i < len) {
        if (u->held_len == 0) {
            u64 good = text_utf8_valid(bytes + i, len - i);
            text_put(out, bytes + i, good);
            i += good;
            if (i == len) return;
        }
        u->held[u->held_len] = b[i];
        u32 need, have = sequence_good(u->held, u->held_len + 1, &need);
        if (have < u->held_len + 1) {           /* this byte does not go on what is held */
            if (u->held_len == 0) i++;          /* and it begins nothing itself          */
            u->held_len = 0;
            put_replacement(out);
            continue;
        }
        u->held_len++;
        i++;
        if (have < need) continue;
        text_put(out, (const char *)u->held, need);
        u->held_len = 0;
    }
}

void text_utf8_end(struct text_utf8 *u, struct text *out)
{
    if (u->held_len > 0) put_replacement(out);
    u->held_len = 0;
}

/* ------------------------------------------------------------------ pool */

struct text_chunk {
    struct text_chunk *older;
    u64 bytes;                                  /* of the chunk, this head included */
};

void text_pool_open(struct text_pool *pool, const struct text_source *source, u64 cap_bytes)
{
    *pool = (struct text_pool){ .source = source, .cap_bytes = cap_bytes };
}

void text_pool_close(struct text_pool *pool)
{
    for (struct text_chunk *c = pool->chunk; c != NULL;) {
        struct text_chunk *older = c->older;
        pool->source->give(c);
        c = older;
    }
    text_pool_open(pool, pool->source, pool->cap_bytes);
}

void *text_pool_take(struct text_pool *pool, u64 bytes)
{
    if (bytes > pool->cap_bytes) return NULL;
    bytes = ALIGN_UP(MAX(bytes, 1u), POOL_LINE);
    if (bytes > pool->left_bytes) {
        u64 head = ALIGN_UP(sizeof(struct text_chunk), POOL_LINE);
        u64 chunk = head + MAX(bytes, (u64)POOL_CHUNK_BYTES);
        if (chunk > pool->cap_bytes - pool->used_bytes) chunk = head + bytes;
        if (chunk > pool->cap_bytes - pool->used_bytes) return NULL;
        struct text_chunk *c = pool->source->take(chunk);
        if (c == NULL) return NULL;
        *c = (struct text_chunk){ .older = pool->chunk, .bytes = chunk };
        pool->chunk = c;
        pool->used_bytes += chunk;
        pool->left_bytes = chunk - head;
    }
    char *at = (char *)pool->chunk + (pool->chunk->bytes - pool->left_bytes);
    pool->left_bytes -= bytes;
    memset(at, 0, bytes);
    return at;
}
