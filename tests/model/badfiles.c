/* badfiles.c - checkpoints that are not what they should be: a clear error, never a crash.
 *
 * A good tiny checkpoint is written once; each case changes one thing and says which words the
 * error must hold. */
#include <sys/stat.h>

#include "model/tiny.h"
#include "tests/model/rig.h"

enum { FILE_CAP = 2 << 20 };
static const char *const DIR = "build/badfiles";
static u8 good[FILE_CAP], bad[FILE_CAP + 4096];
static u64 good_bytes, bad_bytes;
static enum model_draft draft;          /* the head that opening asks for                     */

static void put_file(const char *name, const void *bytes, u64 count)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", DIR, name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL && fwrite(bytes, 1, count, f) == count);
    fclose(f);
}

static void drop_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", DIR, name);
    unlink(path);
}

static void make_good(void)
{
    struct tiny_choice choice = { .layers = 4, .hidden = 64, .seed = 3,
                                  .mtp = draft != MODEL_DRAFT_OFF };
    char path[256];
    CHECK_OK(tiny_write(DIR, &choice));
    drop_file("model.safetensors.index.json");
    snprintf(path, sizeof path, "%s/model.safetensors", DIR);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    good_bytes = fread(good, 1, sizeof good, f);
    CHECK(good_bytes > 1000 && good_bytes < sizeof good);
    fclose(f);
    memcpy(bad, good, good_bytes);
    bad_bytes = good_bytes;
}

/* Opening is refused; the error holds both words. */
static void refused(enum err code, const char *word, const char *other)
{
    enum err err = rig_try(&(struct rig){ .dir = DIR, .block_rows = 16, .grid_rows = 64,
                                          .draft = draft });
    if (err == OK) rig_close();
    if (err != code || strstr(err_last()->text, word) == NULL ||
        strstr(err_last()->text, other) == NULL)
        test_failed(__FILE__, __LINE__, "expected %s with \"%s\" and \"%s\": %s, \"%s\"",
                    err_word(code), word, other, err_word(err), err_last()->text);
}

static void refused_weights(enum err code, const char *word, const char *other)
{
    put_file("model.safetensors", bad, bad_bytes);
    refused(code, word, other);
}

/* The header with `from` (once) replaced by `to`, its length kept in step, a multiple of 8. */
static void change_header(const char *from, const char *to)
{
    u64 length = 0, size = strlen(from), fresh = strlen(to), pad;
    for (u32 i = 0; i < 8; i++) length |= (u64)good[i] << 8 * i;
    const u8 *at = memmem(good + 8, length, from, size);
    if (at == NULL) test_failed(__FILE__, __LINE__, "no %s in the header", from);
    u64 before = (u64)(at - good);
    memcpy(bad, good, before);
    memcpy(bad + before, to, fresh);
    u64 rest = 8 + length - before - size;              /* of the header, behind `from` */
    pad = ALIGN_UP(length - size + fresh, 8) - (length - size + fresh);
    memcpy(bad + before + fresh, at + size, rest);
    memset(bad + before + fresh + rest, ' ', pad);
    memcpy(bad + before + fresh + rest + pad, good + 8 + length, good_bytes - 8 - length);
    bad_bytes = good_bytes - size + fresh + pad;
    length = length - size + fresh + pad;
    for (u32 i = 0; i < 8; i++) bad[i] = (u8)(length >> 8 * i);
}

TEST(the_checkpoint_that_is_changed_below_is_good)
{
    make_good();
    rig_open(&(struct rig){ .dir = DIR, .block_rows = 16, .grid_rows = 64 });
    rig_close();
}

TEST(a_file_cut_short_names_the_tensor_or_the_header)
{
    make_good();
    bad_bytes = good_bytes - 1;
    refused_weights(ERR_FORMAT, "model.safetensors", "cut short");
    bad_bytes = good_bytes / 2;
    refused_weights(ERR_FORMAT, "tensor", "cut short");
    bad_bytes = 100;
    refused_weights(ERR_FORMAT, "header", "cut short");
    bad_bytes = 5;
    refused_weights(ERR_FORMAT, "model.safetensors", "8 bytes");
    bad_bytes = 0;
    refused_weights(ERR_FORMAT, "model.safetensors", "8 bytes");
}

TEST(a_header_of_2_to_the_60_bytes_is_a_limit)
{
    make_good();
    memset(bad, 0, 8);
    bad[7] = 0x10;
    refused_weights(ERR_LIMIT, "header", "1152921504606846976");
    memset(bad, 0xff, 8);
    refused_weights(ERR_LIMIT, "header", "18446744073709551615");
}

TEST(a_header_that_is_no_object_of_tensors)
{
    make_good();
    bad[8] = '[';
    refused_weights(ERR_FORMAT, "model.safetensors", "not JSON");
    make_good();
    bad[20] = 0xff;
    refused_weights(ERR_FORMAT, "model.safetensors", "not JSON");
    change_header("\"dtype\":\"BF16\"", "\"dtype\":\"Q9\"");
    refused_weights(ERR_UNSUPPORTED, "dtype", "Q9");
    change_header("\"dtype\":\"BF16\"", "\"type\":\"BF16\"");
    refused_weights(ERR_FORMAT, "dtype", "expected");
    change_header("\"shape\":[64]", "\"shape\":[-64]");
    refused_weights(ERR_FORMAT, "shape", "tensor");
    change_header("\"shape\":[64]", "\"shape\":[18446744073709551615,3]");
    refused_weights(ERR_FORMAT, "overflows", "tensor");
    change_header("\"shape\":[64]", "\"shape\":[1,1,1,1,1,1,1,1,64]");
    refused_weights(ERR_FORMAT, "shape", "tensor");
}

TEST(offsets_outside_or_over_each_other)
{
    make_good();
    change_header("\"data_offsets\":[0,128]", "\"data_offsets\":[0,18446744073709551615]");
    refused_weights(ERR_FORMAT, "data_offsets", "input_layernorm");
    change_header("\"data_offsets\":[0,128]", "\"data_offsets\":[128,0]");
    refused_weights(ERR_FORMAT, "data_offsets", "input_layernorm");
    change_header("\"data_offsets\":[0,128]", "\"data_offsets\":[2,130]");
    refused_weights(ERR_FORMAT, "share bytes", "post_attention_layernorm");
    change_header("\"data_offsets\":[0,128]", "\"data_offsets\":[0,64]");
    refused_weights(ERR_FORMAT, "need 128", "input_layernorm");
    change_header("\"data_offsets\":[0,128]", "\"data_offsets\":[0]");
    refused_weights(ERR_FORMAT, "data_offsets", "input_layernorm");
}

TEST(names_twice_missing_or_of_another_shape)
{
    make_good();
    change_header("layers.0.post_attention_layernorm", "layers.0.input_layernorm");
    refused_weights(ERR_FORMAT, "twice", "layers.0.input_layernorm");
    change_header("layers.2.mlp.up_proj", "layers.2.mlp.up_prok");
    refused_weights(ERR_NOT_FOUND, "layers.2.mlp.up_proj.weight", "no tensor");
    change_header("embed_tokens", "embed_tokenz");
    refused_weights(ERR_NOT_FOUND, "embed_tokens.weight", "no tensor");
    change_header("\"shape\":[192,64]", "\"shape\":[64,192]");
    refused_weights(ERR_FORMAT, "mlp.gate_proj.weight", "[192, 64] is expected");
    change_header("\"shape\":[256,1,4]", "\"shape\":[256,4,1]");
    refused_weights(ERR_FORMAT, "conv1d.weight", "[256, 1, 4] is expected");
    change_header("layers.3.self_attn.q_norm.weight\":{\"dtype\":\"BF16\"",
                  "layers.3.self_attn.q_norm.weight\":{\"dtype\":\"I16\"");
    refused_weights(ERR_UNSUPPORTED, "q_norm.weight", "expected");
    change_header("layers.3.self_attn.q_norm", "layers.3.self_attn.\\u0071_norm");
    refused_weights(ERR_FORMAT, "name", "plain");
}

TEST(eight_bit_codes_need_their_scales)
{
    make_good();
    change_header("layers.0.mlp.gate_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[192,64]",
                  "layers.0.mlp.gate_proj.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[192,64]");
    refused_weights(ERR_FORMAT, "layers.0.mlp.gate_proj.weight", "need 12288");
}

TEST(an_index_that_names_what_is_not_there)
{
    static const char missing[] =
        "{\"weight_map\":{\"model.language_model.norm.weight\":\"model-00002-of-2.safetensors\"}}";
    static const char outside[] = "{\"weight_map\":{\"a\":\"../../etc/passwd\"}}";
    static const char hidden[] = "{\"weight_map\":{\"a\":\".safetensors\"}}";
    static const char wrong[] =
        "{\"weight_map\":{\"model.language_model.nose.weight\":\"model.safetensors\"}}";
    static const char list[] = "{\"weight_map\":[]}";
    make_good();
    put_file("model.safetensors.index.json", missing, sizeof missing - 1);
    refused(ERR_NOT_FOUND, "model-00002-of-2.safetensors", "model.safetensors.index.json");
    put_file("model.safetensors.index.json", outside, sizeof outside - 1);
    refused(ERR_FORMAT, "passwd", "plain file name");
    put_file("model.safetensors.index.json", hidden, sizeof hidden - 1);
    refused(ERR_FORMAT, ".safetensors", "plain file name");
    put_file("model.safetensors.index.json", wrong, sizeof wrong - 1);
    refused(ERR_FORMAT, "nose.weight", "does not hold it");
    put_file("model.safetensors.index.json", list, sizeof list - 1);
    refused(ERR_FORMAT, "weight_map", "object");
    put_file("model.safetensors.index.json", "{\"weight", 8);
    refused(ERR_FORMAT, "model.safetensors.index.json", "not JSON");
    drop_file("model.safetensors.index.json");
}

TEST(a_good_index_over_one_shard_is_the_same_model)
{
    static const char index[] =
        "{\"metadata\":{\"total_size\":1},\"weight_map\":{\"model.language_model.norm.weight\":"
        "\"part.safetensors\",\"lm_head.weight\":\"part.safetensors\"}}";
    u64 single[2], sharded[2];
    make_good();
    rig_open(&(struct rig){ .dir = DIR, .block_rows = 16, .grid_rows = 64 });
    weights_hash(single);
    rig_close();
    put_file("part.safetensors", good, good_bytes);
    drop_file("model.safetensors");
    put_file("model.safetensors.index.json", index, sizeof index - 1);
    rig_open(&(struct rig){ .dir = DIR, .block_rows = 16, .grid_rows = 64 });
    weights_hash(sharded);
    rig_close();
    CHECK(single[0] == sharded[0] && single[1] == sharded[1] && single[0] != 0);
    drop_file("model.safetensors.index.json");
    drop_file("part.safetensors");
}

TEST(the_hash_sees_every_byte)
{
    u64 first[2], second[2];
    make_good();
    rig_open(&(struct rig){ .dir = DIR, .block_rows = 16, .grid_rows = 64 });
    weights_hash(first);
    rig_close();
    bad[good_bytes - 1] ^= 1;
    put_file("model.safetensors", bad, bad_bytes);
    rig_open(&(struct rig){ .dir = DIR, .block_rows = 16, .grid_rows = 64 });
    weights_hash(second);
    rig_close();
    CHECK(first[0] != second[0] && first[1] != second[1]);
}

TEST(folders_without_what_a_model_needs)
{
    make_good();
    drop_file("model.safetensors");
    refused(ERR_NOT_FOUND, "model.safetensors", DIR);
    make_good();
    put_file("config.json", "{\"model_type\":\"qwen3_5\",\"layer_types\":[\"x\"]}", 44);
    refused(ERR_FORMAT, "config.json", "hidden_size");
    put_file("config.json", "{\"model_type\":\"qwen3_5\"", 23);
    refused(ERR_FORMAT, "config.json", "line 1");
    drop_file("config.json");
    refused(ERR_NOT_FOUND, "config.json", DIR);
    CHECK_EQ(rig_try(&(struct rig){ .dir = "build/nowhere" }), ERR_IO);
    CHECK(strstr(err_last()->text, "build/nowhere") != NULL);
    CHECK_EQ(rig_try(&(struct rig){ .dir = "build.sh" }), ERR_UNSUPPORTED);
    CHECK_EQ(rig_try(&(struct rig){ .dir = "" }), ERR_LIMIT);
}

/* The same bad head under --draft auto: the model opens without it. */
static void opens_headless(void)
{
    rig_open(&(struct rig){ .dir = DIR, .block_rows = 16, .grid_rows = 64,
                            .draft = MODEL_DRAFT_AUTO });
    CHECK(!model_shape()->draft);
    CHECK_EQ(state_shape()->view_count, 2);
    rig_close();
}

static void change_config(const char *from, const char *to)
{
    static char text[8192];
    char path[256];
    snprintf(path, sizeof path, "%s/config.json", DIR);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    u64 count = fread(text, 1, sizeof text - 64, f);
    fclose(f);
    text[count] = 0;
    char *at = strstr(text, from);
    CHECK(at != NULL);
    memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
    memcpy(at, to, strlen(to));
    put_file("config.json", text, strlen(text));
}

TEST(a_draft_head_that_is_not_served_is_named_or_left_out)
{
    draft = MODEL_DRAFT_MTP;
    make_good();
    rig_open(&(struct rig){ .dir = DIR, .block_rows = 16, .grid_rows = 64, .draft = draft });
    CHECK(model_shape()->draft);
    CHECK_EQ(state_shape()->view_count, 4);
    CHECK_STR(state_shape()->view[2].name, "mtp.K");
    rig_close();
    change_config("\"mtp_num_hidden_layers\":1", "\"mtp_num_hidden_layers\":2");
    refused(ERR_UNSUPPORTED, "mtp_num_hidden_layers is 2", "--draft mtp");
    opens_headless();
    change_config("\"mtp_num_hidden_layers\":2", "\"mtp_num_hidden_layers\":0");
    refused(ERR_UNSUPPORTED, "mtp_num_hidden_layers is 0", "--draft mtp");
    opens_headless();
    change_config("\"mtp_num_hidden_layers\":0",
                  "\"mtp_use_dedicated_embeddings\":true,\"mtp_num_hidden_layers\":1");
    refused(ERR_UNSUPPORTED, "mtp_use_dedicated_embeddings", "--draft mtp");
    opens_headless();
    change_config("\"mtp_use_dedicated_embeddings\":true,", "");
    change_header("mtp.fc.weight", "mtp.fx.weight");
    refused_weights(ERR_NOT_FOUND, "there is no tensor", "mtp.fc.weight");
    opens_headless();
    change_header("mtp.fc.weight\":{\"dtype\":\"BF16\"", "mtp.fc.weight\":{\"dtype\":\"I16\"");
    refused_weights(ERR_UNSUPPORTED, "mtp.fc.weight", "I16");
    opens_headless();
    change_header("mtp.fc.weight\":{\"dtype\":\"BF16\",\"shape\":[64,128]",
                  "mtp.fc.weight\":{\"dtype\":\"BF16\",\"shape\":[128,64]");
    refused_weights(ERR_FORMAT, "mtp.fc.weight", "[64, 128] is expected");
    draft = MODEL_DRAFT_AUTO;           /* a head that is there and broken is an error         */
    refused_weights(ERR_FORMAT, "mtp.fc.weight", "[64, 128] is expected");
    draft = MODEL_DRAFT_OFF;
}

TEST(every_commit_that_fails_leaves_nothing_open)
{
    make_good();
    for (u32 n = 1, fired = 1; fired; n++) {
        space_host_fail_commit(n);
        enum err err = rig_try(&(struct rig){ .dir = DIR, .block_rows = 16, .grid_rows = 64 });
        space_host_fail_commit(0);
        fired = err != OK;
        if (fired) CHECK_EQ(err, ERR_MEMORY);
        else rig_close();
        CHECK(n < 100);
    }
}

TEST(tiny_models_repeat_and_refuse_sizes)
{
    struct tiny_choice choice = { .layers = 3 };
    CHECK_EQ(tiny_write(DIR, &choice), ERR_USAGE);
    choice = (struct tiny_choice){ .hidden = 100 };
    CHECK_EQ(tiny_write(DIR, &choice), ERR_USAGE);
    choice = (struct tiny_choice){ .family = "qwen4_exp" };
    CHECK_EQ(tiny_write(DIR, &choice), ERR_UNSUPPORTED);
    make_good();
    u64 bytes = good_bytes;
    static u8 before[FILE_CAP];
    memcpy(before, good, bytes);
    make_good();
    CHECK(bytes == good_bytes && memcmp(before, good, bytes) == 0);
}
