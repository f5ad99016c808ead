/* http/turn/stop.h - where a generation ends by its text: stop strings as bytes over the piece
 * table, searched in content only (not in reasoning, not in calls).  Pure.
 *
 * The engine thread and the HTTP thread run the same function over the same ids, so both cut at the
 * same byte: the engine ends the turn at the completing id, the HTTP side sends the text before. */
#ifndef TURN_STOP_H
#define TURN_STOP_H

#include "arena/base/vocab.h"
#include "http/turn/turn.h"

enum stop_phase { STOP_CONTENT, STOP_REASONING, STOP_CALL };
struct stop_state {                 /* zero is valid only through stop_start                  */
    u32 phase;                      /* enum stop_phase                                        */
    u32 tail_bytes;                 /* content bytes kept, a possible beginning of a stop     */
    u8  tail[TURN_STOP_BYTES];
};

/* The piece table that stop_feed reads, for all threads; set once before the first turn and kept by
 * its owner.  Without one no stop string is ever found. */
void stop_vocab(const struct vocab *vocab);
const struct vocab *stop_pieces(void);          /* that table, or NULL                        */

void stop_start(struct stop_state *s, const struct submit_row *row);

/* Feeds one generated id.  True when a stop string is complete with it: then *cut_out is how many
 * of the id's own bytes stand before the stop text begins (0 when it began in an earlier id), and
 * *back_out how many bytes of content already fed belong to the stop text. */
bool stop_feed(struct stop_state *s, const struct submit_row *row, u32 id, u32 *cut_out,
               u32 *back_out);

/* Bytes at the end of the content fed so far that may yet become a stop string (to hold back). */
u32 stop_held(const struct stop_state *s);

#endif
