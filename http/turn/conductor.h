/* http/turn/conductor.h - ids that are not the model's choice: a note in a think block that has
 * used a part of its budget, and the phrase that closes it when all is used (chat.md 6, tiers.md
 * 7).  The client never sees either.
 *
 * Pure functions of a turn's ids so far, folded into a few counters.  The note is `note_ids` of the
 * submit row, hidden as a whole, given once.  The phrase is `close_ids`: its first `close_hidden`
 * ids are a hidden span, the rest (</think> and blanks) is pushed out like any id.  A turn is
 * closed once. */
#ifndef TURN_CONDUCTOR_H
#define TURN_CONDUCTOR_H

#include "http/turn/turn.h"

enum conductor_kind {               /* whose choice an id is                                  */
    CONDUCTOR_MODEL, CONDUCTOR_NOTE, CONDUCTOR_PHRASE, CONDUCTOR_CLOSE,
};

struct conductor_state {            /* zero at the start of a turn                            */
    u64 reasoning;                  /* ids of the model inside its think blocks               */
    u32 noted;                      /* ids of the note given so far                           */
    u32 closing;                    /* ids of the phrase given so far                         */
};

/* Whose choice the next id is; *id_out is set unless it is the model's.  The client sees no note
 * and no phrase.  `phase`: enum stop_phase of the ids so far. */
enum conductor_kind conductor_next(const struct conductor_state *s, const struct submit_row *row,
                                   u32 phase, u32 *id_out);

/* An id was given while in `phase`, by choice of `kind`. */
void conductor_fed(struct conductor_state *s, u32 phase, enum conductor_kind kind);

/* --test-hooks: where a forced answer goes on, from `at`, once its block was closed: behind its own
 * </think> and the blanks after it; at `at` when it has none. */
u64 conductor_resume(const struct submit_row *row, u64 at);

#endif
