/* http/turn/stop.c - stop strings as bytes over the piece table. */
#include "http/turn/stop.h"

#include <string.h>

static const struct vocab *pieces;

void stop_vocab(const struct vocab *vocab) { pieces = vocab; }
const struct vocab *stop_pieces(void) { return pieces; }

void stop_start(struct stop_state *s, const struct submit_row *row)
{
    memset(s, 0, sizeof *s);
    s->phase = row->think_open ? STOP_REASONING : STOP_CONTENT;
}

/* Moves the phase on for a tag; true when the id is one and has no content bytes of its own. */
static bool tag(struct stop_state *s, const struct submit_row *row, enum vocab_kind kind)
{
    u32 before = s->phase;
    switch (kind) {
    case VOCAB_TEXT: return false;
    case VOCAB_THINK_OPEN: if (before == STOP_CONTENT) s->phase = STOP_REASONING; break;
    case VOCAB_THINK_CLOSE: if (before == STOP_REASONING) s->phase = STOP_CONTENT; break;
    case VOCAB_CALL_OPEN:
        if (!row->tools) return false;
        s->phase = STOP_CALL;               /* inside reasoning it ends that too (chat.md 8) */
        break;
    case VOCAB_CALL_CLOSE:
        if (!row->tools) return false;
        if (before == STOP_CALL) s->phase = STOP_CONTENT;
        break;
    case VOCAB_SPECIAL: case VOCAB_TURN_END: case VOCAB_PADDING: break;
    }
    if (s->phase != before) s->tail_bytes = 0;
    return true;
}

/* Length of the longest stop string that the tail ends with, or 0. */
static u32 complete(const struct stop_state *s, const struct submit_row *row)
{
    u32 longest = 0;
    for (u32 i = 0; i < row->stop_count; i++) {
        u32 n = row->stop_bytes[i];
        if (n > longest && n <= s->tail_bytes &&
            memcmp(s->tail + s->tail_bytes - n, row->stop[i], n) == 0) longest = n;
    }
    return longest;
}

/* Keeps of the tail only its longest end that is a proper beginning of a stop string: any later
 * match begins inside it. */
static void trim(struct stop_state *s, const struct submit_row *row)
{
    for (u32 keep = s->tail_bytes; keep > 0; keep--) {
        const u8 *end = s->tail + s->tail_bytes - keep;
        for (u32 i = 0; i < row->stop_count; i++) {
            if (row->stop_bytes[i] <= keep || memcmp(end, row->stop[i], keep) != 0) continue;
            memmove(s->tail, end, keep);
            s->tail_bytes = keep;
            return;
        }
    }
    s->tail_bytes = 0;
}

bool stop_feed(struct stop_state *s, const struct submit_row *row, u32 id, u32 *cut_out,
               u32 *back_out)
{
    if (pieces == NULL || id >= pieces->count) return false;
    if (tag(s, row, vocab_kind(pieces, id))) return false;
    if (s->phase != STOP_CONTENT || row->stop_count == 0) return false;
    struct vocab_piece piece = vocab_piece(pieces, id);
    for (u32 i = 0; i < piece.len; i++) {
        ASSERT(s->tail_bytes < TURN_STOP_BYTES);    /* kept: shorter than some stop string */
        s->tail[s->tail_bytes++] = (u8)piece.bytes[i];
        u32 n = complete(s, row);
        if (n > 0) {
            *cut_out = i + 1 > n ? i + 1 - n : 0;
            *back_out = n > i + 1 ? n - (i + 1) : 0;
            return true;
        }
        trim(s, row);
    }
    return false;
}

u32 stop_held(const struct stop_state *s) { return s->tail_bytes; }
