/* http/chat/request.h - the JSON of /v1/chat/completions and /v1/completions -> a filled turn.
 *
 * Parses, checks every field of http.md 4, normalises (chat/normal), renders and tokenises; what is
 * refused is a refusal that names the field.  Everything made lies in the request's pool or in the
 * heap, and goes with request_close: not before the engine gave the submit row back, which reads
 * `ids` and `forced` in place.  No state; any thread. */
#ifndef CHAT_REQUEST_H
#define CHAT_REQUEST_H

#include "http/chat/model.h"
#include "http/chat/refusal.h"
#include "http/chat/session.h"
#include "http/turn/turn.h"

enum request_kind { REQUEST_CHAT, REQUEST_COMPLETION };
enum { REQUEST_POOL_BYTES = 512 << 20, REQUEST_FORCED_CALLS = 64 };

struct request_source {                 /* what came in; outlives the request                    */
    const char *body;
    u64         body_bytes;
    const char *session_header[SESSION_HEADER_COUNT];
    const char *force;                  /* header x-holdfast-force, or NULL                      */
};

struct request {
    enum request_kind kind;
    struct text_pool pool;
    struct text_span model;             /* as the client named it; echoed                        */
    bool stream, include_usage, parallel_calls;
    bool calls;                         /* the answer's tool calls are parsed                    */
    struct template_input input;        /* chat: after normalisation                             */
    struct template_prompt prompt;      /* chat: rendered text, segments, marks                  */
    bool think_open;
    struct tokenizer_ids ids;
    struct turn_mark mark[TURN_MARK_CAP];
    u32  mark_count;
    struct text_span stop[TURN_STOP_CAP];
    u32  stop_count;
    u64  max_tokens;                    /* 0: to the context's end                               */
    u64  think_budget;                  /* reasoning tokens, UINT64_MAX: any number              */
    struct call_row *past_calls;        /* of the prompt, by position; in the pool               */
    u32  past_call_count;
    const u32 *close_ids;               /* the model's                                           */
    u32  close_count, close_hidden;
    const u32 *note_ids;                        /* the model's, at half of the budget         */
    u32  note_count;
    struct sample_settings sampling;
    bool logprobs;                      /* chat: of every token, and of the most likely ones     */
    u32  top_logprobs;
    char session[SESSION_ID_BYTES + 1];
    struct tokenizer_ids forced;        /* --test-hooks; count 0: none                           */
    bool is_forced;
    u64  forced_cut;                    /* UINT64_MAX: never                                     */
    struct text_span forced_call_id[REQUEST_FORCED_CALLS];
    u32  forced_call_count;
};

/* `out` is zeroed here.  False: *r says why, and the request is closed. */
MUST_USE bool request_chat(const struct chat_model *model, const struct request_source *source,
                           struct request *out, struct refusal *r);
MUST_USE bool request_completion(const struct chat_model *model,
                                 const struct request_source *source, struct request *out,
                                 struct refusal *r);
/* Only messages, tools and template fields: what /tokenize and /apply-template need.  `encode`:
 * ids too.  The context is not a limit here. */
MUST_USE bool request_render(const struct chat_model *model, const struct request_source *source,
                             bool encode, struct request *out, struct refusal *r);
/* Copies what the engine reads into a TAKEN row; ids and forced stay where they are. */
void request_fill(const struct request *q, struct submit_row *row);
void request_close(struct request *q);

/* Role of the message in which token `pos` of the prompt stands: "system", "user", "assistant",
 * "tool"; NULL for a raw prompt. */
const char *request_role_at(const struct chat_model *model, const struct request *q, u64 pos);

#endif
