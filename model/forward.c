/* model/forward.c - the loop over layer rows.
 *
 * Buffers come from arena `scratch`: a batch's own (x, u, o), then the layer's, taken after a mark
 * and rewound.  `sizes_of` lists them once; forward_scratch_bytes adds the same list up, so the
 * count is exact.
 *
 * A verification must be able to end after any of its rows, and a delta layer's state can't be
 * rewound.  So its spans only look (ops_span.hold), what the delta layers read (raw rows, a, b)
 * is kept at the bottom of the scratch, and accepting runs convolution and rule once more over the
 * rows that stand. */
#include "model/forward.h"

#include <string.h>

#include "arena/arena.h"
#include "arena/scratch.h"
#include "model/draft.h"
#include "model/family/family.h"
#include "model/inside.h"
#include "model/slot.h"
#include "model/weights.h"

enum { SCRATCH_ALIGN = 256 };

static struct {
    const struct model_shape *shape;
    const struct ops *ops;
    u32 arena, rows_max, verify_rows;
    u64 scratch_bytes;
    u8 *kept;                       /* of a verification: by delta layer raw, a, b; hiddens   */
    u64 kept_bytes[3];              /* of a layer's raw, a, b in the last one                 */
    struct held { u32 slot, lo, count; } held[FORWARD_SPAN_CAP];
    u32 held_count;                 /* spans of it that are still only looked at              */
    bool open;
} room;

/* ---------------------------------------------------------------- scratch */
/* Stages share the bytes behind the batch's buffers: first and last buffer of each. */
static const struct { u32 first, last; } STAGES[STAGE_COUNT] = {
    [STAGE_ROWS] = { BUFFER_X, BUFFER_WORK }, [STAGE_GDN] = { BUFFER_RAW, BUFFER_GDN_WORK },
    [STAGE_ATTN] = { BUFFER_QG, BUFFER_ATTN_WORK }, [STAGE_MLP] = { BUFFER_GATE, BUFFER_GLU },
    [STAGE_LOGITS] = { BUFFER_LAST, BUFFER_LOGITS },
    [STAGE_JOIN] = { BUFFER_EMBED, BUFFER_JOIN },
};

static void sizes_of(const struct model_shape *s, const struct ops *ops, u32 block_rows, u32 rows,
                     u32 logit_rows, u64 bytes[BUFFER_COUNT])
{
    u64 act = (u64)ops->act_bytes * rows, q = (u64)s->nh * s->d, kv = (u64)s->nkv * s->d;
    u64 inner = (u64)s->hv * s->dv, slab = MIN(logit_rows, FORWARD_LOGIT_SLAB);
    u64 k_most = MAX(MAX(s->draft ? 2 * s->hidden : s->hidden, s->ffn), MAX(q, inner));
    bytes[BUFFER_X] = bytes[BUFFER_U] = bytes[BUFFER_O] = act * s->hidden;
    bytes[BUFFER_WORK] = ops->product_work_bytes(rows, (u32)k_most);
    bytes[BUFFER_RAW] = bytes[BUFFER_CONV] = act * s->conv_channels;
    bytes[BUFFER_Z] = bytes[BUFFER_GDN] = act * inner;
    bytes[BUFFER_A] = bytes[BUFFER_B] = act * s->hv;
    bytes[BUFFER_GDN_WORK] = ops->gdn_work_bytes(rows, s->hk, s->hv, s->dk, s->dv);
    bytes[BUFFER_QG] = 2 * act * q;
    bytes[BUFFER_K] = bytes[BUFFER_V] = act * kv;
    bytes[BUFFER_Q] = bytes[BUFFER_ATTN] = act * q;
    bytes[BUFFER_ATTN_WORK] = ops->attn_work_bytes(rows, s->nh, s->nkv, s->d, block_rows);
    bytes[BUFFER_GATE] = bytes[BUFFER_UP] = bytes[BUFFER_GLU] = act * s->ffn;
    bytes[BUFFER_LAST] = bytes[BUFFER_NORMED] = (u64)ops->act_bytes * slab * s->hidden;
    bytes[BUFFER_LOGITS] = sizeof(f32) * slab * s->vocab;
    bytes[BUFFER_EMBED] = s->draft ? act * s->hidden : 0;
    bytes[BUFFER_JOIN] = s->draft ? 2 * act * s->hidden : 0;
    for (u32 i = 0; i < BUFFER_COUNT; i++) bytes[i] = ALIGN_UP(bytes[i], SCRATCH_ALIGN);
}

u64 forward_scratch_need(const struct model_shape *shape, const struct ops *ops, u32 block_rows,
                         u32 rows, u32 logit_rows)
{
    u64 bytes[BUFFER_COUNT], most = 0;
    sizes_of(shape, ops, block_rows, rows, logit_rows, bytes);
    for (u32 i = STAGE_ROWS + 1; i < STAGE_COUNT; i++) {
        u64 sum = 0;
        for (u32 b = STAGES[i].first; b <= STAGES[i].last; b++) sum += bytes[b];
        most = MAX(most, sum);
    }
    return bytes[BUFFER_X] + bytes[BUFFER_U] + bytes[BUFFER_O] + bytes[BUFFER_WORK] + most;
}

u64 forward_scratch_bytes(u32 rows, u32 logit_rows)
{
    return forward_scratch_need(room.shape, room.ops, state_shape()->block_rows, rows, logit_rows);
}

/* What a delta layer keeps of a verification's rows. */
static u64 kept_sizes(const struct model_shape *s, const struct ops *ops, u32 rows, u64 bytes[3])
{
    u64 act = (u64)ops->act_bytes * rows;
    bytes[0] = ALIGN_UP(act * s->conv_channels, SCRATCH_ALIGN);
    bytes[1] = bytes[2] = ALIGN_UP(act * s->hv, SCRATCH_ALIGN);
    return bytes[0] + bytes[1] + bytes[2];
}

u64 forward_verify_need(const struct model_shape *shape, const struct ops *ops, u32 rows)
{
    u64 bytes[3], hidden = shape->draft ? (u64)ops->act_bytes * rows * shape->hidden : 0;
    if (rows == 0) return 0;
    return shape->gdn_count * kept_sizes(shape, ops, rows, bytes) + ALIGN_UP(hidden, SCRATCH_ALIGN);
}

enum err forward_push(struct forward_batch *b, enum forward_stage stage)
{
    for (u32 i = STAGES[stage].first; i <= STAGES[stage].last; i++)
        if (b->bytes[i] > 0) TRY(arena_scratch_push(room.arena, b->bytes[i], &b->at[i]));
    return OK;
}

u64 forward_mark(void) { return arena_scratch_mark(room.arena); }

void forward_rewind(u64 mark) { arena_scratch_rewind(room.arena, mark); }

enum err forward_open(const struct model_shape *shape, const struct ops *ops, u32 scratch_arena,
                      u32 rows_max, u32 verify_rows)
{
    u8 *whole;
    ASSERT(rows_max > 0 && verify_rows <= rows_max);
    room.shape = shape;
    room.ops = ops;
    room.arena = scratch_arena;
    room.rows_max = rows_max;
    room.verify_rows = verify_rows;
    room.held_count = 0;
    u64 kept_bytes = forward_verify_need(shape, ops, verify_rows);
    if (kept_bytes > 0) TRY(arena_scratch_push(scratch_arena, kept_bytes, &room.kept));
    room.scratch_bytes = forward_scratch_bytes(rows_max, rows_max);
    /* committed now, so that no batch commits */
    u64 mark = arena_scratch_mark(scratch_arena);
    TRY(arena_scratch_push(scratch_arena, room.scratch_bytes, &whole));
    arena_scratch_rewind(scratch_arena, mark);
    draft_open(shape, ops);
    room.open = true;
    return OK;
}

void forward_close(void)
{
    draft_close();
    room.open = false;
}

u32 forward_rows_max(void) { return room.rows_max; }

u32 forward_verify_rows(void) { return room.verify_rows; }

u32 forward_vocab(void) { return room.shape->vocab; }

bool forward_row_invariant(void) { return room.ops->row_invariant; }

/* ---------------------------------------------------------------- a layer */
/* Roles whose product follows another one of the same rows, in every layer. */
static bool reads_again(enum family_role role)
{
    return role == ROLE_K || role == ROLE_V || role == ROLE_GDN_Z || role == ROLE_GDN_A ||
           role == ROLE_GDN_B || role == ROLE_MLP_UP;
}

enum err forward_product(const struct forward_batch *b, u32 layer, enum family_role role, u32 x,
                         u32 y)
{
    struct ops_product p = { .w = weights_matrix(layer, role), .x = b->at[x], .y = b->at[y],
                             .rows = b->rows, .work = b->at[BUFFER_WORK],
                             .same_x = reads_again(role) };
    return room.ops->product(&p);
}

static struct ops_strip strip_of(u32 view, u32 plane)
{
    const struct state_view *v = &state_shape()->view[view];
    return (struct ops_strip){ v->offset_bytes + plane * v->strip_bytes, v->row_bytes };
}

/* Row t of a draft head's views is turned at the position of row t - 1; its row 0 is never seen. */
struct ops_attn_rows forward_attn_rows(const struct forward_batch *b, u32 layer)
{
    const struct model_shape *s = room.shape;
    bool draft = layer > s->layer_count;
    u32 plane = draft ? 0 : s->layer[layer].index;
    return (struct ops_attn_rows){
        .k = b->at[BUFFER_K], .v = b->at[BUFFER_V],
        .k_scale = weights_vector(layer, ROLE_K_NORM),
        .k_strip = strip_of(draft ? FAMILY_VIEW_DRAFT_K : FAMILY_VIEW_K, plane),
        .v_strip = strip_of(draft ? FAMILY_VIEW_DRAFT_V : FAMILY_VIEW_V, plane),
        .span = b->span, .span_count = b->span_count, .rows = b->rows, .nkv = s->nkv, .d = s->d,
        .rot = s->rot, .block_rows = state_shape()->block_rows, .back = draft, .eps = s->eps,
        .inv_freq = s->inv_freq,
    };
}

/* K and V rows stored first, then every row reads what is stored. */
enum err forward_attention(struct forward_batch *b, u32 layer)
{
    const struct model_shape *s = room.shape;
    const struct ops *ops = room.ops;
    TRY(forward_push(b, STAGE_ATTN));
    TRY(forward_product(b, layer, ROLE_Q, BUFFER_U, BUFFER_QG));
    TRY(forward_product(b, layer, ROLE_K, BUFFER_U, BUFFER_K));
    TRY(forward_product(b, layer, ROLE_V, BUFFER_U, BUFFER_V));
    struct ops_attn_rows rows = forward_attn_rows(b, layer);
    rows.nh = s->nh;
    rows.qg = b->at[BUFFER_QG];
    rows.q_scale = weights_vector(layer, ROLE_Q_NORM);
    rows.q_out = b->at[BUFFER_Q];
    TRY(ops->attn_rows(&rows));
    struct ops_attn attn = {
        .q = b->at[BUFFER_Q], .qg = b->at[BUFFER_QG], .y = b->at[BUFFER_ATTN],
        .k_strip = rows.k_strip, .v_strip = rows.v_strip, .span = b->span,
        .span_count = b->span_count, .rows = b->rows, .nh = s->nh, .nkv = s->nkv, .d = s->d,
        .block_rows = rows.block_rows, .blind = rows.back, .work = b->at[BUFFER_ATTN_WORK],
    };
    TRY(ops->attn(&attn));
    return forward_product(b, layer, ROLE_O, BUFFER_ATTN, BUFFER_O);
}

/* What is kept of a verification for delta layer `index`; behind the last: hidden rows. */
static u8 *kept_at(u32 index)
{
    return room.kept + index * (room.kept_bytes[0] + room.kept_bytes[1] + room.kept_bytes[2]);
}

/* A verification's raw rows, a and b of a delta layer stand in what is kept. */
static void keep(struct forward_batch *b, u32 index)
{
    u8 *at = kept_at(index);
    b->at[BUFFER_RAW] = at;
    b->at[BUFFER_A] = at + room.kept_bytes[0];
    b->at[BUFFER_B] = b->at[BUFFER_A] + room.kept_bytes[1];
}

/* Convolution and delta rule over raw rows, a and b: tail and S of each span's sections move on. */
static enum err rule(struct forward_batch *b, u32 layer, void *out)
{
    const struct model_shape *s = room.shape;
    const struct state_section *section = state_shape()->section;
    u32 index = s->layer[layer].index;
    struct ops_conv conv = {
        .raw = b->at[BUFFER_RAW], .w = weights_vector(layer, ROLE_GDN_CONV),
        .y = b->at[BUFFER_CONV], .tail_offset = section[family_section_tail(index)].offset_bytes,
        .span = b->span, .span_count = b->span_count, .rows = b->rows, .c = s->conv_channels,
    };
    TRY(room.ops->conv(&conv));
    struct ops_gdn gdn = {
        .y = b->at[BUFFER_CONV], .a = b->at[BUFFER_A], .b = b->at[BUFFER_B], .z = b->at[BUFFER_Z],
        .neg_a = weights_vector(layer, ROLE_GDN_DECAY),
        .dt_bias = weights_vector(layer, ROLE_GDN_DT),
        .norm = weights_vector(layer, ROLE_GDN_NORM), .out = out,
        .s_offset = section[family_section_s(index)].offset_bytes, .span = b->span,
        .span_count = b->span_count, .rows = b->rows, .hk = s->hk, .hv = s->hv, .dk = s->dk,
        .dv = s->dv, .eps = s->eps, .gate_sigmoid = s->gate_sigmoid,
        .work = b->at[BUFFER_GDN_WORK],
    };
    return room.ops->gdn(&gdn);
}

/* u -> o by the gated delta rule. */
static enum err delta(struct forward_batch *b, u32 layer)
{
    TRY(forward_push(b, STAGE_GDN));
    if (b->verify) keep(b, room.shape->layer[layer].index);
    TRY(forward_product(b, layer, ROLE_GDN_QKV, BUFFER_U, BUFFER_RAW));
    TRY(forward_product(b, layer, ROLE_GDN_Z, BUFFER_U, BUFFER_Z));
    TRY(forward_product(b, layer, ROLE_GDN_A, BUFFER_U, BUFFER_A));
    TRY(forward_product(b, layer, ROLE_GDN_B, BUFFER_U, BUFFER_B));
    TRY(rule(b, layer, b->at[BUFFER_GDN]));
    return forward_product(b, layer, ROLE_GDN_OUT, BUFFER_GDN, BUFFER_O);
}

enum err forward_mlp(struct forward_batch *b, u32 layer)
{
    TRY(forward_push(b, STAGE_MLP));
    TRY(forward_product(b, layer, ROLE_MLP_GATE, BUFFER_U, BUFFER_GATE));
    TRY(forward_product(b, layer, ROLE_MLP_UP, BUFFER_U, BUFFER_UP));
    TRY(room.ops->glu(b->at[BUFFER_GATE], b->at[BUFFER_UP], b->at[BUFFER_GLU],
                      (u64)b->rows * room.shape->ffn));
    return forward_product(b, layer, ROLE_MLP_DOWN, BUFFER_GLU, BUFFER_O);
}

enum err forward_half(struct forward_batch *b, u32 layer, enum family_role norm,
                      enum err (*block)(struct forward_batch *, u32))
{
    const struct model_shape *s = room.shape;
    u64 mark = arena_scratch_mark(room.arena);
    TRY(room.ops->rms_norm(b->at[BUFFER_X], weights_vector(layer, norm), b->at[BUFFER_U], b->rows,
                           s->hidden, s->eps));
    TRY(block(b, layer));
    TRY(room.ops->residual(b->at[BUFFER_X], b->at[BUFFER_O], (u64)b->rows * s->hidden));
    arena_scratch_rewind(room.arena, mark);
    return OK;
}

/* ---------------------------------------------------------------- a batch */
void forward_sizes(struct forward_batch *b, u32 logit_rows)
{
    sizes_of(room.shape, room.ops, state_shape()->block_rows, b->rows, logit_rows, b->bytes);
}

static enum err batch_build(const struct forward_span *span, u32 span_count, bool verify,
                            struct forward_batch *b)
{
    memset(b, 0, sizeof *b);
    ASSERT(span_count > 0 && span_count <= FORWARD_SPAN_CAP);
    b->given = span;
    b->span_count = span_count;
    u32 wanted = 0;
    for (u32 i = 0; i < span_count; i++) {
        const struct slot_row *slot = slot_row(span[i].slot);
        ASSERT(span[i].count > 0 && slot->len + span[i].count <= slot->row_cap);
        ASSERT(slot->unit.index != NONE && span[i].logits_count <= span[i].count);
        for (u32 k = 0; k < i; k++) ASSERT(span[k].slot != span[i].slot);
        b->span[i] = (struct ops_span){
            .lo = b->rows, .hi = b->rows + span[i].count, .pos = slot->len,
            .block_addr = slot_block_addrs(span[i].slot),
            .sections = arena_slots_addr(state_sections_arena(), slot->unit),
            .hold = verify && span[i].count > 1,
        };
        b->verify = b->verify || b->span[i].hold;
        b->rows += span[i].count;
        wanted += span[i].logits_count;
    }
    ASSERT(b->rows <= room.rows_max);
    forward_sizes(b, wanted);
    return forward_push(b, STAGE_ROWS);
}

static enum err embed(struct forward_batch *b)
{
    enum ops_source type;
    const u8 *rows = weights_table(&type);
    u32 h = room.shape->hidden;
    for (u32 i = 0; i < b->span_count; i++) {
        const struct forward_span *given = &b->given[i];
        u8 *x = b->at[BUFFER_X] + (u64)b->span[i].lo * h * room.ops->act_bytes;
        for (u32 k = 0; k < given->count; k++) ASSERT(given->ids[k] < room.shape->vocab);
        TRY(room.ops->embed(rows, type, given->ids, given->count, h, x));
    }
    return OK;
}

/* Logits of `count` rows of the batch, [count][vocab] of the host. */
static enum err slab_logits(struct forward_batch *b, const u32 *rows, u32 count, f32 *logits)
{
    const struct model_shape *s = room.shape;
    const struct ops *ops = room.ops;
    u32 top = s->layer_count;
    TRY(ops->gather(b->at[BUFFER_X], rows, count, s->hidden, b->at[BUFFER_LAST]));
    TRY(ops->rms_norm(b->at[BUFFER_LAST], weights_vector(top, ROLE_NORM), b->at[BUFFER_NORMED],
                      count, s->hidden, s->eps));
    struct ops_product p = { .w = weights_matrix(top, ROLE_HEAD), .x = b->at[BUFFER_NORMED],
                             .y = b->at[BUFFER_LOGITS], .rows = count, .y_f32 = true,
                             .work = b->at[BUFFER_WORK] };
    TRY(ops->product(&p));
    const struct space_ops *space = space_ops(arena_row(room.arena)->space);
    return space->copy(logits, b->at[BUFFER_LOGITS], sizeof(f32) * count * s->vocab, 0);
}

/* The wanted rows' logits, a slab at a time, in batch order. */
static enum err head(struct forward_batch *b, f32 *logits)
{
    u32 slab[FORWARD_LOGIT_SLAB], count = 0;
    TRY(forward_push(b, STAGE_LOGITS));
    for (u32 i = 0; i < b->span_count; i++) {
        for (u32 k = b->given[i].logits_count; k > 0; k--) {
            slab[count++] = b->span[i].hi - k;
            if (count < FORWARD_LOGIT_SLAB) continue;
            TRY(slab_logits(b, slab, count, logits));
            logits += (u64)count * room.shape->vocab;
            count = 0;
        }
    }
    return count == 0 ? OK : slab_logits(b, slab, count, logits);
}

static enum err run(struct forward_batch *b, f32 *logits, bool wanted)
{
    TRY(embed(b));
    for (u32 layer = 0; layer < room.shape->layer_count; layer++) {
        bool full = room.shape->layer[layer].kind == LAYER_ATTENTION;
        TRY(forward_half(b, layer, ROLE_IN_NORM, full ? forward_attention : delta));
        TRY(forward_half(b, layer, ROLE_POST_NORM, forward_mlp));
    }
    if (wanted) TRY(head(b, logits));
    if (room.shape->draft) TRY(draft_rows(b));
    return room.ops->sync();
}

/* A batch from its spans to its logits; slots whose spans don't hold have moved on. */
static enum err forward(const struct forward_span *span, u32 span_count, bool verify, f32 *logits)
{
    struct forward_batch batch;
    bool wanted = false;
    ASSERT(room.open);
    u64 mark = arena_scratch_mark(room.arena);
    for (u32 i = 0; i < span_count; i++) wanted = wanted || span[i].logits_count > 0;
    ASSERT(!wanted || logits != NULL);
    enum err err = batch_build(span, span_count, verify, &batch);
    if (batch.verify) {
        ASSERT(batch.rows <= room.verify_rows);
        kept_sizes(room.shape, room.ops, batch.rows, room.kept_bytes);
        batch.hidden = kept_at(room.shape->gdn_count);
        room.held_count = 0;
    }
    if (err == OK) err = run(&batch, logits, wanted);
    arena_scratch_rewind(room.arena, mark);
    for (u32 i = 0; err == OK && i < span_count; i++) {
        const struct ops_span *s = &batch.span[i];
        if (s->hold) room.held[room.held_count++] =
            (struct held){ span[i].slot, s->lo, span[i].count };
        else slot_row(span[i].slot)->len += span[i].count;
    }
    return err;
}

enum err forward_rows(const struct forward_span *span, u32 span_count, f32 *logits)
{
    return forward(span, span_count, false, logits);
}

enum err forward_verify(const struct forward_span *span, u32 span_count, f32 *logits)
{
    return forward(span, span_count, true, logits);
}

/* The delta layers of `slot` move on by the first rows of a span that only looked. */
static enum err move_on(const struct held *held, u32 rows)
{
    const struct model_shape *s = room.shape;
    const struct slot_row *slot = slot_row(held->slot);
    struct forward_batch b = { .span_count = 1, .rows = rows };
    b.span[0] = (struct ops_span){
        .hi = rows, .pos = slot->len,
        .sections = arena_slots_addr(state_sections_arena(), slot->unit) };
    forward_sizes(&b, 0);
    TRY(forward_push(&b, STAGE_GDN));
    for (u32 layer = 0; layer < s->layer_count; layer++) {
        if (s->layer[layer].kind != LAYER_GDN) continue;
        u64 from = (u64)held->lo * room.ops->act_bytes;
        keep(&b, s->layer[layer].index);
        b.at[BUFFER_RAW] += from * s->conv_channels;
        b.at[BUFFER_A] += from * s->hv;
        b.at[BUFFER_B] += from * s->hv;
        TRY(rule(&b, layer, NULL));
    }
    if (s->draft) TRY(draft_accept(&b.span[0], kept_at(s->gdn_count), held->lo + rows - 1));
    return room.ops->sync();
}

enum err forward_accept(u32 slot, u32 rows)
{
    u32 i = 0;
    while (i < room.held_count && room.held[i].slot != slot) i++;
    ASSERT(rows > 0 && rows <= (i < room.held_count ? room.held[i].count : 1));
    if (i == room.held_count) return OK;
    u64 mark = arena_scratch_mark(room.arena);
    u32 moved = FAULT(FAULT_CUT_OFF_BY_ONE) ? MIN(rows + 1, room.held[i].count) : rows;
    enum err err = move_on(&room.held[i], moved);
    arena_scratch_rewind(room.arena, mark);
    room.held[i] = room.held[--room.held_count];
    if (err == OK) slot_row(slot)->len += rows;
    return err;
}

enum err forward_chunk(u32 slot, const u32 *ids, u32 count, f32 *logits)
{
    struct forward_span span = { slot, count, ids, logits != NULL };
    return forward_rows(&span, 1, logits);
}

enum err forward_step(const u32 *slots, const u32 *ids, u32 count, f32 *logits)
{
    struct forward_span span[FORWARD_SPAN_CAP];
    ASSERT(count <= FORWARD_SPAN_CAP);
    for (u32 i = 0; i < count; i++)
        span[i] = (struct forward_span){ slots[i], 1, &ids[i], 1 };
    return forward_rows(span, count, logits);
}
