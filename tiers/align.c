/* tiers/align.c - one walk over prompt and rows: ids outside generations, tags and bytes inside. */
#include "tiers/align.h"

#include <string.h>

enum { ALIGN_TAIL = 16 };       /* ids between the last tag of a prompt and its generation, most  */

struct at { u64 id; u32 byte; };        /* a place in a run of ids, inside their pieces           */

struct walk {
    const struct align_setup  *setup;
    const struct align_prompt *prompt;
    const struct align_record *record;
    u64  *mark_out;
    u32   mark_next;
    u64   i, j;                 /* ids of the prompt; rows of the record                          */
    u64   closed;               /* ids of the prompt below stand in turns it closes               */
    u32   generation;           /* row of tiers/end that comes next or is walked, 0: none         */
    u64   zone, open;           /* where its matching begins; its prompt's <think>, or U64_MAX    */
    u32   span, memo;           /* next hidden span, next recorded call, 0: none                  */
    u32   call;                 /* next call of the prompt                                        */
    bool  in_call;
    bool  thinking;             /* inside the block that the generation's prompt opened           */
    struct align_result *out;
};

static enum vocab_kind kind_of(const struct walk *w, u64 key)
{
    const struct vocab *v = w->setup->vocab;
    if (key >= v->count) return VOCAB_SPECIAL;          /* rows of an image */
    enum vocab_kind kind = vocab_kind(v, (u32)key);
    return kind == VOCAB_TEXT && vocab_piece(v, (u32)key).len == 0 ? VOCAB_SPECIAL : kind;
}

static bool is_text(const struct walk *w, u64 key) { return kind_of(w, key) == VOCAB_TEXT; }

/* The prompt's ids [0, i) stand as rows [0, j): remembered, marks in between are moved. */
static void sync(struct walk *w, u64 i, u64 j)
{
    const struct align_prompt *p = w->prompt;
    for (; w->mark_next < p->mark_count && p->mark[w->mark_next] <= i; w->mark_next++)
        w->mark_out[w->mark_next] = p->mark[w->mark_next] == i ? j : w->out->rows;
    w->out->sent = i;
    w->out->rows = j;
}

/* ------------------------------------------------------------------ the next generation */

static u32 next_of(u32 row, enum end_kind kind)
{
    while (row != 0 && end_at(row)->kind != END_GENERATION) {
        if (end_at(row)->kind == kind) return row;
        row = end_next(row);
    }
    return 0;
}

/* The first generation from `row` on that begins at or after w->j; its matching begins behind the
 * last tag before it, so that `<think>\n` of a prompt meets `<think>\n\n`. */
static void aim(struct walk *w, u32 row)
{
    const u64 *key = w->record->key;
    while (row != 0 && (end_at(row)->kind != END_GENERATION || end_at(row)->lo < w->j))
        row = end_next(row);
    w->generation = row;
    w->zone = w->open = UINT64_MAX;
    if (row == 0 || end_at(row)->lo > w->record->count) return;
    u64 lo = end_at(row)->lo, at = lo;
    while (at > w->j && lo - at < ALIGN_TAIL && is_text(w, key[at - 1])) at--;
    bool tag = at > w->j && !is_text(w, key[at - 1]);
    w->zone = tag ? at : lo;
    w->span = next_of(end_next(row), END_SPAN);
    w->memo = next_of(end_next(row), END_CALL);
    w->in_call = false;
    for (u64 k = at; tag && k > w->j && at - k < ALIGN_TAIL && w->open == UINT64_MAX; k--) {
        if (kind_of(w, key[k - 1]) == VOCAB_THINK_OPEN) w->open = k - 1;
        else if (!is_text(w, key[k - 1]) && kind_of(w, key[k - 1]) != VOCAB_THINK_CLOSE) return;
    }
}

static const struct end_row *generation(const struct walk *w) { return end_at(w->generation); }

/* ------------------------------------------------------------------ text between tags */

static char byte_at(const struct walk *w, const u64 *key, struct at at)
{
    return vocab_piece(w->setup->vocab, (u32)key[at.id]).bytes[at.byte];
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void step(const struct walk *w, const u64 *key, struct at *at)
{
    if (++at->byte < vocab_piece(w->setup->vocab, (u32)key[at->id]).len) return;
    at->id++;
    at->byte = 0;
}

/* Behind the hidden span that begins at or holds row `j`, or 0. */
static u64 hidden_hi(struct walk *w, u64 j)
{
    while (w->span != 0 && end_at(w->span)->hi <= j)
        w->span = next_of(end_next(w->span), END_SPAN);
    return w->span != 0 && end_at(w->span)->lo <= j ? end_at(w->span)->hi : 0;
}

static bool prompt_stops(const struct walk *w, struct at at)
{
    return at.id >= w->prompt->count || !is_text(w, w->prompt->key[at.id]);
}

static bool rows_stop(const struct walk *w, struct at at)
{
    return at.id >= w->record->count || !is_text(w, w->record->key[at.id]);
}

/* Over the rows' blanks and hidden ids; true when some were hidden. */
static bool pass_rows(struct walk *w, struct at *at)
{
    bool hidden = false;
    for (;;) {
        u64 hi = at->byte == 0 ? hidden_hi(w, at->id) : 0;
        if (hi != 0) {
            at->id = MIN(hi, w->record->count);
            w->out->spans++;
            hidden = true;
        } else if (rows_stop(w, *at) || !is_blank(byte_at(w, w->record->key, *at))) {
            return hidden;
        } else {
            step(w, w->record->key, at);
        }
    }
}

/* The rows go on with a call inside reasoning that was never closed; the parser ended it there, so
 * the client's copy has a </think> that the template wrote. */
static bool ends_in_call(const struct walk *w, u64 sent, u64 row)
{
    return w->thinking && generation(w)->think_hi == 0 && row < w->record->count &&
           kind_of(w, w->prompt->key[sent]) == VOCAB_THINK_CLOSE &&
           kind_of(w, w->record->key[row]) == VOCAB_CALL_OPEN;
}

/* Both runs end here, at a tag beside which blanks do not count: both have it, or the rows end with
 * the generation. */
static bool soft_end(const struct walk *w, struct at sent, struct at row)
{
    if (w->in_call || sent.id >= w->prompt->count || row.id <= generation(w)->lo ||
        row.id > generation(w)->hi) return false;
    enum vocab_kind kind = kind_of(w, w->prompt->key[sent.id]);
    if (kind != VOCAB_THINK_CLOSE && kind != VOCAB_CALL_OPEN && kind != VOCAB_TURN_END)
        return false;
    return row.id == w->record->count || w->record->key[row.id] == w->prompt->key[sent.id] ||
           ends_in_call(w, sent.id, row.id);
}

/* The same bytes from both, to *sent_end and *row_end; false where they part. */
static bool same_bytes(struct walk *w, struct at *sent, struct at *row, struct at sent_end,
                       struct at row_end)
{
    for (;;) {
        bool over = sent->id == sent_end.id && sent->byte == sent_end.byte;
        bool done = row->id == row_end.id && row->byte == row_end.byte;
        if (over || done) return over && done;
        if (byte_at(w, w->prompt->key, *sent) != byte_at(w, w->record->key, *row)) return false;
        step(w, w->prompt->key, sent);
        step(w, w->record->key, row);
        if (sent->byte == 0 && row->byte == 0) sync(w, sent->id, row->id);
    }
}

/* Over ids that are the same in both, none of them hidden. */
static void same_ids(struct walk *w, struct at *sent, struct at *row)
{
    const u64 *key = w->prompt->key, *rows = w->record->key;
    while (sent->id < w->prompt->count && row->id < w->record->count &&
           key[sent->id] == rows[row->id] && is_text(w, key[sent->id]) &&
           hidden_hi(w, row->id) == 0)
        sync(w, ++sent->id, ++row->id);
}

/* From (i, j) to the next tag of both, by bytes; `soft`: blanks at the start do not count. */
static bool match_text(struct walk *w, bool soft)
{
    struct at sent = { w->i, 0 }, row = { w->j, 0 };
    for (;;) {
        if (!soft && sent.byte == 0 && row.byte == 0) same_ids(w, &sent, &row);
        struct at sent_end = sent, row_end = row;
        while (!prompt_stops(w, sent_end) && is_blank(byte_at(w, w->prompt->key, sent_end)))
            step(w, w->prompt->key, &sent_end);
        soft = pass_rows(w, &row_end) || soft;
        bool sent_stops = prompt_stops(w, sent_end), row_stops = rows_stop(w, row_end);
        soft = soft && row_end.id < w->record->count;   /* what ends in blanks may go on in them  */
        if (soft || (sent_stops && row_stops && soft_end(w, sent_end, row_end))) {
            sent = sent_end;
            row = row_end;
            /* other blanks count only with what matches behind them, or when the rows end */
            if (row.id == w->record->count) sync(w, sent.id, row.id);
        } else if (!same_bytes(w, &sent, &row, sent_end, row_end)) {
            return false;
        }
        soft = false;
        w->i = sent.id;
        w->j = row.id;
        if (sent_stops || row_stops) return sent_stops && row_stops;
        sent_end = sent;
        row_end = row;
        step(w, w->prompt->key, &sent_end);
        step(w, w->record->key, &row_end);
        if (!same_bytes(w, &sent, &row, sent_end, row_end)) return false;
    }
}

/* ------------------------------------------------------------------ tags */

/* The prompt has an empty think block where the rows have the reasoning: behind both. */
static bool take_reasoning(struct walk *w)
{
    const struct align_prompt *p = w->prompt;
    u64 think_hi = generation(w)->think_hi;
    struct at at = { w->i, 0 };
    enum vocab_kind last = VOCAB_THINK_CLOSE;           /* of the id before think_hi */
    if (think_hi == 0 && w->memo != 0) {                /* it ended in a call */
        think_hi = end_at(w->memo)->lo + 1;
        last = VOCAB_CALL_OPEN;
    }
    if (!w->setup->reasoning || think_hi <= w->j || think_hi > w->record->count) return false;
    while (!prompt_stops(w, at) && is_blank(byte_at(w, p->key, at))) step(w, p->key, &at);
    if (at.byte != 0 || at.id >= p->count || kind_of(w, p->key[at.id]) != VOCAB_THINK_CLOSE ||
        kind_of(w, w->record->key[think_hi - 1]) != last) return false;
    w->i = at.id + 1;
    w->j = think_hi - (last == VOCAB_CALL_OPEN);
    w->out->reasonings++;
    if (last == VOCAB_THINK_CLOSE) sync(w, w->i, w->j);
    return true;
}

/* The prompt has no think block at all where the rows have one (3.5, 3.6): behind the rows'. */
static bool pass_block(struct walk *w)
{
    bool closed = kind_of(w, w->record->key[w->zone - 1]) == VOCAB_THINK_CLOSE;
    u64 behind = closed ? w->zone : generation(w)->think_hi;
    if (!w->setup->reasoning || behind <= w->j || behind > w->record->count ||
        kind_of(w, w->record->key[behind - 1]) != VOCAB_THINK_CLOSE) return false;
    w->j = behind;
    w->out->reasonings += behind != w->zone;
    sync(w, w->i, w->j);
    return true;
}

/* At <tool_call> of both: the memo knows the call by its id and arguments: behind both. */
static bool take_call(struct walk *w)
{
    const struct align_prompt *p = w->prompt;
    while (w->call < p->call_count && p->call[w->call].lo < w->i) w->call++;
    while (w->memo != 0 && end_at(w->memo)->lo < w->j)
        w->memo = next_of(end_next(w->memo), END_CALL);
    if (w->call == p->call_count || w->memo == 0) return false;
    const struct call_row *call = &p->call[w->call];
    const struct end_row *memo = end_at(w->memo);
    if (call->lo != w->i || memo->lo != w->j || call->id_hash != memo->id_hash ||
        memcmp(call->value_hash, memo->value_hash, sizeof memo->value_hash) != 0 ||
        call->hi > w->closed || memo->hi > w->record->count) return false;
    w->out->calls++;
    w->i = call->hi;
    w->j = memo->hi;
    sync(w, w->i, w->j);
    return true;
}

/* From behind tag `tag` to the generation's end; true: both are at a tag there. */
static bool match_generation(struct walk *w, enum vocab_kind tag)
{
    const struct align_prompt *p = w->prompt;
    if (tag == VOCAB_THINK_OPEN && take_reasoning(w)) tag = VOCAB_THINK_CLOSE;
    w->thinking = tag == VOCAB_THINK_OPEN;
    while (w->i < w->closed) {
        bool beside = tag == VOCAB_THINK_OPEN || tag == VOCAB_THINK_CLOSE ||
                      tag == VOCAB_CALL_CLOSE;
        if (!match_text(w, beside && !w->in_call)) return false;
        if (w->i >= p->count || w->j >= w->record->count) return false;
        if (w->j >= generation(w)->hi) return true;
        if (ends_in_call(w, w->i, w->j)) {
            w->i++;
            w->thinking = false;
            tag = VOCAB_THINK_CLOSE;
            continue;
        }
        if (p->key[w->i] != w->record->key[w->j]) return false;
        tag = kind_of(w, p->key[w->i]);
        if (tag == VOCAB_THINK_CLOSE || tag == VOCAB_CALL_OPEN) w->thinking = false;
        if (tag == VOCAB_CALL_OPEN && !w->in_call && take_call(w)) {
            tag = VOCAB_CALL_CLOSE;
            continue;
        }
        if (tag == VOCAB_CALL_OPEN || tag == VOCAB_CALL_CLOSE) w->in_call = tag == VOCAB_CALL_OPEN;
        sync(w, ++w->i, ++w->j);
    }
    return true;
}

/* ------------------------------------------------------------------ all of it */

static void walk(struct walk *w)
{
    const u64 *sent = w->prompt->key, *rows = w->record->key;
    while (w->i < w->prompt->count && w->j < w->record->count) {
        bool fuzzy = w->i < w->closed && w->generation != 0;
        bool at_zone = fuzzy && w->j == w->zone;
        if (fuzzy && w->j == w->open && sent[w->i] != rows[w->j]) at_zone = pass_block(w);
        if (at_zone) {
            enum vocab_kind tag = w->j > 0 ? kind_of(w, rows[w->j - 1]) : VOCAB_SPECIAL;
            if (!match_generation(w, tag)) return;
            aim(w, end_next(w->generation));
            continue;
        }
        if (sent[w->i] != rows[w->j]) return;
        sync(w, ++w->i, ++w->j);
    }
    if (w->generation != 0 && w->j == w->zone && w->i < w->closed)
        (void)match_generation(w, w->j > 0 ? kind_of(w, rows[w->j - 1]) : VOCAB_SPECIAL);
}

void align_replay(const struct align_setup *setup, const struct align_prompt *prompt,
                  const struct align_record *record, u64 *mark_out, struct align_result *out)
{
    struct walk w = { .setup = setup, .prompt = prompt, .record = record, .mark_out = mark_out,
                      .out = out };
    *out = (struct align_result){ 0 };
    if (setup->vocab != NULL) {
        w.closed = prompt->count;
        while (w.closed > 0 && kind_of(&w, prompt->key[w.closed - 1]) != VOCAB_TURN_END) w.closed--;
        if (w.closed > 0) w.closed--;
        aim(&w, end_first(record->list));
        walk(&w);
    }
    for (; w.mark_next < prompt->mark_count; w.mark_next++)
        mark_out[w.mark_next] = prompt->mark[w.mark_next] - out->sent + out->rows;
    out->changed = out->sent != out->rows ||
                   memcmp(prompt->key, record->key, out->sent * sizeof *prompt->key) != 0;
}
