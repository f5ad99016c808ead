/* model/sample.h - one row of logits -> one token id, a pure function of (logits, settings, ids so
 * far, index).  Orders: models.md 15 "Sampler"; randomness: rng_f32(seed, index of the generated
 * token), so drafts, retries and restarts don't change it. */
#ifndef MODEL_SAMPLE_H
#define MODEL_SAMPLE_H

#include "arena/base/err.h"

struct sample_settings {
    f32 temperature;            /* <= 0: greedy                                               */
    f32 top_p;                  /* 1: off                                                     */
    f32 min_p;                  /* 0: off                                                     */
    f32 repetition_penalty;     /* 1: off; counts served ids (prompt and generated)           */
    f32 presence_penalty;       /* 0: off; over generated ids                                 */
    f32 frequency_penalty;      /* 0: off; over generated ids                                 */
    u32 top_k;                  /* 0: off                                                     */
    u32 reserved;
    u64 seed;
};

struct sample_input {
    f32       *logits;          /* [vocab], changed in place (penalties)                      */
    u32        vocab;           /* rows of the matrix                                         */
    u32        candidates;      /* ids >= this are padding, never chosen                      */
    const u32 *ids;             /* served ids: prompt, then generated                         */
    u64        prompt_count;
    u64        generated_count; /* index of the token to choose                               */
};

/* `work`: 8 * vocab bytes of the caller's scratch.  Ties go to the lower id. */
u32 sample_row(const struct sample_settings *s, const struct sample_input *in, void *work);

#endif
