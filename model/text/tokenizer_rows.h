/* model/text/tokenizer_rows.h - one row an id while a tokenizer's file is read, then the tables.
 *
 * tokenizer_file (JSON) and tokenizer_gguf fill the rows; what is parsed on the way lies in one
 * pool that goes with tokenizer_rows_close, the tables' memory is from arena/heap and stays. */
#ifndef TEXT_TOKENIZER_ROWS_H
#define TEXT_TOKENIZER_ROWS_H

#include "model/text/tokenizer_file.h"

enum { TOKENIZER_ALPHABET = 0x144 };    /* code points of the byte-level spelling              */

struct tokenizer_row {
    struct text_span bytes;
    u8 known, added, special;
};

struct tokenizer_rows {
    struct text_pool pool;
    i16 byte_of[TOKENIZER_ALPHABET];    /* code point of the byte-level alphabet -> byte, or -1  */
    struct tokenizer_row *row;
    u32 count;
    struct tokenizer_tables *t;
};

void tokenizer_rows_open(struct tokenizer_rows *r, struct tokenizer_tables *t);
void tokenizer_rows_close(struct tokenizer_rows *r);
enum err tokenizer_rows_no_memory(void);                    /* fails with ERR_MEMORY             */

/* `count` rows, none known.  ERR_MEMORY. */
MUST_USE enum err tokenizer_rows_take(struct tokenizer_rows *r, u32 count);

/* The bytes that a vocabulary key spells; a key with foreign letters stands for its own bytes. */
MUST_USE enum err tokenizer_rows_spelled(struct tokenizer_rows *r, struct text_span key,
                                         struct text_span *out);

/* The id ends a turn (once); the added tokens of that spelling do. */
void tokenizer_rows_eos(struct tokenizer_rows *r, u32 id);
void tokenizer_rows_eos_named(struct tokenizer_rows *r, const char *spelling, u64 len);

/* The piece table and the added tokens, from the rows.  ERR_MEMORY. */
MUST_USE enum err tokenizer_rows_fill(struct tokenizer_rows *r);

/* After that: the merge tables, ready for bpe_merge_put.  As bpe_open. */
MUST_USE enum err tokenizer_rows_bpe(struct tokenizer_rows *r, u64 merge_cap);

#endif
