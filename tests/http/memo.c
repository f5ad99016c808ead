/* tests/http/memo.c - what a JavaScript client does to arguments never changes a call's hash, and
 * whatever the model would see differently does. */
#include "tests/test.h"

#include <string.h>

#include "arena/heap.h"
#include "http/chat/memo.h"

static const struct text_source heap = { arena_heap_alloc, arena_heap_free };

static void hash_of(const char *name, const char *arguments, u64 out[2])
{
    struct text_pool pool;
    text_pool_open(&pool, &heap, 1 << 20);
    CHECK_OK(memo_call_text((struct text_span){ name, strlen(name) },
                            (struct text_span){ arguments, strlen(arguments) }, &pool, out));
    text_pool_close(&pool);
}

static bool same(const char *a, const char *b)
{
    u64 x[2], y[2];
    hash_of("f", a, x);
    hash_of("f", b, y);
    return x[0] == y[0] && x[1] == y[1];
}

TEST(spellings_of_the_same_arguments_are_one_call)
{
    static const char *const pairs[][2] = {
        { "{}", " { } " },
        { "{\"a\": 2.0}", "{\"a\":2}" },
        { "{\"a\":1e2}", "{\"a\":100}" },
        { "{\"a\":-0}", "{\"a\":0}" },
        { "{\"a\":-0.0}", "{\"a\":0}" },
        { "{\"a\":0.10}", "{\"a\":0.1}" },
        { "{\"a\":9007199254740993}", "{\"a\":9007199254740992}" },
        { "{\"a\":123456789012345678901234567890}", "{\"a\":1.2345678901234568e+29}" },
        { "{\"a\":1e999}", "{\"a\":null}" },
        { "{\"a\":\"\\u0041\\/\\u00e9\"}", "{\"a\":\"A/\303\251\"}" },
        { "{\"a\":\"\\ud83d\\ude00\"}", "{\"a\":\"\360\237\230\200\"}" },
        { "{\"a\":\"\\ud800\"}", "{\"a\":\"\357\277\275\"}" },
        { "{\"b\":1,\"10\":2,\"2\":3,\"0\":4}", "{\"0\":4,\"2\":3,\"10\":2,\"b\":1}" },
        { "{\"a\":{\"x\":1,\"1\":[{\"z\":0,\"4294967294\":1}]}}",
          "{\"a\":{\"1\":[{\"4294967294\":1,\"z\":0}],\"x\":1}}" },
        { "{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}" },
        { "{\"7\":1,\"b\":2,\"7\":3}", "{\"7\":3,\"b\":2}" },
    };
    for (u32 i = 0; i < COUNT_OF(pairs); i++)
        if (!same(pairs[i][0], pairs[i][1]))
            test_failed(__FILE__, __LINE__, "%s is %s", pairs[i][0], pairs[i][1]);
}

TEST(what_the_model_would_read_differently_is_another_call)
{
    static const char *const pairs[][2] = {
        { "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}" },           /* another order of plain keys */
        { "{\"01\":1,\"b\":2}", "{\"b\":2,\"01\":1}" },         /* not integer-like            */
        { "{\"4294967295\":1,\"b\":2}", "{\"b\":2,\"4294967295\":1}" },
        { "{\"-1\":1,\"b\":2}", "{\"b\":2,\"-1\":1}" },
        { "{\"a\":1}", "{\"a\":\"1\"}" }, { "{\"a\":null}", "{\"a\":0}" },
        { "{\"a\":true}", "{\"a\":false}" }, { "{\"a\":[]}", "{\"a\":{}}" },
        { "{\"a\":[1,2]}", "{\"a\":[2,1]}" }, { "{\"a\":[[1],2]}", "{\"a\":[[1,2]]}" },
        { "{\"a\":\"x\"}", "{\"a\":\"x \"}" }, { "{\"a\":\"\"}", "{}" },
        { "{\"ab\":\"c\"}", "{\"a\":\"bc\"}" }, { "{\"a\":9007199254740992}",
                                                   "{\"a\":9007199254740994}" },
    };
    u64 f[2], g[2];
    for (u32 i = 0; i < COUNT_OF(pairs); i++)
        if (same(pairs[i][0], pairs[i][1]))
            test_failed(__FILE__, __LINE__, "%s is not %s", pairs[i][0], pairs[i][1]);
    hash_of("f", "{}", f);
    hash_of("g", "{}", g);
    CHECK(f[0] != g[0] || f[1] != g[1]);
    CHECK(memo_id((struct text_span){ "call_a", 6 }) != memo_id((struct text_span){ "call_b", 6 }));
}

TEST(text_that_is_no_object_has_no_hash)
{
    static const char *const texts[] = { "", "[]", "1", "{\"a\":}", "{\"a\":1" };
    struct text_pool pool;
    u64 hash[2];
    for (u32 i = 0; i < COUNT_OF(texts); i++) {
        text_pool_open(&pool, &heap, 1 << 20);
        CHECK(memo_call_text((struct text_span){ "f", 1 },
                             (struct text_span){ texts[i], strlen(texts[i]) }, &pool, hash) != OK);
        text_pool_close(&pool);
    }
}
