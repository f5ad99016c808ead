/* tests/arena/json.c - bounded reading with paths in the errors; writing what reads back. */
#include "tests/test.h"

#include "arena/base/file.h"
#include "arena/base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct json_limits limits = { .bytes_max = 4096, .depth_max = 8 };

static enum err open_text(const char *text, struct json_doc *doc, struct json_at *root)
{
    return json_open(text, strlen(text), limits, NULL, doc, root);
}

static const char *error_of(const char *text)
{
    struct json_doc doc;
    struct json_at root;
    CHECK_EQ(open_text(text, &doc, &root), ERR_FORMAT);
    return err_last()->text;
}

TEST(what_is_not_json_is_refused_with_its_place)
{
    CHECK(strstr(error_of("{\"a\": 1,\n \"b\": }"), "line 2") != NULL);
    CHECK(strstr(error_of("{\"a\": 1, \"a\": 2}"), "duplicate") != NULL);
    CHECK(strstr(error_of("[1] 2"), "end of file expected") != NULL);
    error_of("");
    error_of("NaN");
    error_of("\"\xff\"");
    error_of("\"\\ud800\"");
    error_of("9223372036854775808");
    error_of("1e999");
}

TEST(length_and_depth_are_bounded_before_parsing)
{
    struct json_doc doc;
    struct json_at root;
    static char text[5000];
    memset(text, ' ', sizeof text);
    text[0] = '1';
    CHECK_OK(json_open(text, 4096, limits, NULL, &doc, &root));
    json_close(&doc);
    CHECK_EQ(json_open(text, 4097, limits, NULL, &doc, &root), ERR_LIMIT);
    CHECK_OK(open_text("[[[[[[[[1]]]]]]]]", &doc, &root));
    json_close(&doc);
    CHECK_EQ(open_text("[[[[[[[[[1]]]]]]]]]", &doc, &root), ERR_LIMIT);
    CHECK_OK(open_text("\"[[[[[[[[[[[[[\\\"[[\"", &doc, &root));
    json_close(&doc);
    memset(text, '[', sizeof text);
    CHECK_EQ(json_open(text, 4000, limits, NULL, &doc, &root), ERR_LIMIT);
}

TEST(errors_name_the_path)
{
    struct json_doc doc;
    struct json_at root, at, list;
    const char *text = "{\"messages\": [{\"role\": 3}, {\"content\": null}], \"n\": -1, \"big\": "
                       "4294967296, \"real\": 1.5, \"s\": \"a\\u0000b\"}";
    CHECK_OK(json_open(text, strlen(text), limits, "body", &doc, &root));
    CHECK_OK(json_get(&root, "messages", &list));
    CHECK_EQ(json_count(&list), 2);
    CHECK_OK(json_item(&list, 0, &at));
    const char *string = "untouched";
    CHECK_EQ(json_str(&at, "role", &string, NULL), ERR_FORMAT);
    CHECK_STR(err_last()->text, "body: messages[0].role: expected a string, got an integer");
    CHECK_STR(string, "untouched");
    CHECK_EQ(json_item(&list, 2, &at), ERR_FORMAT);
    CHECK_STR(err_last()->text, "body: messages[2]: missing, there are 2");
    CHECK_EQ(json_get(&root, "model", &at), ERR_FORMAT);
    CHECK_STR(err_last()->text, "body: model: missing");
    u64 n = 7;
    u32 small = 7;
    CHECK_EQ(json_u64(&root, "n", &n), ERR_FORMAT);
    CHECK(strstr(err_last()->text, "body: n: expected an integer from 0") != NULL);
    CHECK_EQ(json_u32(&root, "big", &small), ERR_FORMAT);
    CHECK_EQ(json_u64(&root, "real", &n), ERR_FORMAT);
    CHECK_EQ(json_str(&root, "s", &string, NULL), ERR_FORMAT);
    CHECK(n == 7 && small == 7);
    u64 bytes;
    CHECK_OK(json_str(&root, "s", &string, &bytes));
    CHECK(bytes == 3 && memcmp(string, "a\0b", 3) == 0);
    CHECK_OK(json_item(&list, 1, &at));
    CHECK(!json_find(&at, "content", &at));
    json_close(&doc);
}

TEST(optional_members_have_a_default_but_no_wrong_type)
{
    struct json_doc doc;
    struct json_at root;
    u64 n;
    f64 x;
    bool b;
    const char *s;
    CHECK_OK(open_text("{\"n\": 5, \"z\": null, \"t\": true, \"s\": \"hi\"}", &doc, &root));
    CHECK_OK(json_u64_or(&root, "n", 1, &n));
    CHECK_EQ(n, 5);
    CHECK_OK(json_u64_or(&root, "z", 1, &n));
    CHECK_EQ(n, 1);
    CHECK_OK(json_u64_or(&root, "absent", 2, &n));
    CHECK_EQ(n, 2);
    CHECK_OK(json_f64_or(&root, "n", 0.5, &x));
    CHECK(x == 5.0);
    CHECK_EQ(json_f64_or(&root, "s", 0.5, &x), ERR_FORMAT);
    CHECK_OK(json_bool_or(&root, "t", false, &b));
    CHECK(b);
    CHECK_EQ(json_bool_or(&root, "n", false, &b), ERR_FORMAT);
    CHECK_OK(json_str_or(&root, "none", NULL, &s));
    CHECK(s == NULL);
    CHECK_OK(json_str_or(&root, "s", NULL, &s));
    CHECK_STR(s, "hi");
    json_close(&doc);
}

TEST(long_paths_keep_their_end)
{
    struct json_doc doc;
    struct json_at root, at;
    char text[600], key[100];
    memset(key, 'k', sizeof key);
    key[99] = 0;
    snprintf(text, sizeof text, "{\"%s\": {\"%s\": {\"end\": []}}}", key, key);
    CHECK_OK(open_text(text, &doc, &root));
    CHECK_OK(json_get(&root, key, &at));
    CHECK_OK(json_get(&at, key, &at));
    u64 n;
    CHECK_EQ(json_u64(&at, "end", &n), ERR_FORMAT);
    CHECK(strncmp(err_last()->text, "...kkk", 6) == 0);
    CHECK(strstr(err_last()->text, "k.end: expected an integer, got an array") != NULL);
    json_close(&doc);
}

TEST(objects_are_walked_in_the_order_of_the_text)
{
    struct json_doc doc;
    struct json_at root, at;
    CHECK_OK(open_text("{\"z\": 1, \"a\": 2, \"m\": 3}", &doc, &root));
    void *cursor = NULL;
    const char *key;
    char keys[8] = "";
    while (json_next(&root, &cursor, &key, &at)) strcat(keys, key);
    CHECK_STR(keys, "zam");
    CHECK_STR(at.path, "m");
    json_close(&doc);
}

static void check_out(struct json_out *out, const char *want)
{
    CHECK_OK(json_out_check(out));
    json_put_plain(out, "", 1);                         /* a NUL for the comparison           */
    CHECK_STR(out->text, want);
    json_out_close(out);
}

TEST(the_writer_places_commas_and_escapes)
{
    struct json_out out = { 0 };
    json_put_plain(&out, "data: ", 6);
    json_put_object(&out);
    json_put_key(&out, "a");
    json_put_array(&out);
    json_put_u64(&out, UINT64_MAX);
    json_put_i64(&out, INT64_MIN);
    json_put_object(&out);
    json_put_object_end(&out);
    json_put_array(&out);
    json_put_array_end(&out);
    json_put_bool(&out, true);
    json_put_bool(&out, false);
    json_put_null(&out);
    json_put_raw(&out, "{}", 2);
    json_put_array_end(&out);
    json_put_key(&out, "b\"");
    json_put_str(&out, "\"\\/\b\f\n\r\t\x01\x7f\xc3\xa9\0", 13);
    json_put_key(&out, "c");
    json_put_cstr(&out, NULL);
    json_put_object_end(&out);
    check_out(&out, "data: {\"a\":[18446744073709551615,-9223372036854775808,{},[],true,false,"
              "null,{}],\"b\\\"\":\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\xc3\xa9\\u0000\","
              "\"c\":null}");
}

TEST(bytes_that_are_not_utf8_become_replacement_characters)
{
    struct json_out out = { 0 };
    json_put_cstr(&out, "\xff" "a\xc3" "b\xe0\x80\x80\xed\xa0\x80\xf0\x9f\x98\x80\xf0\x9f");
#define R "\xef\xbf\xbd"
    check_out(&out, "\"" R "a" R "b" R R R R R R "\xf0\x9f\x98\x80" R R "\"");
}

TEST(doubles_take_the_fewest_digits_that_read_back)
{
    static const struct { f64 value; const char *text; } rows[] = {
        { 0.1, "0.1" }, { 1.0, "1" }, { -0.0, "-0" }, { 1e300, "1e+300" }, { 1.0 / 3,
        "0.3333333333333333" }, { 5e-324, "5e-324" }, { 123456789.25, "123456789.25" },
        { 0.30000000000000004, "0.30000000000000004" }, { INFINITY, "null" }, { NAN, "null" },
    };
    for (u32 i = 0; i < COUNT_OF(rows); i++) {
        struct json_out out = { 0 };
        json_put_f64(&out, rows[i].value);
        check_out(&out, rows[i].text);
    }
}

TEST(a_value_read_is_written_again_the_same)
{
    const char *text = "{\"z\":[1,-2,0.5,\"\xc3\xa9\\n\",null,true,{\"k\":[]}],\"a\":{}}";
    struct json_doc doc;
    struct json_at root;
    CHECK_OK(open_text(text, &doc, &root));
    struct json_out out = { 0 };
    json_put_value(&out, &root);
    check_out(&out, text);
    json_close(&doc);
}

TEST(a_file_is_read_and_named)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/holdfast-json-%d.json", (int)getpid());
    CHECK_OK(file_commit(path, "{\"a\": \"x\"}", 10, 0600));
    struct json_doc doc;
    struct json_at root;
    CHECK_OK(json_open_file(path, limits, &doc, &root));
    u64 n;
    CHECK_EQ(json_u64(&root, "a", &n), ERR_FORMAT);
    char want[128];
    snprintf(want, sizeof want, "%s: a: expected an integer, got a string", path + 5);
    CHECK_STR(err_last()->text, want);
    json_close(&doc);
    unlink(path);
    CHECK_EQ(json_open_file(path, limits, &doc, &root), ERR_NOT_FOUND);
}
