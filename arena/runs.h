/* arena/runs.h - which granules of an arena of extents are free: pure bookkeeping.
 *
 * The range is cut into runs, neighbours linked by address; a free run never stands beside a free
 * one.  Free runs are listed by the power of two of their length: a take looks through the list of
 * its own length (first fit), then takes the first of the next longer one.  A used run's row index
 * is its handle; rows are the caller's memory, zeroed, committed as far as `row_fresh`. */
#ifndef ARENA_RUNS_H
#define ARENA_RUNS_H

#include "arena/base/base.h"

enum { RUNS_BINS = 32 };

struct run_row {
    u32 first, count;                   /* granules                                           */
    u32 prev, next;                     /* neighbours by address, or NONE                     */
    u32 bin_prev, bin_next;             /* of a free run; bin_next links unused rows too      */
    u32 generation;                     /* odd while used                                     */
    u32 reserved;
};

struct runs {
    u32 granule_cap;
    u32 row_fresh;                      /* rows ever used: [0, row_fresh)                     */
    u32 row_free;                       /* first unused row below, or NONE                    */
    u32 used;                           /* granules                                           */
    u32 bin[RUNS_BINS];                 /* first free run of length [2^i, 2^(i+1)), or NONE   */
    struct run_row *row;
};

/* All free.  The first row must be writable when granule_cap > 0. */
void runs_open(struct runs *r, u32 granule_cap);
/* A free run of at least `count` granules, or NONE. */
u32 runs_find(const struct runs *r, u32 count);
/* Takes the front of a free run; its row is the handle.  One more row must be writable. */
void runs_take(struct runs *r, u32 run, u32 count);
void runs_give(struct runs *r, u32 run);
/* True when the used run could be `count` long where it stands / makes it so.  One more row must
 * be writable. */
bool runs_can_grow(const struct runs *r, u32 run, u32 count);
void runs_grow(struct runs *r, u32 run, u32 count);
void runs_check(const struct runs *r);

#endif
