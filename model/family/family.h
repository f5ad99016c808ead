/* model/family/family.h - the table of model families: what a shape's layers are made of.
 *
 * A family lists the tensors it wants by layer, and the sections and views its sequences have.
 * Pure: data in, data out. */
#ifndef FAMILY_FAMILY_H
#define FAMILY_FAMILY_H

#include "model/ops.h"
#include "model/shape.h"
#include "model/state.h"

/* What a tensor is to the forward pass; a layer has each at most once. */
enum family_role {
    ROLE_IN_NORM, ROLE_POST_NORM, ROLE_MLP_GATE, ROLE_MLP_UP, ROLE_MLP_DOWN,
    ROLE_Q, ROLE_K, ROLE_V, ROLE_O, ROLE_Q_NORM, ROLE_K_NORM,
    ROLE_GDN_QKV, ROLE_GDN_Z, ROLE_GDN_A, ROLE_GDN_B, ROLE_GDN_CONV, ROLE_GDN_DECAY,
    ROLE_GDN_DT, ROLE_GDN_NORM, ROLE_GDN_OUT,
    ROLE_EMBED, ROLE_NORM, ROLE_HEAD,               /* of no layer; ROLE_NORM also the head's */
    ROLE_DRAFT_JOIN, ROLE_DRAFT_E_NORM, ROLE_DRAFT_H_NORM,      /* of the draft head          */
    ROLE_COUNT
};

enum family_form {              /* how it is kept                                             */
    FORM_MATRIX,                /* [rows, cols] packed for products                           */
    FORM_SCALE,                 /* [rows] f32: 1 + weight, a zero-centred norm                */
    FORM_PLAIN,                 /* [rows] f32 as it stands                                    */
    FORM_DECAY,                 /* [rows] f32: -exp(weight), in double, rounded once          */
    FORM_TAPS,                  /* [rows, 1, cols] f32 as it stands                           */
    FORM_TABLE,                 /* [rows, cols] left mapped in the file, read by row          */
};

enum { FAMILY_NAME_BYTES = 96 };
struct family_tensor {
    char name[FAMILY_NAME_BYTES];       /* without the checkpoint's prefix unless `top`       */
    bool top;                           /* the name stands alone                              */
    u32  role, form;
    u32  rows, cols;                    /* cols 1 for vectors                                 */
    struct ops_heads row_heads, col_heads;      /* where the file has a row, a column         */
};

struct family {
    const char *model_type;
    /* Tensor `k` of layer `layer` (layer_count: those of no layer; family_draft_layer: those of a
     * draft head that is loaded); false past the last. */
    bool (*tensor)(const struct model_shape *shape, u32 layer, u32 k, struct family_tensor *out);
    /* The same tensor as a GGUF file holds it: name, form (norms with the 1 in them), heads. */
    void (*gguf)(const struct model_shape *shape, u32 layer, struct family_tensor *tensor);
    /* Sections and views for blocks of `block_rows` rows, a grid of `grid_rows`, stored values of
     * `store_bytes` (2: BF16, 4: F32).  ERR_LIMIT, ERR_CONFIG. */
    enum err (*fill)(const struct model_shape *shape, u32 block_rows, u32 grid_rows,
                     u32 store_bytes, struct state_shape *out);
};

/* The family of a text model_type, or NULL. */
const struct family *family_find(const char *model_type);

/* Sections S.i and tail.i of layer i's delta rule, then the draft head's last hidden row; the two
 * views of the attention layers, then the head's two: they stand in the state shape in this order,
 * and forward finds them by these indices. */
enum { FAMILY_VIEW_K, FAMILY_VIEW_V, FAMILY_VIEW_DRAFT_K, FAMILY_VIEW_DRAFT_V };
u32 family_section_s(u32 gdn_index);
u32 family_section_tail(u32 gdn_index);
u32 family_section_draft(const struct model_shape *shape);      /* mtp.h_last               */
/* The draft head's place among the layers: behind the trunk's and those of no layer. */
u32 family_draft_layer(const struct model_shape *shape);

#endif
