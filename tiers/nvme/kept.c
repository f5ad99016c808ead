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
        bool anew = k->answers == 0 || 2 * start < k->most_rows;
        if (anew) k->start = start;
        k->answers = anew ? 1 : k->answers + 1;
        k->whole_rows = k->most_rows = rows;
    } else if (rows > start) k->whole_rows = 0;
    k->most_rows = MAX(k->most_rows, rows);
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

static bool before(u32 a, u32 b)
{
    u64 x = record_at(a)->used_us, y = record_at(b)->used_us;
    return x != y ? x < y : a < b;
}

/* The one used next after `last` (NONE: the first), not before `from_us`, or NONE. */
static u32 next_left(const u64 session[2], u32 last, u64 from_us)
{
    u32 next = NONE;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (!left(r, session) || record_at(r)->used_us < from_us) continue;
        if (last != NONE && !before(last, r)) continue;
        if (next == NONE || before(r, next)) next = r;
    }
    return next;
}

/* The record that stands for a session, or NONE: its entry does.  What its turns left goes over one
 * another as each came. */
static u32 standing(const u64 session[2])
{
    u32 row = spill_session(session), best = NONE;
    u64 rows = row == NONE ? 0 : spill_at(row)->talk.length;
    u64 from_us = row == NONE ? 0 : spill_at(row)->used_us;
    for (u32 r = next_left(session, NONE, from_us); r != NONE; r = next_left(session, r, from_us)) {
        if (whole(r) ? beside(r, rows) : record_rows(r) < rows) continue;
        best = r;
        rows = record_rows(r);
    }
    return best;
}

bool kept_newest(u32 record) { return standing(record_at(record)->session) == record; }
