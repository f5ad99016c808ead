/* tests/fuzz/text.c - seeded mutations against the text side's parsers.
 *
 * Each input lies in a buffer of its exact size, so that a read past its end is seen by asan.  No
 * outcome but an error code or a result whose invariants hold is accepted.  Seeds are fixed; a
 * failing round prints its number. */
#include "http/chat/normal.h"
#include "http/chat/tools.h"
#include "model/text/tokenizer.h"
#include "tests/golden.h"

#include <time.h>

static u64 state;
static u32 below(u64 n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (u32)((state >> 33) % n);
}

static f64 now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (f64)t.tv_sec + (f64)t.tv_nsec * 1e-9;
}

static const char *const dictionary[] = {
    "{", "}", "[", "]", "\"", "\\", ",", ":", "null", "true", "1e999", "-0", "\\ud800", "\\u0000",
    "\xFF", "\xF0\x9F", "\xE2\x80\xA8", "<tool_call>", "</tool_call>", "<think>", "</think>",
    "<function=", ">", "</function>", "<parameter=", "</parameter>", "\n", "\n</parameter>\n",
    "[[[[[[[[", "{\"a\":", "\"role\"", "\"content\"", "\"messages\"", "4294967296", "-1", " ",
    "\"added_tokens\"", "\"merges\"", "<|im_end|>", "\"\"",
};

/* `seed` after a few edits, in a buffer of its exact size (never NULL). */
static char *mutated(const char *seed, u64 seed_len, u64 *len_out)
{
    u64 cap = seed_len + 4096, len = seed_len;
    char *wide = malloc(cap);
    memcpy(wide, seed, seed_len);
    for (u32 edits = 1 + below(6); edits > 0; edits--) {
        u64 at = below(len + 1), n = 1 + below(24);
        n = MIN(n, len - at);
        const char *word = dictionary[below(COUNT_OF(dictionary))];
        u64 word_len = strlen(word);
        switch (below(5)) {
        case 0: if (at < len) wide[at] = (char)below(256); break;
        case 1: memmove(wide + at, wide + at + n, len - at - n); len -= n; break;
        case 2:
            if (len + n > cap) break;
            memmove(wide + at + n, wide + at, len - at);
            len += n;
            break;
        case 3: if (below(8) == 0) len = at; break;
        default:
            if (len + word_len > cap) break;
            memmove(wide + at + word_len, wide + at, len - at);
            memcpy(wide + at, word, word_len);
            len += word_len;
        }
    }
    char *exact = malloc(len > 0 ? len : 1);
    memcpy(exact, wide, len);
    free(wide);
    *len_out = len;
    return exact;
}

/* A string of the golden file's list `name`, or one of its values as text. */
static struct text_span seed_of(const char *name, const char *member)
{
    struct jsontext list = golden(name), item = { 0 };
    struct jsontext_walk w;
    u64 at = below(jsontext_count(list));
    jsontext_walk(&w, list);
    do CHECK(jsontext_next(&w, NULL, &item)); while (at-- > 0);
    struct jsontext v = jsontext_member(item, member);
    if (v.kind == JSONTEXT_STRING) return jsontext_string(v, &golden_pool);
    return (struct text_span){ v.bytes, v.len };
}

static void walk_all(struct jsontext v, u32 depth, u64 *values)
{
    struct jsontext_walk w;
    struct jsontext key, value;
    (*values)++;
    CHECK(depth <= JSONTEXT_DEPTH_MAX);
    jsontext_walk(&w, v);
    while (jsontext_next(&w, &key, &value)) {
        CHECK(value.bytes >= v.bytes && value.bytes + value.len <= v.bytes + v.len);
        walk_all(value, depth + 1, values);
    }
}

/* What is read is dumped; the dump is read and dumps to itself. */
static void dump_twice(struct jsontext v)
{
    struct text_pool pool;
    struct text a, b;
    struct jsontext again;
    text_pool_open(&pool, &golden_source, 8 * MIB);
    text_open_growing(&a, &golden_source, 8 * MIB);
    text_open_growing(&b, &golden_source, 8 * MIB);
    CHECK_OK(jsontext_dump(v, &pool, &a));
    if (strstr(a.data, "Infinity") == NULL) {
        CHECK_OK(jsontext_open(a.data, a.len, JSONTEXT_DEPTH_MAX, &again));
        CHECK_OK(jsontext_dump(again, &pool, &b));
        CHECK_STR(a.data, b.data);
    }
    text_close(&a);
    text_close(&b);
    text_pool_close(&pool);
}

TEST(mutated_json_is_refused_or_walks_inside_its_bytes)
{
    u32 read = 0;
    golden("about");
    f64 end = now() + 1.5;
    state = 1;
    while (now() < end) {
        u64 len, values = 0;
        struct text_span seed = seed_of("cases", below(2) ? "messages" : "tools");
        if (seed.len == 0) continue;
        char *bytes = mutated(seed.bytes, seed.len, &len);
        struct jsontext v;
        if (jsontext_open(bytes, len, JSONTEXT_DEPTH_MAX, &v) == OK) {
            read++;
            walk_all(v, 0, &values);
            dump_twice(v);
        }
        free(bytes);
    }
    printf("%u texts read\n", read);
    CHECK(read > 10);
}

TEST(mutated_requests_are_refused_or_rendered)
{
    static const struct normal_options options = { .images = true };
    u32 rendered = 0, refused = 0;
    golden("about");
    state = 2;
    for (f64 end = now() + 2; now() < end;) {
        u64 len;
        struct text_span seed = seed_of("normalise", "request");
        char *bytes = mutated(seed.bytes, seed.len, &len);
        struct text_pool pool;
        struct jsontext v;
        struct template_input in;
        struct template_prompt p;
        struct normal_param param;
        text_pool_open(&pool, &golden_source, 4 * MIB);
        bool good = jsontext_open(bytes, len, 64, &v) == OK &&
                    normal_chat(v, &options, &pool, &in, &param) == OK;
        if (good) {
            good = template_render((enum template_id)below(TEMPLATE_COUNT), &in, &p) == OK;
            if (good) CHECK(text_utf8_valid(p.text.data, p.text.len) == p.text.len);
            template_prompt_close(&p);
        } else {
            CHECK(memchr(param.path, 0, sizeof param.path) != NULL);
        }
        rendered += good;
        refused += !good;
        text_pool_close(&pool);
        free(bytes);
    }
    printf("%u rendered, %u refused\n", rendered, refused);
    CHECK(rendered > 10 && refused > 10);
}

static const struct { const char *text; enum vocab_kind kind; } tags[] = {
    { "<think>", VOCAB_THINK_OPEN }, { "</think>", VOCAB_THINK_CLOSE },
    { "<tool_call>", VOCAB_CALL_OPEN }, { "</tool_call>", VOCAB_CALL_CLOSE },
    { "<|im_start|>", VOCAB_SPECIAL }, { "<|im_end|>", VOCAB_TURN_END },
};

/* One answer in random cuts, with tags put in; its arguments must be JSON where a call ended. */
static void parse_once(const char *bytes, u64 len, const struct tools_options *options)
{
    struct tools *p = NULL;
    struct tools_events e;
    struct text arguments;
    CHECK_OK(tools_open(options, &golden_source, &p));
    tools_events_open(&e, &golden_source);
    text_open_growing(&arguments, &golden_source, 1 << 20);
    for (u64 at = 0; at <= len;) {
        u64 n = 1 + below(12);
        n = MIN(n, len - at);
        u32 tag = below(64);
        if (tag < COUNT_OF(tags))
            CHECK_OK(tools_feed(p, tags[tag].text, strlen(tags[tag].text), tags[tag].kind, &e));
        if (n > 0) CHECK_OK(tools_feed(p, bytes + at, n, VOCAB_TEXT, &e));
        else CHECK_OK(tools_finish(p, &e));
        for (u32 i = 0; i < e.count; i++) {
            const char *s = e.text.data != NULL ? e.text.data + e.rows[i].start : "";
            struct jsontext v;
            CHECK(e.rows[i].start + e.rows[i].len <= e.text.len);
            CHECK(text_utf8_valid(s, e.rows[i].len) == e.rows[i].len);
            if (e.rows[i].kind == TOOLS_CALL_BEGIN) text_clear(&arguments);
            if (e.rows[i].kind == TOOLS_CALL_ARGUMENTS) text_put(&arguments, s, e.rows[i].len);
            if (e.rows[i].kind == TOOLS_CALL_END)
                CHECK_OK(jsontext_open(arguments.data, arguments.len, JSONTEXT_DEPTH_MAX, &v));
        }
        tools_events_clear(&e);
        if (n == 0) break;
        at += n;
    }
    text_close(&arguments);
    tools_events_close(&e);
    tools_close(p);
}

TEST(mutated_answers_give_valid_text_and_valid_arguments)
{
    struct jsontext tools = { 0 }, item, list[8];
    struct jsontext_walk w, k;
    u32 count = 0, rounds = 0;
    jsontext_walk(&w, golden("cases"));
    while (jsontext_next(&w, NULL, &item) && count < 8) {
        tools = jsontext_member(item, "tools");
        jsontext_walk(&k, tools);
        while (count < 8 && jsontext_next(&k, NULL, &list[count])) count++;
    }
    state = 3;
    for (f64 end = now() + 2; now() < end; rounds++) {
        u64 len;
        struct text_span seed = seed_of("parse", "generated");
        char *bytes = mutated(seed.bytes, seed.len, &len);
        struct tools_options o = { .tools = list, .tool_count = count, .calls = below(8) > 0,
                                   .think_open = below(2) > 0, .tags_by_text = below(2) > 0 };
        parse_once(bytes, len, &o);
        free(bytes);
    }
    printf("%u answers\n", rounds);
    CHECK(rounds > 100);
}

/* All 256 bytes, a few merges, added tokens: small enough for many rounds. */
static void small_tokenizer(struct text *t)
{
    text_str(t, "{\"added_tokens\":[{\"id\":262,\"content\":\"<|im_end|>\",\"special\":true},"
             "{\"id\":263,\"content\":\"<think>\",\"special\":false}],\"normalizer\":{\"type\":"
             "\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
             "\"Split\",\"pattern\":{\"Regex\":\"\\\\p{L}+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":"
             "\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"use_regex\":false}]},"
             "\"model\":{\"type\":\"BPE\",\"merges\":[\"a b\",[\"ab\",\"ab\"],\"\xC4\xA0 a\"],"
             "\"vocab\":{\"ab\":256,\"abab\":257,\"\xC4\xA0" "a\":258");
    for (u32 b = 0, next = 0x100; b < 256; b++) {
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        char utf8[4];
        u32 len = text_utf8_encode(plain ? b : next++, utf8);
        text_char(t, ',');
        text_json(t, utf8, len);
        text_f(t, ":%u", b);
    }
    text_str(t, "}}}");
}

static void encode_some(const struct tokenizer *t)
{
    static const char text[] = "ab abab <think>e\xCC\x81<|im_end|> \n\n  \xE6\x96\x87 x";
    struct tokenizer_ids ids = { 0 };
    struct tokenizer_segment segments[] = { { 3, TOKENIZER_MESSAGE },
                                            { sizeof text - 1, TOKENIZER_TEMPLATE } };
    u64 marks[] = { 0, 3, 20 }, tokens[3];
    enum err code = tokenizer_encode(t, &(struct tokenizer_text){
        .bytes = text, .len = sizeof text - 1, .segments = segments, .segment_count = 2,
        .marks = marks, .mark_tokens = tokens, .mark_count = 3 }, &ids);
    CHECK(code == OK || code == ERR_LIMIT);     /* a hostile pattern may not match in bounds */
    for (u64 i = 0; i < ids.count; i++) CHECK(ids.id[i] < tokenizer_vocab(t)->count);
    if (code == OK) CHECK(tokens[0] == 0 && tokens[2] <= ids.count);
    tokenizer_ids_close(&ids);
}

TEST(mutated_tokenizer_files_are_refused_or_encode)
{
    struct text json;
    u32 opened = 0, refused = 0;
    text_open_growing(&json, &golden_source, 1 << 20);
    small_tokenizer(&json);
    golden("about");
    state = 4;
    for (f64 end = now() + 2; now() < end;) {
        u64 len;
        char *bytes = mutated(json.data, json.len, &len);
        struct tokenizer *t = NULL;
        struct tokenizer_source source = { .tokenizer_json = { bytes, len } };
        source.rows = below(3) == 0 ? 300 : 0;
        if (tokenizer_open(&source, &t) == OK) {
            opened++;
            encode_some(t);
        } else {
            refused++;
        }
        tokenizer_close(t);
        free(bytes);
    }
    printf("%u opened, %u refused\n", opened, refused);
    CHECK(opened > 5 && refused > 5);
    text_close(&json);
}
