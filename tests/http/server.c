/* tests/http/server.c - the server over loopback sockets before a fake engine. */
#include "http/admin/protocol.h"
#include "tests/http/loop.h"

static const char hello[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}";
static const char hello_stream[] =
    "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}";
#define CHAT "/v1/chat/completions"

TEST(while_loading_health_tells_progress_and_the_rest_is_503)
{
    struct server_setup setup = loop_setup();
    loop_open_loading(&setup);
    CHECK_EQ(loop_do("GET", "/health", NULL, NULL), 503);
    CHECK(loop_has("\"status\":\"loading\",\"phase\":\"weights\",\"done_bytes\":0"));
    server_set_loading(PHASE_WEIGHTS, 4096, 54ull << 30);       /* too little to tell from       */
    CHECK_EQ(loop_do("GET", "/health", NULL, NULL), 503);
    CHECK(loop_has("\"done_bytes\":4096") && loop_has("\"eta_s\":null"));
    server_set_loading(PHASE_WEIGHTS, 12ull << 30, 54ull << 30);
    CHECK_EQ(loop_do("POST", CHAT, NULL, hello), 503);
    CHECK(loop_has("\"message\":\"loading weights: 12 of 54 GiB, about "));
    CHECK(loop_has("\"type\":\"unavailable_error\""));
    CHECK(loop_header("Retry-After") != NULL);
    CHECK(atoi(loop_header("Retry-After")) >= 1 && atoi(loop_header("Retry-After")) <= 30);
    CHECK(loop_header("x-request-id") != NULL);
    CHECK_EQ(loop_do("GET", "/v1/models", NULL, NULL), 503);
    server_set_loading(PHASE_WARMUP, 0, 0);
    CHECK_EQ(loop_do("GET", "/health", NULL, NULL), 503);
    CHECK(loop_has("\"phase\":\"warmup\""));
    loop_close();
}

TEST(small_routes_answer_and_unknown_ones_say_so)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    CHECK_EQ(loop_do("GET", "/health", NULL, NULL), 200);
    CHECK_STR(got.body, "{\"status\":\"ok\"}");
    CHECK_STR(loop_header("Content-Type"), "application/json; charset=utf-8");
    CHECK_EQ(loop_do("GET", "/", NULL, NULL), 200);
    CHECK_EQ(loop_do("HEAD", "/", NULL, NULL), 200);
    CHECK_EQ(got.body_bytes, 0);
    CHECK_EQ(loop_do("GET", "/v1/models", NULL, NULL), 200);
    CHECK_STR(got.body, "{\"object\":\"list\",\"data\":[{\"id\":\"tiny\",\"object\":\"model\","
              "\"created\":1700000000,\"owned_by\":\"holdfast\",\"context_length\":2048,"
              "\"max_model_len\":2048,\"meta\":{\"n_ctx\":2048}}]}");
    CHECK_EQ(loop_do("GET", "/models?x=1", NULL, NULL), 200);
    CHECK_EQ(loop_do("GET", "/v1/models/tiny", NULL, NULL), 200);
    CHECK_EQ(loop_do("GET", "/v1/models/other", NULL, NULL), 404);
    CHECK(loop_has("\"code\":\"model_not_found\""));
    CHECK_EQ(loop_do("GET", "/v1/nothing", NULL, NULL), 404);
    CHECK(loop_has("\"type\":\"not_found_error\""));
    CHECK_EQ(loop_do("POST", "/v1/embeddings", NULL, "{}"), 404);
    CHECK(loop_has("\"message\":\"holdfast serves chat and completions only; there is no emb"
        "eddings "
                   "endpoint here: choose another embedding engine in the client\""));
    CHECK(loop_has("\"code\":\"not_supported\""));
    CHECK_EQ(loop_do("POST", "/v1/audio/speech", NULL, "{}"), 404);
    CHECK(loop_has("there is no audio endpoint here"));
    CHECK_EQ(loop_do("GET", CHAT, NULL, NULL), 405);
    CHECK_STR(loop_header("Allow"), "POST");
    CHECK_EQ(loop_do("DELETE", "/health", NULL, NULL), 405);
    CHECK_EQ(loop_do("GET", "/metrics", NULL, NULL), 200);
    CHECK(loop_has("holdfast_turns_total 0\n"));
    loop_close();
}

TEST(hosts_keys_and_origins_are_checked_on_the_wire)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/holdfast-server-%d", (int)getpid());
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs("k1\n", f);
    fclose(f);
    struct server_setup setup = loop_setup();
    setup.auth.api_key_file = path;
    loop_open(&setup);
    unlink(path);
    CHECK_EQ(loop_do("GET", "/health", NULL, NULL), 200);
    CHECK_EQ(loop_do("GET", "/v1/models", NULL, NULL), 401);
    CHECK(loop_has("\"type\":\"authentication_error\""));
    CHECK_EQ(loop_do("GET", "/v1/models", "Host: localhost\r\nAuthorization: Bearer k1\r\n", NULL),
             200);
    CHECK_EQ(loop_do("GET", "/v1/models", "Host: localhost\r\nx-api-key: k2\r\n", NULL), 401);
    CHECK_EQ(loop_do("POST", CHAT, "Host: localhost\r\n", hello), 401);
    CHECK_EQ(loop_do("GET", "/v1/nothing", NULL, NULL), 401);
    CHECK_EQ(loop_do("GET", "/health", "Host: evil.example\r\n", NULL), 403);
    CHECK(loop_has("host \\\"evil.example\\\" is not served here; add it with --host-names"));
    CHECK(loop_has("\"code\":\"host_not_allowed\""));
    CHECK_EQ(loop_do("GET", "/health", "Host: localhost\r\nHost: localhost\r\n", NULL), 400);
    CHECK_EQ(loop_do("GET", "/health", "X: y\r\n", NULL), 400);
    CHECK_EQ(loop_do("OPTIONS", CHAT, "Host: evil.example\r\n", NULL), 403);
    CHECK_EQ(loop_do("OPTIONS", CHAT, "Host: localhost\r\nOrigin: http://localhost:3000\r\n", NULL),
             204);
    CHECK_STR(loop_header("Access-Control-Allow-Origin"), "http://localhost:3000");
    CHECK_STR(loop_header("Access-Control-Allow-Methods"), "GET, POST, DELETE, OPTIONS");
    CHECK_STR(loop_header("Access-Control-Max-Age"), "600");
    CHECK_EQ(loop_do("OPTIONS", CHAT, "Host: localhost\r\nOrigin: http://evil.example\r\n", NULL),
             204);
    CHECK(loop_header("Access-Control-Allow-Origin") == NULL);
    loop_close();
}

TEST(a_chat_is_answered_whole_with_usage_and_where_it_was_served_from)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("why\n</think>\n\nBecause \"so\".");
    fake.part_pos = 1;
    CHECK_EQ(loop_do("POST", CHAT, NULL, "{\"model\":\"any/name\",\"messages\":[{\"role\":"
                     "\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"Hi\"}]"
                         "}"), 200);
    CHECK(got.complete);
    CHECK(loop_has("{\"id\":\"chatcmpl-"));
    CHECK(loop_has("\"object\":\"chat.completion\""));
    CHECK(loop_has("\"model\":\"any/name\""));
    CHECK(loop_has("\"message\":{\"role\":\"assistant\",\"content\":\"Because \\\"so\\\".\","
                   "\"reasoning_content\":\"why\"}"));
    CHECK(loop_has("\"finish_reason\":\"stop\""));
    CHECK(loop_has("\"prompt_tokens_details\":{\"cached_tokens\":"));
    CHECK(loop_has("\"holdfast\":{\"source\":\"turn\",\"served\":\"sent\",\"served_tokens\":"));
    CHECK(loop_has("\"reason\":\"parted\""));
    CHECK(loop_has("\"part_pos\":{\"pos\":1,\"role\":\"system\"}"));
    CHECK_STR(loop_header("x-cache-source"), "turn");
    loop_close();
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
        strncat(text, at, strcspn(at, "\""));
    }
    return text;
}

/* The n-th `data: ` line of the body, without it. */
static const char *event(u32 n)
{
    static char text[8192];
    const char *at = got.body;
    for (u32 i = 0; at != NULL; i++) {
        at = strstr(at, "data: ");
        if (at == NULL) break;
        at += 6;
        if (i < n) continue;
        u64 len = MIN((u64)strcspn(at, "\n"), sizeof text - 1);
        memcpy(text, at, len);
        text[len] = 0;
        return text;
    }
    return "";
}

static u32 event_count(void)
{
    u32 count = 0;
    while (event(count)[0] != 0) count++;
    return count;
}

TEST(a_stream_has_role_reasoning_content_finish_usage_and_done_in_order)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("why\n</think>\n\nYes.");
    CHECK_EQ(loop_do("POST", "/chat/completions", NULL,
                     "{\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                     "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"), 200);
    CHECK(got.complete);
    CHECK_STR(loop_header("Content-Type"), "text/event-stream; charset=utf-8");
    CHECK_STR(loop_header("Cache-Control"), "no-cache");
    CHECK_STR(loop_header("X-Accel-Buffering"), "no");
    CHECK_STR(loop_header("x-cache-source"), "turn");
    u32 last = event_count();
    CHECK(last >= 6);
    CHECK(strstr(event(0), "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_rea"
        "son\":null"));
    CHECK(strstr(event(1), "\"delta\":{\"reasoning_content\":\"") != NULL);
    CHECK(strstr(event(last - 4), "\"delta\":{\"content\":\"") != NULL);
    CHECK(strstr(event(last - 3), "\"delta\":{},\"finish_reason\":\"stop\"}],\"holdfast\":"
        "{") != NULL);
    CHECK(strstr(event(last - 2), "\"choices\":[],\"usage\":{\"prompt_tokens\":") != NULL);
    CHECK(strstr(event(last - 2), "\"holdfast\":{") != NULL);
    CHECK_STR(event(last - 1), "[DONE]");
    loop_close();
}

TEST(without_include_usage_there_is_no_usage_chunk)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("\n</think>\n\nYes.");
    CHECK_EQ(loop_do("POST", CHAT, NULL, hello_stream), 200);
    CHECK(!loop_has("\"usage\""));
    CHECK(!loop_has("\"delta\":{\"reasoning_content\""));
    CHECK_STR(event(event_count() - 1), "[DONE]");
    loop_close();
}

TEST(stop_strings_cut_the_text_over_token_borders_streamed_and_not)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("stop here\n</think>\n\nOne, two, stop here and never this");
    for (u32 stream = 0; stream < 2; stream++) {
        char body[256];
        snprintf(body, sizeof body, "{\"stream\":%s,\"stop\":[\"never\",\", stop here\"],\"m"
            "essages\":"
                 "[{\"role\":\"user\",\"content\":\"Hi\"}]}", stream ? "true" : "false");
        CHECK_EQ(loop_do("POST", CHAT, NULL, body), 200);
        CHECK_STR(joined("content"), "One, two");
        CHECK(loop_has("\"finish_reason\":\"stop\""));
        CHECK_STR(joined("reasoning_content"), "stop here");    /* none is sought there          */
    }
    loop_close();
}

TEST(max_tokens_ends_with_length_and_the_newer_name_wins)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("\n</think>\n\none two three four five six seven eight nine ten eleven twelve");
    CHECK_EQ(loop_do("POST", CHAT, NULL, "{\"max_tokens\":900,\"max_completion_tokens\":5,"
                     "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"), 200);
    CHECK(loop_has("\"finish_reason\":\"length\""));
    CHECK(loop_has("\"completion_tokens\":5"));
    loop_close();
}

TEST(completions_take_text_or_ids_and_answer_raw_text)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer(" plain <think> text");
    static const char *const prompts[] = { "\"Hi\"", "[\"Hi\"]", "[72,105]" };
    for (u32 i = 0; i < 3; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"prompt\":%s}", prompts[i]);
        CHECK_EQ(loop_do("POST", i == 1 ? "/completions" : "/v1/completions", NULL, body), 200);
        CHECK(loop_has("\"object\":\"text_completion\""));
        CHECK(loop_has("\"text\":\" plain <think> text\""));
    }
    CHECK_EQ(loop_do("POST", "/v1/completions", NULL, "{\"prompt\":\"Hi\",\"stream\":true}"), 200);
    CHECK(strstr(event(0), "{\"index\":0,\"text\":\"") != NULL);
    CHECK_STR(event(event_count() - 1), "[DONE]");
    loop_close();
}

TEST(K44_a_queued_stream_gets_headers_after_the_hold_then_comments_then_the_answer)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("\n</think>\n\nYes.");
    fake.admit = fake.prefill = false;
    int fd = loop_connect();
    u64 from = clock_us();
    loop_ask(fd, "POST", CHAT, "Host: localhost\r\nConnection: close\r\n", hello_stream);
    got.raw_bytes = loop_read(fd, got.raw, sizeof got.raw, ": queued 1 of 1", 3000);
    u64 held = clock_us() - from;
    loop_parse();
    CHECK_EQ(got.status, 200);
    CHECK(held >= 290 * 1000);
    CHECK(loop_header("x-cache-source") == NULL);
    CHECK(strstr(got.raw, ": queued 1 of 1") != NULL);
    fake.admit = true;
    u64 at = got.raw_bytes;
    at += loop_read(fd, got.raw + at, sizeof got.raw - at, ": prefill ", 3000);
    CHECK(strstr(got.raw, ": prefill ") != NULL);
    fake.prefill = true;
    at += loop_read(fd, got.raw + at, sizeof got.raw - at, NULL, 3000);
    got.raw_bytes = at;
    loop_parse();
    close(fd);
    CHECK(got.complete);
    CHECK_STR(joined("content"), "Yes.");
    CHECK(loop_has("data: [DONE]"));
    loop_close();
}

TEST(an_admitted_stream_gets_its_headers_at_once_with_the_source)
{
    struct server_setup setup = loop_setup();
    setup.keepalive_us = 5000 * 1000;
    loop_open(&setup);
    loop_answer("\n</think>\n\nYes.");
    fake.prefill = false;
    int fd = loop_connect();
    u64 from = clock_us();
    loop_ask(fd, "POST", CHAT, "Host: localhost\r\nConnection: close\r\n", hello_stream);
    got.raw_bytes = loop_read(fd, got.raw, sizeof got.raw, "\r\n\r\n", 3000);
    CHECK(clock_us() - from < 2000 * 1000);
    loop_parse();
    CHECK_EQ(got.status, 200);
    CHECK_STR(loop_header("x-cache-source"), "turn");
    close(fd);
    CHECK(loop_wait(&fake.cancelled, 1));
    loop_close();
}

TEST(K36_a_refusal_of_the_gate_is_503_within_the_hold_and_an_event_after_it)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    fake.error = ERR_MEMORY;
    CHECK_EQ(loop_do("POST", CHAT, NULL, hello_stream), 503);
    CHECK(loop_has("\"message\":\"the gate said no\",\"type\":\"unavailable_error\""));
    CHECK(loop_header("Retry-After") != NULL);
    CHECK_EQ(loop_do("POST", CHAT, NULL, hello), 503);
    fake.admit = false;
    int fd = loop_connect();
    loop_ask(fd, "POST", CHAT, "Host: localhost\r\nConnection: close\r\n", hello_stream);
    got.raw_bytes = loop_read(fd, got.raw, sizeof got.raw, ": queued", 3000);
    fake.admit = true;
    got.raw_bytes += loop_read(fd, got.raw + got.raw_bytes, 4096, NULL, 3000);
    loop_parse();
    CHECK_EQ(got.status, 200);
    CHECK(strstr(event(0), "{\"error\":{\"message\":\"the gate said no\","
                 "\"type\":\"unavailable_error\"") != NULL);
    CHECK(!loop_has("[DONE]"));
    close(fd);
    fake.error = ERR_DEVICE;
    CHECK_EQ(loop_do("POST", CHAT, NULL, hello), 500);
    CHECK(loop_has("\"type\":\"server_error\""));
    loop_close();
}

TEST(K44_a_closed_client_cancels_its_turn_in_every_state_streamed_or_not)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("\n</think>\n\none two three four five six seven eight nine ten");
    u32 ended = 0;
    for (u32 stream = 0; stream < 2; stream++)
        for (u32 state = 0; state < 3; state++) {
            fake.admit = state > 0;
            fake.prefill = state > 1;
            fake.decode = false;
            int fd = loop_connect();
            loop_ask(fd, "POST", CHAT, NULL, stream ? hello_stream : hello);
            u32 want = SUBMIT_QUEUED + state;
            for (u32 i = 0; i < 3000 && fake_state() != want; i++) usleep(1000);
            CHECK_EQ(fake_state(), want);
            close(fd);
            CHECK(loop_wait(&fake.cancelled, ++ended));
            for (u32 i = 0; i < 3000 && fake_state() != SUBMIT_FREE; i++) usleep(1000);
            CHECK_EQ(fake_state(), SUBMIT_FREE);   /* given back once it was done           */
        }
    loop_close();
}

TEST(pipelined_bytes_are_no_disconnect_and_both_requests_are_answered)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("\n</think>\n\nYes.");
    fake.prefill = false;
    int fd = loop_connect();
    loop_ask(fd, "POST", CHAT, NULL, hello);
    for (u32 i = 0; i < 3000 && fake_state() != SUBMIT_PREFILL; i++) usleep(1000);
    loop_ask(fd, "GET", "/health", "Host: localhost\r\nConnection: close\r\n", NULL);
    usleep(50 * 1000);
    CHECK_EQ(fake.row[0].cancelled, 0);
    fake.prefill = true;
    u64 bytes = loop_read(fd, got.raw, sizeof got.raw, "{\"status\":\"ok\"}", 3000);
    CHECK(bytes > 0);
    CHECK(strstr(got.raw, "\"content\":\"Yes.\"") != NULL);
    CHECK(strstr(got.raw, "{\"status\":\"ok\"}") != NULL);
    close(fd);
    loop_close();
}

TEST(a_slow_reader_gets_every_byte_of_a_long_stream)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    loop_answer("\n</think>\n\n");
    u32 lead = fake.answer_count;
    for (u32 i = lead; i < FAKE_ANSWER; i++) fake.answer[i] = 'a' + i % 26 - 33;
    fake.answer_count = 1500;
    int fd = loop_connect(), small = 16384;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    loop_ask(fd, "POST", CHAT, "Host: localhost\r\nConnection: close\r\n", hello_stream);
    u64 at = 0;
    for (;;) {
        ssize_t n = recv(fd, got.raw + at, MIN(sizeof got.raw - at - 1, (u64)3000), 0);
        if (n <= 0) break;
        at += (u64)n;
        usleep(500);
    }
    got.raw[at] = 0;
    got.raw_bytes = at;
    loop_parse();
    close(fd);
    CHECK(got.complete);
    CHECK(loop_has("data: [DONE]"));
    CHECK(loop_has("\"finish_reason\":\"stop\""));
    loop_close();
}

TEST(bodies_and_headers_over_their_limits_are_413_and_431)
{
    struct server_setup setup = loop_setup();
    setup.body_bytes = 4096;
    loop_open(&setup);
    loop_answer("\n</think>\n\nYes.");
    static char body[16384 * 2];
    memset(body, ' ', sizeof body - 1);
    memcpy(body, hello, sizeof hello - 1);
    body[4096] = 0;
    CHECK_EQ(loop_do("POST", CHAT, NULL, body), 200);
    memset(body + 4096, ' ', 1);
    body[4097] = 0;
    CHECK_EQ(loop_do("POST", CHAT, NULL, body), 413);
    CHECK(loop_has("\"type\":\"invalid_request_error\""));
    int fd = loop_connect();
    static const char head[] = "POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n1001\r\n";
    loop_send(fd, head, sizeof head - 1);
    loop_send(fd, body, 4097);
    loop_send(fd, "\r\n0\r\n\r\n", 7);
    got.raw_bytes = loop_read(fd, got.raw, sizeof got.raw, NULL, 3000);
    loop_parse();
    CHECK_EQ(got.status, 413);
    close(fd);
    static char header[40000];
    memset(header, 'x', sizeof header);
    fd = loop_connect();
    static const char start[] = "GET /health HTTP/1.1\r\nHost: localhost\r\nX: ";
    loop_send(fd, start, sizeof start - 1);
    loop_send(fd, header, sizeof header);
    loop_send(fd, "\r\n\r\n", 4);
    got.raw_bytes = loop_read(fd, got.raw, sizeof got.raw, NULL, 3000);
    loop_parse();
    CHECK_EQ(got.status, 431);
    close(fd);
    CHECK_EQ(loop_do("GET", "/health", NULL, NULL), 200);
    loop_close();
}

TEST(a_full_queue_is_429_and_draining_503_with_retry_after)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    fake.queue_cap = 0;
    CHECK_EQ(loop_do("POST", CHAT, NULL, hello), 429);
    CHECK(loop_has("\"type\":\"rate_limit_error\""));
    CHECK(loop_header("Retry-After") != NULL);
    fake.queue_cap = FAKE_ROWS;
    server_drain();
    CHECK_EQ(loop_do("POST", CHAT, NULL, hello), 503);
    CHECK(loop_header("Retry-After") != NULL);
    CHECK_EQ(loop_do("GET", "/health", NULL, NULL), 503);
    CHECK_STR(got.body, "{\"status\":\"draining\"}");
    loop_close();
}

struct closing { int fd; };

static void *read_all(void *owner)
{
    struct closing *c = owner;
    got.raw_bytes = loop_read(c->fd, got.raw, sizeof got.raw, NULL, 5000);
    return NULL;
}

TEST(closing_lets_a_stream_finish_or_ends_it_with_an_error_event)
{
    for (u32 finish = 0; finish < 2; finish++) {
        struct server_setup setup = loop_setup();
        loop_open(&setup);
        loop_answer("\n</think>\n\nYes.");
        fake.decode = false;
        struct closing c = { .fd = loop_connect() };
        loop_ask(c.fd, "POST", CHAT, "Host: localhost\r\nConnection: close\r\n", hello_stream);
        for (u32 i = 0; i < 3000 && fake_state() != SUBMIT_DECODE; i++) usleep(1000);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, read_all, &c) == 0);
        if (finish) fake.decode = true;
        server_close(1000 * 1000);
        pthread_join(thread, NULL);
        loop_close();
        close(c.fd);
        loop_parse();
        CHECK_EQ(got.status, 200);
        if (finish) CHECK(loop_has("[DONE]"));
        else CHECK(loop_has("\"type\":\"unavailable_error\"") && !loop_has("[DONE]"));
    }
}

TEST(questions_to_the_engine_pass_through_and_unknown_sessions_are_404)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    CHECK_EQ(loop_do("GET", "/v1/cache/stats", NULL, NULL), 200);
    CHECK_STR(got.body, "{\"op\":0,\"tier\":\"\",\"session\":\"\"}");
    CHECK_EQ(loop_do("POST", "/v1/cache/clear", NULL, "{\"session\":\"s1\"}"), 200);
    CHECK_STR(got.body, "{\"op\":3,\"tier\":\"\",\"session\":\"s1\"}");
    CHECK_EQ(loop_do("POST", "/v1/cache/clear", NULL, ""), 200);
    CHECK_EQ(loop_do("POST", "/v1/cache/clear", NULL, "{\"session\":\"unknown\"}"), 404);
    CHECK(loop_has("nothing is known of unknown"));
    CHECK_EQ(loop_do("POST", "/v1/cache/clear", NULL, "{\"session\":7}"), 400);
    loop_close();
}

TEST(tokenize_detokenize_and_apply_template_agree)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    CHECK_EQ(loop_do("POST", "/tokenize", NULL, "{\"content\":\"Hi <|im_end|>\"}"), 200);
    CHECK(strncmp(got.body, "{\"tokens\":[", 11) == 0);
    char body[1024];
    snprintf(body, sizeof body, "%.1000s", got.body);
    CHECK_EQ(loop_do("POST", "/detokenize", NULL, body), 200);
    CHECK(loop_has("{\"content\":\"Hi <|im_end|>\""));
    CHECK_EQ(loop_do("POST", "/tokenize", NULL, "{\"prompt\":\"Hi\"}"), 200);
    CHECK(loop_has("\"max_model_len\":2048,\"tokens\":["));
    CHECK_EQ(loop_do("POST", "/tokenize", NULL, hello), 200);
    CHECK(loop_has("{\"count\":"));
    CHECK_EQ(loop_do("POST", "/apply-template", NULL, "{\"messages\":[{\"role\":\"user\",\"c"
        "ontent\":"
                     "\"Hi\"}],\"chat_template_kwargs\":{\"enable_thinking\":false}}"), 200);
    CHECK_STR(got.body, "{\"prompt\":\"<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n"
              "<think>\\n\\n</think>\\n\\n\"}");
    CHECK_EQ(loop_do("POST", "/detokenize", NULL, "{\"tokens\":[99999999]}"), 400);
    CHECK_EQ(loop_do("POST", "/tokenize", NULL, "{}"), 400);
    loop_close();
}

TEST(admin_speaks_msgpack_and_puts_errors_into_its_answers)
{
    struct server_setup setup = loop_setup();
    loop_open(&setup);
    for (enum protocol_op op = PROTOCOL_STATS; op < PROTOCOL_SET; op++) {
        static const enum command_op asked[] = {
            COMMAND_STATS, COMMAND_MEMORY_TREE, COMMAND_MEMORY_JSON, COMMAND_MEMORY_MSGPACK,
            COMMAND_MEMORY_DOT, COMMAND_MEMORY_FOLDED,
        };
        struct pack_out pack = {0};
        char head[256];
        const char *text;
        u32 bytes;
        protocol_put_request(&pack, op);
        int fd = loop_connect();
        int n = snprintf(head, sizeof head, "POST /admin HTTP/1.0\r\nHost: localhost\r\n"
                         "Content-Length: %llu\r\n\r\n", (ull)pack.count);
        loop_send(fd, head, (u64)n);
        loop_send(fd, (const char *)pack.bytes, pack.count);
        pack_out_close(&pack);
        got.raw_bytes = loop_read(fd, got.raw, sizeof got.raw, NULL, 3000);
        close(fd);
        loop_parse();
        CHECK_EQ(got.status, 200);
        CHECK_STR(loop_header("Content-Type"), "application/msgpack");
        CHECK_OK(protocol_read_answer(got.body, got.body_bytes, &text, &bytes));
        CHECK(bytes > 6 && memcmp(text, "{\"op\":", 6) == 0);
        CHECK_EQ(text[6] - '0', asked[op]);
    }
    const char *text;
    u32 bytes;
    CHECK_EQ(loop_do("POST", "/admin", NULL, "not msgpack"), 200);
    CHECK(protocol_read_answer(got.body, got.body_bytes, &text, &bytes) != OK);
    loop_close();
}
