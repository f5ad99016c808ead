/* arena/heap.c - jemalloc's extents, cut from the heap arena's range; commits counted, capped.
 *
 * jemalloc asks for addresses (alloc hook: the next piece of the range, nothing committed) and
 * opens and closes pages in them (commit, decommit hooks).  Pages are counted a granule: the first
 * commits the granule, the last one closed decommits it, and the cap is held there, so what it
 * reserves ahead costs nothing.  Addresses are never given back (dalloc declined): jemalloc keeps
 * and reuses them; as it never joins pieces of different alloc calls, it is made to ask for all of
 * them at once (one_piece).  Granules of the reserve are committed at open and stay.
 *
 * Hooks run on any thread: `lock` guards what this file owns.  Sanitizer builds have no jemalloc;
 * what arena_heap_alloc hands out is counted there, plain malloc is not. */
#include "arena/heap.h"

#include "arena/inside.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic u32 heap_arena = NONE;   /* index of the arena, NONE while closed              */

static void high_water(struct inside_heap *h)
{
    u64 used = atomic_load(&h->used_bytes);
    if (used > atomic_load(&h->high_water_bytes)) atomic_store(&h->high_water_bytes, used);
}

#ifndef HOLDFAST_NO_JEMALLOC

#include <jemalloc/jemalloc.h>

enum { PAGE_BYTES = 4096 };

static struct {
    pthread_mutex_t lock;
    const struct space_ops *ops;
    struct inside_heap *count;
    u8  *base;
    u64  range_bytes, next_bytes;       /* range; first byte never handed out                 */
    u64  cap_bytes, granule_bytes;
    bool opening;                       /* one_piece: pages open and close in name only       */
    _Atomic bool creating;              /* jemalloc has not told its number of our arena yet  */
    u16 *pages;                         /* pages open in each granule; +1 in the reserve      */
    _Atomic unsigned index;             /* jemalloc's number of our arena                     */
} heap = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local bool bound;

/* ---------------------------------------------------------------- hooks */
/* False for an arena that arena_heap_close left behind: its pages stay as they are. */
static bool live(unsigned arena)
{
    return atomic_load(&heap.creating) ||
           (atomic_load(&heap_arena) != NONE && arena == atomic_load(&heap.index));
}

/* Opens the granule when its first page opens.  False above the cap or when refused. */
static bool open_granule(u64 granule)
{
    u64 committed = atomic_load(&heap.count->committed_bytes);
    if (committed + heap.granule_bytes > heap.cap_bytes) return false;
    u8 *at = heap.base + granule * heap.granule_bytes;
    if (heap.ops->commit(at, heap.granule_bytes) != OK) return false;
    atomic_store(&heap.count->committed_bytes, committed + heap.granule_bytes);
    atomic_fetch_add(&heap.count->commit_count, 1);
    if (!arena_inside_gated()) atomic_fetch_add(&heap.count->ungated_count, 1);
    return true;
}

/* Closes the pages [from, to) of a granule and, with its last page, the granule. */
static void close_pages(u64 granule, u32 count)
{
    ASSERT(heap.pages[granule] >= count);
    heap.pages[granule] = (u16)(heap.pages[granule] - count);
    if (heap.pages[granule] > 0) return;
    heap.ops->decommit(heap.base + granule * heap.granule_bytes, heap.granule_bytes);
    atomic_fetch_sub(&heap.count->committed_bytes, heap.granule_bytes);
    atomic_fetch_add(&heap.count->decommit_count, 1);
}

/* Pages of [at, at + bytes) that lie in `granule`. */
static u32 pages_in(u64 granule, u64 at, u64 bytes)
{
    u64 low = MAX(at, granule * heap.granule_bytes);
    u64 high = MIN(at + bytes, (granule + 1) * heap.granule_bytes);
    return (u32)((high - low) / PAGE_BYTES);
}

/* Opens all pages of [at, at + bytes) of the range, or none; under the lock. */
static bool open_range(u64 at, u64 bytes)
{
    if (heap.opening && bytes >= heap.cap_bytes) return true;
    u64 first = at / heap.granule_bytes, last = (at + bytes - 1) / heap.granule_bytes;
    for (u64 g = first; g <= last; g++) {
        if (heap.pages[g] == 0 && !open_granule(g)) {
            while (g-- > first) close_pages(g, pages_in(g, at, bytes));
            return false;
        }
        heap.pages[g] = (u16)(heap.pages[g] + pages_in(g, at, bytes));
    }
    atomic_fetch_add(&heap.count->used_bytes, bytes);
    high_water(heap.count);
    return true;
}

static void *hook_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t alignment,
                        bool *zero, bool *commit, unsigned arena)
{
    (void)hooks;
    if (!live(arena)) return NULL;
    pthread_mutex_lock(&heap.lock);
    u8 *at = NULL;
    u64 start = ALIGN_UP((uintptr_t)heap.base + heap.next_bytes, MAX(alignment, PAGE_BYTES)) -
                (uintptr_t)heap.base;
    bool fits = start <= heap.range_bytes && size <= heap.range_bytes - start;
    if (fits && (new_addr == NULL || new_addr == heap.base + start) &&
        (!*commit || open_range(start, size))) {
        at = heap.base + start;
        heap.next_bytes = start + size;
        *zero = true;                   /* never handed out before, so never written          */
    }
    pthread_mutex_unlock(&heap.lock);
    return at;
}

static bool hook_dalloc(extent_hooks_t *hooks, void *at, size_t size, bool committed,
                        unsigned arena)
{
    (void)hooks, (void)at, (void)size, (void)committed, (void)arena;
    return true;                        /* declined: jemalloc keeps the addresses             */
}

static void hook_destroy(extent_hooks_t *hooks, void *at, size_t size, bool committed,
                         unsigned arena)
{
    (void)hooks, (void)at, (void)size, (void)committed, (void)arena;
}

static bool hook_commit(extent_hooks_t *hooks, void *at, size_t size, size_t offset, size_t length,
                        unsigned arena)
{
    (void)hooks, (void)size;
    if (!live(arena)) return true;
    pthread_mutex_lock(&heap.lock);
    bool opened = open_range((u64)((u8 *)at - heap.base) + offset, length);
    pthread_mutex_unlock(&heap.lock);
    return !opened;
}

static bool hook_decommit(extent_hooks_t *hooks, void *at, size_t size, size_t offset,
                          size_t length, unsigned arena)
{
    (void)hooks, (void)size;
    if (!live(arena)) return true;
    if (heap.opening && length >= heap.cap_bytes) return false;
    pthread_mutex_lock(&heap.lock);
    u64 start = (u64)((u8 *)at - heap.base) + offset;
    u64 first = start / heap.granule_bytes, last = (start + length - 1) / heap.granule_bytes;
    for (u64 g = first; g <= last; g++) {
        u32 pages = pages_in(g, start, length);
        if (heap.pages[g] > pages)      /* others stay open: these must read as zero again    */
            space_host_purge(heap.base + MAX(start, g * heap.granule_bytes),
                             (u64)pages * PAGE_BYTES);
        close_pages(g, pages);
    }
    atomic_fetch_sub(&heap.count->used_bytes, length);
    pthread_mutex_unlock(&heap.lock);
    return false;
}

static bool hook_purge(extent_hooks_t *hooks, void *at, size_t size, size_t offset, size_t length,
                       unsigned arena)
{
    (void)hooks, (void)size;
    if (!live(arena)) return true;
    if (!heap.opening) space_host_purge((u8 *)at + offset, length);
    return false;
}

static bool hook_split(extent_hooks_t *hooks, void *at, size_t size, size_t size_a, size_t size_b,
                       bool committed, unsigned arena)
{
    (void)hooks, (void)at, (void)size, (void)size_a, (void)size_b, (void)committed, (void)arena;
    return false;                       /* allowed                                            */
}

static bool hook_merge(extent_hooks_t *hooks, void *a, size_t size_a, void *b, size_t size_b,
                       bool committed, unsigned arena)
{
    (void)hooks, (void)a, (void)size_a, (void)b, (void)size_b, (void)committed, (void)arena;
    return false;
}

static extent_hooks_t hooks = {
    .alloc = hook_alloc, .dalloc = hook_dalloc, .destroy = hook_destroy, .commit = hook_commit,
    .decommit = hook_decommit, .purge_forced = hook_purge, .split = hook_split,
    .merge = hook_merge,
};

/* ---------------------------------------------------------------- open and close */
static enum err control(const char *name, const char *leaf, void *value, size_t bytes)
{
    char text[64];
    snprintf(text, sizeof text, name, atomic_load(&heap.index), leaf);
    i32 rc = mallctl(text, NULL, NULL, value, bytes);
    return rc == 0 ? OK : fail(ERR_MEMORY, "jemalloc refuses %s: %s", text, strerror(rc));
}

/* Commits the reserve; its granules count one page more, for ever. */
static enum err open_reserve(u32 arena)
{
    u64 reserve = arena_inside_heap_reserve(arena);
    if (reserve == 0) return OK;
    TRY(heap.ops->commit(heap.base, reserve));
    for (u64 g = 0; g < reserve / heap.granule_bytes; g++) heap.pages[g] = 1;
    atomic_store(&heap.count->committed_bytes, reserve);
    atomic_store(&heap.count->commit_count, 1);
    return OK;
}

/* Takes a block as long as the cap and gives it back, none of it opened: what jemalloc keeps is
 * one run of addresses, in which all later blocks lie and join again when freed. */
static enum err one_piece(void)
{
    heap.opening = true;
    i32 flags = MALLOCX_ARENA(atomic_load(&heap.index)) | MALLOCX_TCACHE_NONE;
    void *all = mallocx(heap.cap_bytes, flags);
    if (all != NULL) dallocx(all, flags);
    enum err err = control("arena.%u.%s", "purge", NULL, 0);
    heap.opening = false;
    return all == NULL ? fail(ERR_MEMORY, "jemalloc refuses %llu bytes of addresses",
                              (ull)heap.cap_bytes) : err;
}

/* Makes jemalloc's arena over our hooks, in one piece. */
static enum err create(void)
{
    extent_hooks_t *ours = &hooks;
    unsigned index = 0;
    size_t bytes = sizeof index;
    atomic_store(&heap.creating, true);
    i32 rc = mallctl("arenas.create", &index, &bytes, &ours, sizeof ours);
    enum err err = rc == 0 ? OK : fail(ERR_MEMORY, "jemalloc refuses an arena: %s", strerror(rc));
    atomic_store(&heap.index, index);
    size_t grow = 2 * MIB;              /* addresses it asks for ahead; else 2, 4, 8, ... MiB */
    ssize_t dirty_ms = 1000, muzzy_ms = 0;              /* free pages are closed after this   */
    if (err == OK) err = control("arena.%u.%s", "retain_grow_limit", &grow, sizeof grow);
    if (err == OK) err = control("arena.%u.%s", "dirty_decay_ms", &dirty_ms, sizeof dirty_ms);
    if (err == OK) err = control("arena.%u.%s", "muzzy_decay_ms", &muzzy_ms, sizeof muzzy_ms);
    if (err == OK) err = one_piece();
    atomic_store(&heap.creating, false);
    return err;
}

enum err arena_heap_open(u32 arena)
{
    ASSERT(atomic_load(&heap_arena) == NONE);
    const struct arena_row *row = arena_row(arena);
    ASSERT(row->kind == ARENA_HEAP && row->space == SPACE_HOST);
    heap.ops = arena_inside_ops(arena);
    heap.count = arena_inside_heap(arena);
    heap.base = row->base;
    heap.range_bytes = row->range_bytes;
    heap.next_bytes = 0;
    heap.cap_bytes = arena_inside_heap_cap(arena);
    heap.granule_bytes = heap.ops->granule_bytes;
    TRY(arena_inside_heap_book(arena, &heap.pages));
    TRY(open_reserve(arena));
    TRY(create());
    atomic_store(&heap_arena, arena);
    return OK;
}

/* Bytes of ours that somebody holds, threads bound included. */
static bool held(void)
{
    struct heap_stats stats;
    char text[64];
    unsigned threads = 0;
    size_t bytes = sizeof threads;
    arena_heap_stats(&stats);
    snprintf(text, sizeof text, "stats.arenas.%u.nthreads", atomic_load(&heap.index));
    return stats.allocated_bytes > 0 || mallctl(text, &threads, &bytes, NULL, 0) != 0 ||
           threads > 0;
}

void arena_heap_close(void)
{
    u32 arena = atomic_load(&heap_arena);
    if (arena == NONE) return;
    unsigned first = 0;
    mallctl("thread.arena", NULL, NULL, &first, sizeof first);
    bound = false;
    mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    if (held() || control("arena.%u.%s", "destroy", NULL, 0) != OK) arena_inside_heap_keep(arena);
    atomic_store(&heap_arena, NONE);
}

void arena_heap_bind(void)
{
    if (atomic_load(&heap_arena) == NONE || bound) return;
    unsigned index = atomic_load(&heap.index);
    i32 rc = mallctl("thread.arena", NULL, NULL, &index, sizeof index);
    ASSERT(rc == 0);
    bound = true;
}

static u64 arena_figure(const char *leaf)
{
    char text[64];
    size_t value = 0, bytes = sizeof value;
    snprintf(text, sizeof text, "stats.arenas.%u.%s", atomic_load(&heap.index), leaf);
    return mallctl(text, &value, &bytes, NULL, 0) == 0 ? value : 0;
}

void arena_heap_stats(struct heap_stats *out)
{
    *out = (struct heap_stats){ 0 };
    if (atomic_load(&heap_arena) == NONE) return;
    u64 epoch = 1;
    size_t bytes = sizeof epoch;
    mallctl("epoch", &epoch, &bytes, &epoch, sizeof epoch);
    out->allocated_bytes = arena_figure("small.allocated") + arena_figure("large.allocated");
    out->active_bytes = arena_figure("pactive") * PAGE_BYTES;
    out->mapped_bytes = arena_figure("mapped");
    out->committed_bytes = atomic_load(&heap.count->committed_bytes);
}

/* ---------------------------------------------------------------- memory */
/* A bound thread's malloc goes to our arena by itself, through its thread cache. */
static i32 flags(void)
{
    return MALLOCX_ARENA(atomic_load(&heap.index)) | MALLOCX_TCACHE_NONE;
}

static bool plain(void)
{
    return bound || atomic_load(&heap_arena) == NONE;
}

/* Closes pages that are free but not closed yet; false when the heap is not open. */
static bool purge(void)
{
    return atomic_load(&heap_arena) != NONE && control("arena.%u.%s", "purge", NULL, 0) == OK;
}

void *arena_heap_alloc(u64 bytes)
{
    bytes = MAX(bytes, 1);
    if (bytes > INT64_MAX) return NULL;
    void *at = plain() ? malloc(bytes) : mallocx(bytes, flags());
    if (at == NULL && purge()) at = plain() ? malloc(bytes) : mallocx(bytes, flags());
    return at;
}

void *arena_heap_grow(void *at, u64 bytes)
{
    if (at == NULL) return arena_heap_alloc(bytes);
    bytes = MAX(bytes, 1);
    if (bytes > INT64_MAX) return NULL;
    void *larger = plain() ? realloc(at, bytes) : rallocx(at, bytes, flags());
    if (larger == NULL && purge())
        larger = plain() ? realloc(at, bytes) : rallocx(at, bytes, flags());
    return larger;
}

void arena_heap_free(void *at)
{
    free(at);
}

#else /* HOLDFAST_NO_JEMALLOC */

#include <malloc.h>

/* Adds `more` and takes off `less` used bytes; false (nothing changed) above the cap. */
static bool count_bytes(u64 more, u64 less)
{
    u32 arena = atomic_load(&heap_arena);
    if (arena == NONE) return true;
    struct inside_heap *h = arena_inside_heap(arena);
    u64 used = atomic_load(&h->used_bytes), after;
    do {                                /* ends: another thread counted, or we did            */
        after = used + more - MIN(less, used + more);
        if (more > less && after > arena_inside_heap_cap(arena)) return false;
    } while (!atomic_compare_exchange_weak(&h->used_bytes, &used, after));
    u64 committed = ALIGN_UP(after, arena_inside_ops(arena)->granule_bytes);
    atomic_store(&h->committed_bytes, MAX(committed, arena_inside_heap_reserve(arena)));
    high_water(h);
    return true;
}

enum err arena_heap_open(u32 arena)
{
    ASSERT(atomic_load(&heap_arena) == NONE && arena_row(arena)->kind == ARENA_HEAP);
    atomic_store(&heap_arena, arena);
    count_bytes(0, 0);
    return OK;
}

void arena_heap_close(void)
{
    atomic_store(&heap_arena, NONE);
}

void arena_heap_bind(void)
{
}

void arena_heap_stats(struct heap_stats *out)
{
    *out = (struct heap_stats){ 0 };
    u32 arena = atomic_load(&heap_arena);
    if (arena == NONE) return;
    struct inside_heap *h = arena_inside_heap(arena);
    out->allocated_bytes = out->active_bytes = atomic_load(&h->used_bytes);
    out->mapped_bytes = out->committed_bytes = atomic_load(&h->committed_bytes);
}

void *arena_heap_alloc(u64 bytes)
{
    if (bytes > INT64_MAX || !count_bytes(MAX(bytes, 1), 0)) return NULL;
    void *at = malloc(MAX(bytes, 1));
    if (at == NULL) count_bytes(0, MAX(bytes, 1));
    else if (malloc_usable_size(at) > MAX(bytes, 1))
        count_bytes(malloc_usable_size(at), MAX(bytes, 1));
    return at;
}

void *arena_heap_grow(void *at, u64 bytes)
{
    void *larger = arena_heap_alloc(bytes);
    if (larger == NULL || at == NULL) return larger;
    memcpy(larger, at, MIN(malloc_usable_size(at), MAX(bytes, 1)));
    arena_heap_free(at);
    return larger;
}

void arena_heap_free(void *at)
{
    if (at != NULL) count_bytes(0, malloc_usable_size(at));
    free(at);
}

#endif
