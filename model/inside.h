/* model/inside.h - what forward.c and draft.c share: a batch of rows in scratch, blocks over it.
 *
 * For these two files alone.  A batch's own buffers (x, u, o) come first in arena `scratch`; a
 * stage's are pushed after a mark and rewound.  draft.c makes batches of its own from them. */
#ifndef MODEL_INSIDE_H
#define MODEL_INSIDE_H

#include "model/family/family.h"
#include "model/forward.h"

enum { FORWARD_LOGIT_SLAB = 32 };       /* rows of logits at a time                           */

enum forward_buffer {
    BUFFER_X, BUFFER_U, BUFFER_O, BUFFER_WORK,          /* the batch's                        */
    BUFFER_RAW, BUFFER_CONV, BUFFER_Z, BUFFER_A, BUFFER_B, BUFFER_GDN, BUFFER_GDN_WORK,
    BUFFER_QG, BUFFER_K, BUFFER_V, BUFFER_Q, BUFFER_ATTN, BUFFER_ATTN_WORK,
    BUFFER_GATE, BUFFER_UP, BUFFER_GLU,
    BUFFER_LAST, BUFFER_NORMED, BUFFER_LOGITS,
    BUFFER_EMBED, BUFFER_JOIN,                          /* the draft head's: e; [e ; m]       */
    BUFFER_COUNT
};
enum forward_stage {
    STAGE_ROWS, STAGE_GDN, STAGE_ATTN, STAGE_MLP, STAGE_LOGITS, STAGE_JOIN, STAGE_COUNT
};

struct forward_batch {
    const struct forward_span *given;
    struct ops_span span[FORWARD_SPAN_CAP];
    u32 span_count, rows;
    bool verify;                    /* spans of more than a row hold                          */
    u8  *hidden;                    /* of a verification: act [rows, hidden], kept            */
    u64 bytes[BUFFER_COUNT];
    u8 *at[BUFFER_COUNT];
};

/* Bytes of every buffer for the batch's rows and `logit_rows` rows of logits. */
void forward_sizes(struct forward_batch *b, u32 logit_rows);
MUST_USE enum err forward_push(struct forward_batch *b, enum forward_stage stage);
u64 forward_mark(void);
void forward_rewind(u64 mark);

/* Buffer x times a matrix of the layer to buffer y, all rows. */
MUST_USE enum err forward_product(const struct forward_batch *b, u32 layer, enum family_role role,
                                  u32 x, u32 y);
/* K and V of the layer, where they are stored; the queries' fields are empty (nh 0). */
struct ops_attn_rows forward_attn_rows(const struct forward_batch *b, u32 layer);
/* Blocks of a layer, u -> o.  The draft head's layer is family_draft_layer. */
MUST_USE enum err forward_attention(struct forward_batch *b, u32 layer);
MUST_USE enum err forward_mlp(struct forward_batch *b, u32 layer);
/* x += block(N1(x)), then back to the batch's own scratch. */
MUST_USE enum err forward_half(struct forward_batch *b, u32 layer, enum family_role norm,
                               enum err (*block)(struct forward_batch *, u32));

#endif
