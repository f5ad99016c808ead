/* http/admin/stats.h - counters of the HTTP side, the running averages the comments use, and the
 * text of /metrics.  Atomics only: any thread. */
#ifndef ADMIN_STATS_H
#define ADMIN_STATS_H

#include "http/turn/turn.h"
#include "arena/base/text.h"

void stats_reset(void);
/* One finished turn: the prompt's tokens, and arrival to end. */
void stats_turn(const struct turn_result *result, u64 prompt_tokens, u64 total_us);
void stats_cancelled(void);             /* a client went away before its end                     */
void stats_status(u32 status);          /* one answer with that status                           */

u64 stats_turn_us(void);                /* running average of a turn; 0: none yet                */
u64 stats_row_us(void);                 /* of one forwarded prompt row, at least 1; 0: none yet  */

/* Prometheus text, prefix holdfast_ (http.md 6). */
void stats_metrics(struct text *out);

#endif
