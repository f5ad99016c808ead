/* model/text/tokenizer_gguf.h - a GGUF file's `tokenizer.ggml.*` keys -> tokenizer tables.
 *
 * Served is model gpt2 with pre qwen35: its split pattern and NFC are built in, as such a file
 * names them and does not hold them.  Source: llama.cpp, gguf-py constants and llama-vocab. */
#ifndef TEXT_TOKENIZER_GGUF_H
#define TEXT_TOKENIZER_GGUF_H

#include "model/gguf.h"
#include "model/text/tokenizer_rows.h"

/* Fills rows->t.  Normal tokens are in the byte-level spelling; control tokens are special added
 * tokens, user defined ones added tokens that are text; unused ones padding.  ERR_NOT_FOUND,
 * ERR_FORMAT, ERR_LIMIT, ERR_UNSUPPORTED name the key; ERR_MEMORY. */
MUST_USE enum err tokenizer_gguf_read(const struct gguf *g, struct tokenizer_rows *rows);

#endif
