/* model/forward.h - rows through the model: a loop over layer rows, ops only.
 *
 * A batch is spans of consecutive tokens of different slots: a prefill chunk is one span, a decode
 * round one row a slot, a draft's verification a few rows a slot.  A row's bits do not depend on
 * the batch, unless the backend says so.  Slots were grown before (slot_grow); forward never
 * allocates or commits.  On ERR_DEVICE the slots of the batch are undefined: the caller drops
 * them. */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "model/ops.h"
#include "model/shape.h"

/* Rooms below are open (state, slot, weights).  Commits the scratch that batches of up to
 * `rows_max` rows need, and what verifications of up to `verify_rows` rows keep (0: there are
 * none); `shape` and `ops` must outlive it.  ERR_MEMORY, ERR_FULL. */
MUST_USE enum err forward_open(const struct model_shape *shape, const struct ops *ops,
                               u32 scratch_arena, u32 rows_max, u32 verify_rows);
void forward_close(void);

/* Pure: the scratch of a batch before anything is open, for the arena's declaration. */
u64 forward_scratch_need(const struct model_shape *shape, const struct ops *ops, u32 block_rows,
                         u32 rows, u32 logit_rows);

/* And what a verification of `rows` rows keeps beside it. */
u64 forward_verify_need(const struct model_shape *shape, const struct ops *ops, u32 rows);

struct forward_span {
    u32        slot;
    u32        count;           /* rows, >= 1                                                 */
    const u32 *ids;             /* [count] token ids (host), each < vocabulary                */
    u32        logits_count;    /* logits of the last `logits_count` rows are wanted; 0..count */
};

enum { FORWARD_SPAN_CAP = 64 };

/* Most rows a batch may have (sum of counts); sizes the scratch arena. */
u32 forward_rows_max(void);
/* Bytes of scratch that batches of up to `rows` rows with `logit_rows` rows of logits need. */
u64 forward_scratch_bytes(u32 rows, u32 logit_rows);

/* Advances every slot of the batch by its rows.  `logits` (host) gets f32 [wanted rows][vocab] in
 * batch order; may be NULL when none are wanted.  Returns after the device is done. */
MUST_USE enum err forward_rows(const struct forward_span *span, u32 span_count, f32 *logits);

/* Looks at rows that may not come to stand: as forward_rows, but a span of two rows or more leaves
 * its slot's length and sections as they were, until forward_accept.  Their rows of views are
 * written above the length, where they mean nothing.  All rows of a batch that has such a span are
 * at most `verify_rows` of forward_open; a span of one row just moves on. */
MUST_USE enum err forward_verify(const struct forward_span *span, u32 span_count, f32 *logits);
/* The first `rows` rows (1 .. its span's count) of what the last forward_verify saw of `slot`
 * stand: length and sections are what as many plain steps make of them, bit for bit.  Once a slot;
 * nothing for a slot whose span had one row.  ERR_DEVICE as above. */
MUST_USE enum err forward_accept(u32 slot, u32 rows);
/* Most rows of a batch with drafts. */
u32 forward_verify_rows(void);

/* One chunk of one slot; logits [vocab] of its last row when `logits` is not NULL. */
MUST_USE enum err forward_chunk(u32 slot, const u32 *ids, u32 count, f32 *logits);
/* One row of each of `count` slots; logits [count][vocab]. */
MUST_USE enum err forward_step(const u32 *slots, const u32 *ids, u32 count, f32 *logits);

/* Rows of the vocabulary (columns of logits). */
u32 forward_vocab(void);
/* A row's bits do not depend on the batch: false asks for the discipline of prefill.c. */
bool forward_row_invariant(void);

#endif
