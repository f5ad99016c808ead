/* budget/history.c - the ring of gates. */
#include "budget/history.h"

#include <string.h>

struct gate_row *budget_history_add(struct budget_history *h)
{
    struct gate_row *row = &h->row[h->count % BUDGET_GATE_CAP];
    memset(row, 0, sizeof *row);
    h->count++;
    row->number = h->count;
    row->refused_want = NONE;
    return row;
}

u32 budget_history_count(const struct budget_history *h)
{
    return (u32)MIN(h->count, (u64)BUDGET_GATE_CAP);
}

const struct gate_row *budget_history_row(const struct budget_history *h, u32 back)
{
    if (back >= budget_history_count(h)) return NULL;
    return &h->row[(h->count - 1 - back) % BUDGET_GATE_CAP];
}
