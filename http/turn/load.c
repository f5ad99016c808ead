/* http/turn/load.c - QUEUED -> LOADING -> QUEUED: rows from disk become a record aside, from which
 * the turn is admitted like from any other; and what a turn leaves on disk. */
#include "http/turn/pass.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "http/turn/submit.h"
#include "model/state.h"

#include <string.h>

struct load_owner { const struct nvme_hit *hit; const struct tier_prompt *prompt; u32 load; };

static enum err take_rows(void *owner, u64 bytes)
{
    struct load_owner *o = owner;
    (void)bytes;
    return nvme_load(o->hit, o->prompt, &o->load);
}

static void undo_rows(void *owner, u64 bytes)
{
    const struct load_owner *o = owner;
    (void)bytes;
    nvme_load_abandon(o->load);
}

/* What idle conversations but this one would free. */
static u64 idle_bytes(u32 keep)
{
    u64 sum = 0, unit_bytes = arena_row(state_sections_arena())->unit_bytes;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1))
        if (r != keep && !record_at(r)->busy && record_at(r)->slot != NONE)
            sum += record_freed_bytes(r, 0) + record_anchor_bytes(r) + unit_bytes;
    return sum;
}

/* Refused for bytes that others could give: not so when what was granted could not be taken. */
static bool short_of(enum err err, const struct budget_plan *plan)
{
    return err == ERR_MEMORY && plan->refused && plan->refused_want != NONE &&
           plan->grant[plan->refused_want].why != WHY_COMMIT;
}

/* The gate with the matched record protected; when nothing else aside pays, that one too, for what
 * is restored starts later. */
static enum err ask_gate(const struct engine *e, u64 number, const struct budget_want want[2],
                         const struct tier_hit *hit, struct budget_plan *plan)
{
    u32 match = record_is(hit->record, hit->number) ? hit->record : NONE;
    aside_protect(match);               /* NONE also when an earlier round took it            */
    enum err err = wants_gate(e, GATE_ADMIT, number, want, 2, hit, plan);
    aside_unprotect(match, hit->number);
    if (!short_of(err, plan) || match == NONE || record_at(match)->slot != NONE) return err;
    return wants_gate(e, GATE_ADMIT, number, want, 2, hit, plan);
}

/* What was found is not evicted: its anchors, and the entry that holds the rest. */
static void hold_found(const struct nvme_hit *found)
{
    pieces_hold(found->anchor);
    for (u32 i = 0; i + 1 < found->units; i++) pieces_hold(found->more[i]);
    if (found->row != NONE) spill_at(found->row)->reads++;
}

static void release_found(const struct nvme_hit *found)
{
    pieces_release(found->anchor);
    for (u32 i = 0; i + 1 < found->units; i++) pieces_release(found->more[i]);
    if (found->row != NONE) spill_at(found->row)->reads--;
}

/* The gate, again with idle conversations displaced, oldest first, as long as they could pay: not
 * the matched one, and what was found is held, for their tails go where it stands.  Each round
 * empties a slot, so it ends. */
static enum err make_way(struct engine *e, u64 number, const struct budget_want want[2],
                         const struct tier_hit *hit, const struct nvme_hit *found)
{
    static struct budget_plan plan;
    enum err err;
    hold_found(found);
    for (;;) {
        u32 idle = resident_oldest(hit->record, NONE);
        err = ask_gate(e, number, want, hit, &plan);
        if (!short_of(err, &plan) || idle == NONE) break;
        u64 lacks = plan.short_bytes + (plan.refused_want == 0 ? want[1].min_bytes : 0);
        if (idle_bytes(hit->record) < lacks) break;
        u32 slot = record_at(idle)->slot, match = hit->record;
        if (!record_is(match, hit->number)) match = NONE;
        aside_protect(match);
        tier_displace(slot);
        aside_unprotect(match, hit->number);
        slot_drop(slot);
        e->counts.evicted++;
    }
    tier_settle();                      /* the matched record is not protected any more       */
    release_found(found);
    return err;
}

/* No more section sets than anchors may hold: the lowest are left. */
static void fewer_units(struct nvme_hit *found)
{
    u64 most = aside_cap(HOLD_ANCHOR) / arena_row(state_sections_arena())->unit_bytes;
    for (; found->units > 1 && found->units > most; found->units--)
        memmove(found->more, found->more + 1, (found->units - 2) * sizeof *found->more);
}

/* The memory of a restore by the gate, its reads queued.  ERR_MEMORY, ERR_FULL. */
static enum err take(struct engine *e, u64 number, const struct tier_prompt *prompt,
                     const struct tier_hit *hit, struct nvme_hit *found, u32 *load_out)
{
    u64 block_rows = state_shape()->block_rows;
    u64 blocks = (found->start + block_rows - 1) / block_rows;
    u64 bytes = blocks * arena_row(state_blocks_arena())->unit_bytes;
    u64 unit_bytes = found->units * arena_row(state_sections_arena())->unit_bytes;
    struct load_owner owner = { .hit = found, .prompt = prompt, .load = NONE };
    bool parks = bytes + unit_bytes <= aside_cap(HOLD_PARK);    /* else straight for the slot */
    if (!parks && resident_on()) fewer_units(found);
    TRY(nvme_load_room(found));         /* before anything makes way                          */
    unit_bytes = found->units * arena_row(state_sections_arena())->unit_bytes;
    u32 park = aside_node(HOLD_PARK), live = aside_node(HOLD_LIVE);
    struct budget_want want[2] = {
        { .node = parks ? park : resident_on() ? resident_node() : live,
          .arena = state_sections_arena(), .must = true,
          .min_bytes = unit_bytes, .max_bytes = unit_bytes, .unit_bytes = 1 },
        { .node = parks ? park : live, .arena = state_blocks_arena(), .must = true,
          .min_bytes = bytes, .max_bytes = bytes, .unit_bytes = 1, .commit = take_rows,
          .undo = undo_rows, .owner = &owner },
    };
    TRY(make_way(e, number, want, hit, found));
    e->check = true;
    *load_out = owner.load;
    return OK;
}

bool load_start(struct engine *e, struct turn_row *turn, const struct tier_prompt *prompt,
                const struct tier_hit *hit)
{
    struct nvme_hit found = { .slow = false };
    if (!nvme_find(prompt, hit->start, turn->loads, &found)) {
        if (found.slow) turn->disk_reason = TIER_SLOW_READ;
        return false;
    }
    turn->loads++;
    if (take(e, turn->number, prompt, hit, &found, &turn->load) != OK) {
        log_line(LOG_LEVEL_DEBUG, "restore of %llu rows: %s", (ull)found.start, err_last()->text);
        return false;
    }
    turn->load_us = clock_us();
    turn->state = TURN_LOADING;
    return true;
}

/* No park holds what came at the start: slot 0 does, idle, as after its turn. */
static void enter(u32 record)
{
    struct record_row *r = record_at(record);
    struct anchor_list list = record_anchors(record);
    u32 at = anchors_at(&list, record_rows(record));
    struct tier_prompt prompt = { .session = { r->session[0], r->session[1] } };
    struct tier_hit hit = { .way = WAY_LIFT, .record = record, .number = r->number, .slot = 0,
                            .victim = NONE, .start = record_rows(record) };
    ASSERT(at != NONE && resident_record(0) == NONE);
    hit.unit = list.row[at].unit;
    if (tier_place(&hit, &prompt, clock_us()) != OK || resident_load(&hit) != OK) return;
    r->busy = false;
    slot_row(0)->record = record;
}

void load_newest(struct engine *e, u64 deadline_us)
{
    struct nvme_hit found;
    struct tier_hit hit = { .record = NONE, .slot = NONE, .victim = NONE };
    struct tier_prompt prompt = { .keys = NULL };
    struct nvme_record came;
    u32 load = NONE;
    u64 from_us = clock_us(), now_us = from_us;
    if (!nvme_newest(&found, prompt.session)) return;
    enum err err = take(e, 0, &prompt, &hit, &found, &load);
    enum nvme_state state = err == OK ? NVME_LOADING : NVME_FAILED;
    while (state == NVME_LOADING && now_us < deadline_us) {     /* ends: answers, or the time */
        u32 seen = ring_word(submit_wake());
        now_us = clock_us();
        bool moved = nvme_pass(now_us, true);
        state = nvme_loaded(load, now_us, &came);
        if (state == NVME_LOADING && !moved) ring_wait(submit_wake(), seen, deadline_us);
    }
    if (state == NVME_LOADING) nvme_load_abandon(load); /* its next turn asks again           */
    if (state == NVME_LOADED && aside_used(HOLD_PARK) > aside_cap(HOLD_PARK)) enter(came.record);
    tier_settle();
    log_line(LOG_LEVEL_INFO, "restore: %llu rows of the conversation used last %s, %.0f ms",
             (ull)found.start, state == NVME_LOADED ? "are back" : "were not read",
             (f64)(clock_us() - from_us) / 1e3);
}

/* What came is the turn's until it is placed or ends; what an earlier restore brought is not. */
static void lend(struct turn_row *turn, const struct nvme_record *came)
{
    (void)load_return(turn);
    turn->from_disk = *came;
    turn->loaded = record_at(came->record)->number;
    turn->lent = true;
    aside_protect(came->record);
}

void load_pass(struct engine *e)
{
    u64 now_us = clock_us();
    if (nvme_pass(now_us, load_busy())) e->moved = e->check = true;
    if (suffix_log_pass(now_us)) e->moved = e->check = true;
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1)) {
        struct turn_row *turn = turn_at(i);
        if (turn->state != TURN_LOADING) continue;
        struct nvme_record came;
        enum nvme_state state = nvme_loaded(turn->load, now_us, &came);
        if (state == NVME_LOADING) continue;
        turn->load_us = now_us - turn->load_us;
        turn->state = TURN_QUEUED;
        turn->asked = 0;
        if (state == NVME_LOADED) lend(turn, &came);
        else turn->disk_reason = TIER_FAILED_CHECK;
        tier_settle();
        e->moved = e->check = true;
    }
}

bool load_return(struct turn_row *turn)
{
    if (!turn->lent) return false;
    aside_unprotect(turn->from_disk.record, turn->loaded);
    turn->lent = false;
    return true;
}

bool load_busy(void)
{
    return turn_count(TURN_PREFILL) + turn_count(TURN_DECODE) + turn_count(TURN_QUEUED) +
           turn_count(TURN_LOADING) > 0;
}

void load_plan(struct turn_row *turn, const struct tier_prompt *prompt)
{
    u64 last_user_pos = 0;
    for (u32 i = 0; i < turn->mark_count; i++)
        if (turn->mark[i].kind == MARK_USER) last_user_pos = turn->mark[i].pos;
    nvme_plan(prompt, turn->hit.start, last_user_pos, &turn->lines);
}

void load_reason(struct turn_row *turn)
{
    enum tier_reason *reason = &turn->hit.reason;
    bool off = nvme_why()[0] != 0 && *reason == TIER_NEVER_SEEN;
    if (turn->disk_reason != TIER_REASON_NONE) *reason = turn->disk_reason;
    else if (off) *reason = TIER_OFF;   /* the folder might know it                           */
}

void load_line(struct turn_row *turn, u64 pos)
{
    for (u32 i = 0; i < turn->lines.count; i++)
        if (turn->lines.line[i] == pos)
            nvme_line(resident_record(turn->slot), pos, turn->number);
}

void load_drain(struct engine *e)
{
    struct journal_drained drained;
    if (!nvme_on()) return;
    turn_memos();
    suffix_log_flush();
    nvme_drain(clock_us() + e->set.profile->drain_write_us, &drained);
    log_line(LOG_LEVEL_INFO, "spill: %u conversations written, %u not reached", drained.saved,
             drained.missed);
}
