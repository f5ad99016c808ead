/* model/cpu/threads.h - the pool of compute threads: spin shortly, then sleep on a futex.
 *
 * A job is `task_count` calls of one function; any thread, the caller included, takes the next
 * task.  A task owns its outputs, so who ran it and in which order changes no bit.  Every thread
 * that runs tasks has FTZ and DAZ set (the caller during the job).  One job at a time, from one
 * thread: the engine's.  Owns the threads and one job row; allocates nothing. */
#ifndef MODEL_CPU_THREADS_H
#define MODEL_CPU_THREADS_H

#include "arena/base/err.h"

enum { THREADS_CAP = 64 };

/* `worker` < threads_count() names the thread within the job: an index into its work memory. */
typedef void threads_fn(const void *owner, u32 task, u32 worker);

/* Starts `count` - 1 threads beside the caller's; count 1..THREADS_CAP.  ERR_LIMIT, or ERR_MEMORY
 * when the system gives no more threads (none of them is left then). */
MUST_USE enum err threads_open(u32 count);
void threads_close(void);
u32  threads_count(void);

/* Returns when all tasks are done.  Tasks of a job must not run a job.  `work` is roughly how many
 * fused steps the job has: below THREADS_WORK_LEAST the caller does them alone, since waking a
 * thread (and on a busy machine waiting for it) costs more. */
enum { THREADS_WORK_LEAST = 128 * 1024 };
void threads_run(threads_fn *fn, const void *owner, u32 task_count, u64 work);

#endif
