/* http/chat/memo.c - canonical arguments go into a hash as they are walked; no text is built. */
#include "http/chat/memo.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "arena/base/hash.h"

enum { MEMO_INDEX_DIGITS = 10 };

static const u64 index_max = 4294967294u;       /* of an array index in JavaScript               */

struct memo { struct hash_state hash; struct text_pool *pool; };

u64 memo_id(struct text_span id) { return hash_64(id.bytes, id.len); }

static void add_tag(struct memo *m, char tag, u64 value)
{
    hash_add(&m->hash, &tag, 1);
    hash_add(&m->hash, &value, sizeof value);
}

static void add_bytes(struct memo *m, struct text_span s)
{
    add_tag(m, '"', s.len);
    hash_add(&m->hash, s.bytes, s.len);
}

/* Infinity is null there, and minus zero is printed as 0. */
static void add_number(struct memo *m, struct jsontext v)
{
    f64 number = 0;
    u64 bits;
    if (!jsontext_f64(v, &number) || number > DBL_MAX || number < -DBL_MAX) {
        add_tag(m, 'n', 0);
        return;
    }
    if (number == 0) number = 0;            /* minus zero too */
    memcpy(&bits, &number, sizeof bits);
    add_tag(m, '#', bits);
}

/* `0`, or digits without a leading zero, up to 4294967294. */
static bool is_index(struct text_span key, u64 *out)
{
    u64 value = 0;
    if (key.len == 0 || key.len > MEMO_INDEX_DIGITS || (key.bytes[0] == '0' && key.len > 1))
        return false;
    for (u64 i = 0; i < key.len; i++) {
        if (key.bytes[i] < '0' || key.bytes[i] > '9') return false;
        value = value * 10 + (u64)(key.bytes[i] - '0');
    }
    *out = value;
    return value <= index_max;
}

struct place { u64 index; u32 row; };

static int by_index(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->index < y->index ? -1 : x->index > y->index;
}

static enum err add_value(struct memo *m, struct jsontext v);

static enum err add_member(struct memo *m, const struct jsontext_row *row)
{
    add_bytes(m, row->key);
    return add_value(m, row->value);
}

static enum err add_rows(struct memo *m, const struct jsontext_row *rows, u32 count)
{
    u64 index;
    u32 numbered = 0;
    for (u32 i = 0; i < count; i++) numbered += is_index(rows[i].key, &index);
    add_tag(m, '{', count);
    if (numbered > 0) {
        struct place *place = text_pool_take(m->pool, numbered * sizeof *place);
        u32 at = 0;
        if (place == NULL) return fail(ERR_MEMORY, "no memory to compare a tool call");
        for (u32 i = 0; i < count; i++)
            if (is_index(rows[i].key, &index)) place[at++] = (struct place){ index, i };
        qsort(place, numbered, sizeof *place, by_index);
        for (u32 i = 0; i < numbered; i++) TRY(add_member(m, &rows[place[i].row]));
    }
    for (u32 i = 0; i < count; i++)
        if (!is_index(rows[i].key, &index)) TRY(add_member(m, &rows[i]));
    return OK;
}

static enum err add_array(struct memo *m, struct jsontext v)
{
    struct jsontext_walk walk;
    struct jsontext item;
    add_tag(m, '[', jsontext_count(v));
    jsontext_walk(&walk, v);
    while (jsontext_next(&walk, NULL, &item)) TRY(add_value(m, item));
    return OK;
}

/* Recursion: as deep as the text, at most JSONTEXT_DEPTH_MAX. */
static enum err add_value(struct memo *m, struct jsontext v)
{
    switch (v.kind) {
    case JSONTEXT_NUMBER: add_number(m, v); return OK;
    case JSONTEXT_STRING: {
        struct text_span s = jsontext_string(v, m->pool);
        if (s.bytes == NULL) return fail(ERR_MEMORY, "no memory to compare a tool call");
        add_bytes(m, s);
        return OK;
    }
    case JSONTEXT_ARRAY: return add_array(m, v);
    case JSONTEXT_OBJECT: {
        struct jsontext_row *rows;
        u32 count;
        TRY(jsontext_rows(v, m->pool, &rows, &count));
        return add_rows(m, rows, count);
    }
    case JSONTEXT_TRUE: add_tag(m, 't', 0); return OK;
    case JSONTEXT_FALSE: add_tag(m, 'f', 0); return OK;
    default: add_tag(m, 'n', 0); return OK;
    }
}

enum err memo_call(struct text_span name, const struct jsontext_row *rows, u32 count,
                   struct text_pool *pool, u64 out[2])
{
    struct memo m = { .pool = pool };
    hash_open(&m.hash);
    add_bytes(&m, name);
    TRY(add_rows(&m, rows, count));
    hash_close(&m.hash, out);
    return OK;
}

enum err memo_call_text(struct text_span name, struct text_span arguments,
                        struct text_pool *pool, u64 out[2])
{
    struct jsontext v;
    struct jsontext_row *rows;
    u32 count;
    TRY(jsontext_open(arguments.bytes, arguments.len, JSONTEXT_DEPTH_MAX, &v));
    if (v.kind != JSONTEXT_OBJECT) return fail(ERR_FORMAT, "arguments: expected an object");
    TRY(jsontext_rows(v, pool, &rows, &count));
    return memo_call(name, rows, count, pool, out);
}
