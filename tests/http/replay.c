/* tests/http/replay.c - conversations as clients send them back, over the real template, tokenizer,
 * parser and engine: reasoning dropped, arguments respelled, blanks and splits that no fresh
 * tokenisation gives.  Served ids are the rows', state equals the cold run of the served ids. */
#include "tests/micro.h"

#include "arena/base/hash.h"
#include "arena/heap.h"
#include "http/chat/reply.h"
#include "tiers/align.h"

#include <stdio.h>

enum { TALK_BYTES = 1 << 16, TALK_IDS = 2048, TALK_CTX = 2048 };

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

static void house_open(const struct micro_setup *setup, const char *phrase)
{
    char text[256];
    const struct files_row *json, *config;
    micro_open(setup);
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

/* ------------------------------------------------------------------ tests */

TEST(a_client_that_drops_reasoning_goes_on_at_the_end_of_every_answer)
{
    static u32 before[TALK_IDS];
    house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough.\n");
    add_message("system", "\"You are brief.\"");
    add_message("user", "\"What is a river?\"");
    for (u32 turn = 0; turn < 5; turn++) {
        u64 rows = talk.rows;
        memcpy(before, talk.served, sizeof before);
        say("I think of water that runs downhill, and of banks.\n</think>\n\nA long stream.");
        ask("", true);
        CHECK_STR(talk.content, "A long stream.");
        if (turn > 0) {
            check_goes_on(before, rows, "aligned");
            CHECK(talk.result.forwarded < 24);
            CHECK_EQ(talk.cached_tokens, talk.prompt_count > talk.result.forwarded
                     ? talk.prompt_count - talk.result.forwarded : 0);
        }
        keep_answer(false);
        add_message("user", "\"Tell me more.\"");
    }
    /* switched off, or for reasoning only: the prompt as sent */
    micro.profile.end_align_reasoning = ALIGN_OFF;
    say("Hm.\n</think>\n\nNo.");
    ask("", true);
    CHECK_EQ(talk.result.served, SERVED_SENT);
    CHECK_EQ(talk.result.cached + talk.result.forwarded, talk.prompt_count);
    CHECK_EQ(talk.result.reason, REASON_PARTED);
    CHECK(talk.result.part_pos != UINT64_MAX && talk.result.part_sent == talk.result.part_pos);
    micro.profile.end_align_reasoning = ALIGN_ON;
    micro.profile.end_align = false;
    ask("", true);
    CHECK_EQ(talk.result.served, SERVED_SENT);
    house_close();
}

TEST(an_aligned_prompt_that_would_not_fit_is_served_as_sent_and_says_so)
{
    house_open(&(struct micro_setup){ .ctx = 320, .reserve_tokens = 40 }, "\n\nEnough.\n");
    add_message("user", "\"Go\"");
    for (u32 i = 0; i < 22; i++) say("I think and think and think.");
    say("\n</think>\n\nYes.");
    ask("", true);
    keep_answer(false);
    add_message("user", "\"Go on\"");
    u64 rows = talk.rows;
    say("Now.\n</think>\n\nNo.");
    micro.profile.reserve_tokens = 320 - rows;
    ask("", true);
    CHECK_EQ(talk.result.served, SERVED_SENT);
    CHECK_STR(turn_reason_word[talk.result.reason], "context");
    CHECK_EQ(talk.result.cached + talk.result.forwarded, talk.prompt_count);
    house_close();
}

TEST(a_used_up_budget_closes_the_block_with_words_the_client_never_sees)
{
    static const u64 budgets[] = { 0, 1, 2, 64 };
    static u32 before[TALK_IDS];
    char more[64];
    for (u32 i = 0; i < COUNT_OF(budgets); i++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough of it.\n");
        add_message("user", "\"What is a river?\"");
        for (u32 turn = 0; turn < 4; turn++) {
            bool strip = turn % 2 == 0;
            u64 rows = talk.rows, spans = 0;
            memcpy(before, talk.served, sizeof before);
            for (u32 k = 0; k < 30; k++) say(" I think");
            say("\n</think>\n\nA long stream.");
            snprintf(more, sizeof more, ",\"thinking_budget\":%llu", (ull)budgets[i]);
            ask(more, true);
            CHECK_STR(talk.content, "A long stream.");
            CHECK(strstr(talk.reasoning, "Enough") == NULL);
            CHECK_EQ(talk.result.hidden, budgets[i] < 60 ? chat.close_hidden : 0);
            CHECK_EQ(talk.completion_tokens, talk.result.generated - talk.result.hidden);
            if (talk.result.hidden > 0) {
                u64 at = talk.result.cached + talk.result.forwarded + budgets[i];
                CHECK(memcmp(talk.served + at, closing.id, closing.count * sizeof(u32)) == 0);
            }
            const struct generation_list *list =
                record_generations(resident_record(talk.result.slot));
            for (u32 r = end_first(list); r != 0; r = end_next(r))
                spans += end_at(r)->kind == END_SPAN;
            CHECK_EQ(spans, talk.result.hidden > 0 ? turn + 1 : 0);
            if (turn > 0) {
                check_goes_on(before, rows, talk.result.hidden > 0 || turn % 2 == 1
                              ? "aligned" : turn_served_word[talk.result.served]);
                CHECK(talk.result.forwarded < 24);
            }
            keep_answer(!strip);
            add_message("user", "\"Tell me more.\"");
        }
        house_close();
    }
}

TEST(other_names_of_the_budget_and_no_budget)
{
    static const struct { const char *more; bool closed; } rows[] = {
        { ",\"reasoning_budget\":3", true },
        { ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":3}", true },
        { ",\"thinking_budget\":-1", false }, { ",\"thinking_budget\":null", false }, { "", false },
        { ",\"thinking_budget\":3,\"enable_thinking\":false", false },
    };
    for (u32 i = 0; i < COUNT_OF(rows); i++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough.\n");
        add_message("user", "\"Go\"");
        say("one two three four five six seven eight nine ten\n</think>\n\nYes.");
        ask(rows[i].more, true);
        CHECK_EQ(talk.result.hidden > 0, rows[i].closed);
        house_close();
    }
}

TEST(a_limit_inside_the_hidden_phrase_counts_what_the_client_sees)
{
    house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough of it by now.\n");
    add_message("user", "\"Go\"");
    say("one two three four five\n</think>\n\nYes and no.");
    ask(",\"thinking_budget\":2,\"max_tokens\":4", true);
    CHECK_EQ(talk.result.finish, FINISH_LENGTH);
    CHECK_EQ(talk.completion_tokens, 4);                /* two of reasoning, </think>, blanks */
    CHECK_EQ(talk.result.hidden, chat.close_hidden);
    CHECK_STR(talk.content, "");
    house_close();
}

/* One random answer: reasoning, content, calls; blanks and splits no template would write. */
static void random_answer(u64 seed, bool think)
{
    static const char *const blanks[] = { "\n\n", "\n", " ", " \n\n", "\n\n\n" };
    static const char *const texts[] = { "The river runs.", "Two  blanks, then\n\na line.",
                                         "caf\303\251", "1. one\n2. two", "x = [1, 2];" };
    static const char *const values[] = { "n>\n2.0", "n>\n1e2", "n>\n-0.50", "s>\nplain text\n",
        "s>\n<b>a</b>", "o>\n{\"b\": 1e2, \"1\": {\"x\": [1.50, 2]}, \"0\": true}", "2>\n7",
        "10>\n8",
        "n>\n9007199254740993", "o>\n{}" };
    u64 at = 0;
    char text[512];
    if (think) {
        const char *first = rng_u64(seed, at++) % 4 == 0 ? "\n" : "";
        const char *why = texts[rng_u64(seed, at++) % COUNT_OF(texts)];
        snprintf(text, sizeof text, "%s%s%s", first, why,
                 blanks[rng_u64(seed, at++) % COUNT_OF(blanks)]);
        if (rng_u64(seed, at++) % 2 == 0) say_split(text, seed);
        else say(text);
        say("</think>");
        say(blanks[rng_u64(seed, at++) % COUNT_OF(blanks)]);
    }
    u64 calls = rng_u64(seed, at++) % 4;
    calls = calls > 2 ? 0 : calls;
    if (calls == 0 || rng_u64(seed, at++) % 2 == 0) {
        const char *content = texts[rng_u64(seed, at++) % COUNT_OF(texts)];
        if (rng_u64(seed, at++) % 2 == 0) say_split(content, seed + 1);
        else say(content);
        if (calls > 0 || rng_u64(seed, at++) % 3 == 0)
            say(blanks[rng_u64(seed, at++) % COUNT_OF(blanks)]);
    }
    for (u64 i = 0; i < calls; i++) {
        u64 used = 0;
        if (i > 0) say(blanks[rng_u64(seed, at++) % COUNT_OF(blanks)]);
        say("<tool_call>\n<function=f>\n");
        for (u64 k = rng_u64(seed, at++) % 4; k > 0; k--) {
            u64 v = rng_u64(seed, at++) % COUNT_OF(values), key = (u64)1 << (values[v][0] % 64);
            if (used & key) continue;
            used |= key;
            snprintf(text, sizeof text, "<parameter=%s\n</parameter>\n", values[v]);
            say(text);
        }
        say("</function>\n</tool_call>");
    }
}

/* An anchor stands at the start of the newest user message and before the last id of the prompt. */
static void check_marks(u64 prompt_rows)
{
    u32 start = tokenizer_added(tokenizer, "<|im_start|>");
    struct anchor_list list = record_anchors(resident_record(talk.result.slot));
    u64 user = 0;
    for (u64 i = 0; i + 1 < prompt_rows; i++) {
        char bytes[64];
        struct text text;
        text_open(&text, bytes, sizeof bytes);
        tokenizer_decode(tokenizer, talk.served + i, MIN(prompt_rows - i, (u64)8), &text);
        if (talk.served[i] == start && strncmp(bytes, "<|im_start|>user\n", 17) == 0 &&
            strncmp(bytes, "<|im_start|>user\n<tool", 22) != 0) user = i;
    }
    if (user > talk.result.cached) CHECK(anchors_at(&list, user) != NONE);
    CHECK(anchors_at(&list, prompt_rows - 1) != NONE);
}

TEST(random_conversations_go_on_at_the_end_whatever_a_client_respells)
{
    static u32 before[TALK_IDS];
    u64 aligned = 0, turns = 0;
    for (u64 seed = 1; seed <= 12; seed++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX, .slot_count = 1 + seed % 2,
                                          .anchors = 200 }, "\n\nEnough.\n");
        u64 at = 0;
        bool think = rng_u64(seed, 1000) % 4 != 0, strip = rng_u64(seed, 1001) % 2 == 0;
        if (seed % 3 == 0) add_message("system", "\"Use f.\"");
        add_message("user", "\"Begin the work.\"");
        for (u32 turn = 0; turn < 6 && talk.rows < TALK_CTX - 700; turn++) {
            u64 rows = talk.rows;
            memcpy(before, talk.served, sizeof before);
            random_answer(seed * 100 + turn, think);
            ask(think ? TOOLS : TOOLS ",\"enable_thinking\":false", true);
            if (turn > 0 && talk.result.cached != rows)
                printf("seed %llu turn %u: %llu of %llu rows\n", (ull)seed, turn,
                       (ull)talk.result.cached, (ull)rows);
            if (turn > 0) check_goes_on(before, rows, turn_served_word[talk.result.served]);
            check_marks(talk.result.cached + talk.result.forwarded);
            aligned += talk.result.served == SERVED_ALIGNED;
            turns++;
            keep_answer(!strip);
            if (talk.call_count == 0 || rng_u64(seed, at++) % 4 == 0)
                add_message("user", "\"And then?\"");
        }
        house_close();
    }
    printf("%llu of %llu turns were aligned\n", (ull)aligned, (ull)turns);
    CHECK(aligned * 2 > turns);
}

TEST(edited_answers_and_other_calls_are_exact_too)
{
    for (u64 seed = 1; seed <= 12; seed++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX, .slot_count = 1 + seed % 2 },
                   "\n\nEnough.\n");
        add_message("user", "\"Begin the work.\"");
        for (u32 turn = 0; turn < 4; turn++) {
            random_answer(seed * 77 + turn, true);
            ask(TOOLS, true);               /* compares with the cold run */
            if (rng_u64(seed, turn) % 2 == 0) snprintf(talk.content, 64, "edited %u", turn);
            if (rng_u64(seed, 10 + turn) % 3 == 0 && talk.call_count > 0)
                snprintf(talk.call[0].sent, 64, "{\"s\": \"other\"}");
            if (rng_u64(seed, 20 + turn) % 3 == 0 && talk.call_count > 0) talk.call[0].id[7] ^= 1;
            keep_answer(rng_u64(seed, 30 + turn) % 2 == 0);
            add_message("user", "\"And then?\"");
        }
        house_close();
    }
}

/* A client that left keeps the text it got: cut in the content, the next turn goes on at the end,
 * reasoning sent back or not; cut in the reasoning, it goes on at the start of the answer. */
TEST(an_answer_that_its_client_left_goes_on_where_it_stands)
{
    static u32 before[TALK_IDS];
    for (u32 cut = 1; cut < 28; cut++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough.\n");
        add_message("user", "\"What is a river?\"");
        say("I think of water that runs downhill.\n</think>\n\n");
        u64 head = talk.answer.count;
        say("A long stream of water and of stones, with banks.");
        talk.cut = cut;
        ask("", true);
        u64 rows = talk.rows, prompt = talk.result.cached + talk.result.forwarded;
        memcpy(before, talk.served, sizeof before);
        CHECK_EQ(rows, prompt + cut - 1);
        keep_answer(cut % 2 == 0);
        add_message("user", "\"Go on.\"");
        say("Hm.\n</think>\n\nNo.");
        ask("", true);
        if (cut > head + 1) check_goes_on(before, rows, cut % 2 == 1 ? "aligned" : "sent");
        else CHECK(talk.result.cached + 1 >= prompt);
        house_close();
    }
}

/* Templates that take the reasoning of past answers out on purpose: off unless asked for. */
TEST(a_template_that_strips_aligns_when_it_is_told_to)
{
    static u32 before[TALK_IDS];
    static const enum template_id ids[] = { TEMPLATE_36, TEMPLATE_35, TEMPLATE_35_SMALL };
    for (u32 i = 0; i < COUNT_OF(ids); i++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX }, "\n\nEnough.\n");
        chat.template_id = ids[i];
        add_message("user", "\"What is a river?\"");
        for (u32 turn = 0; turn < 4; turn++) {
            u64 rows = talk.rows;
            memcpy(before, talk.served, sizeof before);
            say("I think of water.\n</think>\n\nA long stream.");
            ask(",\"enable_thinking\":true", true);
            if (turn > 0) check_goes_on(before, rows, "aligned");
            keep_answer(true);
            add_message("user", "\"Go on.\"");
        }
        house_close();
    }
}

/* ------------------------------------------------------------------ cases */

/* A turn with reasoning, then its answer as `message`; the rows it left are in `before`. */
static void one_turn(const char *message, u32 *before, u64 *rows)
{
    house_open(&(struct micro_setup){ .ctx = TALK_CTX, .anchors = 200 }, "\n\nEnough.\n");
    add_message("user", "\"What is a river?\"");
    say("Water that runs downhill.\n</think>\n\nA long stream.");
    ask("", true);
    memcpy(before, talk.served, talk.rows * sizeof *before);
    *rows = talk.rows;
    strcat(talk.messages, message);
    add_message("user", "\"Tell me more.\"");
}

TEST(K37_reasoning_that_comes_back_dropped_empty_or_whole_resumes_at_the_end)
{
    static const char *const copies[] = {
        ",{\"role\":\"assistant\",\"content\":\"A long stream.\","
            "\"reasoning_content\":\"Water that runs downhill.\"}",
        ",{\"role\":\"assistant\",\"content\":\"A long stream.\"}",
        ",{\"role\":\"assistant\",\"content\":\"A long stream.\",\"reasoning_content\":\"\"}",
        ",{\"role\":\"assistant\",\"content\":\"\\nA long stream. \",\"reasoning\":\"\"}",
    };
    static u32 before[TALK_IDS];
    u64 rows;
    for (u32 i = 0; i < COUNT_OF(copies); i++) {
        one_turn(copies[i], before, &rows);
        ask("", true);
        check_goes_on(before, rows, i == 0 ? "sent" : "aligned");
        house_close();
    }
    /* thinking off: the effort line in the head is gone, so the copy parts there */
    one_turn(copies[1], before, &rows);
    ask(",\"enable_thinking\":false", true);
    CHECK_EQ(talk.result.served, SERVED_SENT);
    CHECK(talk.result.cached <= talk.result.part_pos && talk.result.part_pos < 4);
    house_close();
}

/* The call of one turn comes back as `arguments`; part_pos in rows, or U64_MAX. */
static void call_turn(const char *arguments, u32 *before, u64 *rows)
{
    char message[1024];
    house_open(&(struct micro_setup){ .ctx = TALK_CTX, .anchors = 200 }, "\n\nEnough.\n");
    add_message("user", "\"Read it.\"");
    say("I read.\n</think>\n\n<tool_call>\n<function=f>\n<parameter=s>\nsrc/a.c\n</parameter>\n"
        "<parameter=n>\n2.0\n</parameter>\n<parameter=10>\n7\n</parameter>\n</function>\n"
        "</tool_call>");
    ask(TOOLS, true);
    CHECK_EQ(talk.call_count, 1);
    CHECK_STR(talk.call[0].sent, "{\"s\": \"src/a.c\", \"n\": 2.0, \"10\": 7}");
    memcpy(before, talk.served, talk.rows * sizeof *before);
    *rows = talk.rows;
    snprintf(message, sizeof message, ",{\"role\":\"assistant\",\"content\":null,"
             "\"reasoning_content\":\"I read.\",\"tool_calls\":[{\"id\":\"%s\",\"type\":"
             "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"%s\"}}]},{\"role\":"
             "\"tool\",\"tool_call_id\":\"%s\",\"content\":\"int x;\"}", talk.call[0].id, arguments,
             talk.call[0].id);
    strcat(talk.messages, message);
}

TEST(K43_a_call_inside_the_think_block_is_a_call_and_rows_and_copy_agree)
{
    static u32 before[TALK_IDS];
    for (u32 strip = 0; strip < 2; strip++) {
        house_open(&(struct micro_setup){ .ctx = TALK_CTX, .anchors = 200 }, "\n\nEnough.\n");
        add_message("user", "\"Read it.\"");
        for (u32 turn = 0; turn < 3; turn++) {
            u64 rows = talk.rows;
            memcpy(before, talk.served, sizeof before);
            say("I read it\nnow.\n<tool_call>\n<function=f>\n<parameter=s>\na.c\n</parameter>\n"
                "</function>\n</tool_call>");
            ask(TOOLS, true);
            CHECK_STR(talk.reasoning, "I read it\nnow.");
            CHECK_STR(talk.content, "");
            CHECK_EQ(talk.call_count, 1);
            CHECK_STR(talk.call[0].sent, "{\"s\": \"a.c\"}");
            if (turn > 0) check_goes_on(before, rows, "aligned");
            keep_answer(strip == 0);
        }
        house_close();
    }
}

/* Hash of the ids that the messages render to. */
static u64 rendered(const char *more)
{
    static char body[TALK_BYTES + 4096];
    static struct request q;
    struct refusal refusal = { 0 };
    snprintf(body, sizeof body, "{\"messages\":[%s]%s}", talk.messages, more);
    CHECK(request_chat(&chat, &(struct request_source){ .body = body,
                                                        .body_bytes = strlen(body) },
                       &q, &refusal));
    u64 hash = hash_64(q.ids.id, q.ids.count * sizeof *q.ids.id);
    request_close(&q);
    return hash;
}

TEST(K38_a_call_comes_back_respelled_at_the_end_and_reordered_at_the_line_before_it)
{
    static const char *const same[] = {
        "{\\\"s\\\": \\\"src/a.c\\\", \\\"n\\\": 2.0, \\\"10\\\": 7}",
        "{\\\"10\\\":7,\\\"s\\\":\\\"src/a.c\\\",\\\"n\\\":2}",
    };
    static u32 before[TALK_IDS];
    u64 rows;
    for (u32 i = 0; i < COUNT_OF(same); i++) {
        call_turn(same[i], before, &rows);
        ask(TOOLS, true);
        check_goes_on(before, rows, i == 0 ? "sent" : "aligned");
        u64 first = rendered(TOOLS);            /* the same request, the same ids */
        for (u32 k = 0; k < 100; k++) CHECK_EQ(rendered(TOOLS), first);
        house_close();
    }
    call_turn("{\\\"n\\\": 2.0, \\\"s\\\": \\\"src/a.c\\\", \\\"10\\\": 7}", before, &rows);
    u64 last = talk.result.cached + talk.result.forwarded - 1;
    ask(TOOLS, true);
    CHECK_EQ(talk.result.served, SERVED_SENT);
    CHECK_EQ(talk.result.cached, last);         /* the anchor before the answer */
    CHECK_EQ(talk.result.cached + talk.result.forwarded, talk.prompt_count);
    u32 open = tokenizer_added(tokenizer, "<tool_call>"), close = tokenizer_added(tokenizer,
                                                                                 "</tool_call>");
    u64 lo = last, hi = 0;
    while (lo < rows && before[lo] != open) lo++;
    for (hi = lo; hi < rows && before[hi] != close;) hi++;
    CHECK(talk.result.part_pos > lo && talk.result.part_pos < hi);
    CHECK_EQ(talk.result.part_sent, talk.result.part_pos);
    house_close();
}
