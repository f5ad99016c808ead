/* tiers/suffix/words.h - a segment of the suffix log as words: what a file and memory hold alike.
 *
 *   16 words   struct words_file
 *   a record   8 words struct words_record, then `count` ids (a word each)
 *   ...        records to the end
 *
 * A word of a record's head has its highest bit set, so that no id is one (ids are below
 * WORDS_ID_CAP) and no suffix runs from one record into another; memory is the file's image and is
 * written from where it lies.  Ids only, never text.  Every record is under its own checksum: what
 * a killed process left half written is no record, and the segment ends before it.  Pure. */
#ifndef SUFFIX_WORDS_H
#define SUFFIX_WORDS_H

#include "arena/base/err.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files hold words as they are");

enum {
    WORDS_VERSION = 1,
    WORDS_ID_CAP = 0xFFFFFF,            /* ids are below: three bytes, and one word to spare  */
    WORDS_FILE = 16, WORDS_RECORD = 8,  /* words of the heads                                 */
    WORDS_CAP = 1u << 28,               /* words of a file at most                            */
};

struct words_file {
    char magic[8];                      /* "HFIDS"                                            */
    u32  version;                       /* WORDS_VERSION                                      */
    u32  vocab;                         /* ids are below                                      */
    u8   tokenizer[16];                 /* what the ids stand for                             */
    u64  number;                        /* of the segment: later ones are newer               */
    u32  reserved[5];                   /* 0                                                  */
    u32  crc;                           /* of what stands before                              */
};
static_assert(sizeof(struct words_file) == 4 * WORDS_FILE, "files depend on it");
static_assert(offsetof(struct words_file, number) == 32, "files depend on it");
static_assert(offsetof(struct words_file, crc) == 60, "files depend on it");

struct words_record {
    u32 mark;                           /* WORDS_MARK                                         */
    u32 count;                          /* ids behind it, > 0; highest bit set                */
    u32 session[4];                     /* 4 x 31 bits of the session's hash, bits set        */
    u32 crc[2];                         /* 2 x 16 bits over the words before and the ids      */
};
static_assert(sizeof(struct words_record) == 4 * WORDS_RECORD, "files depend on it");
#define WORDS_MARK 0xA5D1F00Du

/* Whether a word is an id (of some vocabulary), not of a head. */
static inline bool words_id(u32 word) { return word < WORDS_ID_CAP; }

/* A file's head into its 16 words. */
void words_begin(u32 *to, const u8 tokenizer[16], u32 vocab, u64 number);
/* The head of `bytes` bytes: ERR_FORMAT, ERR_CRC, ERR_STALE (other ids) say what is wrong. */
MUST_USE enum err words_check(const u32 *words, u64 bytes, const u8 tokenizer[16], u32 vocab,
                              u64 *number_out);

/* A record of `count` > 0 ids into `to` [WORDS_RECORD + count]; the words written. */
u64 words_put(u32 *to, const u64 session[2], const u32 *ids, u32 count);

/* Words [0, returned) are whole records (the file's head first); what stands behind is not.
 * *ids_out, when not NULL, is how many ids they hold. */
u64 words_valid(const u32 *words, u64 count, u32 vocab, u64 *ids_out);

/* The same words without the records of a session; of whole records only.  `to` may be `from`. */
u64 words_without(const u32 *from, u64 count, const u64 session[2], u32 *to);
/* Ids that a session has in them. */
u64 words_of_session(const u32 *words, u64 count, const u64 session[2]);

#endif
