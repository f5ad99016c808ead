/* tests/budget/measure.c - free memory from a made-up /proc and /sys, and from the real one. */
#include "budget/measure.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

static void put(const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        mkdir(whole, 0700);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

static void open_root(void)
{
    snprintf(root, sizeof root, "/tmp/holdfast-measure-XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    budget_measure_root(root);
}

static void close_root(void)
{
    char line[128];
    budget_measure_root("");
    snprintf(line, sizeof line, "rm -rf %s", root);
    CHECK(system(line) == 0);
}

TEST(the_tightest_of_machine_group_and_its_parents_counts_with_file_pages_free)
{
    struct budget_measured m;
    open_root();
    put("proc/meminfo", "MemTotal:       16000 kB\nMemFree: 1 kB\nMemAvailable:    9000 kB\n");
    budget_measure(0, &m);
    CHECK_EQ(m.free_bytes, 9000 * 1024);
    CHECK_EQ(m.total_bytes, 16000 * 1024);
    CHECK(m.group_bytes == UINT64_MAX);
    put("proc/self/cgroup", "9:name=systemd:/x\n0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    budget_measure(0, &m);
    CHECK_EQ(m.free_bytes, 9000 * 1024);
    put("sys/fs/cgroup/a/memory.max", "8000000\n");
    put("sys/fs/cgroup/a/memory.current", "5000000\n");
    put("sys/fs/cgroup/a/memory.stat", "anon 7\nactive_file 300000\ninactive_file 700000\n");
    budget_measure(0, &m);
    CHECK_EQ(m.group_bytes, 4000000);
    CHECK_EQ(m.free_bytes, 4000000);
    CHECK_EQ(m.total_bytes, 8000000);
    budget_measure(1000000, &m);                        /* mapped weights stay               */
    CHECK_EQ(m.free_bytes, 3000000);
    budget_measure(5000000, &m);
    CHECK_EQ(m.free_bytes, 0);
    put("sys/fs/cgroup/a/memory.current", "99000000\n");
    budget_measure(0, &m);
    CHECK_EQ(m.free_bytes, 0);
    budget_measure_fix(123, 456);
    budget_measure(0, &m);
    CHECK(m.free_bytes == 123 && m.total_bytes == 456);
    budget_measure_fix(UINT64_MAX, UINT64_MAX);
    close_root();
}

TEST(without_proc_nothing_is_a_limit)
{
    struct budget_measured m;
    open_root();
    budget_measure(0, &m);
    CHECK(m.free_bytes == UINT64_MAX && m.total_bytes == UINT64_MAX);
    close_root();
}

TEST(this_machine_has_memory_and_this_process_some_of_it)
{
    struct budget_measured m;
    struct budget_process p;
    budget_measure(0, &m);
    CHECK(m.free_bytes > 16 * MIB && m.free_bytes <= m.total_bytes);
    budget_measure_process(&p);
    CHECK(p.rss_bytes > 256 * KIB && p.rss_bytes < m.total_bytes);
    CHECK_EQ(p.rss_bytes, p.arena_bytes + p.file_bytes + p.other_bytes);
}
