/* tiers/nvme/pieces.h - the table of files: chunks, tails and anchors, who uses them, who goes.
 *
 * A row is a file that is on the disk (READY) or being written.  It stands on the chunk below it by
 * name (format.h), so an anchor's chunks are a walk down: it is usable when the walk reaches row 0
 * and every file on it is READY.  A piece lives while it is used: by the chunk above it, by the
 * anchor at its line, by a spilled conversation (pieces_use); a line's anchor is itself kept by
 * value.  Users are counted anew at start.  Bytes count as disk when a line's anchor stands on
 * them, else as spill.  Removing is a row of the writer; a file of a row that is gone is removed at
 * the next start at the latest.
 *
 * Owned by the engine thread. */
#ifndef NVME_PIECES_H
#define NVME_PIECES_H

#include "tiers/nvme/fingerprint.h"
#include "tiers/nvme/format.h"
#include "tiers/nvme/reader.h"
#include "tiers/nvme/writer.h"

enum piece_state { PIECE_FREE, PIECE_WRITING, PIECE_READY };
enum { PIECES_HALF_LIFE_S = 86400 };

struct piece_row {
    u64 name[2], below[2];              /* hash of key ids [0, hi), [0, lo)                   */
    u64 lo, hi;
    u64 sums[2];
    u64 session[2];                     /* whose turn wrote it first                          */
    u64 bytes;                          /* of the file                                        */
    u64 used_s;                         /* wall seconds of its last use                       */
    u32 hits;
    u32 users;                          /* chunks above, the line's anchor, conversations     */
    u32 disk_users;                     /* of them: chunks above that are disk's, the anchor  */
    u32 reads;                          /* in flight, or held for a turn                      */
    u32 next;                           /* in its bucket; NONE ends it                        */
    u8  kind;                           /* enum format_kind                                   */
    u8  state;                          /* enum piece_state                                   */
    u8  doomed;                         /* goes when its write is answered                    */
    u8  linked;                         /* counted among users and bytes                      */
    u8  marks;                          /* bits of enum piece_mark                            */
    u8  reserved[3];                    /* 0                                                  */
    u32 turn;                           /* of this life, on whose way it was written, or 0    */
};
static_assert(sizeof(struct piece_row) == 128, "16,384 rows are counted on it");

struct pieces_counts {
    u64 disk_bytes, spill_bytes;        /* of rows, charged once                              */
    u32 rows, anchors;                  /* line anchors                                       */
    u64 bad, evicted, aged, found_at_start, removed_at_start;
};

u64 pieces_table_bytes(u32 row_cap);
/* An empty table.  ERR_MEMORY, ERR_FULL. */
MUST_USE enum err pieces_open(u32 table_arena, u32 row_cap, const struct fingerprint *place);
/* Reads every head in the folder; what is no good file of ours goes: *.tmp, broken heads, chunks
 * whose chain does not reach row 0, what the table has no room for. */
MUST_USE enum err pieces_scan(u64 now_s);
/* Removes what nobody uses; after conversations have said what they use. */
void pieces_sweep(void);

/* The row of that name, READY or being written, or NONE. */
u32 pieces_find(enum format_kind kind, const u64 name[2]);
struct piece_row *pieces_row(u32 piece);
u32 pieces_next(u32 from);              /* next row in use at or after, or NONE               */

/* The chunk below a piece's rows (its `below`), or NONE; an anchor on a line: the chunk of its own
 * name. */
u32 pieces_below(u32 piece);
/* True when the piece and every chunk below it are READY and none is doomed; an off-line anchor's
 * tail is its conversation's affair. */
bool pieces_complete(u32 piece);
/* The line anchor with the largest hi <= limit that is complete, where lines [i] is the hash of key
 * ids [0, (i + 1) * G); NONE. */
u32 pieces_best(const u64 (*lines)[2], u64 limit);
/* Bytes to read for an anchor: its file and chunks below down to row `from`. */
u64 pieces_chain_bytes(u32 piece, u64 from);

/* A file to be: its row, WRITING, and its write submitted with owner = its row.  When it is there
 * already the row is given and nothing is written.  Its chunk below must have a row
 * (ERR_NOT_FOUND).  ERR_FULL: the table or the writer has no room, or the day's bytes are used up,
 * or an old file of that name is about to go; nothing is changed. */
MUST_USE enum err pieces_write(const struct writer_ask *ask, u64 now_s, u32 *piece_out);
/* The writer's answer: READY, or doomed with everything that stands on it. */
void pieces_written(u32 piece, enum err err);

/* A conversation uses / no longer uses this piece (and with it all below). */
void pieces_use(u32 piece);
void pieces_unuse(u32 piece);
/* A turn is about to read it: neither evicted nor removed before the release. */
void pieces_hold(u32 piece);
void pieces_release(u32 piece);
/* It served a resume. */
void pieces_hit(u32 piece, u64 now_s);

/* A file failed: it is doomed with every piece that stands on it.  Then conversations let go of
 * what is doomed (spill_check), then pieces_reap removes what nobody uses, reads or writes. */
void pieces_doom(u32 piece);
void pieces_reap(void);
/* The same for all that went to disk on the way of a turn (writer_ask.turn): its rows are not
 * trusted. */
void pieces_doubt(u32 turn);
/* Dooms one piece that nobody uses, and reaps; chunks below that lose their last user go too. */
void pieces_drop(u32 piece);
/* Drops line anchors, the least valuable first, until disk_bytes + need <= cap; false: could not.
 * `unused_s` > 0: anchors unused for longer go first, whatever they are worth. */
bool pieces_evict(u64 cap_bytes, u64 need_bytes, u64 unused_s, u64 now_s);
/* All line anchors, and what they alone used. */
void pieces_clear(void);

/* What a session alone has among line anchors: begin, mark the chains of its conversations and of
 * all others from their top chunks down, then forget dooms what it wrote or stands on and no other
 * stands on; how many.  Reaped by the caller. */
enum piece_mark { PIECE_ITS = 1, PIECE_OTHERS = 2 };
void pieces_unmark(void);
void pieces_mark(u32 top, enum piece_mark mark);
u32  pieces_forget(const u64 session[2]);

struct pieces_counts pieces_counts(void);
void pieces_check(void);                /* users and bytes are what a walk finds              */

#endif
