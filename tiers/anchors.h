/* tiers/anchors.h - the anchors of one record: copies of all sections at some positions.
 *
 * A list is sorted by position, its rows are packed at the front, the rest is ANCHOR_FREE.  A unit
 * of arena `sections` is held once by every row that names it, as the class of its record: a live
 * one's as HOLD_ANCHOR, else the record's own.  Records that share the blocks below an anchor may
 * share its unit.  Rows live in the record's list (tiers/record). */
#ifndef TIERS_ANCHORS_H
#define TIERS_ANCHORS_H

#include "arena/slots.h"

enum anchor_kind {
    ANCHOR_FREE,                /* row unused                                                 */
    ANCHOR_GRID,                /* a line                                                     */
    ANCHOR_TURN,                /* a marked position, or where a cancelled turn stopped       */
    ANCHOR_END,                 /* last position forwarded by a generation                    */
    ANCHOR_KIND_COUNT
};

enum { ANCHOR_NEWEST = 4, ANCHOR_ENDS = 2 };    /* kept; end anchors of a conversation        */

struct anchor_row {             /* one row of a record's list: all sections at `pos`          */
    u64     pos;                /* tokens forwarded when the copy was taken                   */
    unit_id unit;               /* held, maybe by several records: same blocks below pos      */
    u32     hits;               /* resumes served from here                                   */
    u8      kind;               /* enum anchor_kind; ANCHOR_FREE = row unused                 */
    u8      head;               /* 1: the end of the system and tools head                    */
    u8      reserved[2];        /* 0                                                          */
};
static_assert(sizeof(struct anchor_row) == 24, "dumps and the gate's scans count on 24 bytes");
struct anchor_list { struct anchor_row *row; u32 row_cap; };

/* Index of the anchor with the largest pos <= limit, or NONE.  O(row_cap), reads only. */
u32 anchors_best(const struct anchor_list *list, u64 limit);
/* Index of the anchor at exactly `pos`, or NONE; rows in use. */
u32 anchors_at(const struct anchor_list *list, u64 pos);
u32 anchors_count(const struct anchor_list *list);

/* Adds an anchor whose reference the list takes over; its index, or NONE when the list is full.  No
 * anchor may stand at `pos` yet.  A new end anchor makes all but the last two ends turn anchors. */
u32 anchors_take(struct anchor_list *list, u64 pos, unit_id unit, enum anchor_kind kind, bool head);
/* Turns an anchor into an end anchor, a head or a turn anchor; a kind never falls (grid < turn <
 * end), a head stays one. */
void anchors_mark(struct anchor_list *list, u32 index, enum anchor_kind kind, bool head);
/* Removes one and drops its reference, held as `class`, in arena `sections`; true when that freed
 * the unit. */
bool anchors_drop(struct anchor_list *list, u32 sections, u32 index, enum holder class);
/* Drops every anchor above `pos`. */
void anchors_cut(struct anchor_list *list, u32 sections, u64 pos, enum holder class);
/* `to` (empty) gets the anchors of `from` at or below `pos`, each held once more, as `class`. */
void anchors_fork(struct anchor_list *to, const struct anchor_list *from, u32 sections, u64 pos,
                  enum holder class);
/* Every unit of the list changes hands: held as `to` first, then let go as `from`. */
void anchors_recharge(const struct anchor_list *list, u32 sections, enum holder from,
                      enum holder to);

/* What removing one costs: (pos - pos of the one before) * (hits + 1) tokens. */
u64 anchors_cost(const struct anchor_list *list, u32 index);
/* The one whose removal costs least (ties: the lowest pos) among those that are not reserve: the
 * newest `keep`, and the head when `keep_head`.  NONE when all are. */
u32 anchors_cheapest(const struct anchor_list *list, u32 keep, bool keep_head);

/* Asserts order, packing and valid units. */
void anchors_check(const struct anchor_list *list, u32 sections, u64 len, enum holder class);

#endif
