/* http/chat/model.c - defaults of a loaded model, and where the text side's memory comes from. */
#include "http/chat/model.h"

#include "arena/base/json.h"
#include "arena/heap.h"
#include "http/turn/turn.h"

const struct text_source chat_model_heap = { .take = arena_heap_alloc, .give = arena_heap_free };

enum { CONFIG_BYTES = 1 << 20, CONFIG_DEPTH = 16 };

/* Names as in HF transformers GenerationConfig; do_sample false is greedy. */
static enum err sampling_of(const struct json_at *root, struct sample_settings *s)
{
    f64 temperature, top_p, min_p, repetition;
    i64 top_k;
    bool sample;
    TRY(json_f64_or(root, "temperature", 1.0, &temperature));
    TRY(json_f64_or(root, "top_p", 1.0, &top_p));
    TRY(json_f64_or(root, "min_p", 0.0, &min_p));
    TRY(json_f64_or(root, "repetition_penalty", 1.0, &repetition));
    TRY(json_i64_or(root, "top_k", 0, &top_k));
    TRY(json_bool_or(root, "do_sample", true, &sample));
    *s = (struct sample_settings){
        .temperature = sample ? (f32)temperature : 0.0f, .top_p = (f32)top_p, .min_p = (f32)min_p,
        .repetition_penalty = repetition > 0 ? (f32)repetition : 1.0f,
        .top_k = top_k < 0 ? 0 : (u32)MIN(top_k, INT32_MAX),
    };
    return OK;
}

enum err chat_model_fill(const struct profile_row *profile, struct text_span generation_config,
                         struct chat_model *out)
{
    static const u8 effort[] = {
        [EFFORT_XHIGH] = TEMPLATE_EFFORT_XHIGH, [EFFORT_MEDIUM] = TEMPLATE_EFFORT_MEDIUM,
        [EFFORT_LOW] = TEMPLATE_EFFORT_LOW, [EFFORT_NONE] = TEMPLATE_EFFORT_UNSET,
    };
    struct sample_settings sampling = { .temperature = 1, .top_p = 1, .repetition_penalty = 1 };
    if (generation_config.len > 0) {
        struct json_doc doc;
        struct json_at root;
        struct json_limits limits = { CONFIG_BYTES, CONFIG_DEPTH };
        TRY(json_open(generation_config.bytes, generation_config.len, limits,
                      "generation_config.json", &doc, &root));
        enum err code = sampling_of(&root, &sampling);
        json_close(&doc);
        TRY(code);
    }
    *out = (struct chat_model){
        .sampling = sampling,
        .normal = {
            .late_system_refuse = profile->late_system == LATE_REFUSE,
            .thinking = profile->reasoning_effort == EFFORT_NONE ? TEMPLATE_OFF : TEMPLATE_UNSET,
            .effort = effort[MIN(profile->reasoning_effort, (u32)EFFORT_NONE)],
        },
        .reference_specials = profile->reference_specials,
        .strict_model = profile->strict_model, .test_hooks = profile->test_hooks,
        .reasoning_field = (enum chat_reasoning_field)profile->reasoning_field,
        .json_depth = MIN(profile->json_depth, (u32)JSONTEXT_DEPTH_MAX),
        .stop_cap = MIN(profile->stop_strings, (u32)TURN_STOP_CAP), .tools_cap = profile->tools,
        .slots = profile->parallel,
    };
    return OK;
}
