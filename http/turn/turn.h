/* http/turn/turn.h - what crosses between HTTP threads and the engine thread, and the turn table.
 *
 * An HTTP thread takes a free submit row, fills it, pushes its index and never touches the columns
 * marked `engine` until it reads state SUBMIT_DONE.  The engine thread turns it into a turn row,
 * moves that through its states, pushes token ids into the submit row's out ring and at the end
 * writes the result and SUBMIT_DONE.  A client that goes away is a cancel flag: the row still comes
 * to DONE, and only then may it be released.  No locks; no pointer but into the row's own request
 * memory, which its HTTP side keeps until DONE. */
#ifndef TURN_TURN_H
#define TURN_TURN_H

#include "arena/base/err.h"
#include "arena/base/ring.h"
#include "model/logprob.h"
#include "model/sample.h"
#include "tiers/end.h"

enum {
    TURN_STOP_CAP = 16,             /* stop strings a request                                 */
    TURN_STOP_BYTES = 256,          /* bytes of one                                           */
    TURN_MARK_CAP = 8,
    TURN_OUT_IDS = 1024,            /* ids waiting for the HTTP side; a full ring pauses decode */
    TURN_LOGPROBS = 128,            /* their log-probabilities likewise, when asked for       */
    TURN_ERROR_BYTES = 256,
    TURN_CALL_CAP = 64,             /* calls of one answer that are remembered                */
};

enum turn_mark_kind { MARK_HEAD, MARK_USER, MARK_TOOL, MARK_LAST };
struct turn_mark { u64 pos; u32 kind; u32 reserved; };  /* an anchor is wanted after `pos` rows */

enum submit_state {
    SUBMIT_FREE, SUBMIT_TAKEN,      /* the HTTP side's                                        */
    SUBMIT_QUEUED,                  /* pushed; waits for a slot                               */
    SUBMIT_PREFILL, SUBMIT_DECODE,  /* admitted: start, source and cached are known           */
    SUBMIT_DONE,                    /* result complete; the row is the HTTP side's again      */
};

enum turn_finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED, FINISH_ERROR };
enum turn_source { SOURCE_COLD, SOURCE_GRID, SOURCE_TURN, SOURCE_END, SOURCE_PIN, SOURCE_PARK,
                   SOURCE_STORE, SOURCE_DISK, SOURCE_SPILL, SOURCE_RESPONSE, SOURCE_COUNT };
enum turn_reason { REASON_NONE, REASON_PARTED, REASON_SHORT, REASON_NEVER_SEEN, REASON_MEMORY,
                   REASON_OFF, REASON_CONTEXT, REASON_SLOW_READ, REASON_FAILED_CHECK,
                   REASON_COUNT };
enum turn_served { SERVED_SENT, SERVED_ALIGNED, SERVED_COUNT };     /* which prompt policy    */
enum turn_drafter { DRAFTER_MTP, DRAFTER_LOOKUP, DRAFTER_HOSTILE, DRAFTER_COUNT };
extern const char *const turn_source_word[SOURCE_COUNT];
extern const char *const turn_reason_word[REASON_COUNT];        /* NULL for REASON_NONE       */
extern const char *const turn_served_word[SERVED_COUNT];
extern const char *const turn_drafter_word[DRAFTER_COUNT];

struct turn_drafts { u32 blocks, drafted, accepted; };  /* proposals, their ids, those kept    */

struct turn_result {                /* the engine writes it once, before DONE                 */
    enum turn_finish finish;
    enum err         error;         /* FINISH_ERROR: ERR_MEMORY = the gate refused (503)      */
    char             error_text[TURN_ERROR_BYTES];
    enum turn_source source;
    enum turn_reason reason;        /* why no more was reused, REASON_NONE when all was       */
    enum turn_served served;        /* whose ids the prompt's are                             */
    u64 part_pos;                   /* served position of the first differing id, or U64_MAX  */
    u64 part_sent;                  /* where that is in the ids as sent                       */
    u64 cached, forwarded;          /* served ids found in place; put through the model       */
    u64 generated;                  /* ids sampled or forced, stop id and hidden ids included */
    u64 hidden;                     /* of them never pushed out: the conductor's phrase       */
    u32 stop_id;                    /* eos id that ended it (not pushed out), or NONE         */
    u32 slot;                       /* where it ran, or NONE: never admitted                  */
    bool by_stop_string;            /* the completing id was pushed; text is cut before it    */
    bool by_memory;                 /* FINISH_LENGTH because it could not grow                */
    bool nan;                       /* FINISH_ERROR: a logit was no number                    */
    bool guest;                     /* ran beside the resident conversation, nothing displaced */
    struct turn_drafts drafts[DRAFTER_COUNT];
    u64 restore_us, prefill_us, ttft_us, decode_us, queue_us;
};

/* Ids of an answer that were never pushed out: generated ids [at, + count), ascending; the note and
 * the phrase make one each.  count 0: none. */
enum { TURN_HIDDEN_CAP = 2 };
struct turn_hidden { u64 at, count; };

struct submit_row {
    /* filled by the HTTP side before submit_push */
    const u32 *ids;                 /* the prompt's ids as sent; kept until DONE              */
    u64        id_count;            /* 1 .. ctx - 1                                           */
    struct turn_mark mark[TURN_MARK_CAP];
    u32        mark_count;
    u32        stop_count;
    u8         stop[TURN_STOP_CAP][TURN_STOP_BYTES];
    u32        stop_bytes[TURN_STOP_CAP];
    bool       think_open;          /* the prompt ends in an open think block                 */
    bool       tools;               /* calls are parsed: stop strings are not searched in them */
    bool       ignore_eos;
    u64        max_tokens;          /* 0: to the context's end                                */
    u64        session[2];          /* hash of the session id                                 */
    const struct call_row *calls;   /* past calls of the prompt, spans in `ids`, ascending;   */
    u32        call_count;          /* kept until DONE                                        */
    u64        think_budget;        /* reasoning ids before the block is closed; U64_MAX: any */
    const u32 *close_ids;           /* what closes it: a hidden phrase, </think> and blanks;  */
    u32        close_count;         /* kept until DONE.  0: a block is never closed           */
    u32        close_hidden;        /* first ids of it, which are not pushed out              */
    u64        note_at;             /* reasoning ids before the note                          */
    const u32 *note_ids;            /* a hidden note inside the block; kept until DONE        */
    u32        note_count;          /* 0: none                                                */
    struct sample_settings sampling;
    bool       logprobs;            /* of every pushed id, before penalties and temperature   */
    u32        top_logprobs;        /* and of as many most likely ones, <= LOGPROB_TOP        */
    const u32 *forced;              /* --test-hooks: ids instead of the sampler's, or NULL    */
    u64        forced_count;
    u64        forced_cut;          /* cancel after this many ids; U64_MAX: never             */
    struct ring_wake *wake;         /* rung when ids, state or progress change; may be NULL   */
    u64        arrival_us;

    /* engine -> HTTP */
    struct ring out;                /* ids, in order; each push rings `wake`                  */
    struct ring_cell out_ids[TURN_OUT_IDS];
    struct logprob_row logprob[TURN_LOGPROBS];      /* of pushed id n at n % TURN_LOGPROBS,
                                     * written before the id is pushed                        */
    _Atomic u32 state;              /* enum submit_state                                      */
    _Atomic u64 progress;           /* rows of the prompt in place so far                     */
    _Atomic u32 queue_place;        /* 1 = next; 0 when admitted                              */
    _Atomic u32 source;             /* enum turn_source, from SUBMIT_PREFILL                  */
    struct turn_result result;      /* from SUBMIT_DONE                                       */

    /* HTTP -> engine, any time */
    _Atomic u32 cancelled;
    _Atomic u64 logprobs_read;      /* rows of `logprob` read so far: their places are free   */

    /* HTTP -> engine, after DONE, by submit_memo: the calls of the answer, spans in pushed ids */
    struct call_row made[TURN_CALL_CAP];
    u32        made_count;
    u64        made_record, made_lo;            /* engine's: the record, its first generated row */
    struct turn_hidden made_hidden[TURN_HIDDEN_CAP];    /* engine's                           */
};

/* Tables of `rows` submit rows and turns, from a table arena; `queue_cap` = most that may wait. */
MUST_USE enum err turn_open(u32 table_arena, u32 rows, u32 queue_cap);
void turn_close(void);

/* HTTP side; any thread.  take: a free row (state TAKEN, columns zeroed) or NONE. */
u32 submit_take(void);
struct submit_row *submit_at(u32 submit);
/* ERR_FULL: the queue is full (429), the row stays TAKEN.  Else the engine has it. */
MUST_USE enum err submit_push(u32 submit);
void submit_cancel(u32 submit);
/* Row TAKEN or DONE goes back to the free ring. */
void submit_release(u32 submit);
/* The same for a row that is DONE and whose `made` is filled, by way of the engine, which keeps the
 * calls beside the rows before it looks at any row pushed later. */
void submit_memo(u32 submit);
/* Turns waiting now, for `queued 2 of 3`. */
u32 submit_queued(void);
/* True once submit_close_inbox was called (draining): push then gives ERR_CANCELLED (503). */
bool submit_draining(void);
/* After popping ids of a full out ring: a paused turn goes on now rather than within 5 ms. */
void submit_drained(void);

#endif
