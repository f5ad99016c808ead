/* model/family/qwen3_5.c - tensor names, sections and views of the dense hybrid. */
#include "model/family/qwen3_5.h"

#include <stdio.h>
#include <string.h>

struct row { const char *name; u32 role, form, rows, cols; };

static void name_tensor(const struct model_shape *s, const struct row *row, u32 layer,
                        struct family_tensor *out)
{
    *out = (struct family_tensor){ .role = row->role, .form = row->form, .rows = row->rows,
                                   .cols = row->cols, .top = layer > s->layer_count };
    if (layer == s->layer_count) snprintf(out->name, sizeof out->name, "%s", row->name);
    else if (out->top) snprintf(out->name, sizeof out->name, "mtp.layers.0.%s", row->name);
    else snprintf(out->name, sizeof out->name, "layers.%u.%s", layer, row->name);
}

static bool top_tensor(const struct model_shape *s, u32 k, struct family_tensor *out)
{
    const struct row rows[] = {
        { "embed_tokens.weight", ROLE_EMBED, FORM_TABLE, s->vocab, s->hidden },
        { "norm.weight", ROLE_NORM, FORM_SCALE, s->hidden, 1 },
        /* a tied head is packed from the embedding's own bytes */
        { s->tied ? "embed_tokens.weight" : "lm_head.weight", ROLE_HEAD, FORM_MATRIX, s->vocab,
          s->hidden },
    };
    if (k >= COUNT_OF(rows)) return false;
    name_tensor(s, &rows[k], s->layer_count, out);
    out->top = rows[k].role == ROLE_HEAD && !s->tied;
    return true;
}

/* What the draft head has beside its one full attention layer; their names stand alone. */
static bool draft_tensor(const struct model_shape *s, u32 k, struct family_tensor *out)
{
    const struct row rows[] = {
        { "mtp.fc.weight", ROLE_DRAFT_JOIN, FORM_MATRIX, s->hidden, 2 * s->hidden },
        { "mtp.pre_fc_norm_embedding.weight", ROLE_DRAFT_E_NORM, FORM_SCALE, s->hidden, 1 },
        { "mtp.pre_fc_norm_hidden.weight", ROLE_DRAFT_H_NORM, FORM_SCALE, s->hidden, 1 },
        { "mtp.norm.weight", ROLE_NORM, FORM_SCALE, s->hidden, 1 },
    };
    if (k >= COUNT_OF(rows)) return false;
    name_tensor(s, &rows[k], s->layer_count, out);
    return out->top = true;
}

bool qwen3_5_tensor(const struct model_shape *s, u32 layer, u32 k, struct family_tensor *out)
{
    bool draft = layer > s->layer_count;
    if (layer == s->layer_count) return top_tensor(s, k, out);
    if (draft && !s->draft) return false;
    u32 q = s->nh * s->d, kv = s->nkv * s->d, inner = s->hv * s->dv, h = s->hidden;
    const struct row both[] = {
        { "input_layernorm.weight", ROLE_IN_NORM, FORM_SCALE, h, 1 },
        { "post_attention_layernorm.weight", ROLE_POST_NORM, FORM_SCALE, h, 1 },
        { "mlp.gate_proj.weight", ROLE_MLP_GATE, FORM_MATRIX, s->ffn, h },
        { "mlp.up_proj.weight", ROLE_MLP_UP, FORM_MATRIX, s->ffn, h },
        { "mlp.down_proj.weight", ROLE_MLP_DOWN, FORM_MATRIX, h, s->ffn },
    };
    const struct row full[] = {
        { "self_attn.q_proj.weight", ROLE_Q, FORM_MATRIX, 2 * q, h },
        { "self_attn.k_proj.weight", ROLE_K, FORM_MATRIX, kv, h },
        { "self_attn.v_proj.weight", ROLE_V, FORM_MATRIX, kv, h },
        { "self_attn.o_proj.weight", ROLE_O, FORM_MATRIX, h, q },
        { "self_attn.q_norm.weight", ROLE_Q_NORM, FORM_SCALE, s->d, 1 },
        { "self_attn.k_norm.weight", ROLE_K_NORM, FORM_SCALE, s->d, 1 },
    };
    const struct row linear[] = {
        { "linear_attn.in_proj_qkv.weight", ROLE_GDN_QKV, FORM_MATRIX, s->conv_channels, h },
        { "linear_attn.in_proj_z.weight", ROLE_GDN_Z, FORM_MATRIX, inner, h },
        { "linear_attn.in_proj_a.weight", ROLE_GDN_A, FORM_MATRIX, s->hv, h },
        { "linear_attn.in_proj_b.weight", ROLE_GDN_B, FORM_MATRIX, s->hv, h },
        { "linear_attn.conv1d.weight", ROLE_GDN_CONV, FORM_TAPS, s->conv_channels,
          SHAPE_CONV_TAPS },
        { "linear_attn.A_log", ROLE_GDN_DECAY, FORM_DECAY, s->hv, 1 },
        { "linear_attn.dt_bias", ROLE_GDN_DT, FORM_PLAIN, s->hv, 1 },
        { "linear_attn.norm.weight", ROLE_GDN_NORM, FORM_PLAIN, s->dv, 1 },
        { "linear_attn.out_proj.weight", ROLE_GDN_OUT, FORM_MATRIX, h, inner },
    };
    bool attention = draft || s->layer[layer].kind == LAYER_ATTENTION;
    u32 own = attention ? (u32)COUNT_OF(full) : (u32)COUNT_OF(linear);
    if (k >= COUNT_OF(both) + own)
        return draft && draft_tensor(s, k - (u32)COUNT_OF(both) - own, out);
    const struct row *row = k < COUNT_OF(both) ? &both[k]
                          : attention ? &full[k - COUNT_OF(both)] : &linear[k - COUNT_OF(both)];
    name_tensor(s, row, layer, out);
    return true;
}

void qwen3_5_gguf(const struct model_shape *s, u32 layer, struct family_tensor *t)
{
    static const char *const names[ROLE_COUNT] = {
        [ROLE_IN_NORM] = "attn_norm.weight", [ROLE_POST_NORM] = "post_attention_norm.weight",
        [ROLE_MLP_GATE] = "ffn_gate.weight", [ROLE_MLP_UP] = "ffn_up.weight",
        [ROLE_MLP_DOWN] = "ffn_down.weight", [ROLE_Q] = "attn_q.weight",
        [ROLE_K] = "attn_k.weight", [ROLE_V] = "attn_v.weight", [ROLE_O] = "attn_output.weight",
        [ROLE_Q_NORM] = "attn_q_norm.weight", [ROLE_K_NORM] = "attn_k_norm.weight",
        [ROLE_GDN_QKV] = "attn_qkv.weight", [ROLE_GDN_Z] = "attn_gate.weight",
        [ROLE_GDN_A] = "ssm_alpha.weight", [ROLE_GDN_B] = "ssm_beta.weight",
        [ROLE_GDN_CONV] = "ssm_conv1d.weight", [ROLE_GDN_DECAY] = "ssm_a",
        [ROLE_GDN_DT] = "ssm_dt.bias", [ROLE_GDN_NORM] = "ssm_norm.weight",
        [ROLE_GDN_OUT] = "ssm_out.weight", [ROLE_EMBED] = "token_embd.weight",
        [ROLE_NORM] = "output_norm.weight", [ROLE_HEAD] = "output.weight",
        [ROLE_DRAFT_JOIN] = "nextn.eh_proj.weight", [ROLE_DRAFT_E_NORM] = "nextn.enorm.weight",
        [ROLE_DRAFT_H_NORM] = "nextn.hnorm.weight",
    };
    bool draft = layer > s->layer_count;
    const char *name = t->role == ROLE_HEAD && s->tied ? names[ROLE_EMBED] : names[t->role];
    struct ops_heads tiled = { 0, s->hk, s->hv, s->dv };
    if (draft && t->role == ROLE_NORM) name = "nextn.shared_head_norm.weight";
    if (layer == s->layer_count) snprintf(t->name, sizeof t->name, "%s", name);
    else snprintf(t->name, sizeof t->name, "blk.%u.%s", layer - draft, name);
    t->top = true;
    if (t->form == FORM_SCALE || t->form == FORM_DECAY) t->form = FORM_PLAIN;
    if (s->hk == s->hv) return;
    if (t->role == ROLE_GDN_QKV || t->role == ROLE_GDN_CONV) tiled.first = 2 * s->hk * s->dk;
    switch (t->role) {
    case ROLE_GDN_QKV: case ROLE_GDN_CONV: case ROLE_GDN_Z: t->row_heads = tiled; break;
    case ROLE_GDN_OUT: t->col_heads = tiled; break;
    case ROLE_GDN_A: case ROLE_GDN_B: case ROLE_GDN_DT: case ROLE_GDN_DECAY:
        t->row_heads = (struct ops_heads){ 0, s->hk, s->hv, 1 };
        break;
    default: break;
    }
}

static void put_section(struct state_shape *out, const char *word, u32 layer, u64 bytes, u32 type)
{
    struct state_section *row = &out->section[out->section_count++];
    if (layer == NONE) snprintf(row->name, sizeof row->name, "%s", word);
    else snprintf(row->name, sizeof row->name, "%s.%u", word, layer);
    row->offset_bytes = out->section_bytes;
    row->bytes = bytes;
    row->type = type;
    out->section_bytes += ALIGN_UP(bytes, 256);
}

static void put_view(struct state_shape *out, const char *name, u32 planes, u32 row_bytes,
                     u32 type)
{
    struct state_view *row = &out->view[out->view_count++];
    snprintf(row->name, sizeof row->name, "%s", name);
    row->planes = planes;
    row->row_bytes = row_bytes;
    row->offset_bytes = out->block_bytes;
    row->strip_bytes = ALIGN_UP((u64)out->block_rows * row_bytes, 256);
    row->type = type;
    out->block_bytes += planes * row->strip_bytes;
}

enum err qwen3_5_fill(const struct model_shape *s, u32 block_rows, u32 grid_rows, u32 store_bytes,
                      struct state_shape *out)
{
    if (block_rows < 4 || block_rows > 4096 || (block_rows & (block_rows - 1)) != 0)
        return fail(ERR_CONFIG, "block is %u rows; a power of two from 4 to 4096 is expected",
                    block_rows);
    if (grid_rows == 0 || grid_rows % block_rows != 0)
        return fail(ERR_CONFIG, "grid is %u rows; a multiple of the block's %u is expected",
                    grid_rows, block_rows);
    ASSERT(store_bytes == 2 || store_bytes == 4);
    ASSERT(2 * s->gdn_count < STATE_SECTION_CAP);
    u32 type = store_bytes == 2 ? STATE_BF16 : STATE_F32;
    memset(out, 0, sizeof *out);
    out->block_rows = block_rows;
    out->grid_rows = grid_rows;
    for (u32 i = 0; i < s->layer_count; i++) {
        if (s->layer[i].kind != LAYER_GDN) continue;
        ASSERT(out->section_count == family_section_s(s->layer[i].index));
        put_section(out, "S", i, 4ull * s->hv * s->dk * s->dv, STATE_F32);
        put_section(out, "tail", i, 3ull * s->conv_channels * store_bytes, type);
    }
    if (s->draft) put_section(out, "mtp.h_last", NONE, (u64)s->hidden * store_bytes, type);
    u32 row_bytes = s->nkv * s->d * store_bytes;
    put_view(out, "K", s->attention_count, row_bytes, type);
    put_view(out, "V", s->attention_count, row_bytes, type);
    if (s->draft) put_view(out, "mtp.K", 1, row_bytes, type);
    if (s->draft) put_view(out, "mtp.V", 1, row_bytes, type);
    out->block_bytes = ALIGN_UP(out->block_bytes, 4096);
    return OK;
}
