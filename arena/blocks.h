/* arena/blocks.h - blocks of B tokens: every view's rows of those tokens in one unit.
 *
 * A block is [view][plane][row][row bytes] (the strips' places are model/state's; this room knows
 * unit bytes only), padded to 4,096.  Beside it on the host stands its label: the key ids of its B
 * tokens (8 * B bytes) and, in the row, the chained hash of all key ids up to its end.
 *
 *   frozen    rows below are counted on by a holder other than the appender: never written again
 *   appender  slot that may write rows >= frozen in place, or NONE
 *
 * A slot may write row r of a block iff it is the appender and r >= frozen; else it first copies
 * rows [0, r) to a fresh block (model/slot does, with arena_blocks_owner to ask). */
#ifndef ARENA_BLOCKS_H
#define ARENA_BLOCKS_H

#include "arena/arena.h"

HANDLE(block);

struct block_row {
    struct holders holders;
    u64 hash[2];                        /* of key ids [0, end of its filled rows), or 0       */
    u32 generation;
    u32 frozen;                         /* rows                                               */
    u32 appender;                       /* slot or NONE                                       */
    u32 reserved;
};

/* A free block held once by `class`, label and row zeroed, appender NONE.  From the fullest
 * granule first; commits when there is none.  ERR_MEMORY (commit refused), ERR_FULL (cap). */
MUST_USE enum err arena_blocks_take(u32 arena, enum holder class, block_id *out);
/* One more / one less holder.  ERR-free: a stale handle is an ASSERT.  The last drop frees. */
void arena_blocks_hold(u32 arena, block_id block, enum holder class);
void arena_blocks_drop(u32 arena, block_id block, enum holder class);
/* A holder changes class (recharge): add the new one first, then drop the old one. */
void arena_blocks_recharge(u32 arena, block_id block, enum holder from, enum holder to);
/* True when the handle names a held block of that generation. */
bool arena_blocks_valid(u32 arena, block_id block);
/* Address of the block's bytes in its space / of its row (owner rooms may write frozen, appender,
 * hash) / of its label on the host.  A stale handle is an ASSERT. */
u8 *arena_blocks_addr(u32 arena, block_id block);
struct block_row *arena_blocks_row(u32 arena, block_id block);
void *arena_blocks_label(u32 arena, block_id block);
/* True iff `slot` may write row `row` in place. */
bool arena_blocks_owner(u32 arena, block_id block, u32 slot, u32 row);
/* Held units now. */
u32 arena_blocks_used(u32 arena);

#endif
