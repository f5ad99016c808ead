/* tests/fuzz/http.c - seeded mutations of whole bodies, and of sampled ids, through the HTTP side.
 *
 * Every body is served or refused with a status, words and valid JSON; every run of ids gives an
 * answer whose events and body are valid JSON, whatever they hold and wherever a stop cuts them. */
#include "arena/base/file.h"
#include "http/chat/reply.h"
#include "http/chat/tokenize.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static u64 state;
static u32 below(u64 n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (u32)((state >> 33) % n);
}

static f64 now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (f64)t.tv_sec + (f64)t.tv_nsec * 1e-9;
}

static struct chat_model model;

static void open_model(void)
{
    static char json[1 << 20], config[1 << 16];
    static struct tokenizer *tokenizer;
    u64 bytes, config_bytes;
    if (tokenizer != NULL) return;
    CHECK_OK(file_read("profiles/default-model/tokenizer.json", json, sizeof json, &bytes));
    CHECK_OK(file_read("profiles/default-model/tokenizer_config.json", config, sizeof config,
                       &config_bytes));
    struct tokenizer_source source = { .tokenizer_json = { json, bytes },
                                       .tokenizer_config = { config, config_bytes } };
    CHECK_OK(tokenizer_open(&source, &tokenizer));
    stop_vocab(tokenizer_vocab(tokenizer));
    model = (struct chat_model){ .name = "m", .tokenizer = tokenizer, .ctx = 4096,
        .json_depth = 64, .stop_cap = 16, .tools_cap = 64, .slots = 1,
        .sampling = { .temperature = 1, .top_p = 1, .repetition_penalty = 1 } };
}

static const char *const seeds[] = {
    "{\"model\":\"x\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\","
    "\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},{\"role\":\"assistant\",\"content\":null,"
    "\"reasoning_content\":\"r\",\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":"
    "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1.50}\"}}]},{\"role\":\"tool\",\"tool_call_id\":"
    "\"c\",\"content\":\"out\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"}}}}}],"
    "\"tool_choice\":\"auto\",\"stream\":true,\"stream_options\":{\"include_usage\":"
        "true}}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"temperature\":0.5,\"top_p\":0.9,"
    "\"top_k\":20,\"min_p\":0.05,\"seed\":42,\"stop\":[\"a\",\"bc\"],\"max_tokens\":9,"
    "\"presence_penalty\":1,\"frequency_penalty\":-1,\"n\":1,\"user\":\"u\","
    "\"metadata\":{\"user_id\":\"{\\\"session_id\\\":\\\"s\\\"}\"},\"prompt_cache_key\":\"k\","
    "\"chat_template_kwargs\":{\"enable_thinking\":false,\"reasoning_effort\":\"low\"}}",
    "{\"prompt\":\"Hello\",\"max_tokens\":5,\"echo\":false,\"logprobs\":null}",
    "{\"prompt\":[1,2,3],\"stop\":\"x\"}", "{\"content\":\"text\",\"with_pieces\":true}",
    "{\"tokens\":[1,2,300]}",
};

static const char *const words[] = {
    "{", "}", "[", "]", "\"", "\\", ",", ":", "null", "true", "-1", "1e999", "\\ud800", "\\u0000",
    "\xFF", "[[[[", "\"role\"", "\"content\"", "\"stop\":", "18446744073709551616", "\"\"", " ",
    "<|im_end|>", "<|image_pad|>", "0.0000001", "\"n\":2,", "\"stream\":1,",
};

static char *mutated(const char *seed, u64 *len_out)
{
    u64 len = strlen(seed), cap = len + 256;
    char *wide = malloc(cap);
    memcpy(wide, seed, len);
    for (u32 edits = below(5); edits > 0; edits--) {
        u64 at = below(len + 1);
        const char *word = words[below(COUNT_OF(words))];
        u64 word_len = strlen(word), cut = 1 + below(12);
        cut = MIN(cut, len - at);
        switch (below(4)) {
        case 0: if (at < len) wide[at] = (char)below(256); break;
        case 1: memmove(wide + at, wide + at + cut, len - at - cut); len -= cut; break;
        default:
            if (len + word_len > cap) break;
            memmove(wide + at + word_len, wide + at, len - at);
            memcpy(wide + at, word, word_len);
            len += word_len;
        }
    }
    char *exact = malloc(MAX(len, (u64)1));             /* its exact size: asan sees a read past  */
    memcpy(exact, wide, len);
    free(wide);
    *len_out = len;
    return exact;
}

static void check_json(const char *text, u64 bytes)
{
    struct jsontext root;
    CHECK_OK(jsontext_open(text, bytes, JSONTEXT_DEPTH_MAX, &root));
}

static void check_refusal(const struct refusal *r)
{
    struct json_out out = { 0 };
    CHECK(r->status == 400 || r->status == 404 || r->status == 503);
    CHECK(r->message[0] != 0);
    refusal_json(r, &out);
    CHECK_OK(json_out_check(&out));
    check_json(out.text, out.bytes);
    json_out_close(&out);
}

static void check_request(const struct request *q)
{
    CHECK(q->ids.count > 0 && q->ids.count < model.ctx);
    CHECK(q->stop_count <= TURN_STOP_CAP && q->mark_count <= TURN_MARK_CAP);
    for (u32 i = 0; i < q->mark_count; i++)
        CHECK(q->mark[i].pos > 0 && q->mark[i].pos < q->ids.count);
    for (u32 i = 0; i < q->stop_count; i++)
        CHECK(q->stop[i].len > 0 && q->stop[i].len <= TURN_STOP_BYTES);
    CHECK(q->session[0] != 0 && strlen(q->session) <= SESSION_ID_BYTES);
    for (u64 pos = 0; pos < q->ids.count; pos += 7) (void)request_role_at(&model, q, pos);
}

TEST(mutated_bodies_are_served_or_refused_with_words)
{
    open_model();
    state = 11;
    u32 served = 0, refused = 0;
    f64 end = now() + 6;
    for (u32 round = 0; round < 60000 && now() < end; round++) {
        u64 len;
        char *body = mutated(seeds[below(COUNT_OF(seeds))], &len);
        struct request_source source = { .body = body, .body_bytes = len };
        struct request q;
        struct refusal r = { 0 };
        struct json_out out = { 0 };
        bool ok;
        switch (below(5)) {
        case 0: ok = request_completion(&model, &source, &q, &r);
            if (ok) { check_request(&q); request_close(&q); }
            break;
        case 1: ok = tokenize_ids(&model, &source, &out, &r); break;
        case 2: ok = tokenize_text(&model, &source, &out, &r); break;
        case 3: ok = tokenize_prompt(&model, &source, &out, &r); break;
        default: ok = request_chat(&model, &source, &q, &r);
            if (ok) { check_request(&q); request_close(&q); }
        }
        if (ok && out.bytes > 0) check_json(out.text, out.bytes);
        if (!ok) check_refusal(&r);
        served += ok;
        refused += !ok;
        json_out_close(&out);
        free(body);
    }
    CHECK(served > 500 && refused > 500);
}

/* Every `data: ` line of a stream is JSON, and nothing else is in it. */
static void check_events(const char *text, u64 bytes)
{
    for (u64 at = 0; at < bytes;) {
        const char *end = memmem(text + at, bytes - at, "\n\n", 2);
        CHECK(end != NULL && memcmp(text + at, "data: ", 6) == 0);
        u64 len = (u64)(end - text) - at - 6;
        if (len != 6 || memcmp(text + at + 6, "[DONE]", 6) != 0) check_json(text + at + 6, len);
        at = (u64)(end - text) + 2;
    }
}

TEST(any_ids_give_valid_events_and_bodies_wherever_a_stop_cuts)
{
    open_model();
    state = 12;
    static struct submit_row row;
    static struct reply reply;
    u32 count = tokenizer_count(model.tokenizer), rounds = 0, stopped = 0;
    const u32 tags[] = { tokenizer_added(model.tokenizer, "<think>"),
                         tokenizer_added(model.tokenizer, "</think>"),
                         tokenizer_added(model.tokenizer, "<tool_call>"),
                         tokenizer_added(model.tokenizer, "</tool_call>") };
    static const char *const bodies[] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stop\":[\"e\",\"th\",\"  \"],"
        "\"logprobs\":true}",
        "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stop\":\"in\","
        "\"logprobs\":true}",
        "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{"
        "\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
        "\"stream_options\":{\"include_usage\":true}}",
        "{\"prompt\":\"a\",\"stream\":true,\"stop\":[\"q\",\"\\u00e9\"]}", "{\"prompt\":\"a\"}",
    };
    f64 end = now() + 6;
    for (; rounds < 20000 && now() < end; rounds++) {
        u32 kind = below(COUNT_OF(bodies));
        struct request_source source = { .body = bodies[kind],
                                         .body_bytes = strlen(bodies[kind]) };
        struct request q;
        struct refusal r = { 0 };
        CHECK(kind < 3 ? request_chat(&model, &source, &q, &r)
                       : request_completion(&model, &source, &q, &r));
        memset(&row, 0, sizeof row);
        request_fill(&q, &row);
        CHECK_OK(reply_open(&reply, &model, &q, &row));
        struct turn_result result = { .finish = FINISH_STOP, .part_pos = UINT64_MAX };
        for (u32 left = below(80); left > 0 && !reply.stopped; left--) {
            u32 id = below(5) == 0 ? tags[below(4)] : below(count);
            reply_ids(&reply, &id, 1);
            result.generated++;
        }
        stopped += reply.stopped;
        if (below(4) == 0) result.finish = FINISH_LENGTH;
        reply_end(&reply, &result);
        CHECK_EQ(reply.error, OK);
        CHECK_EQ(text_utf8_valid(reply.out.data, reply.out.len), reply.out.len);
        if (q.stream) check_events(reply.out.data, reply.out.len);
        else check_json(reply.out.data, reply.out.len);
        reply_close(&reply);
        request_close(&q);
    }
    CHECK(rounds > 200 && stopped > 50);
}
