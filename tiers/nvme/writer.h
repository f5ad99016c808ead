/* tiers/nvme/writer.h - the thread that writes: pieces from where they live, blobs, removals.
 *
 * One table of write rows and two bounded rings.  writer_submit fills a row on the engine thread:
 * blocks and units are held once more as HOLD_WRITING until writer_done gives the answer, so that
 * cancelling, evicting or clearing never frees bytes under the writer.  Rows are carried out in the
 * order of submission.  Rows [lo, hi) at submit are what is written: the rest of the last block is
 * zeros in the file.  Nothing waits for the writer but writer_drain.
 *
 * Engine thread but for the thread itself. */
#ifndef NVME_WRITER_H
#define NVME_WRITER_H

#include "arena/base/ring.h"
#include "tiers/nvme/fingerprint.h"
#include "tiers/nvme/format.h"

struct writer_setup {
    u32 table_arena;                    /* rows, keys, block lists, a bounce buffer           */
    u32 row_cap;                        /* power of two                                       */
    u32 remove_cap;                     /* removals that may wait for a row                   */
    const struct fingerprint *place;
    struct ring_wake *wake;             /* rung by each answer, or NULL                       */
    bool thread;                        /* false: tests call writer_step                      */
    u64 day_cap_bytes;                  /* over it only writes with `always` are taken        */
};

enum writer_kind { WRITER_PIECE, WRITER_BLOB, WRITER_APPEND, WRITER_REMOVE,
                   WRITER_FOLDER };     /* of another model, with all that is in it           */

struct writer_ask {
    enum writer_kind kind;
    u32 owner;                          /* given back with the answer                         */
    bool always;                        /* drain, eviction: the day's cap does not count      */
    char name[FORMAT_NAME_BYTES];       /* BLOB, APPEND, REMOVE: in the folder; FOLDER: beside */
    const char *folder;                 /* of the former; NULL: the fingerprint's             */
    /* PIECE */
    enum format_kind piece;
    u64 hash[2], below[2], sums[2], session[2];
    u64 lo, hi;
    u32 turn;                           /* on whose way it is written, or 0: for pieces_doubt */
    const u64 *keys;                    /* [hi - lo], copied                                  */
    const block_id *block;              /* chunk, tail: blocks of rows [lo, hi)               */
    unit_id unit;                       /* anchor                                             */
    /* BLOB (old or new, never half), APPEND (behind what the file has, synced): the bytes stay the
     * caller's, untouched until the answer */
    const void *bytes;
    u64 byte_count;
    u64 offset;                         /* APPEND                                             */
};

struct writer_answer {
    u32 owner;
    enum writer_kind kind;
    enum err err;
    u64 bytes, us;
    const char *folder;                 /* as asked                                           */
};

struct writer_counts {
    u64 cancelled;                      /* pieces given up before they were begun             */
    u64 bytes, files, failed, refused_full, refused_day, removed;
    u64 piece_bytes, piece_us;          /* of pieces: the rate                                */
    u64 day, day_bytes;                 /* days since 1970; bytes written in it               */
};

u64 writer_table_bytes(const struct state_shape *shape, u32 row_cap, u32 remove_cap);
/* After state_open.  ERR_MEMORY, ERR_FULL, ERR_IO (no thread). */
MUST_USE enum err writer_open(const struct writer_setup *setup);
/* Carries out what is queued, takes the answers' holds back, ends the thread. */
void writer_close(void);

/* False: no row is free, or the day's bytes are used up; counted, nothing held. */
MUST_USE bool writer_submit(const struct writer_ask *ask);
/* A file of the folder goes.  Without a row it waits for one, before all that is submitted later;
 * `remove_cap` is as many as there can be files. */
void writer_remove(const char *name);
/* Pieces that the thread has not begun: their holds are dropped now, they are answered
 * ERR_CANCELLED.  How many. */
u32  writer_cancel(void);
/* Rows that writer_submit would still take. */
u32 writer_room(void);
/* The next answer, its holds dropped; false: none now. */
bool writer_done(struct writer_answer *out);
/* Without a thread: carries out one row; false: none is queued. */
bool writer_step(void);
u32 writer_pending(void);               /* submitted or waiting, not taken by writer_done     */
/* Waits until every row is carried out, or clock_us() reaches `deadline_us`; false: not all. */
bool writer_drain(u64 deadline_us);

struct writer_counts writer_counts(void);
/* Bytes free on the file system as of the last file that came or went, or a second ago: to ask it
 * could wait. */
u64  writer_space(void);
bool writer_space_told(void);           /* else it would not say: that counts as none          */
/* What an earlier process wrote that day. */
void writer_day_set(u64 day, u64 bytes);
void writer_day_cap(u64 bytes);
/* Bytes that today's cap leaves to writes without `always`; a new day begins with the whole cap. */
u64  writer_day_left(void);

#endif
