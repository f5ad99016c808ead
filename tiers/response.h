/* tiers/response.h - answers of equal greedy requests, replayed token by token (tiers.md 8).
 *
 * Off by default (--response-cache-mb 0: no arena, nothing allocated).  A ring of 32-bit words in
 * arena `responses`: each entry is what was asked (ids and every field that shapes the answer, as
 * words), then the answer's ids.  The oldest entries give way.  A hash is a hint: a hit compares
 * all that was asked.  An entry that is being replayed is held and not written over.  Engine thread
 * only. */
#ifndef TIERS_RESPONSE_H
#define TIERS_RESPONSE_H

#include "budget/graph.h"

struct response_ask {               /* what was asked                                         */
    const u32 *ids; u64 id_count;
    const u32 *fields; u32 field_count;
};
struct response_answer {            /* valid until response_drop                              */
    const u32 *ids; u64 id_count;   /* as pushed                                              */
    u32 finish, stop_id, flags;     /* the caller's own                                       */
};
struct response_counts { u64 hits, misses, kept, refused, dropped, entries; };

/* Node `response` and the arena that it is charged for; nothing for a cap of 0.  ERR_CONFIG. */
MUST_USE enum err response_declare(struct budget_graph *g, u64 cap_bytes);
u64  response_arena_bytes(u64 cap_bytes);
/* After arena_open.  ERR_MEMORY, ERR_FULL. */
MUST_USE enum err response_open(u64 cap_bytes);
void response_close(void);
bool response_on(void);
/* The entry's place, held, or NONE. */
u32  response_find(const struct response_ask *ask, struct response_answer *out);
void response_drop(u32 entry);
/* Keeps an answer; nothing when it is over a quarter of the cap, is held already, or entries that
 * are being replayed stand in the way (counted). */
void response_save(const struct response_ask *ask, const struct response_answer *answer);
/* Forgets all entries that are not being replayed; how many. */
u32  response_clear(void);
struct response_counts response_counts(void);

#endif
