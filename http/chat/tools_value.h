/* http/chat/tools_value.h - the text of a generated argument -> its JSON value, by the schema.
 *
 * Numbers and JSON are passed on as generated text, since dumping them again loses bytes; what fits
 * no listed type stays a string (chat.md 8).  Pure. */
#ifndef CHAT_TOOLS_VALUE_H
#define CHAT_TOOLS_VALUE_H

#include "arena/base/jsontext.h"

enum { TOOLS_VALUE_TYPES_MAX = 16 };

enum tools_value_type {
    TOOLS_VALUE_STRING = 0, TOOLS_VALUE_BOOLEAN, TOOLS_VALUE_INTEGER, TOOLS_VALUE_NUMBER,
    TOOLS_VALUE_ARRAY, TOOLS_VALUE_OBJECT,
};

/* A parameter's types in the schema's order; none: a string. */
struct tools_value_types {
    u8   type[TOOLS_VALUE_TYPES_MAX];
    u32  count;
    bool null;                          /* null is one of them                                   */
};

/* Of `type` (a word or a list), `anyOf`, `oneOf`, flattened in order; `enum` alone is string. */
void tools_value_read_types(struct jsontext schema, struct tools_value_types *out);

/* True when the value is a string whatever its text: it may go out before it is complete. */
bool tools_value_is_string(const struct tools_value_types *types);

/* The whole value's text as JSON. */
void tools_value_put(const struct tools_value_types *types, struct text_span raw,
                     struct text *out);

#endif
