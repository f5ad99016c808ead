/* http/turn/prefill.c - PREFILL -> DECODE: one chunk of one turn, to the next line or mark. */
#include "http/turn/pass.h"

#include "arena/base/clock.h"
#include "model/forward.h"
#include "model/state.h"
#include "tiers/key.h"

static u64 rows_left(const struct turn_row *turn)
{
    return turn->prompt_count - slot_row(turn->slot)->len;
}

/* The turn with the fewest rows left; one passed over too often goes first, the oldest of them. */
static u32 choose(void)
{
    u32 best = NONE;
    bool waited = false;
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1)) {
        const struct turn_row *turn = turn_at(i);
        if (turn->state != TURN_PREFILL) continue;
        bool long_wait = turn->passed_over >= PASS_OVER_MAX;
        if (best == NONE) {
            best = i;
            waited = long_wait;
            continue;
        }
        const struct turn_row *other = turn_at(best);
        bool first = long_wait != waited ? long_wait
                   : !long_wait && rows_left(turn) != rows_left(other)
                   ? rows_left(turn) < rows_left(other) : turn->number < other->number;
        if (!first) continue;
        best = i;
        waited = long_wait;
    }
    for (u32 i = turn_next(0); i != NONE; i = turn_next(i + 1)) {
        if (turn_at(i)->state != TURN_PREFILL) continue;
        if (i == best) turn_at(i)->passed_over = 0;
        else turn_at(i)->passed_over++;
    }
    return best;
}

/* Some slot waits for its next row: chunks are short. */
static bool others_decode(const struct engine *e)
{
    for (u32 slot = 0; slot < e->slot_count; slot++) {
        u32 turn = e->slot_turn[slot];
        if (turn != NONE && turn_at(turn)->state == TURN_DECODE && !decode_waits(turn_at(turn)))
            return true;
    }
    return false;
}

static u64 chunk_end(const struct engine *e, const struct turn_row *turn, u64 pos)
{
    bool invariant = forward_row_invariant();
    u64 most = invariant && others_decode(e) ? PASS_SHORT_ROWS : forward_rows_max();
    u64 end = MIN(pos + MIN(most, forward_rows_max()), turn->prompt_count);
    end = MIN(end, key_line(pos, state_shape()->grid_rows));
    if (invariant && turn->mark_next < turn->mark_count)
        end = MIN(end, turn->mark[turn->mark_next].pos);
    return end;
}

/* On a backend whose bits depend on the rows of a batch: chunks end on the lines whatever runs
 * beside, marks shape none, and rows of other chunks are tainted: no anchor stands above them. */
static void grid_passed(struct turn_row *turn, u64 lo, u64 hi)
{
    u64 grid = state_shape()->grid_rows, most = forward_rows_max();
    bool head = false, cold = lo % grid % most == 0 && (hi % grid == 0 || hi - lo == most);
    while (turn->mark_next < turn->mark_count && turn->mark[turn->mark_next].pos <= hi) {
        const struct turn_mark *mark = &turn->mark[turn->mark_next++];
        head = head || (mark->pos == hi && mark->kind == MARK_HEAD);
    }
    if (!cold) resident_taint(turn->slot, lo);
    if (hi % grid != 0 || !resident_clean(turn->slot)) return;
    turn->lined = tier_line(turn->slot, ANCHOR_GRID, head, &turn->pool) || turn->lined;
}

/* The chunk ended at `pos`: an anchor if that is a line or a mark. */
static void line_passed(struct turn_row *turn, u64 pos)
{
    bool line = pos % state_shape()->grid_rows == 0, marked = false, head = false;
    if (turn->mark_next < turn->mark_count && turn->mark[turn->mark_next].pos == pos) {
        marked = true;
        head = turn->mark[turn->mark_next].kind == MARK_HEAD;
        turn->mark_next++;
    }
    if (!line && !marked) return;
    turn->lined = tier_line(turn->slot, marked ? ANCHOR_TURN : ANCHOR_GRID, head, &turn->pool) ||
                  turn->lined;
    if (line) load_line(turn, pos);
}

void prefill_pass(struct engine *e)
{
    u32 index = choose();
    if (index == NONE) return;
    struct turn_row *turn = turn_at(index);
    const u32 *ids = turn_ids(e, turn);
    u64 pos = slot_row(turn->slot)->len, end = chunk_end(e, turn, pos), started_us = clock_us();
    bool last = end == turn->prompt_count;
    f32 *logits = e->logits + (u64)turn->slot * e->vocab;
    ASSERT(end > pos && end <= slot_row(turn->slot)->row_cap);
    e->moved = true;
    enum err err = forward_chunk(turn->slot, ids + pos, (u32)(end - pos), last ? logits : NULL);
    if (err != OK) {
        turn_lose(e, turn, err, turn->hit.start == slot_row(turn->slot)->len);
        return;
    }
    for (u64 i = pos; i < end; i++) e->keys[i - pos] = ids[i];
    tier_rows(turn->slot, pos, e->keys, end - pos);
    if (forward_row_invariant()) line_passed(turn, end);
    else grid_passed(turn, pos, end);
    u64 spent_us = clock_us() - started_us;
    turn->prefill_us += spent_us;
    nvme_prefilled(end - pos, spent_us);
    e->counts.prefill_us += spent_us;
    e->counts.forwarded += end - pos;
    submit_at(turn->submit)->progress = end;
    if (!last) {
        struct ring_wake *wake = submit_at(turn->submit)->wake;
        if (wake != NULL) ring_wake_ring(wake);
        return;
    }
    turn->state = TURN_DECODE;
    turn_publish(turn, SUBMIT_DECODE);
    decode_sample(e, turn, logits);
}
