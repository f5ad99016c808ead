/* tiers/nvme/transfer.h - rows and sections of a record to files and back: names, what is missing,
 * which reads a start needs.  Used by the disk tier and the session spill alike.
 *
 * Key ids of rows come from the labels of their blocks.  Owns two lists of line hashes, one for
 * prompts and one for records.  Engine thread. */
#ifndef NVME_TRANSFER_H
#define NVME_TRANSFER_H

#include "tiers/nvme/pieces.h"

struct transfer_rows {                  /* a record's, or a part of one                       */
    const block_id *block;              /* [ceil(rows / B)], labels filled                    */
    u64 rows;
    u64 session[2];                     /* whose turn writes them                             */
    u32 turn;                           /* its number while it runs; 0: it is over            */
};

u64 transfer_table_bytes(const struct state_shape *shape, u64 ctx_rows);
MUST_USE enum err transfer_open(u32 table_arena, u64 ctx_rows);

/* Hashes of key ids up to each line within [0, count) or [0, rows): [i] of [0, (i + 1) * G).  Valid
 * until the next call of the same function. */
const u64 (*transfer_prompt(const u64 *keys, u64 count, u64 *line_count_out))[2];
const u64 (*transfer_lines(const struct transfer_rows *rows, u64 *line_count_out))[2];

/* Hash of key ids [0, pos) of a prompt with these lines. */
void transfer_name(const u64 (*lines)[2], const u64 *keys, u64 pos, u64 out[2]);

/* Chunks of rows [0, line) that are not on disk are submitted, those below `from` are known to be;
 * *top_out is the last one's row.  ERR_FULL, ERR_NOT_FOUND as pieces_write: what was submitted
 * stands, the caller drops *top_out if it is not NONE. */
MUST_USE enum err transfer_chunks(const struct transfer_rows *rows, const u64 (*lines)[2], u64 from,
                                  u64 line, bool always, u64 now_s, u32 *top_out);
/* The rows above the last line; rows must not end on one. */
MUST_USE enum err transfer_tail(const struct transfer_rows *rows, const u64 (*lines)[2],
                                bool always, u64 now_s, u32 *tail_out);
/* The sections in `unit`, taken at `pos`. */
MUST_USE enum err transfer_anchor(const struct transfer_rows *rows, const u64 (*lines)[2], u64 pos,
                                  unit_id unit, bool always, u64 now_s, u32 *anchor_out);

struct transfer_ask {
    u32 owner;                          /* given back with each answer                        */
    u32 anchor;                         /* piece                                              */
    u32 cover;                          /* piece with rows [anchor's lo, pos); an anchor on a */
                                        /* line: NONE                                         */
    const u64 *keys;                    /* of the prompt, untouched until the last answer     */
    u64 *learn;                         /* instead: gets the ids of rows [0, pos); then the   */
                                        /* caller compares transfer_name with the anchor's    */
    const block_id *block;              /* the caller's, held: rows [0, pos)                  */
    unit_id unit;                       /* the caller's, held                                 */
};
/* Queues every read of a start at the anchor's hi; each piece is held until its answer.  False: the
 * reader has no room for all of them, nothing is queued. */
MUST_USE bool transfer_load(const struct transfer_ask *ask, u32 *reads_out);
/* The same for one more anchor's sections below that start, alone. */
MUST_USE bool transfer_load_unit(const struct transfer_ask *ask);
/* Reads transfer_load would queue. */
u32 transfer_reads(u32 anchor, u32 cover);
/* Bytes transfer_load would read. */
u64 transfer_bytes(u32 anchor, u32 cover);
/* An answer of the reader: its piece is released, and doomed if the file was bad. */
void transfer_answer(const struct reader_answer *answer);

#endif
