/* model/logprob.h - log-probabilities of one row of logits: what the model said, before penalties,
 * temperature and cuts.  Pure; asked for by few requests and reaching no row (models.md 15 "log").
 *
 * log p_i = (l_i - max) - log(sum of exp(l_j - max)), the sum left to right over ids below
 * `candidates` in double; NaN logits count as impossible. */
#ifndef MODEL_LOGPROB_H
#define MODEL_LOGPROB_H

#include "arena/base/base.h"

enum { LOGPROB_TOP = 20 };

/* Not finite: no number (an impossible id, or a row of NaN). */
struct logprob_row {
    f32 chosen;                         /* of the id that was given                           */
    u32 top_count;
    u32 top_id[LOGPROB_TOP];            /* falling logit, ties to the lower id                */
    f32 top[LOGPROB_TOP];
};

/* Fills `out` for `id`, with the `top_count` <= LOGPROB_TOP most likely ids (fewer when there are
 * fewer).  `id` may be padding: its number is then -inf.  `logits` [>= candidates]. */
void logprob_of(const f32 *logits, u32 candidates, u32 id, u32 top_count,
                struct logprob_row *out);

#endif
