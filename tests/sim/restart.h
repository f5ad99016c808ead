/* tests/sim/restart.h - the engine goes and comes back over the same files: drained, killed, with
 * another model, over files that rotted; and what must be there then. */
#ifndef SIM_RESTART_H
#define SIM_RESTART_H

#include "tests/sim/clients.h"
#include "tests/sim/files.h"

/* ------------------------------------------------------------------ what is on disk */

/* It is as a turn of this life with an answer left it. */
static bool is_whole(u32 record)
{
    return world.turned[record].number == record_at(record)->number &&
           world.turned[record].rows == record_rows(record);
}

/* The one of its session that was used last, and may be written; a part that a turn left on the way
 * counts when it is no shorter.  One answer beside a longer one is neither. */
static bool is_newest(u32 record)
{
    const struct record_row *mine = record_at(record);
    u64 rows = record_rows(record);
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        const struct record_row *row = record_at(r);
        bool one = (row->class == HOLD_LIVE || row->class == HOLD_PARK) && !row->guest &&
                   !row->tail;
        if (r == record || !one || !record_session(r, mine->session)) continue;
        if (beside(record, record_rows(r))) return false;
        bool over = is_whole(r) ? !beside(r, rows) : record_rows(r) >= rows;
        if (over && row->used_us >= mine->used_us) return false;
    }
    return true;
}

/* Nothing kept a conversation from being written in this life. */
static bool all_written(void)
{
    struct spill_counts s = spill_counts();
    struct writer_counts w = writer_counts();
    return nvme_on() && spill_cap_bytes() > 0 && !world.left[world.model].rotten &&
           s.refused == 0 && s.failed == 0 &&
           w.failed == 0 && w.refused_day == 0 && w.refused_full == 0 && s.dropped == 0;
}

/* Every conversation that may be written is on disk with all its rows. */
static void check_written(void)
{
    for (u32 r = record_next(0); all_written() && r != NONE; r = record_next(r + 1)) {
        const struct record_row *row = record_at(r);
        struct anchor_list list = record_anchors(r);
        bool one = (row->class == HOLD_LIVE || row->class == HOLD_PARK) && !row->guest &&
                   !row->tail && !row->busy && anchors_count(&list) > 0;
        if (!one || !is_whole(r) || !is_newest(r)) continue;
        u32 talk = spill_session(row->session);
        CHECK(talk != NONE);
        const struct spill_row *t = spill_at(talk);
        if (beside(r, t->talk.length)) continue;
        if (t->used_us > row->used_us) continue;        /* memory lost what came after            */
        if (t->used_us == 0 && t->talk.length > record_rows(r)) continue;   /* a part read back   */
        CHECK_EQ(t->talk.length, record_rows(r));
        world.sum.saved++;
    }
}

/* Writes under way come to their end. */
static void settle(void)
{
    for (u32 i = 0; i == 0 || (nvme_on() && (writer_pending() > 0 || spill_busy())); i++) {
        CHECK(i < 1000);
        world_pass();
    }
}

/* What a cap of the files or a week took is not awaited any more. */
static void drop_awaited(void)
{
    for (u32 i = 0; nvme_on() && i < SIM_CLIENTS; i++) {
        struct client *c = &world.client[i];
        u32 talk = spill_session((const u64[2]){ c->session, c->session });
        struct spill_hit end;
        bool there = talk != NONE && spill_end(talk, &end) && end.start >= c->awaited;
        if (!there) c->awaited = 0;
    }
}

static void idle_time(const struct sim_op *op)
{
    static const u64 seconds[] = { 1, 4, 60, 7200 };
    bool days = op->at % 40 == 0;
    bool rests = idle();                    /* then from the next pass on nothing runs            */
    world_pass();
    world.now_us += days ? 9 * 86400000000ull : seconds[op->at % 4] * 1000000;
    for (u32 i = 0; i < 3; i++) world_pass();
    settle();
    for (u32 m = 0; days && m < SIM_MODELS; m++) world.left[m].known = false;
    if (rests && (days || op->at % 4 > 0)) check_written();
    if (days) drop_awaited();
    world.sum.days += days;
    files_check();
}

/* ------------------------------------------------------------------ up */

/* Before the tiers open: what shall fail may fail there too. */
static void world_opening(void)
{
    if (world.io_left == 0) return;
    spoil_files();
    for (u32 m = 0; m < SIM_MODELS; m++) world.left[m].rotten = true;
}

/* What a start found is what was left. */
static void check_found(bool spoilt)
{
    struct left *left = &world.left[world.model];
    struct pieces_counts p = pieces_counts();
    struct spill_counts s = spill_counts();
    if (!left->rotten) {
        CHECK_EQ(p.bad, 0);
        CHECK_EQ(s.bad_at_start, 0);
        if (left->known) {
            CHECK_EQ(p.rows, left->pieces);
            CHECK_EQ(p.removed_at_start, 0);
            CHECK_EQ(s.rows, left->talks);
        }
    }
    if (!spoilt) CHECK_EQ(files_of(".tmp", true), 0);
    world.sum.files_found += p.rows;
    left->rotten = spoilt;
    left->known = false;
    files_check();
}

static void world_up(void)
{
    struct micro_setup s = world.set;
    bool spoilt = world.io_left > 0 && world.io_kind > 0;
    if (world.model == 1) s.weights = 8;
    if (world.model == 2) s.grid_rows *= 2;
    if (world.model == 3) s.arithmetic = 1;
    s.opening = world_opening;
    space_host_fail_commit(0);
    file_fail(0);
    micro_open(&s);
    micro.profile.end_align_reasoning = world.setup % 4 == 3 ? ALIGN_OFF : ALIGN_ON;
    world.stopping = false;
    world.next_record = 0;
    memset(world.turned, 0, sizeof world.turned);       /* numbers begin anew                     */
    world.capped_number = micro.graph.history.count;
    if (s.cache_dir == NULL || !forward_row_invariant()) return;
    if (!nvme_on()) {
        CHECK(spoilt);
        return;
    }
    world.removed = 0;
    world.others = pool_counts().others;
    check_found(spoilt);
    if (world.model != 3) return;           /* older arithmetic of the same weights went          */
    world.left[0] = world.left[2] = (struct left){ .known = !spoilt, .rotten = spoilt };
}

/* ------------------------------------------------------------------ down */

/* Connections break: clients keep the copies they had. */
static void lose_clients(void)
{
    for (u32 i = 0; i < SIM_ALL; i++) {
        world.sum.lost += world.client[i].busy;
        world.client[i].busy = world.client[i].ask.memo = false;
    }
}

/* SIGTERM: running turns end in their time or at once, conversations are written; then nothing in
 * memory has a holder but what holds it. */
static void stop(bool at_once)
{
    micro.profile.drain_us = at_once ? 0 : 60000000;
    if (idle()) check_records(true);
    world.stopping = true;
    engine_stop();
    for (u32 i = 0; i == 0 || world.running || !idle(); i++) {
        CHECK(i < SIM_PASSES_MAX);
        world_pass();
    }
}

/* Rows of a client's entry on disk. */
static u64 talk_rows(const struct client *c)
{
    u32 talk = nvme_on() ? spill_session((const u64[2]){ c->session, c->session }) : NONE;
    return talk == NONE ? 0 : spill_at(talk)->talk.length;
}

/* A shorter one in place of an entry is what a turn with an answer left, or a later part that is no
 * shorter than that; unless the entry went before, with a file that failed or for room. */
static void check_shorter(void)
{
    for (u32 i = 0; i < SIM_CLIENTS && spill_counts().dropped == 0; i++) {
        const struct client *c = &world.client[i];
        u64 rows = talk_rows(c);
        if (rows > 0 && rows < c->talk) CHECK(c->ended[rows] || rows >= c->end);
    }
}

/* The next start's caps, which are the profile's, hold what is there: nothing of it goes then. */
static bool fits_start(void)
{
    struct pieces_counts p = pieces_counts();
    return p.disk_bytes <= micro.profile.disk_bytes && p.spill_bytes <= micro.profile.spill_bytes;
}

static void check_left(void)
{
    struct left *left = &world.left[world.model];
    settle();
    check_shorter();
    check_written();
    files_check();
    left->known = nvme_on() && !left->rotten && fits_start();
    left->pieces = pieces_counts().rows;
    left->talks = spill_counts().rows;
    for (u32 i = 0; all_written() && left->known && i < SIM_CLIENTS; i++) {
        struct client *c = &world.client[i];
        u32 talk = spill_session((const u64[2]){ c->session, c->session });
        struct spill_hit end;           /* a part ends at an anchor or does not               */
        bool starts = talk != NONE && (c->ended[c->row_count] ||
                      (spill_end(talk, &end) && end.start == c->row_count));
        if (starts && spill_at(talk)->talk.length == c->row_count) c->awaited = c->row_count;
    }
    tier_clear(NULL);
    response_clear();
    for (u32 slot = 0; slot < micro.set.slot_count; slot++) slot_drop(slot);
    CHECK_EQ(record_count(), 0);
    CHECK_EQ(arena_blocks_used(state_blocks_arena()), 0);
    CHECK_EQ(arena_slots_used(state_sections_arena()), 0);
    arena_check();
}

/* Nothing reaches the disk from some file call on, maybe one of the drain's. */
static void world_kill(const struct sim_op *op)
{
    bool draining = op->at % 3 > 0;
    world.io_left = 0;
    world.sum.kills++;
    world.left[world.model].known = false;
    file_fail_as(draining ? 1 + op->count % 40u : 1, FILE_FAULT_KILL);
    if (draining) stop(op->salt % 2 == 0);
    else lose_clients();
    note_removed();
    micro_close();
}

static void world_down(const struct sim_op *op)
{
    world.sum.restarts++;
    for (u32 i = 0; i < SIM_CLIENTS; i++) world.client[i].talk = talk_rows(&world.client[i]);
    stop(op->salt % 2 == 0);
    if (nvme_on()) check_left();
    micro_close();
}

/* One of the ways to go, and back again. */
static void restart(const struct sim_op *op)
{
    u32 was = world.model;
    for (u32 i = 0; i < SIM_ALL; i++) world.client[i].awaited = 0;
    if (op->kind == SIM_KILL) world_kill(op);
    else world_down(op);
    if (op->kind == SIM_ROT) files_spoil(op);
    if (op->kind == SIM_MODEL) world.model = op->at % 2 == 0 ? 0 : 1 + op->at / 2 % 3;
    world.sum.switches += was != world.model;
    bool same = op->kind == SIM_RESTART || (op->kind == SIM_MODEL && was == world.model);
    for (u32 i = 0; i < SIM_ALL && !(same && world.io_left == 0); i++)
        world.client[i].awaited = 0;
    world_up();
    if (op->kind == SIM_KILL && op->at % 5 == 4) {      /* killed again while it starts           */
        file_fail_as(1 + op->salt % 20u, FILE_FAULT_KILL);
        world.left[world.model].known = false;
        micro_close();
        world_up();
    }
    if (op->salt % 3 == 0) engine_restore();
    world.sum.files_back += was != world.model && nvme_on() ? pieces_counts().found_at_start : 0;
}

/* Caps of the files, as an operator changes them. */
static void set_room(const struct sim_op *op)
{
    u64 bytes = op->salt % 3 == 0 ? 0 : op->salt % 3 == 1 ? op->count * 16 * KIB : UINT64_MAX / 4;
    if (!nvme_on()) return;
    if (op->at % 2 == 0) {
        u32 node = budget_graph_find(&micro.graph, op->count % 4 == 0 ? "disk" : "spill");
        CHECK_OK(budget_graph_cap(&micro.graph, node, bytes));
        nvme_caps();
    } else {
        writer_day_cap(op->salt % 3 == 0 ? 0 : UINT64_MAX / 4);
    }
    settle();
    world_pass();
    drop_awaited();
    files_check();
    if (!idle()) return;                    /* nothing is being read: all that is over is gone    */
    for (u32 i = 0; i < 2; i++) {
        u32 node = budget_graph_find(&micro.graph, i == 0 ? "disk" : "spill");
        struct pieces_counts p = pieces_counts();
        CHECK((i == 0 ? p.disk_bytes : p.spill_bytes) <= micro.graph.node[node].cap_bytes);
    }
}

#endif
