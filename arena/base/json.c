/* arena/base/json.c - jansson behind limits and paths; the writer puts bytes, no tree.
 *
 * The writer's buffer comes from jansson's own allocation functions (malloc), which a bound
 * thread draws from arena `heap`. */
#include "arena/base/json.h"

#include "arena/base/file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- memory */
static void *take(u64 bytes)
{
    json_malloc_t take_fn;
    json_free_t free_fn;
    json_get_alloc_funcs(&take_fn, &free_fn);
    return take_fn(bytes);
}

static void give(void *at)
{
    json_malloc_t take_fn;
    json_free_t free_fn;
    json_get_alloc_funcs(&take_fn, &free_fn);
    free_fn(at);
}

/* ---------------------------------------------------------------- paths */
/* Appends to a path, dropping characters in front when it gets too long. */
static void path_add(char path[JSON_PATH_BYTES], const char *more, u64 bytes)
{
    u64 have = strlen(path);
    if (bytes > JSON_PATH_BYTES - 8) {
        more += bytes - (JSON_PATH_BYTES - 8);
        bytes = JSON_PATH_BYTES - 8;
    }
    if (have + bytes >= JSON_PATH_BYTES) {
        u64 cut = have + bytes - (JSON_PATH_BYTES - 1) + 3;
        memmove(path + 3, path + cut, have - cut);
        memcpy(path, "...", 3);
        have = have - cut + 3;
    }
    memcpy(path + have, more, bytes);
    path[have + bytes] = 0;
}

static void path_key(char path[JSON_PATH_BYTES], const char *key)
{
    u64 have = strlen(path);
    if (have > 0 && path[have - 1] != ' ') path_add(path, ".", 1);
    path_add(path, key, strlen(key));
}

static void path_index(char path[JSON_PATH_BYTES], u32 index)
{
    char text[16];
    i32 bytes = snprintf(text, sizeof text, "[%u]", index);
    path_add(path, text, (u64)bytes);
}

static enum err fail_kind(const struct json_at *at, const char *wanted)
{
    return fail(ERR_FORMAT, "%s: expected %s, got %s", at->path[0] != 0 ? at->path : "the value",
                wanted, json_kind_word(json_kind(at)));
}

/* ---------------------------------------------------------------- open */
/* Nesting of the text, strings skipped, before a recursive parser sees it. */
static enum err check_depth(const char *text, u64 bytes, u32 depth_max, const char *name)
{
    u32 depth = 0;
    bool in_string = false;
    for (u64 i = 0; i < bytes; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') i++;
            else if (c == '"') in_string = false;
        } else if (c == '"') in_string = true;
        else if (c == '[' || c == '{') {
            if (++depth > depth_max)
                return fail(ERR_LIMIT, "%sarrays and objects nested deeper than %u at byte %llu",
                            name, depth_max, (ull)i);
        } else if ((c == ']' || c == '}') && depth > 0) depth--;
    }
    return OK;
}

enum err json_open(const char *text, u64 bytes, struct json_limits limits, const char *name,
                   struct json_doc *doc, struct json_at *root_out)
{
    ASSERT(limits.depth_max > 0 && limits.depth_max <= 2000);
    char front[JSON_PATH_BYTES] = "";
    if (name != NULL) {
        path_add(front, name, strlen(name));
        path_add(front, ": ", 2);
    }
    if (bytes > limits.bytes_max)
        return fail(ERR_LIMIT, "%s%llu bytes of JSON, at most %llu are read", front, (ull)bytes,
                    (ull)limits.bytes_max);
    TRY(check_depth(text, bytes, limits.depth_max, front));
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL |
                              JSON_DECODE_ANY, &error);
    if (root == NULL) {
        enum err code = json_error_code(&error) == json_error_out_of_memory ? ERR_MEMORY
                                                                            : ERR_FORMAT;
        return fail(code, "%snot valid JSON at line %d, column %d: %s", front, error.line,
                    error.column, error.text);
    }
    doc->root = root;
    *root_out = (struct json_at){ .value = root };
    memcpy(root_out->path, front, sizeof front);
    return OK;
}

enum err json_open_file(const char *path, struct json_limits limits, struct json_doc *doc,
                        struct json_at *root_out)
{
    struct file_stat stat;
    TRY(file_stat(path, &stat));
    if (stat.bytes > limits.bytes_max)
        return fail(ERR_LIMIT, "%s is %llu bytes long, at most %llu are read", path,
                    (ull)stat.bytes, (ull)limits.bytes_max);
    char *text = take(stat.bytes + 1);
    if (text == NULL) return fail(ERR_MEMORY, "%s: no room for its %llu bytes", path,
                                  (ull)stat.bytes);
    const char *slash = strrchr(path, '/');
    u64 bytes = 0;
    enum err err = file_read(path, text, stat.bytes, &bytes);
    if (err == OK)
        err = json_open(text, bytes, limits, slash != NULL ? slash + 1 : path, doc, root_out);
    give(text);
    return err;
}

void json_close(struct json_doc *doc)
{
    json_decref(doc->root);
    doc->root = NULL;
}

/* ---------------------------------------------------------------- values */
static const json_t *value_of(const struct json_at *at)
{
    return at->value;
}

enum json_kind json_kind(const struct json_at *at)
{
    if (at->value == NULL) return JSON_IS_ABSENT;
    switch (json_typeof(value_of(at))) {
    case JSON_OBJECT: return JSON_IS_OBJECT;
    case JSON_ARRAY: return JSON_IS_ARRAY;
    case JSON_STRING: return JSON_IS_STR;
    case JSON_INTEGER: return JSON_IS_INTEGER;
    case JSON_REAL: return JSON_IS_REAL;
    case JSON_TRUE:
    case JSON_FALSE: return JSON_IS_BOOL;
    case JSON_NULL: return JSON_IS_NULL;
    }
    return JSON_IS_ABSENT;
}

const char *json_kind_word(enum json_kind kind)
{
    static const char *const words[] = {
        "nothing", "null", "a boolean", "an integer", "a number with a fraction", "a string",
        "an array", "an object",
    };
    return words[kind];
}

u32 json_count(const struct json_at *at)
{
    switch (json_kind(at)) {
    case JSON_IS_ARRAY: return (u32)json_array_size(value_of(at));
    case JSON_IS_OBJECT: return (u32)json_object_size(value_of(at));
    default: return 0;
    }
}

/* The member or `at` itself (key NULL), absent ones too; the path is set in any case. */
static void reach(const struct json_at *at, const char *key, struct json_at *out)
{
    struct json_at found = *at;
    if (key != NULL) {
        found.value = json_object_get(at->value, key);
        path_key(found.path, key);
    }
    *out = found;
}

bool json_find(const struct json_at *object, const char *key, struct json_at *out)
{
    struct json_at found;
    reach(object, key, &found);
    if (found.value == NULL || json_kind(&found) == JSON_IS_NULL) return false;
    *out = found;
    return true;
}

enum err json_get(const struct json_at *object, const char *key, struct json_at *out)
{
    if (json_kind(object) != JSON_IS_OBJECT) return fail_kind(object, "an object");
    struct json_at found;
    reach(object, key, &found);
    if (found.value == NULL) return fail(ERR_FORMAT, "%s: missing", found.path);
    *out = found;
    return OK;
}

enum err json_item(const struct json_at *array, u32 index, struct json_at *out)
{
    if (json_kind(array) != JSON_IS_ARRAY) return fail_kind(array, "an array");
    struct json_at found = *array;
    path_index(found.path, index);
    found.value = json_array_get(array->value, index);
    if (found.value == NULL)
        return fail(ERR_FORMAT, "%s: missing, there are %u", found.path, json_count(array));
    *out = found;
    return OK;
}

bool json_next(const struct json_at *object, void **cursor, const char **key, struct json_at *out)
{
    if (json_kind(object) != JSON_IS_OBJECT) return false;
    json_t *holder = (json_t *)(uintptr_t)object->value;        /* the API lacks a const walk */
    void *next = *cursor == NULL ? json_object_iter(holder)
                                 : json_object_iter_next(holder, *cursor);
    if (next == NULL) return false;
    struct json_at found = *object;
    *key = json_object_iter_key(next);
    found.value = json_object_iter_value(next);
    path_key(found.path, *key);
    *cursor = next;
    *out = found;
    return true;
}

/* ---------------------------------------------------------------- typed members */
enum err json_i64(const struct json_at *at, const char *key, i64 *out)
{
    struct json_at found;
    reach(at, key, &found);
    if (json_kind(&found) != JSON_IS_INTEGER) return fail_kind(&found, "an integer");
    *out = json_integer_value(found.value);
    return OK;
}

static enum err whole(const struct json_at *at, const char *key, u64 max, u64 *out)
{
    struct json_at found;
    reach(at, key, &found);
    if (json_kind(&found) != JSON_IS_INTEGER) return fail_kind(&found, "an integer");
    i64 value = json_integer_value(found.value);
    if (value < 0 || (u64)value > max)
        return fail(ERR_FORMAT, "%s: expected an integer from 0 to %llu, got %lld", found.path,
                    (ull)max, (long long)value);
    *out = (u64)value;
    return OK;
}

enum err json_u64(const struct json_at *at, const char *key, u64 *out)
{
    return whole(at, key, INT64_MAX, out);
}

enum err json_u32(const struct json_at *at, const char *key, u32 *out)
{
    u64 value;
    TRY(whole(at, key, UINT32_MAX, &value));
    *out = (u32)value;
    return OK;
}

enum err json_f64(const struct json_at *at, const char *key, f64 *out)
{
    struct json_at found;
    reach(at, key, &found);
    enum json_kind kind = json_kind(&found);
    if (kind != JSON_IS_INTEGER && kind != JSON_IS_REAL) return fail_kind(&found, "a number");
    *out = json_number_value(found.value);
    return OK;
}

enum err json_bool(const struct json_at *at, const char *key, bool *out)
{
    struct json_at found;
    reach(at, key, &found);
    if (json_kind(&found) != JSON_IS_BOOL) return fail_kind(&found, "a boolean");
    *out = json_is_true(value_of(&found));
    return OK;
}

enum err json_str(const struct json_at *at, const char *key, const char **out, u64 *bytes_out)
{
    struct json_at found;
    reach(at, key, &found);
    if (json_kind(&found) != JSON_IS_STR) return fail_kind(&found, "a string");
    const char *text = json_string_value(found.value);
    u64 bytes = json_string_length(found.value);
    if (bytes_out == NULL && strlen(text) != bytes)
        return fail(ERR_FORMAT, "%s: a string with a zero byte", found.path);
    *out = text;
    if (bytes_out != NULL) *bytes_out = bytes;
    return OK;
}

static bool there(const struct json_at *at, const char *key)
{
    struct json_at found;
    return json_find(at, key, &found);
}

enum err json_u64_or(const struct json_at *at, const char *key, u64 otherwise, u64 *out)
{
    if (there(at, key)) return json_u64(at, key, out);
    *out = otherwise;
    return OK;
}

enum err json_u32_or(const struct json_at *at, const char *key, u32 otherwise, u32 *out)
{
    if (there(at, key)) return json_u32(at, key, out);
    *out = otherwise;
    return OK;
}

enum err json_i64_or(const struct json_at *at, const char *key, i64 otherwise, i64 *out)
{
    if (there(at, key)) return json_i64(at, key, out);
    *out = otherwise;
    return OK;
}

enum err json_f64_or(const struct json_at *at, const char *key, f64 otherwise, f64 *out)
{
    if (there(at, key)) return json_f64(at, key, out);
    *out = otherwise;
    return OK;
}

enum err json_bool_or(const struct json_at *at, const char *key, bool otherwise, bool *out)
{
    if (there(at, key)) return json_bool(at, key, out);
    *out = otherwise;
    return OK;
}

enum err json_str_or(const struct json_at *at, const char *key, const char *otherwise,
                     const char **out)
{
    if (there(at, key)) return json_str(at, key, out, NULL);
    *out = otherwise;
    return OK;
}

/* ---------------------------------------------------------------- writing */
static bool room(struct json_out *out, u64 more)
{
    if (out->failed) return false;
    if (out->cap_bytes - out->bytes >= more) return true;
    u64 cap = MAX(256u, out->cap_bytes);
    while (cap - out->bytes < more) cap *= 2;
    char *text = take(cap);
    if (text == NULL) {
        out->failed = true;
        return false;
    }
    if (out->bytes > 0) memcpy(text, out->text, out->bytes);
    give(out->text);
    out->text = text;
    out->cap_bytes = cap;
    return true;
}

static void put(struct json_out *out, const char *text, u64 bytes)
{
    if (bytes == 0 || !room(out, bytes)) return;
    memcpy(out->text + out->bytes, text, bytes);
    out->bytes += bytes;
}

/* The comma before a value or key, when one stands before it. */
static void separate(struct json_out *out)
{
    if (out->comma) put(out, ",", 1);
    out->comma = true;
}

void json_put_object(struct json_out *out)
{
    separate(out);
    put(out, "{", 1);
    out->comma = false;
}

void json_put_object_end(struct json_out *out)
{
    put(out, "}", 1);
    out->comma = true;
}

void json_put_array(struct json_out *out)
{
    separate(out);
    put(out, "[", 1);
    out->comma = false;
}

void json_put_array_end(struct json_out *out)
{
    put(out, "]", 1);
    out->comma = true;
}

void json_put_key(struct json_out *out, const char *key)
{
    json_put_str(out, key, strlen(key));
    put(out, ":", 1);
    out->comma = false;
}

/* Length of the UTF-8 character at `text`, or 0 when there is none (Unicode 15, table 3-7). */
static u32 character(const u8 *text, u64 left)
{
    u8 c = text[0];
    u32 bytes = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    if (bytes == 0 || bytes > left) return 0;
    for (u32 i = 1; i < bytes; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    if (bytes > 2) {
        u8 d = text[1];
        if ((c == 0xE0 && d < 0xA0) || (c == 0xED && d > 0x9F) || (c == 0xF0 && d < 0x90) ||
            (c == 0xF4 && d > 0x8F)) return 0;
    }
    return bytes;
}

static void put_escape(struct json_out *out, u8 c)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (u32 i = 0; i + 1 < sizeof shorts; i += 2) {
        if ((u8)shorts[i] != c) continue;
        char pair[2] = { '\\', shorts[i + 1] };
        put(out, pair, 2);
        return;
    }
    char text[8];
    snprintf(text, sizeof text, "\\u%04x", c);
    put(out, text, 6);
}

void json_put_str(struct json_out *out, const char *text, u64 bytes)
{
    separate(out);
    put(out, "\"", 1);
    const u8 *at = (const u8 *)text;
    u64 start = 0, i = 0;                               /* [start, i): goes out as it stands  */
    while (i < bytes) {
        u32 more = character(at + i, bytes - i);
        if (more == 1 && at[i] >= 0x20 && at[i] != '"' && at[i] != '\\') { i++; continue; }
        if (more > 1) { i += more; continue; }
        put(out, text + start, i - start);
        if (more == 0) put(out, "\xEF\xBF\xBD", 3);
        else put_escape(out, at[i]);
        start = ++i;
    }
    put(out, text + start, bytes - start);
    put(out, "\"", 1);
}

void json_put_cstr(struct json_out *out, const char *text)
{
    if (text == NULL) json_put_null(out);
    else json_put_str(out, text, strlen(text));
}

void json_put_u64(struct json_out *out, u64 value)
{
    char text[24];
    i32 bytes = snprintf(text, sizeof text, "%llu", (ull)value);
    json_put_raw(out, text, (u64)bytes);
}

void json_put_i64(struct json_out *out, i64 value)
{
    char text[24];
    i32 bytes = snprintf(text, sizeof text, "%lld", (long long)value);
    json_put_raw(out, text, (u64)bytes);
}

void json_put_f64(struct json_out *out, f64 value)
{
    char text[40];
    if (!isfinite(value)) {
        json_put_null(out);
        return;
    }
    i32 bytes = 0;
    for (i32 digits = 1; digits <= 17; digits++) {      /* 17 always read back                */
        bytes = snprintf(text, sizeof text, "%.*g", digits, value);
        f64 back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof back) == 0) break;
    }
    json_put_raw(out, text, (u64)bytes);
}

void json_put_bool(struct json_out *out, bool value)
{
    json_put_raw(out, value ? "true" : "false", value ? 4 : 5);
}

void json_put_null(struct json_out *out)
{
    json_put_raw(out, "null", 4);
}

void json_put_raw(struct json_out *out, const char *text, u64 bytes)
{
    separate(out);
    put(out, text, bytes);
}

void json_put_plain(struct json_out *out, const char *text, u64 bytes)
{
    put(out, text, bytes);
}

void json_put_value(struct json_out *out, const struct json_at *at)
{
    struct json_at inner = { 0 };
    void *cursor = NULL;
    const char *key;
    switch (json_kind(at)) {            /* recursion ends: json_open bounded the depth        */
    case JSON_IS_OBJECT:
        json_put_object(out);
        while (json_next(at, &cursor, &key, &inner)) {
            json_put_key(out, key);
            json_put_value(out, &inner);
        }
        json_put_object_end(out);
        break;
    case JSON_IS_ARRAY:
        json_put_array(out);
        for (u32 i = 0; i < json_count(at); i++) {
            inner.value = json_array_get(at->value, i);
            json_put_value(out, &inner);
        }
        json_put_array_end(out);
        break;
    case JSON_IS_STR:
        json_put_str(out, json_string_value(at->value), json_string_length(at->value));
        break;
    case JSON_IS_INTEGER: json_put_i64(out, json_integer_value(at->value)); break;
    case JSON_IS_REAL: json_put_f64(out, json_real_value(at->value)); break;
    case JSON_IS_BOOL: json_put_bool(out, json_is_true(value_of(at))); break;
    default: json_put_null(out);
    }
}

enum err json_out_check(const struct json_out *out)
{
    return out->failed ? fail(ERR_MEMORY, "no memory for %llu bytes of JSON",
                              (ull)out->cap_bytes) : OK;
}

void json_out_clear(struct json_out *out)
{
    out->bytes = 0;
    out->comma = false;
    out->failed = false;
}

void json_out_close(struct json_out *out)
{
    give(out->text);
    *out = (struct json_out){ 0 };
}
