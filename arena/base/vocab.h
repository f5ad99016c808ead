/* arena/base/vocab.h - the piece table: what every token id stands for.
 *
 * Filled once, in id order, when the tokenizer opens; read-only after that, so any thread may read.
 * Bytes are the piece as generated (not always whole UTF-8 sequences).  Memory is the caller's. */
#ifndef BASE_VOCAB_H
#define BASE_VOCAB_H

#include "arena/base/base.h"
#include "arena/base/err.h"

enum vocab_kind {
    VOCAB_TEXT = 0,         /* ordinary piece, or an added token that is not special             */
    VOCAB_SPECIAL,          /* special added token: no text of its own (vision tags, im_start)   */
    VOCAB_THINK_OPEN,       /* <think>                                                           */
    VOCAB_THINK_CLOSE,      /* </think>                                                          */
    VOCAB_CALL_OPEN,        /* <tool_call>                                                       */
    VOCAB_CALL_CLOSE,       /* </tool_call>                                                      */
    VOCAB_TURN_END,         /* a turn ends here: <|im_end|>, <|endoftext|>, eos ids of the files */
    VOCAB_PADDING,          /* a row of the matrices without a token: never sampled              */
};

struct vocab {
    u32       count;        /* ids [0, count)                                                    */
    u32       filled;       /* rows put so far                                                   */
    u64       bytes_cap;
    u64      *start;        /* [count + 1]                                                       */
    u8       *kind;         /* [count] enum vocab_kind                                           */
    char     *bytes;        /* [bytes_cap]                                                       */
};

struct vocab_piece { const char *bytes; u32 len; };

/* Bytes of memory that `count` ids with `piece_bytes` bytes together need (8-byte line). */
u64 vocab_bytes(u32 count, u64 piece_bytes);
void vocab_open(struct vocab *v, void *memory, u32 count, u64 piece_bytes);

/* The next id's piece; ERR_FULL when it does not fit. */
MUST_USE enum err vocab_put(struct vocab *v, const char *bytes, u64 len, enum vocab_kind kind);

/* Of id < count; padding has no bytes. */
struct vocab_piece vocab_piece(const struct vocab *v, u32 id);
enum vocab_kind vocab_kind(const struct vocab *v, u32 id);

#endif
