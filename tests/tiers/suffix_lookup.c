/* tests/tiers/suffix_lookup.c - the drafter against a search that looks at every place. */
#include "tests/test.h"

#include "arena/base/rng.h"
#include "tiers/suffix/lookup.h"

#include <string.h>

enum { IDS = 600, MOST = 16 };

/* What the header says, slowly: every place of the longest match, newest first, votes. */
static u32 slow(const u32 *ids, u32 count, u32 most, u32 *out, u32 *match_out)
{
    u32 place[IDS], places = 0, n = 0;
    *match_out = 0;
    for (u32 length = LOOKUP_MAX; length >= LOOKUP_MIN && places == 0; length--)
        for (u32 end = count - 1; end >= length && end < count; end--)
            if (count >= length &&
                memcmp(ids + end - length, ids + count - length, length * sizeof *ids) == 0) {
                place[places++] = end;
                *match_out = length;
            }
    places = MIN(places, (u32)LOOKUP_VOTES);
    while (n < most) {
        u32 best = NONE, best_votes = 0;
        for (u32 i = 0; i < places; i++) {
            u32 votes = 0;
            for (u32 k = 0; k < places; k++)
                votes += place[i] < count && place[k] < count && ids[place[k]] == ids[place[i]];
            if (votes > best_votes) best = ids[place[i]];
            best_votes = MAX(votes, best_votes);
        }
        if (best == NONE) return n;
        out[n++] = best;
        u32 kept = 0;
        for (u32 i = 0; i < places; i++)
            if (place[i] < count && ids[place[i]] == best) place[kept++] = place[i] + 1;
        places = kept;
    }
    return n;
}

static void same_as_slow(const u32 *ids, u32 count)
{
    u32 fast_ids[MOST], slow_ids[MOST], fast_match, slow_match;
    struct lookup_context c = { ids, count };
    u32 fast_count = lookup_propose(&c, MOST, fast_ids, &fast_match);
    u32 slow_count = slow(ids, count, MOST, slow_ids, &slow_match);
    CHECK_EQ(fast_match, slow_match);
    CHECK_EQ(fast_count, slow_count);
    CHECK(memcmp(fast_ids, slow_ids, fast_count * sizeof *fast_ids) == 0);
}

TEST(random_contexts_draft_what_a_search_of_every_place_drafts)
{
    static u32 ids[IDS];
    for (u32 seed = 0; seed < 400; seed++) {
        u32 alphabet = 1 + (u32)(rng_u64(seed, 0) % 6), count = (u32)(rng_u64(seed, 1) % IDS);
        for (u32 i = 0; i < count; i++) ids[i] = 7 + (u32)(rng_u64(seed, 2 + i) % alphabet);
        if (seed % 3 == 0 && count > 80) memmove(ids + count - 40, ids + 20, 40 * sizeof *ids);
        same_as_slow(ids, count);
    }
}

TEST(a_context_too_short_to_match_drafts_nothing)
{
    u32 ids[4] = { 5, 5, 5, 5 }, out[2], match = 9;
    for (u32 count = 0; count < 4; count++) {
        struct lookup_context c = { ids, count };
        CHECK_EQ(lookup_propose(&c, 2, out, &match), 0);
        CHECK_EQ(match, 0);
    }
    struct lookup_context c = { ids, 4 };
    CHECK_EQ(lookup_propose(&c, 2, out, &match), 1);
    CHECK_EQ(match, 3);
    CHECK_EQ(lookup_propose(&c, 0, out, &match), 0);
}

TEST(the_more_frequent_continuation_is_drafted_and_among_equals_the_newest)
{
    /* 1 2 3 -> 4, then 5 5 5; twice -> 6; once more -> 4 */
    u32 ids[] = { 1, 2, 3, 4, 9, 1, 2, 3, 6, 8, 1, 2, 3, 6, 7, 0, 1, 2, 3 };
    u32 out[4], match;
    struct lookup_context c = { ids, COUNT_OF(ids) };
    CHECK_EQ(lookup_propose(&c, 4, out, &match), 4);
    CHECK_EQ(match, 3);
    CHECK_EQ(out[0], 6);
    CHECK_EQ(out[1], 7);                /* 6 7 and 6 8 are equal: the newest                  */
    CHECK_EQ(out[2], 0);
    CHECK_EQ(out[3], 1);
}
