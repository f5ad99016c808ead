/* shape.c - what config.json may say: sizes, limits, refusals by name, frequencies as bits. */
#include <stdio.h>
#include <string.h>

#include "model/family/family.h"
#include "model/shape.h"
#include "tests/test.h"

#define KEYS                                                                                     \
    "\"hidden_size\":128,\"intermediate_size\":384,\"num_hidden_layers\":8,\"vocab_size\":512,"  \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":64,"                       \
    "\"linear_num_key_heads\":4,\"linear_num_value_heads\":8,\"linear_key_head_dim\":32,"        \
    "\"linear_value_head_dim\":32,\"eos_token_id\":509"

static struct model_shape shape;

static enum err parse(const char *format, const char *extra, const char *generation)
{
    char text[4096];
    snprintf(text, sizeof text, format, extra);
    return shape_parse(text, strlen(text), generation, generation ? strlen(generation) : 0,
                       &shape);
}

static const char *const NESTED =
    "{\"model_type\":\"qwen3_5\",\"text_config\":{\"model_type\":\"qwen3_5_text\"," KEYS "%s}}";
static const char *const FLAT = "{\"model_type\":\"qwen3_5_text\"," KEYS "%s}";

/* The nested config with `extra` is refused with `code`, and the text names `word`. */
static void refused(const char *extra, enum err code, const char *word)
{
    enum err err = parse(NESTED, extra, NULL);
    if (err != code || strstr(err_last()->text, word) == NULL)
        test_failed(__FILE__, __LINE__, "%s: %s, \"%s\"", extra, err_word(err), err_last()->text);
}

TEST(nested_and_flat_configs_give_the_same_shape)
{
    CHECK_OK(parse(NESTED, "", NULL));
    struct model_shape nested = shape;
    CHECK_OK(parse(FLAT, "", NULL));
    CHECK(memcmp(&nested, &shape, sizeof shape) == 0);
    CHECK_EQ(shape.gdn_count, 6);
    CHECK_EQ(shape.attention_count, 2);
    CHECK_EQ(shape.layer[7].kind, LAYER_ATTENTION);
    CHECK_EQ(shape.layer[7].index, 1);
    CHECK_EQ(shape.conv_channels, 512);
    CHECK_EQ(shape.rot, 16);
    CHECK_EQ(shape.eos_count, 1);
    CHECK_EQ(shape.eos[0], 509);
}

TEST(unknown_keys_are_ignored_and_layer_types_decide)
{
    CHECK_OK(parse(NESTED, ",\"mlp_only_layers\":[],\"initializer_range\":0.02,\"dtype\":null,"
                   "\"generation_config\":{\"a\":1},\"layer_types\":[\"full_attention\","
                   "\"linear_attention\",\"linear_attention\",\"linear_attention\","
                   "\"linear_attention\",\"linear_attention\",\"linear_attention\","
                   "\"linear_attention\"]", NULL));
    CHECK_EQ(shape.layer[0].kind, LAYER_ATTENTION);
    CHECK_EQ(shape.gdn_count, 7);
}

TEST(what_is_not_served_is_refused_by_name)
{
    refused(",\"attention_bias\":true", ERR_UNSUPPORTED, "attention_bias");
    refused(",\"rope_parameters\":{\"rope_type\":\"yarn\"}", ERR_UNSUPPORTED, "rope_type");
    refused(",\"rope_parameters\":{\"mrope_interleaved\":false}", ERR_UNSUPPORTED,
            "mrope_interleaved");
    refused(",\"output_gate_type\":\"tanh\"", ERR_UNSUPPORTED, "output_gate_type");
    refused(",\"attn_output_gate\":false", ERR_UNSUPPORTED, "attn_output_gate");
    refused(",\"hidden_act\":\"gelu\"", ERR_UNSUPPORTED, "hidden_act");
    refused(",\"linear_conv_kernel_dim\":3", ERR_UNSUPPORTED, "linear_conv_kernel_dim");
    refused(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}", ERR_UNSUPPORTED, "yarn");
    CHECK_OK(parse(NESTED, ",\"num_experts\":0,\"rope_scaling\":null", NULL));
    refused(",\"num_experts\":8", ERR_UNSUPPORTED, "num_experts");
    refused(",\"layer_types\":[\"linear_attention\",\"linear_attention\",\"linear_attention\","
            "\"sliding_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\","
            "\"full_attention\"]", ERR_UNSUPPORTED, "sliding_attention");
    refused(",\"partial_rotary_factor\":0.375", ERR_UNSUPPORTED, "twice a power of two");
}

TEST(neighbour_families_are_refused_by_their_names)
{
    static const char *const types[] = { "qwen3_5_moe", "qwen4_exp", "qwen3_next", "llama" };
    for (u32 i = 0; i < COUNT_OF(types); i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"model_type\":\"%s\",\"hidden_size\":8}", types[i]);
        CHECK_EQ(shape_parse(text, strlen(text), NULL, 0, &shape), ERR_UNSUPPORTED);
        CHECK(strstr(err_last()->text, types[i]) != NULL);
    }
}

TEST(bad_sizes_are_refused_with_their_key)
{
    struct { const char *from, *to, *word; } cases[] = {
        { "\"hidden_size\":128", "\"hidden_size\":0", "hidden_size" },
        { "\"hidden_size\":128", "\"hidden_size\":1e300", "hidden_size" },
        { "\"hidden_size\":128", "\"hidden_size\":\"128\"", "hidden_size" },
        { "\"hidden_size\":128", "\"hidden_siz\":128", "hidden_size" },
        { "\"vocab_size\":512", "\"vocab_size\":99999999999", "vocab_size" },
        { "\"num_hidden_layers\":8", "\"num_hidden_layers\":257", "num_hidden_layers" },
        { "\"num_key_value_heads\":2", "\"num_key_value_heads\":3", "num_key_value_heads" },
        { "\"head_dim\":64", "\"head_dim\":-64", "head_dim" },
        { "\"head_dim\":64", "\"head_dim\":63", "head_dim" },
        { "\"linear_num_value_heads\":8", "\"linear_num_value_heads\":9", "linear_num_value" },
        { "\"linear_key_head_dim\":32", "\"linear_key_head_dim\":2000", "linear_key_head_dim" },
        { "\"eos_token_id\":509", "\"eos_token_id\":512", "eos_token_id" },
        { "\"num_hidden_layers\":8", "\"num_hidden_layers\":3", "full attention layers" },
    };
    for (u32 i = 0; i < COUNT_OF(cases); i++) {
        char text[2048], changed[2048];
        snprintf(text, sizeof text, FLAT, "");
        char *at = strstr(text, cases[i].from);
        CHECK(at != NULL);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, cases[i].to,
                 at + strlen(cases[i].from));
        enum err err = shape_parse(changed, strlen(changed), NULL, 0, &shape);
        if (err == OK || strstr(err_last()->text, cases[i].word) == NULL)
            test_failed(__FILE__, __LINE__, "%s: %s, \"%s\"", cases[i].to, err_word(err),
                        err_last()->text);
    }
}

TEST(eos_and_sampling_come_from_generation_config)
{
    CHECK_OK(parse(NESTED, "", "{\"eos_token_id\":[510,508],\"do_sample\":true,"
                   "\"temperature\":0.6,\"top_k\":20,\"top_p\":0.95}"));
    CHECK_EQ(shape.eos_count, 3);
    CHECK_EQ(shape.eos[0], 510);
    CHECK_EQ(shape.eos[2], 509);
    CHECK(shape.sampling.temperature == 0.6f && shape.sampling.top_k == 20);
    CHECK_OK(parse(NESTED, "", NULL));                  /* no file: the family's usual values */
    CHECK(shape.sampling.temperature == 1.0f && shape.sampling.top_k == 20);
    CHECK_OK(parse(NESTED, "", "{\"do_sample\":false}"));
    CHECK(shape.sampling.temperature == 0.0f);
    CHECK_EQ(parse(NESTED, "", "{\"top_p\":1.5}"), ERR_FORMAT);
    CHECK_EQ(parse(NESTED, "", "{\"eos_token_id\":[1,\"x\"]}"), ERR_FORMAT);
}

TEST(rope_frequencies_are_the_correctly_rounded_powers)
{
    CHECK_OK(parse(NESTED, ",\"rope_parameters\":{\"rope_theta\":10000000,"
                   "\"partial_rotary_factor\":0.5}", NULL));
    CHECK_EQ(shape.rot, 32);
    CHECK(shape.inv_freq[0] == 1.0f);
    /* theta 1e7, rot 32: theta^(2j/32); j = 8 is sqrt(theta) */
    CHECK(shape.inv_freq[8] == 1.0f / 3162.2776601683795f);
    CHECK(shape.inv_freq[1] == 1.0f / 2.7384196342643614f);
}

TEST(sections_and_views_stand_on_their_lines)
{
    static struct state_shape layout;
    CHECK_OK(parse(NESTED, "", NULL));
    const struct family *family = family_find(shape.model_type);
    CHECK_OK(family->fill(&shape, 16, 64, 2, &layout));
    CHECK_EQ(layout.section_count, 12);
    CHECK_EQ(layout.section[0].bytes, 8 * 32 * 32 * 4);
    CHECK_EQ(layout.section[1].bytes, 512 * 3 * 2);
    CHECK_STR(layout.section[7].name, "tail.4");
    for (u32 i = 0; i < layout.section_count; i++)
        CHECK_EQ(layout.section[i].offset_bytes % 256, 0);
    CHECK_EQ(layout.view_count, 2);
    CHECK_EQ(layout.view[0].row_bytes, 2 * 64 * 2);
    CHECK_EQ(layout.view[1].offset_bytes, 2 * layout.view[0].strip_bytes);
    CHECK_EQ(layout.block_bytes % 4096, 0);
    CHECK_EQ(family->fill(&shape, 24, 48, 2, &layout), ERR_CONFIG);
    CHECK_EQ(family->fill(&shape, 2, 4, 2, &layout), ERR_CONFIG);
    CHECK_EQ(family->fill(&shape, 16, 40, 2, &layout), ERR_CONFIG);
}

TEST(the_27b_has_the_bytes_of_the_specification)
{
    static struct state_shape layout;
    const char *text =
        "{\"model_type\":\"qwen3_5\",\"text_config\":{\"model_type\":\"qwen3_5_text\","
        "\"hidden_size\":5120,\"num_hidden_layers\":64,\"intermediate_size\":17408,"
        "\"num_attention_heads\":24,\"num_key_value_heads\":4,\"head_dim\":256,"
        "\"linear_num_key_heads\":16,\"linear_num_value_heads\":48,\"vocab_size\":248320}}";
    CHECK_OK(shape_parse(text, strlen(text), NULL, 0, &shape));
    CHECK_OK(family_find(shape.model_type)->fill(&shape, 256, 1024, 2, &layout));
    CHECK_EQ(layout.section_bytes, 153944064);
    CHECK_EQ(layout.block_bytes, 256 * 65536);
}
