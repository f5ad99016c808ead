/* budget/shares.c - rows of units by (arena, index), found again by a hash of both. */
#include "budget/shares.h"

#include "budget/plan.h"

#include <string.h>

void budget_shares_open(struct budget_shares *s)
{
    s->unit_count = s->list_count = s->begun = s->own_count = 0;
    s->full = false;
    memset(s->place, 0, sizeof s->place);
}

void budget_shares_begin(struct budget_shares *s)
{
    s->begun = s->list_count;
    s->own_count = 0;
    s->full = false;
}

/* The unit's row, made when it is new; NONE when the table is full. */
static u32 row_of(struct budget_shares *s, u32 arena, u32 index, u64 bytes,
                  const struct holders *holders)
{
    const u32 mask = 2 * BUDGET_UNIT_CAP - 1;
    u32 at = (index * 0x9E3779B1u ^ arena * 0x85EBCA77u) >> 7 & mask;
    for (; s->place[at] != 0; at = (at + 1) & mask) {   /* at most half of it is used        */
        const struct budget_unit *u = &s->unit[s->place[at] - 1];
        if (u->arena == arena && u->index == index) return s->place[at] - 1;
    }
    if (s->unit_count == BUDGET_UNIT_CAP) return NONE;
    s->unit[s->unit_count] = (struct budget_unit){ .bytes = bytes, .holders = *holders,
                                                   .arena = arena, .index = index };
    s->place[at] = ++s->unit_count;
    return s->unit_count - 1;
}

/* Bytes that this record alone holds, by arena; false when it holds units of too many arenas. */
static bool add_own(struct budget_shares *s, u32 arena, u64 bytes)
{
    u32 i = 0;
    while (i < s->own_count && s->own_arena[i] != arena) i++;
    if (i == BUDGET_OWN_ARENAS) return false;
    if (i == s->own_count) {
        s->own_arena[s->own_count++] = arena;
        s->own_bytes[i] = 0;
    }
    s->own_bytes[i] += bytes;
    return true;
}

void budget_shares_add(struct budget_shares *s, u32 arena, u32 index, u64 bytes,
                       const struct holders *holders)
{
    if (holders_total(holders) == 1 && add_own(s, arena, bytes)) {
        s->own_holders = *holders;
        return;
    }
    u32 row = s->list_count < BUDGET_LIST_CAP ? row_of(s, arena, index, bytes, holders) : NONE;
    if (row == NONE) s->full = true;
    else s->list[s->list_count++] = row;
}

/* Own bytes of the first arena stand in the record; those of others are a row each. */
bool budget_shares_end(struct budget_shares *s, struct budget_record *record)
{
    record->arena = s->own_count > 0 ? s->own_arena[0] : NONE;
    record->freed_bytes = s->own_count > 0 ? s->own_bytes[0] : 0;
    for (u32 i = 1; i < s->own_count && !s->full; i++) {
        if (s->unit_count == BUDGET_UNIT_CAP || s->list_count == BUDGET_LIST_CAP) s->full = true;
        if (s->full) break;
        s->list[s->list_count++] = s->unit_count;
        s->unit[s->unit_count++] = (struct budget_unit){
            .bytes = s->own_bytes[i], .holders = s->own_holders, .arena = s->own_arena[i],
            .index = NONE,
        };
    }
    if (s->full) {                      /* rows it made stay: others may share them          */
        s->list_count = s->begun;
        record->freed_bytes = 0;
        record->arena = NONE;
        record->pinned = true;
    }
    record->list_lo = s->begun;
    record->list_hi = s->list_count;
    return !s->full;
}

void budget_shares_drop(struct budget_shares *s, struct budget_record *record)
{
    for (u32 k = record->list_lo; k < record->list_hi; k++) {
        struct holders *h = &s->unit[s->list[k]].holders;
        ASSERT(h->count[record->holder] > 0);
        h->count[record->holder]--;
    }
    record->list_lo = record->list_hi = 0;
    record->freed_bytes = 0;
}
