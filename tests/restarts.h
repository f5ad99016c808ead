/* tests/restarts.h - a micro engine with NVMe tiers in a folder of its own, over restarts.  Header
 * alone: a test includes it once. */
#ifndef TESTS_RESTARTS_H
#define TESTS_RESTARTS_H

#include "tests/micro.h"

#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-function"

enum { G = 32, NEVER = 0x7fffffff };

static char folder[64];
static struct micro_setup setup;
static struct micro_ask ask, again;

static void up(const char *dir)
{
    setup.cache_dir = dir;
    micro_open(&setup);
    CHECK(nvme_on());
}

static void first_up(const struct micro_setup *with)
{
    snprintf(folder, sizeof folder, "%s/holdfast-turns-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(folder) != NULL);
    setup = *with;
    if (setup.journal_idle_us == 0) setup.journal_idle_us = (u64)NEVER * 1000000;
    up(folder);
}

/* SIGTERM: running turns end, conversations are written. */
static void stop(void)
{
    engine_stop();
    while (engine_pass()) continue;
    micro_close();
}

static void restart(void)
{
    stop();
    up(folder);
}

static void last_down(void)
{
    struct file_list list;
    char path[FILE_PATH_BYTES];
    struct file_stat stat;
    micro_close();
    CHECK_OK(file_list_open(folder, &list));
    while (file_list_next(&list)) {
        CHECK_OK(file_join(folder, list.name, path));
        CHECK_OK(file_stat(path, &stat));
        CHECK_OK(stat.folder ? file_remove_folder(path) : file_remove(path));
    }
    file_list_close(&list);
    CHECK(rmdir(folder) == 0);
}

static void settle(void)
{
    do engine_pass();
    while (engine_moved());
}

#endif
