/* tiers/suffix/recent.h - the last four requests' ids: what a request repeats is not kept again.
 *
 * A conversation resends its growing prompt.  Of a request only the ids behind the longest prefix
 * that it shares with one of the last four are new.  A request that begins with all of one of them
 * takes its place, and one that another begins with refreshes that, so that of conversations that
 * only grow four are remembered, not four turns.  Else the one used longest ago goes.  Engine
 * thread. */
#ifndef SUFFIX_RECENT_H
#define SUFFIX_RECENT_H

#include "arena/base/err.h"

enum { RECENT_CAP = 4 };

u64 recent_table_bytes(u64 ctx);
/* After arena_open; requests have at most `ctx` ids. */
MUST_USE enum err recent_open(u32 table_arena, u64 ctx);
void recent_close(void);
/* The first of these ids that none of the last four requests begins with; remembers them. */
u64  recent_add(const u32 *ids, u64 count, const u64 session[2]);
/* Forgets a session's, or with NULL all. */
void recent_clear(const u64 session[2]);

#endif
