/* model/tensors.h - safetensors headers -> one flat table of where each tensor's bytes are.
 *
 * One file `model.safetensors`, or the shards that `model.safetensors.index.json` names.  Headers
 * are untrusted: lengths, offsets, shapes and names are checked before a byte of data is read, and
 * every error names the file and the tensor.  Bytes stay in the mapped files.
 * Source: github.com/huggingface/safetensors, format: u64 LE header length, JSON header, data. */
#ifndef MODEL_TENSORS_H
#define MODEL_TENSORS_H

#include "model/files.h"

enum {
    TENSORS_CAP = 8192,
    TENSORS_NAME_BYTES = 256,
    TENSORS_DIM_CAP = 4,
    TENSORS_HEADER_BYTES_MAX = 100000000,
};

enum tensors_type {
    TENSORS_OTHER, TENSORS_BF16, TENSORS_F16, TENSORS_F32, TENSORS_F8_E4M3,
    TENSORS_Q8_0, TENSORS_Q4_0, TENSORS_Q4_K, TENSORS_Q5_K, TENSORS_Q6_K,      /* GGUF blocks */
};

struct tensor_row {
    u64         hash;                   /* hash_64 of the name                                */
    const char *name;                   /* in the mapped header, not 0-terminated             */
    const char *word;                   /* the file's own name of the type, for errors        */
    const u8   *data;
    u64         bytes;
    u64         dim[TENSORS_DIM_CAP];   /* row-major, outermost first                         */
    u32         name_bytes;
    u32         dim_count;              /* above TENSORS_DIM_CAP: dim holds the first ones    */
    u32         type;                   /* enum tensors_type                                  */
    u32         file;                   /* index into files->row                              */
    bool        used;                   /* asked for by tensors_find                          */
};

struct tensors {
    struct files *files;
    u32           count;
    struct tensor_row row[TENSORS_CAP];
};

/* Reads every header.  ERR_NOT_FOUND (no weights, missing shard), ERR_FORMAT, ERR_LIMIT, ERR_IO. */
MUST_USE enum err tensors_open(struct tensors *t, struct files *files);

/* The row of that name (marked used), or NULL. */
struct tensor_row *tensors_find(struct tensors *t, const char *name);

/* Adds a row that a reader of another container filled (its file index belongs to t->files).
 * ERR_FORMAT: its name is there already, or its bytes belong to another row; ERR_LIMIT. */
MUST_USE enum err tensors_add(struct tensors *t, const struct tensor_row *row);

#endif
