/* tiers/aside/park.c - what of a conversation is parked. */
#include "tiers/aside/park.h"

#include "model/state.h"

#include <string.h>

/* Order in which anchors are kept: ends, the newest 4, the head's, then the newest of the rest. */
static u32 rank_of(const struct anchor_list *list, u32 index, u32 count)
{
    const struct anchor_row *r = &list->row[index];
    if (r->kind == ANCHOR_END) return count - index;
    if (index + ANCHOR_NEWEST >= count) return 1000 + count - index;
    return r->head ? 2000 : 3000 + count - index;
}

/* The first `room` anchors in that order among those at or below `rows`. */
static void choose(const struct anchor_list *list, u64 rows, u64 room, struct park_plan *out)
{
    u32 count = anchors_count(list);
    while (count > 0 && list->row[count - 1].pos > rows) count--;
    for (; room > 0; room--) {
        u32 best = NONE;
        for (u32 i = 0; i < MIN(count, (u32)PARK_ANCHOR_CAP); i++) {
            if (out->keep[i]) continue;
            if (best == NONE || rank_of(list, i, count) < rank_of(list, best, count)) best = i;
        }
        if (best == NONE) return;
        out->keep[best] = true;
    }
}

void park_plan(u32 record, u64 pin_rows, u64 cap_bytes, struct park_plan *out)
{
    u64 block_bytes = arena_row(state_blocks_arena())->unit_bytes;
    u64 unit_bytes = arena_row(state_sections_arena())->unit_bytes;
    u64 block_rows = state_shape()->block_rows;
    struct anchor_list list = record_anchors(record);
    memset(out, 0, sizeof *out);
    if (cap_bytes < unit_bytes) return;
    u64 paid = pin_rows / block_rows + (cap_bytes - unit_bytes) / block_bytes;
    u32 last = anchors_best(&list, MIN(record_rows(record), paid * block_rows));
    if (last == NONE) return;
    out->rows = list.row[last].pos;
    u64 blocks = (out->rows + block_rows - 1) / block_rows - MIN(pin_rows, out->rows) / block_rows;
    u64 left = cap_bytes - MIN(cap_bytes, blocks * block_bytes);
    out->keep[MIN(last, (u32)PARK_ANCHOR_CAP - 1)] = true;
    choose(&list, out->rows, left / unit_bytes - 1, out);
}

void park_apply(u32 record, const struct park_plan *plan)
{
    struct anchor_list list = record_anchors(record);
    u32 sections = state_sections_arena();
    for (u32 i = anchors_count(&list); i-- > 0;)
        if (i >= PARK_ANCHOR_CAP || !plan->keep[i])
            anchors_drop(&list, sections, i, record_anchor_holder(record));
    record_cut(record, plan->rows);
}

u32 park_tail(const u64 session[2])
{
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1))
        if (record_at(r)->tail && record_session(r, session)) return r;
    return NONE;
}
