/* tiers/suffix/builder.h - the thread that sorts closed segments, one at a time.
 *
 * A job is a row of a small table; its index goes to the thread by one ring and comes back by
 * another, which rings the engine's wake word.  Words, work and output are the engine's extents: it
 * holds them until builder_done gave the answer.  The thread runs at a lower priority: a search
 * that comes later costs nothing, a core taken from the kernels does.
 *
 * Engine thread but for the thread itself. */
#ifndef SUFFIX_BUILDER_H
#define SUFFIX_BUILDER_H

#include "arena/base/err.h"
#include "arena/base/ring.h"

struct builder_job {
    u32 owner;                          /* given back with the answer                         */
    const u32 *words; u64 count;        /* records; unchanged until the answer                */
    void *work;                         /* ARRAY_WORK_BYTES * count                           */
    u32 *out;                           /* [count]                                            */
    u64 places;                         /* answer: in `out`                                   */
    u64 us;                             /* answer: how long it took                           */
    enum err err;                       /* answer                                             */
};

/* `thread` false: builder_step does the work (tests).  ERR_IO: no thread. */
MUST_USE enum err builder_open(struct ring_wake *wake, bool thread);
/* Waits for the job under way. */
void builder_close(void);
/* False: one is under way. */
bool builder_submit(const struct builder_job *job);
bool builder_busy(void);
bool builder_done(struct builder_job *out);
bool builder_step(void);                /* without a thread; false: nothing to do             */

#endif
