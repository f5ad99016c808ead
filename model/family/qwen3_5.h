/* model/family/qwen3_5.h - the dense hybrid: Gated DeltaNet and gated attention layers.
 *
 * Tensor names and shapes as in HF model_type qwen3_5 (models.md 2); those of the draft head, its
 * views and `mtp.h_last` only when the head is loaded (shape.draft). */
#ifndef FAMILY_QWEN3_5_H
#define FAMILY_QWEN3_5_H

#include "model/family/family.h"

bool qwen3_5_tensor(const struct model_shape *shape, u32 layer, u32 k,
                    struct family_tensor *out);

/* The same tensor in a GGUF file of arch qwen35 (llama.cpp's converter): blk.i names, norms hold
 * 1 + w, ssm_a holds -exp(A_log), value heads stand in tiled order when hv > hk. */
void qwen3_5_gguf(const struct model_shape *shape, u32 layer, struct family_tensor *tensor);

/* Per delta layer i a section S.i [hv, dk, dv] F32 and tail.i [conv_channels, 3]; views K and V,
 * one plane an attention layer, rows [nkv, d].  With the draft head mtp.h_last [hidden] and views
 * mtp.K and mtp.V of one plane.  ERR_CONFIG names a bad B or G. */
MUST_USE enum err qwen3_5_fill(const struct model_shape *shape, u32 block_rows, u32 grid_rows,
                               u32 store_bytes, struct state_shape *out);

#endif
