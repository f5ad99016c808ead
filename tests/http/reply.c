/* tests/http/reply.c - forced answers through the whole HTTP side: calls, ids, cuts, images of the
 * same answer streamed and not. */
#include "tests/http/loop.h"

#define CHAT "/v1/chat/completions"

static const char tools[] =
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"read\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"limit\":{\"type\":\"intege"
        "r\"}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{}}}}]";

static char force_path[64];

static void force(const char *lines)
{
    snprintf(force_path, sizeof force_path, "/tmp/holdfast-force-%d", (int)getpid());
    FILE *f = fopen(force_path, "w");
    CHECK(f != NULL);
    fputs(lines, f);
    fclose(f);
    CHECK_OK(force_open(force_path));
    unlink(force_path);
}

static int ask(u32 entry, const char *more)
{
    char body[4096], headers[128];
    snprintf(headers, sizeof headers, "Host: localhost\r\nx-holdfast-force: %u\r\n", entry);
    snprintf(body, sizeof body, "{%s,\"messages\":[{\"role\":\"user\",\"content\":\"Go\"}]}", more);
    return loop_do("POST", CHAT, headers, body);
}

/* All texts of a member in order, as escaped in the body. */
static const char *joined(const char *member)
{
    static char text[8192];
    char key[64];
    snprintf(key, sizeof key, "\"%s\":\"", member);
    text[0] = 0;
    for (const char *at = got.body; (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        u64 len = 0;
        while (at[len] != '"') len += at[len] == '\\' ? 2 : 1;
        strncat(text, at, len);
    }
    return text;
}

static const char answers[] =
    "{\"reasoning\":\"think\",\"content\":\"Reading.\",\"tool_calls\":[{\"id\":\"call_A\",\"name\":"
    "\"read\",\"arguments\":\"{\\\"path\\\":\\\"a \\\\\\\"b\\\\\\\"\\\",\\\"limit\\\":2}\"},"
    "{\"name\":\"now\",\"arguments\":{}}]}\n"
    "{\"content\":\"caf\\u00e9 \\ud83d\\ude00 \\u2028 done\"}\n"
    "{\"content\":\"one two three four five\",\"cut\":true}\n"
    "{\"reasoning\":\"never closed\",\"cut\":3}\n"
    "{\"ids\":[4000000]}\n"
    "{\"content\":\"say <|im_end|> aloud\"}\n";

TEST(a_forced_call_is_one_message_streamed_and_not)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    force(answers);
    char more[2048];
    for (u32 stream = 0; stream < 2; stream++) {
        snprintf(more, sizeof more, "\"stream\":%s,%s", stream ? "true" : "false", tools);
        CHECK_EQ(ask(0, more), 200);
        CHECK(got.complete);
        CHECK_STR(joined("reasoning_content"), "think");
        CHECK_STR(joined("content"), "Reading.");
        CHECK_STR(joined("name"), "readnow");
        CHECK_STR(joined("arguments"),
                  "{\\\"path\\\": \\\"a \\\\\\\"b\\\\\\\"\\\", \\\"limit\\\": 2}{}");
        CHECK(loop_has("\"id\":\"call_A\",\"type\":\"function\""));
        CHECK(loop_has("\"finish_reason\":\"tool_calls\""));
        CHECK(!loop_has("tool_call>"));
        CHECK(!loop_has("function="));
    }
    CHECK(loop_has("\"tool_calls\":[{\"index\":0,\"id\":\"call_A\",\"type\":\"function\",\"f"
        "unction\":"
                   "{\"name\":\"read\",\"arguments\":\"\"}}]"));
    CHECK(loop_has("\"tool_calls\":[{\"index\":1,\"id\":\"call_"));
    CHECK(loop_has("\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\""));
    force_close();
    loop_close();
}

TEST(without_tools_or_with_choice_none_a_call_is_text)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    force(answers);
    char more[2048];
    snprintf(more, sizeof more, "\"tool_choice\":\"none\",%s", tools);
    CHECK_EQ(ask(0, more), 200);
    CHECK(loop_has("<tool_call>\\n<function=read>"));
    CHECK(loop_has("\"finish_reason\":\"stop\""));
    CHECK_EQ(ask(0, "\"n\":1"), 200);
    CHECK(loop_has("<function=read>"));
    force_close();
    loop_close();
}

TEST(parallel_tool_calls_false_ends_after_the_first_call)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    force(answers);
    char more[2048];
    for (u32 stream = 0; stream < 2; stream++) {
        snprintf(more, sizeof more, "\"stream\":%s,\"parallel_tool_calls\":false,%s",
                 stream ? "true" : "false", tools);
        CHECK_EQ(ask(0, more), 200);
        CHECK_STR(joined("name"), "read");
        CHECK(loop_has("\"finish_reason\":\"tool_calls\""));
    }
    force_close();
    loop_close();
}

TEST(text_is_whole_utf8_in_every_chunk)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    force(answers);
    CHECK_EQ(ask(1, "\"stream\":true"), 200);
    CHECK_STR(joined("content"), "caf\u00e9 \U0001F600 \u2028 done");
    CHECK_EQ(text_utf8_valid(got.body, got.body_bytes), got.body_bytes);
    for (char *line = strtok(got.body, "\n"); line != NULL; line = strtok(NULL, "\n"))
        CHECK_EQ(text_utf8_valid(line, strlen(line)), strlen(line));
    force_close();
    loop_close();
}

TEST(a_cut_answer_closes_the_connection_as_if_the_client_had_gone)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    force(answers);
    ask(2, "\"stream\":true");
    CHECK_EQ(got.status, 200);
    CHECK(!got.complete);
    CHECK_STR(joined("content"), "one two three four five");
    CHECK(!loop_has("[DONE]"));
    CHECK(!loop_has("\"finish_reason\":\"s"));
    CHECK_EQ(ask(2, "\"stream\":false"), 0);
    ask(3, "\"stream\":true");
    CHECK(!got.complete);
    CHECK_EQ(fake.cancelled, 3);
    force_close();
    loop_close();
}

TEST(entries_that_are_missing_or_wrong_are_400_naming_the_number)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    CHECK_EQ(ask(0, "\"n\":1"), 400);
    CHECK(loop_has("there is no --force-file"));
    force(answers);
    CHECK_EQ(ask(6, "\"n\":1"), 400);
    CHECK(loop_has("no entry 6, the file has 6"));
    CHECK_EQ(ask(4, "\"n\":1"), 400);
    CHECK(loop_has("entry 4 has an id outside the vocabulary"));
    CHECK_EQ(loop_do("POST", CHAT, "Host: localhost\r\nx-holdfast-force: x\r\n",
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"Go\"}]}"), 400);
    loop_model.test_hooks = false;
    loop_answer("\n</think>\n\nfree");
    CHECK_EQ(ask(0, "\"n\":1"), 200);
    CHECK_STR(joined("content"), "free");
    force_close();
    loop_close();
}

TEST(a_spelled_special_token_in_a_forced_answer_is_text)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    force(answers);
    CHECK_EQ(ask(5, "\"n\":1"), 200);
    CHECK_STR(joined("content"), "say <|im_end|> aloud");
    force_close();
    loop_close();
}

TEST(a_call_cut_by_the_limit_sends_what_it_has_with_length)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("\n</think>\n\n<tool_call>\n<function=read>\n<parameter=path>\nabc");
    char more[2048];
    for (u32 stream = 0; stream < 2; stream++) {
        snprintf(more, sizeof more, "\"max_tokens\":%u,\"stream\":%s,%s", fake.answer_count,
                 stream ? "true" : "false", tools);
        fake.answer[fake.answer_count] = fake.answer[fake.answer_count - 1];
        char body[4096];
        snprintf(body, sizeof body, "{%s,\"messages\":[{\"role\":\"user\",\"content\":\"G"
            "o\"}]}", more);
        fake.answer_count++;
        CHECK_EQ(loop_do("POST", CHAT, NULL, body), 200);
        fake.answer_count--;
        CHECK(loop_has("\"finish_reason\":\"length\""));
        CHECK_STR(joined("name"), "read");
        CHECK_STR(joined("arguments"), "{\\\"path\\\": \\\"abc");
        CHECK(got.complete);
    }
    loop_close();
}

/* ------------------------------------------------------------------ log-probabilities */

/* The same without the header: what loop_answer prepared. */
static int ask_plain(const char *more)
{
    char body[4096];
    snprintf(body, sizeof body, "{%s,\"messages\":[{\"role\":\"user\",\"content\":\"Go\"}]}", more);
    return loop_do("POST", CHAT, NULL, body);
}

static u32 occurs(const char *text)
{
    u32 count = 0;
    for (const char *at = got.body; (at = strstr(at, text)) != NULL; at++) count++;
    return count;
}

TEST(every_pushed_id_has_one_entry_in_order_streamed_and_not)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    force(answers);
    char more[2048], seen[2][8192];
    for (u32 entry = 0; entry < 2; entry++) {
        for (u32 stream = 0; stream < 2; stream++) {
            snprintf(more, sizeof more, "\"stream\":%s,\"logprobs\":true,"
                     "\"stream_options\":{\"include_usage\":true},%s",
                     stream ? "true" : "false", tools);
            CHECK_EQ(ask(entry, more), 200);
            u64 tokens = strtoull(strstr(got.body, "completion_tokens\":") + 19, NULL, 10);
            CHECK(tokens > 5);
            CHECK_EQ(occurs("\"top_logprobs\":[]"), tokens - 1);   /* the stop id has none */
            CHECK_EQ(occurs("\"token\":"), tokens - 1);
            snprintf(seen[stream], sizeof seen[0], "%s", joined("token"));
            for (u64 i = 0; i + 1 < tokens; i++) {
                char number[64];
                snprintf(number, sizeof number, "\"logprob\":%.9g,", -0.25 * (f64)(i + 1));
                CHECK_EQ(occurs(number), 1);
            }
        }
        CHECK_STR(seen[0], seen[1]);
        CHECK(strstr(seen[0], entry == 0 ? "</think>\\n\\nReading.\\n\\n<tool_call>" : "done"));
    }
    force_close();
    loop_close();
}

TEST(an_entry_travels_with_its_delta)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("One\n</think>\n\nTwo three.");
    CHECK_EQ(ask_plain("\"stream\":true,\"logprobs\":true,\"top_logprobs\":2"), 200);
    CHECK(loop_has("{\"content\":\" three\"},\"logprobs\":{\"content\":[{\"token\":\" three\","
                   "\"bytes\":[32,116,104,114,101,101],\"logprob\":"));
    CHECK(loop_has("{\"reasoning_content\":\"One\"},\"log"
                   "probs\":{\"content\":[{\"token\":\"One\""));
    CHECK_EQ(occurs("\"token\":"), 3 * fake.answer_count);
    loop_answer("One\n</think>\n\nTwo three.");
    CHECK_EQ(ask_plain("\"stream\":true"), 200);
    CHECK(!loop_has("logprobs"));
    CHECK_EQ(ask_plain("\"n\":1"), 200);
    CHECK(loop_has("\"logprobs\":null"));
    loop_close();
}

TEST(part_of_a_character_is_shown_as_one_replacement_with_its_bytes)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("</think>\n\n\xf0\x93\x83\xb0");
    CHECK_EQ(ask_plain("\"logprobs\":true"), 200);
    CHECK_STR(joined("content"), "\xf0\x93\x83\xb0");
    CHECK(loop_has("\"token\":\"\xef\xbf\xbd\",\"bytes\":[240"));
    CHECK_EQ(occurs("\"token\":"), fake.answer_count);
    loop_close();
}

TEST(a_long_answer_is_read_past_the_rows_that_wait)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    static char text[8192];
    strcpy(text, "</think>\n\n");
    for (u32 i = 0; i < 400; i++) strcat(text, " word");
    loop_answer(text);
    CHECK(fake.answer_count > 3 * TURN_LOGPROBS);
    CHECK_EQ(ask_plain("\"logprobs\":true"), 200);
    CHECK_EQ(occurs("\"token\":"), fake.answer_count);
    char number[64];
    snprintf(number, sizeof number, "\"logprob\":%.9g,", -0.25 * (f64)fake.answer_count);
    CHECK_EQ(occurs(number), 1);
    loop_close();
}

TEST(one_call_alone_ends_the_entries_too)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    force(answers);
    char more[2048];
    snprintf(more, sizeof more, "\"logprobs\":true,\"parallel_tool_calls\":false,%s", tools);
    CHECK_EQ(ask(0, more), 200);
    CHECK(loop_has("\"finish_reason\":\"tool_calls\""));
    CHECK_EQ(occurs("\"token\":\"<tool_call>\""), 1);
    force_close();
    loop_close();
}
