/* http/serve/phase.h - is the server loading, ready or draining, and what it says meanwhile.
 *
 * One row of atomics: main and the loader write, HTTP threads read.  http.md 2 and 6. */
#ifndef SERVE_PHASE_H
#define SERVE_PHASE_H

#include "http/chat/model.h"
#include "http/chat/refusal.h"

enum phase { PHASE_WEIGHTS, PHASE_RESTORE, PHASE_WARMUP, PHASE_COUNT };

void phase_open(void);                                  /* loading weights, 0 of 0               */
void phase_loading(enum phase phase, u64 done_bytes, u64 total_bytes);
void phase_ready(const struct chat_model *model);       /* `model` outlives the server           */
void phase_drain(void);                                 /* async-signal-safe                     */

const struct chat_model *phase_model(void);             /* NULL before phase_ready               */
bool phase_draining(void);

/* False: a 503 with Retry-After says loading or draining. */
bool phase_check(struct refusal *r);
/* Body of /health; returns its status. */
u32 phase_health(struct json_out *out);
/* `loading weights: 12 of 54 GiB, about 40 s left`; returns seconds left (0: not known). */
u32 phase_line(char *out, u64 cap);

#endif
