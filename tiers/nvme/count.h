/* tiers/nvme/count.h - how often a line was read cold, and which lines are worth an anchor.
 *
 * A row a line, by the hash of key ids up to it: times, the day it was last read, the line that
 * followed it first.  A second reader that goes on otherwise makes it a branch.  Rows survive a
 * restart in the file COUNTS; when the table is full the row unread longest gives way.
 * count_plan is pure.  Engine thread. */
#ifndef NVME_COUNT_H
#define NVME_COUNT_H

#include "tiers/nvme/fingerprint.h"

struct line_count_row {
    u64 hash[2];
    u64 after;                          /* low half of the hash of the next line first seen  */
    u32 times;
    u32 day;                            /* days since 1970 of the last cold read              */
    u32 next;                           /* in its bucket                                      */
    u32 branch;                         /* 1: another line followed it once                   */
};
static_assert(sizeof(struct line_count_row) == 40, "65,536 rows and the file are counted on it");

struct count_head {                     /* the file COUNTS: head, then rows without `next`    */
    char magic[8];                      /* "HFCOUNT"                                          */
    u32  version, row_count;
    u8   fingerprint[16];
    u64  day, day_bytes;                /* bytes the writer wrote in that day                 */
    u32  row_crc, crc;                  /* of the rows; of what stands before                 */
};
static_assert(sizeof(struct count_head) == 56, "files depend on it");

enum { COUNT_LAST_LINES = 4, COUNT_PLAN_CAP = COUNT_LAST_LINES + 4 };

/* One prompt: its lines, and where they begin to be forwarded. */
struct count_prompt {
    const u64 (*lines)[2];              /* [line_count] hash of key ids [0, (i + 1) * G)      */
    u64 line_count;
    u64 count;                          /* tokens                                             */
    u64 start;                          /* rows found elsewhere: lines at or below are not read */
    u64 last_user_pos;                  /* where its last user message starts; 0: unknown     */
    bool first_long;                    /* the first long request of its session              */
};
struct count_knobs { u32 admit_after; u64 min_tokens; };

struct count_plan { u64 line[COUNT_PLAN_CAP]; u32 count; };     /* positions, ascending       */

u64 count_table_bytes(u32 row_cap);
/* ERR_MEMORY, ERR_FULL. */
MUST_USE enum err count_open(u32 table_arena, u32 row_cap);

/* Pure.  Lines above `start` that get an anchor: the longest that will have been read `admit_after`
 * times, branches (the longest four), and for a session's first long request the last 4 lines at or
 * below its last user message's start.  Under min_tokens: none. */
void count_plan(const struct count_prompt *prompt, const struct count_knobs *knobs,
                struct count_plan *out);
/* The prompt is read cold from `start`: its lines count once more. */
void count_add(const struct count_prompt *prompt, u64 now_s);
u32  count_times(const u64 hash[2]);    /* 0: not known                                       */
u32  count_rows(void);
u32  count_cap(void);
void count_clear(void);

/* Bytes of the file now; writes it into `to` (count_bytes() long) for the writer. */
u64  count_bytes(void);
void count_put(u8 *to, const struct fingerprint *place, u64 day, u64 day_bytes);
/* The file, if it is there and good; a bad one is forgotten, not an error: counts begin anew. */
void count_load(const struct fingerprint *place, u64 *day_out, u64 *day_bytes_out);

#endif
