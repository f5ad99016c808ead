/* model/text/bpe.h - byte-pair merging by rank: one piece of bytes -> ids.
 *
 * Filled by tokenizer_file, read-only after that.  A piece is merged lowest rank first, leftmost
 * first among equals: up to 64 symbols by scanning, longer ones by a heap in O(n log n), so that a
 * megabyte without a blank costs no more than one with.  Memory from arena/heap. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "arena/base/base.h"
#include "arena/base/err.h"
#include "arena/base/text.h"
#include "arena/base/vocab.h"

struct bpe_merge { u32 left, right; u32 rank, result; };        /* left NONE: free slot          */

struct bpe {
    const struct vocab *vocab;
    u32 byte_id[256];
    struct bpe_merge *merges;       /* open addressing, merge_slots a power of two               */
    u64 merge_slots;
    u32 *pieces;                    /* id + 1 by hash of its bytes; 0: free                      */
    u64 piece_slots;
    bool ignore_merges;             /* a piece that is a token is that token                     */
};

/* Tables for the filled `vocab` and at most `merge_cap` merges.  Ids with skip[id] != 0 (added
 * tokens) are never found; of equal bytes the first id is.  ERR_MEMORY; ERR_FORMAT when a byte has
 * no token of its own. */
MUST_USE enum err bpe_open(struct bpe *b, const struct vocab *vocab, const u8 *skip,
                           u64 merge_cap);
void bpe_close(struct bpe *b);
u32 bpe_find(const struct bpe *b, const char *bytes, u64 len);  /* id of these bytes, or NONE    */

/* Merge number `rank`; a pair given twice keeps the later rank.  ERR_FORMAT: a part or the joined
 * bytes are no token. */
MUST_USE enum err bpe_merge_put(struct bpe *b, u32 rank, struct text_span left,
                                struct text_span right);

/* Scratch of one caller, for pieces past the scanned length. */
struct bpe_scratch { void *bytes; u64 cap; };
void bpe_scratch_close(struct bpe_scratch *s);

/* Ids of bytes[0, len) into out[0, len), their count in *count_out.  ERR_MEMORY; ERR_LIMIT past
 * 2^31 bytes. */
MUST_USE enum err bpe_piece(const struct bpe *b, const char *bytes, u64 len,
                            struct bpe_scratch *scratch, u32 *out, u64 *count_out);

#endif
