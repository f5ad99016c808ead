/* tiers/nvme/kept.c - records and their entries. */
#include "tiers/nvme/kept.h"

#include "arena/table.h"
#include "tiers/nvme/spill.h"
#include "tiers/record.h"

static struct kept_row *rows_kept;      /* [record_cap]                                       */

u64 kept_table_bytes(u32 record_cap) { return (u64)record_cap * sizeof(struct kept_row); }

enum err kept_open(u32 table_arena, u32 record_cap)
{
    return arena_table_take(table_arena, "nvme records", sizeof *rows_kept, record_cap,
                            &rows_kept);
}

/* A turn of another session took the record over: what is known is of the other's entry. */
struct kept_row *kept_of(u32 record)
{
    struct kept_row *k = &rows_kept[record];
    const struct record_row *r = record_at(record);
    bool same = k->number == r->number;
    if (!same || !record_session(record, k->session))
        *k = (struct kept_row){ .number = r->number, .session = { r->session[0], r->session[1] },
                                .boot = same && k->boot };
    return k;
}

void kept_turn_over(u32 record, u64 start, bool answered, u64 now_us)
{
    struct kept_row *k = kept_of(record);
    u64 rows = record_rows(record);
    if (answered) {
        bool anew = k->answers == 0 || 2 * start < k->whole_rows;
        if (anew) k->start = start;
        k->answers = anew ? 1 : k->answers + 1;
        k->whole_rows = rows;
    } else if (rows > start) k->whole_rows = 0;
    k->saved_rows = MIN(k->saved_rows, start);  /* rows above were written anew               */
    k->turn_us = now_us;
}

void kept_check(u32 record, bool saving)
{
    struct kept_row *k = kept_of(record);
    u32 row = spill_session(record_at(record)->session);
    if (saving || k->saved_rows == 0) return;
    if (row == NONE || spill_at(row)->talk.length < k->saved_rows) k->saved_rows = 0;
}

bool kept_writable(u32 record)
{
    const struct record_row *r = record_at(record);
    struct anchor_list list = record_anchors(record);
    bool class = r->class == HOLD_LIVE || r->class == HOLD_PARK;
    return class && !r->busy && !r->guest && !r->tail && anchors_count(&list) > 0 &&
           record_rows(record) > 0;
}

static bool whole(u32 record) { return kept_of(record)->whole_rows == record_rows(record); }

static bool later(u32 a, u32 b) { return record_at(a)->used_us > record_at(b)->used_us; }

/* A whole record is one answer beside a conversation of so many rows. */
static bool beside(u32 record, u64 rows)
{
    const struct kept_row *k = kept_of(record);
    return k->answers == 1 && 2 * k->start < rows && record_rows(record) < rows;
}

/* A turn of the session in this life left it. */
static bool left(u32 record, const u64 session[2])
{
    return record_session(record, session) && kept_writable(record) &&
           kept_of(record)->turn_us > 0;
}

/* The record of a session that holds what its turns left, or NONE; its entry has so many rows. */
static u32 standing(const u64 session[2], u64 entry_rows)
{
    u32 best = NONE, part = NONE;
    u64 longest = entry_rows;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1))
        if (left(r, session)) longest = MAX(longest, record_rows(r));
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (!left(r, session) || !whole(r) || beside(r, longest)) continue;
        if (best == NONE || later(r, best)) best = r;
    }
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (!left(r, session) || whole(r)) continue;
        if (best != NONE && (!later(r, best) || record_rows(r) < record_rows(best))) continue;
        u64 rows = record_rows(r), most = part == NONE ? 0 : record_rows(part);
        if (rows > most || (rows == most && later(r, part))) part = r;
    }
    return part != NONE ? part : best;
}

bool kept_newest(u32 record)
{
    const struct record_row *mine = record_at(record);
    u32 row = spill_session(mine->session);
    u64 entry_rows = row == NONE ? 0 : spill_at(row)->talk.length;
    if (standing(mine->session, entry_rows) != record) return false;
    return row == NONE || (spill_at(row)->used_us <= mine->used_us &&
                           (whole(record) || entry_rows <= record_rows(record)));
}
