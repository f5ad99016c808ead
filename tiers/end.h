/* tiers/end.h - what is known of the generations inside a record: where each began and ended, where
 * its reasoning ended, which of its ids were never sent (hidden spans), and its calls (the memo of
 * chat.md 9).
 *
 * One pool of rows for all records; a record's list is a chain through it, oldest generation first,
 * each generation followed by its spans and calls by position.  A row belongs to one list: lists
 * are copied by end_copy, never by assignment (end_check finds it).  A full pool refuses new rows:
 * what is not recorded is only not aligned later.  Engine thread only. */
#ifndef TIERS_END_H
#define TIERS_END_H

#include "arena/base/base.h"
#include "arena/base/err.h"

enum end_kind { END_FREE, END_GENERATION, END_SPAN, END_CALL };

struct end_row {
    u64 lo, hi;                 /* generation: first generated position, positions forwarded at   */
                                /* its end; span: ids the client never saw; call: <tool_call> to  */
                                /* behind </tool_call>                                            */
    u64 think_hi;               /* generation: behind the id that closed its reasoning, or 0      */
    u64 id_hash;                /* call: of the call id its answer carried                        */
    u64 value_hash[2];          /* call: of its name and canonical arguments                      */
    u32 next;                   /* row of the same list, 0: last                                  */
    u8  kind;                   /* enum end_kind                                                  */
    u8  reserved[3];
};
static_assert(sizeof(struct end_row) == 56, "the pool's bytes are counted on 56 a row");

struct generation_list { u32 first, last, count; };     /* rows 1 ..; zero is an empty list       */

/* A call as the text side names it: in the ids of a prompt or of an answer. */
struct call_row { u64 id_hash, value_hash[2], lo, hi; };

u64 end_table_bytes(u32 row_cap);
/* An empty pool of `row_cap` rows.  ERR_MEMORY, ERR_FULL. */
MUST_USE enum err end_open(u32 table_arena, u32 row_cap);

/* Appends a generation, behind all others by position.  False: refused, the pool is full. */
bool end_record(struct generation_list *list, u64 lo, u64 hi, u64 think_hi);
/* Adds hidden ids, or a call, to the generation that holds [lo, hi).  False: no such generation,
 * or the pool is full. */
bool end_span(struct generation_list *list, u64 lo, u64 hi);
bool end_call(struct generation_list *list, const struct call_row *call);

/* Walks a list: the first row of it, the row behind `row` (0 at the end), its columns. */
u32 end_first(const struct generation_list *list);
u32 end_next(u32 row);
const struct end_row *end_at(u32 row);
/* Row of the newest generation that ends at or below `pos`, or 0. */
u32 end_find(const struct generation_list *list, u64 pos);

/* Forgets generations that reach beyond `pos`, with their spans and calls; 0: all. */
void end_cut(struct generation_list *list, u64 pos);
/* `to` (empty) becomes the generations of `from` that end at or below `pos`, as far as the pool
 * has rows. */
void end_copy(struct generation_list *to, const struct generation_list *from, u64 pos);

/* Adds those of `from` that begin behind the last of `to` and end at or below `pos`; and of one
 * that goes on beyond it, the part below, when its reasoning ended there. */
void end_extend(struct generation_list *to, const struct generation_list *from, u64 pos);

u32 end_used(void);                                     /* rows in use                            */
/* Asserts order, kinds and count of one list; returns its rows. */
u32 end_check(const struct generation_list *list);

#endif
