/* model/shape_gguf.c - reading the keys of arch qwen35: sizes with limits, refusals by name. */
#include "model/shape_gguf.h"

#include <stdio.h>
#include <string.h>

#include "model/gguf.h"

/* A size in [lo, hi]. */
static enum err size_of(const struct gguf *g, const char *name, u32 lo, u32 hi, u32 *out)
{
    u64 value = 0;
    TRY(gguf_u64(g, name, &value));
    if (value < lo || value > hi)
        return fail(ERR_LIMIT, "%s: key %s is %llu; %u to %u is expected", g->file->name, name,
                    (ull)value, lo, hi);
    *out = (u32)value;
    return OK;
}

static enum err size_or(const struct gguf *g, const char *name, u32 otherwise, u32 lo, u32 hi,
                        u32 *out)
{
    *out = otherwise;
    return gguf_find(g, name) != NULL ? size_of(g, name, lo, hi, out) : OK;
}

/* The architecture decides the family; the neighbours are refused by their names. */
static enum err arch_check(const struct gguf *g)
{
    static const char *const known[] = { "qwen35moe", "qwen4exp", "qwen3next", "qwen3", "clip" };
    struct text_span arch;
    TRY(gguf_string(g, "general.architecture", &arch));
    if (text_span_is(arch, "qwen35")) return OK;
    for (u32 i = 0; i < COUNT_OF(known); i++)
        if (text_span_is(arch, known[i]))
            return fail(ERR_UNSUPPORTED, "%s: general.architecture %s is not served by this "
                        "version (dense qwen35 is)", g->file->name, known[i]);
    return fail(ERR_UNSUPPORTED, "%s: general.architecture is not known (%llu bytes); qwen35 is "
                "expected", g->file->name, (ull)arch.len);
}

static enum err attention(const struct gguf *g, struct model_shape *s)
{
    u32 value_dim;
    TRY(size_of(g, "qwen35.attention.head_count", 1, SHAPE_HEADS_MAX, &s->nh));
    TRY(size_of(g, "qwen35.attention.head_count_kv", 1, SHAPE_HEADS_MAX, &s->nkv));
    TRY(size_or(g, "qwen35.attention.key_length", s->hidden / s->nh, 2, SHAPE_HEAD_DIM_MAX,
                &s->d));
    TRY(size_or(g, "qwen35.attention.value_length", s->d, 2, SHAPE_HEAD_DIM_MAX, &value_dim));
    if (s->nh % s->nkv != 0)
        return fail(ERR_FORMAT, "%s: qwen35.attention.head_count %u is no multiple of "
                    "head_count_kv %u", g->file->name, s->nh, s->nkv);
    if (s->d < 2 || s->d % 2 != 0 || value_dim != s->d)
        return fail(ERR_UNSUPPORTED, "%s: qwen35.attention.key_length %u, value_length %u; two "
                    "equal even numbers are expected", g->file->name, s->d, value_dim);
    if ((u64)s->nh * s->d > SHAPE_HIDDEN_MAX)
        return fail(ERR_LIMIT, "%s: qwen35.attention.head_count %u times key_length %u is over %d",
                    g->file->name, s->nh, s->d, SHAPE_HIDDEN_MAX);
    return OK;
}

static enum err rope(const struct gguf *g, struct model_shape *s)
{
    static const u32 usual[3] = { 11, 11, 10 };
    const struct gguf_key *sections;
    struct text_span scaling = { "none", 4 };
    if (gguf_find(g, "qwen35.rope.scaling.type") != NULL)
        TRY(gguf_string(g, "qwen35.rope.scaling.type", &scaling));
    if (!text_span_is(scaling, "none"))
        return fail(ERR_UNSUPPORTED, "%s: key qwen35.rope.scaling.type: only none is served",
                    g->file->name);
    TRY(size_of(g, "qwen35.rope.dimension_count", 2, SHAPE_HEAD_DIM_MAX, &s->rot));
    u32 half = s->rot / 2;
    if (s->rot % 2 != 0 || (half & (half - 1)) != 0 || half > SHAPE_FREQ_MAX || s->rot > s->d)
        return fail(ERR_UNSUPPORTED, "%s: qwen35.rope.dimension_count is %u; twice a power of two "
                    "up to %u is expected", g->file->name, s->rot,
                    MIN(s->d, 2u * SHAPE_FREQ_MAX));
    TRY(gguf_f64(g, "qwen35.rope.freq_base", &s->rope_theta));
    if (!(s->rope_theta >= 1.0 && s->rope_theta <= 1e12))
        return fail(ERR_FORMAT, "%s: qwen35.rope.freq_base is %g; 1 to 1e12 is expected",
                    g->file->name, s->rope_theta);
    memcpy(s->mrope_section, usual, sizeof usual);
    if (gguf_find(g, "qwen35.rope.dimension_sections") != NULL) {
        TRY(gguf_numbers(g, "qwen35.rope.dimension_sections", &sections));
        if (sections->count < 3 || sections->count > 4)
            return fail(ERR_FORMAT, "%s: qwen35.rope.dimension_sections has %llu items; 3 or 4 "
                        "are expected", g->file->name, (ull)sections->count);
        for (u32 i = 0; i < 3; i++) {
            u64 value;
            TRY(gguf_number(g, sections, i, &value));
            s->mrope_section[i] = (u32)MIN(value, (u64)SHAPE_HEAD_DIM_MAX);
        }
    }
    shape_frequencies(s);
    return OK;
}

static enum err linear(const struct gguf *g, struct model_shape *s)
{
    u32 taps, inner;
    TRY(size_of(g, "qwen35.ssm.group_count", 1, SHAPE_HEADS_MAX, &s->hk));
    TRY(size_of(g, "qwen35.ssm.time_step_rank", 1, SHAPE_HEADS_MAX, &s->hv));
    TRY(size_of(g, "qwen35.ssm.state_size", 1, SHAPE_HEAD_DIM_MAX, &s->dk));
    TRY(size_of(g, "qwen35.ssm.inner_size", 1, SHAPE_HIDDEN_MAX, &inner));
    TRY(size_of(g, "qwen35.ssm.conv_kernel", 1, 64, &taps));
    if (taps != SHAPE_CONV_TAPS)
        return fail(ERR_UNSUPPORTED, "%s: qwen35.ssm.conv_kernel is %u; only %d is served",
                    g->file->name, taps, SHAPE_CONV_TAPS);
    if (s->hv % s->hk != 0)
        return fail(ERR_FORMAT, "%s: qwen35.ssm.time_step_rank %u is no multiple of group_count "
                    "%u", g->file->name, s->hv, s->hk);
    s->dv = inner / s->hv;
    if (inner % s->hv != 0 || s->dv > SHAPE_HEAD_DIM_MAX)
        return fail(ERR_FORMAT, "%s: qwen35.ssm.inner_size %u over time_step_rank %u is no head "
                    "of 1 to %d", g->file->name, inner, s->hv, SHAPE_HEAD_DIM_MAX);
    u64 channels = 2ull * s->hk * s->dk + inner;
    if (channels > SHAPE_HIDDEN_MAX)
        return fail(ERR_LIMIT, "%s: the ssm heads have %llu channels; at most %d are expected",
                    g->file->name, (ull)channels, SHAPE_HIDDEN_MAX);
    s->conv_channels = (u32)channels;
    return OK;
}

/* block_count is the trunk and the draft layers behind it. */
static enum err layers(const struct gguf *g, struct model_shape *s)
{
    const struct gguf_key *recurrent = NULL;
    u32 blocks, interval;
    TRY(size_of(g, "qwen35.block_count", 1, SHAPE_LAYERS_MAX, &blocks));
    TRY(size_or(g, "qwen35.nextn_predict_layers", 0, 0, MIN(16u, blocks - 1), &s->mtp_layers));
    TRY(size_or(g, "qwen35.full_attention_interval", 4, 1, SHAPE_LAYERS_MAX, &interval));
    s->layer_count = blocks - s->mtp_layers;
    if (gguf_find(g, "qwen35.attention.recurrent_layers") != NULL) {
        TRY(gguf_numbers(g, "qwen35.attention.recurrent_layers", &recurrent));
        if (recurrent->count < s->layer_count || recurrent->count > blocks)
            return fail(ERR_FORMAT, "%s: qwen35.attention.recurrent_layers has %llu items; one a "
                        "layer, %u, is expected", g->file->name, (ull)recurrent->count, blocks);
    }
    for (u32 i = 0; i < s->layer_count; i++) {
        u64 value = (i + 1) % interval != 0;
        if (recurrent != NULL) TRY(gguf_number(g, recurrent, i, &value));
        s->layer[i].kind = value == 0 ? LAYER_ATTENTION : LAYER_GDN;
        s->layer[i].index = value == 0 ? s->attention_count++ : s->gdn_count++;
    }
    if (s->attention_count == 0 || s->gdn_count == 0)
        return fail(ERR_UNSUPPORTED, "%s: %u linear and %u full attention layers; at least one of "
                    "each is expected", g->file->name, s->gdn_count, s->attention_count);
    return OK;
}

/* A draft block may bring an embedding or a head of its own. */
static enum err draft_own(struct files *files, struct model_shape *s)
{
    static const char *const words[] = { "embed_tokens", "shared_head_head" };
    for (u32 i = 0; i < COUNT_OF(words) && !s->mtp_embeddings; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.nextn.%s.weight", s->layer_count, words[i]);
        TRY(gguf_has_tensor(files, name, &s->mtp_embeddings));
    }
    return OK;
}

/* What the token list says: its length is the vocabulary, some ids go by their spelling. */
static enum err tokens(const struct gguf *g, struct model_shape *s)
{
    const struct gguf_key *list;
    struct text_span word;
    u64 eos = 0;
    TRY(gguf_strings(g, "tokenizer.ggml.tokens", &list));
    if (list->count < 1 || list->count > SHAPE_VOCAB_MAX)
        return fail(ERR_LIMIT, "%s: tokenizer.ggml.tokens has %llu items; 1 to %u are expected",
                    g->file->name, (ull)list->count, SHAPE_VOCAB_MAX);
    s->vocab = (u32)list->count;
    s->image_id = s->video_id = s->vision_start_id = s->vision_end_id = NONE;
    u32 id = 0;
    for (u64 at = 0; gguf_next(list, &at, &word); id++) {
        if (text_span_is(word, "<|image_pad|>")) s->image_id = id;
        if (text_span_is(word, "<|video_pad|>")) s->video_id = id;
        if (text_span_is(word, "<|vision_start|>")) s->vision_start_id = id;
        if (text_span_is(word, "<|vision_end|>")) s->vision_end_id = id;
    }
    TRY(gguf_u64(g, "tokenizer.ggml.eos_token_id", &eos));
    if (eos >= s->vocab)
        return fail(ERR_FORMAT, "%s: tokenizer.ggml.eos_token_id %llu is not below the %u tokens",
                    g->file->name, (ull)eos, s->vocab);
    s->eos[s->eos_count++] = (u32)eos;
    return OK;
}

static enum err read_all(struct files *files, const struct gguf *g, struct model_shape *s)
{
    f64 eps;
    u32 experts;
    bool head;
    TRY(arch_check(g));
    snprintf(s->model_type, sizeof s->model_type, "qwen3_5_text");
    TRY(size_or(g, "qwen35.expert_count", 0, 0, UINT32_MAX, &experts));
    if (experts > 0)
        return fail(ERR_UNSUPPORTED, "%s: qwen35.expert_count is %u; mixtures of experts are not "
                    "served by this version", g->file->name, experts);
    TRY(size_of(g, "qwen35.embedding_length", 2, SHAPE_HIDDEN_MAX, &s->hidden));
    TRY(size_of(g, "qwen35.feed_forward_length", 1, SHAPE_HIDDEN_MAX, &s->ffn));
    TRY(size_or(g, "qwen35.context_length", 32768, 1, SHAPE_CTX_MAX, &s->ctx_max));
    TRY(gguf_f64(g, "qwen35.attention.layer_norm_rms_epsilon", &eps));
    if (!(eps > 0.0 && eps < 1.0))
        return fail(ERR_FORMAT, "%s: qwen35.attention.layer_norm_rms_epsilon is %g; above 0 and "
                    "below 1 is expected", g->file->name, eps);
    s->eps = (f32)eps;
    TRY(attention(g, s));
    TRY(rope(g, s));
    TRY(linear(g, s));
    TRY(layers(g, s));
    TRY(tokens(g, s));
    if (s->mtp_layers > 0) TRY(draft_own(files, s));
    TRY(gguf_has_tensor(files, "output.weight", &head));
    s->tied = !head;                    /* no key says so: the tensors do                     */
    return OK;
}

static enum err f64_or(const struct gguf *g, const char *name, f64 otherwise, f64 *out)
{
    *out = otherwise;
    return gguf_find(g, name) != NULL ? gguf_f64(g, name, out) : OK;
}

/* What the converter copied from generation_config.json; top_k of 0 or less: all. */
static enum err sampling(const struct gguf *g, struct shape_sampling *s)
{
    f64 temperature, top_p, min_p, penalty;
    i64 top_k = 20;
    TRY(f64_or(g, "general.sampling.temp", 1.0, &temperature));
    TRY(f64_or(g, "general.sampling.top_p", 0.95, &top_p));
    TRY(f64_or(g, "general.sampling.min_p", 0.0, &min_p));
    TRY(f64_or(g, "general.sampling.penalty_repeat", 1.0, &penalty));
    if (gguf_find(g, "general.sampling.top_k") != NULL)
        TRY(gguf_i64(g, "general.sampling.top_k", &top_k));
    if (!(temperature >= 0.0 && temperature <= 100.0) || !(top_p > 0.0 && top_p <= 1.0) ||
        !(min_p >= 0.0 && min_p <= 1.0) || !(penalty > 0.0 && penalty <= 100.0))
        return fail(ERR_FORMAT, "%s: general.sampling.temp %g (0 to 100), top_p %g (above 0, at "
                    "most 1), min_p %g (0 to 1), penalty_repeat %g (above 0): one is outside its "
                    "range", g->file->name, temperature, top_p, min_p, penalty);
    *s = (struct shape_sampling){
        .temperature = (f32)temperature, .top_p = (f32)top_p, .min_p = (f32)min_p,
        .repetition_penalty = (f32)penalty,
        .top_k = top_k <= 0 ? 0 : (u32)MIN(top_k, (i64)SHAPE_VOCAB_MAX),
    };
    return OK;
}

enum err shape_gguf_load(struct files *files, struct model_shape *out)
{
    struct gguf g;
    struct model_shape s;
    memset(&s, 0, sizeof s);
    TRY(gguf_open(files, &g));
    TRY(sampling(&g, &s.sampling));
    TRY(read_all(files, &g, &s));
    *out = s;
    return OK;
}
