/* tiers/aside/displace.c - what a displaced conversation leaves behind. */
#include "tiers/aside/displace.h"

#include "model/state.h"

#include <string.h>

/* The caller has given the record an anchor at its end (record_keep_end): plans end at anchors. */
static void plan_park(u32 record, u64 pin_rows, struct displace_plan *out)
{
    u64 cap = aside_cap(out->class);
    if (out->class == HOLD_STORE) cap = aside_entry_cap();
    park_plan(record, pin_rows, cap, &out->park);
    u64 least = MIN(record_rows(record), (u64)state_shape()->grid_rows);
    if (out->park.rows < least && out->park.rows < record_rows(record)) out->park.rows = 0;
}

void displace_plan(u32 record, struct displace_plan *out)
{
    memset(out, 0, sizeof *out);
    out->class = record_at(record)->guest ? HOLD_STORE : HOLD_PARK;
    if (out->class == HOLD_PARK) pin_plan(record, aside_cap(HOLD_PIN), &out->pin);
    plan_park(record, out->pin.rows, out);
}

bool displace_ended(u32 record, u64 start)
{
    u64 rows = record_rows(record);
    u32 last = end_find(record_generations(record), rows);
    return rows - start >= state_shape()->grid_rows && last != 0 && end_at(last)->hi == rows;
}

void displace_tail(u32 record, u64 start, struct displace_plan *out)
{
    memset(out, 0, sizeof *out);
    out->class = HOLD_PARK;
    if (!displace_ended(record, start)) return;
    plan_park(record, 0, out);
    if (out->park.rows <= start) out->park.rows = 0;
}

/* Tries it once more after the least valuable record aside has gone: tables are full. */
static bool leave(u32 record, enum holder class)
{
    if (record_leave(record, class) == OK) return true;
    return aside_evict() && record_leave(record, class) == OK;
}

bool displace_apply(u32 record, const struct displace_plan *plan, bool tail)
{
    struct aside_counts *counts = aside_counts();
    if (plan->pin.rows > 0 && pin_apply(record, &plan->pin) != OK && aside_evict())
        if (pin_apply(record, &plan->pin) != OK) counts->refused[HOLD_PIN]++;
    u32 old = tail ? park_tail(record_at(record)->session) : NONE;
    if (plan->park.rows == 0 || !leave(record, plan->class)) {
        counts->refused[plan->class]++;
        record_drop(record);
        return false;
    }
    park_apply(record, &plan->park);
    record_at(record)->tail = tail;
    if (old != NONE && !aside_protected(old)) record_drop(old);
    counts->kept[plan->class]++;
    return true;
}
