/* model/slot.h - live sequences: a record's block list being appended to, and current sections.
 *
 * A slot row owns no record: `record` is an index its user (tiers) writes and reads.  The block
 * list is a list of handles in an extent; the slot holds each block once as its class (HOLD_LIVE,
 * the guest slot HOLD_STASH) and one unit of `sections` for its current sections. */
#ifndef MODEL_SLOT_H
#define MODEL_SLOT_H

#include "arena/blocks.h"
#include "arena/slots.h"

enum { SLOT_CAP = 64 };

struct slot_row {
    u64         len;            /* rows forwarded = position of the next row                  */
    u64         row_cap;        /* rows the block list covers (blocks * B)                    */
    u32         block_count;
    u32         record;         /* tiers' record, or NONE                                     */
    i64         rope_delta;
    enum holder class;
    unit_id     unit;           /* current sections; NONE while the slot is empty             */
    bool        open;
    u8          reserved[7];
};

/* `count` slots (parallel + 1 guest may come later), lists for at most `ctx_rows` rows each, from
 * arena `lists_arena` (extents).  After state_open.  ERR_MEMORY. */
MUST_USE enum err slot_open(u32 count, u64 ctx_rows, u32 lists_arena);
void slot_close(void);
u32 slot_count(void);
struct slot_row *slot_row(u32 slot);

/* Rows [0, rows) can be written from now on: takes blocks (and the section unit, zeroed, if the
 * slot has none), and makes the block of row `len` writable in place (copy on write of rows
 * [0, len mod B) when another holder counts on it).  All or nothing: ERR_MEMORY, ERR_FULL leave the
 * slot as it was.  Commits happen here only, never in forward. */
MUST_USE enum err slot_grow(u32 slot, u64 rows);
/* Bytes slot_grow(slot, rows) would take from `blocks` and `sections` now (for wants). */
void slot_cost(u32 slot, u64 rows, u64 *blocks_bytes_out, u64 *sections_bytes_out);
/* Bytes of rows that growing has copied so far, because another holder counted on them. */
u64 slot_copied_bytes(void);
/* Rows [len, this) can be written in place as the list stands; len: none. */
u64 slot_writable(u32 slot);
/* Drops blocks beyond those that rows [0, rows) need; rows >= len. */
void slot_shrink(u32 slot, u64 rows);
/* Drops every block and the unit; len 0.  The record index is untouched. */
void slot_drop(u32 slot);
/* Addresses of the slot's blocks (for forward), valid until the next grow. */
u8 *const *slot_block_addrs(u32 slot);

/* For model/state: the list itself (block_count handles); one that takes its place, its references
 * with it, `rows` of its rows valid (and frozen where another holder counts on them); a zeroed
 * section unit when the slot has none (ERR_MEMORY, ERR_FULL). */
const block_id *slot_blocks(u32 slot);
void slot_blocks_set(u32 slot, const block_id *list, u32 count, u64 rows);
MUST_USE enum err slot_unit(u32 slot);

/* Debug: lists and lengths agree with the arenas. */
void slot_check(void);

#endif
