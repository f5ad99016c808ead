/* model/text/tokenizer_file.h - tokenizer.json and its companions -> tables.
 *
 * Reads the vocabulary (byte-level spelling), merges ("a b" or ["a", "b"]), added tokens, the
 * normaliser and the split pattern; what the engine can't do as the file asks is refused by name.
 * The tables' memory is from arena/heap and goes with tokenizer_file_close. */
#ifndef TEXT_TOKENIZER_FILE_H
#define TEXT_TOKENIZER_FILE_H

#include "arena/base/jsontext.h"
#include "model/text/bpe.h"
#include "model/text/tokenizer.h"

enum {
    TOKENIZER_ROWS_MAX = 1 << 22, TOKENIZER_ADDED_MAX = 8192, TOKENIZER_EOS_MAX = 16,
    TOKENIZER_PATTERN_MAX = 4096,
};

struct tokenizer_added { u32 id; u32 len; const char *bytes; bool special; };

struct tokenizer_tables {
    struct vocab vocab;
    void *vocab_memory;
    struct bpe bpe;
    struct tokenizer_added *added;          /* by first byte, then longest first                 */
    u32 added_count;
    u32 added_from[257];                    /* rows of first byte b: [added_from[b], [b + 1])    */
    u32 eos[TOKENIZER_EOS_MAX];
    u32 eos_count;
    u32 known_count;                        /* the highest id with a token, plus one             */
    bool nfc;
    char pattern[TOKENIZER_PATTERN_MAX];    /* the file's split expression, as it stands         */
};

/* Of the source's files, or of its GGUF keys (tokenizer_gguf). */
MUST_USE enum err tokenizer_file_read(const struct tokenizer_source *source,
                                      struct tokenizer_tables *out);
void tokenizer_file_close(struct tokenizer_tables *t);

#endif
