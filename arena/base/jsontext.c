/* arena/base/jsontext.c - one checking pass, then spans.
 *
 * The check is a loop with one bit a level (object or array): depth costs no stack.  Everything
 * behind it relies on checked text: skipping a value needs to know strings and brackets only. */
#include "arena/base/jsontext.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(JSONTEXT_DEPTH_MAX <= 128, "two words of levels");

struct checker {
    const u8 *b;
    u64 len, at;
    u64 level[2];                   /* bit d: the container at depth d is an object */
    u32 depth, depth_max;
};

static bool blank(u8 c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool digit(u8 c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(struct checker *c)
{
    while (c->at < c->len && blank(c->b[c->at])) c->at++;
}

static enum err expected(const struct checker *c, const char *what)
{
    if (c->at >= c->len)
        return fail(ERR_FORMAT, "JSON ends at byte %llu: expected %s", (ull)c->len, what);
    return fail(ERR_FORMAT, "JSON at byte %llu: expected %s", (ull)c->at, what);
}

static i32 hex_digit(u8 c)
{
    if (digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static enum err check_escape(struct checker *c)
{
    c->at++;
    if (c->at >= c->len) return expected(c, "an escape");
    u8 e = c->b[c->at];
    if (e == 'u') {
        for (u32 i = 1; i <= 4; i++)
            if (c->at + i >= c->len || hex_digit(c->b[c->at + i]) < 0)
                return expected(c, "four hex digits after \\u");
        c->at += 5;
        return OK;
    }
    if (e == 0 || strchr("\"\\/bfnrt", e) == NULL) return expected(c, "an escape");
    c->at++;
    return OK;
}

/* At the opening quote; ends behind the closing one.  UTF-8 was checked before. */
static enum err check_string(struct checker *c)
{
    c->at++;
    while (c->at < c->len) {
        u8 b = c->b[c->at];
        if (b == '"') {
            c->at++;
            return OK;
        }
        if (b == '\\') {
            TRY(check_escape(c));
            continue;
        }
        if (b < 0x20) return expected(c, "no control character in a string");
        c->at++;
    }
    return expected(c, "a closing quote");
}

static enum err check_digits(struct checker *c)
{
    if (c->at >= c->len || !digit(c->b[c->at])) return expected(c, "a digit");
    while (c->at < c->len && digit(c->b[c->at])) c->at++;
    return OK;
}

static enum err check_number(struct checker *c)
{
    if (c->b[c->at] == '-') c->at++;
    if (c->at < c->len && c->b[c->at] == '0') {
        c->at++;
        if (c->at < c->len && digit(c->b[c->at])) return expected(c, "no digit after a leading 0");
    } else {
        TRY(check_digits(c));
    }
    if (c->at < c->len && c->b[c->at] == '.') {
        c->at++;
        TRY(check_digits(c));
    }
    if (c->at < c->len && (c->b[c->at] | 0x20) == 'e') {
        c->at++;
        if (c->at < c->len && (c->b[c->at] == '+' || c->b[c->at] == '-')) c->at++;
        TRY(check_digits(c));
    }
    return OK;
}

static enum err check_word(struct checker *c, const char *word)
{
    u64 len = strlen(word);
    if (c->len - c->at < len || memcmp(c->b + c->at, word, len) != 0)
        return expected(c, "a value");
    c->at += len;
    return OK;
}

static enum err check_scalar(struct checker *c)
{
    if (c->at >= c->len) return expected(c, "a value");
    switch (c->b[c->at]) {
    case '"': return check_string(c);
    case 't': return check_word(c, "true");
    case 'f': return check_word(c, "false");
    case 'n': return check_word(c, "null");
    case '-': case '0': case '1': case '2': case '3': case '4':
    case '5': case '6': case '7': case '8': case '9': return check_number(c);
    default: return expected(c, "a value");
    }
}

static bool in_object(const struct checker *c)
{
    u32 d = c->depth - 1;
    return c->level[d / 64] >> d % 64 & 1;
}

static enum err check_key(struct checker *c)
{
    skip_blanks(c);
    if (c->at >= c->len || c->b[c->at] != '"') return expected(c, "a key in quotes");
    TRY(check_string(c));
    skip_blanks(c);
    if (c->at >= c->len || c->b[c->at] != ':') return expected(c, "':' after a key");
    c->at++;
    return OK;
}

/* At '[' or '{': one level down.  True in *empty when it closed at once. */
static enum err check_enter(struct checker *c, bool *empty)
{
    bool object = c->b[c->at] == '{';
    if (c->depth == c->depth_max)
        return fail(ERR_LIMIT, "JSON at byte %llu: nested deeper than %u", (ull)c->at,
                    c->depth_max);
    u64 bit = 1ull << c->depth % 64;
    if (object) c->level[c->depth / 64] |= bit;
    else c->level[c->depth / 64] &= ~bit;
    c->depth++;
    c->at++;
    skip_blanks(c);
    *empty = c->at < c->len && c->b[c->at] == (object ? '}' : ']');
    if (*empty) {
        c->at++;
        c->depth--;
        return OK;
    }
    return object ? check_key(c) : OK;
}

/* Behind a whole value: closes what ends here and steps to the next value, if there is one. */
static enum err check_after(struct checker *c)
{
    while (c->depth > 0) {
        skip_blanks(c);
        bool object = in_object(c);
        if (c->at >= c->len) return expected(c, object ? "',' or '}'" : "',' or ']'");
        u8 b = c->b[c->at];
        if (b == ',') {
            c->at++;
            return object ? check_key(c) : OK;
        }
        if (b != (object ? '}' : ']')) return expected(c, object ? "',' or '}'" : "',' or ']'");
        c->at++;
        c->depth--;
    }
    return OK;
}

static struct jsontext value_at(const char *at, const char *end);

enum err jsontext_open(const char *bytes, u64 len, u32 depth_max, struct jsontext *out)
{
    struct checker c = { .b = (const u8 *)bytes, .len = len,
                         .depth_max = MIN(depth_max, (u32)JSONTEXT_DEPTH_MAX) };
    u64 valid = text_utf8_valid(bytes, len);
    if (valid < len) return fail(ERR_FORMAT, "JSON at byte %llu: not UTF-8", (ull)valid);
    skip_blanks(&c);
    u64 first = c.at;
    do {
        skip_blanks(&c);
        if (c.at < len && (c.b[c.at] == '{' || c.b[c.at] == '[')) {
            bool empty = false;
            TRY(check_enter(&c, &empty));
            if (!empty) continue;
        } else {
            TRY(check_scalar(&c));
        }
        TRY(check_after(&c));
    } while (c.depth > 0);
    u64 last = c.at;
    skip_blanks(&c);
    if (c.at < len) return expected(&c, "nothing after the value");
    *out = value_at(bytes + first, bytes + last);
    return OK;
}

/* ------------------------------------------------------------------ walking checked text */

/* Behind the closing quote of the string that begins at `at`. */
static const char *string_end(const char *at, const char *end)
{
    const char *from = at + 1;
    for (;;) {
        const char *quote = memchr(from, '"', (size_t)(end - from));
        ASSERT(quote != NULL);
        const char *slash = quote;
        while (slash > from && slash[-1] == '\\') slash--;
        if ((quote - slash) % 2 == 0) return quote + 1;
        from = quote + 1;
    }
}

static const char *value_end(const char *at, const char *end)
{
    if (*at == '"') return string_end(at, end);
    if (*at != '{' && *at != '[') {
        while (at < end && !blank((u8)*at) && *at != ',' && *at != '}' && *at != ']') at++;
        return at;
    }
    u32 depth = 0;
    for (;;) {
        ASSERT(at < end);
        if (*at == '"') {
            at = string_end(at, end);
            continue;
        }
        if (*at == '{' || *at == '[') depth++;
        if ((*at == '}' || *at == ']') && --depth == 0) return at + 1;
        at++;
    }
}

static struct jsontext value_at(const char *at, const char *end)
{
    struct jsontext v = { .bytes = at, .len = (u64)(value_end(at, end) - at) };
    switch (*at) {
    case '"': v.kind = JSONTEXT_STRING; break;
    case '{': v.kind = JSONTEXT_OBJECT; break;
    case '[': v.kind = JSONTEXT_ARRAY; break;
    case 't': v.kind = JSONTEXT_TRUE; break;
    case 'f': v.kind = JSONTEXT_FALSE; break;
    case 'n': v.kind = JSONTEXT_NULL; break;
    default:  v.kind = JSONTEXT_NUMBER; break;
    }
    return v;
}

void jsontext_walk(struct jsontext_walk *w, struct jsontext container)
{
    *w = (struct jsontext_walk){ 0 };
    if (container.kind != JSONTEXT_ARRAY && container.kind != JSONTEXT_OBJECT) return;
    w->at = container.bytes + 1;
    w->end = container.bytes + container.len - 1;
    w->object = container.kind == JSONTEXT_OBJECT;
}

bool jsontext_next(struct jsontext_walk *w, struct jsontext *key, struct jsontext *value)
{
    const char *at = w->at;
    while (at < w->end && (blank((u8)*at) || *at == ',')) at++;
    if (at >= w->end) return false;
    struct jsontext k = { 0 };
    if (w->object) {
        k = value_at(at, w->end);
        at = k.bytes + k.len;
        while (blank((u8)*at) || *at == ':') at++;
    }
    if (key != NULL) *key = k;
    *value = value_at(at, w->end);
    w->at = value->bytes + value->len;
    return true;
}

struct jsontext jsontext_member(struct jsontext object, const char *name)
{
    struct jsontext found = { 0 }, key, value;
    struct jsontext_walk w;
    if (object.kind != JSONTEXT_OBJECT) return found;
    jsontext_walk(&w, object);
    while (jsontext_next(&w, &key, &value))
        if (jsontext_is(key, name)) found = value;
    return found;
}

u64 jsontext_count(struct jsontext container)
{
    struct jsontext_walk w;
    struct jsontext value;
    u64 count = 0;
    jsontext_walk(&w, container);
    while (jsontext_next(&w, NULL, &value)) count++;
    return count;
}

/* ------------------------------------------------------------------ strings */

static u32 hex4(const char *at)
{
    u32 c = 0;
    for (u32 i = 0; i < 4; i++) c = c << 4 | (u32)hex_digit((u8)at[i]);
    return c;
}

/* The escape at `*at` (its backslash), which moves behind it, as UTF-8. */
static u32 decode_escape(const char **at, const char *end, char out[4])
{
    const char *e = *at + 1;
    *at += 2;
    switch (*e) {
    case 'b': out[0] = '\b'; return 1;
    case 'f': out[0] = '\f'; return 1;
    case 'n': out[0] = '\n'; return 1;
    case 'r': out[0] = '\r'; return 1;
    case 't': out[0] = '\t'; return 1;
    case 'u': break;
    default:  out[0] = *e; return 1;
    }
    u32 c = hex4(e + 1);
    *at += 4;
    if (c >= 0xD800 && c <= 0xDBFF && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        u32 low = hex4(*at + 2);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            c = 0x10000 + (c - 0xD800) * 0x400 + (low - 0xDC00);
            *at += 6;
        }
    }
    return text_utf8_encode(c, out);
}

u64 jsontext_decode(struct jsontext string, char *out)
{
    ASSERT(string.kind == JSONTEXT_STRING);
    const char *at = string.bytes + 1, *end = string.bytes + string.len - 1;
    u64 len = 0;
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        u64 plain = (u64)((slash != NULL ? slash : end) - at);
        memmove(out + len, at, plain);
        len += plain;
        at += plain;
        if (slash == NULL) break;
        char utf8[4];
        u32 n = decode_escape(&at, end, utf8);
        memcpy(out + len, utf8, n);
        len += n;
    }
    return len;
}

bool jsontext_is(struct jsontext string, const char *plain)
{
    if (string.kind != JSONTEXT_STRING) return false;
    const char *at = string.bytes + 1, *end = string.bytes + string.len - 1;
    while (at < end) {
        char utf8[4] = { *at };
        u32 n = 1;
        if (*at == '\\') n = decode_escape(&at, end, utf8);
        else at++;
        for (u32 i = 0; i < n; i++, plain++)
            if (*plain == 0 || *plain != utf8[i]) return false;
    }
    return *plain == 0;
}

struct text_span jsontext_string(struct jsontext string, struct text_pool *pool)
{
    ASSERT(string.kind == JSONTEXT_STRING);
    const char *inner = string.bytes + 1;
    u64 len = string.len - 2;
    if (len == 0 || memchr(inner, '\\', len) == NULL) return (struct text_span){ inner, len };
    char *out = text_pool_take(pool, len);
    if (out == NULL) return (struct text_span){ NULL, 0 };
    return (struct text_span){ out, jsontext_decode(string, out) };
}

/* ------------------------------------------------------------------ scalars */

bool jsontext_bool(struct jsontext v, bool *out)
{
    if (v.kind != JSONTEXT_TRUE && v.kind != JSONTEXT_FALSE) return false;
    *out = v.kind == JSONTEXT_TRUE;
    return true;
}

static bool number_is_integer(struct jsontext v)
{
    for (u64 i = 0; i < v.len; i++)
        if (v.bytes[i] == '.' || (v.bytes[i] | 0x20) == 'e') return false;
    return true;
}

bool jsontext_u64(struct jsontext v, u64 *out)
{
    if (v.kind != JSONTEXT_NUMBER || v.bytes[0] == '-' || !number_is_integer(v)) return false;
    u64 n = 0;
    for (u64 i = 0; i < v.len; i++) {
        u64 d = (u64)(v.bytes[i] - '0');
        if (n > (UINT64_MAX - d) / 10) return false;
        n = n * 10 + d;
    }
    *out = n;
    return true;
}

bool jsontext_i64(struct jsontext v, i64 *out)
{
    if (v.kind != JSONTEXT_NUMBER) return false;
    bool minus = v.bytes[0] == '-';
    struct jsontext digits = { v.bytes + minus, v.len - minus, JSONTEXT_NUMBER };
    u64 n;
    if (!jsontext_u64(digits, &n) || n > (u64)INT64_MAX + minus) return false;
    *out = minus ? -(i64)(n - (n == (u64)INT64_MAX + 1)) - (n == (u64)INT64_MAX + 1) : (i64)n;
    return true;
}

bool jsontext_f64(struct jsontext v, f64 *out)
{
    char copy[400];                 /* a double's longest exact spelling that matters is shorter */
    if (v.kind != JSONTEXT_NUMBER || v.len >= sizeof copy) return false;
    memcpy(copy, v.bytes, v.len);
    copy[v.len] = 0;
    *out = strtod(copy, NULL);
    return true;
}

const char *jsontext_kind_word(u8 kind)
{
    static const char *const words[] = { "nothing", "null", "false", "true", "a number",
                                         "a string", "an array", "an object" };
    return kind < COUNT_OF(words) ? words[kind] : "unknown";
}

/* ------------------------------------------------------------------ dump */

/* Python's repr of a finite double whose shortest digits are d[0..count) x 10^(exponent). */
static void dump_digits(const char *d, u32 count, i32 exponent, struct text *out)
{
    if (exponent < -4 || exponent >= 16) {
        text_char(out, d[0]);
        if (count > 1) text_char(out, '.');
        text_put(out, d + 1, count - 1);
        text_f(out, "e%c%02d", exponent < 0 ? '-' : '+', exponent < 0 ? -exponent : exponent);
        return;
    }
    if (exponent < 0) {
        text_str(out, "0.");
        for (i32 i = exponent + 1; i < 0; i++) text_char(out, '0');
        text_put(out, d, count);
        return;
    }
    u32 whole = (u32)exponent + 1;
    for (u32 i = 0; i < whole; i++) text_char(out, i < count ? d[i] : '0');
    text_char(out, '.');
    if (count > whole) text_put(out, d + whole, count - whole);
    else text_char(out, '0');
}

/* The fewest digits d that read back as x = d x 10^scale.  Where they are not x's own rounding to
 * that length, their upper neighbour may be (2^-44 has 17 digits by rounding, 16 by it). */
static u64 shortest_digits(f64 x, i32 *scale)
{
    for (i32 precision = 0; precision < 17; precision++) {
        char line[40], plain[20];
        u32 count = 0;
        snprintf(line, sizeof line, "%.*e", precision, x);
        const char *at = line;
        for (; *at != 'e'; at++)
            if (*at != '.') plain[count++] = *at;
        plain[count] = 0;
        u64 digits = strtoull(plain, NULL, 10);
        *scale = (i32)strtol(at + 1, NULL, 10) - precision;
        for (u64 more = 0; more < 2; more++) {
            snprintf(line, sizeof line, "%llue%d", (ull)(digits + more), *scale);
            if (strtod(line, NULL) == x) return digits + more;
        }
    }
    ASSERT(false);                      /* 17 digits always read back */
    return 0;
}

static void dump_f64(f64 x, struct text *out)
{
    if (signbit(x)) text_char(out, '-');
    x = fabs(x);
    if (isinf(x)) {
        text_str(out, "Infinity");
        return;
    }
    i32 scale;
    u64 digits = shortest_digits(x, &scale);
    while (digits != 0 && digits % 10 == 0) {
        digits /= 10;
        scale++;
    }
    char line[24];
    u32 count = (u32)snprintf(line, sizeof line, "%llu", (ull)digits);
    dump_digits(line, count, digits == 0 ? 0 : (i32)count - 1 + scale, out);
}

void jsontext_dump_number(struct jsontext number, struct text *out)
{
    f64 x;
    if (number_is_integer(number)) {
        if (number.len == 2 && memcmp(number.bytes, "-0", 2) == 0) text_char(out, '0');
        else text_put(out, number.bytes, number.len);
    } else if (jsontext_f64(number, &x)) {
        dump_f64(x, out);
    } else {
        text_put(out, number.bytes, number.len);        /* hundreds of digits: as they came */
    }
}

static enum err refused(void)
{
    return fail(ERR_MEMORY, "no memory for a parsed JSON value");
}

static u64 key_hash(struct text_span key)
{
    u64 h = 14695981039346656037ull;                    /* FNV-1a */
    for (u64 i = 0; i < key.len; i++) h = (h ^ (u8)key.bytes[i]) * 1099511628211ull;
    return h ^ h >> 29;
}

static bool span_equal(struct text_span a, struct text_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.bytes, b.bytes, a.len) == 0);
}

enum err jsontext_rows(struct jsontext object, struct text_pool *pool,
                       struct jsontext_row **rows_out, u32 *count_out)
{
    u64 members = jsontext_count(object);
    if (members > UINT32_MAX / 4) return fail(ERR_LIMIT, "a JSON object has too many members");
    u64 slot_count = 4;
    while (slot_count < 2 * members) slot_count *= 2;
    struct jsontext_row *rows = text_pool_take(pool, members * sizeof *rows);
    u32 *slots = text_pool_take(pool, slot_count * sizeof *slots);      /* row + 1; 0: free */
    if (rows == NULL || slots == NULL) return refused();

    struct jsontext_walk w;
    struct jsontext key, value;
    u32 count = 0;
    jsontext_walk(&w, object);
    while (jsontext_next(&w, &key, &value)) {
        struct text_span name = jsontext_string(key, pool);
        if (name.bytes == NULL) return refused();
        u64 at = key_hash(name) & (slot_count - 1);
        while (slots[at] != 0 && !span_equal(rows[slots[at] - 1].key, name))
            at = (at + 1) & (slot_count - 1);
        if (slots[at] == 0) {
            rows[count++].key = name;
            slots[at] = count;
        }
        rows[slots[at] - 1].value = value;
    }
    *rows_out = rows;
    *count_out = count;
    return OK;
}

static enum err dump_string(struct jsontext v, struct text_pool *pool, struct text *out)
{
    struct text_span s = jsontext_string(v, pool);
    if (s.bytes == NULL) return refused();
    text_json(out, s.bytes, s.len);
    return OK;
}

static enum err dump_array(struct jsontext v, struct text_pool *pool, struct text *out)
{
    struct jsontext_walk w;
    struct jsontext item;
    bool first = true;
    text_char(out, '[');
    jsontext_walk(&w, v);
    while (jsontext_next(&w, NULL, &item)) {
        if (!first) text_str(out, ", ");
        first = false;
        TRY(jsontext_dump(item, pool, out));
    }
    text_char(out, ']');
    return OK;
}

static enum err dump_object(struct jsontext v, struct text_pool *pool, struct text *out)
{
    struct jsontext_row *rows;
    u32 count;
    TRY(jsontext_rows(v, pool, &rows, &count));
    text_char(out, '{');
    for (u32 i = 0; i < count; i++) {
        if (i > 0) text_str(out, ", ");
        text_json(out, rows[i].key.bytes, rows[i].key.len);
        text_str(out, ": ");
        TRY(jsontext_dump(rows[i].value, pool, out));
    }
    text_char(out, '}');
    return OK;
}

/* Recursion ends at the depth that jsontext_open allowed. */
enum err jsontext_dump(struct jsontext v, struct text_pool *pool, struct text *out)
{
    switch (v.kind) {
    case JSONTEXT_OBJECT: return dump_object(v, pool, out);
    case JSONTEXT_ARRAY:  return dump_array(v, pool, out);
    case JSONTEXT_STRING: return dump_string(v, pool, out);
    case JSONTEXT_NUMBER: jsontext_dump_number(v, out); return OK;
    default: text_put(out, v.bytes, v.len); return OK;
    }
}
