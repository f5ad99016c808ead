/* http/serve/sse.h - a turn seen from its connection: ids taken, headers held, comments, the end.
 *
 * Rules of http.md 3: a stream's headers wait until the turn is admitted or keepalive_us have
 * passed; while nothing is sent a comment goes out at least that often. */
#ifndef SERVE_SSE_H
#define SERVE_SSE_H

#include "http/serve/exchange.h"

/* Moves ids of the turn into the reply and notices its end: a finished reply, or x->refusal with
 * nothing appended.  True when the turn is done. */
bool sse_take(struct exchange *x);

/* Of a stream whose headers are not out: may they go now? */
bool sse_may_open(const struct exchange *x, u64 now_us);

/* What a comment says of a waiting turn; pure but for the averages of admin/stats. */
struct sse_view {
    u32 state;                          /* enum submit_state                                     */
    u32 place, queued, slots;
    u64 rows, prompt_rows;              /* in place; of the whole prompt                         */
    u64 rows_since, since_us;           /* rows forwarded while watched, and for how long        */
    u64 turn_us;                        /* running average of a turn; 0: none yet                */
};
void sse_comment_text(const struct sse_view *v, char *out, u64 cap);
void sse_comment(struct exchange *x, u64 now_us);

void sse_keepalive(u64 keepalive_us);   /* the server's setting, before it listens               */
/* Sets due_us after bytes left or a wait began. */
void sse_rearm(struct exchange *x, u64 now_us);

#endif
