/* http/turn/replay.c - which ids are served: the prompt as sent, or the rows it stands for.
 *
 * Only when the ids as sent part from every record before their end are a few records tried: those
 * of the same session, and if none of them serves, those with the longest common prefix.  The
 * alignment that leaves the fewest rows to forward is served, if that is fewer than as sent. */
#include "http/turn/pass.h"

#include "model/state.h"
#include "tiers/align.h"
#include "tiers/match.h"

#include <string.h>

enum { REPLAY_MINE = 4, REPLAY_OTHERS = 4 };    /* records tried                              */

struct candidate { u32 record; u64 common, used_us; };

/* Into its place among the `cap` longest, of equal ones the newest first. */
static void offer(struct candidate *best, u32 cap, u32 *count, struct candidate c)
{
    u32 at = *count;
    while (at > 0 && (best[at - 1].common < c.common ||
                      (best[at - 1].common == c.common && best[at - 1].used_us < c.used_us))) at--;
    if (at == cap) return;
    u32 moved = MIN(*count, cap - 1) - at;
    memmove(best + at + 1, best + at, moved * sizeof *best);
    best[at] = c;
    *count = MIN(*count + 1, cap);
}

/* After tier_find of this prompt: records with generations whose rows begin like it; the first
 * *mine_out are of its session. */
static u32 candidates(const struct tier_prompt *prompt, struct candidate *out, u32 *mine_out)
{
    struct candidate mine[REPLAY_MINE], others[REPLAY_OTHERS];
    u32 mine_count = 0, other_count = 0;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (record_generations(r)->count == 0) continue;
        struct candidate c = { r, match_common(r, prompt), record_at(r)->used_us };
        if (c.common == 0) continue;
        if (memcmp(record_at(r)->session, prompt->session, sizeof prompt->session) == 0)
            offer(mine, REPLAY_MINE, &mine_count, c);
        else
            offer(others, REPLAY_OTHERS, &other_count, c);
    }
    memcpy(out, mine, mine_count * sizeof *out);
    memcpy(out + mine_count, others, other_count * sizeof *out);
    *mine_out = mine_count;
    return mine_count + other_count;
}

/* The key ids of a record's rows; returns how many. */
static u64 copy_rows(u32 record, u64 cap, u64 *out)
{
    u32 count, block_rows = state_shape()->block_rows;
    u64 rows;
    const block_id *list = record_blocks(record, &count, &rows);
    rows = MIN(rows, cap);
    for (u64 pos = 0; pos < rows; pos += block_rows)
        memcpy(out + pos, arena_blocks_label(state_blocks_arena(), list[pos / block_rows]),
               MIN(rows - pos, block_rows) * sizeof *out);
    return rows;
}

/* What is served when the prompt stands for rows of `record`: into e->replayed.  Its count, or 0
 * when nothing changes; *no_room when it would not fit. */
static u64 align(struct engine *e, const struct turn_row *turn, const struct tier_prompt *prompt,
                 u32 record, struct turn_mark *marks, struct replay *out)
{
    const struct submit_row *row = submit_at(turn->submit);
    u64 pos[TURN_MARK_CAP];
    u32 mark_count = MIN(row->mark_count, (u32)TURN_MARK_CAP);
    for (u32 i = 0; i < mark_count; i++) pos[i] = row->mark[i].pos;
    struct align_result result;
    align_replay(&(struct align_setup){
        .vocab = stop_pieces(), .reasoning = e->set.profile->end_align_reasoning == ALIGN_ON,
    }, &(struct align_prompt){
        .key = prompt->keys, .count = prompt->count, .call = row->calls,
        .call_count = row->call_count, .mark = pos, .mark_count = mark_count,
    }, &(struct align_record){
        .key = e->replayed, .count = copy_rows(record, e->ctx, e->replayed),
        .list = record_generations(record),
    }, pos, &result);
    if (!result.changed) return 0;
    if (FAULT(FAULT_SPAN_TWICE) && result.spans > 0) {
        e->replayed[result.rows] = e->replayed[result.rows - 1];
        result.rows++;
    }
    *out = (struct replay){ .aligned = true, .sent = result.sent, .rows = result.rows };
    u64 count = result.rows + prompt->count - result.sent;
    if (count + e->set.profile->reserve_tokens > e->ctx) {
        out->no_room = true;
        return 0;
    }
    memcpy(e->replayed + result.rows, prompt->keys + result.sent,
           (prompt->count - result.sent) * sizeof *e->replayed);
    for (u32 i = 0; i < mark_count; i++) {
        marks[i] = row->mark[i];
        marks[i].pos = pos[i];
    }
    return count;
}

/* The best record to align with, or NONE; *hit and *count are of the best found so far. */
static u32 choose(struct engine *e, struct turn_row *turn, const struct tier_prompt *prompt,
                  struct tier_hit *hit)
{
    struct candidate list[REPLAY_MINE + REPLAY_OTHERS];
    struct turn_mark marks[TURN_MARK_CAP];
    u64 left = prompt->count - hit->start;
    u32 best = NONE, mine, count_all = candidates(prompt, list, &mine);
    for (u32 i = 0; i < count_all; i++) {
        struct replay replay = { 0 };
        if (best != NONE && i >= mine) break;           /* its own answers before another's */
        u64 count = align(e, turn, prompt, list[i].record, marks, &replay);
        turn->replay.no_room = turn->replay.no_room || replay.no_room;
        if (count == 0) continue;
        struct tier_prompt served = *prompt;
        struct tier_hit here;
        served.keys = e->replayed;
        served.count = count;
        tier_find(&served, &here);
        if (count - here.start >= left) continue;
        left = count - here.start;
        *hit = here;
        best = list[i].record;
    }
    return best;
}

void replay_prompt(struct engine *e, struct turn_row *turn, struct tier_prompt *prompt,
                   struct tier_hit *hit)
{
    const struct submit_row *row = submit_at(turn->submit);
    struct turn_mark marks[TURN_MARK_CAP];
    prompt->keys = e->keys;
    prompt->count = row->id_count;
    for (u64 i = 0; i < prompt->count; i++) e->keys[i] = row->ids[i];
    turn->replay = (struct replay){ 0 };
    tier_find(prompt, hit);
    bool goes_on = hit->source == TIER_END && hit->part_pos == UINT64_MAX;
    bool parted = hit->common < prompt->count && hit->common > 0 && !goes_on;
    u32 record = NONE;
    if (e->set.profile->end_align && parted) record = choose(e, turn, prompt, hit);
    if (record == NONE) {
        turn_serve(e, turn, prompt->count, row->mark, row->mark_count);
        if (turn->replay.no_room) hit->reason = TIER_CONTEXT;
        return;
    }
    u64 count = align(e, turn, prompt, record, marks, &turn->replay);
    ASSERT(count > 0);
    memcpy(e->keys, e->replayed, count * sizeof *e->keys);
    end_extend(&turn->replay.kept, record_generations(record), turn->replay.rows);
    prompt->count = count;
    turn_serve(e, turn, count, marks, row->mark_count);
}

/* Rows above the start are forwarded again, and a fork took only what ends below it. */
void replay_keep(struct turn_row *turn)
{
    u32 record = resident_record(turn->slot);
    if (turn->replay.aligned)
        end_extend(record_generations(record), &turn->replay.kept, turn->replay.rows);
}
