/* arena/extents.c - handles over runs of granules. */
#include "arena/extents.h"

#include "arena/inside.h"

/* The run of a live handle, or NULL. */
static const struct run_row *run_of(u32 arena, extent_id extent)
{
    const struct runs *runs = arena_inside_runs(arena);
    if (extent.index >= runs->row_fresh) return NULL;
    const struct run_row *row = &runs->row[extent.index];
    return row->generation == extent.generation && row->generation % 2 == 1 ? row : NULL;
}

enum err arena_extents_take(u32 arena, u64 bytes, extent_id *out)
{
    u32 run = NONE;
    TRY(arena_inside_run_take(arena, bytes, &run));
    *out = (extent_id){ run, arena_inside_runs(arena)->row[run].generation };
    return OK;
}

void arena_extents_free(u32 arena, extent_id extent)
{
    ASSERT(run_of(arena, extent) != NULL);
    arena_inside_run_give(arena, extent.index);
}

enum err arena_extents_grow(u32 arena, extent_id *extent, u64 bytes)
{
    ASSERT(run_of(arena, *extent) != NULL);
    enum err err = arena_inside_run_grow(arena, extent->index, bytes);
    if (err != ERR_FULL) return err;
    extent_id larger = { NONE, 0 };                     /* not in place: move                 */
    TRY(arena_extents_take(arena, bytes, &larger));
    const struct space_ops *ops = arena_inside_ops(arena);
    err = ops->copy(arena_extents_addr(arena, larger), arena_extents_addr(arena, *extent),
                    arena_extents_bytes(arena, *extent), 1);
    if (err == OK) err = ops->wait(ops->fence(1));
    if (err != OK) {
        arena_extents_free(arena, larger);
        return err;
    }
    arena_extents_free(arena, *extent);
    *extent = larger;
    return OK;
}

u8 *arena_extents_addr(u32 arena, extent_id extent)
{
    const struct run_row *run = run_of(arena, extent);
    ASSERT(run != NULL);
    return arena_row(arena)->base + run->first * arena_inside_ops(arena)->granule_bytes;
}

u64 arena_extents_bytes(u32 arena, extent_id extent)
{
    const struct run_row *run = run_of(arena, extent);
    ASSERT(run != NULL);
    return run->count * arena_inside_ops(arena)->granule_bytes;
}

bool arena_extents_valid(u32 arena, extent_id extent)
{
    return run_of(arena, extent) != NULL;
}
