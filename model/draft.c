/* model/draft.c - the draft head's rows behind a batch, and the greedy chain of its proposals.
 *
 * A committed row needs no more of the head than its K and V: one joined row, one norm, two
 * products.  The rest of the head's layer runs for proposals alone. */
#include "model/draft.h"

#include "arena/arena.h"
#include "model/inside.h"
#include "model/slot.h"
#include "model/weights.h"

static struct {
    const struct model_shape *shape;
    const struct ops *ops;
    u32 layer, candidates;
} room;

void draft_open(const struct model_shape *shape, const struct ops *ops)
{
    room.shape = shape;
    room.ops = ops;
    room.layer = family_draft_layer(shape);
    room.candidates = shape->vocab;
}

void draft_close(void) { room.shape = NULL; }

bool draft_present(void) { return room.shape != NULL && room.shape->draft; }

void draft_candidates(u32 candidates) { room.candidates = MIN(candidates, room.shape->vocab); }

static u8 *h_last(const struct ops_span *span)
{
    return span->sections + state_shape()->section[family_section_draft(room.shape)].offset_bytes;
}

static u8 *act_row(u8 *buffer, u32 row)
{
    return buffer + (u64)row * room.shape->hidden * room.ops->act_bytes;
}

/* Embedding rows in e and hidden rows in u to the head's x = fc [N1(e) ; N1(u)]. */
static enum err join(struct forward_batch *b)
{
    const struct ops *ops = room.ops;
    u32 h = room.shape->hidden;
    TRY(ops->rms_norm(b->at[BUFFER_EMBED], weights_vector(room.layer, ROLE_DRAFT_E_NORM),
                      b->at[BUFFER_O], b->rows, h, room.shape->eps));
    TRY(ops->rms_norm(b->at[BUFFER_U], weights_vector(room.layer, ROLE_DRAFT_H_NORM),
                      b->at[BUFFER_EMBED], b->rows, h, room.shape->eps));
    TRY(ops->join(b->at[BUFFER_O], b->at[BUFFER_EMBED], b->at[BUFFER_JOIN], b->rows, h));
    return forward_product(b, room.layer, ROLE_DRAFT_JOIN, BUFFER_JOIN, BUFFER_X);
}

static enum err embed(const u32 *ids, u32 count, u8 *to)
{
    enum ops_source type;
    const u8 *table = weights_table(&type);
    return room.ops->embed(table, type, ids, count, room.shape->hidden, to);
}

/* ---------------------------------------------------------------- rows behind a batch */

/* Row 0 of both views is zero. */
static enum err zero_row(const struct ops_span *span)
{
    const struct space_ops *space = space_ops(arena_row(state_blocks_arena())->space);
    for (u32 v = FAMILY_VIEW_DRAFT_K; v <= FAMILY_VIEW_DRAFT_V; v++) {
        const struct state_view *view = &state_shape()->view[v];
        TRY(space->fill(span->block_addr[0] + view->offset_bytes, 0, view->row_bytes, 0));
    }
    return OK;
}

/* One span of the trunk's batch: its draft rows' tokens to e and hiddens to u of `b` from its row
 * b->rows on, then its last hidden to the section, or all of them to what a verification keeps.  A
 * span at position 0 has one row less. */
static enum err span_rows(const struct forward_batch *trunk, u32 i, struct forward_batch *b)
{
    const f32 *scale = weights_vector(room.shape->layer_count, ROLE_NORM);
    const struct ops *ops = room.ops;
    const struct ops_span *from = &trunk->span[i];
    u32 h = room.shape->hidden, count = from->hi - from->lo, skip = from->pos == 0;
    u32 lo = b->rows, rows = count - skip;
    if (skip) TRY(zero_row(from));
    else TRY(ops->load(h_last(from), act_row(b->at[BUFFER_U], lo), h));
    TRY(ops->rms_norm(act_row(trunk->at[BUFFER_X], from->lo), scale,
                      act_row(b->at[BUFFER_U], lo + 1 - skip), count - 1, h, room.shape->eps));
    u32 last = from->hold ? from->lo : from->hi - 1;    /* the section of one that holds stays */
    u8 *to = from->hold ? act_row(trunk->hidden, last) : b->at[BUFFER_O];
    TRY(ops->rms_norm(act_row(trunk->at[BUFFER_X], last), scale, to, from->hi - last, h,
                      room.shape->eps));
    if (!from->hold) TRY(ops->store(to, h_last(from), h));
    if (rows == 0) return OK;
    TRY(embed(trunk->given[i].ids + skip, rows, act_row(b->at[BUFFER_EMBED], lo)));
    struct ops_span *span = &b->span[b->span_count++];
    *span = *from;
    span->lo = lo;
    span->hi = b->rows = lo + rows;
    span->pos += skip;
    return OK;
}

enum err draft_rows(const struct forward_batch *trunk)
{
    struct forward_batch b = *trunk;
    u64 mark = forward_mark();
    b.span_count = b.rows = 0;
    TRY(forward_push(&b, STAGE_JOIN));
    for (u32 i = 0; i < trunk->span_count; i++) TRY(span_rows(trunk, i, &b));
    if (b.rows > 0) TRY(join(&b));
    forward_rewind(mark);
    if (b.rows == 0) return OK;
    TRY(room.ops->rms_norm(b.at[BUFFER_X], weights_vector(room.layer, ROLE_IN_NORM),
                           b.at[BUFFER_U], b.rows, room.shape->hidden, room.shape->eps));
    TRY(forward_push(&b, STAGE_ATTN));
    struct ops_product k = { .w = weights_matrix(room.layer, ROLE_K), .x = b.at[BUFFER_U],
                             .y = b.at[BUFFER_K], .rows = b.rows, .work = b.at[BUFFER_WORK] };
    TRY(room.ops->product(&k));         /* no Q went before it: x is read for the first time  */
    TRY(forward_product(&b, room.layer, ROLE_V, BUFFER_U, BUFFER_V));
    struct ops_attn_rows rows = forward_attn_rows(&b, room.layer);
    TRY(room.ops->attn_rows(&rows));
    forward_rewind(mark);
    return OK;
}

enum err draft_accept(const struct ops_span *span, u8 *kept, u32 row)
{
    return room.ops->store(act_row(kept, row), h_last(span), room.shape->hidden);
}

/* ---------------------------------------------------------------- proposals */

/* One step of every chain of the batch: tokens `ids`, hiddens in u; logits to their buffer, which
 * is pushed.  The head's own output stays in u, which the next step takes for the hiddens. */
static enum err step_logits(struct forward_batch *b, const u32 *ids)
{
    const struct ops *ops = room.ops;
    u64 mark = forward_mark();
    TRY(forward_push(b, STAGE_JOIN));
    TRY(embed(ids, b->rows, b->at[BUFFER_EMBED]));
    TRY(join(b));
    forward_rewind(mark);
    TRY(forward_half(b, room.layer, ROLE_IN_NORM, forward_attention));
    TRY(forward_half(b, room.layer, ROLE_POST_NORM, forward_mlp));
    TRY(ops->rms_norm(b->at[BUFFER_X], weights_vector(room.layer, ROLE_NORM), b->at[BUFFER_U],
                      b->rows, room.shape->hidden, room.shape->eps));
    TRY(forward_push(b, STAGE_LOGITS));
    struct ops_product p = { .w = weights_matrix(room.shape->layer_count, ROLE_HEAD),
                             .x = b->at[BUFFER_U], .y = b->at[BUFFER_LOGITS], .rows = b->rows,
                             .y_f32 = true, .work = b->at[BUFFER_WORK] };
    return ops->product(&p);
}

/* The same, and the best id of every row to `next`. */
static enum err step(struct forward_batch *b, const u32 *ids, u32 *next)
{
    u64 mark = forward_mark();
    TRY(step_logits(b, ids));
    TRY(room.ops->best((const f32 *)(const void *)b->at[BUFFER_LOGITS], b->rows,
                       room.shape->vocab, room.candidates, next));
    forward_rewind(mark);
    return OK;
}

/* Rows a chain of `ask` may write: none without a hidden row before the first. */
static u32 chain_rows(const struct draft_ask *ask)
{
    const struct slot_row *row = slot_row(ask->slot);
    if (row->len == 0 || row->unit.index == NONE) return 0;
    return (u32)MIN((u64)ask->most, slot_writable(ask->slot) - row->len);
}

/* Chains that may write a row, longest first: a step's batch is then the head of the list. */
static u32 chains_order(const struct draft_ask *ask, u32 count, u32 *who)
{
    u32 chains = 0;
    for (u32 i = 0; i < count; i++) {
        u32 rows = chain_rows(&ask[i]), at = chains;
        if (rows == 0) continue;
        for (; at > 0 && chain_rows(&ask[who[at - 1]]) < rows; at--) who[at] = who[at - 1];
        who[at] = i;
        chains++;
    }
    return chains;
}

static void chain_span(const struct draft_ask *ask, u32 row, struct ops_span *out)
{
    const struct slot_row *slot = slot_row(ask->slot);
    ASSERT(ask->next_id < room.shape->vocab);
    *out = (struct ops_span){
        .lo = row, .hi = row + 1, .pos = slot->len, .block_addr = slot_block_addrs(ask->slot),
        .sections = arena_slots_addr(state_sections_arena(), slot->unit),
    };
}

/* All chains of `ask`, at most a slab, a token a step. */
static enum err chains(struct draft_ask *ask, u32 count)
{
    struct forward_batch b = { .rows = 0 };
    u32 who[FORWARD_LOGIT_SLAB], ids[FORWARD_LOGIT_SLAB], made = 0;
    b.rows = chains_order(ask, count, who);
    if (b.rows == 0) return OK;
    forward_sizes(&b, b.rows);
    TRY(forward_push(&b, STAGE_ROWS));
    for (u32 i = 0; i < b.rows; i++) {
        chain_span(&ask[who[i]], i, &b.span[i]);
        ids[i] = ask[who[i]].next_id;
        TRY(room.ops->load(h_last(&b.span[i]), act_row(b.at[BUFFER_U], i), room.shape->hidden));
    }
    for (; b.rows > 0; made++) {
        b.span_count = b.rows;
        TRY(step(&b, ids, ids));
        for (u32 i = 0; i < b.rows; i++) {
            ask[who[i]].ids[made] = ids[i];
            ask[who[i]].count = made + 1;
            b.span[i].pos++;
        }
        while (b.rows > 0 && chain_rows(&ask[who[b.rows - 1]]) == made + 1) b.rows--;
    }
    return OK;
}

enum err draft_propose_all(struct draft_ask *ask, u32 ask_count)
{
    ASSERT(draft_present());
    for (u32 i = 0; i < ask_count; i++) ask[i].count = 0;
    for (u32 lo = 0; lo < ask_count; lo += FORWARD_LOGIT_SLAB) {
        u64 mark = forward_mark();
        enum err err = chains(ask + lo, MIN(ask_count - lo, (u32)FORWARD_LOGIT_SLAB));
        forward_rewind(mark);
        if (err != OK) return err;
    }
    return OK;
}

enum err draft_propose(u32 slot, u32 next_id, u32 most, u32 *ids_out, u32 *count_out)
{
    struct draft_ask ask = { .slot = slot, .next_id = next_id, .most = most, .ids = ids_out };
    TRY(draft_propose_all(&ask, 1));
    *count_out = ask.count;
    return OK;
}
