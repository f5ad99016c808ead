/* http/turn/admit.c - QUEUED -> PREFILL: find the start, ask the gate, restore. */
#include "http/turn/pass.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "budget/dump.h"
#include "model/state.h"

#include <string.h>

/* Marks at or below the start were passed in an earlier turn. */
static void skip_marks(struct turn_row *turn)
{
    while (turn->mark_next < turn->mark_count &&
           turn->mark[turn->mark_next].pos <= turn->hit.start) turn->mark_next++;
}

static void publish_start(const struct turn_row *turn)
{
    struct submit_row *row = submit_at(turn->submit);
    row->source = (u32)turn->hit.source;
    row->progress = turn->hit.start;
    turn_publish(turn, SUBMIT_PREFILL);
}

/* ERR_MEMORY: *short_out is what all musts together lacked. */
static enum err ask_gate(const struct engine *e, struct turn_row *turn, struct wants_owner *owner,
                         u64 *short_out)
{
    static struct budget_plan plan;
    struct wants wants;
    wants_build(e, turn, &owner->hit, &wants);
    owner->rows = wants.rows;
    for (u32 i = 0; i < wants.count; i++) wants.want[i].owner = owner;
    enum err err = wants_gate(e, GATE_ADMIT, turn->number, wants.want, wants.count, &owner->hit,
                              &plan);
    if (err != ERR_MEMORY || !plan.refused) return err;
    *short_out = plan.short_bytes;
    for (u32 i = plan.refused_want + 1; i < wants.count; i++)
        if (wants.want[i].must) *short_out += wants.want[i].min_bytes;
    return err;
}

/* The fork gives way to the matched conversation itself, whose tail is given up. */
static enum err cut_instead(struct engine *e, struct wants_owner *owner)
{
    struct tier_hit *hit = &owner->hit;
    u32 from = hit->slot;
    tier_unplace(hit);
    if (resident_record(from) == NONE) slot_drop(from);
    e->check = true;
    if (!arena_slots_valid(state_sections_arena(), hit->unit))
        return fail(ERR_MEMORY, "memory: the anchor at %llu went", (ull)hit->start);
    hit->way = WAY_CUT;
    hit->slot = record_at(hit->record)->slot;
    hit->victim = NONE;
    return tier_place(hit, owner->prompt, owner->now_us);
}

/* Gives up the oldest idle conversation; what of it is not on disk yet goes there first. */
static bool give_up(struct engine *e, u32 slot)
{
    u32 record = resident_oldest(NONE, slot);
    if (record == NONE) return false;
    record_keep_end(record);
    nvme_displaced(record, 0);
    return wants_relieve(e, slot) > 0;
}

/* The gate, and when its must is refused, again with idle records given up, oldest first, as long
 * as they could pay for it and what it lacks is not on its way to disk (then the turn waits); last
 * of all the matched record's own tail.  Each round of the loop drops a record, so it ends. */
static enum err make_room(struct engine *e, struct turn_row *turn, struct wants_owner *owner)
{
    u64 writing = aside_used(HOLD_WRITING);
    for (;;) {
        u64 short_bytes = 0;
        enum err err = ask_gate(e, turn, owner, &short_bytes);
        struct tier_hit *hit = &owner->hit;
        if (err != ERR_MEMORY) return err;
        if (hit->guest && resident_holder(hit->slot) != HOLD_LIVE) return err;
        if (aside_used(HOLD_WRITING) >= writing + MAX(short_bytes, 1u)) return err;
        if (wants_relief(hit->slot) >= short_bytes && give_up(e, hit->slot)) continue;
        if (hit->way != WAY_FORK || !record_is(hit->record, hit->number) ||
            record_at(hit->record)->busy || record_at(hit->record)->slot == NONE) return err;
        if (wants_relief(hit->slot) + record_freed_bytes(hit->record, hit->start) < short_bytes)
            return err;
        err = cut_instead(e, owner);
        if (err != OK) hit->slot = NONE;                /* nothing is placed                  */
        TRY(err);
    }
}

/* Bytes that the turn's rows would add to live ones, what its slot gives up counted; all idle
 * records and everything that yields could not pay for more: refused before anything is displaced.
 */
static bool never_fits(const struct engine *e, const struct turn_row *turn,
                       const struct tier_hit *hit)
{
    if (resident_holder(hit->slot) != HOLD_LIVE) return false;
    u64 block_rows = state_shape()->block_rows;
    u64 blocks = (wants_rows(e, turn) + block_rows - 1) / block_rows;
    u64 kept = hit->way == WAY_COLD ? 0 : hit->start / block_rows;
    u64 need = (blocks - kept) * arena_row(state_blocks_arena())->unit_bytes;
    u64 room = budget_gate_room(e->set.graph, e->kv_node);
    u64 used = e->set.graph->node[e->kv_node].used_bytes, relief = wants_relief(NONE);
    return need > relief && used + need - relief > room;
}

/* What came in from aside is live now: idle conversations make way under the cap of live rows. */
static enum err fit_live(struct engine *e, const struct tier_hit *hit)
{
    while (aside_used(HOLD_LIVE) > aside_cap(HOLD_LIVE)) {
        u32 record = resident_oldest(NONE, hit->slot);
        if (record == NONE)
            return fail(ERR_MEMORY, "memory: the rows of this conversation are over the cap of kv");
        u32 slot = record_at(record)->slot;
        tier_displace(slot);
        slot_drop(slot);
        e->counts.evicted++;
    }
    return OK;
}

/* Slot and start of this turn in place, and its rows granted.  ERR_MEMORY: the slot is idle again;
 * a guest's that the stash does not pay for is not one. */
static enum err place(struct engine *e, struct turn_row *turn, struct wants_owner *owner)
{
    struct tier_hit *hit = &owner->hit;
    if (never_fits(e, turn, hit))
        return fail(ERR_MEMORY, "memory: %llu rows are more than the board can ever pay for",
                    (ull)wants_rows(e, turn));
    if (!wants_gross(hit->slot, wants_rows(e, turn)))
        return fail(ERR_MEMORY, "memory: the stash has no room for a guest of %llu rows",
                    (ull)wants_rows(e, turn));
    (void)load_return(turn);            /* tier_place protects what it matched, and settles   */
    TRY(tier_place(hit, owner->prompt, owner->now_us));
    enum err err = fit_live(e, hit);
    if (err == OK) err = make_room(e, turn, owner);
    if (err == OK || hit->slot == NONE) return err;
    tier_unplace(hit);
    if (resident_record(hit->slot) == NONE) slot_drop(hit->slot);
    else slot_shrink(hit->slot, slot_row(hit->slot)->len);
    return err;
}

/* What the hit names is still there: a restore that came to nothing may have taken it. */
static bool stands(const struct tier_hit *hit)
{
    if (hit->way == WAY_COLD) return true;
    if (!record_is(hit->record, hit->number)) return false;
    return hit->unit.index == NONE || arena_slots_valid(state_sections_arena(), hit->unit);
}

/* Choose the start, make room, restore.  Fails only when the slot itself gets no rows. */
static enum err start(struct engine *e, struct turn_row *turn)
{
    const struct submit_row *row = submit_at(turn->submit);
    struct tier_prompt prompt = { .keys = e->keys, .count = turn->prompt_count,
                                  .session = { row->session[0], row->session[1] } };
    struct wants_owner owner = { .e = e, .turn = turn, .prompt = &prompt, .now_us = clock_us() };

    replay_prompt(e, turn, &prompt, &owner.hit);
    if (owner.hit.slot == NONE) return OK;              /* waits: every slot is busy */
    if (load_start(e, turn, &prompt, &owner.hit)) return OK;
    if (!stands(&owner.hit)) {
        end_cut(&turn->replay.kept, 0);
        replay_prompt(e, turn, &prompt, &owner.hit);
        if (owner.hit.slot == NONE) return OK;
    }
    enum err err = place(e, turn, &owner);
    if (err == ERR_MEMORY && owner.hit.guest) {         /* served like any other */
        prompt.no_guest = true;
        tier_find(&prompt, &owner.hit);
        if (owner.hit.slot == NONE) return OK;
        err = place(e, turn, &owner);
    }
    if (err != OK) return err;
    if (owner.hit.record != NONE && turn->loaded == owner.hit.number)
        owner.hit.source = turn->from_disk.source;
    else if (record_is(owner.hit.record, owner.hit.number))
        owner.hit.source = nvme_source(owner.hit.record, owner.hit.source);
    turn->hit = owner.hit;
    turn->slot = owner.hit.slot;
    load_reason(turn);
    err = tier_load(&turn->hit, &prompt);
    if (err != OK) {
        turn->lost = true;
        return err;
    }
    slot_row(turn->slot)->record = resident_record(turn->slot);
    replay_keep(turn);
    for (u64 i = 0; i < prompt.count; i++) turn_ids(e, turn)[i] = (u32)e->keys[i];
    turn->admit_at_us = clock_us();
    turn->restore_us = turn->admit_at_us - owner.now_us + turn->load_us;
    load_plan(turn, &prompt);
    skip_marks(turn);
    turn->state = TURN_PREFILL;
    return OK;
}

static enum err admit(struct engine *e, struct turn_row *turn)
{
    enum err err = start(e, turn);
    end_cut(&turn->replay.kept, 0);
    return err;
}

static u32 idle_slots(const struct engine *e)
{
    u32 count = 0;
    for (u32 slot = 0; slot < e->main_count; slot++) count += e->slot_turn[slot] == NONE;
    return count;
}

/* With every slot busy only a guest finds a place: short prompts are asked once each time that a
 * turn began or ended. */
static u32 next_guest(const struct engine *e)
{
    u32 slot = resident_guest_slot(), oldest = NONE;
    if (slot == NONE || e->slot_turn[slot] != NONE) return NONE;
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1)) {
        const struct turn_row *turn = turn_at(i);
        if (turn->state != TURN_QUEUED) continue;
        if (turn->asked == e->counts.turns + e->admitted + 1) continue;
        if (turn->prompt_count > e->set.profile->guest_rows_max) continue;
        if (oldest == NONE || turn->number < turn_at(oldest)->number) oldest = i;
    }
    return oldest;
}

/* A refused must is counted, and dumped where a folder was given for it. */
static void note_refusal(struct engine *e)
{
    const char *folder = e->set.profile->dump_dir;
    e->counts.refused++;
    command_count_records(e);
    if (folder[0] != 0 && budget_dump_write(e->set.graph, folder, "refused") != OK)
        log_line(LOG_LEVEL_ERROR, "memory dump: %s", err_last()->text);
}

/* A request that is no guest goes before guests that decode: each stands still once. */
static void overtake(const struct engine *e, const struct turn_row *turn)
{
    for (u32 slot = 0; slot < e->slot_count && !turn->hit.guest; slot++) {
        if (e->slot_turn[slot] == NONE) continue;
        struct turn_row *other = turn_at(e->slot_turn[slot]);
        if (other->hit.guest && other->behind == 0 && other->state == TURN_DECODE)
            other->behind = turn->number;
    }
}

/* Equal greedy requests are answered without a slot, however many wait. */
static void answer_queued(struct engine *e)
{
    for (u32 i = turn_next(0); response_on() && i != NONE; i = turn_next(i + 1)) {
        struct turn_row *turn = turn_at(i);
        if (turn->state != TURN_QUEUED || turn->answer_asked) continue;
        turn->answer_asked = true;
        if (answer_found(e, turn)) publish_start(turn);
    }
}

/* Its memory is on the way to disk, as a displaced conversation's tail: the turn stays in line for
 * a while, then that tail is given up, but for the file being written.  Decoding goes on. */
static bool wait_for_tail(const struct engine *e, struct turn_row *turn)
{
    u64 now_us = clock_us(), most_us = nvme_wait_us();
    turn->wait_seen = nvme_written();
    if (turn->wait_until_us == 0) {
        if (most_us == 0) return false;
        turn->wait_until_us = now_us + most_us;
        nvme_tails()->waits++;
    }
    if (now_us < turn->wait_until_us) return nvme_wait_us() > 0 || turn->wait_dropped;
    if (turn->wait_dropped) return false;
    turn->wait_dropped = true;
    turn->wait_until_us = now_us + e->set.profile->spill_wait_us;   /* of that one file        */
    if (!nvme_drop_tail()) return writer_pending() > 0;
    turn->wait_seen = UINT64_MAX;                                   /* tried again at once     */
    return true;
}

u64 admit_waits_us(void)
{
    u32 oldest = turn_oldest(TURN_QUEUED);
    const struct turn_row *turn = oldest == NONE ? NULL : turn_at(oldest);
    bool waits = turn != NULL && turn->wait_until_us > 0 && turn->wait_seen == nvme_written() &&
                 clock_us() < turn->wait_until_us;
    return waits ? turn->wait_until_us : 0;
}

void admit_pass(struct engine *e)
{
    answer_queued(e);
    for (;;) {
        u32 index = idle_slots(e) > 0 ? turn_oldest(TURN_QUEUED) : next_guest(e);
        if (index == NONE || admit_waits_us() > 0) return;
        struct turn_row *turn = turn_at(index);
        turn->asked = e->counts.turns + e->admitted + 1;
        enum err err = admit(e, turn);
        e->check = true;
        if (turn->state == TURN_LOADING) {              /* its rows are read from disk first  */
            e->moved = true;
            continue;
        }
        if (err == OK && turn->slot == NONE) {          /* no guest: it waits like the others */
            ASSERT(idle_slots(e) == 0);
            continue;
        }
        if (err == ERR_MEMORY && turn->slot == NONE && wait_for_tail(e, turn)) {
            if (turn->wait_seen == UINT64_MAX) continue;
            return;
        }
        e->moved = true;
        if (turn->slot != NONE) e->slot_turn[turn->slot] = index;
        if (err != OK) {
            turn_fail(e, turn, err);
            if (err == ERR_MEMORY) note_refusal(e);
            continue;
        }
        ASSERT(turn->state == TURN_PREFILL);
        e->admitted++;
        overtake(e, turn);
        publish_start(turn);
    }
}
