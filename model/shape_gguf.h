/* model/shape_gguf.h - a GGUF file's metadata -> the same flat row of sizes as a config.json.
 *
 * Source: llama.cpp, arch qwen35 (keys `qwen35.*`).  Sampling defaults are `general.sampling.*`
 * where the file has them (its converter copies generation_config.json), else those of shape.c. */
#ifndef MODEL_SHAPE_GGUF_H
#define MODEL_SHAPE_GGUF_H

#include "model/shape.h"

/* `files` holds a GGUF file.  ERR_FORMAT, ERR_LIMIT, ERR_NOT_FOUND, ERR_UNSUPPORTED name the file,
 * the key, its value and what was expected. */
MUST_USE enum err shape_gguf_load(struct files *files, struct model_shape *out);

#endif
