/* arena/extents.h - variable pieces in whole granules: weights, lists, ids of turns.  First fit. */
#ifndef ARENA_EXTENTS_H
#define ARENA_EXTENTS_H

#include "arena/arena.h"

HANDLE(extent);

/* `bytes` rounded up to granules, committed, zeroed.  ERR_MEMORY, ERR_FULL (no run that long). */
MUST_USE enum err arena_extents_take(u32 arena, u64 bytes, extent_id *out);
/* Gives the granules back to the arena (decommitted).  A stale handle is an ASSERT. */
void arena_extents_free(u32 arena, extent_id extent);
/* Grows to at least `bytes`, keeping content; the address may change.  ERR_MEMORY, ERR_FULL. */
MUST_USE enum err arena_extents_grow(u32 arena, extent_id *extent, u64 bytes);
u8 *arena_extents_addr(u32 arena, extent_id extent);
u64 arena_extents_bytes(u32 arena, extent_id extent);       /* as rounded                    */
bool arena_extents_valid(u32 arena, extent_id extent);

#endif
