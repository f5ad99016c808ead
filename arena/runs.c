/* arena/runs.c - split on take, join on give. */
#include "arena/runs.h"

static u32 bin_of(u32 count)
{
    return 31 - (u32)__builtin_clz(count);
}

static void bin_add(struct runs *r, u32 run)
{
    struct run_row *row = &r->row[run];
    u32 bin = bin_of(row->count);
    row->bin_prev = NONE;
    row->bin_next = r->bin[bin];
    if (row->bin_next != NONE) r->row[row->bin_next].bin_prev = run;
    r->bin[bin] = run;
}

static void bin_drop(struct runs *r, u32 run)
{
    struct run_row *row = &r->row[run];
    if (row->bin_next != NONE) r->row[row->bin_next].bin_prev = row->bin_prev;
    if (row->bin_prev != NONE) r->row[row->bin_prev].bin_next = row->bin_next;
    else r->bin[bin_of(row->count)] = row->bin_next;
}

static bool is_free(const struct runs *r, u32 run)
{
    return run != NONE && r->row[run].generation % 2 == 0;
}

/* An unused row with its generation kept. */
static u32 new_row(struct runs *r)
{
    u32 run = r->row_free;
    if (run != NONE) r->row_free = r->row[run].bin_next;
    else run = r->row_fresh++;
    return run;
}

static void drop_row(struct runs *r, u32 run)
{
    r->row[run].count = 0;
    r->row[run].bin_next = r->row_free;
    r->row_free = run;
}

void runs_open(struct runs *r, u32 granule_cap)
{
    r->granule_cap = granule_cap;
    r->row_fresh = r->used = 0;
    r->row_free = NONE;
    for (u32 i = 0; i < RUNS_BINS; i++) r->bin[i] = NONE;
    if (granule_cap == 0) return;
    u32 all = new_row(r);
    r->row[all] = (struct run_row){ .count = granule_cap, .prev = NONE, .next = NONE };
    bin_add(r, all);
}

u32 runs_find(const struct runs *r, u32 count)
{
    ASSERT(count > 0);
    u32 bin = bin_of(count);
    for (u32 run = r->bin[bin]; run != NONE; run = r->row[run].bin_next)
        if (r->row[run].count >= count) return run;
    while (++bin < RUNS_BINS)
        if (r->bin[bin] != NONE) return r->bin[bin];
    return NONE;
}

/* Cuts [count, end) off a run that is in no list, as a free run behind it. */
static void split(struct runs *r, u32 run, u32 count)
{
    if (r->row[run].count == count) return;
    u32 rest = new_row(r);
    struct run_row *row = &r->row[run], *tail = &r->row[rest];
    tail->first = row->first + count;
    tail->count = row->count - count;
    tail->prev = run;
    tail->next = row->next;
    if (row->next != NONE) r->row[row->next].prev = rest;
    row->next = rest;
    row->count = count;
    bin_add(r, rest);
}

/* Appends the run behind to `run`; neither is in a list. */
static void join(struct runs *r, u32 run)
{
    struct run_row *row = &r->row[run];
    u32 gone = row->next;
    row->count += r->row[gone].count;
    row->next = r->row[gone].next;
    if (row->next != NONE) r->row[row->next].prev = run;
    drop_row(r, gone);
}

void runs_take(struct runs *r, u32 run, u32 count)
{
    ASSERT(is_free(r, run) && count > 0 && r->row[run].count >= count);
    bin_drop(r, run);
    split(r, run, count);
    r->row[run].generation++;
    r->used += count;
}

void runs_give(struct runs *r, u32 run)
{
    struct run_row *row = &r->row[run];
    ASSERT(!is_free(r, run));
    r->used -= row->count;
    row->generation++;
    if (is_free(r, row->next)) {
        bin_drop(r, row->next);
        join(r, run);
    }
    u32 before = row->prev;
    if (is_free(r, before)) {
        bin_drop(r, before);
        join(r, before);
        run = before;
    }
    bin_add(r, run);
}

bool runs_can_grow(const struct runs *r, u32 run, u32 count)
{
    const struct run_row *row = &r->row[run];
    return row->count >= count ||
           (is_free(r, row->next) && count - row->count <= r->row[row->next].count);
}

void runs_grow(struct runs *r, u32 run, u32 count)
{
    ASSERT(!is_free(r, run) && runs_can_grow(r, run, count));
    if (r->row[run].count >= count) return;
    r->used += count - r->row[run].count;
    bin_drop(r, r->row[run].next);
    join(r, run);
    split(r, run, count);
}

void runs_check(const struct runs *r)
{
    if (r->granule_cap == 0) return;
    u32 at = 0, prev = NONE, used = 0, free = 0, listed = 0, run = NONE;
    for (u32 i = 0; i < r->row_fresh && run == NONE; i++)
        if (r->row[i].count > 0 && r->row[i].prev == NONE) run = i;
    for (; run != NONE; prev = run, run = r->row[run].next) {
        const struct run_row *row = &r->row[run];
        ASSERT(row->prev == prev && row->first == at && row->count > 0);
        ASSERT(!is_free(r, run) || !is_free(r, prev));
        at += row->count;
        if (is_free(r, run)) free++;
        else used += row->count;
    }
    ASSERT(at == r->granule_cap && used == r->used);
    for (u32 bin = 0; bin < RUNS_BINS; bin++)
        for (u32 i = r->bin[bin], before = NONE; i != NONE; before = i, i = r->row[i].bin_next) {
            ASSERT(is_free(r, i) && bin_of(r->row[i].count) == bin && listed++ < free);
            ASSERT(r->row[i].bin_prev == before);
        }
    ASSERT(listed == free);
}
