/* tiers/nvme/spill.h - whole conversations on disk: manifests over pieces.
 *
 * spill_save submits what is not on disk yet and remembers the manifest; spill_pass writes it once
 * every file it names is READY, so that a manifest on disk is always whole; then the session's
 * older entry lets go of its files.  A manifest is removed before its pieces.  Reading never
 * deletes an entry: policy or a failed check does.  Engine thread. */
#ifndef NVME_SPILL_H
#define NVME_SPILL_H

#include "tiers/anchors.h"
#include "tiers/nvme/manifest.h"
#include "tiers/nvme/rates.h"
#include "tiers/nvme/transfer.h"

enum spill_state { SPILL_FREE, SPILL_PIECES, SPILL_MANIFEST, SPILL_COMPLETE };

struct spill_row {
    struct manifest talk;               /* what the manifest says                             */
    u32 top, tail;                      /* pieces in use by it, or NONE                       */
    u32 anchor[MANIFEST_ANCHORS];       /* off-line anchors in use; a line's are the disk's   */
    u32 reads;                          /* turns that load from it                            */
    u64 used_us;                        /* monotonic, of its last turn; 0: in another life    */
    u8  state;                          /* enum spill_state                                   */
    bool forget;                        /* cleared while its manifest is written              */
    struct pack_out file;               /* the manifest's bytes until it is written           */
};

/* A conversation as it stands in memory. */
struct spill_source {
    u64 session[2];
    struct transfer_rows rows;
    const struct anchor_list *anchors;  /* the newest that fit are kept, ends before all      */
    const struct generation_list *generations;
    u64 head_pos, taint, hits;
    u64 used_s;                         /* wall seconds of its last turn; 0: now              */
    u64 used_us;                        /* monotonic time of it                               */
    u64 from;                           /* rows below are known to be on disk                 */
    bool always;                        /* drain: the day's cap does not count                */
};
struct spill_hit {
    u32 row, anchor, cover;             /* row NONE: none                                     */
    u64 start, bytes;
    bool slow;                          /* a later start was not worth its bytes              */
};

struct spill_counts {
    u64 saves, complete, failed, refused, dropped, restored, read_failed, found_at_start,
        bad_at_start;
    u32 rows;
};

u64 spill_table_bytes(u32 row_cap);
MUST_USE enum err spill_open(u32 table_arena, u32 row_cap, const struct fingerprint *place,
                             u64 cap_bytes);
void spill_close(void);
/* Reads the manifests of the folder; after pieces_scan, before pieces_sweep.  One that is bad, or
 * whose rows are not all there, goes. */
MUST_USE enum err spill_scan(void);
/* Its cap, and what it leaves free on the file system. */
void spill_cap(u64 bytes, u64 floor_bytes);
u64  spill_cap_bytes(void);

/* Its state, or NONE. */
u32 spill_session(const u64 session[2]);
struct spill_row *spill_at(u32 row);
u32 spill_next(u32 from);

/* Submits a save; *row_out its row in SPILL_PIECES.  Anchors on lines are the disk tier's: those
 * that it has room for are kept, the newest first.  ERR_FULL: one of that session is under way, no
 * row or writer room, no anchor is kept; ERR_LIMIT: no bytes under the cap, on the file system or
 * left today, its text says how many and which limit.  Counted, nothing is kept of it. */
MUST_USE enum err spill_save(const struct spill_source *source, u64 now_s, u32 *row_out);
/* Moves saves on; after the writer's answers were handed to pieces and to spill_written. */
void spill_pass(void);
void spill_written(u32 row, enum err err);
bool spill_busy(void);                  /* a save is under way                                */

/* The best start above `best_start` and at most `limit`; reads tables only. */
void spill_find(const u64 (*lines)[2], const u64 *keys, u64 limit, u64 best_start,
                const struct rates *rates, struct spill_hit *out);
/* An entry's last anchor whose files are there; false: none.  Whether a save of that session is
 * under way. */
bool spill_end(u32 row, struct spill_hit *out);
bool spill_saving(const u64 session[2]);
/* The generations of an entry up to a start, from its file's bytes, into an empty list.  ERR_STALE:
 * the file is a newer entry's. */
MUST_USE enum err spill_generations(const struct manifest *talk, const u8 *bytes, u64 count,
                                    u64 start, struct generation_list *list);
/* The row still is this entry. */
bool spill_is(u32 row, const struct manifest *talk);
void spill_served(const struct spill_hit *hit, bool good, u64 now_s);

/* Entries that use doomed pieces go, and those that lost their last anchor; after pieces_doom. */
void spill_check(void);
/* Forgets one session, or (NULL) all; how many entries.  One whose manifest is being written goes
 * when that is answered. */
u32 spill_clear(const u64 session[2]);
/* Entries go, the least valuable first, until spill_bytes + need <= cap. */
bool spill_evict(u64 need_bytes, u64 now_s);
struct spill_counts spill_counts(void);

#endif
