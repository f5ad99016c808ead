/* http/chat/tools_value.c - types by their words, the first that fits. */
#include "http/chat/tools_value.h"

#include <strings.h>

enum { SCHEMA_DEPTH_MAX = 8 };

static void add_type(struct jsontext word, struct tools_value_types *out)
{
    static const char *const words[] = { "string", "boolean", "integer", "number", "array",
                                         "object" };
    if (jsontext_is(word, "null")) out->null = true;
    for (u8 i = 0; i < COUNT_OF(words); i++)
        if (jsontext_is(word, words[i]) && out->count < TOOLS_VALUE_TYPES_MAX)
            out->type[out->count++] = i;
}

static void read_types(struct jsontext schema, u32 depth, struct tools_value_types *out)
{
    static const char *const unions[] = { "anyOf", "oneOf" };
    struct jsontext_walk w;
    struct jsontext type = jsontext_member(schema, "type"), item;
    if (type.kind == JSONTEXT_STRING) add_type(type, out);
    jsontext_walk(&w, type);
    while (type.kind == JSONTEXT_ARRAY && jsontext_next(&w, NULL, &item)) add_type(item, out);
    if (depth == SCHEMA_DEPTH_MAX) return;
    for (u32 i = 0; i < COUNT_OF(unions); i++) {
        struct jsontext list = jsontext_member(schema, unions[i]);
        if (list.kind != JSONTEXT_ARRAY) continue;
        jsontext_walk(&w, list);
        while (jsontext_next(&w, NULL, &item)) read_types(item, depth + 1, out);
    }
}

void tools_value_read_types(struct jsontext schema, struct tools_value_types *out)
{
    *out = (struct tools_value_types){ 0 };
    read_types(schema, 0, out);         /* without a type, `enum` or not: a string */
}

bool tools_value_is_string(const struct tools_value_types *types)
{
    return !types->null && (types->count == 0 || types->type[0] == TOOLS_VALUE_STRING);
}

static bool is_word(struct text_span s, const char *word, u64 len)
{
    return s.len == len && strncasecmp(s.bytes, word, len) == 0;
}

static bool is_integer(struct text_span s)
{
    u64 at = s.len > 0 && s.bytes[0] == '-';
    if (at == s.len || (s.bytes[at] == '0' && s.len > at + 1)) return false;
    for (; at < s.len; at++)
        if (s.bytes[at] < '0' || s.bytes[at] > '9') return false;
    return true;
}

static bool is_json(struct text_span s, u8 kind)
{
    struct jsontext v;
    return jsontext_open(s.bytes, s.len, JSONTEXT_DEPTH_MAX, &v) == OK && v.kind == kind;
}

/* The JSON of trimmed text as a value of that type; false when it is none. */
static bool put_as(u8 type, struct text_span s, struct text *out)
{
    switch (type) {
    case TOOLS_VALUE_BOOLEAN:
        if (is_word(s, "true", 4)) text_str(out, "true");
        else if (is_word(s, "false", 5)) text_str(out, "false");
        else return false;
        return true;
    case TOOLS_VALUE_INTEGER: if (!is_integer(s)) return false; break;
    case TOOLS_VALUE_NUMBER:  if (!is_json(s, JSONTEXT_NUMBER)) return false; break;
    case TOOLS_VALUE_ARRAY:   if (!is_json(s, JSONTEXT_ARRAY)) return false; break;
    case TOOLS_VALUE_OBJECT:  if (!is_json(s, JSONTEXT_OBJECT)) return false; break;
    default: return false;
    }
    text_put(out, s.bytes, s.len);
    return true;
}

void tools_value_put(const struct tools_value_types *types, struct text_span raw,
                     struct text *out)
{
    struct text_span s = text_trim(raw);
    bool null = is_word(s, "null", 4);
    if (types->null && (null || is_word(s, "none", 4))) {
        text_str(out, "null");
        return;
    }
    for (u32 i = 0; i < types->count; i++) {
        if (types->type[i] == TOOLS_VALUE_STRING) {
            text_json(out, raw.bytes, raw.len);
            return;
        }
        if (put_as(types->type[i], s, out)) return;
    }
    if (null && types->count > 0) text_str(out, "null");
    else text_json(out, raw.bytes, raw.len);
}
