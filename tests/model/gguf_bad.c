/* gguf_bad.c - GGUF files that are not what they should be: each a clear error.
 *
 * Small files are written here key by key; one real file is changed in place.  The error must hold
 * the words that say which key or tensor, and what was expected. */
#include "model/gguf.h"
#include "model/shape_gguf.h"
#include "model/text/tokenizer.h"
#include "tests/model/rig.h"

enum { CAP = 8 << 20 };

static u8 bytes[CAP];
static u64 count;
static struct files files;
static struct gguf g;
static struct tensors tensors;
static struct model_shape shape;

/* ---------------------------------------------------------------- writing */
static void put(u64 value, u32 width)
{
    for (u32 i = 0; i < width; i++) bytes[count++] = (u8)(value >> (8 * i));
}

static void put_string(const char *s)
{
    put(strlen(s), 8);
    memcpy(bytes + count, s, strlen(s));
    count += strlen(s);
}

static void put_head(u64 tensor_count, u64 key_count)
{
    count = 0;
    memcpy(bytes, "GGUF", 4);
    count = 4;
    put(3, 4);
    put(tensor_count, 8);
    put(key_count, 8);
}

static void put_key_u32(const char *name, u32 value)
{
    put_string(name);
    put(GGUF_U32, 4);
    put(value, 4);
}

static void put_key_string(const char *name, const char *value)
{
    put_string(name);
    put(GGUF_STRING, 4);
    put_string(value);
}

static void put_info(const char *name, u64 in, u64 out, u32 type, u64 offset)
{
    put_string(name);
    put(2, 4);
    put(in, 8);
    put(out, 8);
    put(type, 4);
    put(offset, 8);
}

static void put_data(u64 data_bytes)
{
    while (count % 32 != 0) put(0, 1);
    memset(bytes + count, 0, data_bytes);
    count += data_bytes;
}

static void as_file(u32 index, const char *name, const u8 *data, u64 data_bytes)
{
    memset(&files.row[index], 0, sizeof files.row[index]);
    strcpy(files.row[index].name, name);
    files.row[index].data = data;
    files.row[index].bytes = data_bytes;
    files.embedded = true;              /* nothing is looked for on the disk                  */
    strcpy(files.gguf, files.row[0].name);
    files.count = index + 1;
}

static void expect(enum err have, enum err code, const char *word, const char *other)
{
    if (have != code || strstr(err_last()->text, word) == NULL ||
        strstr(err_last()->text, other) == NULL)
        test_failed(__FILE__, __LINE__, "expected %s with \"%s\" and \"%s\": %s, \"%s\"",
                    err_word(code), word, other, err_word(have), err_last()->text);
}

static void refused(enum err code, const char *word, const char *other)
{
    as_file(0, "x.gguf", bytes, count);
    expect(gguf_tensors(&files, &tensors), code, word, other);
}

/* ---------------------------------------------------------------- heads and keys */
TEST(a_small_file_is_good)
{
    put_head(2, 2);
    put_key_u32("general.alignment", 32);
    put_key_string("general.name", "n");
    put_info("a", 32, 2, 8, 0);
    put_info("b", 4, 1, 0, 96);
    put_data(128);
    as_file(0, "x.gguf", bytes, count);
    CHECK_OK(gguf_tensors(&files, &tensors));
    CHECK_EQ(tensors.count, 2);
    CHECK_EQ(tensors.row[0].dim[0], 2);
    CHECK_EQ(tensors.row[0].dim[1], 32);
    CHECK_EQ(tensors.row[0].bytes, 68);
    CHECK_EQ(tensors.row[1].data - tensors.row[0].data, 96);
}

TEST(every_cut_of_a_good_file_is_refused)
{
    put_head(2, 2);
    put_key_u32("general.alignment", 32);
    put_key_string("general.name", "n");
    put_info("a", 32, 2, 8, 0);
    put_info("b", 4, 1, 0, 96);
    put_data(112);                      /* ends with the last tensor's last byte              */
    u64 whole = count;
    for (count = 0; count < whole; count++) {
        u8 *exact = malloc(count + 1);                  /* ASan sees a byte too far           */
        memcpy(exact, bytes, count);
        as_file(0, "x.gguf", exact, count);
        expect(gguf_tensors(&files, &tensors), ERR_FORMAT, "x.gguf",
               count < 24 ? "GGUF" : "cut short");
        free(exact);
    }
}

TEST(heads_that_lie)
{
    put_head(0, 0);
    bytes[0] = 'g';
    refused(ERR_FORMAT, "x.gguf", "begin with GGUF");
    put_head(0, 0);
    bytes[4] = 2;
    refused(ERR_UNSUPPORTED, "version 2", "3 is expected");
    put_head(1ull << 60, 0);
    refused(ERR_LIMIT, "1152921504606846976 tensors", "8192");
    put_head(0, 1ull << 60);
    refused(ERR_LIMIT, "1152921504606846976 keys", "512");
}

TEST(keys_that_lie)
{
    put_head(0, 1);
    put(1ull << 60, 8);
    refused(ERR_FORMAT, "a key's name", "cut short");
    put_head(0, 1);
    put_string("bad\nname");
    refused(ERR_FORMAT, "a key's name", "printable");
    put_head(0, 1);
    put_string("k");
    put(13, 4);
    put(0, 8);
    refused(ERR_UNSUPPORTED, "key k", "type 13");
    put_head(0, 1);
    put_string("k");
    put(GGUF_ARRAY, 4);
    put(GGUF_ARRAY, 4);
    put(1, 8);
    refused(ERR_UNSUPPORTED, "key k", "arrays in arrays");
    put_head(0, 1);
    put_string("k");
    put(GGUF_ARRAY, 4);
    put(GGUF_F64, 4);
    put(1ull << 60, 8);
    put(0, 8);
    refused(ERR_FORMAT, "key k", "1152921504606846976 items");
    put_head(0, 1);
    put_string("k");
    put(GGUF_ARRAY, 4);
    put(GGUF_STRING, 4);
    put(1, 8);
    put(UINT64_MAX, 8);
    refused(ERR_FORMAT, "key k", "cut short");
    put_head(0, 2);
    put_key_u32("k", 1);
    put_key_u32("k", 2);
    refused(ERR_FORMAT, "key k", "twice");
    put_head(0, 1);
    put_key_u32("general.alignment", 24);
    refused(ERR_FORMAT, "general.alignment", "power of two");
    put_head(0, 1);
    put_key_string("general.alignment", "32");
    refused(ERR_FORMAT, "general.alignment", "an integer is expected");
}

/* ---------------------------------------------------------------- tensors */
static void one_info(u64 in, u64 out, u32 type, u64 offset, u64 data_bytes)
{
    put_head(1, 0);
    put_info("t", in, out, type, offset);
    put_data(data_bytes);
}

TEST(tensors_that_lie)
{
    one_info(32, 2, 99, 0, 256);
    refused(ERR_UNSUPPORTED, "tensor t", "type 99");
    one_info(0, 2, 0, 0, 256);
    refused(ERR_FORMAT, "tensor t", "dim 0 is 0");
    one_info(1ull << 33, 1ull << 33, 0, 0, 256);
    refused(ERR_FORMAT, "tensor t", "dim 1");
    one_info(1ull << 31, 1ull << 32, 0, 0, 256);
    refused(ERR_FORMAT, "tensor t", "overflows");
    one_info(33, 2, 8, 0, 256);
    refused(ERR_FORMAT, "tensor t", "blocks of 32");
    one_info(4, 4, 0, 8, 256);
    refused(ERR_FORMAT, "tensor t", "multiple of 32");
    one_info(4, 4, 0, 256, 256);
    refused(ERR_FORMAT, "tensor t", "outside");
    one_info(4, 4, 0, UINT64_MAX - 31, 256);
    refused(ERR_FORMAT, "tensor t", "outside");
    put_head(1, 0);
    put_string("t");
    put(5, 4);
    put_data(64);
    refused(ERR_FORMAT, "tensor t", "5 dims");
    put_head(2, 0);
    put_info("a", 16, 1, 0, 0);
    put_info("b", 16, 1, 0, 32);
    put_data(128);
    refused(ERR_FORMAT, "tensors a and b", "share bytes");
    put_head(2, 0);
    put_info("a", 8, 1, 0, 0);
    put_info("a", 8, 1, 0, 32);
    put_data(128);
    refused(ERR_FORMAT, "tensor a", "twice");
}

TEST(split_files_are_one_model_or_say_what_is_missing)
{
    static u8 first[4096];
    put_head(1, 3);
    put_key_u32("split.no", 0);
    put_key_u32("split.count", 2);
    put_key_u32("split.tensors.count", 2);
    put_info("a", 8, 1, 0, 0);
    put_data(32);
    u64 first_bytes = count;
    memcpy(first, bytes, count);
    put_head(1, 2);
    put_key_u32("split.no", 1);
    put_key_u32("split.count", 2);
    put_info("b", 8, 1, 0, 0);
    put_data(32);
    as_file(0, "m-00001-of-00002.gguf", first, first_bytes);
    expect(gguf_tensors(&files, &tensors), ERR_NOT_FOUND, "m-00002-of-00002.gguf", "no file");
    as_file(1, "m-00002-of-00002.gguf", bytes, count);
    CHECK_OK(gguf_tensors(&files, &tensors));
    CHECK_EQ(tensors.count, 2);
    as_file(1, "m-00002-of-00002.gguf", first, first_bytes);
    expect(gguf_tensors(&files, &tensors), ERR_FORMAT, "m-00002-of-00002.gguf", "split.no 0");
    as_file(0, "m.gguf", first, first_bytes);
    expect(gguf_tensors(&files, &tensors), ERR_FORMAT, "m.gguf", "-00001-of-00002");
    as_file(0, "m-00002-of-00002.gguf", bytes, count);
    expect(gguf_tensors(&files, &tensors), ERR_FORMAT, "m-00002-of-00002.gguf", "00001-of");
    as_file(1, "m-00001-of-00002.gguf", first, first_bytes);
}

/* ---------------------------------------------------------------- a real file, changed */
static void load_real(void)
{
    static u8 real[CAP];
    static u64 real_bytes;
    memcpy(bytes, real, real_bytes);
    count = real_bytes;
    if (real_bytes > 0) return;
    rig_tiny("default", "");
    rig_run("OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
            "tests/oracle/to_gguf.py build/golden/default %s --type %s",
            "build/golden/changed.gguf", "Q8_0");
    FILE *f = fopen("build/golden/changed.gguf", "rb");
    CHECK(f != NULL);
    count = fread(bytes, 1, CAP, f);
    CHECK(count > 1000 && count < CAP);
    fclose(f);
    memcpy(real, bytes, count);
    real_bytes = count;
}

/* `distance` bytes behind the text, `width` bytes become `value`. */
static void change(const char *text, u64 distance, u64 value, u32 width)
{
    u8 *at = memmem(bytes, count, text, strlen(text));
    if (at == NULL) test_failed(__FILE__, __LINE__, "no %s in the file", text);
    for (u32 i = 0; i < width; i++) at[strlen(text) + distance + i] = (u8)(value >> (8 * i));
}

static void rename_key(const char *text)
{
    u8 *at = memmem(bytes, count, text, strlen(text));
    if (at == NULL) test_failed(__FILE__, __LINE__, "no %s in the file", text);
    at[strlen(text) - 1] = 'X';
}

static enum err open_model_rows(void)
{
    as_file(0, "x.gguf", bytes, count);
    TRY(shape_gguf_load(&files, &shape));
    return weights_scan(&files, &shape, family_find(shape.model_type));
}

static void bad_model(enum err code, const char *word, const char *other)
{
    expect(open_model_rows(), code, word, other);
}

TEST(missing_keys_and_tensors_are_named)
{
    static const char *const keys[] = {
        "general.architecture", "qwen35.block_count", "qwen35.embedding_length",
        "qwen35.feed_forward_length", "qwen35.attention.head_count_kv", "qwen35.ssm.state_size",
        "qwen35.rope.freq_base", "qwen35.rope.dimension_count", "tokenizer.ggml.tokens",
        "tokenizer.ggml.eos_token_id",
    };
    load_real();
    CHECK_OK(open_model_rows());
    for (u32 i = 0; i < COUNT_OF(keys); i++) {
        load_real();
        rename_key(keys[i]);
        bad_model(ERR_NOT_FOUND, "no key", keys[i]);
    }
    load_real();
    rename_key("blk.3.attn_q.weight");
    bad_model(ERR_NOT_FOUND, "no tensor", "blk.3.attn_q.weight");
}

TEST(values_out_of_range_are_named)
{
    load_real();
    change("qwen35.block_count", 4, 100000, 4);
    bad_model(ERR_LIMIT, "qwen35.block_count", "100000");
    load_real();
    change("qwen35.embedding_length", 4, 64, 4);
    bad_model(ERR_FORMAT, "blk.0.attn_norm.weight", "[64] is expected");
    load_real();
    change("qwen35.ssm.time_step_rank", 4, 7, 4);
    bad_model(ERR_FORMAT, "time_step_rank", "group_count");
    load_real();
    change("qwen35.embedding_length", 0, GGUF_F32, 4);
    bad_model(ERR_FORMAT, "qwen35.embedding_length", "an integer is expected");
    load_real();
    change("tokenizer.ggml.eos_token_id", 4, 512, 4);
    bad_model(ERR_FORMAT, "eos_token_id", "512");
}

TEST(other_architectures_and_types_are_named)
{
    load_real();
    change("general.architecture", 4 + 8, 0x65343077, 4);       /* "w04e" of qwen35           */
    bad_model(ERR_UNSUPPORTED, "general.architecture", "qwen35 is expected");
    put_head(0, 1);
    put_key_string("general.architecture", "qwen35moe");
    bad_model(ERR_UNSUPPORTED, "qwen35moe", "not served");
    put_head(0, 1);
    put_key_string("general.architecture", "qwen4exp");
    bad_model(ERR_UNSUPPORTED, "qwen4exp", "not served");
    load_real();
    change("blk.0.ffn_up.weight", 4 + 16, 20, 4);               /* 18 bytes a block, not 34   */
    bad_model(ERR_UNSUPPORTED, "blk.0.ffn_up.weight", "IQ4_NL");
    load_real();
    change("blk.0.attn_norm.weight", 4 + 8, 30, 4);
    CHECK_OK(open_model_rows());                                /* BF16 vectors are read      */
    load_real();
    change("blk.0.attn_norm.weight", 4 + 8, 2, 4);
    bad_model(ERR_UNSUPPORTED, "blk.0.attn_norm.weight", "Q4_0");
}

/* The name of the same length takes the place of the first one. */
static void rename_tensor(const char *before, const char *after)
{
    u8 *at = memmem(bytes, count, before, strlen(before));
    CHECK(at != NULL && strlen(before) == strlen(after));
    memcpy(at, after, strlen(after));
}

TEST(a_weight_with_a_scale_beside_it_is_not_taken_for_less)
{
    load_real();
    rename_tensor("blk.8.attn_k.weight", "blk.0.ssm_out.scale");
    bad_model(ERR_UNSUPPORTED, "blk.0.ssm_out.scale", "scaled");
}

static enum err open_head(void)
{
    TRY(open_model_rows());
    CHECK_EQ(shape.mtp_layers, 1);
    shape.draft = true;
    return weights_scan(&files, &shape, family_find(shape.model_type));
}

TEST(a_draft_block_lacks_a_tensor_or_has_an_embedding_of_its_own)
{
    load_real();
    CHECK_OK(open_head());
    CHECK(!shape.mtp_embeddings);
    rename_tensor("blk.8.nextn.eh_proj.weight", "blk.8.nextn.eh_prox.weight");
    expect(open_head(), ERR_NOT_FOUND, "no tensor", "blk.8.nextn.eh_proj.weight");
    load_real();
    rename_tensor("blk.8.attn_q_norm.weight", "blk.8.attn_q_norx.weight");
    expect(open_head(), ERR_NOT_FOUND, "no tensor", "blk.8.attn_q_norm.weight");
    load_real();
    rename_tensor("blk.8.nextn.shared_head_norm.weight", "blk.8.nextn.shared_head_head.weight");
    CHECK_OK(open_model_rows());
    CHECK(shape.mtp_embeddings);
    load_real();
    change("qwen35.nextn_predict_layers", 4, 9, 4);
    bad_model(ERR_LIMIT, "qwen35.nextn_predict_layers", "0 to 8");
}

/* One more key in front, filled up to 32 bytes' multiple by a second one. */
static void add_key(const char *name, u32 kind, u32 value)
{
    static u8 rest[CAP];
    u64 rest_bytes = count - 24, fill;
    memcpy(rest, bytes + 24, rest_bytes);
    bytes[16] = (u8)(bytes[16] + 2);
    count = 24;
    put_string(name);
    put(kind, 4);
    put(value, 4);
    put_string("filler");
    put(GGUF_STRING, 4);
    fill = ALIGN_UP(count + 8 - 24, 32) - (count + 8 - 24);
    put(fill, 8);
    while (fill-- > 0) put('x', 1);
    memcpy(bytes + count, rest, rest_bytes);
    count += rest_bytes;
}

TEST(sampling_defaults_are_the_files_or_the_usual_ones)
{
    load_real();
    CHECK_OK(open_model_rows());
    CHECK(shape.sampling.temperature == 1.0f && shape.sampling.top_k == 20);
    CHECK(shape.sampling.top_p == 0.95f && shape.sampling.repetition_penalty == 1.0f);
    add_key("general.sampling.temp", GGUF_F32, 0x3f19999a);     /* 0.6f                       */
    CHECK_OK(open_model_rows());
    CHECK(shape.sampling.temperature == 0.6f);
    load_real();
    add_key("general.sampling.top_k", GGUF_I32, 0xFFFFFFFF);
    CHECK_OK(open_model_rows());
    CHECK(shape.sampling.top_k == 0);
    load_real();
    add_key("general.sampling.top_p", GGUF_F32, 0x7fc00000);
    bad_model(ERR_FORMAT, "general.sampling", "top_p nan");
}

TEST(tokenizers_that_lie)
{
    static const struct { const char *text; u64 distance, value; u32 width; const char *word; }
    cases[] = {
        { "tokenizer.ggml.pre", 4 + 8, 'Q', 1, "qwen35" },
        { "tokenizer.ggml.add_bos_token", 4, 1, 1, "add_bos_token" },
        { "tokenizer.ggml.token_type", 4 + 4 + 8, 9, 4, "token_type[0] is 9" },
        { "tokenizer.ggml.eos_token_id", 4, 99999, 4, "eos_token_id" },
        { "tokenizer.ggml.tokens", 4 + 4 + 8 + 8, 0xFF, 1, "tokens[0] is no UTF-8" },
        { "tokenizer.ggml.merges", 4 + 4 + 8 + 8 + 1, '_', 1, "merges[0]" },
    };
    struct tokenizer *t = NULL;
    for (u32 i = 0; i < COUNT_OF(cases); i++) {
        load_real();
        change(cases[i].text, cases[i].distance, cases[i].value, cases[i].width);
        as_file(0, "x.gguf", bytes, count);
        CHECK_OK(gguf_open(&files, &g));
        enum err err = tokenizer_open(&(struct tokenizer_source){ .gguf = &g }, &t);
        if (err == OK || strstr(err_last()->text, cases[i].word) == NULL)
            test_failed(__FILE__, __LINE__, "expected \"%s\": %s, \"%s\"", cases[i].word,
                        err_word(err), err_last()->text);
    }
    load_real();
    as_file(0, "x.gguf", bytes, count);
    CHECK_OK(gguf_open(&files, &g));
    CHECK_OK(tokenizer_open(&(struct tokenizer_source){ .gguf = &g }, &t));
    tokenizer_close(t);
}
