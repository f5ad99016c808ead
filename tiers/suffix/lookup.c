/* tiers/suffix/lookup.c - places where the context's end stood before, and their vote. */
#include "tiers/suffix/lookup.h"

#include "arena/base/clock.h"
#include "tiers/suffix/array.h"
#include "tiers/suffix/segment.h"

#include <string.h>

enum { LANES = 32, LANE = 4 };
typedef u32 lane __attribute__((vector_size(LANE * sizeof(u32))));

struct place { const u32 *next; u64 left; };    /* the id that followed; ids from it on      */
struct places {
    struct place at[LOOKUP_VOTES];
    u32 count, length;                          /* all of them match so many ids              */
    u32 row;                                    /* segment of the first, NONE: the context    */
};

static struct lookup_counts counts;

/* A place that matches `length` ids; the longest ones are kept, in the order they come. */
static void gather(struct places *p, u32 length, const u32 *next, u64 left, u32 row)
{
    if (length < p->length || length < LOOKUP_MIN) return;
    if (length > p->length) p->count = 0;
    if (p->count == 0) p->row = row;
    p->length = length;
    if (p->count < LOOKUP_VOTES) p->at[p->count++] = (struct place){ next, left };
}

/* Ids that agree backwards from `a` and `b`, at most `most`. */
static u32 agree(const u32 *a, const u32 *b, u32 most)
{
    u32 n = 0;
    while (n < most && a[-1 - (i64)n] == b[-1 - (i64)n]) n++;
    return n;
}

static lane four_of(const u32 *ids)
{
    lane four;
    memcpy(&four, ids, sizeof four);
    return four;
}

/* Whether a place behind one of LANES ids has the last three ids of the context before it; two more
 * ids stand before those.  Where a long context's lookup spends its time: three at once, since the
 * last id alone (a blank, a line's end) is in every few lanes. */
static bool among(const u32 *ids, const u32 *end)
{
    lane any = { 0 }, last = { end[-1], end[-1], end[-1], end[-1] };
    lane second = { end[-2], end[-2], end[-2], end[-2] };
    lane third = { end[-3], end[-3], end[-3], end[-3] };
#pragma GCC unroll 8
    for (u32 i = 0; i < LANES; i += LANE)
        any |= (lane)(four_of(ids + i) == last) & (lane)(four_of(ids + i - 1) == second) &
               (lane)(four_of(ids + i - 2) == third);
    return (any[0] | any[1] | any[2] | any[3]) != 0;
}

/* The context's own ids, newest first: those before its last id, each with what follows it. */
static void search_live(struct places *p, const u32 *ids, u64 count)
{
    const u32 *end = ids + count;
    u32 last = end[-1], looked = 0;
    u64 at = count - 1;                         /* ids [0, at) may end a place                */
    while (at >= LOOKUP_MIN && looked < LOOKUP_PLACES) {        /* ends: at falls             */
        bool whole = at >= LANES + LOOKUP_MIN;
        u64 stop = whole ? at - LANES : 0;
        if (whole && !among(ids + stop, end)) {
            at = stop;
            continue;
        }
        for (; at > stop && at >= LOOKUP_MIN; at--) {
            if (ids[at - 1] != last) continue;
            u32 length = agree(ids + at, end, (u32)MIN(at, (u64)LOOKUP_MAX));
            if (length < LOOKUP_MIN) continue;
            gather(p, length, ids + at, count - at, NONE);
            looked++;
        }
    }
}

/* The newest places of a segment that end in the context's last three ids. */
static void search_chain(struct places *p, const struct segment_view *v, const u32 *end, u32 most)
{
    u32 place = v->heads[segment_hash(end) & v->mask];
    for (u32 looked = 0; place != 0 && looked < LOOKUP_PLACES; looked++) {
        if (place < v->count && words_id(v->words[place]))      /* an id follows              */
            gather(p, array_agree(v->words, place, end, most), v->words + place,
                   v->count - place, v->row);
        place = v->prev[place];
    }
}

static void search_array(struct places *p, const struct segment_view *v, const u32 *end, u32 most)
{
    u64 lo, hi;
    u32 length = array_find(v->words, v->count, v->array, v->places, end, most, &lo, &hi);
    if (length < p->length || length < LOOKUP_MIN) return;
    u32 room = LOOKUP_VOTES - (length > p->length ? 0 : p->count);
    u64 count = MIN(hi - lo, (u64)room);
    for (u64 i = 0; i < count; i++) {
        u32 place = v->array[lo + i * (hi - lo) / count];
        gather(p, length, v->words + place, v->count - place, v->row);
    }
}

static bool goes_on(const struct place *at) { return at->left > 0 && words_id(at->next[0]); }

/* The id that most of the first `count` places go on with; they alone are left.  False: no place
 * has another id. */
static bool vote(struct place *at, u32 *count, u32 *id_out)
{
    u32 ids[LOOKUP_VOTES], votes[LOOKUP_VOTES], kinds = 0, best = 0, kept = 0;
    for (u32 i = 0; i < *count; i++) {
        u32 k = 0;
        if (!goes_on(&at[i])) continue;
        while (k < kinds && ids[k] != at[i].next[0]) k++;
        if (k == kinds) {
            ids[kinds] = at[i].next[0];
            votes[kinds++] = 0;
        }
        votes[k]++;
    }
    if (kinds == 0) return false;
    for (u32 k = 1; k < kinds; k++)
        if (votes[k] > votes[best]) best = k;
    for (u32 i = 0; i < *count; i++)
        if (goes_on(&at[i]) && at[i].next[0] == ids[best])
            at[kept++] = (struct place){ at[i].next + 1, at[i].left - 1 };
    *count = kept;
    *id_out = ids[best];
    return true;
}

u32 lookup_propose(const struct lookup_context *c, u32 most, u32 *ids_out, u32 *match_out)
{
    struct places p;
    const struct segment_view *view;
    const u32 *end = c->ids + c->count;
    u32 proposed = 0, longest = (u32)MIN(c->count, (u64)LOOKUP_MAX);
    p.count = p.length = 0;
    *match_out = 0;
    if (c->count < LOOKUP_MIN || most == 0) return 0;
    u64 from = c->count - MIN(c->count, (u64)LOOKUP_LIVE);
    search_live(&p, c->ids + from, c->count - from);
    u32 views = segment_views(&view);
    for (u32 i = 0; i < views; i++) {
        if (view[i].array != NULL) search_array(&p, &view[i], end, longest);
        else search_chain(&p, &view[i], end, longest);
    }
    *match_out = p.length;
    counts.lookups++;
    if (p.count == 0) return 0;
    counts.hits++;
    if (p.row == NONE) counts.live++;
    else counts.stored++;
    if (p.row != NONE) segment_hit(p.row, clock_us());
    while (proposed < most && vote(p.at, &p.count, &ids_out[proposed])) proposed++;
    counts.ids += proposed;
    return proposed;
}

struct lookup_counts lookup_counts(void) { return counts; }
