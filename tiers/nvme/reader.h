/* tiers/nvme/reader.h - the I/O thread: files into blocks and units that a turn holds.
 *
 * A read compares every key id before a byte of rows or sections is read, and every checksum after;
 * what it answers OK is exact, anything else leaves the target's bytes undefined and the holder
 * drops it (ERR_STALE: a good file, but of other key ids).  Targets, and the key ids compared, stay
 * the caller's and untouched until the answer.
 * One table of read rows, two bounded rings.  Engine thread but for the thread itself. */
#ifndef NVME_READER_H
#define NVME_READER_H

#include "arena/base/ring.h"
#include "tiers/nvme/fingerprint.h"
#include "tiers/nvme/format.h"

struct reader_setup {
    u32 table_arena;
    u32 row_cap;                        /* power of two                                       */
    const struct fingerprint *place;
    struct ring_wake *wake;             /* rung by each answer, or NULL                       */
    bool thread;                        /* false: tests call reader_step                      */
};

struct reader_blob {
    char name[FORMAT_NAME_BYTES];       /* in the folder                                      */
    u64  cap_bytes;                     /* ERR_LIMIT over it                                  */
    u8  *bytes;                         /* heap memory, the asker's to free after the answer  */
    u64  count;
};

struct reader_ask {
    u32 owner, piece;                   /* given back with the answer                         */
    enum format_kind kind;
    u64 hash[2];                        /* the file's name                                    */
    u64 lo, hi;                         /* as its head must say                               */
    u64 rows_hi;                        /* rows asked for: [lo, rows_hi), <= hi               */
    const u64 *keys;                    /* [rows_hi - lo], the caller's                       */
    u64 *learn;                         /* instead: gets them; the caller compares their hash */
    const block_id *block;              /* chunk, tail: as many as rows [lo, rows_hi) need    */
    unit_id unit;                       /* anchor                                             */
    struct reader_blob *blob;           /* instead of all this: the whole file `blob->name`   */
};

struct reader_answer { u32 owner, piece; enum err err; u64 bytes, us; };

struct reader_counts { u64 bytes, files, failed, refused; };

u64 reader_table_bytes(const struct state_shape *shape, u32 row_cap);
/* After state_open.  ERR_MEMORY, ERR_FULL, ERR_IO (no thread). */
MUST_USE enum err reader_open(const struct reader_setup *setup);
void reader_close(void);

/* False: no row is free. */
MUST_USE bool reader_submit(const struct reader_ask *ask);
u32 reader_room(void);
bool reader_done(struct reader_answer *out);
/* Without a thread: carries out one row; false: none is queued. */
bool reader_step(void);
struct reader_counts reader_counts(void);

#endif
