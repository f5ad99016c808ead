/* tests/http/talk.h - conversations as clients send them back: the real template, tokenizer, parser
 * and engine over the embedded model (CASES_BIG: the bench model), forced answers, a client that
 * keeps them as JavaScript does.  Every turn is held to the cold run of its served ids.  Header
 * alone: a test includes it once. */
#ifndef HTTP_TALK_H
#define HTTP_TALK_H

#pragma GCC diagnostic ignored "-Wunused-function"

#include "tests/micro.h"
#ifdef CASES_BIG
#include "tests/benchmodel.h"
#endif

#include "arena/base/hash.h"
#include "arena/heap.h"
#include "http/chat/reply.h"
#include "tiers/align.h"

#include <stdio.h>

#ifdef CASES_BIG                        /* tests/slow: B = 256, G = 1,024, a system text over it */
enum { TALK_BYTES = 1 << 16, TALK_IDS = 4096, TALK_CTX = 4096, TALK_SYSTEM = 104 };
#else
enum { TALK_BYTES = 1 << 16, TALK_IDS = 2048, TALK_CTX = 2048, TALK_SYSTEM = 0 };
#endif

static struct tokenizer *tokenizer;
static struct chat_model chat;
static struct tokenizer_ids closing;

struct call { char id[40], name[16], sent[1024]; };     /* as the client keeps it             */

static struct talk {
    char messages[TALK_BYTES];          /* of the next request, without the brackets          */
    struct tokenizer_ids answer;        /* what the model will say                            */
    struct turn_result result;
    u64  prompt_count;                  /* as sent                                            */
    u32  served[TALK_IDS];              /* rows the turn left                                 */
    u64  rows;
    char content[4096], reasoning[4096];
    struct call call[8];
    u32  call_count;
    u64  completion_tokens, cached_tokens;
    u64  cut;                           /* the client leaves after so many ids, 0: never      */
} talk;

static u64 session;

static void add_message(const char *role, const char *text);

static void house_open(const struct micro_setup *setup, const char *phrase)
{
    static char text[TALK_BYTES / 2];
    const struct files_row *json, *config;
    struct micro_setup s = *setup;
#ifdef CASES_BIG
    s.dir = benchmodel_dir();
    s.threads = BENCHMODEL_THREADS;
    s.block_rows = 256;
    s.grid_rows = 1024;
    s.pool_bytes = 2048 * MIB;
#endif
    micro_open(&s);
    CHECK_OK(files_get(model_files(), "tokenizer.json", &json));
    CHECK_OK(files_get(model_files(), "tokenizer_config.json", &config));
    CHECK_OK(tokenizer_open(&(struct tokenizer_source){
        .tokenizer_json = { (const char *)json->data, json->bytes },
        .tokenizer_config = { (const char *)config->data, config->bytes },
        .rows = micro.vocab }, &tokenizer));
    stop_vocab(tokenizer_vocab(tokenizer));
    micro.eos = tokenizer_added(tokenizer, "<|im_end|>");
    micro.profile.end_align_reasoning = ALIGN_ON;
    closing = (struct tokenizer_ids){ 0 };
    snprintf(text, sizeof text, "%s</think>\n\n", phrase);
    CHECK_OK(tokenizer_encode(tokenizer, &(struct tokenizer_text){
        .bytes = text, .len = strlen(text) }, &closing));
    chat = (struct chat_model){
        .name = "tiny", .tokenizer = tokenizer, .template_id = TEMPLATE_38, .ctx = TALK_CTX,
        .json_depth = 64, .stop_cap = 4, .tools_cap = 8, .slots = 1, .test_hooks = true,
        .sampling = { .top_p = 1, .repetition_penalty = 1 },
        .close_ids = closing.id, .close_count = (u32)closing.count };
    while (closing.id[chat.close_hidden] != tokenizer_added(tokenizer, "</think>"))
        chat.close_hidden++;
    memset(&talk, 0, sizeof talk);
    session++;
    struct text t;
    text_open(&t, text, sizeof text);
    for (i32 i = 0; i < TALK_SYSTEM; i++)
        text_f(&t, "%sRule %d: the river runs on.", i == 0 ? "\"" : " ", i);
    text_char(&t, '"');
    if (TALK_SYSTEM > 0) add_message("system", text);
}

static void house_close(void)
{
    tokenizer_ids_close(&talk.answer);
    tokenizer_ids_close(&closing);
    stop_vocab(NULL);
    micro_close();
    tokenizer_close(tokenizer);
}

static void say_part(const char *bytes, u64 len)
{
    if (len == 0) return;
    CHECK_OK(tokenizer_encode(tokenizer, &(struct tokenizer_text){ .bytes = bytes, .len = len },
                              &talk.answer));
}

/* The model's next answer goes on with this text. */
static void say(const char *text) { say_part(text, strlen(text)); }

/* The same, cut where no tokenizer would cut it. */
static void say_split(const char *text, u64 seed)
{
    u64 len = strlen(text), at = 0;
    for (u64 i = 0; at < len; i++) {
        u64 take = MIN(1 + rng_u64(seed, i) % 9, len - at);
        while (at + take < len && ((u8)text[at + take] & 0xc0) == 0x80) take++;
        say_part(text + at, take);
        at += take;
    }
}

static void add_message(const char *role, const char *text)
{
    u64 at = strlen(talk.messages);
    snprintf(talk.messages + at, sizeof talk.messages - at, "%s{\"role\":\"%s\",\"content\":%s}",
             at > 0 ? "," : "", role, text);
}

/* Strings in the answer's body, decoded. */
static void take_string(struct jsontext v, char *out, u64 cap)
{
    out[0] = 0;
    if (v.kind != JSONTEXT_STRING) return;
    CHECK(v.len < cap);
    out[jsontext_decode(v, out)] = 0;
}

static void read_body(struct jsontext body)
{
    struct jsontext_walk walk;
    struct jsontext choice, item;
    jsontext_walk(&walk, jsontext_member(body, "choices"));
    CHECK(jsontext_next(&walk, NULL, &choice));
    struct jsontext message = jsontext_member(choice, "message");
    take_string(jsontext_member(message, "content"), talk.content, sizeof talk.content);
    take_string(jsontext_member(message, "reasoning_content"), talk.reasoning,
                sizeof talk.reasoning);
    talk.call_count = 0;
    jsontext_walk(&walk, jsontext_member(message, "tool_calls"));
    while (jsontext_member(message, "tool_calls").kind == JSONTEXT_ARRAY &&
           jsontext_next(&walk, NULL, &item)) {
        struct call *c = &talk.call[talk.call_count++];
        struct jsontext f = jsontext_member(item, "function");
        take_string(jsontext_member(item, "id"), c->id, sizeof c->id);
        take_string(jsontext_member(f, "name"), c->name, sizeof c->name);
        take_string(jsontext_member(f, "arguments"), c->sent, sizeof c->sent);
    }
    struct jsontext usage = jsontext_member(body, "usage");
    CHECK(jsontext_u64(jsontext_member(usage, "completion_tokens"), &talk.completion_tokens));
    CHECK(jsontext_u64(jsontext_member(jsontext_member(usage, "prompt_tokens_details"),
                                       "cached_tokens"), &talk.cached_tokens));
}

/* Rows that the turn left in its slot; they are what a cold run of their ids gives. */
static void read_rows(void)
{
    u32 slot = talk.result.slot, count;
    u64 rows;
    const block_id *list = record_blocks(resident_record(slot), &count, &rows);
    CHECK(rows <= TALK_IDS);
    CHECK(TALK_SYSTEM == 0 || rows > 1024);
    for (u64 i = 0; i < rows; i++) {
        const u64 *label = arena_blocks_label(state_blocks_arena(),
                                              list[i / state_shape()->block_rows]);
        talk.served[i] = (u32)label[i % state_shape()->block_rows];
    }
    talk.rows = rows;
    cold_compare(micro.set.slot_count, slot, talk.served, rows,
                 micro.logits + (u64)slot * micro.vocab);
}

/* Sends the messages; the model says what was prepared (it ends with <|im_end|> if `whole`). */
static void ask(const char *more, bool whole)
{
    static char body[TALK_BYTES + 4096];
    static struct request q;
    static struct reply reply;
    struct refusal refusal = { 0 };
    struct jsontext json;
    u32 id, rounds = 0;
    if (whole) say("<|im_end|>");
    snprintf(body, sizeof body, "{\"messages\":[%s]%s}", talk.messages, more);
    bool ok = request_chat(&chat, &(struct request_source){ .body = body,
                                                            .body_bytes = strlen(body) },
                           &q, &refusal);
    if (!ok) printf("%s\n%s\n", refusal.message, body);
    CHECK(ok);
    u32 submit = submit_take();
    CHECK(submit != NONE);
    struct submit_row *row = submit_at(submit);
    request_fill(&q, row);
    row->session[0] = row->session[1] = session;
    row->sampling = (struct sample_settings){ .top_p = 1, .repetition_penalty = 1 };
    row->arrival_us = clock_us();
    row->forced = talk.answer.id;
    row->forced_count = talk.answer.count;
    row->forced_cut = talk.cut > 0 ? talk.cut : UINT64_MAX;
    talk.prompt_count = row->id_count;
    CHECK_OK(reply_open(&reply, &chat, &q, row));
    CHECK_OK(submit_push(submit));
    for (bool done = false; !done;) {
        engine_pass();
        CHECK(++rounds < 20000);
        done = row->state == SUBMIT_DONE;
        while (ring_pop(&row->out, &id)) reply_ids(&reply, &id, 1);
    }
    talk.result = row->result;
    if (talk.cut > 0) CHECK_EQ(talk.result.finish, FINISH_CANCELLED);
    else CHECK(talk.result.finish == FINISH_STOP || talk.result.finish == FINISH_LENGTH);
    talk.cut = 0;
    row->made_count = reply_calls(&reply, row->made);
    submit_memo(submit);
    reply_end(&reply, &talk.result);
    CHECK_OK(reply.error);
    CHECK_OK(jsontext_open(reply.out.data, reply.out.len, 64, &json));
    read_body(json);
    reply_close(&reply);
    request_close(&q);
    talk.answer.count = 0;
    read_rows();
}

/* ------------------------------------------------------------------ what clients do */

static void put_json(struct text *t, const char *s) { text_json(t, s, strlen(s)); }

/* A number as JavaScript prints it: the shortest that reads back. */
static void put_number(struct text *t, f64 v)
{
    char s[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, v);
        if (strtod(s, NULL) == v) break;
    }
    if (v == (f64)(i64)v && v < 1e21 && v > -1e21) snprintf(s, sizeof s, "%.0f", v);
    text_str(t, s);
}

static bool index_like(struct text_span k)
{
    for (u64 i = 0; i < k.len; i++) if (k.bytes[i] < '0' || k.bytes[i] > '9') return false;
    return k.len > 0 && k.len < 10 && (k.len == 1 || k.bytes[0] != '0');
}

static u64 index_of(struct text_span k)
{
    u64 n = 0;
    for (u64 i = 0; i < k.len; i++) n = n * 10 + (u64)(k.bytes[i] - '0');
    return n;
}

static void respell(struct jsontext v, struct text_pool *pool, struct text *t);

static void put_member(const struct jsontext_row *row, bool comma, struct text_pool *pool,
                       struct text *t)
{
    text_str(t, comma ? "," : "");
    text_json(t, row->key.bytes, row->key.len);
    text_char(t, ':');
    respell(row->value, pool, t);
}

/* JSON.stringify(JSON.parse(v)). */
static void respell(struct jsontext v, struct text_pool *pool, struct text *t)
{
    f64 number;
    if (v.kind == JSONTEXT_NUMBER) {
        CHECK(jsontext_f64(v, &number));
        put_number(t, number);
    } else if (v.kind == JSONTEXT_OBJECT) {
        struct jsontext_row *rows;
        u32 count, put = 0;
        u64 least = 0;
        CHECK_OK(jsontext_rows(v, pool, &rows, &count));
        text_char(t, '{');
        for (u32 next = 0; next != NONE;) {             /* integer-like keys, ascending */
            next = NONE;
            for (u32 i = 0; i < count; i++)
                if (index_like(rows[i].key) && index_of(rows[i].key) >= least &&
                    (next == NONE || index_of(rows[i].key) < index_of(rows[next].key))) next = i;
            if (next == NONE) break;
            least = index_of(rows[next].key) + 1;
            put_member(&rows[next], put++ > 0, pool, t);
        }
        for (u32 i = 0; i < count; i++)
            if (!index_like(rows[i].key)) put_member(&rows[i], put++ > 0, pool, t);
        text_char(t, '}');
    } else if (v.kind == JSONTEXT_ARRAY) {
        struct jsontext_walk walk;
        struct jsontext item;
        bool first = true;
        text_char(t, '[');
        jsontext_walk(&walk, v);
        for (; jsontext_next(&walk, NULL, &item); first = false) {
            if (!first) text_char(t, ',');
            respell(item, pool, t);
        }
        text_char(t, ']');
    } else {
        text_put(t, v.bytes, v.len);
    }
}

/* The answer as the client keeps it, and a result for each call. */
static void keep_answer(bool reasoning)
{
    static char bytes[16384], argument[4096];
    struct text t, a;
    text_open(&t, bytes, sizeof bytes);
    text_str(&t, ",{\"role\":\"assistant\",\"content\":");
    put_json(&t, talk.content);
    if (reasoning && talk.reasoning[0] != 0) {
        text_str(&t, ",\"reasoning_content\":");
        put_json(&t, talk.reasoning);
    }
    for (u32 i = 0; i < talk.call_count; i++) {
        struct call *c = &talk.call[i];
        struct jsontext v;
        struct text_pool pool;
        text_open(&a, argument, sizeof argument);
        text_pool_open(&pool, &chat_model_heap, MIB);
        CHECK_OK(jsontext_open(c->sent, strlen(c->sent), 32, &v));
        respell(v, &pool, &a);
        text_pool_close(&pool);
        text_str(&t, i == 0 ? ",\"tool_calls\":[" : ",");
        text_f(&t, "{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"%s\","
               "\"arguments\":", c->id, c->name);
        put_json(&t, argument);
        text_str(&t, "}}");
    }
    text_str(&t, talk.call_count > 0 ? "]}" : "}");
    for (u32 i = 0; i < talk.call_count; i++)
        text_f(&t, ",{\"role\":\"tool\",\"tool_call_id\":\"%s\",\"content\":\"done %u\"}",
               talk.call[i].id, i);
    CHECK(!t.cut && strlen(talk.messages) + t.len < sizeof talk.messages);
    strcat(talk.messages, bytes);
}

#define TOOLS ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{" \
    "\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"number\"},\"s\":{\"type\":\"string\"}," \
    "\"o\":{\"type\":\"object\"},\"2\":{\"type\":\"integer\"},\"10\":{\"type\":\"integer\"}}}}}]"

/* The turn began with the rows of the one before, all of them. */
static void check_goes_on(const u32 *before, u64 rows, const char *served)
{
    CHECK_EQ(talk.result.source, SOURCE_END);
    CHECK_EQ(talk.result.cached, rows);
    CHECK(memcmp(before, talk.served, rows * sizeof *before) == 0);
    CHECK_STR(turn_served_word[talk.result.served], served);
}

#endif
