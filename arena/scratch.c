/* arena/scratch.c - push, mark, rewind. */
#include "arena/scratch.h"

#include "arena/inside.h"

enum { SCRATCH_ALIGN = 256 };

enum err arena_scratch_push(u32 arena, u64 bytes, u8 **out)
{
    enum err err = arena_inside_push(arena, ARENA_SCRATCH, "a scratch piece", bytes, SCRATCH_ALIGN,
                                     out);
    return err == ERR_FULL ? fail(ERR_MEMORY, "arena %s: the range has no %llu bytes left",
                                  arena_row(arena)->name, (ull)bytes) : err;
}

u64 arena_scratch_mark(u32 arena)
{
    return arena_inside_top(arena);
}

void arena_scratch_rewind(u32 arena, u64 mark)
{
    arena_inside_rewind(arena, mark);
}
