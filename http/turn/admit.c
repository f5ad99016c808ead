/* http/turn/admit.c - QUEUED -> PREFILL: find the start, ask the gate, restore. */
#include "http/turn/pass.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "budget/dump.h"
#include "model/state.h"

#include <string.h>

enum { ADMIT_RECORDS = 256 };       /* anchors offered to a gate                              */

/* Marks at or below the start were passed in an earlier turn. */
static void skip_marks(struct turn_row *turn)
{
    while (turn->mark_next < turn->mark_count &&
           turn->mark[turn->mark_next].pos <= turn->hit.start) turn->mark_next++;
}

static void publish_start(const struct turn_row *turn, u64 now_us)
{
    struct submit_row *row = submit_at(turn->submit);
    row->result.source = (enum turn_source)turn->hit.source;
    row->result.reason = (enum turn_reason)turn->hit.reason;
    row->result.part_pos = turn->hit.part_pos;
    row->result.served = turn->replay.aligned ? SERVED_ALIGNED : SERVED_SENT;
    row->result.cached = turn->hit.start;
    row->result.restore_us = turn->restore_us;
    row->result.queue_us = now_us > row->arrival_us ? now_us - row->arrival_us : 0;
    row->progress = turn->hit.start;
    turn_publish(turn, SUBMIT_PREFILL);
}

/* ERR_MEMORY: *short_out is what all musts together lacked. */
static enum err ask_gate(const struct engine *e, struct turn_row *turn, struct wants_owner *owner,
                         u64 *short_out)
{
    static struct budget_record records[ADMIT_RECORDS];
    static struct budget_plan plan;
    struct wants wants;
    wants_build(e, turn, &owner->hit, &wants);
    owner->rows = wants.rows;
    for (u32 i = 0; i < wants.count; i++) wants.want[i].owner = owner;
    u32 count = resident_victims(records, ADMIT_RECORDS);
    for (u32 i = 0; i < count; i++)
        records[i].pinned = owner->hit.start > 0 && owner->hit.way != WAY_TAKE &&
                            records[i].record == owner->hit.unit.index;
    enum err err = budget_gate(e->set.graph, &(struct budget_ask){
        .kind = GATE_ADMIT, .turn = turn->number, .wants = wants.want, .want_count = wants.count,
        .records = records, .record_count = count,
    }, &plan);
    if (err != ERR_MEMORY || !plan.refused) return err;
    *short_out = plan.short_bytes;
    for (u32 i = plan.refused_want + 1; i < wants.count; i++)
        if (wants.want[i].must) *short_out += wants.want[i].min_bytes;
    return err;
}

/* The gate, and when its must is refused, again with idle records given up, oldest first, as long
 * as they could pay for it; last of all the matched record's own tail.  Each round of the loop
 * drops a record, so it ends. */
static enum err make_room(struct engine *e, struct turn_row *turn, struct wants_owner *owner)
{
    for (;;) {
        u64 short_bytes = 0;
        enum err err = ask_gate(e, turn, owner, &short_bytes);
        struct tier_hit *hit = &owner->hit;
        if (err != ERR_MEMORY) return err;
        if (wants_relief(e, hit, hit->slot) >= short_bytes &&
            wants_relieve(e, hit, hit->slot) > 0) continue;
        if (hit->way != WAY_FORK || record_at(hit->record)->busy) return err;
        if (wants_relief(e, hit, NONE) + record_freed_bytes(hit->record, hit->start) <
            short_bytes) return err;
        hit->way = WAY_CUT;
        hit->slot = record_at(hit->record)->slot;
        hit->victim = NONE;
    }
}

/* Choose the start, make room, restore.  Fails only when the slot itself gets no rows. */
static enum err admit(struct engine *e, struct turn_row *turn)
{
    const struct submit_row *row = submit_at(turn->submit);
    struct tier_prompt prompt = { .keys = e->keys, .count = turn->prompt_count,
                                  .session = { row->session[0], row->session[1] } };
    struct wants_owner owner = { .e = e, .turn = turn, .prompt = &prompt, .now_us = clock_us() };

    replay_prompt(e, turn, &prompt, &owner.hit);
    if (owner.hit.slot == NONE) return OK;              /* waits: every slot is busy */
    enum err err = make_room(e, turn, &owner);
    if (err != OK) {
        if (resident_record(owner.hit.slot) == NONE) slot_drop(owner.hit.slot);
        return err;
    }
    turn->hit = owner.hit;
    turn->slot = owner.hit.slot;
    err = tier_load(&turn->hit, &prompt);
    if (err != OK) {
        turn->lost = true;
        return err;
    }
    slot_row(turn->slot)->record = resident_record(turn->slot);
    for (u64 i = 0; i < prompt.count; i++) turn_ids(e, turn)[i] = (u32)e->keys[i];
    turn->admit_at_us = clock_us();
    turn->restore_us = turn->admit_at_us - owner.now_us;
    skip_marks(turn);
    turn->state = TURN_PREFILL;
    return OK;
}

static u32 idle_slots(const struct engine *e)
{
    u32 count = 0;
    for (u32 slot = 0; slot < e->slot_count; slot++) count += e->slot_turn[slot] == NONE;
    return count;
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

void admit_pass(struct engine *e)
{
    while (idle_slots(e) > 0) {
        u32 index = turn_oldest(TURN_QUEUED);
        if (index == NONE) return;
        struct turn_row *turn = turn_at(index);
        enum err err = admit(e, turn);
        e->moved = e->check = true;
        if (turn->slot != NONE) e->slot_turn[turn->slot] = index;
        if (err != OK) {
            turn_fail(e, turn, err);
            if (err == ERR_MEMORY) note_refusal(e);
            continue;
        }
        ASSERT(turn->state == TURN_PREFILL);
        publish_start(turn, turn->admit_at_us);
    }
}
