/* tiers/nvme/kept.h - what is known of each record's entry on disk, and which record of a session
 * may go over it.
 *
 * Written is what the session's turns of this life left: the record on which a turn was answered
 * last, or a later one that a turn left on the way (cancelled while it read, failed, cut) when it
 * has no fewer rows.  One answer alone, begun below half of a longer conversation of the session,
 * is a request beside it (a title where nothing was resident) until it is gone on with.  Each is
 * held against what stood when it came, the entry on disk first.  A record on which no turn of its
 * session ended (read back, then refused) is never written.  Engine thread. */
#ifndef NVME_KEPT_H
#define NVME_KEPT_H

#include "arena/base/base.h"
#include "arena/base/err.h"

struct kept_row {
    u64 number, session[2];             /* the record's                                       */
    u64 saved_rows, saved_us;
    u64 whole_rows;                     /* its rows as an answered turn left them, or 0       */
    u64 most_rows;                      /* the most since then, whatever left them            */
    u64 turn_us;                        /* end of its last turn in this life                  */
    u64 start, answers;                 /* where its first answered turn began; how many, since */
                                        /* one that began below half of what it was           */
    bool boot;                          /* it came back at the start and was not used yet     */
};

u64 kept_table_bytes(u32 record_cap);
MUST_USE enum err kept_open(u32 table_arena, u32 record_cap);
struct kept_row *kept_of(u32 record);

/* A turn that began at `start` ended on the record. */
void kept_turn_over(u32 record, u64 start, bool answered, u64 now_us);
/* A save of the session failed or was evicted: what was thought written is not.  `saving`: one is
 * under way. */
void kept_check(u32 record, bool saving);
/* Conversations that may be written: never guests, tails, or what only repeats another record. */
bool kept_writable(u32 record);
/* It is the one of its session to be written, over what is on disk. */
bool kept_newest(u32 record);

#endif
