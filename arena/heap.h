/* arena/heap.h - the text side's memory: a jemalloc arena whose extents are cut from our range.
 *
 * Threads bound to it draw every malloc (ours, libmicrohttpd's, jansson's) from the arena `heap`:
 * committed to its reserve at open, NULL above its cap.  Any thread may call alloc and free.
 * Sanitizer builds (HOLDFAST_NO_JEMALLOC) use the C library's malloc behind the same names. */
#ifndef ARENA_HEAP_H
#define ARENA_HEAP_H

#include "arena/arena.h"

struct heap_stats { u64 allocated_bytes, active_bytes, mapped_bytes, committed_bytes; };

/* After arena_open; `arena` is of kind ARENA_HEAP.  ERR_MEMORY. */
MUST_USE enum err arena_heap_open(u32 arena);
/* Unbinds the calling thread.  When somebody still holds bytes of the heap (a library's buffer, a
 * thread still bound), its range stays mapped past arena_close, with no more to hand out. */
void arena_heap_close(void);
/* Binds the calling thread: its plain malloc draws on the arena from now on. */
void arena_heap_bind(void);
void arena_heap_stats(struct heap_stats *out);

/* NULL above the cap (callers answer ERR_MEMORY / 503).  Before arena_heap_open, and in sanitizer
 * builds, these are malloc, realloc and free. */
void *arena_heap_alloc(u64 bytes);
void *arena_heap_grow(void *at, u64 bytes);
void  arena_heap_free(void *at);

#endif
