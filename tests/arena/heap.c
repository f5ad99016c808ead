/* tests/arena/heap.c - the heap: bounded, counted, NULL above its cap, whoever calls malloc. */
#include "tests/test.h"

#include "arena/heap.h"
#include "arena/space.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct arena_decl decl = {
    .name = "heap", .space = SPACE_HOST, .kind = ARENA_HEAP, .cap_bytes = 32 * MIB,
    .reserve_bytes = 4 * MIB,
};

static void open_heap(void)
{
    CHECK_OK(arena_open(&decl, 1));
    CHECK_OK(arena_heap_open(0));
}

static void close_heap(void)
{
    arena_check();
    arena_heap_close();
    arena_close();
}

TEST(before_it_is_open_the_names_mean_malloc)
{
    char *at = arena_heap_alloc(10);
    CHECK(at != NULL);
    memcpy(at, "012345678", 10);
    at = arena_heap_grow(at, 100000);
    CHECK(at != NULL && memcmp(at, "012345678", 10) == 0);
    open_heap();
    arena_heap_free(at);                                /* and may be freed after             */
    struct heap_stats stats;
    arena_heap_stats(&stats);
    CHECK(stats.committed_bytes >= 4 * MIB);
    close_heap();
}

TEST(the_first_small_allocation_stays_within_the_reserve)
{
    open_heap();
    u64 before = arena_row(0)->committed_bytes;
    CHECK_EQ(before, 4 * MIB);
    void *at = arena_heap_alloc(100);
    CHECK(at != NULL);
    printf("after 100 bytes: committed %llu KiB, in use %llu KiB\n",
           (ull)(arena_row(0)->committed_bytes / KIB), (ull)(arena_row(0)->used_bytes / KIB));
    CHECK(arena_row(0)->used_bytes >= 100);
    CHECK_EQ(arena_row(0)->committed_bytes, before);
    arena_check();
    arena_heap_free(at);
    close_heap();
}

TEST(above_the_cap_there_is_null_and_below_it_memory_again)
{
    enum { PIECES = 600, PIECE_BYTES = 64 * 1024 };
    static char *piece[PIECES];
    open_heap();
    u32 count = 0;
    while (count < PIECES && (piece[count] = arena_heap_alloc(PIECE_BYTES)) != NULL) {
        memset(piece[count], (int)count, PIECE_BYTES);
        count++;
    }
    printf("%u pieces of 64 KiB under a cap of 32 MiB; committed %llu KiB\n", count,
           (ull)(arena_row(0)->committed_bytes / KIB));
    CHECK(count > PIECES / 2 && count <= 512);
    CHECK(arena_row(0)->committed_bytes <= 32 * MIB);
    CHECK(arena_heap_alloc(16 * MIB) == NULL);
    CHECK(arena_heap_grow(piece[0], 16 * MIB) == NULL);
    CHECK(arena_heap_alloc(UINT64_MAX) == NULL);
    for (u32 i = 0; i < count; i++)
        CHECK(piece[i][0] == (char)i && piece[i][PIECE_BYTES - 1] == (char)i);
    arena_check();
    for (u32 i = 0; i < count; i++) arena_heap_free(piece[i]);
    for (u32 i = 0; i < 20; i++) {                      /* reused, not leaked                 */
        char *large = arena_heap_alloc(16 * MIB);
        CHECK(large != NULL);
        large[16 * MIB - 1] = 1;
        arena_heap_free(large);
    }
    arena_check();
    close_heap();
}

#ifndef HOLDFAST_NO_JEMALLOC
enum { CROSS = 2000 };
static void *volatile crossing[CROSS];

static void *bound_thread(void *arg)
{
    arena_heap_bind();
    for (u32 i = 0; i < CROSS; i++) {                   /* as a library would                 */
        crossing[i] = malloc(1000 + i);
        if (crossing[i] == NULL) return NULL;
        memset(crossing[i], 1, 1000 + i);
    }
    void *above = malloc(64 * MIB);                     /* refused; the thread lives          */
    return above == NULL ? arg : NULL;
}

TEST(a_plain_malloc_of_a_bound_thread_is_counted_and_may_be_freed_elsewhere)
{
    open_heap();
    u64 before = arena_row(0)->used_bytes;
    pthread_t thread;
    void *result = NULL;
    u32 alive;
    CHECK(pthread_create(&thread, NULL, bound_thread, &alive) == 0);
    pthread_join(thread, &result);
    CHECK(result == &alive);
    struct heap_stats stats;
    arena_heap_stats(&stats);
    printf("2,000 mallocs of 1 to 3 kB: %llu KiB allocated, %llu KiB in use\n",
           (ull)(stats.allocated_bytes / KIB),
           (ull)((arena_row(0)->used_bytes - before) / KIB));
    CHECK(arena_row(0)->used_bytes - before >= CROSS * 1000);
    CHECK(arena_row(0)->ungated_count > 0);
    CHECK(stats.allocated_bytes >= CROSS * 2000 && stats.active_bytes >= stats.allocated_bytes);
    CHECK(arena_row(0)->used_bytes <= arena_row(0)->committed_bytes);
    for (u32 i = 0; i < CROSS; i++) free(crossing[i]);
    arena_heap_stats(&stats);
    CHECK(stats.allocated_bytes < 100 * KIB + CROSS * 100);
    arena_check();
    close_heap();
}

TEST(bytes_still_held_when_the_heap_closes_stay_good_and_can_be_freed_later)
{
    for (u32 round = 0; round < 3; round++) {
        open_heap();
        arena_heap_bind();
        char *volatile kept = malloc(100), *volatile large = malloc(MIB);
        CHECK(kept != NULL && large != NULL);
        memset(kept, 1, 100);
        memset(large, 2, MIB);
        close_heap();
        CHECK(kept[99] == 1 && large[MIB - 1] == 2);
        char *volatile after = malloc(100);             /* from elsewhere                     */
        memset(after, 3, 100);
        free(large);
        free(kept);
        free(after);
        CHECK_EQ(arena_count(), 0);
    }
}

TEST(an_unbound_thread_is_not_counted)
{
    open_heap();
    u64 before = arena_row(0)->used_bytes;
    void *volatile at = malloc(3 * MIB);
    CHECK(at != NULL);
    CHECK_EQ(arena_row(0)->used_bytes, before);
    free(at);
    close_heap();
}

/* One malloc of a bound thread.  jemalloc answers a refused commit with other addresses or NULL. */
static void *one_malloc(void *arg)
{
    arena_heap_bind();
    char *volatile large = malloc(4 * MIB);
    if (large == NULL) return NULL;
    memset(large, 1, 4 * MIB);                          /* it is there, every page            */
    free(large);
    return arg;
}

TEST(refused_commits_leave_memory_that_is_there_and_counts_that_stand)
{
    u32 fired = 0, refused = 0;
    for (u32 n = 1;; n++) {                             /* ends when no fault fires           */
        CHECK(n < 200);
        open_heap();
        pthread_t thread;
        void *result = NULL;
        u32 alive;
        space_host_fail_commit(n);
        CHECK(pthread_create(&thread, NULL, one_malloc, &alive) == 0);
        pthread_join(thread, &result);
        bool ended = space_host_fail_left() != 0;
        space_host_fail_commit(0);
        arena_check();
        CHECK(arena_row(0)->committed_bytes <= 32 * MIB);
        close_heap();
        refused += result == NULL;
        CHECK(result != NULL || !ended);
        if (ended) break;
        fired++;
    }
    printf("%u commits refused, %u mallocs NULL\n", fired, refused);
    CHECK(fired > 10);
}

TEST(our_own_alloc_tries_once_more_after_a_purge)
{
    open_heap();
    char *piece = arena_heap_alloc(20 * MIB);           /* free pages stay open for a second  */
    CHECK(piece != NULL);
    arena_heap_free(piece);
    space_host_fail_commit(1);
    piece = arena_heap_alloc(24 * MIB);
    CHECK(piece != NULL && space_host_fail_left() == 0);
    arena_heap_free(piece);
    close_heap();
}
#endif

/* Opens and closes pages each time: what the cap refuses makes the heap close its free ones. */
static void *take_and_give(void *stop)
{
    arena_heap_bind();
    while (!atomic_load((_Atomic bool *)stop)) {        /* until the test has checked enough  */
        char *piece = arena_heap_alloc(3 * MIB);
        if (piece != NULL) memset(piece, 1, 4096);
        arena_heap_free(piece);
        arena_heap_free(arena_heap_alloc(64 * MIB));
    }
    return NULL;
}

TEST(the_identity_holds_whenever_it_is_looked_at_while_other_threads_allocate)
{
    static _Atomic bool stop;
    pthread_t thread[2];
    open_heap();
    atomic_store(&stop, false);
    for (u32 i = 0; i < 2; i++)
        CHECK(pthread_create(&thread[i], NULL, take_and_give, &stop) == 0);
    u32 wrong = 0;
    for (u32 i = 0; i < 20000; i++) {
        arena_check();
        const struct arena_row *row = arena_row(0);
        wrong += row->committed_bytes != row->used_bytes + arena_free_bytes(0);
    }
    atomic_store(&stop, true);
    for (u32 i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    CHECK_EQ(wrong, 0);
    close_heap();
}
