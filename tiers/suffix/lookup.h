/* tiers/suffix/lookup.h - the lookup drafter: what followed when this was read before.
 *
 * It asks for the longest suffix of the live context, of LOOKUP_MIN to LOOKUP_MAX ids, that stands
 * somewhere else with at least one id behind it, and proposes the continuation seen most often.
 * Places are gathered newest first: those of the live context, of the log's segment that is written
 * to, of its closed ones, newest first, of --corpus; at most LOOKUP_VOTES of them vote.  In a
 * segment that has its array, places of the longest match that are more than may still vote are
 * drawn at equal distances in the array's order; else LOOKUP_PLACES, the newest, are looked at.
 * Voting is id by id: the id that most places go on with, among equals that of the place gathered
 * first; the places that go on otherwise have no vote on the next id.
 *
 * A proposal is a guess like any drafter's: the engine verifies it, so it never changes a token.
 * Engine thread; never allocates; bounded work (tests/bench/suffix prints it). */
#ifndef SUFFIX_LOOKUP_H
#define SUFFIX_LOOKUP_H

#include "arena/base/base.h"

enum {
    LOOKUP_MIN = 3, LOOKUP_MAX = 32,    /* ids of a match                                     */
    LOOKUP_VOTES = 128,                 /* places that vote                                   */
    LOOKUP_PLACES = 256,                /* places looked at in a source without an array      */
    LOOKUP_LIVE = 131072,               /* newest ids of the live context that are searched:
                                         * older ones are in the store since an earlier turn  */
};

/* The live context, with the sampled id that was not forwarded yet as its last.  Ids are below
 * 2^24. */
struct lookup_context { const u32 *ids; u64 count; };

/* Writes up to `most` ids that may follow the context and returns how many; *match_out is the
 * length of the matched suffix, 0 when nothing matched. */
u32 lookup_propose(const struct lookup_context *c, u32 most, u32 *ids_out, u32 *match_out);

struct lookup_counts { u64 lookups, hits, ids, live, stored; };     /* hits by where the first
                                                                     * place stood            */
struct lookup_counts lookup_counts(void);

#endif
