/* http/turn/conductor.c - when a think block is noted and closed, and with what. */
#include "http/turn/conductor.h"

#include "http/turn/stop.h"

enum conductor_kind conductor_next(const struct conductor_state *s, const struct submit_row *row,
                                   u32 phase, u32 *id_out)
{
    bool used_up = phase == STOP_REASONING && s->reasoning >= row->think_budget;
    bool due = phase == STOP_REASONING && s->reasoning >= row->note_at && !used_up;
    if (s->closing == 0 && s->noted < row->note_count && (s->noted > 0 || due)) {
        *id_out = row->note_ids[s->noted];
        return CONDUCTOR_NOTE;
    }
    if (s->closing >= row->close_count || (s->closing == 0 && !used_up)) return CONDUCTOR_MODEL;
    *id_out = row->close_ids[s->closing];
    return s->closing < row->close_hidden ? CONDUCTOR_PHRASE : CONDUCTOR_CLOSE;
}

void conductor_fed(struct conductor_state *s, u32 phase, enum conductor_kind kind)
{
    if (kind == CONDUCTOR_NOTE) s->noted++;
    else if (kind != CONDUCTOR_MODEL) s->closing++;
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
