/* http/turn/turn.c - the submit rows that HTTP threads fill and the turn table of the engine. */
#include "http/turn/pass.h"

#include "arena/base/clock.h"
#include "arena/table.h"

#include <stdio.h>
#include <string.h>

const char *const turn_source_word[SOURCE_COUNT] = { "cold", "grid", "turn", "end" };
const char *const turn_reason_word[REASON_COUNT] = { NULL, "parted", "short", "never_seen",
                                                     "memory", "off" };
static_assert((int)SOURCE_END == (int)TIER_END && (int)SOURCE_COUNT == (int)TIER_SOURCE_COUNT &&
              (int)REASON_OFF == (int)TIER_OFF && (int)REASON_COUNT == (int)TIER_REASON_COUNT,
              "sources and reasons of tiers and turns are the same numbers");

static struct {
    struct submit_row *submit;
    struct turn_row   *turn;
    struct ring        free, inbox;
    struct ring_wake   wake;
    u32                rows, queue_cap;
    u64                number;
    _Atomic u32        running_cap;
    _Atomic u32        flight;      /* pushed and not yet done                                */
    _Atomic u32        queued;      /* pushed and not yet admitted or done                    */
    _Atomic bool       draining;
} table;

static u32 ring_cap(u32 rows)
{
    u32 cap = 2;
    while (cap < rows) cap *= 2;
    return cap;
}

u64 turn_table_bytes(u32 rows)
{
    return (u64)rows * (sizeof(struct submit_row) + sizeof(struct turn_row)) +
           2ull * ring_cap(rows) * sizeof(struct ring_cell) + 4 * 64;
}

enum err turn_open(u32 table_arena, u32 rows, u32 queue_cap)
{
    struct ring_cell *cell;
    u32 cap = ring_cap(rows);
    memset(&table, 0, sizeof table);
    TRY(arena_table_take(table_arena, "submits", sizeof *table.submit, rows, &table.submit));
    TRY(arena_table_take(table_arena, "turns", sizeof *table.turn, rows, &table.turn));
    TRY(arena_table_take(table_arena, "turn rings", sizeof *cell, 2ull * cap, &cell));
    table.wake.event_fd = -1;
    table.rows = rows;
    table.queue_cap = queue_cap;
    table.running_cap = 1;
    ring_open(&table.free, cell, cap, NULL);
    ring_open(&table.inbox, cell + cap, cap, &table.wake);
    for (u32 i = 0; i < rows; i++)
        if (!ring_push(&table.free, i)) return fail(ERR_FULL, "turns: no ring for %u rows", rows);
    return OK;
}

void turn_close(void) { table.rows = 0; }

struct ring_wake *turn_wake(void) { return &table.wake; }

void turn_running_cap(u32 slots) { table.running_cap = slots; }

void turn_close_inbox(void) { table.draining = true; }

/* ------------------------------------------------------------------ HTTP side */

u32 submit_take(void)
{
    u32 submit;
    if (!ring_pop(&table.free, &submit)) return NONE;
    memset(&table.submit[submit], 0, sizeof table.submit[submit]);
    table.submit[submit].state = SUBMIT_TAKEN;
    return submit;
}

struct submit_row *submit_at(u32 submit)
{
    ASSERT(submit < table.rows);
    return &table.submit[submit];
}

enum err submit_push(u32 submit)
{
    struct submit_row *row = submit_at(submit);
    ASSERT(row->state == SUBMIT_TAKEN);
    if (table.draining) return fail(ERR_CANCELLED, "the server is shutting down");
    u32 limit = table.running_cap + table.queue_cap;
    u32 flight = atomic_fetch_add(&table.flight, 1);
    if (flight >= limit) {
        atomic_fetch_sub(&table.flight, 1);
        return fail(ERR_FULL, "queue: %u requests are running and %u wait", table.running_cap,
                    table.queue_cap);
    }
    ring_open(&row->out, row->out_ids, TURN_OUT_IDS, row->wake);
    row->queue_place = atomic_fetch_add(&table.queued, 1) + 1;
    row->state = SUBMIT_QUEUED;
    bool pushed = ring_push(&table.inbox, submit);
    ASSERT(pushed);                 /* the ring has a cell a row */
    return OK;
}

void submit_cancel(u32 submit)
{
    submit_at(submit)->cancelled = 1;
    ring_wake_ring(&table.wake);
}

void submit_release(u32 submit)
{
    u32 state = submit_at(submit)->state;
    ASSERT(state == SUBMIT_TAKEN || state == SUBMIT_DONE);
    submit_at(submit)->state = SUBMIT_FREE;
    bool pushed = ring_push(&table.free, submit);
    ASSERT(pushed);
}

u32 submit_queued(void) { return table.queued; }
bool submit_draining(void) { return table.draining; }
void submit_drained(void) { ring_wake_ring(&table.wake); }

/* ------------------------------------------------------------------ turn rows */

struct turn_row *turn_at(u32 turn)
{
    ASSERT(turn < table.rows && table.turn[turn].state != TURN_FREE);
    return &table.turn[turn];
}

u32 turn_next(u32 from)
{
    for (u32 i = from; i < table.rows; i++)
        if (table.turn[i].state != TURN_FREE) return i;
    return NONE;
}

u32 turn_oldest(enum turn_state state)
{
    u32 oldest = NONE;
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1))
        if (table.turn[i].state == state &&
            (oldest == NONE || table.turn[i].number < table.turn[oldest].number)) oldest = i;
    return oldest;
}

u32 turn_count(enum turn_state state)
{
    u32 count = 0;
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1))
        count += table.turn[i].state == state;
    return count;
}

u32 *turn_ids(struct engine *e, const struct turn_row *turn)
{
    return e->ids + (u64)turn->slot * e->ctx;
}

void turn_end(struct engine *e, struct turn_row *turn, enum turn_finish finish)
{
    if (turn->state == TURN_DONE) return;
    if (turn->state == TURN_QUEUED) {
        atomic_fetch_sub(&table.queued, 1);
        submit_at(turn->submit)->queue_place = 0;
    }
    turn->state = TURN_DONE;
    turn->finish = finish;
    e->moved = true;
}

void turn_fail(struct engine *e, struct turn_row *turn, enum err error)
{
    turn->error = error;
    snprintf(turn->error_text, sizeof turn->error_text, "%.*s", TURN_ERROR_BYTES - 1,
             err_last()->text);
    turn_end(e, turn, FINISH_ERROR);
}

void turn_publish(const struct turn_row *turn, enum submit_state state)
{
    struct submit_row *row = submit_at(turn->submit);
    if (state == SUBMIT_PREFILL) {
        row->queue_place = 0;
        atomic_fetch_sub(&table.queued, 1);
    }
    struct ring_wake *wake = row->wake;         /* after DONE the row is not ours to read */
    row->state = state;
    if (wake != NULL) ring_wake_ring(wake);
}

void turn_free(u32 turn)
{
    atomic_fetch_sub(&table.flight, 1);
    table.turn[turn].state = TURN_FREE;
}

/* Marks below the last row in order, without doubles, and the last row's own. */
static void take_marks(struct turn_row *turn, const struct submit_row *row)
{
    u64 last = turn->prompt_count - 1;
    u32 given = MIN(row->mark_count, (u32)TURN_MARK_CAP), count = 0;
    for (u32 k = 0; k <= given; k++) {
        struct turn_mark mark = k < given ? row->mark[k]
                                          : (struct turn_mark){ .pos = last, .kind = MARK_LAST };
        if (mark.pos == 0 || mark.pos > last) continue;
        u32 at = count;
        while (at > 0 && turn->mark[at - 1].pos > mark.pos) at--;
        if (at > 0 && turn->mark[at - 1].pos == mark.pos) {
            if (mark.kind == MARK_HEAD) turn->mark[at - 1].kind = MARK_HEAD;
            continue;
        }
        memmove(&turn->mark[at + 1], &turn->mark[at], (count - at) * sizeof mark);
        turn->mark[at] = mark;
        count++;
    }
    turn->mark_count = count;
}

static void start_turn(struct engine *e, u32 submit)
{
    const struct submit_row *row = submit_at(submit);
    u32 at = 0;
    while (at < table.rows && table.turn[at].state != TURN_FREE) at++;
    ASSERT(at < table.rows);        /* as many turns as submit rows */
    struct turn_row *turn = &table.turn[at];
    memset(turn, 0, sizeof *turn);
    turn->state = TURN_QUEUED;
    turn->submit = submit;
    turn->slot = turn->stop_id = NONE;
    turn->number = ++table.number;
    turn->prompt_count = row->id_count;
    turn->hit = (struct tier_hit){ .record = NONE, .slot = NONE, .victim = NONE,
                                   .part_pos = UINT64_MAX };
    stop_start(&turn->stop, row);
    if (row->id_count == 0 || row->id_count >= e->ctx) {
        turn_fail(e, turn, fail(ERR_LIMIT, "prompt: %llu ids; 1 to %llu fit the context",
                                (ull)row->id_count, (ull)e->ctx - 1));
        return;
    }
    for (u64 i = 0; i < row->id_count; i++) {
        if (row->ids[i] < e->vocab) continue;
        turn_fail(e, turn, fail(ERR_LIMIT, "prompt: id %u at %llu is outside the vocabulary of %u",
                                row->ids[i], (ull)i, e->vocab));
        return;
    }
    u64 most = row->max_tokens == 0 ? e->ctx : MIN(row->max_tokens, e->ctx);
    turn->row_limit = MIN(e->ctx, row->id_count + most - 1);
    take_marks(turn, row);
}

void turn_pass(struct engine *e)
{
    u32 submit, place = 0;
    while (ring_pop(&table.inbox, &submit)) {
        start_turn(e, submit);
        e->moved = true;
    }
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1)) {
        struct turn_row *turn = &table.turn[i];
        if (turn->state == TURN_DONE) continue;
        if (submit_at(turn->submit)->cancelled) turn_end(e, turn, FINISH_CANCELLED);
        else if (e->draining && turn->state == TURN_QUEUED)
            turn_fail(e, turn, fail(ERR_CANCELLED, "the server is shutting down"));
    }
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1)) {
        struct submit_row *row = submit_at(table.turn[i].submit);
        if (table.turn[i].state != TURN_QUEUED) continue;
        place = 1;
        for (u32 k = turn_next(0); k != NONE; k = turn_next(k + 1))
            place += table.turn[k].state == TURN_QUEUED &&
                     table.turn[k].number < table.turn[i].number;
        if (row->queue_place == place) continue;
        row->queue_place = place;
        if (row->wake != NULL) ring_wake_ring(row->wake);
    }
}
