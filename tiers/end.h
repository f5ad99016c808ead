/* tiers/end.h - what is known of the generations inside a record: where each began and ended and
 * where its reasoning ended.  Hidden spans and the memo of calls stand here when there are any.
 *
 * A list is a ring of the newest GENERATION_CAP, oldest first; its rows are the record's. */
#ifndef TIERS_END_H
#define TIERS_END_H

#include "arena/base/base.h"

enum { GENERATION_CAP = 64 };

struct generation_row {
    u64 lo;                     /* first generated position                                   */
    u64 hi;                     /* positions forwarded at its end: the end anchor's           */
    u64 think_hi;               /* position behind the id that closed its reasoning, or 0     */
};
struct generation_list { struct generation_row row[GENERATION_CAP]; u32 count; u32 reserved; };

/* Appends one; the oldest goes when the list is full. */
void end_record(struct generation_list *list, u64 lo, u64 hi, u64 think_hi);
/* Index of the newest generation that ends at or below `pos`, or NONE. */
u32 end_find(const struct generation_list *list, u64 pos);
/* Forgets generations that reach beyond `pos`. */
void end_cut(struct generation_list *list, u64 pos);

#endif
