/* http/chat/reply.h - generated ids -> text -> events of a stream, or the body of an answer.
 *
 * Feed ids as they leave the engine; what may be sent already stands in `out`, which the transport
 * empties.  Held back: bytes that may become a stop string, incomplete UTF-8, blanks that may stand
 * before a call.  The engine cuts at the same byte by the same function (http/turn/stop).  Memory:
 * the heap, bounded by what was generated.  One thread at a time. */
#ifndef CHAT_REPLY_H
#define CHAT_REPLY_H

#include "http/chat/request.h"
#include "http/chat/tools.h"
#include "http/turn/stop.h"

enum { REPLY_ID_BYTES = 40, REPLY_HELD_PIECES = 512, REPLY_HELD_BYTES = 4096,
       REPLY_TEXT_BYTES = 256 << 20 };

struct reply_piece { u64 at; u32 len; u8 kind; bool counted; };  /* counted: of a stop string */

struct reply {
    const struct chat_model *model;
    const struct request    *request;
    struct submit_row       *row;
    char id[REPLY_ID_BYTES];            /* chatcmpl-..., cmpl-...                                */
    u64  created_s;
    struct tools *tools;                /* chat only                                             */
    struct tools_events events;
    struct stop_state stop;
    bool stopped;                       /* a stop string is complete: later ids count for nothing */
    bool enough;                        /* parallel_tool_calls false: the first call is complete */
    bool begun;                         /* the role chunk is out                                 */
    enum err error;                     /* of a feed; the answer then ends as a fault            */
    struct reply_piece piece[REPLY_HELD_PIECES];    /* held for a stop string, in order          */
    u32  piece_count, held_bytes, counted_bytes;
    char held[REPLY_HELD_BYTES];
    struct text_utf8 utf8;              /* completions                                           */
    u64  reasoning_tokens;
    u64  id_count, at;                  /* ids given so far; index of the one that is fed        */
    struct call_row made[TURN_CALL_CAP];    /* the answer's calls, for the engine's memo         */
    bool hashed[TURN_CALL_CAP];
    u64  call_at;                       /* index of the open <tool_call>; calls before it        */
    u32  calls_before, complete_before;
    struct text call_name, call_text;   /* of the open call                                      */
    struct text logprobs;               /* entries that are not sent yet, or all of a body       */
    struct text prefix;                 /* of every chunk, up to the choice's own members        */
    struct text reasoning, content, calls;      /* not streamed: what the body will hold         */
    struct text out;                    /* bytes to send                                         */
};

/* `row` and `q` outlive the reply.  ERR_MEMORY. */
MUST_USE enum err reply_open(struct reply *r, const struct chat_model *model,
                             const struct request *q, struct submit_row *row);
void reply_close(struct reply *r);      /* safe when zeroed                                      */

/* Generated ids in order.  A failure is kept in `error`. */
void reply_ids(struct reply *r, const u32 *ids, u64 count);
/* The turn came to its end by stop or length: finish chunk, usage, [DONE] or the whole body. */
void reply_end(struct reply *r, const struct turn_result *result);
/* The whole calls of the answer as the engine's memo knows calls, spans in ids given; after the
 * last reply_ids.  Returns how many, at most TURN_CALL_CAP. */
u32 reply_calls(const struct reply *r, struct call_row *out);
/* After headers left: one error event, no [DONE]. */
void reply_error(struct reply *r, const struct refusal *refusal);
/* Before the first event: a comment line, `text` without newlines. */
void reply_comment(struct reply *r, const char *text);

#endif
