/* http/turn/drafters.c - acceptance and cost as measured, and the choice made of them. */
#include "http/turn/drafters.h"

#include "arena/base/clock.h"
#include "arena/base/json.h"
#include "arena/base/log.h"
#include "http/turn/hostile.h"
#include "http/turn/pass.h"
#include "model/draft.h"
#include "model/forward.h"
#include "tiers/suffix/lookup.h"

#include <string.h>

enum {
    DUMPED = 32,                    /* proposals in a dump                                    */
    CLASSES = 8,                    /* of what speaks for an id                               */
    JUDGED_MIN = 4,                 /* a first guess weighs as much as so many judgements     */
    JUDGED_MAX = 32,                /* and an average follows the last so many                */
};
/* Part of the rounds' time that may go into asking and looking where it does not pay. */
static const f64 ALLOWANCE = 0.005;
/* A row more costs this part of a round, and asking costs this, until they were measured. */
static const f64 ROW_GUESS = 0.15, ASK_GUESS_US = 100;

/* Chance that an id is right by its class, at first.  Lookup: ids that match up to it; mtp: its
 * place in the chain. */
static const f32 guess[DRAFTER_COUNT][CLASSES] = {
    [DRAFTER_MTP] = { 0.7f, 0.6f, 0.5f, 0.5f, 0.4f, 0.4f, 0.4f, 0.4f },
    [DRAFTER_LOOKUP] = { 0.3f, 0.4f, 0.6f, 0.7f, 0.8f, 0.9f, 0.95f, 0.95f },
    [DRAFTER_HOSTILE] = { 0 },
};
static const u32 match_edge[CLASSES - 1] = { 5, 7, 10, 15, 23, 36, 64 };

static struct {
    enum profile_draft mode;
    bool hostile, head;
    u32  most;
    struct accept { f32 chance; u32 judged; } accept[DRAFTER_COUNT][CLASSES];
    f64  plain_us[SLOT_CAP + 1];    /* rounds of so many rows, none a draft; 0: not measured  */
    f64  extra_us[DRAFTERS_ROWS + 1];   /* what so many drafts add to one                     */
    f64  ask_us[DRAFTER_COUNT];
    struct drafters_counts counts[DRAFTER_COUNT];
    u64  accepted[DRAFTERS_MOST + 1];
    struct drafters_row tail[DRAFTERS_TAIL];
    u64  rows;
} own;

u32 drafters_rows(const struct profile_row *profile, u32 slot_count)
{
    if (profile->draft == DRAFT_OFF && profile->draft_seed == 0) return 0;
    u32 most = MIN(profile->draft_max, (u32)DRAFTERS_MOST);
    return slot_count + MIN(slot_count, (u32)DRAFTERS_SLOTS) * most;
}

void drafters_open(const struct profile_row *profile, u32 candidates)
{
    memset(&own, 0, sizeof own);
    own.mode = (enum profile_draft)profile->draft;
    own.hostile = profile->draft_seed != 0;
    hostile_open(profile->draft_seed);
    draft_candidates(candidates);
    for (u32 d = 0; d < DRAFTER_COUNT; d++) {
        own.ask_us[d] = ASK_GUESS_US;
        for (u32 c = 0; c < CLASSES; c++)
            own.accept[d][c] = (struct accept){ guess[d][c], JUDGED_MIN };
    }
    if (!own.hostile && own.mode == DRAFT_OFF) return;
    if (!forward_row_invariant()) {
        log_line(LOG_LEVEL_INFO, "drafts are off: on this backend a row's bits depend on the rows "
                 "beside it");
        return;
    }
    own.head = draft_present() && (own.mode == DRAFT_MTP || own.mode == DRAFT_AUTO);
    own.most = forward_verify_rows() > 0 ? MIN(profile->draft_max, (u32)DRAFTERS_MOST) : 0;
    log_line(LOG_LEVEL_INFO, "drafts: %s, at most %u ids, %u rows a round%s", drafters_mode(),
             own.most, forward_verify_rows(), own.head ? ", a draft head" : "");
}

u32 drafters_most(void) { return own.most; }

const char *drafters_mode(void)
{
    static const char *const word[] = { "off", "mtp", "lookup", "auto" };
    return own.most == 0 ? "off" : own.hostile ? "hostile" : word[own.mode];
}

/* ------------------------------------------------------------------ cost and gain */

/* A loaded machine only adds to a time: one that falls is believed at once, one that rises step by
 * step. */
static void learn(f64 *at, f64 now)
{
    now = MIN(now, 1.25 * *at);
    *at += (now - *at) / (now < *at ? 2 : 4);
}

/* Rounds of so many rows, none of them a draft; 0: none was measured. */
static f64 plain_us(u32 rows)
{
    u32 lo = MIN(rows, (u32)SLOT_CAP), hi = lo;
    while (lo > 0 && own.plain_us[lo] <= 0) lo--;
    while (hi <= SLOT_CAP && own.plain_us[hi] <= 0) hi++;
    if (lo > 0) return own.plain_us[lo] * (1 + ROW_GUESS * (rows - lo));
    return hi <= SLOT_CAP ? own.plain_us[hi] : 0;
}

/* What `drafts` rows more add to a round of `plain`: as measured, else as the nearest measured
 * number of them has it, else as guessed. */
static f64 extra_us(u32 drafts, f64 plain)
{
    u32 at = MIN(drafts, (u32)DRAFTERS_ROWS), lo = at, hi = at;
    if (drafts == 0) return 0;
    while (lo > 0 && own.extra_us[lo] <= 0) lo--;
    while (hi <= DRAFTERS_ROWS && own.extra_us[hi] <= 0) hi++;
    if (lo == 0 && hi > DRAFTERS_ROWS) return ROW_GUESS * plain * drafts;
    u32 near = lo == 0 || (hi <= DRAFTERS_ROWS && hi - at < at - lo) ? hi : lo;
    return own.extra_us[near] * drafts / near;
}

static f64 cost_us(u32 rows, u32 drafts)
{
    f64 plain = plain_us(rows);
    return plain + extra_us(drafts, plain);
}

f64 drafters_cost_us(u32 rows) { return rows == 0 ? 0 : cost_us(1, rows - 1); }

void drafters_spent(u32 rows, u32 drafts, u64 spent_us)
{
    f64 now = (f64)MAX(spent_us, 1u);
    if (own.most == 0 || rows > SLOT_CAP || drafts > DRAFTERS_ROWS) return;
    if (drafts == 0) {
        if (own.plain_us[rows] <= 0) own.plain_us[rows] = now;
        else learn(&own.plain_us[rows], now);
        return;
    }
    f64 plain = plain_us(rows), *at = &own.extra_us[drafts];
    if (plain <= 0) return;
    if (*at <= 0) *at = extra_us(drafts, plain);
    learn(at, MAX(now - plain, plain / 64));
}

static u32 class_of(enum turn_drafter drafter, u32 match, u32 place)
{
    u32 c = 0;
    if (drafter == DRAFTER_MTP) return MIN(place, (u32)CLASSES - 1);
    if (drafter == DRAFTER_LOOKUP)
        while (c < CLASSES - 1 && match + place >= match_edge[c]) c++;
    return c;
}

/* What adding ids to a round brings at best. */
struct gain { u32 count; f64 rate; };

/* Ids a microsecond of the whole round, with none and with 1 to `most` ids of a drafter whose own
 * time is `each_us` an id. */
static struct gain best_gain(const struct drafters_round *round, enum turn_drafter drafter,
                             u32 match, u32 most, f64 each_us)
{
    f64 chance = 1, ids = 0;
    struct gain best = { 0, round->ids / MAX(cost_us(round->rows, round->drafts), 1.0) };
    for (u32 k = 1; k <= most; k++) {
        chance *= (f64)own.accept[drafter][class_of(drafter, match, k - 1)].chance;
        ids += chance;
        f64 rate = (round->ids + ids) / (cost_us(round->rows, round->drafts + k) + k * each_us);
        if (rate > best.rate) best = (struct gain){ k, rate };
    }
    return best;
}

/* Time of one draft more in this round. */
static f64 row_us(const struct drafters_round *round)
{
    return cost_us(round->rows, round->drafts + 1) - cost_us(round->rows, round->drafts);
}

/* ------------------------------------------------------------------ asking */

static u32 ask_lookup(struct engine *e, struct turn_row *turn, u32 most,
                      struct drafters_block *out)
{
    struct lookup_context context = { turn_ids(e, turn),
                                      MIN(turn->prompt_count + turn->generated, e->ctx) };
    return lookup_propose(&context, most, out->ids + 1, &out->match);
}

static void asked(enum turn_drafter drafter, u32 silent, u32 times, u64 spent_us)
{
    struct drafters_counts *c = &own.counts[drafter];
    f64 weight = (f64)MIN(++c->times, (u64)JUDGED_MAX);
    own.ask_us[drafter] += ((f64)spent_us / times - own.ask_us[drafter]) / weight;
    c->silent += silent;
    c->ask_us += spent_us;
}

/* Up to `most` ids of a drafter that answers at once, its time taken. */
static u32 ask(struct engine *e, struct turn_row *turn, enum turn_drafter drafter, u32 most,
               struct drafters_block *out)
{
    u64 started_us = clock_us();
    u32 count = drafter == DRAFTER_LOOKUP ? ask_lookup(e, turn, most, out)
                                          : hostile_propose(e, turn, most, out->ids + 1);
    own.counts[drafter].asked++;
    asked(drafter, count == 0, 1, clock_us() - started_us);
    out->drafter = drafter;
    return count;
}

/* The draft head's chains of all slots that want one, a token of each a step. */
static void ask_head(struct drafters_block *block, const u32 *turns, u32 count)
{
    struct draft_ask ask[SLOT_CAP];
    u32 of[SLOT_CAP], asks = 0, longest = 0, silent = 0;
    for (u32 i = 0; i < count; i++) {
        if (block[i].chain == 0) continue;
        of[asks] = i;
        longest = MAX(longest, block[i].chain);
        ask[asks++] = (struct draft_ask){ .slot = turn_at(turns[i])->slot,
            .next_id = block[i].ids[0], .most = block[i].chain, .ids = block[i].ids + 1 };
    }
    if (asks == 0) return;
    u64 started_us = clock_us();
    enum err err = draft_propose_all(ask, asks);    /* on an error the slots stand as they did */
    for (u32 i = 0; i < asks; i++) {
        struct drafters_block *b = &block[of[i]];
        b->count = err == OK ? ask[i].count : 0;
        b->chain = 0;
        silent += b->count == 0;
    }
    own.counts[DRAFTER_MTP].asked += asks;
    asked(DRAFTER_MTP, silent, longest, clock_us() - started_us);
}

/* The allowance pays `us`, if it can. */
static bool afford(struct drafters_turn *t, enum turn_drafter drafter, f64 us)
{
    if (t->allowance_us[drafter] < us) return false;
    t->allowance_us[drafter] -= us;
    return true;
}

/* Each round adds its part; what is saved up is at most four hundred rounds' worth. */
static void allow(struct drafters_turn *t, f64 round_us)
{
    for (u32 d = 0; d < DRAFTER_COUNT; d++) {
        if (!t->begun) t->allowance_us[d] = 2 * own.ask_us[d];          /* it is asked at once */
        f64 most = MAX(400 * ALLOWANCE * round_us, 2 * own.ask_us[d]);
        t->allowance_us[d] = MIN(t->allowance_us[d] + ALLOWANCE * round_us, most);
    }
    t->begun = true;
}

/* The lookup drafter in competition: asked while it pays, else as the allowance has it; what is not
 * worth a row gets one now and then, to be measured. */
static void compete_lookup(struct engine *e, struct turn_row *turn, u32 most,
                           const struct drafters_round *round, struct drafters_block *out,
                           struct gain *gain)
{
    struct drafters_turn *t = &turn->drafters;
    if (!t->paying[DRAFTER_LOOKUP] && !afford(t, DRAFTER_LOOKUP, own.ask_us[DRAFTER_LOOKUP]))
        return;
    u32 count = ask(e, turn, DRAFTER_LOOKUP, most, out);
    struct gain g = best_gain(round, DRAFTER_LOOKUP, out->match, count, 0);
    t->paying[DRAFTER_LOOKUP] = g.count > 0;
    out->count = g.count;
    if (g.count > 0) {
        *gain = g;
        return;
    }
    own.counts[DRAFTER_LOOKUP].unpaid += count > 0;
    if (count > 0 && afford(t, DRAFTER_LOOKUP, row_us(round))) out->count = 1;
}

/* The draft head in competition: asked for as many ids as pay more than what is there, and now and
 * then for one that doesn't. */
static void compete_head(struct turn_row *turn, u32 most, const struct drafters_round *round,
                         struct drafters_block *out, const struct gain *lookup)
{
    f64 each_us = own.ask_us[DRAFTER_MTP];
    struct gain g = best_gain(round, DRAFTER_MTP, 0, MIN(most, (u32)DRAFTERS_CHAIN), each_us);
    u32 chain = g.count;
    if (chain > 0 && out->count > 0 && lookup->rate >= g.rate) return;
    if (chain == 0 && (out->count > 0 ||
                       !afford(&turn->drafters, DRAFTER_MTP, row_us(round) + each_us))) return;
    out->drafter = DRAFTER_MTP;
    out->count = out->match = 0;
    out->chain = MAX(chain, 1u);
}

static void compete(struct engine *e, struct turn_row *turn, u32 most,
                    const struct drafters_round *round, struct drafters_block *out)
{
    struct gain lookup = { 0 };
    f64 round_us = plain_us(round->rows);
    if (round_us <= 0) return;                      /* a first round is plain: it is measured */
    allow(&turn->drafters, round_us);
    compete_lookup(e, turn, most, round, out, &lookup);
    if (own.head) compete_head(turn, most, round, out, &lookup);
}

/* What one slot's proposal is, or how long a chain of the head. */
static void choose(struct engine *e, struct turn_row *turn, u32 most, struct drafters_round *round,
                   struct drafters_block *out)
{
    out->ids[0] = turn->next_id;
    out->count = out->match = out->chain = 0;
    u32 rows = round->rows + round->drafts;
    most = MIN(most, MIN(own.most, round->rows_most - MIN(rows, round->rows_most)));
    if (most == 0) return;
    if (own.hostile) {
        out->count = ask(e, turn, DRAFTER_HOSTILE, most, out);
    } else if (own.mode == DRAFT_LOOKUP) {
        out->count = ask(e, turn, DRAFTER_LOOKUP, most, out);
    } else if (own.mode == DRAFT_MTP && own.head) {
        out->drafter = DRAFTER_MTP;
        out->chain = MIN(most, (u32)DRAFTERS_CHAIN);
    } else if (own.mode == DRAFT_AUTO) {
        compete(e, turn, most, round, out);
    }
    f64 chance = 1;
    for (u32 i = 0; i < out->count + out->chain; i++) {
        chance *= (f64)own.accept[out->drafter][class_of(out->drafter, out->match, i)].chance;
        round->ids += chance;
    }
    round->drafts += out->count + out->chain;
}

void drafters_propose(struct engine *e, const u32 *turns, const u32 *most, u32 count,
                      struct drafters_round *round, struct drafters_block *block)
{
    for (u32 i = 0; i < count; i++) choose(e, turn_at(turns[i]), most[i], round, &block[i]);
    if (own.head) ask_head(block, turns, count);
    round->drafts = 0;
    for (u32 i = 0; i < count; i++) {
        u32 k = 0;                          /* ids of a store may be of another vocabulary    */
        while (k < block[i].count && block[i].ids[k + 1] < e->vocab) k++;
        block[i].count = k;
        round->drafts += k;
    }
}

/* ------------------------------------------------------------------ what came of it */

static void judge_id(enum turn_drafter drafter, u32 match, u32 place, bool right)
{
    struct accept *a = &own.accept[drafter][class_of(drafter, match, place)];
    if (a->judged < JUDGED_MAX) a->judged++;
    a->chance += ((right ? 1.0f : 0.0f) - a->chance) / (f32)a->judged;
}

void drafters_judge(struct turn_row *turn, const struct drafters_block *block, u32 accepted,
                    bool wrong)
{
    enum turn_drafter d = block->drafter;
    struct drafters_counts *c = &own.counts[d];
    ASSERT(block->count > 0 && accepted <= block->count && accepted <= DRAFTERS_MOST);
    for (u32 i = 0; i < accepted; i++) judge_id(d, block->match, i, true);
    if (wrong) judge_id(d, block->match, accepted, false);
    c->blocks++;
    c->drafted += block->count;
    c->accepted += accepted;
    own.accepted[accepted]++;
    turn->drafts[d].blocks++;
    turn->drafts[d].drafted += block->count;
    turn->drafts[d].accepted += accepted;
    own.tail[own.rows++ % DRAFTERS_TAIL] = (struct drafters_row){
        .turn = turn->number, .drafter = d, .drafted = block->count, .accepted = accepted };
}

const struct drafters_counts *drafters_counted(enum turn_drafter drafter)
{
    ASSERT(drafter < DRAFTER_COUNT);
    return &own.counts[drafter];
}

u64 drafters_accepted(u32 accepted)
{
    ASSERT(accepted <= DRAFTERS_MOST);
    return own.accepted[accepted];
}

const struct drafters_row *drafters_row(u32 back)
{
    if (back >= own.rows || back >= DRAFTERS_TAIL) return NULL;
    return &own.tail[(own.rows - 1 - back) % DRAFTERS_TAIL];
}

static void put_u64(struct json_out *out, const char *key, u64 value)
{
    json_put_key(out, key);
    json_put_u64(out, value);
}

void drafters_dump(struct json_out *out)
{
    json_put_key(out, "drafts");
    json_put_object(out);
    json_put_key(out, "mode");
    json_put_cstr(out, drafters_mode());
    put_u64(out, "most", drafters_most());
    for (u32 d = 0; d < DRAFTER_COUNT; d++) {
        const struct drafters_counts *c = drafters_counted((enum turn_drafter)d);
        json_put_key(out, turn_drafter_word[d]);
        json_put_object(out);
        put_u64(out, "asked", c->asked);
        put_u64(out, "silent", c->silent);
        put_u64(out, "unpaid", c->unpaid);
        put_u64(out, "blocks", c->blocks);
        put_u64(out, "drafted", c->drafted);
        put_u64(out, "accepted", c->accepted);
        put_u64(out, "ask_us", c->ask_us);
        json_put_object_end(out);
    }
    json_put_key(out, "blocks_by_accepted");
    json_put_array(out);
    for (u32 i = 0; i <= drafters_most(); i++) json_put_u64(out, drafters_accepted(i));
    json_put_array_end(out);
    json_put_key(out, "round_us_by_rows");
    json_put_array(out);
    for (u32 i = 1; i <= drafters_most() + 1; i++) json_put_u64(out, (u64)drafters_cost_us(i));
    json_put_array_end(out);
    json_put_key(out, "last");
    json_put_array(out);
    for (u32 back = DUMPED; back-- > 0;) {
        const struct drafters_row *r = drafters_row(back);
        if (r == NULL) continue;
        json_put_array(out);
        json_put_cstr(out, turn_drafter_word[r->drafter]);
        json_put_u64(out, r->drafted);
        json_put_u64(out, r->accepted);
        json_put_array_end(out);
    }
    json_put_array_end(out);
    json_put_object_end(out);
}
