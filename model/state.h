/* model/state.h - the state adapter: the one door between model and tiers.
 *
 * A sequence is its sections (fixed size, copied whole as one unit of arena `sections`) and views
 * (a row a token, held in blocks of B tokens of arena `blocks`).  Tiers see names, sizes and byte
 * ranges; no tier knows a layer, a head or a dtype.  Owns nothing but the two layout tables.
 * Called by the engine thread. */
#ifndef MODEL_STATE_H
#define MODEL_STATE_H

#include "arena/blocks.h"
#include "arena/slots.h"

enum { STATE_SECTION_CAP = 512, STATE_VIEW_CAP = 8 };

struct state_section {          /* one buffer of fixed size: "S.3", "tail.3", "mtp.h_last"        */
    char name[16];
    u64  offset_bytes;          /* in a unit of arena `sections`, 256-aligned                     */
    u64  bytes;
    u32  type;                  /* enum state_type of its numbers                                 */
    u32  reserved;
};

struct state_view {             /* e.g. "K": 16 layers x 4 heads x 256 x bf16                     */
    char name[16];
    u32  planes;                /* strips of a block: one per attention layer                     */
    u32  row_bytes;             /* bytes of one token in one plane                                */
    u64  offset_bytes;          /* of plane 0 in a block, whose order is [view][plane][row]       */
    u64  strip_bytes;           /* from plane to plane: B * row_bytes, rounded up to 256          */
    u32  type;
    u32  reserved;
};

enum state_type { STATE_F32, STATE_BF16, STATE_I64 };

struct state_shape {            /* filled by the model's family; pure data, no pointers           */
    u32 block_rows;             /* B: tokens a block, a power of two >= 4                         */
    u32 grid_rows;              /* G: a multiple of B                                             */
    u32 section_count, view_count;
    struct state_section section[STATE_SECTION_CAP];
    struct state_view    view[STATE_VIEW_CAP];
    u64 section_bytes;          /* a whole unit                                                   */
    u64 block_bytes;            /* a whole block, padded to 4,096                                 */
};

/* The two arenas of a shape ("blocks", "sections"), for arena_open; `decl[2]`.  unit_cap spans the
 * pool: nodes say how many may be held.  A block's label is its B key ids, 8 bytes each. */
void state_declare(const struct state_shape *shape, u64 pool_bytes, struct arena_decl decl[2]);

/* Finds the two arenas; `shape` must outlive the adapter.  ERR_NOT_FOUND. */
MUST_USE enum err state_open(const struct state_shape *shape);

const struct state_shape *state_shape(void);
u32 state_blocks_arena(void);
u32 state_sections_arena(void);

/* Queues on the copy stream a copy of all sections of `slot`, as they stand, into `unit`; *pos_out
 * is the slot's length.  Exact: a later state_load gives back the same bytes.  The caller holds
 * `unit` before and after; ERR_DEVICE if the copy cannot be queued: then it holds no state. */
MUST_USE enum err state_save(u32 slot, unit_id unit, u64 *pos_out);

/* Sections of `unit` become those of `slot`, whose block list already holds rows [0, pos); sets
 * its length to pos.  unit.index NONE with pos 0: the empty state (all sections zero). */
MUST_USE enum err state_load(u32 slot, unit_id unit, u64 pos);

/* The slot's block list is the record's: the tiers put blocks into it (holding each as HOLD_LIVE)
 * and read it.  `count` blocks of `list`; the slot takes over those references and drops the ones
 * it had.  Rows [0, rows) are valid and, where another holder counts on them, frozen. */
void state_rows_in(u32 slot, const block_id *list, u32 count, u64 rows);
/* Blocks of the slot's list (valid until its next grow or rows_in), their count, its length. */
const block_id *state_rows_out(u32 slot, u32 *count_out, u64 *rows_out);

/* Rows [0, rows) of the slot's list are counted on by another holder from now on: raises `frozen`
 * of the blocks below (whole blocks: B). */
void state_freeze(u32 slot, u64 rows);

/* The unit with the slot's current sections changes hands: from now on held as `class` by the
 * caller, and the slot has none (its rows stay).  False: it had none. */
bool state_give(u32 slot, enum holder class, unit_id *unit_out);

/* Bytes of one view's rows [0, rows) of a block's plane: address in the block's space. */
u8 *state_strip(block_id block, u32 view, u32 plane);

/* Two independent 64-bit sums over rows [0, rows) of every view of a block list. */
void state_sums(const block_id *list, u64 rows, u64 out[2]);

#endif
