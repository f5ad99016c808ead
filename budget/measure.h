/* budget/measure.h - free memory as the kernel tells it, and what this process really holds.
 *
 * Free for the board: min(MemAvailable, memory.max - memory.current + file pages of memory.stat)
 * less the mapped weight pages that must stay.  The control group's figures are those of cgroup v2,
 * the tightest of the process's group and its parents.  Replaceable by tests. */
#ifndef BUDGET_MEASURE_H
#define BUDGET_MEASURE_H

#include "arena/base/err.h"

struct budget_measured {
    u64 available_bytes;                /* MemAvailable; UINT64_MAX when /proc says nothing      */
    u64 group_bytes;                    /* what the control group leaves; UINT64_MAX = no limit  */
    u64 total_bytes;                    /* min(MemTotal, memory.max)                             */
    u64 free_bytes;                     /* min of the first two, less mapped_bytes               */
};

/* Reads /proc and /sys (about 0.1 ms): outside of every plan. */
void budget_measure(u64 mapped_bytes, struct budget_measured *out);

/* Tests and the simulator: free and total from now on; UINT64_MAX both = measure again. */
void budget_measure_fix(u64 free_bytes, u64 total_bytes);
/* Tests: folder that stands for "/" (with proc/meminfo, proc/self/cgroup, sys/fs/cgroup/...). */
void budget_measure_root(const char *folder);

struct budget_process {                 /* /proc/self/smaps by owner of the mapping              */
    u64 rss_bytes;
    u64 arena_bytes;                    /* resident in ranges of our arenas                      */
    u64 file_bytes;                     /* resident pages of mapped *.safetensors and *.gguf     */
    u64 other_bytes;                    /* binary, libraries, stacks, libc's heap: unexplained   */
};
/* All 0 when /proc can't be read. */
void budget_measure_process(struct budget_process *out);

#endif
