/* arena/base/json.h - bounded reading over jansson, and a writer by hand.
 *
 * The only room that includes jansson.  Reading is strict (UTF-8, no duplicate key, no text after
 * the value, no NaN); integers are int64, the text of a number is lost (base/jsontext keeps it).
 * Errors name the place ("line 3, column 7") or the path ("messages[2].role: expected a string").
 * Memory is the calling thread's malloc (bound threads: arena `heap`). */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "arena/base/err.h"

enum { JSON_PATH_BYTES = 120 };

struct json_limits {
    u64 bytes_max;                      /* of the text                                        */
    u32 depth_max;                      /* nested arrays and objects, <= 2,000                */
};

struct json_doc { void *root; };        /* owned: json_close                                  */

/* A value and how it was reached.  Valid while its document is open; copied freely. */
struct json_at {
    const void *value;                  /* NULL: absent                                       */
    char path[JSON_PATH_BYTES];         /* "messages[2].role"; cut in front when longer       */
};

enum json_kind {
    JSON_IS_ABSENT, JSON_IS_NULL, JSON_IS_BOOL, JSON_IS_INTEGER, JSON_IS_REAL, JSON_IS_STR,
    JSON_IS_ARRAY, JSON_IS_OBJECT
};

/* Parses `bytes` bytes.  `name` ("config.json" or NULL) goes before every path of an error.
 * ERR_LIMIT (length, depth), ERR_FORMAT (place and reason), ERR_MEMORY; nothing is open then. */
MUST_USE enum err json_open(const char *text, u64 bytes, struct json_limits limits,
                            const char *name, struct json_doc *doc, struct json_at *root_out);
/* The same for a file, named by its last path part.  Also ERR_NOT_FOUND, ERR_IO. */
MUST_USE enum err json_open_file(const char *path, struct json_limits limits,
                                 struct json_doc *doc, struct json_at *root_out);
void json_close(struct json_doc *doc);  /* safe on a zeroed document                          */

enum json_kind json_kind(const struct json_at *at);
const char *json_kind_word(enum json_kind kind);        /* "a string", "an array", ...        */

/* Members of an object, items of an array, else 0. */
u32 json_count(const struct json_at *at);

/* Member `key`, when it is there and not null.  False also when `object` is no object. */
bool json_find(const struct json_at *object, const char *key, struct json_at *out);
/* Member `key`; ERR_FORMAT when `object` is no object or has no such member. */
MUST_USE enum err json_get(const struct json_at *object, const char *key, struct json_at *out);
/* Item `index` of an array; ERR_FORMAT when it is no array or ends before. */
MUST_USE enum err json_item(const struct json_at *array, u32 index, struct json_at *out);

/* Walks an object in the text's order: start with *cursor = NULL; false at the end.  The key is
 * valid while the document is open. */
bool json_next(const struct json_at *object, void **cursor, const char **key,
               struct json_at *out);

/* Typed members; `key` NULL means `at` itself.  ERR_FORMAT names path, what was expected and what
 * is there.  u64, u32: an integer >= 0 that fits.  f64 takes integers too.  The string is UTF-8,
 * not copied, with a NUL after its `bytes` (it may hold NULs when bytes_out is given; without it
 * such a string is refused). */
MUST_USE enum err json_u64(const struct json_at *at, const char *key, u64 *out);
MUST_USE enum err json_u32(const struct json_at *at, const char *key, u32 *out);
MUST_USE enum err json_i64(const struct json_at *at, const char *key, i64 *out);
MUST_USE enum err json_f64(const struct json_at *at, const char *key, f64 *out);
MUST_USE enum err json_bool(const struct json_at *at, const char *key, bool *out);
MUST_USE enum err json_str(const struct json_at *at, const char *key, const char **out,
                           u64 *bytes_out);

/* The same, `otherwise` when the member is absent or null; a wrong type is still an error. */
MUST_USE enum err json_u64_or(const struct json_at *at, const char *key, u64 otherwise, u64 *out);
MUST_USE enum err json_u32_or(const struct json_at *at, const char *key, u32 otherwise, u32 *out);
MUST_USE enum err json_i64_or(const struct json_at *at, const char *key, i64 otherwise, i64 *out);
MUST_USE enum err json_f64_or(const struct json_at *at, const char *key, f64 otherwise, f64 *out);
MUST_USE enum err json_bool_or(const struct json_at *at, const char *key, bool otherwise,
                               bool *out);
MUST_USE enum err json_str_or(const struct json_at *at, const char *key, const char *otherwise,
                              const char **out);

/* A text under construction; zeroed = empty.  Commas are placed by the writer; the caller keeps
 * begin and end in step.  A refused allocation sets `failed`, later puts do nothing, and
 * json_out_check says ERR_MEMORY: check once at the end. */
struct json_out {
    char *text;                         /* owned; no NUL                                      */
    u64   bytes, cap_bytes;
    bool  comma;                        /* the next value needs one before it                 */
    bool  failed;
};

void json_put_object(struct json_out *out);
void json_put_object_end(struct json_out *out);
void json_put_array(struct json_out *out);
void json_put_array_end(struct json_out *out);
void json_put_key(struct json_out *out, const char *key);
/* Escaped as JSON asks; bytes that are not UTF-8 become U+FFFD, one each. */
void json_put_str(struct json_out *out, const char *text, u64 bytes);
void json_put_cstr(struct json_out *out, const char *text);     /* NULL: null                 */
void json_put_u64(struct json_out *out, u64 value);
void json_put_i64(struct json_out *out, i64 value);
/* Fewest digits that read back as the same double; not finite: null. */
void json_put_f64(struct json_out *out, f64 value);
void json_put_bool(struct json_out *out, bool value);
void json_put_null(struct json_out *out);
/* A value that is JSON already, as it stands. */
void json_put_raw(struct json_out *out, const char *text, u64 bytes);
/* Bytes outside the grammar ("data: ", newlines of an event): no comma, no change of state. */
void json_put_plain(struct json_out *out, const char *text, u64 bytes);
/* A value read by json_open, as compact JSON with its key order. */
void json_put_value(struct json_out *out, const struct json_at *at);

MUST_USE enum err json_out_check(const struct json_out *out);
void json_out_clear(struct json_out *out);      /* empty, memory kept                         */
void json_out_close(struct json_out *out);      /* memory given back, zeroed                  */

#endif
