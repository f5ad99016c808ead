/* model/gguf.h - GGUF files: header, metadata and tensor infos, every length checked first.
 *
 * A model is one file or split files NAME-00001-of-0000N.gguf, mapped by model/files.  The bytes
 * are untrusted: counts, lengths, offsets, dims and alignment are checked before anything is read
 * behind them, and every error names file, key or tensor, the byte where it stands and what was
 * expected.  Keys and strings are spans of the mapped file; nothing here owns memory.
 * Source: github.com/ggml-org/ggml, docs/gguf.md, version 3. */
#ifndef MODEL_GGUF_H
#define MODEL_GGUF_H

#include "arena/base/text.h"
#include "model/files.h"
#include "model/tensors.h"

enum {
    GGUF_KEY_CAP = 512,
    GGUF_KEY_BYTES = 128,               /* of a key's name                                    */
    GGUF_ALIGN_MAX = 1 << 16,
    GGUF_DIM_CAP = 4,
};

enum gguf_kind {                        /* as written in the file                             */
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING,
    GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64, GGUF_KINDS,
};

struct gguf_key {
    struct text_span name;
    const u8        *at;                /* the value, or the first item of an array           */
    u64              bytes;             /* of the value or of all items                       */
    u64              count;             /* items of an array; 1 of a single value             */
    u32              kind;              /* enum gguf_kind, of an array that of its items      */
    bool             array;
};

struct gguf {                           /* header and metadata of one file                    */
    const struct files_row *file;
    u64             tensor_count;
    u64             infos_at;           /* byte where the tensor infos begin                  */
    u64             align;              /* general.alignment                                  */
    u32             key_count;
    struct gguf_key key[GGUF_KEY_CAP];
};

/* Reads the metadata of the model's (first) file.  ERR_FORMAT, ERR_LIMIT, ERR_UNSUPPORTED. */
MUST_USE enum err gguf_open(struct files *files, struct gguf *out);

/* Tensor infos of all files into one table, dims outermost first.  Types of other readers'
 * quantizations are listed as TENSORS_OTHER with their word; a type without a known size is
 * ERR_UNSUPPORTED.  ERR_NOT_FOUND: a missing split file. */
MUST_USE enum err gguf_tensors(struct files *files, struct tensors *out);

/* Whether one of the files has a tensor of that name; errors as above. */
MUST_USE enum err gguf_has_tensor(struct files *files, const char *name, bool *out);

/* The key of that name, or NULL. */
const struct gguf_key *gguf_find(const struct gguf *g, const char *name);

/* A single value of that name: an integer >= 0 of any width, one with a sign, a float (or an
 * integer), a string.  ERR_NOT_FOUND when the key is missing, ERR_FORMAT when it is something
 * else. */
MUST_USE enum err gguf_u64(const struct gguf *g, const char *name, u64 *out);
MUST_USE enum err gguf_i64(const struct gguf *g, const char *name, i64 *out);
MUST_USE enum err gguf_f64(const struct gguf *g, const char *name, f64 *out);
MUST_USE enum err gguf_string(const struct gguf *g, const char *name, struct text_span *out);

/* The array of that name: of strings, or of integers and booleans.  Errors as above. */
MUST_USE enum err gguf_strings(const struct gguf *g, const char *name,
                               const struct gguf_key **out);
MUST_USE enum err gguf_numbers(const struct gguf *g, const char *name,
                               const struct gguf_key **out);
/* Item `i` of an array of gguf_numbers; ERR_FORMAT names it when it is negative. */
MUST_USE enum err gguf_number(const struct gguf *g, const struct gguf_key *k, u64 i, u64 *out);
/* The string at *at (0 to start) of an array of gguf_strings, and *at behind it; false at the
 * end. */
bool gguf_next(const struct gguf_key *k, u64 *at, struct text_span *out);

#endif
