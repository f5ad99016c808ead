/* model/draft.h - the checkpoint's draft head (MTP): rows behind the trunk's, and its proposals.
 *
 * The head joins a token with the trunk's hidden row before it and is one attention layer with its
 * own K and V.  Row t of its views is made of (x_t, h_{t-1}) and turned at the position of row
 * t - 1; row 0 is zero and never seen; section mtp.h_last is the hidden row that the next row will
 * be made of.  So each is a function of the ids up to t, and tiers carry them as they carry any
 * view and section.  forward_rows writes them for every row it forwards.
 * Source: models.md 6 and 15; HF model_type qwen3_5, tensors mtp.*. */
#ifndef MODEL_DRAFT_H
#define MODEL_DRAFT_H

#include "model/ops.h"
#include "model/shape.h"

/* A head is loaded. */
bool draft_present(void);

/* Greedy chain d_1 .. d_k, k <= most, behind the committed, not yet forwarded token `next_id`: what
 * the head takes for the tokens after it.  Rows it writes are provisional: positions len .. len +
 * k - 1 of the draft views, which forward_rows writes again; the slot's length and sections stay.
 * Fewer when the slot can write fewer rows, 0 for an empty one.  ERR_DEVICE: *count_out is
 * untouched, the slot stands as it did. */
MUST_USE enum err draft_propose(u32 slot, u32 next_id, u32 most, u32 *ids_out, u32 *count_out);

/* The same for several slots in one pass a step: `ids` [most], `count` as above. */
struct draft_ask { u32 slot, next_id, most, count; u32 *ids; };
MUST_USE enum err draft_propose_all(struct draft_ask *ask, u32 ask_count);

/* Ids from here on are padding rows of the vocabulary, never proposed (all count until then). */
void draft_candidates(u32 candidates);

/* For forward.c alone: the model is open; the rows of a batch are through the trunk. */
struct forward_batch;
void draft_open(const struct model_shape *shape, const struct ops *ops);
void draft_close(void);
MUST_USE enum err draft_rows(const struct forward_batch *trunk);
/* Row `row` of what draft_rows kept of a verification is the last that stands of this span. */
MUST_USE enum err draft_accept(const struct ops_span *span, u8 *kept, u32 row);

#endif
