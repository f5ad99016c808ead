/* http/chat/fields.c - typed, bounded members of a body. */
#include "http/chat/fields.h"

bool fields_open(const char *body, u64 bytes, u32 depth_max, struct jsontext *out,
                 struct refusal *r)
{
    struct jsontext root;
    if (bytes == 0) return refusal_bad(r, NULL, "the body is empty: expected a JSON object");
    u32 depth = MIN(depth_max, (u32)JSONTEXT_DEPTH_MAX);
    if (jsontext_open(body, bytes, depth, &root) != OK)
        return refusal_bad(r, NULL, "the body is not JSON: %s", err_last()->text);
    if (root.kind != JSONTEXT_OBJECT)
        return refusal_bad(r, NULL, "the body is %s: expected an object",
                           jsontext_kind_word(root.kind));
    *out = root;
    return true;
}

static struct jsontext member(struct jsontext body, const char *name)
{
    struct jsontext v = jsontext_member(body, name);
    if (v.kind == JSONTEXT_NULL) v.kind = JSONTEXT_ABSENT;
    return v;
}

bool fields_given(struct jsontext body, const char *name)
{
    return member(body, name).kind != JSONTEXT_ABSENT;
}

bool fields_bool(struct jsontext body, const char *name, bool otherwise, bool *out,
                 struct refusal *r)
{
    struct jsontext v = member(body, name);
    if (v.kind == JSONTEXT_ABSENT) { *out = otherwise; return true; }
    if (jsontext_bool(v, out)) return true;
    return refusal_bad(r, name, "%s: expected true or false, got %s", name,
                       jsontext_kind_word(v.kind));
}

bool fields_f32(struct jsontext body, const char *name, f64 lo, f64 hi, f32 otherwise, f32 *out,
                struct refusal *r)
{
    struct jsontext v = member(body, name);
    f64 value;
    if (v.kind == JSONTEXT_ABSENT) { *out = otherwise; return true; }
    if (v.kind != JSONTEXT_NUMBER || !jsontext_f64(v, &value))
        return refusal_bad(r, name, "%s: expected a number, got %s", name,
                           jsontext_kind_word(v.kind));
    if (!(value >= lo && value <= hi))
        return refusal_bad(r, name, "%s: %.*s is not between %g and %g", name,
                           (int)MIN(v.len, (u64)32), v.bytes, lo, hi);
    *out = (f32)value;
    return true;
}

bool fields_whole(struct jsontext body, const char *name, i64 lo, i64 hi, i64 otherwise, i64 *out,
                  struct refusal *r)
{
    struct jsontext v = member(body, name);
    i64 value;
    if (v.kind == JSONTEXT_ABSENT) { *out = otherwise; return true; }
    if (v.kind != JSONTEXT_NUMBER)
        return refusal_bad(r, name, "%s: expected an integer, got %s", name,
                           jsontext_kind_word(v.kind));
    if (!jsontext_i64(v, &value))
        return refusal_bad(r, name, "%s: %.*s is not an integer of 64 bits", name,
                           (int)MIN(v.len, (u64)32), v.bytes);
    if (value < lo || (value > hi))
        return refusal_bad(r, name, "%s: %lld is not between %lld and %lld", name,
                           (long long)value, (long long)lo, (long long)hi);
    *out = value;
    return true;
}

bool fields_text(struct jsontext body, const char *name, struct text_pool *pool,
                 struct text_span *out, struct refusal *r)
{
    struct jsontext v = member(body, name);
    if (v.kind == JSONTEXT_ABSENT) { *out = (struct text_span){0}; return true; }
    if (v.kind != JSONTEXT_STRING)
        return refusal_bad(r, name, "%s: expected a string, got %s", name,
                           jsontext_kind_word(v.kind));
    struct text_span s = jsontext_string(v, pool);
    if (s.bytes == NULL) {
        fail(ERR_MEMORY, "%s: no memory for the request", name);
        return refusal_note(r, ERR_MEMORY, name);
    }
    *out = s;
    return true;
}
