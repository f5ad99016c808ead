/* tiers/response.h - answers of equal greedy requests, replayed token by token (tiers.md 8).
 *
 * Off by default (--response-cache-mb 0: no arena, no table, nothing allocated).  An entry is an
 * extent of arena `responses`: what was asked (every field that shapes the answer, then the ids, as
 * 32-bit words), then the answer's ids.  The gate pays for each (a may-want of node `response`) and
 * takes the least valuable back for others.  A hash is a hint: a hit compares all that was asked.
 * An entry that is being replayed is held and nobody's victim.  Engine thread only. */
#ifndef TIERS_RESPONSE_H
#define TIERS_RESPONSE_H

#include "budget/plan.h"

struct response_ask {               /* what was asked                                         */
    const u32 *ids; u64 id_count;
    const u32 *fields; u32 field_count;
};
struct response_answer {            /* valid until response_drop                              */
    const u32 *ids; u64 id_count;   /* as pushed                                              */
    u32 finish, stop_id, flags;     /* the caller's own                                       */
};
struct response_counts { u64 hits, misses, kept, refused, dropped, yielded, entries; };

/* Node `response`, what may take from it, and the arena it is charged for; nothing for a cap of 0.
 * After the nodes of the other tiers.  ERR_CONFIG, ERR_FULL. */
MUST_USE enum err response_declare(struct budget_graph *g, u64 cap_bytes);
u64  response_arena_bytes(u64 cap_bytes);
u64  response_table_bytes(u64 cap_bytes);
/* After arena_open and response_declare in `g`.  ERR_MEMORY, ERR_FULL, ERR_NOT_FOUND. */
MUST_USE enum err response_open(struct budget_graph *g, u32 table_arena, u64 cap_bytes,
                                u64 half_life_us);
void response_close(void);
bool response_on(void);
/* The entry's place, held, or NONE. */
u32  response_find(const struct response_ask *ask, struct response_answer *out, u64 now_us);
void response_drop(u32 entry);
/* What keeping an answer asks of the gate: false when it is kept already, or is over a quarter of
 * the cap, or every row is being replayed (counted as refused).  Node, arena, bytes and value are
 * filled; the caller adds commit and owner. */
bool response_want(const struct response_ask *ask, u64 answer_count, struct budget_want *out);
/* Keeps it: of the gate's commit.  ERR_MEMORY, ERR_FULL: nothing is kept. */
MUST_USE enum err response_save(const struct response_ask *ask,
                                const struct response_answer *answer, u64 now_us);
/* The gate granted nothing. */
void response_refused(void);
/* Entries a gate may take, at most `cap`; how many. */
u32  response_victims(struct budget_record *out, u32 cap, u64 now_us);
/* Forgets all entries that are not being replayed; how many. */
u32  response_clear(void);
struct response_counts response_counts(void);

#endif
