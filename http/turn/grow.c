/* http/turn/grow.c - DECODE: a slot with under a block of rows left gets more, or its turn ends. */
#include "http/turn/pass.h"

#include "model/state.h"

struct grow_owner { u32 slot; u64 rows_max; };

static enum err grow_commit(void *owner, u64 bytes)
{
    const struct grow_owner *g = owner;
    u64 blocks = bytes / arena_row(state_blocks_arena())->unit_bytes;
    u64 rows = slot_row(g->slot)->row_cap + blocks * state_shape()->block_rows;
    TRY(slot_grow(g->slot, MIN(rows, g->rows_max)));
    tier_settle();
    return OK;
}

/* At least one block more, at most reserve_tokens rows.  ERR_MEMORY: refused, nothing changed. */
static enum err ask_gate(const struct engine *e, const struct turn_row *turn,
                         struct budget_plan *plan)
{
    const struct slot_row *row = slot_row(turn->slot);
    u64 block_bytes = arena_row(state_blocks_arena())->unit_bytes, bytes, sections;
    u64 more = MAX(e->set.profile->reserve_tokens, state_shape()->block_rows);
    struct grow_owner owner = { turn->slot, MIN(turn->row_limit, row->row_cap + more) };
    if (!wants_gross(turn->slot, owner.rows_max))
        owner.rows_max = row->row_cap + state_shape()->block_rows;
    if (!wants_gross(turn->slot, owner.rows_max))
        return fail(ERR_MEMORY, "memory: the stash has no room for more rows of a guest");
    slot_cost(turn->slot, owner.rows_max, &bytes, &sections);
    struct budget_want want = {
        .node = aside_node(resident_holder(turn->slot)), .arena = state_blocks_arena(),
        .must = true,
        .min_bytes = MIN(block_bytes, bytes), .max_bytes = bytes, .unit_bytes = block_bytes,
        .commit = grow_commit, .owner = &owner,
    };
    return wants_gate(e, GATE_GROW, turn->number, &want, 1, NULL, plan);
}

/* The youngest side turn that decodes ends so that slot 0 can go on; false when there is none. */
static bool end_side_turn(struct engine *e)
{
    u32 youngest = NONE;
    for (u32 slot = 1; slot < e->slot_count; slot++) {
        u32 turn = e->slot_turn[slot];
        if (turn == NONE || turn_at(turn)->state != TURN_DECODE) continue;
        if (youngest == NONE || turn_at(turn)->number > turn_at(youngest)->number) youngest = turn;
    }
    if (youngest == NONE) return false;
    turn_at(youngest)->by_memory = true;
    e->counts.by_memory++;
    turn_end(e, turn_at(youngest), FINISH_LENGTH);
    return true;
}

static void grow(struct engine *e, struct turn_row *turn)
{
    static struct budget_plan plan;
    enum err err = ask_gate(e, turn, &plan);
    e->check = true;
    /* Each round gives one idle record up, so it ends. */
    while (err == ERR_MEMORY && wants_relieve(e, turn->slot) > 0)
        err = ask_gate(e, turn, &plan);
    if (err == ERR_MEMORY && nvme_drop_tail()) err = ask_gate(e, turn, &plan);  /* never waits */
    if (err == OK || slot_row(turn->slot)->len < slot_row(turn->slot)->row_cap) return;
    if (err == ERR_MEMORY && turn->slot == 0 && end_side_turn(e)) return;
    turn->by_memory = true;
    e->counts.by_memory++;
    turn_end(e, turn, FINISH_LENGTH);
}

void grow_pass(struct engine *e)
{
    for (u32 slot = 0; slot < e->slot_count; slot++) {
        if (e->slot_turn[slot] == NONE) continue;
        struct turn_row *turn = turn_at(e->slot_turn[slot]);
        const struct slot_row *row = slot_row(slot);
        if (turn->state != TURN_DECODE || row->row_cap >= turn->row_limit) continue;
        if (row->row_cap - row->len >= MAX(state_shape()->block_rows, drafters_most() + 1))
            continue;
        /* Refused once: asked again only when the next row has no place. */
        if (turn->grow_refused && row->len < row->row_cap) continue;
        u64 before = row->row_cap;
        grow(e, turn);
        turn->grow_refused = row->row_cap == before;
    }
}
