/* tiers/suffix/recent.c - four rows of ids. */
#include "tiers/suffix/recent.h"

#include "arena/table.h"

#include <string.h>

struct recent_row { u32 *ids; u64 count; u64 session[2]; u64 used; };

static struct {
    struct recent_row row[RECENT_CAP];
    u64 ctx, uses;
} own;

u64 recent_table_bytes(u64 ctx) { return RECENT_CAP * (ctx * sizeof(u32) + 64); }

enum err recent_open(u32 table_arena, u64 ctx)
{
    memset(&own, 0, sizeof own);
    own.ctx = ctx;
    for (u32 i = 0; i < RECENT_CAP; i++)
        TRY(arena_table_take(table_arena, "recent ids", sizeof(u32), ctx, &own.row[i].ids));
    return OK;
}

void recent_close(void) { memset(&own, 0, sizeof own); }

static u64 shared(const struct recent_row *r, const u32 *ids, u64 count)
{
    u64 most = MIN(r->count, count), n = 0;
    while (n < most && r->ids[n] == ids[n]) n++;
    return n;
}

u64 recent_add(const u32 *ids, u64 count, const u64 session[2])
{
    struct recent_row *place = NULL, *oldest = &own.row[0];
    u64 longest = 0;
    ASSERT(count <= own.ctx);
    for (u32 i = 0; i < RECENT_CAP; i++) {
        struct recent_row *r = &own.row[i];
        u64 n = shared(r, ids, count);
        if (r->used < oldest->used) oldest = r;
        if (n > 0 && n == MIN(r->count, count) && n >= longest) place = r;
        longest = MAX(longest, n);
    }
    if (place == NULL) place = oldest;
    place->used = ++own.uses;
    if (longest == count) return longest;           /* nothing new: the longer one stays      */
    memcpy(place->ids, ids, count * sizeof *ids);
    place->count = count;
    memcpy(place->session, session, sizeof place->session);
    return longest;
}

void recent_clear(const u64 session[2])
{
    for (u32 i = 0; i < RECENT_CAP; i++) {
        struct recent_row *r = &own.row[i];
        if (session != NULL && memcmp(r->session, session, sizeof r->session) != 0) continue;
        if (r->ids != NULL) memset(r->ids, 0, r->count * sizeof *r->ids);
        r->count = r->used = 0;
    }
}
