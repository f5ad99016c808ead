/* http/turn/command.h - questions to the engine thread, answered between passes: stats, memory,
 * clear, set, stop.  A row is taken, filled and pushed by an HTTP thread, answered in place. */
#ifndef TURN_COMMAND_H
#define TURN_COMMAND_H

#include "arena/base/err.h"
#include "arena/base/ring.h"

enum command_op { COMMAND_STATS, COMMAND_MEMORY_JSON, COMMAND_MEMORY_TREE, COMMAND_CLEAR,
                  COMMAND_LEDGER, COMMAND_MEMORY_MSGPACK, COMMAND_MEMORY_DOT,
                  COMMAND_MEMORY_FOLDED, COMMAND_SET, COMMAND_OP_COUNT };
enum { COMMAND_ARG_BYTES = 288, COMMAND_CAP = 16, COMMAND_ERROR_BYTES = 256 };

struct command_row {
    enum command_op op;
    char  tier[32];                 /* clear: "" or "all" = every tier; set: the node         */
    char  session[COMMAND_ARG_BYTES];   /* clear: "" = all sessions; set: its cap in bytes,
                                     * decimal, or "none"                                     */
    struct ring_wake *wake;         /* rung when done                                         */
    _Atomic u32 state;              /* 0 free, 1 taken, 2 pushed, 3 done                      */
    enum err    error;
    char        error_text[COMMAND_ERROR_BYTES];
    char       *answer;             /* heap text (arena_heap), NUL-terminated; the taker frees */
    u64         answer_bytes;
};
enum command_state { COMMAND_FREE, COMMAND_TAKEN, COMMAND_PUSHED, COMMAND_DONE };

MUST_USE enum err command_open(u32 table_arena);
/* Any thread: a free row or NONE; its row; push; release after DONE (frees the answer). */
u32 command_take(void);
struct command_row *command_at(u32 command);
void command_push(u32 command);
void command_release(u32 command);

#endif
