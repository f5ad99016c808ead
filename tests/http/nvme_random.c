/* tests/http/nvme_random.c - seeded days of a server with NVMe tiers: conversations that grow,
 * branch and repeat, memory cleared, SIGTERM, kills, file calls that fail.  After every turn the
 * slot equals a cold run of its ids, after every start the tables hold. */
#include "tests/micro.h"

#include "arena/base/file_log.h"

#include <unistd.h>

enum { G = 32, TALKS = 4, SEEDS = 12, STEPS = 40, CTX = 512 };

static char folder[64];
static struct micro_setup setup;
static struct micro_ask talk[TALKS];
static u64 sources[SOURCE_COUNT], restarts, kills, faults;

static void check_all(void)
{
    pieces_check();
    budget_graph_verify(&micro.graph);
}

static void up(void)
{
    micro_open(&setup);
    CHECK(nvme_on());
    check_all();
}

/* A turn of one talk: goes on, goes on from an earlier place, or asks the same again. */
static void turn(u64 seed, u64 step)
{
    struct micro_ask *t = &talk[rng_u64(seed, 8 * step) % TALKS];
    u64 kind = rng_u64(seed, 8 * step + 1) % 8, more = 1 + rng_u64(seed, 8 * step + 2) % 50;
    if (t->id_count == 0 || t->id_count + t->out_count + more + 16 > CTX) {
        u64 session = t->session;
        micro_prompt(t, 20 + 3 * more, rng_u64(seed, 8 * step + 3), 1 + more % 7);
        t->session = session == 0 ? seed * 100 + step + 1 : session;
    } else if (kind < 6) {
        if (kind == 5) t->id_count -= rng_u64(seed, 8 * step + 4) % t->id_count / 2;
        micro_continue(t, t, more, rng_u64(seed, 8 * step + 3));
    }
    micro_run(t);
    CHECK(t->result.finish == FINISH_LENGTH || t->result.finish == FINISH_STOP);
    CHECK(t->result.cached < t->id_count);
    sources[t->result.source]++;
    micro_equals_cold(t);
}

static void one_day(u64 seed)
{
    for (u64 step = 0; step < STEPS; step++) {
        u64 what = rng_u64(seed, 8 * step + 5) % 16;
        u32 nth = 1 + (u32)(rng_u64(seed, 8 * step + 6) % 60);
        if (what < 2) {                                 /* SIGTERM                           */
            engine_stop();
            while (engine_pass()) continue;
            micro_close();
            up();
            restarts++;
        } else if (what == 2) {                         /* killed at some call               */
            file_fail_as(nth, FILE_FAULT_KILL);
            turn(seed, step);
            micro_close();
            file_fail(0);
            up();
            kills++;
        } else if (what < 6) {                          /* a file call fails                 */
            file_fail_as(nth, what == 3 ? FILE_FAULT_IO : what == 4 ? FILE_FAULT_FULL
                                                                   : FILE_FAULT_SHORT);
            turn(seed, step);
            faults += file_fail_left() == 0;
            file_fail(0);
        } else if (what == 6) {
            tier_clear(NULL);
        } else if (what == 7) {
            struct forget_counts gone;
            u64 id = talk[rng_u64(seed, 8 * step + 7) % TALKS].session;
            const u64 session[2] = { id, id }, *which = nth % 2 == 0 ? NULL : session;
            nvme_clear(true, true, which, &gone);
            if (which != NULL) tier_clear(which);
        } else {
            turn(seed, step);
        }
        for (u32 i = 0; i < 4; i++) engine_pass();
        check_all();
    }
}

TEST(whatever_happens_to_files_and_memory_every_turn_equals_its_cold_run)
{
    for (u64 seed = 1; seed <= SEEDS; seed++) {
        snprintf(folder, sizeof folder, "%s/holdfast-random-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        CHECK(mkdtemp(folder) != NULL);
        memset(talk, 0, sizeof talk);
        setup = (struct micro_setup){ .slot_count = 1 + (u32)(seed % 2), .ctx = CTX,
            .cache_dir = folder, .journal_idle_us = 1, .park_rows = seed % 3 == 0 ? 400 : 0 };
        up();
        one_day(seed);
        micro_close();
        struct file_list list;
        char path[FILE_PATH_BYTES];
        struct file_stat stat;
        CHECK_OK(file_list_open(folder, &list));
        while (file_list_next(&list)) {
            CHECK_OK(file_join(folder, list.name, path));
            CHECK_OK(file_stat(path, &stat));
            CHECK_OK(stat.folder ? file_remove_folder(path) : file_remove(path));
        }
        file_list_close(&list);
        CHECK(rmdir(folder) == 0);
    }
    printf("restarts %llu kills %llu faults %llu;", (ull)restarts, (ull)kills, (ull)faults);
    for (u32 i = 0; i < SOURCE_COUNT; i++)
        printf(" %s %llu", turn_source_word[i], (ull)sources[i]);
    printf("\n");
    CHECK(sources[SOURCE_SPILL] > 10 && restarts > 10 && kills > 5 && faults > 5);
}
