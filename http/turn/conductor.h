/* http/turn/conductor.h - ids that are not the model's choice: a reasoning budget that is used up
 * closes the think block with a phrase the client never sees (chat.md 6).
 *
 * Pure functions of a turn's ids so far, folded into a few counters.  The phrase is `close_ids` of
 * the submit row: its first `close_hidden` ids are a hidden span, the rest (</think> and blanks) is
 * pushed out like any id.  A turn is closed once. */
#ifndef TURN_CONDUCTOR_H
#define TURN_CONDUCTOR_H

#include "http/turn/turn.h"

struct conductor_state {            /* zero at the start of a turn                            */
    u64 reasoning;                  /* ids of the model inside its think blocks               */
    u32 closing;                    /* ids of the phrase given so far                         */
};

/* The id that has to come next, and whether the client sees it; NONE: the model's choice.
 * `phase`: enum stop_phase of the ids so far. */
u32 conductor_next(const struct conductor_state *s, const struct submit_row *row, u32 phase,
                   bool *hidden_out);

/* An id was given while in `phase`; `forced`: it came from conductor_next. */
void conductor_fed(struct conductor_state *s, u32 phase, bool forced);

/* --test-hooks: where a forced answer goes on, from `at`, once its block was closed: behind its own
 * </think> and the blanks after it; at `at` when it has none. */
u64 conductor_resume(const struct submit_row *row, u64 at);

#endif
