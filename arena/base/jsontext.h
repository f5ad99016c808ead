/* arena/base/jsontext.h - a bounded reader over raw JSON bytes: number text and key order are kept.
 *
 * jsontext_open checks the whole text once (RFC 8259 grammar, UTF-8, depth); a value is then a
 * span of those bytes and is walked in place: no tree, no memory.  Used where source text counts:
 * requests, tool schemas, call arguments (chat.md 2, 3, 8).  Duplicate keys: the last value counts,
 * at the place of the first.  Lone surrogate escapes decode to U+FFFD. */
#ifndef BASE_JSONTEXT_H
#define BASE_JSONTEXT_H

#include "arena/base/base.h"
#include "arena/base/err.h"
#include "arena/base/text.h"

enum jsontext_kind {
    JSONTEXT_ABSENT = 0, JSONTEXT_NULL, JSONTEXT_FALSE, JSONTEXT_TRUE, JSONTEXT_NUMBER,
    JSONTEXT_STRING, JSONTEXT_ARRAY, JSONTEXT_OBJECT,
};

enum { JSONTEXT_DEPTH_MAX = 128 };      /* containers inside one another                         */

/* One value: its bytes from first to last, quotes or brackets included, in a checked text. */
struct jsontext {
    const char *bytes;
    u64 len;
    u8  kind;                           /* enum jsontext_kind; ABSENT: no such member            */
};

/* Checks `len` bytes as one JSON value with blanks around it and gives it.
 * ERR_FORMAT naming the offset and what was expected; ERR_LIMIT past `depth_max` containers. */
MUST_USE enum err jsontext_open(const char *bytes, u64 len, u32 depth_max, struct jsontext *out);

/* Walks the members of an object or the items of an array, in the order of the text. */
struct jsontext_walk { const char *at; const char *end; bool object; };
void jsontext_walk(struct jsontext_walk *w, struct jsontext container);
/* The next member; false at the end.  Of an array `*key` is ABSENT.  `key` may be NULL. */
bool jsontext_next(struct jsontext_walk *w, struct jsontext *key, struct jsontext *value);

/* The last member of that name, else ABSENT (also when `object` is no object). */
struct jsontext jsontext_member(struct jsontext object, const char *name);
u64 jsontext_count(struct jsontext container);      /* members or items, duplicates counted      */

/* String value: decoded bytes (at most len - 2) into `out`; returns how many.  No 0 behind. */
u64 jsontext_decode(struct jsontext string, char *out);
bool jsontext_is(struct jsontext string, const char *plain);    /* a string that decodes to it   */
/* The decoded string in the pool (or in place when it holds no escape); bytes NULL: refused. */
struct text_span jsontext_string(struct jsontext string, struct text_pool *pool);

bool jsontext_bool(struct jsontext v, bool *out);       /* true when v is true or false          */
bool jsontext_u64(struct jsontext v, u64 *out);         /* a number without sign, point, e       */
bool jsontext_i64(struct jsontext v, i64 *out);         /* a number without point and e          */
bool jsontext_f64(struct jsontext v, f64 *out);         /* any number; nearest double            */
const char *jsontext_kind_word(u8 kind);                /* "a string", "an object", ...          */

/* json(x) of chat.md 3: Python's json.dumps(ensure_ascii=False) of what json.loads would read. */
MUST_USE enum err jsontext_dump(struct jsontext v, struct text_pool *pool, struct text *out);
/* A number as Python prints it: integers as written (-0 is 0), doubles by shortest round trip. */
void jsontext_dump_number(struct jsontext number, struct text *out);

/* The members of an object without duplicates: the last value at the first position, keys decoded.
 * Rows in the pool.  ERR_MEMORY when it refuses. */
struct jsontext_row { struct text_span key; struct jsontext value; };
MUST_USE enum err jsontext_rows(struct jsontext object, struct text_pool *pool,
                                struct jsontext_row **rows_out, u32 *count_out);

#endif
