/* http/serve/exchange.c - the table of exchanges, answers, and what a wait gives back. */
#include "http/serve/exchange.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "arena/base/ring.h"
#include "arena/heap.h"
#include "http/admin/stats.h"
#include "http/serve/phase.h"
#include "http/serve/pump.h"
#include "http/serve/routes.h"
#include "http/serve/sse.h"
#include "http/turn/command.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { EXCHANGE_BATCH_IDS = TURN_OUT_IDS / 4, EXCHANGE_RETRY_MAX_S = 30 };

static struct exchange *row_at;
static struct ring_cell *cell_at;
static u32 row_cap;
static struct ring free_rows;
static _Atomic u32 used_rows;

enum err exchange_open(u32 cap)
{
    u32 cells = 2;
    while (cells < cap) cells *= 2;
    row_at = arena_heap_alloc(cap * sizeof row_at[0]);
    cell_at = arena_heap_alloc(cells * sizeof cell_at[0]);
    if (row_at == NULL || cell_at == NULL) {
        exchange_close();
        return fail(ERR_MEMORY, "no memory for %u connections", cap);
    }
    row_cap = cap;
    ring_open(&free_rows, cell_at, cells, NULL);
    for (u32 i = 0; i < cap; i++) {
        row_at[i] = (struct exchange){ .index = i, .submit = NONE, .command = NONE };
        pthread_mutex_init(&row_at[i].lock, NULL);
        ASSERT(ring_push(&free_rows, i));
    }
    atomic_store(&used_rows, 0);
    return OK;
}

void exchange_close(void)
{
    for (u32 i = 0; i < row_cap; i++) pthread_mutex_destroy(&row_at[i].lock);
    arena_heap_free(row_at);
    arena_heap_free(cell_at);
    row_at = NULL;
    cell_at = NULL;
    row_cap = 0;
}

u32 exchange_cap(void) { return row_cap; }
struct exchange *exchange_at(u32 index) { ASSERT(index < row_cap); return &row_at[index]; }
u32 exchange_used(void) { return atomic_load(&used_rows); }

struct exchange *exchange_take(void)
{
    u32 index;
    u64 bits[2] = {0};
    if (!ring_pop(&free_rows, &index)) return NULL;
    struct exchange *x = &row_at[index];
    ASSERT(atomic_load(&x->state) == EXCHANGE_FREE);
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits) bits[0] = clock_us();
    snprintf(x->request_id, sizeof x->request_id, "req_%012llx%012llx",
             (ull)(bits[0] & 0xffffffffffffull), (ull)(bits[1] & 0xffffffffffffull));
    x->arrival_us = clock_us();
    atomic_store(&x->due_us, UINT64_MAX);
    atomic_store(&x->state, EXCHANGE_USED);
    atomic_fetch_add(&used_rows, 1);
    return x;
}

const char *exchange_header(const struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

void exchange_json(struct exchange *x, u32 status)
{
    x->content_type = "application/json; charset=utf-8";
    x->status = status;
}

void exchange_text(struct exchange *x, u32 status, const char *content_type, const char *text)
{
    json_put_plain(&x->answer, text, strlen(text));
    x->content_type = content_type;
    x->status = status;
}

void exchange_refuse(struct exchange *x)
{
    json_out_clear(&x->answer);
    refusal_json(&x->refusal, &x->answer);
    exchange_json(x, x->refusal.status);
}

static u32 retry_s(void)
{
    u64 turn_s = stats_turn_us() / 1000000;
    return (u32)MIN(MAX(turn_s, (u64)1), (u64)EXCHANGE_RETRY_MAX_S);
}

static void refuse_full(struct exchange *x, const char *what)
{
    refusal_set(&x->refusal, 429, NULL, NULL, "%s", what);
    x->refusal.retry_after_s = retry_s();
    exchange_refuse(x);
}

void exchange_submit(struct exchange *x)
{
    struct exchange_turn *t = x->turn;
    x->submit = submit_take();
    if (x->submit == NONE) { refuse_full(x, "too many requests are waiting"); return; }
    struct submit_row *row = submit_at(x->submit);
    request_fill(&t->request, row);
    row->wake = pump_wake();
    row->arrival_us = x->arrival_us;
    enum err code = reply_open(&t->reply, phase_model(), &t->request, row);
    t->seen_state = SUBMIT_QUEUED;
    if (code == OK) code = submit_push(x->submit);
    if (code == OK) {
        atomic_store(&x->wait, EXCHANGE_WAIT_TURN);
        sse_rearm(x, x->arrival_us);
        pump_watch(x);
        return;
    }
    submit_release(x->submit);
    x->submit = NONE;
    if (code == ERR_FULL) { refuse_full(x, "the queue is full"); return; }
    if (code == ERR_CANCELLED) {
        refusal_set(&x->refusal, 503, NULL, NULL, "the server is shutting down");
        x->refusal.retry_after_s = 5;
    } else {
        refusal_note(&x->refusal, code, NULL);
    }
    exchange_refuse(x);
}

void exchange_command(struct exchange *x, u32 op, const char *tier, const char *session)
{
    x->command = command_take();
    if (x->command == NONE) { refuse_full(x, "too many questions to the engine"); return; }
    struct command_row *row = command_at(x->command);
    row->op = (enum command_op)op;
    snprintf(row->tier, sizeof row->tier, "%s", tier == NULL ? "" : tier);
    snprintf(row->session, sizeof row->session, "%s", session == NULL ? "" : session);
    row->wake = pump_wake();
    atomic_store(&x->wait, EXCHANGE_WAIT_COMMAND);
    pump_watch(x);
    command_push(x->command);
}

bool exchange_ready(const struct exchange *x, u64 now_us)
{
    if (atomic_load(&x->gone) || pump_closing()) return true;
    u32 wait = atomic_load(&x->wait);
    if (wait == EXCHANGE_WAIT_COMMAND)
        return atomic_load(&command_at(x->command)->state) == COMMAND_DONE;
    if (wait != EXCHANGE_WAIT_TURN) return true;
    const struct submit_row *row = submit_at(x->submit);
    u32 state = atomic_load(&row->state), waiting = ring_count(&row->out);
    if (state == SUBMIT_DONE || state != x->turn->seen_state) return true;
    const struct request *q = &x->turn->request;
    u32 batch = q->logprobs ? TURN_LOGPROBS / 2 : EXCHANGE_BATCH_IDS;
    if (waiting >= (q->stream ? 1 : batch)) return true;
    return now_us >= atomic_load(&x->due_us);
}

static void forget(struct exchange *x)
{
    if (x->turn != NULL) {
        reply_close(&x->turn->reply);
        request_close(&x->turn->request);
        arena_heap_free(x->turn);
    }
    arena_heap_free(x->body);
    json_out_close(&x->answer);
    x->turn = NULL;
    x->body = NULL;
    x->body_bytes = x->body_cap = x->dropped_bytes = 0;
    x->refusal = (struct refusal){0};
    x->status = 0;
    x->content_type = x->allow = x->cache_source = NULL;
    x->route = NULL;
    x->routed = x->last = x->suspended = false;
    x->connection = NULL;
    x->stream = EXCHANGE_STREAM_NONE;
    x->submit = x->command = NONE;
    atomic_store(&x->wait, EXCHANGE_WAIT_NONE);
    x->generation++;
    atomic_store(&x->gone, false);
    atomic_store(&x->state, EXCHANGE_FREE);
    ASSERT(ring_push(&free_rows, x->index));
}

/* One line a request: a turn that ended has the ledger's, so this one is for debugging then. */
static void log_end(const struct exchange *x)
{
    const struct exchange_turn *t = x->turn;
    bool quiet = (t != NULL && t->done) || (x->route != NULL && x->route->early);
    log_line(quiet ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, "%s %s %s %u %llu ms%s", x->request_id,
             x->method, x->path, t != NULL && t->done && x->status == 0 ? 200 : x->status,
             (ull)((clock_us() - x->arrival_us) / 1000), x->submit != NONE ? " cancelled" : "");
}

void exchange_finish(struct exchange *x)
{
    pump_unwatch(x);
    pthread_mutex_lock(&x->lock);
    ASSERT(!x->suspended);
    x->connection = NULL;
    log_end(x);
    if (x->submit != NONE) {
        stats_cancelled();
        submit_cancel(x->submit);
    }
    bool held = x->submit != NONE || x->command != NONE;
    atomic_fetch_sub(&used_rows, 1);
    if (held) atomic_store(&x->state, EXCHANGE_ABANDONED);
    else forget(x);
    pthread_mutex_unlock(&x->lock);
    if (held) ring_wake_ring(pump_wake());
}

void exchange_reap(struct exchange *x, bool engine_ended)
{
    pthread_mutex_lock(&x->lock);
    if (atomic_load(&x->state) == EXCHANGE_ABANDONED) {
        if (x->submit != NONE) {
            struct submit_row *row = submit_at(x->submit);
            u32 id;
            while (ring_pop(&row->out, &id)) {}         /* at most TURN_OUT_IDS and what comes   */
            if (atomic_load(&row->state) == SUBMIT_DONE) {
                submit_release(x->submit);
                x->submit = NONE;
            }
        }
        if (x->command != NONE &&
            atomic_load(&command_at(x->command)->state) == COMMAND_DONE) {
            command_release(x->command);
            x->command = NONE;
        }
        if ((x->submit == NONE && x->command == NONE) || engine_ended) forget(x);
    }
    pthread_mutex_unlock(&x->lock);
}
