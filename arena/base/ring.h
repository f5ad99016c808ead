/* arena/base/ring.h - a bounded ring of u32 between threads, and the wake word they sleep on.
 *
 * Many producers, many consumers, no lock: threads hand each other indices of table rows.  The
 * cells are the caller's memory and must outlive the ring.  A push rings the wake its ring names;
 * several rings and the signals may share one, so that a thread waits for all of them at once:
 *
 *     for (;;) {
 *         u32 seen = ring_word(&wake);             read the word first,
 *         while (ring_pop(&inbox, &index)) ...     then look at everything it stands for,
 *         ring_wait(&wake, seen, deadline_us);     then sleep: a push in between is not missed
 *     }
 *
 * Algorithm: bounded queue with a sequence number a cell (D. Vyukov, 2010). */
#ifndef BASE_RING_H
#define BASE_RING_H

#include "arena/base/base.h"

#include <stdatomic.h>

struct ring_wake {
    _Atomic u32 word;                   /* counts rings                                       */
    int event_fd;                       /* an eventfd rung too, or -1                         */
};

struct ring_cell { _Atomic u32 turn; u32 value; };

struct ring {
    struct ring_cell *cell;
    struct ring_wake *wake;             /* or NULL                                            */
    u32 mask;                           /* cap - 1                                            */
    _Alignas(64) _Atomic u32 head;      /* next push                                          */
    _Alignas(64) _Atomic u32 tail;      /* next pop                                           */
};

/* An empty ring over `cap` cells (a power of two >= 2).  Before other threads see it. */
void ring_open(struct ring *ring, struct ring_cell *cell, u32 cap, struct ring_wake *wake);

/* False when full / empty: nothing changed then. */
MUST_USE bool ring_push(struct ring *ring, u32 value);
MUST_USE bool ring_pop(struct ring *ring, u32 *out);

/* Values inside, as of some moment during the call. */
u32 ring_count(const struct ring *ring);

/* Bumps the word, wakes every waiter, writes to event_fd when >= 0.  Async-signal-safe. */
void ring_wake_ring(struct ring_wake *wake);
u32  ring_word(const struct ring_wake *wake);

/* Sleeps until the word differs from `seen`, or clock_us() reaches `deadline_us` (UINT64_MAX:
 * never).  True when the word differs; may also return false early (a signal): callers loop. */
bool ring_wait(struct ring_wake *wake, u32 seen, u64 deadline_us);

#endif
