/* tiers/store.c - prefix entries; session entries are displaced guests (aside/displace). */
#include "tiers/store.h"

#include "model/state.h"

u64 store_line(u32 record, u64 limit)
{
    u64 block_bytes = arena_row(state_blocks_arena())->unit_bytes;
    u64 unit_bytes = arena_row(state_sections_arena())->unit_bytes;
    u64 block_rows = state_shape()->block_rows, cap = aside_entry_cap();
    struct anchor_list list = record_anchors(record);
    for (u32 i = anchors_count(&list); i-- > 0;) {
        u64 pos = list.row[i].pos;
        if (pos > limit || pos > record_at(record)->taint) continue;
        if (pos % state_shape()->grid_rows != 0) continue;
        if (pos / block_rows * block_bytes + unit_bytes <= cap) return pos;
    }
    return 0;
}

/* An entry with these rows and maybe more. */
static bool held(u32 record, u64 pos)
{
    u32 count, others;
    u64 rows, other_rows;
    u32 last = (u32)(pos / state_shape()->block_rows) - 1;
    const block_id *list = record_blocks(record, &count, &rows);
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (!record_at(r)->prefix) continue;
        const block_id *other = record_blocks(r, &others, &other_rows);
        if (other_rows >= pos && other[last].index == list[last].index) return true;
    }
    return false;
}

static void supersede(u32 entry)
{
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (r == entry || !record_at(r)->prefix || aside_protected(r)) continue;
        if (!record_session(r, record_at(entry)->session) || !record_covers(entry, r)) continue;
        record_at(entry)->hits += record_at(r)->hits;
        record_drop(r);
    }
}

void store_prefix(u32 record, u64 start, u64 prompt_count)
{
    u32 entry;
    u64 pos = store_line(record, prompt_count);
    if (pos == 0 || pos <= start || held(record, pos)) return;
    if (record_branch(record, pos, HOLD_STORE, &entry) != OK &&
        (!aside_evict() || record_branch(record, pos, HOLD_STORE, &entry) != OK)) {
        aside_counts()->refused[HOLD_STORE]++;
        return;
    }
    struct anchor_list list = record_anchors(entry);
    for (u32 i = anchors_count(&list) - 1; i-- > 0;)
        anchors_drop(&list, state_sections_arena(), i, HOLD_STORE);
    record_at(entry)->prefix = true;
    supersede(entry);
    aside_counts()->kept[HOLD_STORE]++;
}
