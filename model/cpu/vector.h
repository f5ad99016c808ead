/* model/cpu/vector.h - one text of every vector level: all operations over the lanes of vec.h.
 *
 * A level's file sets its target, names its lanes (vec.h), includes this and makes its row of
 * VECTOR_LEVEL, its product and its integer arithmetic. */
#ifndef MODEL_CPU_VECTOR_H
#define MODEL_CPU_VECTOR_H

#include "model/cpu/attn.h"
#include "model/cpu/conv.h"
#include "model/cpu/expand.h"
#include "model/cpu/gdn.h"
#include "model/cpu/norm.h"
#include "model/cpu/product.h"
#include "model/cpu/rope.h"
#ifdef VEC_AMX
#include "model/cpu/amx.h"
#endif

#define VECTOR_LEVEL                                                                           \
    .expand = level_expand,                                                                    \
    .rms_norm = level_rms_norm, .residual = level_residual, .glu = level_glu,                  \
    .attn_rows = level_attn_rows, .attn_bytes = level_attn_bytes, .attn = level_attn,          \
    .attn_part = level_attn_part, .attn_join = level_attn_join, .conv = level_conv,            \
    .gdn_gates = level_gdn_gates, .gdn_rule = level_gdn_rule, .gdn_out = level_gdn_out

#endif
