/* tests/arena/text.c - building, UTF-8 in any cuts, trim, the pool. */
#include "tests/test.h"

#include "arena/base/text.h"

#include <stdlib.h>
#include <string.h>

static void *take(u64 bytes) { return malloc(bytes); }
static const struct text_source source = { take, free };
static void *refuse(u64 bytes) { return bytes > 300 ? NULL : malloc(bytes); }
static const struct text_source small_source = { refuse, free };

TEST(fixed_text_is_cut_at_its_end_and_says_so)
{
    char bytes[8];
    struct text t;
    text_open(&t, bytes, sizeof bytes);
    text_str(&t, "abc");
    text_f(&t, "%d", 1234);
    CHECK_STR(t.data, "abc1234");
    CHECK(!t.cut);
    text_char(&t, 'x');
    CHECK_STR(t.data, "abc1234");
    CHECK(t.cut);
    text_open(&t, bytes, 4);
    text_f(&t, "%s", "longer than four");
    CHECK_STR(t.data, "lon");
    CHECK(t.cut && t.len == 3);
}

TEST(growing_text_grows_to_its_cap_and_no_further)
{
    struct text t;
    text_open_growing(&t, &source, 1000);
    for (int i = 0; i < 999; i++) text_char(&t, 'a');
    CHECK(!t.cut && t.len == 999 && strlen(t.data) == 999);
    text_char(&t, 'b');
    CHECK(t.cut && t.len == 999);
    text_close(&t);
    text_open_growing(&t, &small_source, 1 << 20);
    for (int i = 0; i < 999; i++) text_char(&t, 'a');
    CHECK(t.cut && t.len == 255);
    text_close(&t);
}

TEST(json_strings_are_escaped_as_python_does)
{
    char bytes[128];
    struct text t;
    text_open(&t, bytes, sizeof bytes);
    text_json(&t, "a\"\\/\b\f\n\r\t\x01\x1f\x7f\xC3\xA9", 14);
    CHECK_STR(t.data, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xC3\xA9\"");
}

TEST(utf8_is_valid_as_unicode_says)
{
    CHECK_EQ(text_utf8_valid("plain ascii text", 16), 16);
    CHECK_EQ(text_utf8_valid("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9), 9);
    CHECK_EQ(text_utf8_valid("ab\xC0\x80", 4), 2);             /* overlong                */
    CHECK_EQ(text_utf8_valid("\xE0\x9F\xBF", 3), 0);
    CHECK_EQ(text_utf8_valid("\xED\xA0\x80", 3), 0);           /* a surrogate             */
    CHECK_EQ(text_utf8_valid("\xF4\x90\x80\x80", 4), 0);       /* past U+10FFFF           */
    CHECK_EQ(text_utf8_valid("\xF5\x80\x80\x80", 4), 0);
    CHECK_EQ(text_utf8_valid("12345678\xE2\x82", 10), 8);      /* cut                     */
    for (u32 c = 0; c <= 0x10FFFF; c++) {
        char out[4];
        u32 len = text_utf8_encode(c, out), back;
        bool surrogate = c >= 0xD800 && c <= 0xDFFF;
        if (text_utf8_valid(out, len) != len || text_utf8_at(out, len, &back) !=
            (surrogate ? 0xFFFD : c) || back != len) test_failed(__FILE__, __LINE__, "U+%04X", c);
    }
}

static void feed_in_cuts(const char *bytes, u64 len, u32 seed, struct text *out)
{
    struct text_utf8 u = { 0 };
    text_clear(out);
    for (u64 at = 0; at < len;) {
        seed = seed * 1664525u + 1013904223u;
        u64 n = MIN(seed == 0 ? 1 : 1 + (seed >> 24) % 4, len - at);
        text_utf8_feed(&u, bytes + at, n, out);
        CHECK(text_utf8_valid(out->data, out->len) == out->len);
        at += n;
    }
    text_utf8_end(&u, out);
}

TEST(streamed_utf8_does_not_depend_on_its_cuts)
{
    static const char in[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \xFF\xE2\x82x\xF0\x9F\x98"
                             "\xED\xA0\x80\xC3\xC3\xA9\xE2";
    static const char want[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \xEF\xBF\xBD\xEF\xBF\xBDx"
        "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD";
    struct text out;
    text_open_growing(&out, &source, 1 << 16);
    text_char(&out, 'x');
    for (u32 seed = 0; seed < 200; seed++) {
        feed_in_cuts(in, sizeof in - 1, seed, &out);
        CHECK_STR(out.data, want);
    }
    text_close(&out);
}

TEST(trim_is_pythons_strip)
{
    struct text_span s = { "\xC2\xA0\xE3\x80\x80\xE2\x80\xA8x\xE2\x80\x8B\xEF\xBB\xBF\xC2\x85\x1f",
                           18 };
    struct text_span t = text_trim(s);
    CHECK_EQ(t.len, 7);
    CHECK(memcmp(t.bytes, "x\xE2\x80\x8B\xEF\xBB\xBF", 7) == 0);
    t = text_trim((struct text_span){ " \n\t\x1c ", 5 });
    CHECK_EQ(t.len, 0);
    u32 count = 0;
    for (u32 c = 0; c <= 0x10FFFF; c++) count += text_is_space(c);
    CHECK_EQ(count, 29);
    CHECK(!text_is_space(0x180E) && !text_is_space(0x200B) && !text_is_space(0xFEFF));
}

TEST(the_pool_gives_zeroed_lines_up_to_its_cap)
{
    struct text_pool pool;
    text_pool_open(&pool, &source, 100000);
    u64 total = 0;
    for (u32 i = 1; i < 200; i++) {
        u8 *p = text_pool_take(&pool, i);
        CHECK(p != NULL && (uintptr_t)p % 16 == 0);
        for (u32 j = 0; j < i; j++) CHECK(p[j] == 0);
        memset(p, 0xFF, i);
        total += i;
    }
    CHECK(text_pool_take(&pool, 100001) == NULL);
    CHECK(text_pool_take(&pool, UINT64_MAX) == NULL);
    while (text_pool_take(&pool, 5000) != NULL) total += 5000;
    CHECK(total <= 100000 && pool.used_bytes <= 100000 && total > 60000);
    text_pool_close(&pool);
    CHECK(text_pool_take(&pool, 1) != NULL);
    text_pool_close(&pool);
}
