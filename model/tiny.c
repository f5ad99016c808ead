/* model/tiny.c - the family's own list of tensors, filled with scaled random numbers. */
#include "model/tiny.h"

#include <stdio.h>
#include <string.h>

#include "arena/base/file.h"
#include "arena/base/hash.h"
#include "arena/base/json.h"
#include "arena/base/rng.h"
#include "model/family/family.h"

enum { BYTE_TOKENS = 256, VOCAB = 288, PIECE = 8192 };

static const struct { const char *text; bool special; } ADDED[] = {
    { "<|endoftext|>", true }, { "<|im_start|>", true }, { "<|im_end|>", true },
    { "<|object_ref_start|>", true }, { "<|object_ref_end|>", true }, { "<|box_start|>", true },
    { "<|box_end|>", true }, { "<|quad_start|>", true }, { "<|quad_end|>", true },
    { "<|vision_start|>", true }, { "<|vision_end|>", true }, { "<|vision_pad|>", true },
    { "<|image_pad|>", true }, { "<|video_pad|>", true }, { "<tool_call>", false },
    { "</tool_call>", false }, { "<|fim_prefix|>", false }, { "<|fim_middle|>", false },
    { "<|fim_suffix|>", false }, { "<|fim_pad|>", false }, { "<|repo_name|>", false },
    { "<|file_sep|>", false }, { "<tool_response>", false }, { "</tool_response>", false },
    { "<think>", false }, { "</think>", false },
};
enum { ID_END_OF_TEXT = BYTE_TOKENS, ID_TURN_END = BYTE_TOKENS + 2 };
static_assert(BYTE_TOKENS + COUNT_OF(ADDED) <= VOCAB, "the rest are padding rows");

/* ---------------------------------------------------------------- the text files */
static enum err write_file(const char *dir, const char *name, struct json_out *out)
{
    char path[FILE_PATH_BYTES];
    enum err err = json_out_check(out);
    if (err == OK) err = file_join(dir, name, path);
    if (err == OK) err = file_commit(path, out->text, out->bytes, 0644);
    json_out_close(out);
    return err;
}

static void put_u64(struct json_out *out, const char *key, u64 value)
{
    json_put_key(out, key);
    json_put_u64(out, value);
}

static void put_str(struct json_out *out, const char *key, const char *value)
{
    json_put_key(out, key);
    json_put_cstr(out, value);
}

static void put_bool(struct json_out *out, const char *key, bool value)
{
    json_put_key(out, key);
    json_put_bool(out, value);
}

static void put_f64(struct json_out *out, const char *key, f64 value)
{
    json_put_key(out, key);
    json_put_f64(out, value);
}

static void put_rope(struct json_out *out)
{
    json_put_key(out, "rope_parameters");
    json_put_object(out);
    put_str(out, "rope_type", "default");
    put_u64(out, "rope_theta", 10000000);
    put_f64(out, "partial_rotary_factor", 0.25);
    put_bool(out, "mrope_interleaved", true);
    json_put_key(out, "mrope_section");
    json_put_raw(out, "[3,3,2]", 7);
    json_put_object_end(out);
}

static void put_config(struct json_out *out, u32 layers, u32 hidden, bool tied, bool mtp)
{
    json_put_object(out);
    json_put_key(out, "architectures");
    json_put_raw(out, "[\"Qwen3_5ForCausalLM\"]", 22);
    put_str(out, "model_type", "qwen3_5");
    put_bool(out, "tie_word_embeddings", tied);
    json_put_key(out, "text_config");
    json_put_object(out);
    put_str(out, "model_type", "qwen3_5_text");
    put_str(out, "dtype", "bfloat16");
    put_u64(out, "vocab_size", VOCAB);
    put_u64(out, "hidden_size", hidden);
    put_u64(out, "intermediate_size", 3ull * hidden);
    put_u64(out, "num_hidden_layers", layers);
    put_u64(out, "num_attention_heads", hidden / 32);
    put_u64(out, "num_key_value_heads", hidden / 64);
    put_u64(out, "head_dim", 64);
    put_str(out, "hidden_act", "silu");
    put_u64(out, "full_attention_interval", 4);
    put_u64(out, "linear_conv_kernel_dim", 4);
    put_u64(out, "linear_num_key_heads", hidden / 32);
    put_u64(out, "linear_num_value_heads", hidden / 16);
    put_u64(out, "linear_key_head_dim", 32);
    put_u64(out, "linear_value_head_dim", 32);
    put_u64(out, "max_position_embeddings", 65536);
    if (mtp) put_u64(out, "mtp_num_hidden_layers", 1);
    put_f64(out, "rms_norm_eps", 1e-6);
    put_rope(out);
    put_u64(out, "bos_token_id", ID_END_OF_TEXT);
    put_u64(out, "eos_token_id", ID_END_OF_TEXT);
    json_put_object_end(out);
    put_u64(out, "vision_start_token_id", BYTE_TOKENS + 9);
    put_u64(out, "vision_end_token_id", BYTE_TOKENS + 10);
    put_u64(out, "image_token_id", BYTE_TOKENS + 12);
    put_u64(out, "video_token_id", BYTE_TOKENS + 13);
    json_put_object_end(out);
}

static void put_generation(struct json_out *out)
{
    char eos[32];
    int bytes = snprintf(eos, sizeof eos, "[%d,%d]", ID_TURN_END, ID_END_OF_TEXT);
    json_put_object(out);
    put_u64(out, "bos_token_id", ID_END_OF_TEXT);
    put_u64(out, "pad_token_id", ID_END_OF_TEXT);
    json_put_key(out, "eos_token_id");
    json_put_raw(out, eos, (u64)bytes);
    put_bool(out, "do_sample", true);
    put_f64(out, "temperature", 1.0);
    put_u64(out, "top_k", 20);
    put_f64(out, "top_p", 0.95);
    json_put_object_end(out);
}

/* The byte-level alphabet: printable bytes stand for themselves, the rest start at U+0100. */
static u64 byte_char(u32 byte, char out[2])
{
    u32 code = byte, other = 0;
    bool itself = (byte >= 33 && byte < 127) || (byte >= 161 && byte != 173);
    for (u32 b = 0; b < byte; b++)
        other += !((b >= 33 && b < 127) || (b >= 161 && b != 173));
    if (!itself) code = 256 + other;
    if (code < 128) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
    return 2;
}

static void put_added(struct json_out *out, u32 i, bool id)
{
    json_put_object(out);
    if (id) put_u64(out, "id", BYTE_TOKENS + i);
    put_str(out, "content", ADDED[i].text);
    put_bool(out, "single_word", false);
    put_bool(out, "lstrip", false);
    put_bool(out, "rstrip", false);
    put_bool(out, "normalized", false);
    put_bool(out, "special", ADDED[i].special);
    json_put_object_end(out);
}

static void put_tokenizer(struct json_out *out)
{
    static const char rest[] =
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
        "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|"
        "\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"
        "\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":"
        "\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false}]}";
    json_put_object(out);
    put_str(out, "version", "1.0");
    json_put_key(out, "added_tokens");
    json_put_array(out);
    for (u32 i = 0; i < COUNT_OF(ADDED); i++) put_added(out, i, true);
    json_put_array_end(out);
    json_put_key(out, "normalizer");
    json_put_raw(out, "{\"type\":\"NFC\"}", 14);
    json_put_key(out, "pre_tokenizer");
    json_put_raw(out, rest, sizeof rest - 1);
    json_put_key(out, "model");
    json_put_object(out);
    put_str(out, "type", "BPE");
    json_put_key(out, "vocab");
    json_put_object(out);
    for (u32 byte = 0; byte < BYTE_TOKENS; byte++) {
        char text[3] = { 0 };
        byte_char(byte, text);
        put_u64(out, text, byte);
    }
    json_put_object_end(out);
    json_put_key(out, "merges");
    json_put_raw(out, "[]", 2);
    json_put_object_end(out);
    json_put_object_end(out);
}

static void put_tokenizer_config(struct json_out *out)
{
    char id[16];
    json_put_object(out);
    put_bool(out, "add_bos_token", false);
    put_bool(out, "add_prefix_space", false);
    put_str(out, "eos_token", "<|im_end|>");
    put_str(out, "pad_token", "<|endoftext|>");
    put_str(out, "tokenizer_class", "Qwen2Tokenizer");
    put_str(out, "holdfast_chat_template", "3.8");
    json_put_key(out, "added_tokens_decoder");
    json_put_object(out);
    for (u32 i = 0; i < COUNT_OF(ADDED); i++) {
        snprintf(id, sizeof id, "%u", BYTE_TOKENS + i);
        json_put_key(out, id);
        put_added(out, i, false);
    }
    json_put_object_end(out);
    json_put_object_end(out);
}

/* ---------------------------------------------------------------- the tensors */
/* About normal: four uniform numbers, mean 0, variance 1. */
static f32 normal(u64 seed, u64 i)
{
    f32 sum = 0.0f;
    for (u32 k = 0; k < 4; k++) sum += rng_f32(seed, 4 * i + k);
    return (sum - 2.0f) * 1.7320508f;
}

/* Residual branches are scaled down, so that activations stay near 1. */
static f32 matrix_scale(u32 role)
{
    switch (role) {
    case ROLE_GDN_QKV: case ROLE_GDN_Z: return 1.5f;
    case ROLE_GDN_A: return 0.7f;
    case ROLE_O: case ROLE_GDN_OUT: case ROLE_MLP_DOWN: return 0.24f;
    case ROLE_HEAD: return 2.0f;
    case ROLE_DRAFT_JOIN: return 0.3f;
    default: return 1.0f;
    }
}

/* A draft head that says something: its joined row is the token's embedding, which a trunk of small
 * residual branches hands on too, and half the hidden row; its last norm is the trunk's. */
static f32 draft_value(const struct family_tensor *t, u64 i, f32 value)
{
    u64 row = i / t->cols, col = i % t->cols;
    if (t->role != ROLE_DRAFT_JOIN) return value;
    return value + (col == row ? 1.0f : col == row + t->rows ? 0.5f : 0.0f);
}

static u64 seed_of(const struct family_tensor *t, u64 choice_seed)
{
    const char *name = t->role == ROLE_NORM ? "norm.weight" : t->name;
    return choice_seed ^ hash_64(name, strlen(name));
}

static f32 value_of(const struct family_tensor *t, u64 seed, u64 i, f32 scale)
{
    switch (t->form) {
    case FORM_SCALE:
        return (t->role == ROLE_Q_NORM || t->role == ROLE_K_NORM ? 0.3f : 0.0f) +
               0.15f * normal(seed, i);
    case FORM_PLAIN:
        return t->role == ROLE_GDN_DT ? 0.5f * rng_f32(seed, i) - 0.25f
                                      : 1.0f + 0.15f * normal(seed, i);
    case FORM_DECAY:            /* log rates from log 0.69 to log 0.002, over softplus(0) */
        return 0.3665f - 0.371f -
               5.844f * (f32)((5 * i + 3) % t->rows) / (f32)MAX(t->rows - 1, 1);
    case FORM_TAPS: return 0.5f * normal(seed, i);
    default: return scale * normal(seed, i);
    }
}

static u16 bf16_of(f32 x)
{
    union { f32 f; u32 u; } v = { .f = x };
    return (u16)((v.u + 0x7fff + (v.u >> 16 & 1)) >> 16);
}

/* The k-th tensor of the file, with its name; false past the last. */
static bool tensor_at(const struct model_shape *s, const struct family *family, u32 *layer, u32 *k,
                      struct family_tensor *out)
{
    while (*layer <= family_draft_layer(s)) {
        if (family->tensor(s, *layer, (*k)++, out)) {
            if (out->role == ROLE_HEAD && s->tied) continue;
            return true;
        }
        (*layer)++;
        *k = 0;
    }
    return false;
}

static void put_header(struct json_out *out, const struct model_shape *s,
                       const struct family *family)
{
    struct family_tensor t;
    u64 at = 0;
    json_put_object(out);
    for (u32 layer = 0, k = 0; tensor_at(s, family, &layer, &k, &t);) {
        char name[FAMILY_NAME_BYTES + 32];
        u64 bytes = 2ull * t.rows * t.cols;
        snprintf(name, sizeof name, "%s%s", t.top ? "" : "model.language_model.", t.name);
        json_put_key(out, name);
        json_put_object(out);
        put_str(out, "dtype", "BF16");
        json_put_key(out, "shape");
        json_put_array(out);
        json_put_u64(out, t.rows);
        if (t.form == FORM_TAPS) json_put_u64(out, 1);
        if (t.form == FORM_TAPS || t.form == FORM_MATRIX || t.form == FORM_TABLE)
            json_put_u64(out, t.cols);
        json_put_array_end(out);
        json_put_key(out, "data_offsets");
        json_put_array(out);
        json_put_u64(out, at);
        json_put_u64(out, at + bytes);
        json_put_array_end(out);
        json_put_object_end(out);
        at += bytes;
    }
    json_put_object_end(out);
    while (!out->failed && out->bytes % 8 != 0) json_put_plain(out, " ", 1);
}

static enum err write_tensor(int fd, const struct family_tensor *t, u64 choice_seed)
{
    u8 piece[2 * PIECE];
    u64 count = (u64)t->rows * t->cols, held = 0;
    u64 seed = seed_of(t, choice_seed);
    f32 scale = t->form == FORM_TABLE ? 1.0f
              : matrix_scale(t->role) / __builtin_sqrtf((f32)t->cols);
    for (u64 i = 0; i < count; i++) {
        u16 bits = bf16_of(draft_value(t, i, value_of(t, seed, i, scale)));
        piece[2 * held] = (u8)bits;
        piece[2 * held + 1] = (u8)(bits >> 8);
        if (++held < PIECE && i + 1 < count) continue;
        TRY(file_append(fd, piece, 2 * held));
        held = 0;
    }
    return OK;
}

static enum err write_all(int fd, const struct model_shape *s, const struct family *family,
                          u64 seed)
{
    struct json_out header = { 0 };
    struct family_tensor t;
    u8 length[8];
    put_header(&header, s, family);
    enum err err = json_out_check(&header);
    for (u32 i = 0; i < 8; i++) length[i] = (u8)(header.bytes >> 8 * i);
    if (err == OK) err = file_append(fd, length, sizeof length);
    if (err == OK) err = file_append(fd, header.text, header.bytes);
    json_out_close(&header);
    for (u32 layer = 0, k = 0; err == OK && tensor_at(s, family, &layer, &k, &t);)
        err = write_tensor(fd, &t, seed);
    return err;
}

static enum err write_weights(const char *dir, const struct model_shape *s, u64 seed)
{
    char path[FILE_PATH_BYTES];
    struct file_draft draft;
    const struct family *family = family_find(s->model_type);
    TRY(file_join(dir, "model.safetensors", path));
    TRY(file_draft_begin(path, 0644, &draft));
    enum err err = write_all(draft.fd, s, family, seed);
    if (err == OK) return file_draft_end(&draft);
    file_draft_drop(&draft);
    return err;
}

enum err tiny_write(const char *dir, const struct tiny_choice *choice)
{
    static struct model_shape shape;
    struct json_out out = { 0 };
    u32 layers = choice->layers == 0 ? 8 : choice->layers;
    u32 hidden = choice->hidden == 0 ? 128 : choice->hidden;
    if (choice->family != NULL && strcmp(choice->family, "qwen3_5") != 0)
        return fail(ERR_UNSUPPORTED, "--family %.40s: this version writes qwen3_5",
                    choice->family);
    if (layers < 4 || layers > SHAPE_LAYERS_MAX)
        return fail(ERR_USAGE, "--layers %u: 4 to %d are expected", layers, SHAPE_LAYERS_MAX);
    if (hidden < 64 || hidden > 8192 || hidden % 64 != 0)
        return fail(ERR_USAGE, "--hidden %u: a multiple of 64 from 64 to 8192 is expected",
                    hidden);
    TRY(file_make_folder(dir, 0755));
    put_config(&out, layers, hidden, choice->tied, choice->mtp);
    enum err err = json_out_check(&out);
    if (err == OK) err = shape_parse(out.text, out.bytes, NULL, 0, &shape);
    if (err != OK) {
        json_out_close(&out);
        return err;
    }
    shape.draft = choice->mtp;
    TRY(write_file(dir, "config.json", &out));
    put_generation(&out);
    TRY(write_file(dir, "generation_config.json", &out));
    put_tokenizer(&out);
    TRY(write_file(dir, "tokenizer.json", &out));
    put_tokenizer_config(&out);
    TRY(write_file(dir, "tokenizer_config.json", &out));
    return write_weights(dir, &shape, choice->seed);
}
