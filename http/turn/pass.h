/* http/turn/pass.h - what the passes of the engine thread share: the turn row, the engine's wiring,
 * one prototype a pass.  Nothing outside http/turn and its tests includes it. */
#ifndef TURN_PASS_H
#define TURN_PASS_H

#include "budget/gate.h"
#include "budget/profile.h"
#include "http/turn/conductor.h"
#include "http/turn/drafters.h"
#include "http/turn/engine.h"
#include "http/turn/stop.h"
#include "http/turn/turn.h"
#include "model/slot.h"
#include "tiers/nvme/nvme.h"
#include "tiers/response.h"
#include "tiers/suffix/log.h"
#include "tiers/tier.h"

enum turn_state { TURN_FREE, TURN_QUEUED, TURN_LOADING, TURN_PREFILL, TURN_DECODE, TURN_DONE,
                  TURN_ANSWER };    /* an answer of the response cache is replayed            */

enum {
    PASS_SHORT_ROWS = 128,          /* a chunk while another slot decodes                     */
    PASS_OVER_MAX = 4,              /* a prefill passed over so often goes next               */
    PASS_PAUSE_US = 5000,           /* a paused turn looks again at its ring                  */
    PASS_BLOCK_ROWS = 256,          /* of a block whose model says nothing else               */
    PASS_RECORD_CAP = 4096,         /* record rows, and what a gate is offered                */
};

/* What alignment made of the prompt (replay.c). */
struct replay {
    bool aligned;                   /* the served ids are not the ones sent                   */
    bool no_room;                   /* they would be, but would not fit the context           */
    u64  sent, rows;                /* ids [0, sent) as sent are served as rows [0, rows)     */
    struct generation_list kept;    /* generations of those rows, while it is admitted        */
};

struct turn_row {
    enum turn_state state;
    u32  submit, slot;              /* slot NONE until admitted                               */
    u32  passed_over;
    u64  behind;                    /* a guest, once: number of the request that overtook it  */
    u64  asked;                     /* admission was tried when so many turns had begun and ended */
    u64  number;                    /* order of arrival; also the request's number in logs    */
    u64  prompt_count;
    u64  row_limit;                 /* rows it may ever need: min(ctx, prompt + max_tokens - 1) */
    u64  generated;
    u32  next_id;                   /* sampled, not yet forwarded                             */
    u32  mark_count, mark_next;
    struct turn_mark mark[TURN_MARK_CAP + 1];   /* ascending, each below prompt_count         */
    bool lined;                     /* an anchor was taken on the way                         */
    bool grow_refused;              /* the gate said no at this row_cap                       */
    bool lost;                      /* device error or NaN: the slot's rows are of no use     */
    struct stop_state stop;
    struct conductor_state conductor;
    struct drafters_turn drafters;
    struct turn_drafts drafts[DRAFTER_COUNT];
    u64  forced_at;                 /* next id of a forced answer                             */
    u64  hidden;                    /* generated ids that were never pushed, and where        */
    struct turn_hidden span[TURN_HIDDEN_CAP];
    struct replay replay;
    bool answer_asked;              /* the response cache was                                 */
    u32  entry;                     /* of the response cache that is replayed, or NONE        */
    struct response_answer answer;
    struct tier_hit hit;
    u32  load, loads;               /* LOADING: which restore; restores tried so far          */
    u64  loaded;                    /* number of the record that came of it, or 0             */
    bool lent;                      /* that record is protected for this turn                 */
    struct nvme_record from_disk;   /* what came                                              */
    enum tier_reason disk_reason;   /* why the disk did not give more, or NONE                */
    u64  load_us;                   /* when it began; then how long it took                   */
    struct count_plan lines;        /* lines of its prefill that go to disk                   */
    struct resident_pool pool;
    u64  think_hi;
    u64  restore_us, prefill_us, decode_us;
    u64  wait_until_us, wait_seen;  /* for a displaced tail's memory; files written then      */
    bool wait_dropped;              /* what it waited for was given up                        */
    u64  admit_at_us, first_at_us;
    enum turn_finish finish;
    enum err error;
    char error_text[TURN_ERROR_BYTES];
    u32  stop_id;
    bool by_stop_string, by_memory, nan;
};

struct engine_counts {
    u64 turns, forwarded, generated, prefill_us, decode_us, rounds;
    u64 cancelled, refused, failed, nan, by_memory, evicted;
    u64 aligned, aligned_tokens, aligned_no_room, hidden;
};

struct engine {
    struct engine_setup set;
    u64  ctx;
    u32  slot_count, main_count;    /* all; without the guests' slot                          */
    u32  vocab, kv_node;
    u64 *keys;                      /* [ctx] of the turn being admitted; or of one chunk      */
    u64 *replayed;                  /* [ctx] what alignment tries                             */
    u32 *ids;                       /* [slot_count][ctx] served ids of the turn in each slot  */
    f32 *logits;                    /* [a row a slot, or a round with drafts][vocab]          */
    f32 *kept_logits;               /* [slot_count][vocab] before sampling, or NULL (tests)   */
    u8  *work;                      /* 8 * vocab bytes for the sampler, a row of logits       */
    u32  slot_turn[SLOT_CAP];       /* turn in each slot, or NONE                             */
    u64  admitted;                  /* turns so far                                           */
    bool moved;                     /* some pass did something in this round                  */
    bool check;                     /* tables changed: engine_check has work                  */
    bool over;                      /* what runs holds more than a cap that was lowered       */
    u64  over_ends;                 /* turns and uses of segments over when last looked at    */
    bool draining, drained;
    u64  drain_until_us;
    struct engine_counts counts;
};

/* The turn table (turn.c). */
struct turn_row *turn_at(u32 turn);
u32  turn_next(u32 from);           /* next used row at or after `from`, or NONE              */
u32  turn_oldest(enum turn_state state);        /* least number in that state, or NONE        */
u32  turn_count(enum turn_state state);
u32 *turn_ids(struct engine *e, const struct turn_row *turn);
void turn_end(struct engine *e, struct turn_row *turn, enum turn_finish finish);
/* FINISH_ERROR with the thread's last note. */
void turn_fail(struct engine *e, struct turn_row *turn, enum err error);
/* The same, and what the slot holds is dropped; a start read from disk is not trusted again when
 * it may be the cause. */
void turn_lose(struct engine *e, struct turn_row *turn, enum err error, bool distrust);
void turn_free(u32 turn);
/* The prompt is `prompt_count` ids with these marks from now on: as sent, or as aligned. */
void turn_serve(const struct engine *e, struct turn_row *turn, u64 prompt_count,
                const struct turn_mark *marks, u32 mark_count);
void turn_publish(const struct turn_row *turn, enum submit_state state);
u64  turn_table_bytes(u32 rows);

/* admit.c: the oldest turn waits for memory that a displaced conversation's writes hold: until when
 * nothing need be tried unless a file is written; 0: none does. */
u64  admit_waits_us(void);

/* wants.c: what a placed hit asks for; pure. */
struct wants { struct budget_want want[3]; u32 count; u64 rows; };
void wants_build(const struct engine *e, const struct turn_row *turn, const struct tier_hit *hit,
                 struct wants *out);
/* Rows a turn must get: its prompt and the first reserve-tokens of its answer. */
u64  wants_rows(const struct engine *e, const struct turn_row *turn);
/* All of a guest's rows, shared ones too, fit the stash's cap: others may let go of them. */
bool wants_gross(u32 slot, u64 rows);
/* What one gate needs to carry out a grant: the slot's rows and the turn's anchors. */
struct wants_owner {
    struct engine *e;
    struct turn_row *turn;
    const struct tier_prompt *prompt;
    struct tier_hit hit;
    u64 rows;                       /* the slot shall have                                    */
    u64 now_us;
};
enum err wants_rows_commit(void *owner, u64 bytes);
void     wants_rows_undo(void *owner, u64 bytes);
enum err wants_anchors_commit(void *owner, u64 bytes);
void     wants_anchors_undo(void *owner, u64 bytes);
/* Drops the idle record of another slot that was used longest ago: bytes freed, or 0 when there is
 * none.  And what all of them together would free. */
u64 wants_relieve(struct engine *e, u32 slot);
u64 wants_relief(u32 slot);
/* Everything a gate may take; tables of the engine thread, valid until the next call. */
u32 wants_victims(struct budget_record **records_out, struct budget_shares **shares_out);
/* The gate, with everything it may take; its records are listed only when something lacks. */
enum err wants_gate(const struct engine *e, enum budget_gate_kind kind, u64 turn,
                    const struct budget_want *wants, u32 count, const struct tier_hit *hit,
                    struct budget_plan *plan);

/* load.c: a start on disk that is later than the hit's, and worth it, is read: the turn is LOADING
 * then and true.  False: what the hit names may have gone all the same.  Lines of its prefill that
 * go to disk; one that was passed. */
bool load_start(struct engine *e, struct turn_row *turn, const struct tier_prompt *prompt,
                const struct tier_hit *hit);
void load_plan(struct turn_row *turn, const struct tier_prompt *prompt);
/* The disk's part in why no more was reused, into the turn's hit. */
void load_reason(struct turn_row *turn);
/* The turn is placed, or ends: what was read for it is not lent to it any more.  True: it was, and
 * tier_settle drops it unless its node holds it. */
bool load_return(struct turn_row *turn);
void load_line(struct turn_row *turn, u64 pos);
bool load_busy(void);               /* some turn runs                                         */
/* Start: the conversation used last is read before the first request. */
void load_newest(struct engine *e, u64 deadline_us);
/* Stop: everything worth it is written within --drain-write-s. */
void load_drain(struct engine *e);

/* replay.c: fills `keys` with the prompt as sent; if that parts from the records where they wrote
 * other ids themselves, with the aligned ids, when that starts later.  The turn's prompt and marks
 * are those served; *hit is where it starts. */
void replay_prompt(struct engine *e, struct turn_row *turn, struct tier_prompt *prompt,
                   struct tier_hit *hit);
/* The turn has its record: what it was aligned with is known of these rows too. */
void replay_keep(struct turn_row *turn);

/* command.c: records and rows of each class into the graph's columns, before a dump. */
void command_count_records(struct engine *e);

/* clear.c: a clear row carried out; its answer into `out`.  ERR_NOT_FOUND: no such tier. */
struct command_row;
struct json_out;
enum err clear_tiers(struct engine *e, const struct command_row *row, struct json_out *out);

/* The passes, in order. */
void command_pass(struct engine *e);
void turn_pass(struct engine *e);
void turn_memos(void);                  /* calls that came back go beside their rows          */
void admit_pass(struct engine *e);
void load_pass(struct engine *e);
void answer_pass(struct engine *e);
void prefill_pass(struct engine *e);
void grow_pass(struct engine *e);
void decode_pass(struct engine *e);
void finish_pass(struct engine *e);

/* decode.c: the next id of a turn from `logits` [vocab]; emits it, ends the turn if it is the last.
 * True when the turn can take one now (room in its ring, rows in its slot). */
void decode_sample(struct engine *e, struct turn_row *turn, f32 *logits);
bool decode_ready(const struct turn_row *turn);
/* A guest that decodes stands still until the request that overtook it has been read; its rows
 * stay, and nothing it streamed is produced twice. */
bool decode_waits(const struct turn_row *turn);

/* answer.c: the response cache answers this turn (TURN_ANSWER from now on); it can take an id now;
 * it is over: an answer is kept, a replayed entry let go. */
bool answer_found(struct engine *e, struct turn_row *turn);
bool answer_ready(const struct turn_row *turn);
void answer_over(struct engine *e, struct turn_row *turn);

#endif
