/* tiers/anchors.c - one record's anchors: which is best, which is cheapest to drop. */
#include "tiers/anchors.h"

#include <string.h>

u32 anchors_best(const struct anchor_list *list, u64 limit)
{
    u32 best = NONE;
    for (u32 i = 0; i < list->row_cap && list->row[i].kind != ANCHOR_FREE; i++) {
        const struct anchor_row *r = &list->row[i];
        if (r->pos > limit) continue;
        if (best == NONE || r->pos > list->row[best].pos) best = i;
    }
    return best;
}

u32 anchors_count(const struct anchor_list *list)
{
    u32 count = 0;
    while (count < list->row_cap && list->row[count].kind != ANCHOR_FREE) count++;
    return count;
}

u32 anchors_at(const struct anchor_list *list, u64 pos)
{
    u32 i = anchors_best(list, pos);
    return i != NONE && list->row[i].pos == pos ? i : NONE;
}

/* All but the last two end anchors are ordinary ones from now on. */
static void keep_ends(struct anchor_list *list)
{
    u32 ends = 0;
    for (u32 i = anchors_count(list); i-- > 0;) {
        if (list->row[i].kind != ANCHOR_END) continue;
        if (++ends > ANCHOR_ENDS) list->row[i].kind = ANCHOR_TURN;
    }
}

u32 anchors_take(struct anchor_list *list, u64 pos, unit_id unit, enum anchor_kind kind, bool head)
{
    u32 count = anchors_count(list), at = count;
    if (count == list->row_cap) return NONE;
    while (at > 0 && list->row[at - 1].pos > pos) {
        list->row[at] = list->row[at - 1];
        at--;
    }
    ASSERT(at == 0 || list->row[at - 1].pos < pos);
    if (FAULT(FAULT_ANCHOR_OFF_BY_ONE)) pos--;
    list->row[at] = (struct anchor_row){ .pos = pos, .unit = unit, .kind = (u8)kind,
                                         .head = (u8)head };
    if (kind == ANCHOR_END) keep_ends(list);
    return at;
}

void anchors_mark(struct anchor_list *list, u32 index, enum anchor_kind kind, bool head)
{
    struct anchor_row *r = &list->row[index];
    ASSERT(r->kind != ANCHOR_FREE);
    if ((u8)kind > r->kind) r->kind = (u8)kind;
    if (head) r->head = 1;
    if (kind == ANCHOR_END) keep_ends(list);
}

bool anchors_drop(struct anchor_list *list, u32 sections, u32 index, enum holder class)
{
    u32 count = anchors_count(list);
    ASSERT(index < count);
    unit_id unit = list->row[index].unit;
    bool last = holders_total(arena_slots_holders(sections, unit)) == 1;
    arena_slots_drop(sections, unit, class);
    for (u32 i = index; i + 1 < count; i++) list->row[i] = list->row[i + 1];
    memset(&list->row[count - 1], 0, sizeof list->row[0]);
    return last;
}

void anchors_cut(struct anchor_list *list, u32 sections, u64 pos, enum holder class)
{
    for (u32 i = anchors_count(list); i-- > 0 && list->row[i].pos > pos;)
        anchors_drop(list, sections, i, class);
}

void anchors_fork(struct anchor_list *to, const struct anchor_list *from, u32 sections, u64 pos,
                  enum holder class)
{
    u32 count = anchors_count(from);
    ASSERT(anchors_count(to) == 0 && to->row_cap >= count);
    for (u32 i = 0; i < count && from->row[i].pos <= pos; i++) {
        arena_slots_hold(sections, from->row[i].unit, class);
        to->row[i] = from->row[i];
        to->row[i].hits = 0;
    }
}

void anchors_recharge(const struct anchor_list *list, u32 sections, enum holder from,
                      enum holder to)
{
    for (u32 i = anchors_count(list); i-- > 0;)
        arena_slots_recharge(sections, list->row[i].unit, from, to);
}

u64 anchors_cost(const struct anchor_list *list, u32 index)
{
    const struct anchor_row *r = &list->row[index];
    u64 before = index == 0 ? 0 : list->row[index - 1].pos;
    return (r->pos - before) * ((u64)r->hits + 1);
}

u32 anchors_cheapest(const struct anchor_list *list, u32 keep, bool keep_head)
{
    u32 count = anchors_count(list), best = NONE;
    for (u32 i = 0; i + keep < count; i++) {
        if (keep_head && list->row[i].head) continue;
        if (best == NONE || anchors_cost(list, i) < anchors_cost(list, best)) best = i;
    }
    return best;
}

void anchors_check(const struct anchor_list *list, u32 sections, u64 len, enum holder class)
{
    u32 count = anchors_count(list), ends = 0;
    for (u32 i = 0; i < list->row_cap; i++) {
        const struct anchor_row *r = &list->row[i];
        if (i >= count) {
            ASSERT(r->kind == ANCHOR_FREE);
            continue;
        }
        ASSERT(r->kind < ANCHOR_KIND_COUNT && r->pos > 0 && r->pos <= len);
        ASSERT(i == 0 || list->row[i - 1].pos < r->pos);
        ASSERT(arena_slots_valid(sections, r->unit));
        ASSERT(arena_slots_holders(sections, r->unit)->count[class] > 0);
        if (r->kind == ANCHOR_END) ends++;
    }
    ASSERT(ends <= ANCHOR_ENDS);
}
