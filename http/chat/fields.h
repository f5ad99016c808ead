/* http/chat/fields.h - members of a request body with their bounds; what is wrong is a named 400.
 *
 * An absent or null member is `otherwise` (or false, empty).  Pure but for the refusal. */
#ifndef CHAT_FIELDS_H
#define CHAT_FIELDS_H

#include "arena/base/jsontext.h"
#include "http/chat/refusal.h"

/* The whole text as one JSON object; 400 says where it is none. */
bool fields_open(const char *body, u64 bytes, u32 depth_max, struct jsontext *out,
                 struct refusal *r);
bool fields_given(struct jsontext body, const char *name);          /* there and not null         */
bool fields_bool(struct jsontext body, const char *name, bool otherwise, bool *out,
                 struct refusal *r);
bool fields_f32(struct jsontext body, const char *name, f64 lo, f64 hi, f32 otherwise, f32 *out,
                struct refusal *r);
bool fields_whole(struct jsontext body, const char *name, i64 lo, i64 hi, i64 otherwise, i64 *out,
                  struct refusal *r);
/* Decoded in the pool; {NULL, 0} when absent. */
bool fields_text(struct jsontext body, const char *name, struct text_pool *pool,
                 struct text_span *out, struct refusal *r);

#endif
