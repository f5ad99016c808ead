/* model/text/tokenizer.h - byte-level BPE of a tokenizer.json or GGUF: text -> ids and back.
 *
 * Added tokens are cut out of the raw text (longest first), the text between two of them is
 * normalised (NFC when the file says so), split by the file's pattern (PCRE2, JIT) and merged by
 * rank.  No BOS is ever added.  Owned by whoever opened it; read-only after open: any number of
 * threads may encode at once (scratch is per call, from arena/heap).
 * Source of the format: Hugging Face tokenizers, tokenizer.json version 1.0; chat.md 10. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "arena/base/base.h"
#include "arena/base/err.h"
#include "arena/base/text.h"
#include "arena/base/vocab.h"

struct gguf;
struct tokenizer;

/* The files' bytes; they may go after tokenizer_open. */
struct tokenizer_source {
    struct text_span tokenizer_json;
    struct text_span tokenizer_config;      /* optional: missing added tokens, eos_token         */
    struct text_span generation_config;     /* optional: eos_token_id, a number or a list        */
    u32 rows;           /* rows of the embedding; ids beyond the known are padding.  0: as known */
    const struct gguf *gguf;                /* instead of all above: the keys of a GGUF file     */
};

/* ERR_FORMAT, ERR_UNSUPPORTED or ERR_LIMIT name the file's field; ERR_MEMORY when refused. */
MUST_USE enum err tokenizer_open(const struct tokenizer_source *source, struct tokenizer **out);
void tokenizer_close(struct tokenizer *t);                  /* NULL is nothing                   */

const struct vocab *tokenizer_vocab(const struct tokenizer *t);
/* The highest id with a token, plus one: padding behind it left out. */
u32 tokenizer_count(const struct tokenizer *t);
const u32 *tokenizer_eos(const struct tokenizer *t, u32 *count_out);    /* all VOCAB_TURN_END ids */
/* The id of an added token's spelling (`<think>`, `<|image_pad|>`), or NONE. */
u32 tokenizer_added(const struct tokenizer *t, const char *spelling);

/* Who wrote a stretch of the text: special tokens count only wholly inside template stretches. */
enum tokenizer_kind { TOKENIZER_TEMPLATE = 0, TOKENIZER_MESSAGE = 1 };
struct tokenizer_segment { u64 end; u8 kind; };             /* [end of the one before, end)      */

struct tokenizer_text {
    const char *bytes;                          /* UTF-8                                         */
    u64 len;
    const struct tokenizer_segment *segments;   /* ends ascending to len; NULL: all is template  */
    u32 segment_count;
    const u64 *marks;                           /* byte positions, ascending                     */
    u64 *mark_tokens;       /* out: index of the first token that starts at or after each mark   */
    u32 mark_count;
    bool reference_specials;                    /* special tokens count everywhere               */
};

/* Ids in growing memory of arena/heap; {0} to start, encodes append. */
struct tokenizer_ids { u32 *id; u64 count; u64 cap; };
void tokenizer_ids_close(struct tokenizer_ids *ids);

/* ERR_FORMAT: not UTF-8 (names the offset); ERR_MEMORY.  On error `ids->count` is as before. */
MUST_USE enum err tokenizer_encode(const struct tokenizer *t, const struct tokenizer_text *text,
                                   struct tokenizer_ids *ids);

/* Appends the ids' bytes, as generated (an id beyond the table gives nothing).  For valid UTF-8 in
 * any cuts run them through text_utf8_feed. */
void tokenizer_decode(const struct tokenizer *t, const u32 *ids, u64 count, struct text *out);

#endif
