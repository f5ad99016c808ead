/* http/turn/decode.c - DECODE: one round of every slot that can take a row, then its next id. */
#include "http/turn/pass.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "model/forward.h"
#include "model/logprob.h"

#include <string.h>

static bool is_eos(const struct engine *e, u32 id)
{
    for (u32 i = 0; i < e->set.eos_count; i++)
        if (e->set.eos[i] == id) return true;
    return false;
}

/* An id of the conductor that the client does not see. */
static void emit_hidden(struct engine *e, struct turn_row *turn, u32 id)
{
    u64 at = turn->prompt_count + turn->generated;
    u32 last = 0;
    while (last + 1 < TURN_HIDDEN_CAP && turn->span[last].count > 0 &&
           turn->span[last].at + turn->span[last].count < turn->generated) last++;
    if (turn->span[last].count == 0) turn->span[last].at = turn->generated;
    turn->span[last].count++;
    turn->hidden++;
    turn->generated++;
    e->counts.generated++;
    e->counts.hidden++;
    if (at < e->ctx) turn_ids(e, turn)[at] = id;
    turn->next_id = id;
    if (at + 1 >= e->ctx) turn_end(e, turn, FINISH_LENGTH);
}

/* Gives the id to the client's ring and says whether the turn ends with it. */
static void emit(struct engine *e, struct turn_row *turn, u32 id, bool conducted)
{
    struct submit_row *row = submit_at(turn->submit);
    u64 at = turn->prompt_count + turn->generated;
    u32 cut, back, phase = turn->stop.phase;
    turn->generated++;
    e->counts.generated++;
    if (!conducted && is_eos(e, id) && !row->ignore_eos) {
        turn->stop_id = id;
        turn_end(e, turn, FINISH_STOP);
        return;
    }
    bool room = ring_push(&row->out, id);
    ASSERT(room);                           /* decode_ready saw room */
    if (at < e->ctx) turn_ids(e, turn)[at] = id;
    turn->next_id = id;
    bool stopped = stop_feed(&turn->stop, row, id, &cut, &back);
    if (row->think_open && turn->think_hi == 0 && phase == STOP_REASONING &&
        turn->stop.phase == STOP_CONTENT) turn->think_hi = at + 1;      /* the prompt's block */
    if (stopped) {
        turn->by_stop_string = true;
        turn_end(e, turn, FINISH_STOP);
    } else if (row->forced != NULL && turn->forced_at >= row->forced_cut) {
        turn_end(e, turn, FINISH_CANCELLED);
    } else if (turn->generated - turn->hidden == row->max_tokens || at + 1 >= e->ctx) {
        turn_end(e, turn, FINISH_LENGTH);
    } else if (row->forced != NULL && turn->forced_at == row->forced_count) {
        turn_end(e, turn, FINISH_STOP);
    }
}

/* Ids the client was or will be told of. */
static u64 pushed(const struct turn_row *turn) { return turn->generated - turn->hidden; }

/* The sampler changes its logits: what the model said is kept behind its work. */
static f32 *keep_raw(struct engine *e, const f32 *logits)
{
    f32 *raw = (f32 *)(void *)(e->work + 8ull * e->vocab);
    memcpy(raw, logits, e->vocab * sizeof *raw);
    return raw;
}

static bool any_nan(const f32 *x, u32 count)
{
    u32 found = 0;
    for (u32 i = 0; i < count; i++) found |= x[i] != x[i];
    return found != 0;
}

/* Nothing can be sampled, and whatever made it stands in the slot's rows: they go with the turn, on
 * disk too. */
static void no_numbers(struct engine *e, struct turn_row *turn)
{
    u64 at = turn->prompt_count + turn->generated;
    turn->nan = true;
    e->counts.nan++;
    enum err err = fail(ERR_DEVICE, "the model's logits for token %llu are not numbers (NaN): the "
                        "turn ends here and its rows are dropped", (ull)at);
    log_line(LOG_LEVEL_ERROR, "turn %llu: %s", (ull)turn->number, err_last()->text);
    turn_lose(e, turn, err, true);
    nvme_doubt(turn->number);
}

void decode_sample(struct engine *e, struct turn_row *turn, f32 *logits)
{
    struct submit_row *row = submit_at(turn->submit);
    if (any_nan(logits, e->vocab)) {
        no_numbers(e, turn);
        return;
    }
    u32 phase = turn->stop.phase, id = NONE;
    if (turn->generated == 0) turn->first_at_us = clock_us();
    if (e->kept_logits != NULL)
        memcpy(e->kept_logits + (u64)turn->slot * e->vocab, logits, e->vocab * sizeof *logits);
    const f32 *raw = row->logprobs ? keep_raw(e, logits) : NULL;
    enum conductor_kind kind = conductor_next(&turn->conductor, row, phase, &id);
    bool hidden = kind == CONDUCTOR_NOTE || kind == CONDUCTOR_PHRASE;
    if (kind != CONDUCTOR_MODEL) {
        if (kind != CONDUCTOR_NOTE && turn->conductor.closing == 0)
            turn->forced_at = conductor_resume(row, turn->forced_at);
    } else if (row->forced != NULL && turn->forced_at < row->forced_count) {
        id = row->forced[turn->forced_at++];
    } else {
        struct sample_input in = {
            .logits = logits, .vocab = e->vocab, .candidates = e->set.candidates,
            .ids = turn_ids(e, turn), .prompt_count = turn->prompt_count,
            .generated_count = turn->generated,
        };
        id = sample_row(&row->sampling, &in, e->work);
    }
    conductor_fed(&turn->conductor, phase, kind);
    if (raw != NULL && !hidden)
        logprob_of(raw, MIN(e->set.candidates, e->vocab), id, row->top_logprobs,
                   &row->logprob[pushed(turn) % TURN_LOGPROBS]);
    if (hidden) emit_hidden(e, turn, id);
    else emit(e, turn, id, kind != CONDUCTOR_MODEL);
}

bool decode_waits(const struct turn_row *turn)
{
    if (turn->behind == 0) return false;
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1))
        if (turn_at(i)->number == turn->behind) return turn_at(i)->state == TURN_PREFILL;
    return false;
}

bool decode_ready(const struct turn_row *turn)
{
    if (decode_waits(turn)) return false;
    const struct slot_row *row = slot_row(turn->slot);
    const struct submit_row *submit = submit_at(turn->submit);
    if (submit->logprobs && pushed(turn) - atomic_load_explicit(&submit->logprobs_read,
                                memory_order_acquire) >= TURN_LOGPROBS) return false;
    return turn->state == TURN_DECODE && row->len < row->row_cap &&
           ring_count(&submit->out) < TURN_OUT_IDS;
}

static void round_failed(struct engine *e, const u32 *turns, u32 count, enum err err)
{
    for (u32 i = 0; i < count; i++) turn_lose(e, turn_at(turns[i]), err, false);
}

/* One round: what each slot that can take a row forwards. */
struct round {
    u32 turn[SLOT_CAP], count;
    struct forward_span span[SLOT_CAP];
    struct drafters_block block[SLOT_CAP];
    struct drafters_round drafts;
};

/* Ids behind the next one that could stand: rows of the slot, ids the client still takes. */
static u32 room_for(const struct turn_row *turn)
{
    const struct slot_row *slot = slot_row(turn->slot);
    const struct submit_row *row = submit_at(turn->submit);
    u64 rows = MIN(slot->row_cap, turn->row_limit) - slot->len;
    u64 ids = row->max_tokens == 0 ? UINT64_MAX : row->max_tokens - pushed(turn);
    ASSERT(rows > 0 && ids > 0);
    return (u32)MIN(MIN(rows, ids), (u64)DRAFTERS_MOST + 1) - 1;
}

static void round_build(struct engine *e, struct round *r)
{
    u32 most[SLOT_CAP];
    r->count = 0;
    for (u32 slot = 0; slot < e->slot_count; slot++) {
        u32 turn = e->slot_turn[slot];
        if (turn != NONE && decode_ready(turn_at(turn))) r->turn[r->count++] = turn;
    }
    for (u32 i = 0; i < r->count; i++) most[i] = room_for(turn_at(r->turn[i]));
    r->drafts = (struct drafters_round){ r->count, 0, forward_verify_rows(), r->count };
    drafters_propose(e, r->turn, most, r->count, &r->drafts, r->block);
    for (u32 i = 0; i < r->count; i++) {
        u32 rows = r->block[i].count + 1;
        r->span[i] = (struct forward_span){ turn_at(r->turn[i])->slot, rows, r->block[i].ids,
                                            rows };
    }
}

/* Samples row after row as plain steps would, as long as each id is the one that was proposed: the
 * rows that stand.  `logits` [rows][vocab]. */
static u32 sample_rows(struct engine *e, struct turn_row *turn, const struct drafters_block *block,
                       f32 *logits)
{
    u32 rows = 0, accepted = 0;
    bool wrong = false;
    do {
        decode_sample(e, turn, logits + (u64)rows++ * e->vocab);
        if (rows > block->count || turn->state != TURN_DECODE) break;
        wrong = turn->next_id != block->ids[rows];
        accepted += !wrong;
    } while (!wrong && decode_ready(turn) && !submit_at(turn->submit)->cancelled);
    if (block->count > 0) drafters_judge(turn, block, accepted, wrong);
    return rows;
}

/* The rows that stand are the slot's; their keys stand beside them. */
static enum err keep_rows(struct engine *e, const struct turn_row *turn, u32 rows)
{
    u32 slot = turn->slot;
    const u32 *ids = turn_ids(e, turn);
    TRY(forward_accept(slot, rows));
    u64 len = slot_row(slot)->len;
    for (u32 i = 0; i < rows; i++) e->keys[i] = ids[len - rows + i];
    tier_rows(slot, len - rows, e->keys, rows);
    if (!forward_row_invariant()) resident_taint(slot, len - rows);
    return OK;
}

void decode_pass(struct engine *e)
{
    static struct round r;
    round_build(e, &r);
    if (r.count == 0) return;
    e->moved = true;
    u64 started_us = clock_us();
    enum err err = forward_verify(r.span, r.count, e->logits);
    if (err != OK) {
        round_failed(e, r.turn, r.count, err);
        return;
    }
    f32 *logits = e->logits;
    for (u32 i = 0; i < r.count; i++) {
        struct turn_row *turn = turn_at(r.turn[i]);
        err = keep_rows(e, turn, sample_rows(e, turn, &r.block[i], logits));
        if (err != OK) round_failed(e, &r.turn[i], 1, err);
        logits += (u64)(r.block[i].count + 1) * e->vocab;
    }
    u64 spent_us = clock_us() - started_us;
    e->counts.rounds++;
    e->counts.decode_us += spent_us;
    for (u32 i = 0; i < r.count; i++) turn_at(r.turn[i])->decode_us += spent_us;
    drafters_spent(r.count, r.drafts.drafts, spent_us);
}
