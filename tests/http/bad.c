/* tests/http/bad.c - bodies that are refused: each a status, a type, a field and words; the server
 * answers the next request after every one of them. */
#include "tests/http/loop.h"

#define CHAT "/v1/chat/completions"
#define U "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

struct bad {
    const char *path, *body;
    int status;
    const char *param;                  /* NULL: null                                            */
    const char *words;
};

static const struct bad bad[] = {
    { CHAT, "", 400, NULL, "the body is empty" },
    { CHAT, "{", 400, NULL, "the body is not JSON" },
    { CHAT, "{\"messages\":[]} x", 400, NULL, "the body is not JSON" },
    { CHAT, "{\"a\":01}", 400, NULL, "the body is not JSON" },
    { CHAT, "{\"a\":NaN}", 400, NULL, "the body is not JSON" },
    { CHAT, "{\"a\":\"\x01\"}", 400, NULL, "the body is not JSON" },
    { CHAT, "{\"a\":\"\xff\xfe\"}", 400, NULL, "the body is not JSON" },
    { CHAT, "[1,2]", 400, NULL, "expected an object" },
    { CHAT, "\"messages\"", 400, NULL, "expected an object" },
    { CHAT, "{}", 400, "messages", "messages" },
    { CHAT, "{\"messages\":null}", 400, "messages", "messages" },
    { CHAT, "{\"messages\":\"Hi\"}", 400, "messages", "array" },
    { CHAT, "{\"messages\":[]}", 400, "messages", "No messages provided." },
    { CHAT, "{\"messages\":[7]}", 400, "messages[0]", "object" },
    { CHAT, "{\"messages\":[{\"content\":\"x\"}]}", 400, "messages[0].role", "role" },
    { CHAT, "{\"messages\":[{\"role\":\"robot\",\"content\":\"x\"}]}", 400, "messages[0].rol"
        "e", "" },
    { CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":7}]}", 400, "messages[0].content", "" },
    { CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]}", 400,
      "messages[0].content[0]", "input_audio" },
    { CHAT, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}]}", 400, "messages",
      "No user query found in messages." },
    { CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistan"
        "t\",\"content\":"
      "null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\","
      "\"arguments\":\"[1]\"}}]}]}", 400, "messages[1].tool_calls[0].function.arguments", "" },
    { CHAT, "{" U ",\"model\":7}", 400, "model", "expected a string" },
    { CHAT, "{" U ",\"stream\":\"yes\"}", 400, "stream", "expected true or false" },
    { CHAT, "{" U ",\"stream_options\":true}", 400, "stream_options", "expected an object" },
    { CHAT, "{" U ",\"stream_options\":{\"include_usage\":1}}", 400,
      "stream_options.include_usage", "expected true or false" },
    { CHAT, "{" U ",\"temperature\":\"hot\"}", 400, "temperature", "expected a number" },
    { CHAT, "{" U ",\"temperature\":1e300}", 400, "temperature", "is not between" },
    { CHAT, "{" U ",\"top_p\":1.5}", 400, "top_p", "is not between 0 and 1" },
    { CHAT, "{" U ",\"min_p\":-0.1}", 400, "min_p", "is not between 0 and 1" },
    { CHAT, "{" U ",\"top_k\":1.5}", 400, "top_k", "is not an integer" },
    { CHAT, "{" U ",\"presence_penalty\":3}", 400, "presence_penalty", "between -2 and 2" },
    { CHAT, "{" U ",\"frequency_penalty\":[]}", 400, "frequency_penalty", "expected a number" },
    { CHAT, "{" U ",\"repetition_penalty\":0}", 400, "repetition_penalty", "is not between" },
    { CHAT, "{" U ",\"seed\":18446744073709551616}", 400, "seed", "is not an integer of 64 bits" },
    { CHAT, "{" U ",\"max_tokens\":0}", 400, "max_tokens", "is not between 1" },
    { CHAT, "{" U ",\"max_tokens\":-5}", 400, "max_tokens", "is not between 1" },
    { CHAT, "{" U ",\"max_completion_tokens\":\"9\"}", 400, "max_completion_tokens", "integer" },
    { CHAT, "{" U ",\"stop\":7}", 400, "stop", "expected a string or an array of strings" },
    { CHAT, "{" U ",\"stop\":[\"a\",null]}", 400, "stop[1]", "expected a string" },
    { CHAT, "{" U ",\"stop\":[\"\"]}", 400, "stop[0]", "is not empty" },
    { CHAT, "{" U ",\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\"]}", 400, "stop", "at most 4" },
    { CHAT, "{" U ",\"n\":2}", 400, "n", "one is served" },
    { CHAT, "{" U ",\"logprobs\":3}", 400, "logprobs", "expected true or false" },
    { CHAT, "{" U ",\"top_logprobs\":5}", 400, "top_logprobs", "asked without `logprobs`" },
    { CHAT, "{" U ",\"logprobs\":false,\"top_logprobs\":1}", 400, "top_logprobs", "asked without" },
    { CHAT, "{" U ",\"logprobs\":true,\"top_logprobs\":21}", 400, "top_logprobs",
      "is not between 0 and 20" },
    { CHAT, "{" U ",\"logprobs\":true,\"top_logprobs\":-1}", 400, "top_logprobs",
      "is not between 0 and 20" },
    { CHAT, "{" U ",\"logprobs\":true,\"top_logprobs\":true}", 400, "top_logprobs", "integer" },
    { CHAT, "{" U ",\"logit_bias\":{\"5\":1}}", 400, "logit_bias", "not supported yet" },
    { CHAT, "{" U ",\"response_format\":{\"type\":\"json_object\"}}", 400, "response_format.type",
      "not supported yet" },
    { CHAT, "{" U ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}}", 400,
      "response_format.type", "not supported yet" },
    { CHAT, "{" U ",\"response_format\":\"text\"}", 400, "response_format", "expected an object" },
    { CHAT, "{" U ",\"tools\":{}}", 400, "tools", "array" },
    { CHAT, "{" U ",\"tools\":[{\"type\":\"function\",\"function\":{}}]}", 400,
      "tools[0].function.name", "expected a string" },
    { CHAT, "{" U ",\"tool_choice\":\"must\"}", 400, "tool_choice", "expected `auto`" },
    { CHAT, "{" U ",\"tool_choice\":\"required\"}", 400, "tool_choice", "not supported yet" },
    { CHAT, "{" U ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}", 400,
      "tool_choice", "not supported yet" },
    { CHAT, "{" U ",\"reasoning_effort\":\"heroic\"}", 400, "reasoning_effort", "low" },
    { CHAT, "{" U ",\"continue_final_message\":true}", 400, "continue_final_message",
      "must be an assistant's" },
    { CHAT, "{" U ",\"user\":5}", 400, "user", "expected a string" },
    { CHAT, "{" U ",\"prompt_cache_key\":{}}", 400, "prompt_cache_key", "expected a string" },
    { "/v1/completions", "{}", 400, "prompt", "expected a string" },
    { "/v1/completions", "{\"prompt\":\"\"}", 400, "prompt", "no tokens" },
    { "/v1/completions", "{\"prompt\":[]}", 400, "prompt", "the array is empty" },
    { "/v1/completions", "{\"prompt\":[\"a\",\"b\"]}", 400, "prompt", "2 prompts, one is served" },
    { "/v1/completions", "{\"prompt\":[1,\"b\"]}", 400, "prompt", "prompt[1]: expected a tok"
        "en id" },
    { "/v1/completions", "{\"prompt\":[1,999999]}", 400, "prompt", "prompt[1]: id 999999" },
    { "/v1/completions", "{\"prompt\":\"a\",\"suffix\":\"b\"}", 400, "suffix", "not supported" },
    { "/v1/completions", "{\"prompt\":\"a\",\"logprobs\":2}", 400, "logprobs", "only in chat" },
    { "/v1/completions", "{\"prompt\":\"a\",\"echo\":true}", 400, "echo", "not supported" },
    { "/v1/completions", "{\"prompt\":\"a\",\"best_of\":2}", 400, "best_of", "not supported" },
    { "/v1/completions", "{\"prompt\":\"a\",\"n\":3}", 400, "n", "one is served" },
};

static void print_bad(u32 i)
{
    fprintf(stderr, "bad[%u]: %s\n  got %d %s\n", i, bad[i].body, got.status, got.body);
}

TEST(every_listed_bad_body_is_a_clear_400_and_the_server_lives_on)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("\n</think>\n\nYes.");
    CHECK(COUNT_OF(bad) >= 40);
    u32 wrong = 0;
    for (u32 i = 0; i < COUNT_OF(bad); i++) {
        char param[192];
        loop_do("POST", bad[i].path, NULL, bad[i].body);
        snprintf(param, sizeof param, bad[i].param == NULL ? "\"param\":null" : "\"param\":\"%s\"",
                 bad[i].param);
        bool right = got.status == bad[i].status && got.complete && loop_has(param) &&
                     loop_has("{\"error\":{\"message\":\"") && loop_has(bad[i].words) &&
                     loop_has("\"type\":\"invalid_request_error\"") && loop_has("\"code\":null");
        if (!right) {
            print_bad(i);
            wrong++;
        }
        CHECK_EQ(loop_do("GET", "/health", NULL, NULL), 200);
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(fake.done, 0);
    CHECK_EQ(loop_do("POST", CHAT, NULL, "{" U "}"), 200);
    loop_close();
}

TEST(nesting_over_the_depth_is_refused_before_anything_walks_it)
{
    static char body[60000];
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    memset(body, '[', 50000);
    body[50000] = 0;
    CHECK_EQ(loop_do("POST", CHAT, NULL, body), 400);
    CHECK(loop_has("the body is not JSON"));
    loop_close();
}

TEST(a_prompt_longer_than_the_context_is_worded_so_that_clients_compact)
{
    static char body[40000];
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    u64 at = (u64)snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (u32 i = 0; i < 6000; i++) at += (u64)snprintf(body + at, sizeof body - at, "%u ", i % 10);
    snprintf(body + at, sizeof body - at, "\"}]}");
    CHECK_EQ(loop_do("POST", CHAT, NULL, body), 400);
    CHECK(loop_has("\"code\":\"context_length_exceeded\""));
    CHECK(loop_has("but the configured context size is 2048 tokens"));
    ull n = 0;
    CHECK(sscanf(strstr(got.body, "prompt has "), "prompt has %llu tokens", &n) == 1);
    CHECK(n > 6000);
    u32 ids = 2047;
    for (u32 over = 0; over < 2; over++) {
        at = (u64)snprintf(body, sizeof body, "{\"max_tokens\":1,\"prompt\":[");
        for (u32 i = 0; i < ids + over; i++)
            at += (u64)snprintf(body + at, sizeof body - at, "%s%u", i == 0 ? "" : ",", 60 + i % 9);
        snprintf(body + at, sizeof body - at, "]}");
        loop_answer("a");
        CHECK_EQ(loop_do("POST", "/v1/completions", NULL, body), over ? 400 : 200);
    }
    CHECK(loop_has("prompt has 2048 tokens, but the configured context size is 2048 tokens"));
    loop_close();
}

TEST(a_stop_string_has_256_bytes_at_most)
{
    char body[1024], stop[300];
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("a");
    for (u32 bytes = 256; bytes <= 257; bytes++) {
        memset(stop, 's', sizeof stop);
        stop[bytes] = 0;
        snprintf(body, sizeof body, "{\"prompt\":\"a\",\"stop\":\"%s\"}", stop);
        CHECK_EQ(loop_do("POST", "/v1/completions", NULL, body), bytes == 256 ? 200 : 400);
    }
    loop_close();
}

TEST(known_fields_that_change_nothing_and_unknown_ones_are_ignored)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("\n</think>\n\nYes.");
    CHECK_EQ(loop_do("POST", CHAT, NULL, "{" U ",\"store\":true,\"metadata\":{\"user_id\":\"x\"},"
        "\"service_tier\":\"auto\",\"verbosity\":\"low\",\"prediction\":null,\"modalities\":"
            "[\"text\"],"
        "\"safety_identifier\":\"s\",\"prompt_cache_retention\":\"24h\",\"cache_prompt\":true,"
        "\"id_slot\":3,\"functions\":[],\"function_call\":\"auto\",\"whatever\":{\"a\":[1]},"
        "\"n\":1,\"stop\":null,\"seed\":null,\"temperature\":null,\"logprobs\":false,"
        "\"top_logprobs\":0,\"logit_bias\":{},\"response_format\":{\"type\":\"text\"},"
        "\"tools\":[],\"tool_choice\":\"auto\",\"parallel_tool_calls\":true}"), 200);
    loop_close();
}
