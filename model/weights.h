/* model/weights.h - the model's tensors as the forward pass reads them.
 *
 * Matrices are packed by the backend, tensor by tensor, into one extent of arena `weights`, and the
 * source pages dropped after each: a model never lies in memory twice (peak = packed + the largest
 * tensor).  Vectors stand in the same extent as f32.  The embedding stays mapped in its file and is
 * read by row.  A 128-bit hash covers every byte that is used.
 * Written once by the loading thread (weights_open), read-only after that. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include <stdatomic.h>

#include "model/family/family.h"
#include "model/ops.h"

/* Bytes of tensors taken in so far, and of all; any thread may read while weights_open runs. */
struct weights_progress { _Atomic u64 done_bytes, total_bytes; };

/* Reads the headers and finds every tensor the family asks for, with its shape and type.  `files`
 * and `shape` must outlive the weights.  Errors name tensor, file, what is there and what was
 * expected: ERR_NOT_FOUND, ERR_FORMAT, ERR_UNSUPPORTED, ERR_LIMIT, ERR_IO. */
MUST_USE enum err weights_scan(struct files *files, const struct model_shape *shape,
                               const struct family *family);

/* After weights_scan: bytes of the extent in arena `weights` (its cap, before arena_open). */
u64 weights_extent_bytes(const struct ops *ops);

/* After weights_scan: the arithmetic id of this model, of all its formats (ops_arithmetic_both);
 * and whether codes of 4 to 6 bits are among them that are expanded to BF16. */
u32 weights_arithmetic(const struct ops *ops);
bool weights_codes_expanded(const struct ops *ops);

/* Takes the extent from arena `weights_arena` and fills it; with a `pack_folder` by mapping a file
 * of packed weights over it (packed.h), which is written when there is none to trust.  ERR_MEMORY,
 * ERR_FORMAT, ERR_DEVICE, ERR_IO; nothing is held then. */
MUST_USE enum err weights_open(const struct ops *ops, u32 weights_arena, const char *pack_folder);
void weights_close(void);

/* A packed matrix of a layer (layer_count: of none; family_draft_layer: of the draft head). */
const struct ops_matrix *weights_matrix(u32 layer, enum family_role role);
/* The packed matrix at or after place `at` (0: the first) and its role; the place behind it, or
 * NONE when there is none left.  As they lie in memory. */
u32 weights_next(u32 at, const struct ops_matrix **matrix_out, enum family_role *role_out);
/* An f32 vector, or taps [rows, 4]. */
const f32 *weights_vector(u32 layer, enum family_role role);
/* The embedding table in its mapped file, row-major, and its type. */
const u8 *weights_table(enum ops_source *type_out);

/* Hash of every tensor byte in use, its name and type, and of the sizes of the config. */
void weights_hash(u64 out[2]);
/* Bytes of mapped files that the forward pass goes on reading. */
u64 weights_mapped_bytes(void);
/* Never NULL; zeros before weights_open. */
struct weights_progress *weights_progress(void);

#endif
