/* tests/cold.h - the reference: the served ids from position 0 in a spare slot, nothing restored.
 *
 * Compares, by memcmp, the sections, every row of every view and the last logits of a slot with
 * those of a cold run of the same ids.  Includes nothing of the tiers. */
#ifndef TESTS_COLD_H
#define TESTS_COLD_H

#include "model/forward.h"
#include "model/slot.h"
#include "model/state.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

/* Rows [0, count) of `ids` in the spare slot, in chunks of at most `chunk` rows; logits [vocab] of
 * the last row. */
static void cold_run(u32 spare, const u32 *ids, u64 count, u32 chunk, f32 *logits)
{
    slot_drop(spare);
    CHECK_OK(slot_grow(spare, count));
    for (u64 pos = 0; pos < count;) {
        u32 n = (u32)MIN(count - pos, chunk);
        CHECK_OK(forward_chunk(spare, ids + pos, n, pos + n == count ? logits : NULL));
        pos += n;
    }
}

/* Sections that differ between two sets at these addresses. */
static u64 cold_sections_differ(const u8 *x, const u8 *y)
{
    const struct state_shape *shape = state_shape();
    u64 differ = 0;
    for (u32 i = 0; i < shape->section_count; i++)
        differ += memcmp(x + shape->section[i].offset_bytes, y + shape->section[i].offset_bytes,
                         shape->section[i].bytes) != 0;
    return differ;
}

/* Strips of rows [0, rows) that differ between two block lists. */
static u64 cold_rows_differ(const block_id *left, const block_id *right, u64 rows)
{
    const struct state_shape *shape = state_shape();
    u64 differ = 0;
    for (u64 row = 0; row < rows; row += shape->block_rows) {
        u64 n = MIN(rows - row, shape->block_rows), at = row / shape->block_rows;
        for (u32 v = 0; v < shape->view_count; v++)
            for (u32 p = 0; p < shape->view[v].planes; p++)
                differ += memcmp(state_strip(left[at], v, p), state_strip(right[at], v, p),
                                 n * shape->view[v].row_bytes) != 0;
    }
    return differ;
}

/* The current sections of a slot. */
static const u8 *cold_sections(u32 slot)
{
    return arena_slots_addr(state_sections_arena(), slot_row(slot)->unit);
}

/* Sections, and strips of rows [0, rows), that differ between two slots. */
static u64 cold_differences(u32 a, u32 b, u64 rows)
{
    u32 count;
    u64 len;
    const block_id *left = state_rows_out(a, &count, &len);
    const block_id *right = state_rows_out(b, &count, &len);
    return cold_sections_differ(cold_sections(a), cold_sections(b)) +
           cold_rows_differ(left, right, rows);
}

/* `slot` holds exactly the state after ids [0, count), and `logits` [vocab] are those of the last
 * row (NULL: not compared).  The spare slot is empty again. */
static void cold_compare(u32 spare, u32 slot, const u32 *ids, u64 count, const f32 *logits)
{
    f32 *reference = malloc(forward_vocab() * sizeof *reference);
    CHECK_EQ(slot_row(slot)->len, count);
    cold_run(spare, ids, count, forward_rows_max(), reference);
    CHECK_EQ(cold_differences(slot, spare, count), 0);
    if (logits != NULL)
        CHECK(memcmp(reference, logits, forward_vocab() * sizeof *reference) == 0);
    free(reference);
    slot_drop(spare);
}

#endif
