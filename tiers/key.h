/* tiers/key.h - key ids: what every tier compares, beside the rows they belong to.
 *
 * The label of a block (arena/blocks.h) is the key ids of its B tokens; its row carries the chained
 * hash of all key ids up to its end once it is full.  A hash is a hint: what decides is the ids.
 * This room owns no table; it is the only one that writes labels and hashes.  A key id is the token
 * id, or for a row of an image 1 << 63 | 63 bits of a digest. */
#ifndef TIERS_KEY_H
#define TIERS_KEY_H

#include "arena/blocks.h"

/* Writes keys of rows [pos, pos + count) into the labels of `list` (blocks of B tokens of arena
 * `blocks`, covering them), and the hash of every block that is full with it; the hash of a block
 * left open is 0.  Labels below `pos` were put before. */
void key_put(u32 blocks, u32 block_rows, const block_id *list, u64 pos, const u64 *keys, u64 count);

/* Length of the common prefix of `keys` [0, count) and the labels of rows [0, rows) of `list`. */
u64 key_common(u32 blocks, u32 block_rows, const block_id *list, u64 rows, const u64 *keys,
               u64 count);

/* The smallest line (multiple of grid) above `pos`. */
u64 key_line(u64 pos, u32 grid_rows);

/* Lines in (lo, hi]. */
u64 key_lines(u64 lo, u64 hi, u32 grid_rows);

#endif
