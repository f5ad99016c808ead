/* http/turn/ledger.h - one row a finished turn: where it started, what it read, how long it took;
 * kept in a ring, written as one log line.  Never any text of a request. */
#ifndef TURN_LEDGER_H
#define TURN_LEDGER_H

#include "http/turn/turn.h"

enum { LEDGER_CAP = 1024 };

struct ledger_row {
    u64 number;                     /* of the turn                                            */
    u64 session;                    /* first half of the session's hash                       */
    u64 at_us;                      /* monotonic, when it ended                               */
    u64 prompt, cached, forwarded, generated;
    u64 part_pos;                   /* or UINT64_MAX                                          */
    u64 queue_us, restore_us, prefill_us, ttft_us, decode_us;
    struct turn_drafts drafts[DRAFTER_COUNT];
    u32 slot;                       /* or NONE: never admitted                                */
    u8  source, reason, finish, error;      /* enums of turn.h and err.h                      */
    u8  by_memory, by_stop_string, served, guest, reserved[4];
};

u64 ledger_table_bytes(void);
MUST_USE enum err ledger_open(u32 table_arena);
/* Copies the row into the ring and logs its line at level info. */
void ledger_add(const struct ledger_row *row);
/* Row `back` turns ago (0: the newest), or NULL; rows so far. */
const struct ledger_row *ledger_row(u32 back);
u64 ledger_count(void);
extern const char *const ledger_finish_word[FINISH_ERROR + 1];

#endif
