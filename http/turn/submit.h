/* http/turn/submit.h - the engine's side of the submit rows; the HTTP side's is turn.h.
 *
 * Owns the rows, the ring of free ones, the inbox and the wake word the engine sleeps on. */
#ifndef TURN_SUBMIT_H
#define TURN_SUBMIT_H

#include "http/turn/turn.h"

u64 submit_table_bytes(u32 rows);
MUST_USE enum err submit_open(u32 table_arena, u32 rows, u32 queue_cap);
/* The word that the inbox, cancels, commands and signals ring. */
struct ring_wake *submit_wake(void);
/* Turns that run at once and so don't count as waiting. */
void submit_running_cap(u32 slots);
/* Pushes give ERR_CANCELLED from now on. */
void submit_close_inbox(void);
/* The next pushed row, or false. */
bool submit_next(u32 *out);
/* The next row given back with the calls of its answer, or false; the engine releases it. */
bool submit_next_memo(u32 *out);
/* One row waits no more; one is done. */
void submit_unqueue(void);
void submit_land(void);

#endif
