/* tests/arena/jsontext.c - grammar, walking, decoding, and Python's dump. */
#include "tests/test.h"

#include "arena/base/jsontext.h"

#include <stdlib.h>
#include <string.h>

static void *take(u64 bytes) { return malloc(bytes); }
static const struct text_source source = { take, free };

static struct jsontext open_text(const char *s)
{
    struct jsontext v = { 0 };
    CHECK_OK(jsontext_open(s, strlen(s), 64, &v));
    return v;
}

static enum err open_code(const char *s)
{
    struct jsontext v = { 0 };
    return jsontext_open(s, strlen(s), 8, &v);
}

TEST(what_the_grammar_allows_is_read_and_nothing_else)
{
    static const char *const good[] = {
        "0", "-0", "1.5e-7", " true ", "null", "\"\"", "[]", "{}", "[1,2]", "{\"a\":{}}",
        "[[],[[]]]", "\"\\u0041\\ud83d\\ude00\"", "1E+9", "\n[ ]\t", "{\"a\":1,\"a\":2}",
    };
    static const char *const bad[] = {
        "", " ", "01", "-", "1.", ".5", "1e", "+1", "tru", "nul", "truex", "\"", "\"\\x\"",
        "\"\\u12g4\"", "\"\n\"", "[1,]", "[,]", "[1 2]", "{,}", "{\"a\"}", "{\"a\":}", "{a:1}",
        "{\"a\":1,}", "[1]]", "[", "{", "[}", "{]", "NaN", "Infinity", "'a'", "[1],", "1 2",
        "\"\xFF\"", "[\"\xED\xA0\x80\"]", "{\"a\":1 \"b\":2}", "//", "\"\\", "\"\\u",
    };
    for (u32 i = 0; i < COUNT_OF(good); i++)
        if (open_code(good[i]) != OK) test_failed(__FILE__, __LINE__, "refused: %s", good[i]);
    for (u32 i = 0; i < COUNT_OF(bad); i++)
        if (open_code(bad[i]) != ERR_FORMAT) test_failed(__FILE__, __LINE__, "read: %s", bad[i]);
    CHECK(open_code("[[[[[[[[]]]]]]]]") == OK);
    CHECK(open_code("[[[[[[[[[]]]]]]]]]") == ERR_LIMIT);
    CHECK(open_code("{\"a\":[{\"a\":[{\"a\":[{\"a\":[{}]}]}]}]}") == ERR_LIMIT);
}

TEST(an_error_names_the_byte_and_what_was_expected)
{
    CHECK(open_code("{\"a\" 1}") == ERR_FORMAT);
    CHECK_STR(err_last()->text, "JSON at byte 5: expected ':' after a key");
    CHECK(open_code("[1, 2") == ERR_FORMAT);
    CHECK_STR(err_last()->text, "JSON ends at byte 5: expected ',' or ']'");
}

TEST(members_are_walked_in_order_and_the_last_of_a_name_counts)
{
    struct jsontext v = open_text("{ \"b\": [1, {\"}\": \"]\\\"\"}] , \"a\":2,\"b\" :3 }");
    struct jsontext_walk w;
    struct jsontext key, value;
    jsontext_walk(&w, v);
    CHECK(jsontext_next(&w, &key, &value) && jsontext_is(key, "b"));
    CHECK(value.kind == JSONTEXT_ARRAY && jsontext_count(value) == 2);
    CHECK(jsontext_next(&w, &key, &value) && jsontext_is(key, "a"));
    CHECK(jsontext_next(&w, &key, &value) && jsontext_is(key, "b"));
    CHECK(!jsontext_next(&w, &key, &value));
    u64 n = 0;
    CHECK(jsontext_u64(jsontext_member(v, "b"), &n) && n == 3);
    CHECK(jsontext_member(v, "c").kind == JSONTEXT_ABSENT);
    CHECK(jsontext_member(key, "b").kind == JSONTEXT_ABSENT);
}

TEST(strings_decode_with_pairs_and_lone_surrogates)
{
    char out[64];
    u64 n = jsontext_decode(open_text("\"\\ud83d\\ude00 \\ud83dx\\ude00\\u0000\\/\\n\""), out);
    CHECK_EQ(n, 15);
    CHECK(memcmp(out, "\xF0\x9F\x98\x80 \xEF\xBF\xBDx\xEF\xBF\xBD\0/\n", 15) == 0);
    CHECK(jsontext_is(open_text("\"\\u0061b\""), "ab"));
    CHECK(!jsontext_is(open_text("\"ab\""), "a"));
    CHECK(!jsontext_is(open_text("\"ab\""), "abc"));
    CHECK(!jsontext_is(open_text("\"a\\u0000\""), "a"));
}

TEST(numbers_are_read_at_their_bounds)
{
    u64 u;
    i64 i;
    f64 f;
    CHECK(jsontext_u64(open_text("18446744073709551615"), &u) && u == UINT64_MAX);
    CHECK(!jsontext_u64(open_text("18446744073709551616"), &u));
    CHECK(!jsontext_u64(open_text("-1"), &u) && !jsontext_u64(open_text("1.0"), &u));
    CHECK(jsontext_i64(open_text("-9223372036854775808"), &i) && i == INT64_MIN);
    CHECK(!jsontext_i64(open_text("-9223372036854775809"), &i));
    CHECK(jsontext_i64(open_text("9223372036854775807"), &i) && i == INT64_MAX);
    CHECK(!jsontext_i64(open_text("9223372036854775808"), &i));
    CHECK(jsontext_f64(open_text("-2.5e1"), &f) && f == -25.0);
    CHECK(!jsontext_f64(open_text("\"1\""), &f));
}

static void dumps_as(const char *in, const char *want)
{
    struct text_pool pool;
    struct text out;
    text_pool_open(&pool, &source, 1 << 20);
    text_open_growing(&out, &source, 1 << 20);
    CHECK_OK(jsontext_dump(open_text(in), &pool, &out));
    CHECK_STR(out.data, want);
    text_close(&out);
    text_pool_close(&pool);
}

TEST(a_dump_is_pythons_json_dumps)
{
    dumps_as("{\"b\":[1,2.0,null,true],\"a\":{\"x\":\"\\u00e9\\/\\u001f\"},\"e\":{},\"f\":[]}",
             "{\"b\": [1, 2.0, null, true], \"a\": {\"x\": \"\xC3\xA9/\\u001f\"}, \"e\": {}, "
             "\"f\": []}");
    dumps_as("{\"a\":1,\"b\":2,\"\\u0061\":3}", "{\"a\": 3, \"b\": 2}");
}

TEST(numbers_are_printed_as_python_prints_them)
{
    static const char *const pairs[][2] = {
        { "-0", "0" }, { "0", "0" }, { "12345678901234567890123", "12345678901234567890123" },
        { "2.0", "2.0" }, { "1e3", "1000.0" }, { "0.10", "0.1" }, { "1e-7", "1e-07" },
        { "1e16", "1e+16" }, { "1e15", "1000000000000000.0" }, { "123456.789e3", "123456789.0" },
        { "0.0001", "0.0001" }, { "0.00001", "1e-05" }, { "-0.0", "-0.0" }, { "1e400", "Infinity" },
        { "5e-324", "5e-324" }, { "1.7976931348623157e308", "1.7976931348623157e+308" },
        { "5.684341886080802e-14", "5.684341886080802e-14" }, { "0e5", "0.0" },
        { "5.9604644775390625e-08", "5.960464477539063e-08" }, { "-1.5E2", "-150.0" },
        { "9007199254740993.0", "9007199254740992.0" }, { "1.25e22", "1.25e+22" },
        { "3.14", "3.14" }, { "100.0", "100.0" }, { "-1e400", "-Infinity" },
    };
    for (u32 i = 0; i < COUNT_OF(pairs); i++) dumps_as(pairs[i][0], pairs[i][1]);
}

TEST(many_members_are_told_apart_without_quadratic_work)
{
    enum { MEMBERS = 20000 };
    struct text in;
    struct text_pool pool;
    text_open_growing(&in, &source, 1 << 20);
    text_pool_open(&pool, &source, 1 << 24);
    text_char(&in, '{');
    for (u32 i = 0; i < 2 * MEMBERS; i++)
        text_f(&in, "%s\"k%u\":%u", i > 0 ? "," : "", i % MEMBERS, i);
    text_char(&in, '}');
    struct jsontext_row *rows = NULL;
    u32 count = 0;
    CHECK_OK(jsontext_rows(open_text(in.data), &pool, &rows, &count));
    CHECK_EQ(count, MEMBERS);
    u64 n = 0;
    CHECK(text_span_is(rows[7].key, "k7") && jsontext_u64(rows[7].value, &n) && n == MEMBERS + 7);
    text_close(&in);
    text_pool_close(&pool);
}
