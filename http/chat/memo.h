/* http/chat/memo.h - how a tool call is known again when a client sends it back (chat.md 9).
 *
 * The engine keeps two hashes a call, never its text: of the call id, and of the name with the
 * canonical arguments.  Canonical is what a JavaScript client keeps: numbers by the double nearest
 * to them, strings by their code points, arrays in order, objects by the order of keys, except that
 * integer-like keys come first and ascending; of a key that comes twice the last value at the first
 * place.  Stateless; any thread. */
#ifndef CHAT_MEMO_H
#define CHAT_MEMO_H

#include "arena/base/jsontext.h"

u64 memo_id(struct text_span id);

/* Hash of a call: its name, its arguments as rows of jsontext_rows.  Pool: for decoded strings.
 * ERR_MEMORY when it refuses. */
MUST_USE enum err memo_call(struct text_span name, const struct jsontext_row *rows, u32 count,
                            struct text_pool *pool, u64 out[2]);

/* The same of arguments as the text of a JSON object.  ERR_FORMAT when it is none. */
MUST_USE enum err memo_call_text(struct text_span name, struct text_span arguments,
                                 struct text_pool *pool, u64 out[2]);

#endif
