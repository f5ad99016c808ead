/* http/turn/drafters.h - who proposes the ids behind the next one, how many, and what came of it.
 *
 * A round's drafters compete by expected gain: ids a microsecond, from measured acceptance (by
 * drafter and by how much speaks for the id: length of the match, place in the chain) and measured
 * cost (tables of rounds' times, and the drafter's own time).  Asking one that does not pay
 * is paid from an allowance of half a percent of the rounds' time, so that `auto` costs next to
 * nothing where nothing repeats.  `mtp` and `lookup` alone always propose: their proposals, and so
 * what is accepted, depend on ids and state only, never on a clock.
 *
 * Nothing here decides an id: decode.c samples every row as plain decoding would and keeps the rows
 * whose ids were proposed.  Engine thread; tables of fixed size. */
#ifndef TURN_DRAFTERS_H
#define TURN_DRAFTERS_H

#include "budget/profile.h"
#include "http/turn/turn.h"

enum {
    DRAFTERS_MOST = 31,             /* ids of a proposal; --draft-max is at most that         */
    DRAFTERS_ROWS = 62,             /* of a round at most                                     */
    DRAFTERS_TAIL = 256,            /* proposals remembered                                   */
    DRAFTERS_CHAIN = 4,             /* ids of the draft head: trained for 1, more decay       */
    DRAFTERS_SLOTS = 2,             /* slots that may propose --draft-max ids in one round    */
};

struct engine;
struct turn_row;
struct json_out;                    /* arena/base/json.h                                      */

/* Of a turn, zero at its start. */
struct drafters_turn {
    f64  allowance_us[DRAFTER_COUNT];   /* for asking one that does not pay                   */
    bool paying[DRAFTER_COUNT];         /* its last proposal was worth its rows               */
    bool begun;
};

/* A round being put together: a row a slot, drafts behind them, ids they shall bring. */
struct drafters_round { u32 rows, drafts, rows_most; f64 ids; };

struct drafters_block {             /* what one slot forwards in a round                      */
    u32 ids[DRAFTERS_MOST + 1];     /* the next id, then the proposal                         */
    u32 count;                      /* ids proposed                                           */
    enum turn_drafter drafter;
    u32 match;                      /* lookup: ids that matched                               */
    u32 chain;                      /* ids that the draft head shall propose; then 0          */
};

/* Rows of the verifications of one round: model_room.verify_rows and rows of logits.  Pure. */
u32 drafters_rows(const struct profile_row *profile, u32 slot_count);

/* Mode and caps of the profile; ids from `candidates` on are padding.  The mode becomes off, with a
 * log line, where the backend's rows depend on their batch: as decoded rows of a session they would
 * only taint more, and what is verified would not be what a plain step computes. */
void drafters_open(const struct profile_row *profile, u32 candidates);
/* Most ids a proposal may have; 0: drafting is off. */
u32 drafters_most(void);

/* Fills `block` for each of `count` turns that decode: its next id and at most `most` ids behind
 * it.  The draft head is asked for all of them together. */
void drafters_propose(struct engine *e, const u32 *turns, const u32 *most, u32 count,
                      struct drafters_round *round, struct drafters_block *block);
/* The first `accepted` ids of a proposal were right; `wrong`: the one behind them was not. */
void drafters_judge(struct turn_row *turn, const struct drafters_block *block, u32 accepted,
                    bool wrong);
/* A round of so many slots' rows and drafts took so long, drafting aside. */
void drafters_spent(u32 rows, u32 drafts, u64 spent_us);

/* For stats and tests. */
struct drafters_counts {
    u64 asked, silent;              /* silent: it had nothing to propose                      */
    u64 unpaid;                     /* proposed, but not worth a row                          */
    u64 blocks, drafted, accepted;
    u64 ask_us, times;              /* of how many asks together                              */
};
struct drafters_row { u64 turn; u32 drafter, drafted, accepted, reserved; };
const struct drafters_counts *drafters_counted(enum turn_drafter drafter);
/* Proposals of which exactly `accepted` ids were right. */
u64 drafters_accepted(u32 accepted);
/* Proposal `back` ago (0: the newest), or NULL. */
const struct drafters_row *drafters_row(u32 back);
/* Expected time of a round of one slot and so many rows; 0: none was measured. */
f64 drafters_cost_us(u32 rows);
const char *drafters_mode(void);
/* Key `drafts` of the stats: mode, counters, what rounds cost by rows, the last proposals as
 * [drafter, ids, right ones]. */
void drafters_dump(struct json_out *out);

#endif
