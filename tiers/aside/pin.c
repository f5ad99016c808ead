/* tiers/aside/pin.c - heads that are kept when their conversation is displaced. */
#include "tiers/aside/pin.h"

#include "model/state.h"

#include <string.h>

/* `count` of the anchors [0, last] spread over the rows, the last one and the head's among them. */
static void spread(const struct anchor_list *list, u32 last, u32 count, struct pin_plan *out)
{
    u64 rows = list->row[last].pos;
    u32 from = 0, head = NONE;
    for (u32 i = 0; i < last; i++)
        if (list->row[i].head) head = i;
    for (u32 k = 0; k < count; k++) {
        u64 aim = rows * (k + 1) / count;
        u32 at = from;
        while (at < last && list->row[at].pos < aim && last - at > count - 1 - k) at++;
        if (head != NONE && head >= from && head <= at && k + 1 < count) {
            at = head;
            head = NONE;
        }
        out->pos[k] = list->row[at].pos;
        from = at + 1;
    }
    out->pos[count - 1] = rows;
    out->count = count;
    out->rows = rows;
}

void pin_plan(u32 record, u64 cap_bytes, struct pin_plan *out)
{
    u64 block_bytes = arena_row(state_blocks_arena())->unit_bytes;
    u64 unit_bytes = arena_row(state_sections_arena())->unit_bytes;
    u64 block_rows = state_shape()->block_rows, rows = record_rows(record);
    struct anchor_list list = record_anchors(record);
    memset(out, 0, sizeof *out);
    for (u32 last = anchors_count(&list); last-- > 0;) {
        u64 pos = list.row[last].pos;
        if (pos >= rows) continue;
        if (pos < state_shape()->grid_rows && !list.row[last].head) return;
        u64 bytes = (pos + block_rows - 1) / block_rows * block_bytes;
        if (bytes + unit_bytes > cap_bytes) continue;
        u64 units = MIN((cap_bytes - bytes) / unit_bytes, (u64)PIN_ANCHORS);
        spread(&list, last, (u32)MIN(units, (u64)last + 1), out);
        return;
    }
}

/* Pins that this one stands for: their hits are its own. */
static void supersede(u32 pin)
{
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (r == pin || record_at(r)->class != HOLD_PIN || aside_protected(r)) continue;
        if (!record_covers(pin, r)) continue;
        record_at(pin)->hits += record_at(r)->hits;
        record_at(pin)->saved_tokens += record_at(r)->saved_tokens;
        record_drop(r);
    }
}

enum err pin_apply(u32 record, const struct pin_plan *plan)
{
    u32 pin, sections = state_sections_arena();
    TRY(record_branch(record, plan->rows, HOLD_PIN, &pin));
    struct anchor_list list = record_anchors(pin);
    for (u32 i = anchors_count(&list); i-- > 0;) {
        bool kept = false;
        for (u32 k = 0; k < plan->count; k++) kept = kept || plan->pos[k] == list.row[i].pos;
        if (!kept) anchors_drop(&list, sections, i, HOLD_PIN);
    }
    supersede(pin);
    aside_counts()->kept[HOLD_PIN]++;
    return OK;
}
