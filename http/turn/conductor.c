/* http/turn/conductor.c - when a think block is closed, and with what. */
#include "http/turn/conductor.h"

#include "http/turn/stop.h"

u32 conductor_next(const struct conductor_state *s, const struct submit_row *row, u32 phase,
                   bool *hidden_out)
{
    bool used_up = phase == STOP_REASONING && s->reasoning >= row->think_budget;
    if (s->closing >= row->close_count || (s->closing == 0 && !used_up)) return NONE;
    *hidden_out = s->closing < row->close_hidden;
    return row->close_ids[s->closing];
}

void conductor_fed(struct conductor_state *s, u32 phase, bool forced)
{
    if (forced) s->closing++;
    else if (phase == STOP_REASONING) s->reasoning++;
}

static bool is_blank(const struct vocab *v, u32 id)
{
    if (id >= v->count || vocab_kind(v, id) != VOCAB_TEXT) return false;
    struct vocab_piece p = vocab_piece(v, id);
    for (u32 i = 0; i < p.len; i++)
        if (p.bytes[i] != ' ' && (p.bytes[i] < '\t' || p.bytes[i] > '\r')) return false;
    return true;
}

u64 conductor_resume(const struct submit_row *row, u64 at)
{
    const struct vocab *v = stop_pieces();
    for (u64 i = at; v != NULL && i < row->forced_count; i++) {
        if (row->forced[i] >= v->count || vocab_kind(v, row->forced[i]) != VOCAB_THINK_CLOSE)
            continue;
        i++;
        while (i < row->forced_count && is_blank(v, row->forced[i])) i++;
        return i;
    }
    return at;
}
