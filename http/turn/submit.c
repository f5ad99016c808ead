/* http/turn/submit.c - the submit rows: HTTP threads fill and push them, the engine pops them. */
#include "http/turn/submit.h"

#include "arena/table.h"

#include <string.h>

static struct {
    struct submit_row *row;
    struct ring        free, inbox, memos;
    struct ring_wake   wake;
    u32                rows, queue_cap;
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

u64 submit_table_bytes(u32 rows)
{
    return (u64)rows * sizeof(struct submit_row) +
           3ull * ring_cap(rows) * sizeof(struct ring_cell) + 2 * 64;
}

enum err submit_open(u32 table_arena, u32 rows, u32 queue_cap)
{
    struct ring_cell *cell;
    u32 cap = ring_cap(rows);
    memset(&table, 0, sizeof table);
    TRY(arena_table_take(table_arena, "submits", sizeof *table.row, rows, &table.row));
    TRY(arena_table_take(table_arena, "submit rings", sizeof *cell, 3ull * cap, &cell));
    table.wake.event_fd = -1;
    table.rows = rows;
    table.queue_cap = queue_cap;
    table.running_cap = 1;
    ring_open(&table.free, cell, cap, NULL);
    ring_open(&table.inbox, cell + cap, cap, &table.wake);
    ring_open(&table.memos, cell + 2 * cap, cap, &table.wake);
    for (u32 i = 0; i < rows; i++)
        if (!ring_push(&table.free, i)) return fail(ERR_FULL, "turns: no ring for %u rows", rows);
    return OK;
}

/* ------------------------------------------------------------------ HTTP side */

u32 submit_take(void)
{
    u32 submit;
    if (!ring_pop(&table.free, &submit)) return NONE;
    memset(&table.row[submit], 0, sizeof table.row[submit]);
    table.row[submit].state = SUBMIT_TAKEN;
    return submit;
}

struct submit_row *submit_at(u32 submit)
{
    ASSERT(submit < table.rows);
    return &table.row[submit];
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

void submit_memo(u32 submit)
{
    ASSERT(submit_at(submit)->state == SUBMIT_DONE);
    bool pushed = ring_push(&table.memos, submit);
    ASSERT(pushed);
}

u32 submit_queued(void) { return table.queued; }
bool submit_draining(void) { return table.draining; }
void submit_drained(void) { ring_wake_ring(&table.wake); }

/* ------------------------------------------------------------------ engine side */

struct ring_wake *submit_wake(void) { return &table.wake; }
void submit_running_cap(u32 slots) { table.running_cap = slots; }
void submit_close_inbox(void) { table.draining = true; }
bool submit_next(u32 *out) { return ring_pop(&table.inbox, out); }
bool submit_next_memo(u32 *out) { return ring_pop(&table.memos, out); }
void submit_unqueue(void) { atomic_fetch_sub(&table.queued, 1); }
void submit_land(void) { atomic_fetch_sub(&table.flight, 1); }
