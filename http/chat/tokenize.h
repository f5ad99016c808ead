/* http/chat/tokenize.h - /tokenize, /detokenize, /apply-template, /v1/models: bodies in and out.
 *
 * No engine work.  Each appends the answer's JSON to `out`, or refuses and appends nothing. */
#ifndef CHAT_TOKENIZE_H
#define CHAT_TOKENIZE_H

#include "http/chat/request.h"

/* {content} -> {"tokens"}; {prompt} or {messages, tools?} -> {"count","max_model_len","tokens"}
 * (http.md 6). */
MUST_USE bool tokenize_ids(const struct chat_model *m, const struct request_source *source,
                           struct json_out *out, struct refusal *r);
/* {tokens} -> {"content","prompt"}. */
MUST_USE bool tokenize_text(const struct chat_model *m, const struct request_source *source,
                            struct json_out *out, struct refusal *r);
/* A chat body -> {"prompt"}. */
MUST_USE bool tokenize_prompt(const struct chat_model *m, const struct request_source *source,
                              struct json_out *out, struct refusal *r);
/* The list of models (id NULL), or one row; false with 404 for another id. */
MUST_USE bool tokenize_models(const struct chat_model *m, const char *id, struct json_out *out,
                              struct refusal *r);

#endif
