/* tiers/end.c - generations of records: a pool of rows, lists as chains through it. */
#include "tiers/end.h"

#include "arena/table.h"

#include <string.h>

static struct {
    struct end_row *row;                /* [cap + 1]; row 0 is nobody's                           */
    u32 cap, used, free;                /* free: first row of the chain of free ones              */
} pool;

u64 end_table_bytes(u32 row_cap) { return ((u64)row_cap + 1) * sizeof(struct end_row) + 64; }

enum err end_open(u32 table_arena, u32 row_cap)
{
    memset(&pool, 0, sizeof pool);
    TRY(arena_table_take(table_arena, "generations", sizeof *pool.row, (u64)row_cap + 1,
                         &pool.row));
    pool.cap = row_cap;
    for (u32 i = row_cap; i > 0; i--) {
        pool.row[i].next = pool.free;
        pool.free = i;
    }
    return OK;
}

static u32 take(const struct end_row *like)
{
    u32 row = pool.free;
    if (row == 0) return 0;
    pool.free = pool.row[row].next;
    pool.row[row] = *like;
    pool.row[row].next = 0;
    pool.used++;
    return row;
}

static void give(u32 row)
{
    pool.row[row] = (struct end_row){ .next = pool.free };
    pool.free = row;
    pool.used--;
}

static bool append(struct generation_list *list, const struct end_row *like)
{
    u32 row = take(like);
    if (row == 0) return false;
    if (list->last == 0) list->first = row;
    else pool.row[list->last].next = row;
    list->last = row;
    list->count++;
    return true;
}

bool end_record(struct generation_list *list, u64 lo, u64 hi, u64 think_hi)
{
    ASSERT(lo <= hi && (list->last == 0 || pool.row[list->last].lo <= lo));
    return append(list, &(struct end_row){ .lo = lo, .hi = hi, .think_hi = think_hi,
                                           .kind = END_GENERATION });
}

/* Behind the rows of its generation that begin before it. */
static bool insert(struct generation_list *list, const struct end_row *like)
{
    u32 at = 0;
    for (u32 i = list->first; i != 0; i = pool.row[i].next) {
        const struct end_row *r = &pool.row[i];
        if (r->kind == END_GENERATION && r->lo > like->lo) break;
        if (r->kind == END_GENERATION) at = r->hi >= like->hi ? i : 0;
        else if (at != 0 && r->lo <= like->lo) at = i;
    }
    if (at == 0) return false;
    if (at == list->last) return append(list, like);
    u32 row = take(like);
    if (row == 0) return false;
    pool.row[row].next = pool.row[at].next;
    pool.row[at].next = row;
    list->count++;
    return true;
}

bool end_span(struct generation_list *list, u64 lo, u64 hi)
{
    ASSERT(lo < hi);
    return insert(list, &(struct end_row){ .lo = lo, .hi = hi, .kind = END_SPAN });
}

bool end_call(struct generation_list *list, const struct call_row *call)
{
    ASSERT(call->lo < call->hi);
    return insert(list, &(struct end_row){
        .lo = call->lo, .hi = call->hi, .id_hash = call->id_hash,
        .value_hash = { call->value_hash[0], call->value_hash[1] }, .kind = END_CALL });
}

u32 end_first(const struct generation_list *list) { return list->first; }
u32 end_next(u32 row) { return pool.row[row].next; }

const struct end_row *end_at(u32 row)
{
    ASSERT(row > 0 && row <= pool.cap && pool.row[row].kind != END_FREE);
    return &pool.row[row];
}

u32 end_find(const struct generation_list *list, u64 pos)
{
    u32 found = 0;
    for (u32 i = list->first; i != 0; i = pool.row[i].next)
        if (pool.row[i].kind == END_GENERATION && pool.row[i].hi <= pos) found = i;
    return found;
}

void end_cut(struct generation_list *list, u64 pos)
{
    u32 kept = 0, at = list->first;
    while (at != 0 && (pool.row[at].kind != END_GENERATION ||
                       (pool.row[at].hi <= pos && pos > 0))) {
        kept = at;
        at = pool.row[at].next;
    }
    if (kept == 0) list->first = 0;
    else pool.row[kept].next = 0;
    list->last = kept;
    while (at != 0) {
        u32 next = pool.row[at].next;
        give(at);
        list->count--;
        at = next;
    }
}

void end_copy(struct generation_list *to, const struct generation_list *from, u64 pos)
{
    ASSERT(to->count == 0);
    for (u32 i = from->first; i != 0; i = pool.row[i].next) {
        if (pool.row[i].kind == END_GENERATION && pool.row[i].hi > pos) return;
        if (!append(to, &pool.row[i])) return;
    }
}

void end_extend(struct generation_list *to, const struct generation_list *from, u64 pos)
{
    u32 last = end_find(to, UINT64_MAX);
    u64 least = last == 0 ? 0 : pool.row[last].hi;
    bool takes = false;
    for (u32 i = from->first; i != 0; i = pool.row[i].next) {
        struct end_row row = pool.row[i];
        if (row.kind == END_GENERATION) {
            bool whole = row.hi <= pos, closed = row.think_hi > 0 && row.think_hi <= pos;
            if (!whole && (row.lo >= pos || !closed)) return;
            takes = row.lo >= least;
        } else if (row.lo >= pos || (row.kind == END_CALL && row.hi > pos)) {
            continue;
        }
        row.hi = MIN(row.hi, pos);
        if (takes && !append(to, &row)) return;
    }
}

u32 end_used(void) { return pool.used; }

u32 end_check(const struct generation_list *list)
{
    u32 count = 0, last = 0;
    const struct end_row *of = NULL;
    for (u32 i = list->first; i != 0; i = pool.row[i].next) {
        const struct end_row *r = end_at(i), *before = last == 0 ? NULL : &pool.row[last];
        ASSERT(r->kind == END_GENERATION || of != NULL);
        ASSERT(before == NULL || before->lo <= r->lo);
        ASSERT(r->kind == END_GENERATION || (r->lo >= of->lo && r->hi <= of->hi));
        if (r->kind == END_GENERATION) of = r;
        ASSERT(++count <= list->count);         /* a chain without end is one of two lists        */
        last = i;
    }
    ASSERT(count == list->count && last == list->last);
    return count;
}
