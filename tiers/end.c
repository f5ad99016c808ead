/* tiers/end.c - generations of a record. */
#include "tiers/end.h"

#include <string.h>

void end_record(struct generation_list *list, u64 lo, u64 hi, u64 think_hi)
{
    if (list->count == GENERATION_CAP) {
        memmove(&list->row[0], &list->row[1], sizeof list->row - sizeof list->row[0]);
        list->count--;
    }
    list->row[list->count++] = (struct generation_row){ lo, hi, think_hi };
}

u32 end_find(const struct generation_list *list, u64 pos)
{
    for (u32 i = list->count; i-- > 0;)
        if (list->row[i].hi <= pos) return i;
    return NONE;
}

void end_cut(struct generation_list *list, u64 pos)
{
    while (list->count > 0 && list->row[list->count - 1].hi > pos) list->count--;
}
