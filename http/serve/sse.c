/* http/serve/sse.c - the steps of a waiting turn on its HTTP thread. */
#include "http/serve/sse.h"

#include "arena/base/clock.h"
#include "http/admin/stats.h"
#include "http/serve/phase.h"

#include <stdio.h>
#include <string.h>

enum { SSE_BATCH = 256 };

static u64 keepalive = 10 * 1000 * 1000;

void sse_keepalive(u64 keepalive_us) { keepalive = keepalive_us; }

void sse_rearm(struct exchange *x, u64 now_us)
{
    bool streams = x->turn != NULL && x->turn->request.stream;
    atomic_store(&x->due_us, streams ? now_us + keepalive : UINT64_MAX);
}

/* The first rows seen in place, for the estimate of a prefill. */
static void watch_prefill(struct exchange_turn *t, const struct submit_row *row, u32 state)
{
    if (state != SUBMIT_PREFILL || t->prefill_seen_us != 0) return;
    t->prefill_seen_us = clock_us();
    t->prefill_seen_rows = atomic_load(&row->progress);
}

static void refuse_result(struct exchange *x, const struct turn_result *result)
{
    struct refusal *r = &x->refusal;
    const char *text = result->error_text;
    if (result->finish == FINISH_CANCELLED || result->error == ERR_CANCELLED) {
        refusal_set(r, 503, NULL, NULL, "the turn was ended: the server is shutting down");
        r->retry_after_s = 5;
    } else if (result->error == ERR_LIMIT) {
        refusal_set(r, 400, "context_length_exceeded", "messages", "%s", text);
    } else if (result->error == ERR_MEMORY || result->error == ERR_FULL) {
        refusal_set(r, 503, NULL, NULL, "%s", text[0] != 0 ? text : "no memory for this turn now");
        r->retry_after_s = 1;
    } else {
        refusal_set(r, 500, NULL, NULL, "%s", text[0] != 0 ? text : "the engine failed");
    }
}

/* After DONE: the reply's end, or why there is none. */
static void end_turn(struct exchange *x)
{
    struct exchange_turn *t = x->turn;
    const struct turn_result *result = &t->result;
    bool served = t->reply.enough || result->finish == FINISH_STOP ||
                  result->finish == FINISH_LENGTH;
    bool cut = t->request.is_forced && t->request.forced_cut != UINT64_MAX &&
               result->finish == FINISH_CANCELLED;
    stats_turn(result, t->request.ids.count, clock_us() - x->arrival_us);
    if (cut) {
        x->stream = EXCHANGE_STREAM_CUT;
        return;
    }
    if (served) reply_end(&t->reply, result);
    else refuse_result(x, result);
    if (t->reply.error != OK) {
        refusal_set(&x->refusal, 500, NULL, NULL, "the answer could not be written: %s",
                    err_word(t->reply.error));
    }
}

bool sse_take(struct exchange *x)
{
    struct exchange_turn *t = x->turn;
    if (t->done) return true;
    struct submit_row *row = submit_at(x->submit);
    u32 state = atomic_load_explicit(&row->state, memory_order_acquire);
    u32 batch[SSE_BATCH], count, full = ring_count(&row->out);
    do {
        for (count = 0; count < SSE_BATCH && ring_pop(&row->out, &batch[count]);) count++;
        reply_ids(&t->reply, batch, count);
    } while (count == SSE_BATCH);
    u32 much = t->request.logprobs ? TURN_LOGPROBS / 2 : TURN_OUT_IDS / 2;
    if (full >= much) submit_drained();                 /* a full ring pauses the decode         */
    watch_prefill(t, row, state);
    t->seen_state = state;
    if ((t->reply.enough || t->reply.error != OK) && state != SUBMIT_DONE)
        submit_cancel(x->submit);
    if (state != SUBMIT_DONE) return false;
    t->result = row->result;
    t->done = true;
    if (t->result.finish != FINISH_ERROR)
        x->cache_source = turn_source_word[t->result.source];
    row->made_count = reply_calls(&t->reply, row->made);
    if (row->made_count > 0) submit_memo(x->submit);
    else submit_release(x->submit);
    x->submit = NONE;
    t->reply.row = NULL;
    atomic_store(&x->wait, EXCHANGE_WAIT_NONE);
    end_turn(x);
    return true;
}

bool sse_may_open(const struct exchange *x, u64 now_us)
{
    const struct exchange_turn *t = x->turn;
    return t->done || t->seen_state >= SUBMIT_PREFILL || now_us >= x->arrival_us + keepalive;
}

void sse_comment_text(const struct sse_view *v, char *out, u64 cap)
{
    char left[48] = "";
    if (v->state <= SUBMIT_QUEUED) {
        u64 rounds = (v->place + MAX(v->slots, 1u) - 1) / MAX(v->slots, 1u);
        if (v->turn_us > 0)
            snprintf(left, sizeof left, ", about %llu s",
                     (ull)((rounds * v->turn_us + 999999) / 1000000));
        snprintf(out, cap, "queued %u of %u%s", v->place, MAX(v->queued, v->place), left);
    } else if (v->state == SUBMIT_PREFILL) {
        u64 rest = v->prompt_rows - MIN(v->rows, v->prompt_rows);
        if (v->rows_since > 0)
            snprintf(left, sizeof left, ", about %llu s",
                     (ull)((rest * v->since_us / v->rows_since + 999999) / 1000000));
        snprintf(out, cap, "prefill %llu/%llu%s", (ull)v->rows, (ull)v->prompt_rows, left);
    } else {
        snprintf(out, cap, "generating");
    }
}

void sse_comment(struct exchange *x, u64 now_us)
{
    struct exchange_turn *t = x->turn;
    const struct submit_row *row = submit_at(x->submit);
    const struct chat_model *model = phase_model();
    u64 rows = atomic_load(&row->progress);
    struct sse_view view = {
        .state = t->seen_state, .place = atomic_load(&row->queue_place),
        .queued = submit_queued(), .slots = model->slots, .rows = rows,
        .prompt_rows = t->request.ids.count, .turn_us = stats_turn_us(),
    };
    if (t->prefill_seen_us != 0 && rows > t->prefill_seen_rows) {
        view.rows_since = rows - t->prefill_seen_rows;
        view.since_us = now_us - t->prefill_seen_us;
    } else if (stats_row_us() > 0) {
        view.rows_since = 1;
        view.since_us = stats_row_us();
    }
    char text[128];
    sse_comment_text(&view, text, sizeof text);
    reply_comment(&t->reply, text);
}
