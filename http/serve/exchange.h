/* http/serve/exchange.h - one request on one connection, from its first header to the last byte.
 *
 * Rows of a fixed table.  A row belongs to the HTTP thread of its connection; the pump thread
 * (http/serve/server) looks at the columns under `lock` and at atomics only.  A row whose client
 * went away stays `abandoned` until the engine gave its submit row back: the engine reads the
 * prompt's ids in this row's memory. */
#ifndef SERVE_EXCHANGE_H
#define SERVE_EXCHANGE_H

#include "http/chat/reply.h"
#include "http/serve/auth.h"

#include <pthread.h>
#include <stdatomic.h>

struct MHD_Connection;
struct route;                           /* http/serve/routes.h                                   */

enum { EXCHANGE_PATH_BYTES = 512, EXCHANGE_ID_BYTES = 32, EXCHANGE_ALLOW_BYTES = 32 };
enum exchange_state { EXCHANGE_FREE, EXCHANGE_USED, EXCHANGE_ABANDONED };
enum exchange_wait { EXCHANGE_WAIT_NONE, EXCHANGE_WAIT_TURN, EXCHANGE_WAIT_COMMAND };
enum exchange_stream { EXCHANGE_STREAM_NONE, EXCHANGE_STREAM_OPEN, EXCHANGE_STREAM_ENDED,
                       EXCHANGE_STREAM_CUT };

/* What a chat or completion holds: made by exchange_submit, in the heap. */
struct exchange_turn {
    struct request request;
    struct reply   reply;
    struct turn_result result;          /* a copy once DONE was seen                             */
    u32  seen_state;                    /* enum submit_state as last acted upon                  */
    bool done;
    u64  sent;                          /* bytes of reply.out already handed to the library      */
    u64  prefill_seen_us, prefill_seen_rows;    /* first progress seen, for the estimate         */
};

struct exchange {
    u32 index, generation;              /* generation: counts the row's uses                     */
    struct MHD_Connection *connection;
    int fd;
    char method[8];
    char path[EXCHANGE_PATH_BYTES];
    char request_id[EXCHANGE_ID_BYTES];
    const struct route *route;
    u64  arrival_us;
    char *body;                         /* heap                                                  */
    u64  body_bytes, body_cap, dropped_bytes;
    bool routed;
    bool last;                          /* the connection ends with this answer                  */

    struct refusal refusal;             /* status 0: none                                        */
    u32  status;                        /* set: the answer is complete                           */
    const char *content_type;
    struct json_out answer;
    const char *allow;                  /* 405: methods                                          */
    const char *cache_source;           /* x-cache-source                                        */

    _Atomic u32 wait;                   /* enum exchange_wait                                    */
    u32  submit, command;               /* NONE: given back                                      */
    struct exchange_turn *turn;
    enum exchange_stream stream;

    _Atomic u32  state;                 /* enum exchange_state                                   */
    _Atomic bool gone;                  /* the client closed                                     */
    _Atomic u64  due_us;                /* act by then even if nothing came                      */
    pthread_mutex_t lock;               /* guards suspended and connection against the pump      */
    bool suspended;
};

/* Header of the request, NULL when absent. */
const char *exchange_header(const struct exchange *x, const char *name);

/* Answers: each completes the exchange.  `answer` holds the body already for exchange_json. */
void exchange_json(struct exchange *x, u32 status);
void exchange_text(struct exchange *x, u32 status, const char *content_type, const char *text);
void exchange_refuse(struct exchange *x);               /* by x->refusal                         */

/* Fills a submit row from x->turn->request and pushes it; refuses with 429 or 503. */
void exchange_submit(struct exchange *x);
/* Pushes a command row of `op`; the route's `done` is called when it was answered.  `tier` and
 * `session` may be NULL. */
void exchange_command(struct exchange *x, u32 op, const char *tier, const char *session);

/* The table: `cap` rows from the heap.  take: a free row (state USED) or NULL. */
MUST_USE enum err exchange_open(u32 cap);
void exchange_close(void);
u32  exchange_cap(void);
struct exchange *exchange_at(u32 index);
struct exchange *exchange_take(void);
u32  exchange_used(void);               /* rows with a connection                                */

/* True when a suspended row has something to do at `now_us`.  Under its lock. */
bool exchange_ready(const struct exchange *x, u64 now_us);

/* The connection is over: cancels what runs and frees the row, or leaves it abandoned until
 * exchange_reap finds its submit and command rows done. */
void exchange_finish(struct exchange *x);
void exchange_reap(struct exchange *x, bool engine_ended);

#endif
