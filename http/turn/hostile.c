/* http/turn/hostile.c - proposals made to be wrong in every way. */
#include "http/turn/hostile.h"

#include "arena/base/rng.h"
#include "http/turn/pass.h"
#include "tiers/suffix/lookup.h"

#include <string.h>

enum hostile_kind { HOSTILE_RANDOM, HOSTILE_RIGHT, HOSTILE_CUT, HOSTILE_HOLE, HOSTILE_KINDS };

static struct {
    u64 seed, drawn;
    struct known { const u32 *ids; u64 count; } known[HOSTILE_KNOWN];
    u64 told;
} bad;

void hostile_open(u64 seed)
{
    memset(&bad, 0, sizeof bad);
    bad.seed = seed;
}

void hostile_know(const u32 *ids, u64 count)
{
    bad.known[bad.told++ % HOSTILE_KNOWN] = (struct known){ ids, count };
}

/* Ids that will follow the turn's `count` ids, as far as they are known. */
static u32 future(const struct engine *e, const struct turn_row *turn, const u32 *ids, u64 count,
                  u32 most, u32 *out)
{
    const struct submit_row *row = submit_at(turn->submit);
    u32 n = 0;
    (void)e;
    if (row->forced != NULL) {
        while (n < most && turn->forced_at + n < row->forced_count) {
            out[n] = row->forced[turn->forced_at + n];
            n++;
        }
        return n;
    }
    for (u32 i = 0; i < HOSTILE_KNOWN; i++) {
        const struct known *k = &bad.known[i];
        if (k->count <= count || memcmp(k->ids, ids, count * sizeof *ids) != 0) continue;
        while (n < most && count + n < k->count) {
            out[n] = k->ids[count + n];
            n++;
        }
        return n;
    }
    u32 match;                                  /* no one told it: as good as lookup knows    */
    return lookup_propose(&(struct lookup_context){ ids, count }, most, out, &match);
}

u32 hostile_propose(struct engine *e, const struct turn_row *turn, u32 most, u32 *ids_out)
{
    const u32 *ids = turn_ids(e, turn);
    u64 count = turn->prompt_count + turn->generated, draw = rng_u64(bad.seed, bad.drawn++);
    enum hostile_kind kind = (enum hostile_kind)(draw % HOSTILE_KINDS);
    u32 n = 1 + (u32)(draw >> 8) % most;
    u32 right = future(e, turn, ids, MIN(count, e->ctx), n, ids_out);
    u32 cut = right == 0 ? 0 : (u32)(draw >> 16) % (right + 1);
    if (kind == HOSTILE_RANDOM) cut = 0;
    else if (kind == HOSTILE_RIGHT) cut = right;
    for (u32 i = cut; i < n; i++) {
        u64 any = rng_u64(bad.seed ^ UINT64_MAX, bad.drawn++);
        if (kind == HOSTILE_HOLE && i > cut && i < right) continue;         /* right again    */
        ids_out[i] = any % 2 == 0 ? (u32)(any >> 8) % e->vocab
                                  : ids[(any >> 8) % MIN(count, e->ctx)];
    }
    return n;
}
