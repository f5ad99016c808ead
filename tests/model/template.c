/* tests/model/template.c - all golden renderings and refusals, marks, choice by digest. */
#include "model/text/template.h"
#include "tests/golden.h"

/* The case's messages as they stand, without the server's normalisation. */
static struct text_span span_of(struct jsontext v)
{
    return jsontext_string(v, &golden_pool);
}

static void *room(u64 bytes)
{
    void *at = text_pool_take(&golden_pool, bytes);
    CHECK(at != NULL);
    return at;
}

static struct template_part bare_part(struct jsontext v)
{
    struct template_part p = { .kind = TEMPLATE_PART_OTHER };
    if (jsontext_member(v, "image_url").kind || jsontext_member(v, "image").kind)
        p.kind = TEMPLATE_PART_IMAGE;
    else if (jsontext_member(v, "video").kind) p.kind = TEMPLATE_PART_VIDEO;
    else if (jsontext_member(v, "text").kind)
        p = (struct template_part){ TEMPLATE_PART_TEXT, span_of(jsontext_member(v, "text")) };
    return p;
}

static void bare_content(struct jsontext v, struct template_message *m)
{
    if (v.kind == JSONTEXT_ABSENT || v.kind == JSONTEXT_NULL) return;
    m->part_count = v.kind == JSONTEXT_ARRAY ? (u32)jsontext_count(v) : 1;
    m->parts = room(m->part_count * sizeof *m->parts);
    if (v.kind == JSONTEXT_STRING) m->parts[0].text = span_of(v);
    else if (v.kind != JSONTEXT_ARRAY) m->parts[0].kind = TEMPLATE_CONTENT_OTHER;
    struct jsontext_walk w;
    struct jsontext part;
    u32 i = 0;
    if (v.kind != JSONTEXT_ARRAY) return;
    jsontext_walk(&w, v);
    while (jsontext_next(&w, NULL, &part)) m->parts[i++] = bare_part(part);
}

static void bare_calls(struct jsontext v, struct template_message *m)
{
    struct jsontext_walk w;
    struct jsontext call;
    m->calls = room(jsontext_count(v) * sizeof *m->calls);
    jsontext_walk(&w, v);
    while (jsontext_next(&w, NULL, &call)) {
        struct jsontext f = jsontext_member(call, "function"), a = jsontext_member(f, "arguments");
        struct template_call *c = &m->calls[m->call_count++];
        c->name = span_of(jsontext_member(f, "name"));
        if (a.kind == JSONTEXT_OBJECT)
            CHECK_OK(jsontext_rows(a, &golden_pool, &c->arguments, &c->argument_count));
    }
}

static void bare_message(struct jsontext v, struct template_message *m)
{
    static const char *const roles[] = { "system", "user", "assistant", "tool" };
    m->role = TEMPLATE_ROLE_OTHER;
    for (u8 i = 0; i < 4; i++)
        if (jsontext_is(jsontext_member(v, "role"), roles[i])) m->role = i;
    bare_content(jsontext_member(v, "content"), m);
    struct jsontext reasoning = jsontext_member(v, "reasoning_content");
    m->has_reasoning = reasoning.kind == JSONTEXT_STRING;
    if (m->has_reasoning) m->reasoning = span_of(reasoning);
    bare_calls(jsontext_member(v, "tool_calls"), m);
}

static u8 bare_switch(struct jsontext v)
{
    return v.kind == JSONTEXT_TRUE ? TEMPLATE_ON :
           v.kind == JSONTEXT_FALSE ? TEMPLATE_OFF : TEMPLATE_UNSET;
}

static u8 bare_effort(struct jsontext v, struct text_span *text)
{
    *text = v.kind == JSONTEXT_STRING ? span_of(v) : (struct text_span){ "None", 4 };
    return v.kind == JSONTEXT_ABSENT ? TEMPLATE_EFFORT_UNSET :
           jsontext_is(v, "xhigh") ? TEMPLATE_EFFORT_XHIGH :
           jsontext_is(v, "medium") ? TEMPLATE_EFFORT_MEDIUM :
           jsontext_is(v, "low") ? TEMPLATE_EFFORT_LOW : TEMPLATE_EFFORT_OTHER;
}

static struct template_input bare_input(struct jsontext c)
{
    struct jsontext kwargs = jsontext_member(c, "kwargs"), v;
    struct jsontext messages = jsontext_member(c, "messages"), tools = jsontext_member(c, "tools");
    struct template_input in = { .message_count = (u32)jsontext_count(messages),
                                 .tool_count = (u32)jsontext_count(tools) };
    in.messages = room(in.message_count * sizeof *in.messages);
    in.tools = room(in.tool_count * sizeof *in.tools);
    struct jsontext_walk w;
    u32 i = 0;
    jsontext_walk(&w, messages);
    for (; jsontext_next(&w, NULL, &v); i++) bare_message(v, &in.messages[i]);
    jsontext_walk(&w, tools);
    for (i = 0; jsontext_next(&w, NULL, &v); i++) in.tools[i] = v;
    in.thinking = bare_switch(jsontext_member(kwargs, "enable_thinking"));
    in.preserve = bare_switch(jsontext_member(kwargs, "preserve_thinking"));
    in.vision_ids = jsontext_member(kwargs, "add_vision_id").kind == JSONTEXT_TRUE;
    in.effort = bare_effort(jsontext_member(kwargs, "reasoning_effort"), &in.effort_text);
    in.no_generation_prompt =
        jsontext_member(c, "add_generation_prompt").kind == JSONTEXT_FALSE;
    return in;
}

static u32 id_of(struct jsontext key)
{
    for (u32 id = 0; id < TEMPLATE_COUNT; id++)
        if (jsontext_is(key, template_name((enum template_id)id))) return id;
    test_failed(__FILE__, __LINE__, "no such template");
    return NONE;
}

static bool ends_with(const struct text *t, const char *s)
{
    u64 len = strlen(s);
    return t->len >= len && memcmp(t->data + t->len - len, s, len) == 0;
}

static void check_segments(const struct template_prompt *p)
{
    u64 before = 0;
    for (u32 i = 0; i < p->segment_count; i++) {
        CHECK(p->segments[i].end > before);
        CHECK(i == 0 || p->segments[i].kind != p->segments[i - 1].kind);
        before = p->segments[i].end;
    }
    CHECK_EQ(before, p->text.len);
}

/* 1 when it was checked. */
static u32 check_case(const char *name, u32 id, const struct template_input *in,
                      struct jsontext expect)
{
    struct template_prompt p;
    enum err code = template_render((enum template_id)id, in, &p);
    struct jsontext error = jsontext_member(expect, "error");
    if (error.kind == JSONTEXT_STRING) {
        CHECK(code == ERR_FORMAT);
        CHECK_STR(err_last()->text, golden_string(error));
    } else {
        if (code != OK) test_failed(__FILE__, __LINE__, "%s: %s", name, err_last()->text);
        const char *want = golden_string(jsontext_member(expect, "text"));
        if (strcmp(p.text.data, want) != 0)
            test_failed(__FILE__, __LINE__, "%s for %s:\n%s\n---- not\n%s", name,
                        template_name((enum template_id)id), p.text.data, want);
        check_segments(&p);
        CHECK(p.think_open == ends_with(&p.text, "assistant\n<think>\n"));
    }
    template_prompt_close(&p);
    return 1;
}

TEST(every_golden_rendering_comes_out_byte_for_byte_for_its_templates)
{
    struct jsontext_walk w, e;
    struct jsontext c, key, expect;
    u32 cases = 0, checks = 0, left_out = 0;
    jsontext_walk(&w, golden("cases"));
    while (jsontext_next(&w, NULL, &c)) {
        cases++;
        struct template_input in = bare_input(c);
        const char *name = golden_string(jsontext_member(c, "name"));
        jsontext_walk(&e, jsontext_member(c, "expect"));
        while (jsontext_next(&e, &key, &expect)) {
            /* arguments as text: Python's own TypeError; our input has no such form */
            if (strcmp(name, "tool_args_json_string") == 0) left_out++;
            else checks += check_case(name, id_of(key), &in, expect);
        }
    }
    printf("%u cases, %u renderings or refusals, %u left out\n", cases, checks, left_out);
    CHECK(cases == 41 && checks == 58 && left_out == 2);
}

TEST(constants_are_those_of_the_golden_file)
{
    struct template_message user = { .role = TEMPLATE_USER };
    struct template_part part = { .text = { "q", 1 } };
    struct jsontext tool = { "{}", 2, JSONTEXT_OBJECT };
    struct template_input in = { .messages = &user, .message_count = 1, .tools = &tool,
                                 .tool_count = 1 };
    user.parts = &part;
    user.part_count = 1;
    struct template_prompt p;
    CHECK_OK(template_render(TEMPLATE_38, &in, &p));
    static const char *const names[] = { "effort_xhigh", "tools_open", "tools_close",
                                         "tools_rules" };
    for (u32 i = 0; i < COUNT_OF(names); i++)
        CHECK(strstr(p.text.data, golden_string(jsontext_member(jsontext_member(
            golden("constants"), names[i]), "text"))) != NULL);
    template_prompt_close(&p);
}

/* A message from a role's letter (s l u a t) and its text; `why` of an assistant. */
static struct template_message message(char role, const char *text, const char *why)
{
    struct template_part *part = room(sizeof *part);
    part->text = (struct text_span){ text, strlen(text) };
    u8 r = role == 's' ? TEMPLATE_SYSTEM : role == 'l' ? TEMPLATE_LATE_SYSTEM :
           role == 'u' ? TEMPLATE_USER : role == 'a' ? TEMPLATE_ASSISTANT : TEMPLATE_TOOL;
    return (struct template_message){
        .role = r, .parts = part, .part_count = 1, .has_reasoning = why != NULL,
        .reasoning = { why, why != NULL ? strlen(why) : 0 } };
}

static const struct tokenizer *default_tokenizer(void)
{
    static struct tokenizer *t;
    if (t != NULL) return t;
    golden("about");
    struct tokenizer_source files = {
        .tokenizer_json = golden_file("profiles/default-model/tokenizer.json"),
        .tokenizer_config = golden_file("profiles/default-model/tokenizer_config.json"),
        .rows = 1792 };
    CHECK_OK(tokenizer_open(&files, &t));
    free((void *)files.tokenizer_json.bytes);
    free((void *)files.tokenizer_config.bytes);
    return t;
}

TEST(marks_are_head_last_three_users_last_result_and_the_last_token)
{
    const struct tokenizer *t = default_tokenizer();
    u32 start = tokenizer_added(t, "<|im_start|>");
    struct template_message m[] = {
        message('s', "Rules.", NULL), message('u', "one", NULL), message('a', "1", "r"),
        message('u', "two", NULL), message('a', "2", NULL), message('u', "three", NULL),
        message('a', "3", NULL), message('t', "first", NULL), message('t', "second", NULL),
        message('a', "4", NULL), message('u', "four", NULL),
    };
    struct template_input in = { .messages = m, .message_count = COUNT_OF(m) };
    struct template_prompt p;
    struct tokenizer_ids ids = { 0 };
    CHECK_OK(template_render(TEMPLATE_38, &in, &p));
    CHECK_OK(template_encode(t, &p, false, &ids));
    static const u8 kinds[] = { TEMPLATE_MARK_HEAD, TEMPLATE_MARK_USER, TEMPLATE_MARK_USER,
                                TEMPLATE_MARK_RESULT, TEMPLATE_MARK_USER, TEMPLATE_MARK_LAST };
    static const char *const texts[] = { "<|im_start|>user\none", "<|im_start|>user\ntwo",
        "<|im_start|>user\nthree", "\n<tool_response>\nsecond", "<|im_start|>user\nfour", "" };
    CHECK_EQ(p.mark_count, COUNT_OF(kinds));
    for (u32 i = 0; i < p.mark_count; i++) {
        CHECK_EQ(p.marks[i].kind, kinds[i]);
        CHECK(strncmp(p.text.data + p.marks[i].byte, texts[i], strlen(texts[i])) == 0);
        CHECK(i == 0 || p.marks[i].token > p.marks[i - 1].token);
        if (kinds[i] <= TEMPLATE_MARK_USER) CHECK_EQ(ids.id[p.marks[i].token], start);
    }
    CHECK_EQ(ids.id[p.marks[3].token + 1], tokenizer_added(t, "<tool_response>"));
    CHECK_EQ(p.marks[5].token, ids.count - 1);
    tokenizer_ids_close(&ids);
    template_prompt_close(&p);
}

TEST(a_mark_before_the_first_of_a_group_of_results_stands_at_its_turn)
{
    golden("about");
    struct template_message m[] = { message('u', "q", NULL), message('a', "", "r"),
                                    message('t', "ok", NULL) };
    struct template_input in = { .messages = m, .message_count = 3 };
    struct template_prompt p;
    CHECK_OK(template_render(TEMPLATE_36, &in, &p));
    CHECK_EQ(p.mark_count, 1);          /* 3.6 has no head here, and byte 0 is no mark */
    CHECK(strncmp(p.text.data + p.marks[0].byte, "<|im_start|>user\n<tool_response>", 32) == 0);
    template_prompt_close(&p);
}

static void renders_to(enum template_id id, struct template_message *m, u32 count, bool go_on,
                       const char *want, bool think_open)
{
    struct template_input in = { .messages = m, .message_count = count, .continue_final = go_on,
                                 .effort = TEMPLATE_EFFORT_MEDIUM };
    struct template_prompt p;
    CHECK_OK(template_render(id, &in, &p));
    CHECK_STR(p.text.data, want);
    CHECK(p.think_open == think_open);
    template_prompt_close(&p);
}

TEST(a_final_assistant_message_is_continued_where_it_stopped)
{
    golden("about");
    struct template_message m[] = { message('u', "q", NULL), message('a', " It is ", "Sum.\n") };
    renders_to(TEMPLATE_38, m, 2, true, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
               "<think>\nSum.\n</think>\n\nIt is", false);
    m[1] = message('a', "", "Sum");
    renders_to(TEMPLATE_38, m, 2, true, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
               "<think>\nSum", true);
    m[1] = message('a', " \n", NULL);
    renders_to(TEMPLATE_38, m, 2, true, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
               "<think>\n", true);
    m[1] = message('a', "<think>\nA\n</think>\n\nB", NULL);
    renders_to(TEMPLATE_36, m, 2, true, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
               "<think>\nA\n</think>\n\nB", false);
    struct template_prompt p;
    struct template_input in = { .messages = m, .message_count = 1, .continue_final = true };
    CHECK(template_render(TEMPLATE_38, &in, &p) == ERR_FORMAT);
    template_prompt_close(&p);
}

TEST(a_late_system_message_is_its_own_turn_and_no_query)
{
    golden("about");
    struct template_message m[] = { message('u', "q", NULL), message('l', " Env.\n", NULL) };
    renders_to(TEMPLATE_38, m, 2, false, "<|im_start|>user\nq<|im_end|>\n<|im_start|>system\nEnv."
               "<|im_end|>\n<|im_start|>assistant\n<think>\n", true);
}

static u32 chosen(const char *name, const char *jinja, const char *config)
{
    enum template_id id = TEMPLATE_COUNT;
    struct template_source source = { .name = name, .jinja = { jinja, strlen(jinja) },
                                      .tokenizer_config = { config, strlen(config) } };
    return template_choose(&source, &id) == OK ? (u32)id : NONE;
}

TEST(a_template_is_chosen_by_name_by_key_or_by_digest)
{
    CHECK_EQ(chosen("3.5-small", "", ""), TEMPLATE_35_SMALL);
    CHECK_EQ(chosen(NULL, "", "{\"holdfast_chat_template\":\"3.6\"}"), TEMPLATE_36);
    CHECK_EQ(chosen("3.8", "unknown", "{\"holdfast_chat_template\":\"3.6\"}"), TEMPLATE_38);
    CHECK_EQ(chosen("4", "", ""), NONE);
    CHECK(strstr(err_last()->text, "--template 4") != NULL);
    CHECK_EQ(chosen(NULL, "", ""), NONE);
    CHECK(strstr(err_last()->text, "--template") != NULL);
    CHECK_EQ(chosen(NULL, "{{ messages }}", "{}"), NONE);
    CHECK(strstr(err_last()->text, "--template") != NULL);
    CHECK_EQ(chosen(NULL, "", "{\"chat_template\":[{\"name\":\"default\",\"template\":\"x\"}]}"),
             NONE);
    CHECK(strstr(err_last()->text, "sha256 2d711642b726b044") != NULL);
    CHECK_EQ(chosen(NULL, "", "{\"holdfast_chat_template\":\"5\"}"), NONE);
    CHECK_EQ(chosen(NULL, "", "{"), NONE);
}
