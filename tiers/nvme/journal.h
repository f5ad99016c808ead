/* tiers/nvme/journal.h - write-behind: which conversations, when; and the drain.
 *
 * journal_plan is pure: from what the engine knows of its conversations to the ones to save now.
 * journal_answers hands the writer's answers to whom they belong.  Engine thread. */
#ifndef NVME_JOURNAL_H
#define NVME_JOURNAL_H

#include "tiers/nvme/disk.h"
#include "tiers/nvme/spill.h"

struct journal_knobs {
    u64 idle_us;                        /* --journal-idle-s 5                                 */
    u64 every_us;                       /* --journal-every-s 60                               */
    u64 rows_min;                       /* 4,096 new rows                                     */
};

struct journal_talk {                   /* one live or parked conversation                    */
    u64 rows;
    u64 written;                        /* rows its manifest on disk covers                   */
    u64 saved_us;                       /* when that was last tried, monotonic; 0: never      */
    u64 turn_us;                        /* end of its last finished turn; 0: none             */
    bool busy;                          /* a turn writes it                                   */
    bool guest;                         /* never written                                      */
    bool parked;                        /* its unwritten pieces are queued at once            */
    bool saving;                        /* a save is under way                                */
};

/* Indices of talks to save now, the one used last first; how many.  `idle_us`: since when nothing
 * runs at all (0: something runs).  What is over a cap is refused by spill_save. */
u32 journal_plan(const struct journal_talk *talk, u32 count, const struct journal_knobs *knobs,
                 u64 now_us, u64 idle_us, u32 *out);
/* When journal_plan may next say more with nothing else changed; UINT64_MAX: never. */
u64 journal_due_us(const struct journal_talk *talk, u32 count, const struct journal_knobs *knobs,
                   u64 idle_since_us);

/* Takes all answers of the writer: holds dropped, pieces and entries moved on.  True: some. */
bool journal_answers(void);

struct journal_drained { u32 saved, missed; };
/* Saves these one after another, each manifest complete before the next begins, until the deadline
 * (clock_us).  Waits for the writer. */
void journal_drain(const struct spill_source *source, u32 count, u64 deadline_us, u64 now_s,
                   struct journal_drained *out);

#endif
