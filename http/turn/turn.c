/* http/turn/turn.c - the turn table of the engine thread: new rows, cancels, places in line. */
#include "http/turn/pass.h"
#include "http/turn/submit.h"

#include "arena/table.h"

#include <stdio.h>
#include <string.h>

const char *const turn_source_word[SOURCE_COUNT] = { "cold", "grid", "turn", "end", "pin", "park",
                                                     "store", "disk", "spill", "response" };
const char *const turn_reason_word[REASON_COUNT] = { NULL, "parted", "short", "never_seen",
                                                     "memory", "off", "context", "slow_read",
                                                     "failed_check" };
const char *const turn_served_word[SERVED_COUNT] = { "sent", "aligned" };
const char *const turn_drafter_word[DRAFTER_COUNT] = { "mtp", "lookup", "hostile" };
static_assert((int)SOURCE_RESPONSE == (int)TIER_RESPONSE &&
              (int)SOURCE_COUNT == (int)TIER_SOURCE_COUNT &&
              (int)REASON_FAILED_CHECK == (int)TIER_FAILED_CHECK &&
              (int)REASON_COUNT == (int)TIER_REASON_COUNT,
              "sources and reasons of tiers and turns are the same numbers");

static struct {
    struct turn_row *turn;
    u32 rows;
    u64 number;
} table;

u64 turn_table_bytes(u32 rows)
{
    return submit_table_bytes(rows) + (u64)rows * sizeof(struct turn_row) + 64;
}

enum err turn_open(u32 table_arena, u32 rows, u32 queue_cap)
{
    memset(&table, 0, sizeof table);
    TRY(submit_open(table_arena, rows, queue_cap));
    TRY(arena_table_take(table_arena, "turns", sizeof *table.turn, rows, &table.turn));
    table.rows = rows;
    return OK;
}

void turn_close(void) { table.rows = 0; }

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
    if (turn->state == TURN_LOADING) nvme_load_abandon(turn->load);
    if (turn->state == TURN_QUEUED || turn->state == TURN_LOADING) {
        submit_unqueue();
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

void turn_lose(struct engine *e, struct turn_row *turn, enum err error, bool distrust)
{
    bool restored = turn->hit.source == TIER_DISK || turn->hit.source == TIER_SPILL;
    turn->lost = true;
    if (restored && distrust) nvme_distrust(turn->from_disk.name);
    turn_fail(e, turn, error);
}

void turn_publish(const struct turn_row *turn, enum submit_state state)
{
    struct submit_row *row = submit_at(turn->submit);
    if (state == SUBMIT_PREFILL) {
        row->queue_place = 0;
        submit_unqueue();
    }
    struct ring_wake *wake = row->wake;         /* after DONE the row is not ours to read */
    row->state = state;
    if (wake != NULL) ring_wake_ring(wake);
}

void turn_free(u32 turn)
{
    submit_land();
    table.turn[turn].state = TURN_FREE;
}

/* Marks below the last row in order, without doubles, and the last row's own. */
static void take_marks(struct turn_row *turn, const struct turn_mark *marks, u32 mark_count)
{
    u64 last = turn->prompt_count - 1;
    u32 given = MIN(mark_count, (u32)TURN_MARK_CAP), count = 0;
    for (u32 k = 0; k <= given; k++) {
        struct turn_mark mark = k < given ? marks[k]
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

void turn_serve(const struct engine *e, struct turn_row *turn, u64 prompt_count,
                const struct turn_mark *marks, u32 mark_count)
{
    const struct submit_row *row = submit_at(turn->submit);
    u64 most = row->max_tokens == 0 ? e->ctx : MIN(row->max_tokens, e->ctx);
    turn->prompt_count = prompt_count;
    turn->row_limit = MIN(e->ctx, prompt_count + most + row->close_count + row->note_count - 1);
    take_marks(turn, marks, mark_count);
}

/* The calls of an answer go beside its rows, wherever these are kept by now. */
static void keep_calls(const struct submit_row *row)
{
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (record_at(r)->number != row->made_record) continue;
        for (u32 i = 0; i < MIN(row->made_count, (u32)TURN_CALL_CAP); i++) {
            struct call_row call = row->made[i];
            if (call.lo >= call.hi) continue;
            for (u32 h = 0; h < TURN_HIDDEN_CAP; h++) {         /* pushed ids to generated ones */
                if (call.lo >= row->made_hidden[h].at) call.lo += row->made_hidden[h].count;
                if (call.hi > row->made_hidden[h].at) call.hi += row->made_hidden[h].count;
            }
            call.lo += row->made_lo;
            call.hi += row->made_lo;
            end_call(record_generations(r), &call);
        }
    }
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
    turn->slot = turn->stop_id = turn->entry = NONE;
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
    turn_serve(e, turn, row->id_count, row->mark, row->mark_count);
}

void turn_memos(void)
{
    u32 submit;
    while (submit_next_memo(&submit)) {
        keep_calls(submit_at(submit));
        submit_release(submit);
    }
}

void turn_pass(struct engine *e)
{
    u32 submit, place = 0;
    while (submit_next(&submit)) {
        start_turn(e, submit);
        e->moved = true;
    }
    turn_memos();                           /* after the inbox: what a client knew stands now */
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
