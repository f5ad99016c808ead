/* tiers/key.c - labels and hashes of blocks; comparing ids with them. */
#include "tiers/key.h"

#include "arena/base/hash.h"

#include <string.h>

void key_put(u32 blocks, u32 block_rows, const block_id *list, u64 pos, const u64 *keys, u64 count)
{
    while (count > 0) {
        u64 at = pos / block_rows, row = pos % block_rows;
        u64 n = MIN(count, block_rows - row);
        u64 *label = arena_blocks_label(blocks, list[at]);
        struct block_row *block = arena_blocks_row(blocks, list[at]);
        memcpy(label + row, keys, n * sizeof *keys);
        block->hash[0] = block->hash[1] = 0;
        if (row + n == block_rows) {
            const u64 none[2] = { 0, 0 };
            const u64 *before = at == 0 ? none : arena_blocks_row(blocks, list[at - 1])->hash;
            hash_chain(before, label, block_rows, block->hash);
        }
        pos += n;
        keys += n;
        count -= n;
    }
}

/* Equal ids at the front of two runs. */
static u64 equal_ids(const u64 *a, const u64 *b, u64 count)
{
    if (memcmp(a, b, count * sizeof *a) == 0) return count;
    u64 i = 0;
    while (a[i] == b[i]) i++;       /* ends: the runs differ somewhere */
    return i;
}

u64 key_common(u32 blocks, u32 block_rows, const block_id *list, u64 rows, const u64 *keys,
               u64 count)
{
    u64 limit = MIN(rows, count), pos = 0;
    while (pos < limit) {
        u64 n = MIN(limit - pos, block_rows);
        u64 same = equal_ids(arena_blocks_label(blocks, list[pos / block_rows]), keys + pos, n);
        pos += same;
        if (same < n) break;
    }
    return pos;
}

u64 key_line(u64 pos, u32 grid_rows) { return (pos / grid_rows + 1) * grid_rows; }

u64 key_lines(u64 lo, u64 hi, u32 grid_rows)
{
    return hi > lo ? hi / grid_rows - lo / grid_rows : 0;
}
