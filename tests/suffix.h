/* tests/suffix.h - the suffix store over real arenas, a budget graph and, when asked, a folder.
 *
 * The writer and the builder run without threads unless a test says so: store_settle carries out
 * what is queued.  Header alone: a test includes it once. */
#ifndef TESTS_SUFFIX_H
#define TESTS_SUFFIX_H

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "arena/base/rng.h"
#include "budget/measure.h"
#include "tests/test.h"
#include "tiers/suffix/folder.h"
#include "tiers/suffix/log.h"
#include "tiers/suffix/lookup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef STORE_VOCAB_COUNT
#define STORE_VOCAB_COUNT 5000
#endif
enum { STORE_CTX = 8192, STORE_VOCAB = STORE_VOCAB_COUNT, STORE_DAY = 86400 };

struct store_setup {
    u64 cap_bytes, corpus_bytes;        /* 0: 48 * 64 words, 0                                */
    u64 ctx;                            /* 0: STORE_CTX                                       */
    u64 node_bytes;                     /* cap of node `suffix`; 0: what the arena spans      */
    bool files, thread;
};

static struct store_setup store_set;
static struct budget_graph store_graph;
static struct profile_row store_profile;
static struct fingerprint store_place;
static struct state_shape store_shape;
static struct ring_wake store_wake;
static char store_folder[64];
static u8 store_tokenizer[16] = { 1, 2, 3 };

static __attribute__((unused)) void store_new_folder(void)
{
    snprintf(store_folder, sizeof store_folder, "%s/holdfast-ids-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(store_folder) != NULL);
}

static __attribute__((unused)) void store_remove_folder(void)
{
    char path[FILE_PATH_BYTES];
    struct file_list list;
    struct file_stat stat;
    CHECK_OK(file_list_open(store_folder, &list));
    while (file_list_next(&list)) {
        CHECK_OK(file_join(store_folder, list.name, path));
        CHECK_OK(file_stat(path, &stat));
        if (stat.folder) CHECK_OK(file_remove_folder(path));
        else CHECK_OK(file_remove(path));
    }
    file_list_close(&list);
    CHECK(rmdir(store_folder) == 0);
}

/* The log's own folder. */
static __attribute__((unused)) void store_path(const char *name, char out[FILE_PATH_BYTES])
{
    char folder[FILE_PATH_BYTES];
    CHECK_OK(file_join(store_folder, "ids-01020300000000000000000000000000", folder));
    CHECK_OK(file_join(folder, name, out));
}

static void store_arenas(void)
{
    struct arena_decl decl[4];
    u64 ctx = store_set.ctx;
    u64 bytes = segment_arena_bytes(store_set.cap_bytes, store_set.corpus_bytes);
    store_shape = (struct state_shape){ .block_rows = 4, .grid_rows = 16, .section_count = 1,
                                        .section_bytes = 256, .view_count = 1,
                                        .block_bytes = 4096 };
    store_shape.section[0] = (struct state_section){ .name = "S", .bytes = 256 };
    store_shape.view[0] = (struct state_view){ .name = "K", .planes = 1, .row_bytes = 24,
                                               .strip_bytes = 256 };
    log_level_set(getenv("STORE_LOG") != NULL ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
    space_host_granule(4096);
    budget_measure_fix(64 * GIB, 64 * GIB);
    state_declare(&store_shape, MIB, decl);
    decl[2] = (struct arena_decl){ .name = "tables", .kind = ARENA_TABLE,
        .cap_bytes = MIB + suffix_log_table_bytes(store_set.cap_bytes, 1, ctx) };
    decl[3] = (struct arena_decl){ .name = "suffix", .kind = ARENA_EXTENTS, .cap_bytes = bytes };
    CHECK_OK(arena_open(decl, 4));
    CHECK_OK(state_open(&store_shape));
    profile_defaults(&store_profile);
    CHECK_OK(budget_graph_board(&store_graph, &store_profile));
    CHECK_OK(budget_graph_declare(&store_graph, &(struct budget_decl){
        .name = "tables", .parent = "fixed", .node_class = CLASS_FIXED, .used = USED_ARENA,
        .arena = "tables", .cap_bytes = UINT64_MAX }, NULL));
    CHECK_OK(budget_graph_declare(&store_graph, &(struct budget_decl){
        .name = "kv", .parent = "live", .pool = POOL_BOARD, .node_class = CLASS_LIVE,
        .used = USED_HOLDER, .holder = HOLD_LIVE, .cap_bytes = UINT64_MAX }, NULL));
    CHECK_OK(suffix_log_declare(&store_graph, store_set.cap_bytes,
                                store_set.node_bytes > 0 ? store_set.node_bytes : bytes));
    CHECK_OK(budget_graph_check(&store_graph));
    store_graph.verify = true;
}

static __attribute__((unused)) void store_open(const struct store_setup *setup)
{
    store_set = *setup;
    if (store_set.cap_bytes == 0) store_set.cap_bytes = 48 * 64 * sizeof(u32);
    if (store_set.ctx == 0) store_set.ctx = STORE_CTX;
    store_arenas();
    store_wake.event_fd = -1;
    store_place = (struct fingerprint){ .lock_fd = -1 };
    CHECK_OK(writer_open(&(struct writer_setup){ .table_arena = arena_find("tables"),
        .row_cap = 64, .remove_cap = 64, .place = &store_place, .wake = &store_wake,
        .thread = setup->thread, .day_cap_bytes = UINT64_MAX / 2 }));
    struct suffix_log_setup log = {
        .table_arena = arena_find("tables"), .ctx = store_set.ctx,
        .cap_bytes = store_set.cap_bytes, .vocab = STORE_VOCAB,
        .cache_dir = setup->files ? store_folder : "", .graph = &store_graph,
        .wake = &store_wake, .thread = setup->thread };
    memcpy(log.tokenizer, store_tokenizer, sizeof log.tokenizer);
    CHECK_OK(suffix_log_open(&log));
}

/* The writes that are queued, without a thread. */
static __attribute__((unused)) void store_write(void)
{
    struct writer_answer answer;
    while (writer_step())               /* ends: each round carries a write out               */
        while (writer_done(&answer)) suffix_log_written(&answer);
}

/* Everything that is queued. */
static __attribute__((unused)) void store_settle(void)
{
    store_write();
    while (suffix_log_pass(clock_us())) store_write();  /* ends: each round sorts a segment   */
}

static __attribute__((unused)) void store_close(void)
{
    struct writer_answer answer;
    writer_drain(UINT64_MAX);
    while (writer_done(&answer)) suffix_log_written(&answer);
    segment_check();
    writer_close();
    suffix_log_close();
    CHECK_EQ(arena_row(arena_find("suffix"))->used_bytes, 0);
    arena_check();
    arena_close();
    space_host_granule(0);
    budget_measure_fix(UINT64_MAX, UINT64_MAX);
    log_level_set(LOG_LEVEL_INFO);
}

/* `count` ids of `alphabet` letters drawn by a seed. */
static __attribute__((unused)) void store_draw(u32 *ids, u64 count, u32 alphabet, u64 seed)
{
    for (u64 i = 0; i < count; i++) ids[i] = 7 + (u32)(rng_u64(seed, i) % alphabet);
}

#endif
