/* tiers/record.h - what is kept: one flat table of sequences, whatever holds them.
 *
 * A record is a block list, anchors, generations and counters under one class.  The block list of a
 * live record is its slot's (model/state.h); a record keeps its row when its class changes.  Rows
 * are shared by reference: a fork takes references to the blocks up to a position and the anchors
 * below it; model/slot copies the one block that is written next (copy on write).
 *
 * Owned by the engine thread.  Positions are rows of the served ids. */
#ifndef TIERS_RECORD_H
#define TIERS_RECORD_H

#include "arena/base/err.h"
#include "arena/blocks.h"
#include "tiers/anchors.h"
#include "tiers/end.h"

struct record_row {
    u64  session[2];            /* hash of the caller's session                               */
    u64  head_pos;              /* where its system and tools head ends, 0: unknown           */
    u64  taint;                 /* lowest row not written by a cold prefill; U64_MAX: none    */
    u64  used_us;               /* monotonic time of its last turn                            */
    u64  saved_tokens;          /* rows it spared so far                                      */
    u64  number;                /* 1, 2, 3, ... in the order of making; 0: row unused         */
    u32  hits;                  /* turns that started from it                                 */
    u32  slot;                  /* whose block list it is, or NONE                            */
    enum holder class;          /* HOLD_LIVE                                                  */
    bool busy;                  /* a turn writes it now                                       */
    u8   reserved[3];
};

/* Bytes of tables that `record_cap` rows with lists of `anchor_cap` need; for sizing. */
u64 record_table_bytes(u32 record_cap, u32 anchor_cap);
/* After state_open.  `slots` slots may have a record.  ERR_MEMORY, ERR_FULL. */
MUST_USE enum err record_open(u32 table_arena, u32 record_cap, u32 anchor_cap);
u32 record_cap(void);

/* Row by index; its lists. */
struct record_row *record_at(u32 record);
struct anchor_list record_anchors(u32 record);
struct generation_list *record_generations(u32 record);
/* Block list, count and length (rows valid now) of a record. */
const block_id *record_blocks(u32 record, u32 *count_out, u64 *rows_out);

/* Index of the next used row at or after `from`, or NONE: for (r = record_next(0); r != NONE;
 * r = record_next(r + 1)). */
u32 record_next(u32 from);
u32 record_count(void);

/* A new live record without rows in `slot` (which has none).  ERR_FULL. */
MUST_USE enum err record_start(u32 slot, const u64 session[2], u64 now_us, u32 *out);
/* A new live record in `slot` (which has none) that shares the rows [0, pos) of `source` and its
 * anchors there: the slot's list refers to the blocks, which are frozen up to `pos`.  The slot's
 * sections are not touched.  ERR_FULL. */
MUST_USE enum err record_fork(u32 source, u64 pos, u32 slot, const u64 session[2], u64 now_us,
                              u32 *out);
/* The record's rows end at `pos` from now on: blocks, anchors and generations above go. */
void record_cut(u32 record, u64 pos);
/* The row and all it holds goes; a slot's list becomes empty (its sections unit stays). */
void record_drop(u32 record);

/* Bytes of blocks that would come free if rows [pos, len) went: last references only. */
u64 record_freed_bytes(u32 record, u64 pos);
/* Bytes of anchor units whose last reference it holds. */
u64 record_anchor_bytes(u32 record);
/* Rows at its front that another record or slot holds too. */
u64 record_shared_rows(u32 record);

/* Asserts rows, lists, and that the live holders of every block and the anchor holders of every
 * unit are exactly the references found by walking all slots and records; `extra` anchor units
 * [extra_count] are held by turns that have not used them yet.  `slots` slots exist. */
void record_check(u32 slots, const unit_id *extra, u32 extra_count);

#endif
