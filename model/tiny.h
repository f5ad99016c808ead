/* model/tiny.h - writes seeded random qwen3_5 checkpoints: small models for tests and first tries.
 *
 * A folder with config.json, generation_config.json, tokenizer.json (byte-level, no merges: one
 * token a byte, and the family's added tokens), tokenizer_config.json (chat template 3.8) and
 * model.safetensors (BF16).  The same choice gives the same bytes on every machine: values come
 * from base/rng by (seed, tensor's name, index).  The output is noise; shapes and ratios are those
 * of the real family. */
#ifndef MODEL_TINY_H
#define MODEL_TINY_H

#include "arena/base/err.h"

struct tiny_choice {
    const char *family;         /* NULL or "qwen3_5"                                          */
    u32  layers;                /* 0: 8; 4..256, every fourth is full attention               */
    u32  hidden;                /* 0: 128; a multiple of 64 up to 8,192                       */
    u64  seed;
    bool tied;                  /* lm_head is the embedding                                   */
    bool mtp;                   /* with a draft head; the trunk's bytes are the same          */
};

/* Makes `dir` if need be and writes the files.  ERR_UNSUPPORTED (a family this version has not),
 * ERR_USAGE (a size), ERR_IO. */
MUST_USE enum err tiny_write(const char *dir, const struct tiny_choice *choice);

#endif
