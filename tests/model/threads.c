/* tests/model/threads.c - the pool: every task once, flushing on, the caller's mode restored. */
#include "tests/test.h"

#include <stdatomic.h>

#include "model/cpu/threads.h"

enum { TASKS = 500 };
static _Atomic u32 runs[TASKS];
static _Atomic u32 bad_worker, kept_subnormal;

static void count_task(const void *owner, u32 task, u32 worker)
{
    volatile f32 tiny = 1e-38f;
    atomic_fetch_add(&runs[task], 1);
    if (worker >= *(const u32 *)owner) atomic_store(&bad_worker, 1);
    if (tiny * 0.01f != 0.0f) atomic_store(&kept_subnormal, 1);
}

TEST(every_task_of_a_job_runs_once_and_flushes_subnormals)
{
    static const u32 counts[] = { 1, 2, 5 };
    for (u32 i = 0; i < COUNT_OF(counts); i++) {
        CHECK_OK(threads_open(counts[i]));
        CHECK_EQ(threads_count(), counts[i]);
        for (u32 round = 0; round < 200; round++) {
            u32 tasks = round * 7 % TASKS;
            for (u32 t = 0; t < TASKS; t++) atomic_store(&runs[t], 0);
            threads_run(count_task, &counts[i], tasks, THREADS_WORK_LEAST);
            for (u32 t = 0; t < TASKS; t++) CHECK_EQ(runs[t], t < tasks ? 1 : 0);
        }
        threads_close();
    }
    CHECK(!bad_worker);
    CHECK(!kept_subnormal);
    volatile f32 tiny = 1e-38f;
    CHECK(tiny * 0.01f != 0.0f);
}

/* A worker late from one job must not take a task of the next: with more tasks in the next job it
 * once ran a task too many, and the caller waited for ever. */
TEST(jobs_of_growing_length_in_quick_succession_end_and_run_each_task_once)
{
    static const u32 count = 4;
    CHECK_OK(threads_open(count));
    for (u32 t = 0; t < TASKS; t++) atomic_store(&runs[t], 0);
    const u32 rounds = 60000;
    for (u32 round = 0; round < rounds; round++)
        threads_run(count_task, &count, 2 + round % 7, THREADS_WORK_LEAST);
    threads_close();
    for (u32 t = 0; t < 8; t++) {
        u32 want = 0;
        for (u32 length = 2; length < 9; length++)
            if (t < length) want += rounds / 7 + (length - 2 < rounds % 7 ? 1 : 0);
        CHECK_EQ(runs[t], want);
    }
}

TEST(too_many_threads_are_refused_by_name)
{
    CHECK(threads_open(0) == ERR_LIMIT);
    CHECK(threads_open(THREADS_CAP + 1) == ERR_LIMIT);
    CHECK_EQ(threads_count(), 1);
}
