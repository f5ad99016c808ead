/* arena/scratch.h - a stack with marks: activations and gather buffers of one chunk.
 *
 * Pushes commit what they need the first time (the budget's scratch node is charged); rewinding
 * keeps it committed.  Pieces are 256-byte aligned, content undefined. */
#ifndef ARENA_SCRATCH_H
#define ARENA_SCRATCH_H

#include "arena/arena.h"

/* ERR_MEMORY when the range or a commit ends. */
MUST_USE enum err arena_scratch_push(u32 arena, u64 bytes, u8 **out);
u64  arena_scratch_mark(u32 arena);
void arena_scratch_rewind(u32 arena, u64 mark);

#endif
