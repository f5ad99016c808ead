/* model/shape.c - reading config.json: sizes with limits, refusals by name, rope frequencies. */
#include "model/shape.h"

#include <stdio.h>
#include <string.h>

#include "arena/base/json.h"

static const struct json_limits LIMITS = { .bytes_max = SHAPE_CONFIG_BYTES_MAX, .depth_max = 32 };

/* A size in [lo, hi]. */
static enum err size_of(const struct json_at *at, const char *key, u32 lo, u32 hi, u32 *out)
{
    u64 value;
    TRY(json_u64(at, key, &value));
    if (value < lo || value > hi)
        return fail(ERR_LIMIT, "config.json: %s is %llu; %u to %u is expected", key, (ull)value,
                    lo, hi);
    *out = (u32)value;
    return OK;
}

static enum err size_or(const struct json_at *at, const char *key, u32 otherwise, u32 lo, u32 hi,
                        u32 *out)
{
    struct json_at found;
    *out = otherwise;
    return json_find(at, key, &found) ? size_of(at, key, lo, hi, out) : OK;
}

/* model_type decides the family; the neighbours are refused by their names. */
static enum err type_check(const struct json_at *at, const char **out)
{
    const char *type;
    TRY(json_str(at, "model_type", &type, NULL));
    if (strcmp(type, "qwen3_5") == 0 || strcmp(type, "qwen3_5_text") == 0) {
        *out = type;
        return OK;
    }
    static const char *const known[] = {
        "qwen3_5_moe", "qwen3_5_moe_text", "qwen4_exp", "qwen4_exp_text", "qwen3_next",
    };
    for (u32 i = 0; i < COUNT_OF(known); i++)
        if (strcmp(type, known[i]) == 0)
            return fail(ERR_UNSUPPORTED, "config.json: model_type %s is not served by this "
                        "version (dense qwen3_5 is)", known[i]);
    return fail(ERR_UNSUPPORTED, "config.json: model_type \"%.40s\" is not known; qwen3_5 or "
                "qwen3_5_text is expected", type);
}

static enum err word_check(const struct json_at *at, const char *key, const char *expected)
{
    const char *word;
    TRY(json_str_or(at, key, expected, &word));
    if (strcmp(word, expected) != 0)
        return fail(ERR_UNSUPPORTED, "config.json: %s is \"%.40s\"; only %s is served", key, word,
                    expected);
    return OK;
}

static enum err flag_check(const struct json_at *at, const char *key, bool expected)
{
    bool value;
    TRY(json_bool_or(at, key, expected, &value));
    if (value != expected)
        return fail(ERR_UNSUPPORTED, "config.json: %s is %s; only %s is served", key,
                    value ? "true" : "false", expected ? "true" : "false");
    return OK;
}

/* theta^(2j/rot) without pow: log2(rot/2) square roots of theta in double, then products. */
void shape_frequencies(struct model_shape *s)
{
    u32 half = s->rot / 2;
    f64 ratio = s->rope_theta;
    for (u32 n = half; n > 1; n /= 2) ratio = __builtin_sqrt(ratio);
    f64 d = 1.0;
    for (u32 j = 0; j < half; j++) {
        s->inv_freq[j] = 1.0f / (f32)d;
        d *= ratio;
    }
}

static enum err rope(const struct json_at *c, struct model_shape *s)
{
    struct json_at nested, scaling, section, item;
    bool has = json_find(c, "rope_parameters", &nested);
    if (!has) nested = *c;
    f64 fraction, outer;
    if (json_find(c, "rope_scaling", &scaling)) {       /* the older place of the same word   */
        TRY(word_check(&scaling, "rope_type", "default"));
        TRY(word_check(&scaling, "type", "default"));
    }
    TRY(word_check(&nested, "rope_type", "default"));
    TRY(flag_check(&nested, "mrope_interleaved", true));
    TRY(json_f64_or(c, "partial_rotary_factor", 0.25, &outer));
    TRY(json_f64_or(&nested, "partial_rotary_factor", outer, &fraction));
    TRY(json_f64_or(c, "rope_theta", 1e7, &outer));
    TRY(json_f64_or(&nested, "rope_theta", outer, &s->rope_theta));
    if (!(fraction > 0.0 && fraction <= 1.0))
        return fail(ERR_FORMAT, "config.json: partial_rotary_factor is %g; above 0 and at most 1 "
                    "is expected", fraction);
    if (!(s->rope_theta >= 1.0 && s->rope_theta <= 1e12))
        return fail(ERR_FORMAT, "config.json: rope_theta is %g; 1 to 1e12 is expected",
                    s->rope_theta);
    s->rot = (u32)((f64)s->d * fraction);
    u32 half = s->rot / 2;
    if (s->rot < 2 || s->rot % 2 != 0 || (half & (half - 1)) != 0 || half > SHAPE_FREQ_MAX)
        return fail(ERR_UNSUPPORTED, "config.json: head_dim %u times partial_rotary_factor %g "
                    "turns %u dims; twice a power of two up to %d is expected", s->d, fraction,
                    s->rot, 2 * SHAPE_FREQ_MAX);
    static const u32 usual[3] = { 11, 11, 10 };
    memcpy(s->mrope_section, usual, sizeof usual);
    if (json_find(&nested, "mrope_section", &section)) {
        if (json_kind(&section) != JSON_IS_ARRAY || json_count(&section) != 3)
            return fail(ERR_FORMAT, "config.json: mrope_section: three integers are expected");
        for (u32 i = 0; i < 3; i++) {
            TRY(json_item(&section, i, &item));
            TRY(json_u32(&item, NULL, &s->mrope_section[i]));
        }
    }
    shape_frequencies(s);
    return OK;
}

static enum err layers(const struct json_at *c, struct model_shape *s)
{
    u32 interval;
    struct json_at types, item;
    TRY(size_of(c, "num_hidden_layers", 1, SHAPE_LAYERS_MAX, &s->layer_count));
    TRY(size_or(c, "full_attention_interval", 4, 1, SHAPE_LAYERS_MAX, &interval));
    bool listed = json_find(c, "layer_types", &types);
    if (listed && (json_kind(&types) != JSON_IS_ARRAY || json_count(&types) != s->layer_count))
        return fail(ERR_FORMAT, "config.json: layer_types: an array of num_hidden_layers = %u "
                    "words is expected", s->layer_count);
    for (u32 i = 0; i < s->layer_count; i++) {
        bool full = (i + 1) % interval == 0;
        if (listed) {
            const char *word;
            TRY(json_item(&types, i, &item));
            TRY(json_str(&item, NULL, &word, NULL));
            full = strcmp(word, "full_attention") == 0;
            if (!full && strcmp(word, "linear_attention") != 0)
                return fail(ERR_UNSUPPORTED, "config.json: layer_types[%u] is \"%.40s\"; "
                            "linear_attention or full_attention is expected", i, word);
        }
        s->layer[i].kind = full ? LAYER_ATTENTION : LAYER_GDN;
        s->layer[i].index = full ? s->attention_count++ : s->gdn_count++;
    }
    if (s->attention_count == 0 || s->gdn_count == 0)
        return fail(ERR_UNSUPPORTED, "config.json: %u linear and %u full attention layers; at "
                    "least one of each is expected", s->gdn_count, s->attention_count);
    return OK;
}

static enum err attention(const struct json_at *c, struct model_shape *s)
{
    TRY(flag_check(c, "attention_bias", false));
    TRY(flag_check(c, "attn_output_gate", true));
    TRY(size_of(c, "num_attention_heads", 1, SHAPE_HEADS_MAX, &s->nh));
    TRY(size_of(c, "num_key_value_heads", 1, SHAPE_HEADS_MAX, &s->nkv));
    if (s->nh % s->nkv != 0)
        return fail(ERR_FORMAT, "config.json: num_attention_heads %u is no multiple of "
                    "num_key_value_heads %u", s->nh, s->nkv);
    TRY(size_or(c, "head_dim", s->hidden / s->nh, 2, SHAPE_HEAD_DIM_MAX, &s->d));
    if (s->d < 2 || s->d % 2 != 0)
        return fail(ERR_FORMAT, "config.json: head_dim is %u; an even number is expected", s->d);
    if ((u64)s->nh * s->d > SHAPE_HIDDEN_MAX)
        return fail(ERR_LIMIT, "config.json: num_attention_heads %u times head_dim %u is over %d",
                    s->nh, s->d, SHAPE_HIDDEN_MAX);
    return rope(c, s);
}

static enum err linear(const struct json_at *c, struct model_shape *s)
{
    u32 taps;
    TRY(size_or(c, "linear_num_key_heads", 16, 1, SHAPE_HEADS_MAX, &s->hk));
    TRY(size_or(c, "linear_num_value_heads", 32, 1, SHAPE_HEADS_MAX, &s->hv));
    TRY(size_or(c, "linear_key_head_dim", 128, 1, SHAPE_HEAD_DIM_MAX, &s->dk));
    TRY(size_or(c, "linear_value_head_dim", 128, 1, SHAPE_HEAD_DIM_MAX, &s->dv));
    TRY(size_or(c, "linear_conv_kernel_dim", SHAPE_CONV_TAPS, 1, 64, &taps));
    if (taps != SHAPE_CONV_TAPS)
        return fail(ERR_UNSUPPORTED, "config.json: linear_conv_kernel_dim is %u; only %d is "
                    "served", taps, SHAPE_CONV_TAPS);
    if (s->hv % s->hk != 0)
        return fail(ERR_FORMAT, "config.json: linear_num_value_heads %u is no multiple of "
                    "linear_num_key_heads %u", s->hv, s->hk);
    u64 channels = 2ull * s->hk * s->dk + (u64)s->hv * s->dv;
    if (channels > SHAPE_HIDDEN_MAX)
        return fail(ERR_LIMIT, "config.json: the linear heads have %llu channels; at most %d are "
                    "expected", (ull)channels, SHAPE_HIDDEN_MAX);
    s->conv_channels = (u32)channels;
    const char *gate;
    TRY(json_str_or(c, "output_gate_type", "silu", &gate));
    s->gate_sigmoid = strcmp(gate, "sigmoid") == 0;
    if (!s->gate_sigmoid && strcmp(gate, "silu") != 0 && strcmp(gate, "swish") != 0)
        return fail(ERR_UNSUPPORTED, "config.json: output_gate_type is \"%.40s\"; silu, swish or "
                    "sigmoid is expected", gate);
    return OK;
}

/* An id or a list of ids, each below the vocabulary; what is there already isn't added again. */
static enum err eos_add(const struct json_at *at, const char *file, struct model_shape *s)
{
    struct json_at found, item;
    if (!json_find(at, "eos_token_id", &found)) return OK;
    u32 count = json_kind(&found) == JSON_IS_ARRAY ? json_count(&found) : 1;
    for (u32 i = 0; i < count; i++) {
        u32 id, k = 0;
        item = found;
        if (json_kind(&found) == JSON_IS_ARRAY) TRY(json_item(&found, i, &item));
        TRY(json_u32(&item, NULL, &id));
        if (id >= s->vocab)
            return fail(ERR_FORMAT, "%s: eos_token_id %u is not below vocab_size %u", file, id,
                        s->vocab);
        while (k < s->eos_count && s->eos[k] != id) k++;
        if (k < s->eos_count) continue;
        if (s->eos_count == SHAPE_EOS_CAP)
            return fail(ERR_LIMIT, "%s: more than %d eos_token_id", file, SHAPE_EOS_CAP);
        s->eos[s->eos_count++] = id;
    }
    return OK;
}

static enum err text_keys(const struct json_at *top, const struct json_at *c,
                          struct model_shape *s)
{
    f64 eps;
    u64 experts;
    TRY(word_check(c, "hidden_act", "silu"));
    TRY(json_u64_or(c, "num_experts", 0, &experts));
    if (experts > 0)
        return fail(ERR_UNSUPPORTED, "config.json: num_experts is %llu; mixtures of experts are "
                    "not served by this version", (ull)experts);
    TRY(size_of(c, "hidden_size", 2, SHAPE_HIDDEN_MAX, &s->hidden));
    TRY(size_of(c, "intermediate_size", 1, SHAPE_HIDDEN_MAX, &s->ffn));
    TRY(size_of(c, "vocab_size", 1, SHAPE_VOCAB_MAX, &s->vocab));
    TRY(size_or(c, "max_position_embeddings", 32768, 1, SHAPE_CTX_MAX, &s->ctx_max));
    TRY(size_or(c, "mtp_num_hidden_layers", 0, 0, 16, &s->mtp_layers));
    TRY(json_bool_or(c, "mtp_use_dedicated_embeddings", false, &s->mtp_embeddings));
    TRY(json_f64_or(c, "rms_norm_eps", 1e-6, &eps));
    if (!(eps > 0.0 && eps < 1.0))
        return fail(ERR_FORMAT, "config.json: rms_norm_eps is %g; above 0 and below 1 is expected",
                    eps);
    s->eps = (f32)eps;
    TRY(attention(c, s));
    TRY(linear(c, s));
    TRY(layers(c, s));
    bool inner;
    TRY(json_bool_or(c, "tie_word_embeddings", false, &inner));
    TRY(json_bool_or(top, "tie_word_embeddings", inner, &s->tied));
    TRY(json_u32_or(top, "image_token_id", NONE, &s->image_id));
    TRY(json_u32_or(top, "video_token_id", NONE, &s->video_id));
    TRY(json_u32_or(top, "vision_start_token_id", NONE, &s->vision_start_id));
    return json_u32_or(top, "vision_end_token_id", NONE, &s->vision_end_id);
}

static enum err config_read(const struct json_at *top, struct model_shape *s)
{
    const char *type;
    struct json_at c;
    TRY(type_check(top, &type));
    if (json_find(top, "text_config", &c)) TRY(type_check(&c, &type));
    else c = *top;
    snprintf(s->model_type, sizeof s->model_type, "%s", type);
    return text_keys(top, &c, s);
}

static enum err generation_read(const struct json_at *g, struct model_shape *s)
{
    bool sample;
    f64 temperature, top_p, min_p, penalty;
    TRY(eos_add(g, "generation_config.json", s));
    TRY(json_bool_or(g, "do_sample", true, &sample));
    TRY(json_f64_or(g, "temperature", 1.0, &temperature));
    TRY(json_f64_or(g, "top_p", 1.0, &top_p));
    TRY(json_f64_or(g, "min_p", 0.0, &min_p));
    TRY(json_f64_or(g, "repetition_penalty", 1.0, &penalty));
    TRY(json_u32_or(g, "top_k", 0, &s->sampling.top_k));
    if (!(temperature >= 0.0 && temperature <= 100.0) || !(top_p > 0.0 && top_p <= 1.0) ||
        !(min_p >= 0.0 && min_p <= 1.0) || !(penalty > 0.0 && penalty <= 100.0))
        return fail(ERR_FORMAT, "generation_config.json: temperature %g (0 to 100), top_p %g "
                    "(above 0, at most 1), min_p %g (0 to 1), repetition_penalty %g (above 0): "
                    "one is outside its range", temperature, top_p, min_p, penalty);
    s->sampling.temperature = sample ? (f32)temperature : 0.0f;
    s->sampling.top_p = (f32)top_p;
    s->sampling.min_p = (f32)min_p;
    s->sampling.repetition_penalty = (f32)penalty;
    return OK;
}

/* The config's own eos comes after generation_config's. */
static enum err eos_of_config(const struct json_at *top, struct model_shape *s)
{
    struct json_at c;
    if (json_find(top, "text_config", &c)) TRY(eos_add(&c, "config.json", s));
    return eos_add(top, "config.json", s);
}

enum err shape_parse(const char *config, u64 config_bytes, const char *generation,
                     u64 generation_bytes, struct model_shape *out)
{
    struct model_shape s;
    struct json_doc doc = { NULL }, second = { NULL };
    struct json_at top, g;
    memset(&s, 0, sizeof s);
    s.sampling = (struct shape_sampling){ .temperature = 1.0f, .top_p = 0.95f, .top_k = 20,
                                          .repetition_penalty = 1.0f };   /* without a file */
    enum err err = json_open(config, config_bytes, LIMITS, "config.json", &doc, &top);
    if (err == OK) err = config_read(&top, &s);
    if (err == OK && generation != NULL) {
        err = json_open(generation, generation_bytes, LIMITS, "generation_config.json", &second,
                        &g);
        if (err == OK) err = generation_read(&g, &s);
        json_close(&second);
    }
    if (err == OK) err = eos_of_config(&top, &s);
    json_close(&doc);
    if (err == OK) *out = s;
    return err;
}

enum err shape_load(struct files *files, struct model_shape *out)
{
    const struct files_row *config, *generation;
    TRY(files_get(files, "config.json", &config));
    TRY(files_try(files, "generation_config.json", &generation));
    return shape_parse((const char *)config->data, config->bytes,
                       generation == NULL ? NULL : (const char *)generation->data,
                       generation == NULL ? 0 : generation->bytes, out);
}
