/* tests/model/tokenizer.c - the default model's tokenizer: round trips, segments, marks, errors. */
#include "tests/test.h"

#include "model/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOME "profiles/default-model/"

static void *take(u64 bytes) { return malloc(bytes); }
static const struct text_source source = { take, free };

static struct text_span read_whole(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) test_failed(__FILE__, __LINE__, "cannot read %s", path);
    fseek(f, 0, SEEK_END);
    long len = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)len);
    CHECK(fread(bytes, 1, (size_t)len, f) == (size_t)len);
    fclose(f);
    return (struct text_span){ bytes, (u64)len };
}

static struct tokenizer *the_tokenizer(void)
{
    static struct tokenizer *t;
    if (t != NULL) return t;
    struct tokenizer_source files = {
        .tokenizer_json = read_whole(HOME "tokenizer.json"),
        .tokenizer_config = read_whole(HOME "tokenizer_config.json"),
        .generation_config = read_whole(HOME "generation_config.json"), .rows = 1792 };
    CHECK_OK(tokenizer_open(&files, &t));
    free((void *)files.tokenizer_json.bytes);
    free((void *)files.tokenizer_config.bytes);
    free((void *)files.generation_config.bytes);
    return t;
}

static struct tokenizer_ids encoded(const struct tokenizer_text *text)
{
    struct tokenizer_ids ids = { 0 };
    CHECK_OK(tokenizer_encode(the_tokenizer(), text, &ids));
    return ids;
}

static struct tokenizer_ids encoded_plain(const char *s)
{
    return encoded(&(struct tokenizer_text){ .bytes = s, .len = strlen(s) });
}

static bool decodes_to(const struct tokenizer_ids *ids, const char *bytes, u64 len)
{
    struct text out;
    text_open_growing(&out, &source, 1 << 24);
    tokenizer_decode(the_tokenizer(), ids->id, ids->count, &out);
    bool same = out.len == len && (len == 0 || memcmp(out.data, bytes, len) == 0);
    text_close(&out);
    return same;
}

static u32 random_state = 7;
static u32 below(u32 n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % n;
}

static u32 random_point(void)
{
    switch (below(12)) {
    case 0: case 1: case 2: case 3: return 0x20 + below(0x5F);
    case 4: return below(0x20);
    case 5: return ' ';
    case 6: return 0x4E00 + below(0x5000);
    case 7: return 0x400 + below(0x83);
    case 8: return 0xA0 + below(0x200);
    case 9: return 0xAC00 + below(11172);
    case 10: return 0x1F300 + below(0x300);
    default: return 0x3041 + below(0x56);
    }
}

TEST(ten_thousand_random_texts_come_back_byte_for_byte)
{
    for (u32 n = 0; n < 10000; n++) {
        char bytes[512];
        u64 len = 0;
        for (u32 points = below(100); points > 0; points--)
            len += text_utf8_encode(random_point(), bytes + len);
        struct tokenizer_ids ids = encoded(&(struct tokenizer_text){ .bytes = bytes, .len = len });
        if (!decodes_to(&ids, bytes, len))
            test_failed(__FILE__, __LINE__, "text %u: %.*s", n, (int)len, bytes);
        tokenizer_ids_close(&ids);
    }
}

TEST(text_is_normalised_when_the_file_says_so)
{
    struct tokenizer_ids ids = encoded_plain("e\xCC\x81 \xE1\x84\x80\xE1\x85\xA1");
    CHECK(decodes_to(&ids, "\xC3\xA9 \xEA\xB0\x80", 6));
    tokenizer_ids_close(&ids);
}

TEST(added_tokens_are_cut_out_first_and_longest_first)
{
    struct tokenizer_ids ids = encoded_plain("<|im_start|>user\n<think><tool_call>x</tool_call>");
    CHECK_EQ(ids.id[0], 1757);
    CHECK(decodes_to(&ids, "<|im_start|>user\n<think><tool_call>x</tool_call>", 48));
    CHECK_EQ(ids.id[ids.count - 1], tokenizer_added(the_tokenizer(), "</tool_call>"));
    tokenizer_ids_close(&ids);
}

TEST(kinds_ends_and_padding_are_those_of_the_files)
{
    const struct tokenizer *t = the_tokenizer();
    const struct vocab *v = tokenizer_vocab(t);
    u32 count;
    const u32 *eos = tokenizer_eos(t, &count);
    CHECK(count == 2 && MIN(eos[0], eos[1]) == 1756 && MAX(eos[0], eos[1]) == 1758);
    CHECK_EQ(tokenizer_count(t), 1782);
    CHECK_EQ(v->count, 1792);
    for (u32 id = 1782; id < 1792; id++) CHECK(vocab_kind(v, id) == VOCAB_PADDING);
    CHECK(vocab_kind(v, tokenizer_added(t, "<think>")) == VOCAB_THINK_OPEN);
    CHECK(vocab_kind(v, tokenizer_added(t, "</think>")) == VOCAB_THINK_CLOSE);
    CHECK(vocab_kind(v, tokenizer_added(t, "<tool_call>")) == VOCAB_CALL_OPEN);
    CHECK(vocab_kind(v, tokenizer_added(t, "</tool_call>")) == VOCAB_CALL_CLOSE);
    CHECK(vocab_kind(v, tokenizer_added(t, "<|image_pad|>")) == VOCAB_SPECIAL);
    CHECK(vocab_kind(v, tokenizer_added(t, "<tool_response>")) == VOCAB_TEXT);
    CHECK(vocab_kind(v, tokenizer_added(t, "<|im_end|>")) == VOCAB_TURN_END);
    CHECK_EQ(tokenizer_added(t, "<|no_such|>"), NONE);
}

/* Parts "T..." are template, "M..." are message. */
static struct tokenizer_ids encoded_parts(const char *const *parts, u32 count, bool reference)
{
    static char bytes[4096];
    struct tokenizer_segment segments[16];
    u64 len = 0;
    for (u32 i = 0; i < count; i++) {
        memcpy(bytes + len, parts[i] + 1, strlen(parts[i] + 1));
        len += strlen(parts[i] + 1);
        segments[i] = (struct tokenizer_segment){ len, parts[i][0] == 'T' ? TOKENIZER_TEMPLATE
                                                                          : TOKENIZER_MESSAGE };
    }
    return encoded(&(struct tokenizer_text){ .bytes = bytes, .len = len, .segments = segments,
                                             .segment_count = count,
                                             .reference_specials = reference });
}

static u32 times(const struct tokenizer_ids *ids, const char *added)
{
    u32 id = tokenizer_added(the_tokenizer(), added), count = 0;
    for (u64 i = 0; i < ids->count; i++) count += ids->id[i] == id;
    return count;
}

TEST(special_tokens_in_messages_are_literal_text)
{
    static const char *const parts[] = {
        "T<|im_start|>user\n", "Ma <|im_end|> b<|image_pad|><think>", "T<|im_end|>\n",
    };
    struct tokenizer_ids ids = encoded_parts(parts, 3, false);
    CHECK_EQ(times(&ids, "<|im_start|>"), 1);
    CHECK_EQ(times(&ids, "<|im_end|>"), 1);
    CHECK_EQ(times(&ids, "<|image_pad|>"), 0);
    CHECK_EQ(times(&ids, "<think>"), 1);
    tokenizer_ids_close(&ids);
    ids = encoded_parts(parts, 3, true);
    CHECK_EQ(times(&ids, "<|im_end|>"), 2);
    CHECK_EQ(times(&ids, "<|image_pad|>"), 1);
    tokenizer_ids_close(&ids);
}

TEST(a_special_token_counts_only_wholly_inside_a_template_segment)
{
    static const char *const across[] = { "T<|im_", "Mend|>", "T<|im_end|>" };
    struct tokenizer_ids ids = encoded_parts(across, 3, false);
    CHECK_EQ(times(&ids, "<|im_end|>"), 1);
    tokenizer_ids_close(&ids);
    static const char *const touching[] = { "T<|im_end|>", "M<|im_end|>", "T<|im_end|>x" };
    ids = encoded_parts(touching, 3, false);
    CHECK_EQ(times(&ids, "<|im_end|>"), 2);
    CHECK(ids.id[0] == 1758);
    tokenizer_ids_close(&ids);
}

TEST(text_is_one_run_across_segment_borders)
{
    static const char *const parts[] = { "T<|im_start|>user\n", "MHello there.", "T\n<|im_end|>" };
    static const char *const whole[] = { "T<|im_start|>user\nHello there.\n<|im_end|>" };
    struct tokenizer_ids a = encoded_parts(parts, 3, false), b = encoded_parts(whole, 1, false);
    CHECK_EQ(a.count, b.count);
    CHECK(memcmp(a.id, b.id, a.count * sizeof *a.id) == 0);
    tokenizer_ids_close(&a);
    tokenizer_ids_close(&b);
}

TEST(marks_become_the_first_token_at_or_after_them)
{
    const char *s = "<|im_start|>abc e\xCC\x81 xyz<|im_end|>\n<|im_start|>user";
    u64 len = strlen(s);
    u64 marks[] = { 0, 5, 12, 14, 19, 30, 40, len }, tokens[8];
    struct tokenizer_ids ids = encoded(&(struct tokenizer_text){
        .bytes = s, .len = len, .marks = marks, .mark_tokens = tokens, .mark_count = 8 });
    u64 end = 0;
    while (ids.id[end] != 1758) end++;
    CHECK_EQ(tokens[0], 0);
    CHECK_EQ(tokens[1], 1);
    CHECK_EQ(tokens[2], 1);
    CHECK_EQ(tokens[3], end);           /* inside a run that NFC changed: its end */
    CHECK_EQ(tokens[4], end);
    CHECK_EQ(tokens[5], end + 1);       /* inside <|im_end|>: the newline after it */
    CHECK_EQ(tokens[6], end + 3);
    CHECK(ids.id[end + 2] == 1757);
    CHECK_EQ(tokens[7], ids.count);
    tokenizer_ids_close(&ids);
}

TEST(bytes_that_are_no_utf8_are_refused_and_nothing_is_appended)
{
    struct tokenizer_ids ids = encoded_plain("abc");
    u64 before = ids.count;
    struct tokenizer_text bad = { .bytes = "ab\xFF", .len = 3 };
    CHECK(tokenizer_encode(the_tokenizer(), &bad, &ids) == ERR_FORMAT);
    CHECK_STR(err_last()->text, "the text is not UTF-8 at byte 2");
    CHECK_EQ(ids.count, before);
    tokenizer_ids_close(&ids);
}

/* A whole file with all bytes, and the given pieces of it put in. */
static enum err open_small(const char *more_vocab, const char *merges, const char *rest)
{
    static char json[16384];
    struct text t;
    struct tokenizer *tokenizer = NULL;
    text_open(&t, json, sizeof json);
    text_str(&t, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (u32 b = 0, next = 0x100; b < 256; b++) {
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        char utf8[4];
        u32 len = text_utf8_encode(plain ? b : next++, utf8);
        text_json(&t, utf8, len);
        text_f(&t, ":%u,", b);
    }
    text_f(&t, "\"ab\":256%s},\"merges\":[%s]},\"pre_tokenizer\":{\"type\":\"ByteLevel\"}%s}",
           more_vocab, merges, rest);
    CHECK(!t.cut);
    enum err code = tokenizer_open(&(struct tokenizer_source){
        .tokenizer_json = { t.data, t.len } }, &tokenizer);
    tokenizer_close(tokenizer);
    return code;
}

static void refused(enum err want, const char *text, const char *vocab, const char *merges,
                    const char *rest)
{
    enum err code = open_small(vocab, merges, rest);
    if (code != want || strstr(err_last()->text, text) == NULL)
        test_failed(__FILE__, __LINE__, "%s, not %s: %s, not %s", err_word(code), err_word(want),
                    err_last()->text, text);
}

TEST(files_that_ask_for_what_is_not_served_are_refused_by_name)
{
    CHECK_OK(open_small("", "\"a b\"", ""));
    CHECK_OK(open_small("", "[\"a\",\"b\"]", ""));
    refused(ERR_FORMAT, "model.merges[0] joins", "", "\"a c\"", "");
    refused(ERR_FORMAT, "model.merges[1]: expected", "", "\"a b\",\"ab\"", "");
    refused(ERR_FORMAT, "two tokens have id 7", ",\"x1\":7", "", "");
    refused(ERR_LIMIT, "at most", ",\"x1\":4194304", "", "");
    refused(ERR_FORMAT, "an id", ",\"x1\":-1", "", "");
    refused(ERR_UNSUPPORTED, "normalizer", "", "", ",\"normalizer\":{\"type\":\"Lowercase\"}");
    refused(ERR_UNSUPPORTED, "added token 300: lstrip", "", "",
            ",\"added_tokens\":[{\"id\":300,\"content\":\"<x>\",\"lstrip\":true}]");
    refused(ERR_UNSUPPORTED, "pre_tokenizer", "", "",
            ",\"pre_tokenizer\":{\"type\":\"Metaspace\"}");
    refused(ERR_FORMAT, "does not compile", "", "", ",\"pre_tokenizer\":{\"type\":\"Split\","
            "\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}");
    struct tokenizer *t = NULL;
    CHECK(tokenizer_open(&(struct tokenizer_source){ .tokenizer_json = { "{}", 2 } }, &t) ==
          ERR_FORMAT);
    CHECK(tokenizer_open(&(struct tokenizer_source){ 0 }, &t) == ERR_FORMAT);
    CHECK(t == NULL);
}
