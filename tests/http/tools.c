/* tests/http/tools.c - golden parsings in any cuts; values, holds and cut calls one by one. */
#include "http/chat/tools.h"
#include "http/chat/normal.h"
#include "tests/golden.h"

struct parsed {                         /* what a client would have gathered from the events     */
    struct text reasoning, content;
    struct text name[8], arguments[8];
    bool complete[8], cut[8];
    u32 calls;
    char id[8][TOOLS_ID_BYTES];
};

static void parsed_open(struct parsed *m)
{
    *m = (struct parsed){ 0 };
    text_open_growing(&m->reasoning, &golden_source, 1 << 20);
    text_open_growing(&m->content, &golden_source, 1 << 20);
    for (u32 i = 0; i < 8; i++) {
        text_open_growing(&m->name[i], &golden_source, 1 << 20);
        text_open_growing(&m->arguments[i], &golden_source, 1 << 20);
    }
}

static void parsed_close(struct parsed *m)
{
    text_close(&m->reasoning);
    text_close(&m->content);
    for (u32 i = 0; i < 8; i++) {
        text_close(&m->name[i]);
        text_close(&m->arguments[i]);
    }
}

static void gather(struct parsed *m, const struct tools *p, struct tools_events *e)
{
    for (u32 i = 0; i < e->count; i++) {
        const struct tools_event *row = &e->rows[i];
        const char *s = e->text.data + row->start;
        CHECK(row->kind < TOOLS_CALL_BEGIN || row->call < 8);
        CHECK(text_utf8_valid(s, row->len) == row->len);
        switch (row->kind) {
        case TOOLS_REASONING: text_put(&m->reasoning, s, row->len); break;
        case TOOLS_CONTENT: text_put(&m->content, s, row->len); break;
        case TOOLS_CALL_BEGIN:
            CHECK_EQ(row->call, m->calls);
            m->calls++;
            text_put(&m->name[row->call], s, row->len);
            snprintf(m->id[row->call], TOOLS_ID_BYTES, "%s", tools_call_id(p, row->call));
            break;
        case TOOLS_CALL_ARGUMENTS: text_put(&m->arguments[row->call], s, row->len); break;
        case TOOLS_CALL_END: m->complete[row->call] = true; break;
        default: m->cut[row->call] = true; break;
        }
    }
    tools_events_clear(e);
}

static const struct { const char *text; enum vocab_kind kind; } tags[] = {
    { "<think>", VOCAB_THINK_OPEN }, { "</think>", VOCAB_THINK_CLOSE },
    { "<tool_call>", VOCAB_CALL_OPEN }, { "</tool_call>", VOCAB_CALL_CLOSE },
};

static u32 random_state = 99;
static u32 below(u32 n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % n;
}

/* The next piece of `s`: a whole tag when tags are tokens, else at most `most` bytes of text. */
static u64 next_piece(const char *s, u64 len, bool by_text, u64 most, enum vocab_kind *kind)
{
    *kind = VOCAB_TEXT;
    for (u64 n = 0; n < len; n++) {
        if (n == most) return n;
        for (u32 i = 0; i < COUNT_OF(tags) && !by_text; i++) {
            u64 tag = strlen(tags[i].text);
            if (tag > len - n || memcmp(s + n, tags[i].text, tag) != 0) continue;
            if (n > 0) return n;
            *kind = tags[i].kind;
            return tag;
        }
    }
    return len;
}

enum cuts { WHOLE, BYTES, RANDOM };

static void parse(const struct tools_options *options, const char *s, enum cuts cuts,
                  struct parsed *m)
{
    struct tools *p = NULL;
    struct tools_events e;
    u64 len = strlen(s), at = 0;
    CHECK_OK(tools_open(options, &golden_source, &p));
    tools_events_open(&e, &golden_source);
    parsed_open(m);
    while (at < len) {
        enum vocab_kind kind;
        u64 most = cuts == WHOLE ? len : cuts == BYTES ? 1 : 1 + below(9);
        u64 n = next_piece(s + at, len - at, options->tags_by_text, most, &kind);
        CHECK_OK(tools_feed(p, s + at, n, kind, &e));
        gather(m, p, &e);
        at += n;
    }
    CHECK_OK(tools_finish(p, &e));
    gather(m, p, &e);
    CHECK_EQ(tools_call_count(p), m->calls);
    tools_events_close(&e);
    tools_close(p);
}

static const char *text_of(const struct text *t)
{
    return t->data != NULL ? t->data : "";
}

/* The golden cases' tool of that name. */
static struct jsontext tool_named(const char *name)
{
    struct jsontext_walk w, k;
    struct jsontext c, tool;
    jsontext_walk(&w, golden("cases"));
    while (jsontext_next(&w, NULL, &c)) {
        jsontext_walk(&k, jsontext_member(c, "tools"));
        while (jsontext_next(&k, NULL, &tool))
            if (jsontext_is(jsontext_member(jsontext_member(tool, "function"), "name"), name))
                return tool;
    }
    test_failed(__FILE__, __LINE__, "no tool %s", name);
    return tool;
}

static u32 tools_of(struct jsontext names, struct jsontext *tools)
{
    struct jsontext_walk w;
    struct jsontext name;
    u32 count = 0;
    jsontext_walk(&w, names);
    while (jsontext_next(&w, NULL, &name)) tools[count++] = tool_named(golden_string(name));
    return count;
}

/* Equal JSON, as Python would print both. */
static void check_arguments(const char *name, const struct text *got, struct jsontext want)
{
    struct text a, b;
    struct jsontext v = { 0 };
    text_open_growing(&a, &golden_source, 1 << 20);
    text_open_growing(&b, &golden_source, 1 << 20);
    if (jsontext_open(text_of(got), got->len, 64, &v) != OK)
        test_failed(__FILE__, __LINE__, "%s: %s: %s", name, text_of(got), err_last()->text);
    CHECK_OK(jsontext_dump(v, &golden_pool, &a));
    CHECK_OK(jsontext_dump(want, &golden_pool, &b));
    if (strcmp(a.data, b.data) != 0)
        test_failed(__FILE__, __LINE__, "%s: %s, not %s", name, a.data, b.data);
    text_close(&a);
    text_close(&b);
}

static void check_expected(const char *name, struct parsed *m, struct jsontext expect)
{
    struct jsontext reasoning = jsontext_member(expect, "reasoning_content");
    CHECK_STR(text_of(&m->reasoning),
              reasoning.kind == JSONTEXT_STRING ? golden_string(reasoning) : "");
    CHECK_STR(text_of(&m->content), golden_string(jsontext_member(expect, "content")));
    struct jsontext_walk w;
    struct jsontext call;
    u32 i = 0;
    jsontext_walk(&w, jsontext_member(expect, "tool_calls"));
    for (; jsontext_next(&w, NULL, &call); i++) {
        CHECK(i < m->calls);
        CHECK_STR(text_of(&m->name[i]), golden_string(jsontext_member(call, "name")));
        bool partial = jsontext_member(call, "partial").kind == JSONTEXT_TRUE;
        CHECK(m->complete[i] == !partial && m->cut[i] == partial);
        if (partial) text_str(&m->arguments[i], "\"}");     /* the cut leaves its JSON open */
        check_arguments(name, &m->arguments[i], jsontext_member(call, "arguments"));
    }
    CHECK_EQ(i, m->calls);
}

TEST(every_golden_parsing_is_met_in_any_cuts)
{
    struct jsontext_walk w;
    struct jsontext c, tools[4];
    u32 count = 0;
    jsontext_walk(&w, golden("parse"));
    for (; jsontext_next(&w, NULL, &c); count++) {
        const char *name = golden_string(jsontext_member(c, "name"));
        const char *generated = golden_string(jsontext_member(c, "generated"));
        struct tools_options o = { .tools = tools };
        o.tool_count = tools_of(jsontext_member(c, "tools"), tools);
        o.calls = o.tool_count > 0;
        o.think_open = jsontext_member(c, "prompt_thinking_open").kind == JSONTEXT_TRUE;
        for (u32 way = 0; way < 2 * 42; way++) {
            o.tags_by_text = way % 2 == 1;
            struct parsed m;
            parse(&o, generated, way < 4 ? way / 2 : RANDOM, &m);
            check_expected(name, &m, jsontext_member(c, "expect"));
            parsed_close(&m);
        }
    }
    printf("%u parsings\n", count);
    CHECK_EQ(count, 19);
}

/* What was parsed as a client sends it back, rendered by 3.8 behind the same prompt. */
static const char *rerendered(const struct parsed *m, bool think_open, struct text *text)
{
    struct text body;
    struct jsontext v;
    struct template_input in;
    struct template_prompt p;
    struct normal_param param;
    text_open_growing(&body, &golden_source, 1 << 20);
    text_f(&body, "{\"reasoning_effort\":\"medium\",\"enable_thinking\":%s,"
           "\"add_generation_prompt\":false,\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
           "{\"role\":\"assistant\",\"content\":", think_open ? "true" : "false");
    text_json(&body, text_of(&m->content), m->content.len);
    text_str(&body, ",\"reasoning_content\":");
    text_json(&body, text_of(&m->reasoning), m->reasoning.len);
    text_str(&body, ",\"tool_calls\":[");
    for (u32 i = 0; i < m->calls; i++) {
        text_f(&body, "%s{\"function\":{\"name\":", i > 0 ? "," : "");
        text_json(&body, text_of(&m->name[i]), m->name[i].len);
        text_str(&body, ",\"arguments\":");
        text_json(&body, text_of(&m->arguments[i]), m->arguments[i].len);
        text_str(&body, "}}");
    }
    text_str(&body, "]}]}");
    CHECK_OK(jsontext_open(body.data, body.len, 64, &v));
    CHECK_OK(normal_chat(v, &(struct normal_options){ 0 }, &golden_pool, &in, &param));
    CHECK_OK(template_render(TEMPLATE_38, &in, &p));
    text_clear(text);
    text_put(text, p.text.data, p.text.len);
    template_prompt_close(&p);
    text_close(&body);
    return text->data;
}

TEST(parsed_messages_render_back_to_their_rows_where_the_golden_file_says_so)
{
    struct jsontext_walk w;
    struct jsontext c, tools[4];
    struct text got, want;
    text_open_growing(&got, &golden_source, 1 << 20);
    text_open_growing(&want, &golden_source, 1 << 20);
    jsontext_walk(&w, golden("parse"));
    while (jsontext_next(&w, NULL, &c)) {
        struct parsed m;
        struct tools_options o = { .tools = tools };
        o.tool_count = tools_of(jsontext_member(c, "tools"), tools);
        o.calls = o.tool_count > 0;
        o.think_open = jsontext_member(c, "prompt_thinking_open").kind == JSONTEXT_TRUE;
        const char *generated = golden_string(jsontext_member(c, "generated"));
        parse(&o, generated, BYTES, &m);
        for (u32 i = 0; i < m.calls; i++)
            if (m.cut[i]) text_str(&m.arguments[i], "\"}");
        text_clear(&want);
        text_f(&want, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\n%s",
               o.think_open ? "" : "\n</think>\n\n");
        text_str(&want, generated);
        text_str(&want, "<|im_end|>\n");
        bool equal = strcmp(rerendered(&m, o.think_open, &got), want.data) == 0;
        if (equal != (jsontext_member(c, "rerender_equal").kind == JSONTEXT_TRUE))
            test_failed(__FILE__, __LINE__, "%s: %s", equal ? "equal" : "differs", got.data);
        parsed_close(&m);
    }
    text_close(&got);
    text_close(&want);
}

/* One parameter `v` of the given schema: its JSON value, from a whole call in all cuts. */
static void value_is(const char *schema, const char *generated, const char *want)
{
    char tool[1024], text[1024], all[1024];
    struct jsontext v = { 0 };
    golden("about");
    snprintf(tool, sizeof tool, "{\"type\":\"function\",\"function\":{\"name\":\"f\","
             "\"parameters\":{\"type\":\"object\",\"properties\":{\"v\":%s,"
             "\"w\":{\"type\":\"string\"}}}}}", schema);
    snprintf(text, sizeof text, "<tool_call>\n<function=f>\n<parameter=v>%s</parameter>\n"
             "</function>\n</tool_call>", generated);
    snprintf(all, sizeof all, "{\"v\": %s}", want);
    CHECK_OK(jsontext_open(tool, strlen(tool), 64, &v));
    struct tools_options o = { .tools = &v, .tool_count = 1, .calls = true };
    for (u32 way = 0; way < 12; way++) {
        struct parsed m;
        o.tags_by_text = way % 2 == 1;
        parse(&o, text, way < 4 ? way / 2 : RANDOM, &m);
        CHECK_EQ(m.calls, 1);
        CHECK(m.complete[0]);
        CHECK_STR(text_of(&m.arguments[0]), all);
        CHECK_STR(text_of(&m.content), "");
        parsed_close(&m);
    }
}

TEST(values_take_the_first_type_that_fits_and_keep_their_text)
{
    value_is("{\"type\":\"string\"}", "\n a \n", "\" a \"");
    value_is("{\"type\":\"string\"}", "null", "\"null\"");
    value_is("{\"type\":[\"string\",\"null\"]}", "\nNone\n", "null");
    value_is("{\"type\":[\"string\",\"null\"]}", "\nNone.\n", "\"None.\"");
    value_is("{\"type\":\"integer\"}", "\n 12 \n", "12");
    value_is("{\"type\":\"integer\"}", "\n-0\n", "-0");
    value_is("{\"type\":\"integer\"}", "\n012\n", "\"012\"");
    value_is("{\"type\":\"integer\"}", "\n2.0\n", "\"2.0\"");
    value_is("{\"type\":\"integer\"}", "\nnull\n", "null");
    value_is("{\"type\":\"number\"}", "\n2.0\n", "2.0");
    value_is("{\"type\":\"number\"}", "\n1e5\n", "1e5");
    value_is("{\"type\":\"number\"}", "\n1,5\n", "\"1,5\"");
    value_is("{\"type\":\"boolean\"}", "\nTRUE\n", "true");
    value_is("{\"type\":\"boolean\"}", "\nyes\n", "\"yes\"");
    value_is("{\"type\":[\"integer\",\"string\"]}", "\n7\n", "7");
    value_is("{\"type\":[\"integer\",\"string\"]}", "\n7a\n", "\"7a\"");
    value_is("{\"type\":[\"string\",\"integer\"]}", "\n7\n", "\"7\"");
    value_is("{\"anyOf\":[{\"type\":\"object\"},{\"type\":\"array\"}]}", "\n[1, 2]\n", "[1, 2]");
    value_is("{\"oneOf\":[{\"type\":\"object\"},{\"type\":\"null\"}]}", "\n{\"a\":1}\n",
             "{\"a\":1}");
    value_is("{\"type\":\"object\"}", "\n[1]\n", "\"[1]\"");
    value_is("{\"enum\":[\"a\",\"b\"]}", "\na\n", "\"a\"");
    value_is("{}", "\n1\n", "\"1\"");
    value_is("{\"type\":\"string\"}", "\n\n\n", "\"\\n\"");
    value_is("{\"type\":\"string\"}", "\n", "\"\"");
    value_is("{\"type\":\"string\"}", "", "\"\"");
}

TEST(what_looks_like_a_close_belongs_to_the_value_unless_a_parameter_or_the_end_follows)
{
    value_is("{\"type\":\"string\"}", "\na</parameter>b\n", "\"a</parameter>b\"");
    value_is("{\"type\":\"string\"}", "\na\n</parameter>\n\nb\n", "\"a\\n</parameter>\\n\\nb\"");
    value_is("{\"type\":\"string\"}", "\na\n</function>\nb\n", "\"a\\n</function>\\nb\"");
    value_is("{\"type\":\"string\"}", "\n<parameter=v>\n", "\"<parameter=v>\"");
    value_is("{\"type\":\"string\"}", "\na\n<parameter=v>\n", "\"a\\n<parameter=v>\"");
    value_is("{\"type\":\"string\"}", "\na\n<parameter=other>\n", "\"a\\n<parameter=other>\"");
    value_is("{\"type\":\"string\"}", "\n<tool_call></tool_call>\n",
             "\"<tool_call></tool_call>\"");
    value_is("{\"type\":\"string\"}", "\na\n</parameter>\n</tool_call> b\n",
             "\"a\\n</parameter>\\n</tool_call> b\"");
    value_is("{\"type\":\"string\"}", "\n<</<</parameter\n", "\"<</<</parameter\"");
    value_is("{\"type\":\"string\"}", "\na\n<parameter=w>\nb\n", "\"a\", \"w\": \"b\"");
    value_is("{\"type\":\"integer\"}", "\n<parameter=w>\nb\n", "\"\", \"w\": \"b\"");
}

struct want { const char *reasoning, *content, *arguments; u32 calls, complete; };

/* `text` with a tool f without schema, in all cuts and both ways of tags. */
static void message_is(const char *text, bool think_open, bool calls, struct want want)
{
    static const char tool[] = "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}";
    struct jsontext v = { 0 };
    golden("about");
    CHECK_OK(jsontext_open(tool, sizeof tool - 1, 64, &v));
    struct tools_options o = { .tools = &v, .tool_count = 1, .calls = calls,
                               .think_open = think_open };
    for (u32 way = 0; way < 24; way++) {
        struct parsed m;
        u32 complete = 0;
        o.tags_by_text = way % 2 == 1;
        parse(&o, text, way < 4 ? way / 2 : RANDOM, &m);
        for (u32 i = 0; i < m.calls; i++) complete += m.complete[i];
        CHECK_STR(text_of(&m.reasoning), want.reasoning);
        CHECK_STR(text_of(&m.content), want.content);
        CHECK_EQ(m.calls, want.calls);
        CHECK_EQ(complete, want.complete);
        if (want.calls > 0) CHECK_STR(text_of(&m.arguments[0]), want.arguments);
        parsed_close(&m);
    }
}

TEST(reasoning_and_content_are_split_and_trimmed_in_any_cuts)
{
    message_is("\n a \xC2\xA0 b \n</think>\n\n c\nd \n\n", true, true,
               (struct want){ "a \xC2\xA0 b", "c\nd", "", 0, 0 });
    message_is("a</think>b</think> c", true, true, (struct want){ "a", "b c", "", 0, 0 });
    message_is("<think>a<think>b</think>", true, true, (struct want){ "a<think>b", "", "", 0, 0 });
    message_is("a < b </thin", true, true, (struct want){ "a < b </thin", "", "", 0, 0 });
    message_is("a <tool_call> b", true, false, (struct want){ "a <tool_call> b", "", "", 0, 0 });
    message_is("\xF0\x9F\x98\x80", false, true, (struct want){ "", "\xF0\x9F\x98\x80", "", 0, 0 });
}

TEST(K43_a_call_inside_the_think_block_is_a_call_and_a_tag_in_two_pieces_is_no_text)
{
    message_is("r\n<tool_call>\n<function=f>\n</function>\n</tool_call>", true, true,
               (struct want){ "r", "", "{}", 1, 1 });
    message_is("a\n</think>\n\nb", true, true, (struct want){ "a", "b", "", 0, 0 });
    message_is("r\n<tool_call>\n<function=f>\n</function>\n</tool_call>\n</think>\n\nb", true, true,
               (struct want){ "r", "b", "{}", 1, 1 });
}

TEST(calls_that_are_none_are_content_and_lose_nothing)
{
    message_is("a\n\n<tool_call>\nb", false, true,
               (struct want){ "", "a\n\n<tool_call>\nb", "", 0, 0 });
    message_is("a <tool_call>\n<function=", false, true,
               (struct want){ "", "a <tool_call>\n<function=", "", 0, 0 });
    message_is("<tool_call>", false, true, (struct want){ "", "<tool_call>", "", 0, 0 });
    message_is("r <tool_call> b", true, true, (struct want){ "r", "<tool_call> b", "", 0, 0 });
    message_is("<tool_call><tool_call>\n<function=f></function></tool_call>", false, true,
               (struct want){ "", "<tool_call>", "{}", 1, 1 });
}

TEST(calls_end_whole_or_are_cut_with_what_came)
{
    message_is("<tool_call>\n<function= f >\n</function>\n</tool_call>\nx", false, true,
               (struct want){ "", "x", "{}", 1, 1 });
    message_is("a\n<tool_call><function=f></function></tool_call>\n\nx", false, true,
               (struct want){ "", "a\n\nx", "{}", 1, 1 });
    message_is("<tool_call><function=f><parameter=a>1</parameter>\n</tool_call>", false, true,
               (struct want){ "", "", "{\"a\": \"1\"}", 1, 1 });
    message_is("<tool_call><function=f><parameter=a>1</parameter>", false, true,
               (struct want){ "", "", "{\"a\": \"1\"", 1, 0 });
    message_is("<tool_call><function=f><parameter=a>\n1\n</para", false, true,
               (struct want){ "", "", "{\"a\": \"1", 1, 0 });
    message_is("<tool_call><function=f>junk <x> <parameter=a>1\n</parameter> </function>",
               false, true, (struct want){ "", "", "{\"a\": \"1\"}", 1, 1 });
    message_is("<tool_call><function=f></function><tool_call><function=g></function></tool_call>",
               false, true, (struct want){ "", "", "{}", 2, 2 });
    message_is("<tool_call><function=f><parameter=a>1</parameter><parameter=a>2</parameter>"
               "</function>", false, true,
               (struct want){ "", "", "{\"a\": \"1\", \"a\": \"2\"}", 1, 1 });
}

TEST(ids_are_a_prefix_and_24_letters_each_its_own)
{
    struct parsed a, b;
    struct tools_options o = { .calls = true, .id_prefix = "toolu_" };
    golden("about");
    static const char two[] = "<tool_call><function=f></function></tool_call><tool_call>"
                              "<function=f></function></tool_call>";
    parse(&o, two, WHOLE, &a);
    o.id_prefix = NULL;
    parse(&o, two, WHOLE, &b);
    CHECK(strlen(a.id[0]) == 30 && strncmp(a.id[0], "toolu_", 6) == 0);
    CHECK(strlen(b.id[0]) == 29 && strncmp(b.id[0], "call_", 5) == 0);
    CHECK(strspn(b.id[0] + 5, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
          == 24);
    CHECK(strcmp(b.id[0], b.id[1]) != 0 && strcmp(a.id[1] + 6, b.id[1] + 5) != 0);
    parsed_close(&a);
    parsed_close(&b);
}

TEST(special_tokens_and_ends_have_no_text)
{
    struct tools *p = NULL;
    struct tools_events e;
    CHECK_OK(tools_open(&(struct tools_options){ 0 }, &golden_source, &p));
    tools_events_open(&e, &golden_source);
    CHECK_OK(tools_feed(p, "a", 1, VOCAB_TEXT, &e));
    CHECK_OK(tools_feed(p, "<|im_start|>", 12, VOCAB_SPECIAL, &e));
    CHECK_OK(tools_feed(p, "<|im_end|>", 10, VOCAB_TURN_END, &e));
    CHECK_OK(tools_finish(p, &e));
    CHECK(e.count == 1 && e.text.len == 1);
    tools_events_close(&e);
    tools_close(p);
}
