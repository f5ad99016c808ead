/* http/turn/finish.c - DONE -> FREE: commit to the tiers, result, ledger row. */
#include "http/turn/pass.h"

#include "arena/base/clock.h"
#include "http/turn/ledger.h"

#include <string.h>

/* What the conductor hid, as far as it was forwarded; and where calls will be told to stand. */
static void keep_hidden(const struct turn_row *turn, u32 record)
{
    struct submit_row *row = submit_at(turn->submit);
    row->made_record = record == NONE ? 0 : record_at(record)->number;
    row->made_lo = turn->prompt_count;
    memcpy(row->made_hidden, turn->span, sizeof turn->span);
    for (u32 i = 0; record != NONE && i < TURN_HIDDEN_CAP; i++) {
        u64 lo = turn->prompt_count + turn->span[i].at, rows = record_rows(record);
        if (turn->span[i].count > 0 && lo < rows)
            end_span(record_generations(record), lo, MIN(lo + turn->span[i].count, rows));
    }
}

/* What the turn left goes to the tiers; the slot is idle from now on. */
static void leave_slot(struct engine *e, struct turn_row *turn, u64 now_us)
{
    u32 slot = turn->slot, record = resident_record(slot);
    u64 number = record == NONE ? 0 : record_at(record)->number;
    if (turn->lost) {
        tier_lost(slot, &turn->pool);
    } else {
        if (record != NONE && slot_row(slot)->len < turn->prompt_count)
            end_cut(record_generations(record), slot_row(slot)->len);   /* stopped on the way */
        tier_commit(slot, &(struct tier_answer){
            .start = turn->hit.start, .prompt_count = turn->prompt_count,
            .think_hi = turn->think_hi,
            .generated = turn->generated > 0,
            .anchor = turn->finish == FINISH_CANCELLED && !turn->lined,
        }, &turn->pool, now_us);
    }
    keep_hidden(turn, record_is(record, number) ? record : NONE);
    if (resident_record(slot) == NONE) slot_drop(slot);
    else slot_shrink(slot, slot_row(slot)->len);
    slot_row(slot)->record = resident_record(slot);
    e->slot_turn[slot] = NONE;
    if (!turn->lost)
        nvme_turn_over(resident_record(slot), turn->hit.start, turn->generated > 0, now_us);
}

/* What was read and written goes to the suffix store: all that was served, and the answer without
 * the id that ended it. */
static void keep_ids(struct engine *e, const struct turn_row *turn)
{
    if (turn->slot == NONE || turn->lost || turn->finish == FINISH_ERROR) return;
    u64 count = turn->prompt_count + turn->generated - (turn->stop_id != NONE);
    suffix_log_add(turn_ids(e, turn), MIN(count, e->ctx), submit_at(turn->submit)->session);
}

/* Where a served position stands in the ids as sent. */
static u64 sent_pos(const struct replay *replay, u64 pos)
{
    if (pos == UINT64_MAX || !replay->aligned) return pos;
    return pos >= replay->rows ? pos - replay->rows + replay->sent : MIN(pos, replay->sent);
}

static void fill_result(const struct turn_row *turn, u64 rows, u64 now_us)
{
    struct submit_row *row = submit_at(turn->submit);
    struct turn_result *r = &row->result;
    r->finish = turn->finish;
    r->error = turn->finish == FINISH_ERROR ? turn->error : OK;
    memcpy(r->error_text, turn->error_text, sizeof r->error_text);
    r->source = (enum turn_source)turn->hit.source;
    r->reason = (enum turn_reason)turn->hit.reason;
    r->served = turn->replay.aligned ? SERVED_ALIGNED : SERVED_SENT;
    r->part_pos = turn->hit.part_pos;
    r->part_sent = sent_pos(&turn->replay, turn->hit.part_pos);
    r->cached = turn->hit.start;
    r->forwarded = MIN(rows, turn->prompt_count) - MIN(turn->hit.start, rows);
    r->generated = turn->generated;
    r->hidden = turn->hidden;
    r->stop_id = turn->stop_id;
    r->slot = turn->slot;
    r->by_stop_string = turn->by_stop_string;
    r->by_memory = turn->by_memory;
    r->nan = turn->nan;
    r->guest = turn->hit.guest;
    memcpy(r->drafts, turn->drafts, sizeof r->drafts);
    r->restore_us = turn->restore_us;
    r->prefill_us = turn->prefill_us;
    r->decode_us = turn->decode_us;
    r->ttft_us = turn->first_at_us > row->arrival_us ? turn->first_at_us - row->arrival_us : 0;
    u64 until_us = turn->admit_at_us > 0 ? turn->admit_at_us : now_us;
    r->queue_us = until_us > row->arrival_us ? until_us - row->arrival_us : 0;
}

static void add_to_ledger(const struct turn_row *turn, u64 now_us)
{
    const struct submit_row *row = submit_at(turn->submit);
    const struct turn_result *r = &row->result;
    struct ledger_row entry = {
        .number = turn->number, .session = row->session[0], .at_us = now_us,
        .prompt = turn->prompt_count, .cached = r->cached, .forwarded = r->forwarded,
        .generated = r->generated, .part_pos = r->part_pos, .queue_us = r->queue_us,
        .restore_us = r->restore_us, .prefill_us = r->prefill_us, .ttft_us = r->ttft_us,
        .decode_us = r->decode_us, .slot = turn->slot, .source = (u8)r->source,
        .reason = (u8)r->reason, .served = (u8)r->served, .finish = (u8)r->finish,
        .error = (u8)r->error,
        .by_memory = r->by_memory, .by_stop_string = r->by_stop_string, .guest = r->guest,
    };
    memcpy(entry.drafts, r->drafts, sizeof entry.drafts);
    ledger_add(&entry);
}

static void finish(struct engine *e, u32 index)
{
    struct turn_row *turn = turn_at(index);
    u64 now_us = clock_us(), rows = turn->slot == NONE ? 0 : slot_row(turn->slot)->len;
    answer_over(e, turn);
    keep_ids(e, turn);
    if (turn->slot != NONE) leave_slot(e, turn, now_us);
    else if (load_return(turn)) tier_settle();
    fill_result(turn, rows, now_us);
    add_to_ledger(turn, now_us);
    e->counts.turns++;
    e->counts.aligned += turn->slot != NONE && turn->replay.aligned;
    if (turn->slot != NONE && turn->replay.rows > turn->replay.sent)
        e->counts.aligned_tokens += turn->replay.rows - turn->replay.sent;
    e->counts.aligned_no_room += turn->slot != NONE && turn->replay.no_room;
    e->counts.cancelled += turn->finish == FINISH_CANCELLED;
    e->counts.failed += turn->finish == FINISH_ERROR;
    e->moved = e->check = true;
    turn_free(index);
    turn_publish(turn, SUBMIT_DONE);        /* last: the submit row is not ours after it */
}

void finish_pass(struct engine *e)
{
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1))
        if (turn_at(i)->state == TURN_DONE) finish(e, i);
}
