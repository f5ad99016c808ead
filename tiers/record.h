/* tiers/record.h - what is kept: one flat table of sequences, whatever holds them.
 *
 * A record is a block list, anchors, generations and counters under one class.  The block list of a
 * record in a slot is the slot's (model/state.h); one that stands aside (pin, park, store) has its
 * own, a run of the pool of lists.  It keeps its row when its class changes, and no byte of a row
 * or a section moves: every block and unit is held as the new class, then let go as the old one.
 * Rows are shared by reference: a fork takes references to the blocks up to a position and the
 * anchors below it; model/slot copies the one block that is written next (copy on write).
 *
 * Blocks are held as the record's class, anchor units as HOLD_ANCHOR by a live record and as its
 * class by any other.  Owned by the engine thread.  Positions are rows of the served ids. */
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
    u64  rows;                  /* aside: rows it keeps (else its slot knows)                 */
    u64  first_key, first_hash; /* aside: its first id; hash of its first block if whole, or 0 */
    u32  hits;                  /* turns that started from it                                 */
    u32  slot;                  /* whose block list it is, or NONE: aside                     */
    u32  list, list_count;      /* aside: its run in the pool of lists                        */
    enum holder class;          /* LIVE or STASH in a slot; PIN, PARK or STORE aside          */
    bool busy;                  /* a turn writes it now                                       */
    bool tail;                  /* park: a tail that its session abandoned                    */
    bool guest;                 /* it ran as a guest: its next place is the store             */
    bool prefix;                /* store: the head of a prefill, never taken, only forked     */
};

/* Bytes of tables that `record_cap` rows with lists of `anchor_cap` and `list_cap` handles for the
 * lists of all records aside need; a pool that fits most uses. */
u64 record_table_bytes(u32 record_cap, u32 anchor_cap, u32 list_cap);
u32 record_list_cap(u32 record_cap, u64 ctx_blocks);
/* After state_open.  ERR_MEMORY, ERR_FULL. */
MUST_USE enum err record_open(u32 table_arena, u32 record_cap, u32 anchor_cap, u32 list_cap);
u32 record_cap(void);

/* Row by index; its lists. */
struct record_row *record_at(u32 record);
struct anchor_list record_anchors(u32 record);
struct generation_list *record_generations(u32 record);
/* Block list, count and length (rows valid now) of a record; valid until the next list changes. */
const block_id *record_blocks(u32 record, u32 *count_out, u64 *rows_out);
u64 record_rows(u32 record);
/* As what a record holds its anchors. */
enum holder record_anchor_holder(u32 record);
/* The row is in use, by the record of that number. */
bool record_is(u32 record, u64 number);
bool record_session(u32 record, const u64 session[2]);

/* Index of the next used row at or after `from`, or NONE: for (r = record_next(0); r != NONE;
 * r = record_next(r + 1)). */
u32 record_next(u32 from);
u32 record_count(void);

/* A new record without rows in `slot` (which has none), whose blocks are held as `class`.
 * ERR_FULL. */
MUST_USE enum err record_start(u32 slot, enum holder class, const u64 session[2], u64 now_us,
                               u32 *out);
/* A new record in `slot` (which has none) that shares the rows [0, pos) of `source` and its
 * anchors there: the slot's list refers to the blocks, which are frozen up to `pos`.  The slot's
 * sections are not touched.  ERR_FULL. */
MUST_USE enum err record_fork(u32 source, u64 pos, u32 slot, enum holder class,
                              const u64 session[2], u64 now_us, u32 *out);
/* A new record aside of `class` that shares the rows [0, pos) and the anchors there of `source`,
 * with its session and times.  ERR_FULL: no row, no room for its list. */
MUST_USE enum err record_branch(u32 source, u64 pos, enum holder class, u32 *out);

/* A new record aside from rows and sections that came from files; it holds them as `class`, the
 * caller's own holds stay the caller's.  Labels and hashes of the blocks are written.  ERR_FULL. */
struct record_found {
    u64 session[2], head_pos, taint;
    const block_id *block; u64 rows;
    const struct record_found_anchor { unit_id unit; u64 pos; enum anchor_kind kind; bool head; }
        *anchor;                        /* [anchor_count] ascending, the last one at `rows`   */
    u32 anchor_count;
};
MUST_USE enum err record_adopt(const struct record_found *found, enum holder class, u64 now_us,
                               u32 *out);

/* The record leaves its slot and stands aside as `class` from now on; its rows are frozen, the
 * slot's list is empty (its sections unit stays).  It must have rows.  ERR_FULL: no room for its
 * list, nothing changed. */
MUST_USE enum err record_leave(u32 record, enum holder class);
/* A record aside continues in `slot` (which has none), held as `class`.  The slot's sections are
 * not touched; rows behind its own are written in place. */
void record_enter(u32 record, u32 slot, enum holder class);
/* A record aside is held as `class` from now on. */
void record_class(u32 record, enum holder class);
/* The current sections of its slot become its end anchor where it has no anchor at its length; the
 * slot has none then.  Without room in its list nothing happens. */
void record_keep_end(u32 record);

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
/* `other`'s whole blocks are the first ones of `record`: what it holds stands here too. */
bool record_covers(u32 record, u32 other);

/* Asserts rows, lists, and that the holders of every block and every anchor unit are exactly the
 * references found by walking all slots and records, class by class; `extra` anchor units
 * [extra_count] are held by turns that have not used them yet.  `slots` slots exist. */
void record_check(u32 slots, const unit_id *extra, u32 extra_count);

#endif
