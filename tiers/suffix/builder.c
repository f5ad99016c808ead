/* tiers/suffix/builder.c - one job, two rings, a thread. */
#include "tiers/suffix/builder.h"

#include "arena/base/clock.h"
#include "arena/heap.h"
#include "tiers/suffix/array.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { CELLS = 2, JOB = 0, POLL_US = 60000000, NICE = 10 };

static struct {
    struct builder_job job;
    struct ring todo, done;
    struct ring_cell todo_cell[CELLS], done_cell[CELLS];
    struct ring_wake wake;              /* the thread sleeps here                             */
    _Atomic bool stop;
    pthread_t thread;
    bool runs, busy;
} own;

bool builder_step(void)
{
    u32 index;
    if (!ring_pop(&own.todo, &index)) return false;
    u64 from_us = clock_us();
    own.job.err = array_build(own.job.words, own.job.count, own.job.work, own.job.out,
                              &own.job.places);
    own.job.us = clock_us() - from_us;
    bool pushed = ring_push(&own.done, index);
    ASSERT(pushed);                     /* one job, two cells                                 */
    return true;
}

static void *run(void *nothing)
{
    (void)nothing;
    arena_heap_bind();                  /* the library's bucket tables are the heap's         */
    if (nice(NICE) == -1) (void)0;      /* refused: the same work at the usual priority       */
    while (!atomic_load(&own.stop)) {
        u32 seen = ring_word(&own.wake);
        while (builder_step()) continue;
        if (!atomic_load(&own.stop)) ring_wait(&own.wake, seen, clock_us() + POLL_US);
    }
    return NULL;
}

enum err builder_open(struct ring_wake *wake, bool thread)
{
    memset(&own, 0, sizeof own);
    own.wake.event_fd = -1;
    ring_open(&own.todo, own.todo_cell, CELLS, &own.wake);
    ring_open(&own.done, own.done_cell, CELLS, wake);
    own.runs = thread && pthread_create(&own.thread, NULL, run, NULL) == 0;
    return own.runs == thread ? OK : fail(ERR_IO, "the builder thread can't be started");
}

void builder_close(void)
{
    if (own.runs) {
        atomic_store(&own.stop, true);
        ring_wake_ring(&own.wake);
        pthread_join(own.thread, NULL);
    }
    own.runs = own.busy = false;
}

bool builder_submit(const struct builder_job *job)
{
    if (own.busy) return false;
    own.job = *job;
    own.busy = true;
    bool pushed = ring_push(&own.todo, JOB);
    ASSERT(pushed);
    return true;
}

bool builder_busy(void) { return own.busy; }

bool builder_done(struct builder_job *out)
{
    u32 index;
    if (!own.busy || !ring_pop(&own.done, &index)) return false;
    *out = own.job;
    own.busy = false;
    return true;
}
