/* tests/micromodel.h - the smallest model of the family: hidden 32, 3 delta layers and 1 attention
 * layer, 64 ids; with or without a draft head.  Written by model/tiny's own writer from a smaller
 * config; about 60 KiB. */
#ifndef TESTS_MICROMODEL_H
#define TESTS_MICROMODEL_H

#include "model/tiny.c"
#include "tests/test.h"

static const char micromodel_config[] =
    "{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"model_type\":\"qwen3_5\","
    "\"tie_word_embeddings\":false,\"text_config\":{\"model_type\":\"qwen3_5_text\","
    "\"dtype\":\"bfloat16\",\"vocab_size\":64,\"hidden_size\":32,\"intermediate_size\":32,"
    "\"num_hidden_layers\":4,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":16,"
    "\"hidden_act\":\"silu\",\"full_attention_interval\":4,\"linear_conv_kernel_dim\":4,"
    "\"linear_num_key_heads\":1,\"linear_num_value_heads\":2,\"linear_key_head_dim\":16,"
    "\"linear_value_head_dim\":16,\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-6,"
    "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000,"
    "\"partial_rotary_factor\":0.25,\"mrope_interleaved\":true,\"mrope_section\":[3,3,2]},"
    "\"eos_token_id\":3}}";

static const char *micromodel_write(const char *dir, bool draft)
{
    static struct model_shape shape;
    char path[128], text[sizeof micromodel_config + 64];
    int bytes = snprintf(text, sizeof text, "%.*s%s}}", (int)sizeof micromodel_config - 3,
                         micromodel_config, draft ? ",\"mtp_num_hidden_layers\":1" : "");
    snprintf(path, sizeof path, "%s/config.json", dir);
    CHECK_OK(file_make_folder("build", 0755));
    CHECK_OK(file_make_folder(dir, 0755));
    CHECK_OK(shape_parse(text, (u64)bytes, NULL, 0, &shape));
    CHECK_OK(file_commit(path, text, (u64)bytes, 0644));
    shape.draft = draft;
    CHECK_OK(write_weights(dir, &shape, 1));
    return dir;
}

/* Folder of the model, written when it isn't there: the same bytes every time. */
__attribute__((unused)) static const char *micromodel_dir(void)
{
    return micromodel_write("build/micromodel", false);
}

/* The same trunk with a draft head, of which some tokens come true. */
__attribute__((unused)) static const char *micromodel_draft_dir(void)
{
    return micromodel_write("build/micromodel-draft", true);
}

#endif
