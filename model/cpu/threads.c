/* model/cpu/threads.c - the pool of compute threads.
 *
 * `ticket` is (job number << 32 | next task).  A thread reads it, then the job's fields, then takes
 * the task by compare-and-swap: that succeeds only while the ticket stands.  The caller rewrites
 * the fields only after all tasks were done and the ticket was closed, so the fields read are the
 * job's; else a thread late from a job of 4 tasks could take a fifth by the next job's count.
 * A slow or descheduled thread delays a job only by the task it holds. */
#include "model/cpu/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    SPIN_WAITER = 1000,                     /* pauses before a thread without work sleeps      */
    SPIN_CALLER = 4000,                     /* the caller waits for a running task: longer     */
    MXCSR_FLUSH = 0x8040,                   /* FTZ | DAZ                                       */
    FPCR_FLUSH = 1 << 24,                   /* FZ                                              */
};

static struct pool {
    pthread_t            thread[THREADS_CAP];
    u32                  count;             /* threads, the caller included                    */
    _Atomic(threads_fn *) fn;
    _Atomic(const void *) owner;
    _Atomic u32          task_count;
    _Atomic u64          ticket;
    _Atomic u32          done;              /* tasks finished; the caller's futex              */
    _Atomic u32          caller_sleeps;
    _Atomic u32          wake;              /* job number; the waiters' futex                  */
    _Atomic u32          sleepers;
    _Atomic u32          stop;
} pool = { .count = 1 };

static void futex_wait(_Atomic u32 *word, u32 value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic u32 *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void pause_once(void)
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sets FTZ and DAZ (ARM: FZ, both in one); returns what was set before. */
static u32 flush_on(void)
{
#if defined(__aarch64__)
    u64 fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | FPCR_FLUSH));
    return (u32)fpcr;
#elif defined(__x86_64__)
    u32 before = _mm_getcsr();
    _mm_setcsr(before | MXCSR_FLUSH);
    return before;
#else
    return 0;
#endif
}

static void flush_restore(u32 before)
{
#if defined(__x86_64__)
    _mm_setcsr(before);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((u64)before));
#else
    (void)before;
#endif
}

/* Runs tasks of job `number` until none is left to take. */
static void take_tasks(u32 number, u32 worker)
{
    for (;;) {                              /* ends: the ticket's task only grows              */
        u64 ticket = atomic_load(&pool.ticket);
        u32 task = (u32)ticket;
        if ((u32)(ticket >> 32) != number) return;
        threads_fn *fn = atomic_load(&pool.fn);
        const void *owner = atomic_load(&pool.owner);
        u32 task_count = atomic_load(&pool.task_count);
        if (task >= task_count) return;
        if (!atomic_compare_exchange_weak(&pool.ticket, &ticket, ticket + 1)) continue;
        fn(owner, task, worker);
        u32 done = atomic_fetch_add(&pool.done, 1) + 1;
        if (done == task_count && atomic_load(&pool.caller_sleeps)) futex_wake(&pool.done, 1);
    }
}

/* Until the wake word is no longer `seen`; returns the new one. */
static u32 wait_for_job(u32 seen)
{
    for (;;) {                              /* ends: threads_close changes the word, too       */
        for (u32 spin = 0; spin < SPIN_WAITER; spin++) {
            u32 now = atomic_load(&pool.wake);
            if (now != seen) return now;
            pause_once();
        }
        atomic_fetch_add(&pool.sleepers, 1);
        futex_wait(&pool.wake, seen);
        atomic_fetch_sub(&pool.sleepers, 1);
    }
}

static void *worker_main(void *argument)
{
    u32 worker = (u32)(uintptr_t)argument;
    u32 seen = 0;
    flush_on();
    while (!atomic_load(&pool.stop)) {
        seen = wait_for_job(seen);
        take_tasks(seen, worker);
    }
    return NULL;
}

static void announce(void)
{
    atomic_fetch_add(&pool.wake, 1);
    if (atomic_load(&pool.sleepers) > 0) futex_wake(&pool.wake, THREADS_CAP);
}

static void join_all(u32 started)
{
    atomic_store(&pool.stop, 1);
    announce();
    for (u32 i = 1; i < started; i++) pthread_join(pool.thread[i], NULL);
    pool.count = 1;
}

enum err threads_open(u32 count)
{
    if (count == 0 || count > THREADS_CAP)
        return fail(ERR_LIMIT, "threads: %u, expected 1 to %u", count, (u32)THREADS_CAP);
    ASSERT(pool.count == 1);
    atomic_store(&pool.stop, 0);
    atomic_store(&pool.wake, 0);
    atomic_store(&pool.ticket, 0);
    atomic_store(&pool.task_count, 0);
    for (u32 i = 1; i < count; i++) {
        int rc = pthread_create(&pool.thread[i], NULL, worker_main, (void *)(uintptr_t)i);
        if (rc != 0) {
            join_all(i);
            return fail(ERR_MEMORY, "threads: thread %u of %u: error %d", i, count, rc);
        }
    }
    pool.count = count;
    return OK;
}

void threads_close(void)
{
    join_all(pool.count);
}

u32 threads_count(void)
{
    return pool.count;
}

static void wait_for_done(u32 task_count)
{
    for (u32 spin = 0; spin < SPIN_CALLER; spin++) {
        if (atomic_load(&pool.done) == task_count) return;
        pause_once();
    }
    atomic_store(&pool.caller_sleeps, 1);
    for (u32 done; (done = atomic_load(&pool.done)) != task_count;) futex_wait(&pool.done, done);
    atomic_store(&pool.caller_sleeps, 0);
}

void threads_run(threads_fn *fn, const void *owner, u32 task_count, u64 work)
{
    u32 before = flush_on();
    if (pool.count == 1 || task_count <= 1 || work < THREADS_WORK_LEAST) {
        for (u32 task = 0; task < task_count; task++) fn(owner, task, 0);
    } else {
        u32 number = atomic_load(&pool.wake) + 1;
        atomic_store(&pool.ticket, (u64)number << 32 | UINT32_MAX);     /* closed: see above   */
        atomic_store(&pool.fn, fn);
        atomic_store(&pool.owner, owner);
        atomic_store(&pool.task_count, task_count);
        atomic_store(&pool.done, 0);
        atomic_store(&pool.ticket, (u64)number << 32);
        announce();
        take_tasks(number, 0);
        wait_for_done(task_count);
    }
    flush_restore(before);
}
