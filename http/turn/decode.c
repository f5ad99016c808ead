/* http/turn/decode.c - DECODE: one round of every slot that can take a row, then its next id. */
#include "http/turn/pass.h"

#include "arena/base/clock.h"
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
    if (turn->hidden == 0) turn->hidden_at = turn->generated;
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

void decode_sample(struct engine *e, struct turn_row *turn, f32 *logits)
{
    struct submit_row *row = submit_at(turn->submit);
    u32 phase = turn->stop.phase;
    bool hidden = false;
    if (turn->generated == 0) turn->first_at_us = clock_us();
    if (e->kept_logits != NULL)
        memcpy(e->kept_logits + (u64)turn->slot * e->vocab, logits, e->vocab * sizeof *logits);
    const f32 *raw = row->logprobs ? keep_raw(e, logits) : NULL;
    u32 id = conductor_next(&turn->conductor, row, phase, &hidden);
    bool conducted = id != NONE;
    if (conducted) {
        if (turn->conductor.closing == 0)
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
    conductor_fed(&turn->conductor, phase, conducted);
    if (raw != NULL && !hidden)
        logprob_of(raw, MIN(e->set.candidates, e->vocab), id, row->top_logprobs,
                   &row->logprob[pushed(turn) % TURN_LOGPROBS]);
    if (hidden) emit_hidden(e, turn, id);
    else emit(e, turn, id, conducted);
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
    for (u32 i = 0; i < count; i++) {
        turn_at(turns[i])->lost = true;
        turn_fail(e, turn_at(turns[i]), err);
    }
}

void decode_pass(struct engine *e)
{
    u32 turns[SLOT_CAP], slots[SLOT_CAP], ids[SLOT_CAP], count = 0;
    for (u32 slot = 0; slot < e->slot_count; slot++) {
        u32 turn = e->slot_turn[slot];
        if (turn == NONE || !decode_ready(turn_at(turn))) continue;
        turns[count] = turn;
        slots[count] = slot;
        ids[count++] = turn_at(turn)->next_id;
    }
    if (count == 0) return;
    e->moved = true;
    u64 started_us = clock_us();
    enum err err = forward_step(slots, ids, count, e->logits);
    if (err != OK) {
        round_failed(e, turns, count, err);
        return;
    }
    u64 spent_us = clock_us() - started_us;
    e->counts.rounds++;
    e->counts.decode_us += spent_us;
    for (u32 i = 0; i < count; i++) {
        struct turn_row *turn = turn_at(turns[i]);
        u64 key = ids[i];
        turn->decode_us += spent_us;
        tier_rows(slots[i], slot_row(slots[i])->len - 1, &key, 1);
        if (!forward_row_invariant()) resident_taint(slots[i], slot_row(slots[i])->len - 1);
        decode_sample(e, turn, e->logits + (u64)i * e->vocab);
    }
}
