/* tests/model/madefile.h - a small GGUF file written here: every matrix in one format, the bits of
 * every block drawn from base/rng, so the same on every machine.  Static, for tests to include.
 *
 * Widths are multiples of 256 (Q4_K, Q5_K, Q6_K); a key head has two value heads, tiled. */
#ifndef MODEL_MADEFILE_H
#define MODEL_MADEFILE_H

#include <stdio.h>
#include <string.h>

#include "arena/base/hash.h"
#include "arena/base/rng.h"
#include "model/cpu/quant.h"
#include "model/family/family.h"
#include "model/maths.h"
#include "tests/test.h"

enum {
    MADE_HIDDEN = 256, MADE_FFN = 512, MADE_LAYERS = 4, MADE_VOCAB = 288,
    MADE_NH = 4, MADE_NKV = 2, MADE_D = 64, MADE_ROT = 16, MADE_HK = 2, MADE_HV = 4, MADE_DK = 32,
    MADE_DV = 64, MADE_ALIGN = 32, MADE_TENSOR_CAP = 96,
};

struct made_tensor { struct family_tensor t; u64 offset; u32 type; u64 bytes; };
static struct made_tensor made_tensor[MADE_TENSOR_CAP];
static u32 made_count;

/* ---- metadata -------------------------------------------------------------------------------- */

static void made_word(FILE *f, u64 value, u32 bytes)
{
    CHECK(fwrite(&value, bytes, 1, f) == 1);
}

static void made_text(FILE *f, const char *text)
{
    made_word(f, strlen(text), 8);
    CHECK(fwrite(text, 1, strlen(text), f) == strlen(text));
}

static void made_u32(FILE *f, const char *key, u32 value)
{
    made_text(f, key);
    made_word(f, 4, 4);
    made_word(f, value, 4);
}

static void made_f32(FILE *f, const char *key, f32 value)
{
    made_text(f, key);
    made_word(f, 6, 4);
    made_word(f, maths_bits(value), 4);
}

static void made_keys(FILE *f)
{
    static const struct { const char *name; u32 value; } sizes[] = {
        { "qwen35.embedding_length", MADE_HIDDEN }, { "qwen35.feed_forward_length", MADE_FFN },
        { "qwen35.context_length", 4096 }, { "qwen35.block_count", MADE_LAYERS },
        { "qwen35.attention.head_count", MADE_NH }, { "qwen35.attention.head_count_kv", MADE_NKV },
        { "qwen35.attention.key_length", MADE_D }, { "qwen35.attention.value_length", MADE_D },
        { "qwen35.rope.dimension_count", MADE_ROT }, { "qwen35.ssm.group_count", MADE_HK },
        { "qwen35.ssm.time_step_rank", MADE_HV }, { "qwen35.ssm.state_size", MADE_DK },
        { "qwen35.ssm.inner_size", MADE_HV * MADE_DV }, { "qwen35.ssm.conv_kernel", 4 },
        { "tokenizer.ggml.eos_token_id", 1 },
    };
    made_word(f, COUNT_OF(sizes) + 4, 8);
    made_text(f, "general.architecture");
    made_word(f, 8, 4);
    made_text(f, "qwen35");
    for (u32 i = 0; i < COUNT_OF(sizes); i++) made_u32(f, sizes[i].name, sizes[i].value);
    made_f32(f, "qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
    made_f32(f, "qwen35.rope.freq_base", 1e7f);
    made_text(f, "tokenizer.ggml.tokens");
    made_word(f, 9, 4);
    made_word(f, 8, 4);
    made_word(f, MADE_VOCAB, 8);
    for (u32 i = 0; i < MADE_VOCAB; i++) {
        char word[16];
        snprintf(word, sizeof word, "<%u>", i);
        made_text(f, word);
    }
}

/* ---- tensors --------------------------------------------------------------------------------- */

static u32 made_type(const struct family_tensor *t, enum ops_source type)
{
    static const u32 ids[OPS_SOURCE_COUNT] = {
        [OPS_BF16] = 30, [OPS_F16] = 1, [OPS_F32] = 0, [OPS_Q8_0] = 8, [OPS_Q4_0] = 2,
        [OPS_Q4_K] = 12, [OPS_Q5_K] = 13, [OPS_Q6_K] = 14,
    };
    return t->form == FORM_MATRIX || t->form == FORM_TABLE ? ids[type] : 0;
}

static void made_list(enum ops_source type)
{
    static struct model_shape s = {
        .layer_count = MADE_LAYERS, .hidden = MADE_HIDDEN, .ffn = MADE_FFN, .vocab = MADE_VOCAB,
        .nh = MADE_NH, .nkv = MADE_NKV, .d = MADE_D, .rot = MADE_ROT, .hk = MADE_HK,
        .hv = MADE_HV, .dk = MADE_DK, .dv = MADE_DV,
        .conv_channels = 2 * MADE_HK * MADE_DK + MADE_HV * MADE_DV,
        .layer[3] = { .kind = LAYER_ATTENTION },
    };
    const struct family *family = family_find("qwen3_5_text");
    u64 at = 0;
    made_count = 0;
    CHECK(family != NULL);
    for (u32 layer = 0; layer <= MADE_LAYERS; layer++) {
        struct made_tensor *m = &made_tensor[made_count];
        for (u32 k = 0; family->tensor(&s, layer, k, &m->t); k++, m = &made_tensor[made_count]) {
            u64 values = (u64)m->t.rows * m->t.cols;
            bool blocks = m->t.form == FORM_MATRIX || m->t.form == FORM_TABLE;
            family->gguf(&s, layer, &m->t);
            m->type = made_type(&m->t, type);
            m->bytes = values * 4;
            if (blocks && type == OPS_BF16) m->bytes = values * 2;
            else if (blocks)
                m->bytes = values / quant_block_values(type) * quant_block_bytes(type);
            m->offset = at;
            at = ALIGN_UP(at + m->bytes, MADE_ALIGN);
            CHECK(++made_count < MADE_TENSOR_CAP);
        }
    }
}

/* Scales that give weights of about 1/16: d, then dmin, of a block's exponents. */
static void made_scales(enum ops_source type, u64 bits, u8 *block)
{
    static const struct { u16 d, least; u8 at, least_at; } rows[OPS_SOURCE_COUNT] = {
        [OPS_Q8_0] = { 0x1200, 0, 0, 0 }, [OPS_Q4_0] = { 0x2000, 0, 0, 0 },
        [OPS_Q4_K] = { 0x1000, 0x1c00, 0, 2 }, [OPS_Q5_K] = { 0x0c00, 0x1c00, 0, 2 },
        [OPS_Q6_K] = { 0x0200, 0, 208, 0 },
    };
    u16 d = (u16)(rows[type].d | (bits & 0x1ff));
    u16 least = (u16)(rows[type].least | (bits >> 9 & 0x1ff));
    memcpy(block + rows[type].at, &d, 2);
    if (rows[type].least != 0) memcpy(block + rows[type].least_at, &least, 2);
}

static f32 made_value(const struct family_tensor *t, u64 seed, u64 i)
{
    f32 x = rng_f32(seed, i) - 0.5f;
    if (t->role == ROLE_GDN_DECAY) return -0.02f - 0.2f * (x + 0.5f);
    if (t->form == FORM_TAPS || t->role == ROLE_GDN_DT) return x;
    return 1.0f + 0.2f * x;
}

static void made_data(FILE *f, const struct made_tensor *m, enum ops_source type, u64 seed)
{
    static u8 bytes[1 << 20];
    bool blocks = m->t.form == FORM_MATRIX || m->t.form == FORM_TABLE;
    CHECK(m->bytes <= sizeof bytes);
    for (u64 i = 0; i < m->bytes; i += 8) {
        u64 bits = rng_u64(seed, i / 8);
        memcpy(bytes + i, &bits, MIN(8u, m->bytes - i));
    }
    for (u64 i = 0; i < (u64)m->t.rows * m->t.cols && (!blocks || type == OPS_BF16); i++) {
        f32 value = blocks ? (rng_f32(seed, i) - 0.5f) * 0.2f : made_value(&m->t, seed, i);
        bf16 narrow = maths_to_bf16(value);
        if (blocks) memcpy(bytes + 2 * i, &narrow, 2);
        else memcpy(bytes + 4 * i, &value, 4);
    }
    if (blocks && type != OPS_BF16)
        for (u64 i = 0; i < m->bytes / quant_block_bytes(type); i++)
            made_scales(type, rng_u64(seed + 1, i), bytes + i * quant_block_bytes(type));
    CHECK(fwrite(bytes, 1, m->bytes, f) == m->bytes);
    while (ftell(f) % MADE_ALIGN != 0) fputc(0, f);
}

/* Writes `path`, matrices of `type`: OPS_BF16 or a block format. */
static void made_write(const char *path, enum ops_source type, u64 seed)
{
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    made_list(type);
    CHECK(fwrite("GGUF", 1, 4, f) == 4);
    made_word(f, 3, 4);
    made_word(f, made_count, 8);
    made_keys(f);
    for (u32 i = 0; i < made_count; i++) {
        const struct family_tensor *t = &made_tensor[i].t;
        made_text(f, t->name);
        made_word(f, t->cols > 1 ? 2 : 1, 4);
        if (t->cols > 1) made_word(f, t->cols, 8);
        made_word(f, t->rows, 8);
        made_word(f, made_tensor[i].type, 4);
        made_word(f, made_tensor[i].offset, 8);
    }
    while (ftell(f) % MADE_ALIGN != 0) fputc(0, f);
    for (u32 i = 0; i < made_count; i++)
        made_data(f, &made_tensor[i], type, seed + hash_64(made_tensor[i].t.name,
                                                          strlen(made_tensor[i].t.name)));
    CHECK(fclose(f) == 0);
}

#endif
