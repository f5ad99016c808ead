/* arena/inside.h - what arena.c lends to the rooms of its kinds; for files of arena/ only.
 *
 * A unit's row (holders first) and label lie in `books`, committed as far as units were ever
 * taken.  Each call either does all of it, commits and counts included, or nothing. */
#ifndef ARENA_INSIDE_H
#define ARENA_INSIDE_H

#include "arena/arena.h"
#include "arena/runs.h"

#include <stdatomic.h>

enum { INSIDE_BLOCK_ROW_BYTES = 48, INSIDE_SLOT_ROW_BYTES = 24 };

/* Blocks, slots: a free unit, its cell committed and counted as used.  ERR_FULL, ERR_MEMORY. */
MUST_USE enum err arena_inside_take(u32 arena, enum arena_kind kind, u32 *unit_out);
void arena_inside_give(u32 arena, u32 unit);
u8  *arena_inside_unit(u32 arena, u32 unit);
u8  *arena_inside_label(u32 arena, u32 unit);
u64  arena_inside_label_bytes(u32 arena);
/* Row of a unit that was taken at least once, else NULL. */
void *arena_inside_row(u32 arena, enum arena_kind kind, u32 unit);
struct holders_bytes *arena_inside_held(u32 arena);
u32  arena_inside_used(u32 arena);

/* Extents: runs of committed granules.  ERR_FULL (no run that long), ERR_MEMORY. */
const struct runs *arena_inside_runs(u32 arena);
MUST_USE enum err arena_inside_run_take(u32 arena, u64 bytes, u32 *run_out);
void arena_inside_run_give(u32 arena, u32 run);
/* ERR_FULL when the run can't grow where it stands (no note is worth reading then). */
MUST_USE enum err arena_inside_run_grow(u32 arena, u32 run, u64 bytes);

/* Table, scratch: the next `bytes` above the top, committed.  ERR_FULL, ERR_MEMORY. */
MUST_USE enum err arena_inside_push(u32 arena, enum arena_kind kind, const char *what, u64 bytes,
                                    u64 align, u8 **out);
u64  arena_inside_top(u32 arena);
void arena_inside_rewind(u32 arena, u64 top);

/* Heap: its counters, written by any thread under heap.c's lock; arena.c copies them into the row
 * when the engine thread looks. */
struct inside_heap {
    _Atomic u64 committed_bytes, used_bytes, high_water_bytes;
    _Atomic u64 commit_count, decommit_count, ungated_count;
};
struct inside_heap *arena_inside_heap(u32 arena);
/* Cap and reserve in whole granules; the range is longer (jemalloc gives no address back).  The
 * book has a zeroed u16 a granule of the range. */
u64  arena_inside_heap_cap(u32 arena);
u64  arena_inside_heap_reserve(u32 arena);
MUST_USE enum err arena_inside_heap_book(u32 arena, u16 **out);
/* arena_close leaves the heap's range in place: somebody still holds bytes of it. */
void arena_inside_heap_keep(u32 arena);
const struct space_ops *arena_inside_ops(u32 arena);
bool arena_inside_gated(void);          /* any thread                                         */

#endif
