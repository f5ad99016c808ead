/* tiers/nvme/disk.h - the disk tier: prefixes of prompts that were read cold more than once.
 *
 * A policy over pieces and counts: which line is a candidate, which lines a prefill leaves behind,
 * how much room there is.  Writes never hold a request: what the writer has no room for is counted
 * and left.  Engine thread. */
#ifndef NVME_DISK_H
#define NVME_DISK_H

#include "tiers/nvme/count.h"
#include "tiers/nvme/rates.h"
#include "tiers/nvme/transfer.h"

struct disk_knobs {
    u64 cap_bytes;                      /* --disk-gb; 0: off                                  */
    u64 floor_bytes;                    /* free on the file system at least                   */
    u64 unused_s;                       /* entries unused for longer go                       */
    struct count_knobs count;
};
struct disk_hit { u32 anchor; u64 start, bytes; };      /* anchor NONE: none                  */
struct disk_counts {
    u64 hits, misses, slower;           /* found; not; found, but forwarding is faster        */
    u64 lines_written, lines_refused, read_failed;
    u64 refused_cap, refused_space, refused_writer, refused_anchor;     /* why lines were refused */
};

MUST_USE enum err disk_open(u32 table_arena, const struct fingerprint *place,
                            const struct disk_knobs *knobs);
void disk_knobs_set(const struct disk_knobs *knobs);
u64  disk_table_bytes(u32 count_cap);

/* The best start above `best_start` and at most `limit` that is worth its bytes.  Reads tables
 * only. */
void disk_find(const u64 (*lines)[2], u64 limit, u64 best_start, const struct rates *rates,
               struct disk_hit *out);

/* Before a prefill: its lines that will get an anchor and have none; and the prompt is counted. */
void disk_plan(const struct count_prompt *prompt, u64 now_s, struct count_plan *out);

/* A prefill stands at line `rows->rows`, its sections copied to `unit` (held by the caller, who may
 * let go after the call): missing chunks and the anchor are queued.  False: refused, counted. */
bool disk_line(const struct transfer_rows *rows, unit_id unit, u64 now_s);
/* A planned line can't be handed over: no anchor was kept there, or its rows are tainted. */
void disk_line_lost(void);

/* Makes room under the cap for anchors on these lines of a record, the highest first, and for the
 * chunks below them; the caller writes them at once.  False: there is none. */
bool disk_room(const u64 (*lines)[2], const u64 *line, u32 count, u64 now_s);

/* Keeps the tier within its knobs; after a knob changed, and now and then. */
void disk_trim(u64 now_s);
/* A line was refused since the last call for want of free space on the file system. */
bool disk_lacks_space(void);

/* Line counts, and the bytes written today, to their file through the writer.  False: not now (one
 * is under way, or the ring is full). */
bool disk_counts_save(void);
#define DISK_COUNTS_OWNER (UINT32_MAX - 1)              /* of its answer                       */
void disk_counts_saved(void);

void disk_served(const struct disk_hit *hit, bool good, u64 now_s);
struct disk_counts disk_counts(void);

#endif
