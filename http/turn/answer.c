/* http/turn/answer.c - greedy requests that were answered before: found before any slot is asked
 * for, replayed id by id, kept when they end.
 *
 * What was asked is the prompt as sent and every field of the submit row that shapes the answer.
 * Only answers whose served ids were the ones sent are kept: then equal requests are equal. */
#include "http/turn/pass.h"

#include "arena/base/clock.h"
#include "tiers/response.h"

#include <string.h>

enum { ANSWER_FIELDS = 16 + TURN_STOP_CAP * (1 + TURN_STOP_BYTES / 4) + 64 };
enum { ANSWER_BY_STOP = 1 };

struct fields { u32 word[ANSWER_FIELDS]; u32 count; };

static void put(struct fields *f, u64 value)
{
    f->word[f->count++] = (u32)value;
    f->word[f->count++] = (u32)(value >> 32);
}

static void put_real(struct fields *f, f32 value)
{
    memcpy(&f->word[f->count++], &value, sizeof value);
}

/* False: not greedy, or of a kind that is not kept. */
static bool fields_of(const struct submit_row *row, struct fields *f)
{
    const struct sample_settings *s = &row->sampling;
    f->count = 0;
    if (s->temperature > 0 || row->forced != NULL || row->close_count > 32) return false;
    if (row->logprobs) return false;
    put(f, row->max_tokens);
    put(f, (u64)row->think_open | (u64)row->tools << 1 | (u64)row->ignore_eos << 2 |
           (u64)row->stop_count << 8 | (u64)row->close_count << 16 | (u64)row->close_hidden << 32);
    put(f, row->think_budget);
    put_real(f, s->repetition_penalty);
    put_real(f, s->presence_penalty);
    put_real(f, s->frequency_penalty);
    for (u32 i = 0; i < row->close_count; i++) f->word[f->count++] = row->close_ids[i];
    for (u32 i = 0; i < MIN(row->stop_count, (u32)TURN_STOP_CAP); i++) {
        u32 bytes = MIN(row->stop_bytes[i], (u32)TURN_STOP_BYTES), words = (bytes + 3) / 4;
        f->word[f->count++] = bytes;
        memset(f->word + f->count, 0, words * sizeof f->word[0]);
        memcpy(f->word + f->count, row->stop[i], bytes);
        f->count += words;
    }
    return true;
}

bool answer_found(struct engine *e, struct turn_row *turn)
{
    const struct submit_row *row = submit_at(turn->submit);
    struct fields f;
    if (!response_on() || !fields_of(row, &f)) return false;
    turn->entry = response_find(&(struct response_ask){
        .ids = row->ids, .id_count = row->id_count, .fields = f.word, .field_count = f.count,
    }, &turn->answer, clock_us());
    if (turn->entry == NONE) return false;
    turn->hit = (struct tier_hit){ .record = NONE, .slot = NONE, .victim = NONE,
                                   .source = TIER_RESPONSE, .start = row->id_count,
                                   .common = row->id_count, .part_pos = UINT64_MAX };
    turn->state = TURN_ANSWER;
    turn->admit_at_us = turn->first_at_us = clock_us();
    tier_answered(row->id_count);
    e->moved = true;
    return true;
}

bool answer_ready(const struct turn_row *turn)
{
    return turn->state == TURN_ANSWER && ring_count(&submit_at(turn->submit)->out) < TURN_OUT_IDS;
}

static void replay_ids(struct engine *e, struct turn_row *turn)
{
    struct submit_row *row = submit_at(turn->submit);
    while (turn->generated < turn->answer.id_count && ring_count(&row->out) < TURN_OUT_IDS) {
        bool pushed = ring_push(&row->out, turn->answer.ids[turn->generated]);
        ASSERT(pushed);
        turn->generated++;
        e->moved = true;
    }
    if (turn->generated < turn->answer.id_count) return;
    turn->stop_id = turn->answer.stop_id;
    turn->generated += turn->stop_id != NONE;
    turn->by_stop_string = turn->answer.flags & ANSWER_BY_STOP;
    turn_end(e, turn, (enum turn_finish)turn->answer.finish);
}

void answer_pass(struct engine *e)
{
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1))
        if (turn_at(i)->state == TURN_ANSWER) replay_ids(e, turn_at(i));
}

struct kept { struct response_ask ask; struct response_answer answer; };

static enum err keep_commit(void *owner, u64 bytes)
{
    const struct kept *k = owner;
    (void)bytes;
    return response_save(&k->ask, &k->answer, clock_us());
}

/* The answer is kept if the gate pays for it. */
static void keep(struct engine *e, const struct turn_row *turn, struct kept *k)
{
    struct budget_want want;
    struct budget_plan plan;
    if (!response_want(&k->ask, k->answer.id_count, &want)) return;
    want.commit = keep_commit;
    want.owner = k;
    enum err err = wants_gate(e, GATE_KEEP, turn->number, &want, 1, NULL, &plan);
    if (err != OK || plan.grant[0].bytes == 0) response_refused();
    e->check = true;
}

void answer_over(struct engine *e, struct turn_row *turn)
{
    const struct submit_row *row = submit_at(turn->submit);
    struct fields f;
    if (turn->entry != NONE) {
        response_drop(turn->entry);
        turn->entry = NONE;
        return;
    }
    bool whole = turn->finish == FINISH_STOP || turn->finish == FINISH_LENGTH;
    if (!response_on() || !whole || turn->by_memory || turn->lost || turn->slot == NONE) return;
    if (turn->replay.aligned || turn->hidden > 0 || !fields_of(row, &f)) return;
    u64 pushed = turn->generated - (turn->stop_id != NONE);
    if (turn->prompt_count + pushed > e->ctx) return;
    keep(e, turn, &(struct kept){
        .ask = { .ids = row->ids, .id_count = row->id_count, .fields = f.word,
                 .field_count = f.count },
        .answer = { .ids = turn_ids(e, turn) + turn->prompt_count, .id_count = pushed,
                    .finish = turn->finish, .stop_id = turn->stop_id,
                    .flags = turn->by_stop_string ? ANSWER_BY_STOP : 0 },
    });
}
