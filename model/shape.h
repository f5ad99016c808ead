/* model/shape.h - config.json and generation_config.json -> one flat row of sizes and layer rows.
 *
 * Both files are untrusted: every size has a limit, what is not served here is refused by name.
 * Pure data, no pointers; the family (model/family) decides what the numbers mean.
 * Source: HF model_type qwen3_5 (nested `text_config`, or a flat text-only export). */
#ifndef MODEL_SHAPE_H
#define MODEL_SHAPE_H

#include "model/files.h"

enum {
    SHAPE_LAYERS_MAX = 256,
    SHAPE_HIDDEN_MAX = 65536,           /* also of every other width                          */
    SHAPE_VOCAB_MAX = 1u << 22,
    SHAPE_HEADS_MAX = 1024,
    SHAPE_HEAD_DIM_MAX = 1024,
    SHAPE_CTX_MAX = 1u << 24,
    SHAPE_FREQ_MAX = 128,               /* rot / 2                                            */
    SHAPE_EOS_CAP = 16,
    SHAPE_CONFIG_BYTES_MAX = 4 << 20,
    SHAPE_CONV_TAPS = 4,
};

enum layer_kind { LAYER_GDN, LAYER_ATTENTION };
struct layer_row {
    u32 kind;                           /* enum layer_kind                                    */
    u32 index;                          /* among the layers of its kind                       */
};

struct shape_sampling {                 /* defaults of generation_config.json                 */
    f32 temperature;                    /* 0 when do_sample is false                          */
    f32 top_p, min_p, repetition_penalty;
    u32 top_k;
};

struct model_shape {
    char model_type[32];                /* of the text model: "qwen3_5_text"                  */
    u32  layer_count, gdn_count, attention_count;
    u32  hidden, ffn, vocab;
    u32  nh, nkv, d, rot;               /* attention: query heads, kv heads, head dim, turned */
    u32  hk, hv, dk, dv;                /* delta rule: key heads, value heads, their dims     */
    u32  conv_channels;                 /* 2 * hk * dk + hv * dv                              */
    u32  mrope_section[3];
    u32  mtp_layers;                    /* draft layers the checkpoint says it has            */
    bool mtp_embeddings;                /* they have an embedding or a head of their own      */
    bool draft;                         /* its head is loaded (set by model_open)             */
    u32  ctx_max;                       /* max_position_embeddings                            */
    f32  eps;
    f64  rope_theta;
    bool tied;                          /* lm_head is embed_tokens                            */
    bool gate_sigmoid;                  /* output_gate_type sigmoid                           */
    u32  eos_count;
    u32  eos[SHAPE_EOS_CAP];            /* generation_config's, then the config's             */
    u32  image_id, video_id, vision_start_id, vision_end_id;        /* or NONE                */
    struct shape_sampling sampling;
    f32  inv_freq[SHAPE_FREQ_MAX];      /* [rot / 2]: models.md 15, theta^(2j/rot)            */
    struct layer_row layer[SHAPE_LAYERS_MAX];
};

/* From the two texts; `generation` may be NULL.  ERR_FORMAT, ERR_LIMIT, ERR_UNSUPPORTED name the
 * key, its value and what was expected. */
MUST_USE enum err shape_parse(const char *config, u64 config_bytes, const char *generation,
                              u64 generation_bytes, struct model_shape *out);

/* The same from a model's files (config.json must be there, generation_config.json may). */
MUST_USE enum err shape_load(struct files *files, struct model_shape *out);

/* inv_freq of `rot` (twice a power of two) and rope_theta: models.md 15. */
void shape_frequencies(struct model_shape *s);

#endif
