/* http/chat/reply.c - the shapes of http.md 5 and 6, written by hand: one text, no tree. */
#include "http/chat/reply.h"

#include "arena/base/clock.h"
#include "http/chat/memo.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static void random_id(const char *prefix, char out[REPLY_ID_BYTES])
{
    static const char digit[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    u8 bytes[24] = {0};
    u64 at = strlen(prefix);
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        memset(bytes, (int)(clock_us() & 0xff), sizeof bytes);
    memcpy(out, prefix, at);
    for (u32 i = 0; i < sizeof bytes; i++) out[at++] = digit[bytes[i] % 62];
    out[at] = 0;
}

static bool chat(const struct reply *r) { return r->request->kind == REQUEST_CHAT; }

static void put_head(struct reply *r, struct text *t, const char *object)
{
    text_f(t, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%llu,\"model\":", r->id, object,
           (ull)r->created_s);
    text_json(t, r->request->model.bytes, r->request->model.len);
    text_str(t, ",\"choices\":[");
}

enum err reply_open(struct reply *r, const struct chat_model *model, const struct request *q,
                    struct submit_row *row)
{
    *r = (struct reply){ .model = model, .request = q, .row = row };
    struct text *growing[8] = { &r->prefix, &r->reasoning, &r->content, &r->calls, &r->out,
                                &r->call_name, &r->call_text, &r->logprobs };
    for (u32 i = 0; i < 8; i++) text_open_growing(growing[i], &chat_model_heap, REPLY_TEXT_BYTES);
    r->created_s = (u64)clock_wall_s();
    random_id(chat(r) ? "chatcmpl-" : "cmpl-", r->id);
    stop_start(&r->stop, row);
    tools_events_open(&r->events, &chat_model_heap);
    if (chat(r)) {
        struct tools_options options = {
            .tools = q->input.tools, .tool_count = q->input.tool_count, .calls = q->calls,
            .think_open = q->think_open, .id_prefix = "call_",
            .tags_by_text = tokenizer_added(model->tokenizer, "</think>") == NONE,
        };
        enum err code = tools_open(&options, &chat_model_heap, &r->tools);
        if (code != OK) { reply_close(r); return code; }
    }
    put_head(r, &r->prefix, chat(r) ? "chat.completion.chunk" : "text_completion");
    return OK;
}

void reply_close(struct reply *r)
{
    struct text *growing[8] = { &r->prefix, &r->reasoning, &r->content, &r->calls, &r->out,
                                &r->call_name, &r->call_text, &r->logprobs };
    for (u32 i = 0; i < 8; i++) text_close(growing[i]);
    tools_events_close(&r->events);
    tools_close(r->tools);
    *r = (struct reply){0};
}

/* ------------------------------------------------------------------ log-probabilities */

/* {"token", "bytes", "logprob": the members one id has, without the closing brace. */
static void put_token(struct reply *r, u32 id, f32 logprob)
{
    struct text *t = &r->logprobs;
    const struct vocab *vocab = tokenizer_vocab(r->model->tokenizer);
    struct vocab_piece p = { 0 };
    if (id < vocab->count) p = vocab_piece(vocab, id);
    text_str(t, "{\"token\":\"");
    for (u64 at = 0; at < p.len;) {
        u64 good = text_utf8_valid(p.bytes + at, p.len - at);
        text_json_inner(t, p.bytes + at, good);
        at += good;
        if (at == p.len) break;
        text_str(t, "\xef\xbf\xbd");           /* bytes that only make sense with others       */
        for (at++; at < p.len && ((u8)p.bytes[at] & 0xC0) == 0x80;) at++;
    }
    text_str(t, "\",\"bytes\":[");
    for (u64 i = 0; i < p.len; i++) text_f(t, i > 0 ? ",%u" : "%u", (u8)p.bytes[i]);
    if (__builtin_isfinite(logprob)) text_f(t, "],\"logprob\":%.9g", (f64)logprob);
    else text_str(t, "],\"logprob\":null");
}

/* The entry of the id that was just popped; its row is the engine's again. */
static void take_logprob(struct reply *r, u32 id)
{
    struct text *t = &r->logprobs;
    struct logprob_row row = r->row->logprob[r->id_count % TURN_LOGPROBS];
    atomic_store_explicit(&r->row->logprobs_read, r->id_count + 1, memory_order_release);
    if (r->enough) return;                      /* the client is not told of this one           */
    if (t->len > 0) text_char(t, ',');
    put_token(r, id, row.chosen);
    text_str(t, ",\"top_logprobs\":[");
    for (u32 i = 0; i < row.top_count; i++) {
        if (i > 0) text_char(t, ',');
        put_token(r, row.top_id[i], row.top[i]);
        text_char(t, '}');
    }
    text_str(t, "]}");
}

/* The member of a choice: what waits, in order; nothing when nothing does. */
static void put_logprobs(struct reply *r)
{
    if (r->logprobs.len == 0) return;
    text_str(&r->out, ",\"logprobs\":{\"content\":[");
    text_put(&r->out, r->logprobs.data, r->logprobs.len);
    text_str(&r->out, "]}");
    if (!r->logprobs.cut) text_clear(&r->logprobs);
}

/* ------------------------------------------------------------------ chunks of a stream */

static void chunk_begin(struct reply *r)
{
    text_str(&r->out, "data: ");
    text_put(&r->out, r->prefix.data, r->prefix.len);
    text_str(&r->out, chat(r) ? "{\"index\":0,\"delta\":" : "{\"index\":0,\"text\":");
}

static void chunk_end(struct reply *r)
{
    put_logprobs(r);
    text_str(&r->out, chat(r) ? ",\"finish_reason\":null}]}\n\n"
                              : ",\"logprobs\":null,\"finish_reason\":null}]}\n\n");
}

static void begin_once(struct reply *r)
{
    if (r->begun) return;
    r->begun = true;
    if (!r->request->stream || !chat(r)) return;
    chunk_begin(r);
    text_str(&r->out, "{\"role\":\"assistant\",\"content\":\"\"}");
    chunk_end(r);
}

static void chunk_reasoning(struct reply *r, const char *bytes, u64 len)
{
    enum chat_reasoning_field field = r->model->reasoning_field;
    chunk_begin(r);
    text_char(&r->out, '{');
    if (field != CHAT_REASONING_PLAIN) {
        text_str(&r->out, "\"reasoning_content\":");
        text_json(&r->out, bytes, len);
    }
    if (field == CHAT_REASONING_BOTH) text_char(&r->out, ',');
    if (field != CHAT_REASONING_CONTENT) {
        text_str(&r->out, "\"reasoning\":");
        text_json(&r->out, bytes, len);
    }
    text_char(&r->out, '}');
    chunk_end(r);
}

static const char *call_id(const struct reply *r, u32 call)
{
    return tools_call_id(r->tools, call);
}

static void put_call_id(struct reply *r, struct text *t, u32 call)
{
    const struct request *q = r->request;
    if (call < q->forced_call_count && q->forced_call_id[call].len > 0) {
        text_json(t, q->forced_call_id[call].bytes, q->forced_call_id[call].len);
    } else {
        const char *id = call_id(r, call);
        text_json(t, id, strlen(id));
    }
}

static void chunk_call(struct reply *r, u32 call, const char *name, u64 len)
{
    chunk_begin(r);
    text_f(&r->out, "{\"tool_calls\":[{\"index\":%u,\"id\":", call);
    put_call_id(r, &r->out, call);
    text_str(&r->out, ",\"type\":\"function\",\"function\":{\"name\":");
    text_json(&r->out, name, len);
    text_str(&r->out, ",\"arguments\":\"\"}}]}");
    chunk_end(r);
}

static void chunk_arguments(struct reply *r, u32 call, const char *bytes, u64 len)
{
    chunk_begin(r);
    text_f(&r->out, "{\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", call);
    text_json(&r->out, bytes, len);
    text_str(&r->out, "}}]}");
    chunk_end(r);
}

static void stream_event(struct reply *r, const struct tools_event *e, const char *bytes, u64 len)
{
    switch (e->kind) {
    case TOOLS_REASONING: chunk_reasoning(r, bytes, len); break;
    case TOOLS_CONTENT:
        chunk_begin(r);
        text_str(&r->out, "{\"content\":");
        text_json(&r->out, bytes, len);
        text_char(&r->out, '}');
        chunk_end(r);
        break;
    case TOOLS_CALL_BEGIN: chunk_call(r, e->call, bytes, len); break;
    case TOOLS_CALL_ARGUMENTS: chunk_arguments(r, e->call, bytes, len); break;
    default: break;
    }
}

/* ------------------------------------------------------------------ what a body will hold */

static void body_event(struct reply *r, const struct tools_event *e, const char *bytes, u64 len)
{
    switch (e->kind) {
    case TOOLS_REASONING: text_put(&r->reasoning, bytes, len); break;
    case TOOLS_CONTENT: text_put(&r->content, bytes, len); break;
    case TOOLS_CALL_BEGIN:
        text_str(&r->calls, r->calls.len > 0 ? ",{\"id\":" : "{\"id\":");
        put_call_id(r, &r->calls, e->call);
        text_str(&r->calls, ",\"type\":\"function\",\"function\":{\"name\":");
        text_json(&r->calls, bytes, len);
        text_str(&r->calls, ",\"arguments\":\"");
        break;
    case TOOLS_CALL_ARGUMENTS: text_json_inner(&r->calls, bytes, len); break;
    case TOOLS_CALL_END: case TOOLS_CALL_CUT: text_str(&r->calls, "\"}}"); break;
    default: break;
    }
}

/* What the memo needs of a call: its hashes at its end. */
static void note_call(struct reply *r, const struct tools_event *e, const char *bytes, u64 len)
{
    if (e->kind < TOOLS_CALL_BEGIN || e->call >= TURN_CALL_CAP) return;
    if (e->kind == TOOLS_CALL_BEGIN) {
        text_clear(&r->call_text);
        text_clear(&r->call_name);
        text_put(&r->call_name, bytes, len);
    } else if (e->kind == TOOLS_CALL_ARGUMENTS) {
        text_put(&r->call_text, bytes, len);
    } else if (e->kind == TOOLS_CALL_END && !r->call_text.cut && !r->call_name.cut) {
        const struct request *q = r->request;
        struct call_row *call = &r->made[e->call];
        const char *id = call_id(r, e->call);
        struct text_span given = { id, strlen(id) };
        struct text_pool pool;
        if (e->call < q->forced_call_count && q->forced_call_id[e->call].len > 0)
            given = q->forced_call_id[e->call];
        call->id_hash = memo_id(given);
        text_pool_open(&pool, &chat_model_heap, REPLY_TEXT_BYTES);
        r->hashed[e->call] = memo_call_text(
            (struct text_span){ r->call_name.data, r->call_name.len },
            (struct text_span){ r->call_text.data, r->call_text.len }, &pool,
            call->value_hash) == OK;
        text_pool_close(&pool);
    }
}

/* Neighbours of one kind are one delta: a step's ids leave together. */
static void take_events(struct reply *r)
{
    const struct tools_events *all = &r->events;
    for (u32 i = 0; i < all->count && !r->enough;) {
        const struct tools_event *e = &all->rows[i++];
        u64 len = e->len;
        while (i < all->count && all->rows[i].kind == e->kind && all->rows[i].call == e->call &&
               all->rows[i].start == e->start + len)
            len += all->rows[i++].len;
        const char *bytes = all->text.data + e->start;
        if (r->request->stream) stream_event(r, e, bytes, len);
        else body_event(r, e, bytes, len);
        note_call(r, e, bytes, len);
        if (e->kind == TOOLS_CALL_END && !r->request->parallel_calls) r->enough = true;
    }
    tools_events_clear(&r->events);
}

/* ------------------------------------------------------------------ ids */

static void feed_text(struct reply *r, const char *bytes, u64 len, enum vocab_kind kind)
{
    bool shown = kind != VOCAB_SPECIAL && kind != VOCAB_TURN_END && kind != VOCAB_PADDING;
    if (shown) text_utf8_feed(&r->utf8, bytes, len, &r->content);
}

static void feed(struct reply *r, const char *bytes, u64 len, enum vocab_kind kind)
{
    if (r->error != OK || r->enough) return;
    if (!chat(r)) { feed_text(r, bytes, len, kind); return; }
    if (tools_in_reasoning(r->tools) && kind != VOCAB_THINK_CLOSE) r->reasoning_tokens++;
    if (kind == VOCAB_CALL_OPEN) {
        r->call_at = r->at;
        r->calls_before = tools_call_count(r->tools);
        r->complete_before = tools_complete_count(r->tools);
    }
    r->error = tools_feed(r->tools, bytes, len, kind, &r->events);
    u32 call = r->calls_before;
    if (kind == VOCAB_CALL_CLOSE && call < TURN_CALL_CAP && r->made[call].hi == 0 &&
        tools_call_count(r->tools) == call + 1 &&
        tools_complete_count(r->tools) == r->complete_before + 1) {
        r->made[call].lo = r->call_at;      /* one call between the two tags, and it is whole */
        r->made[call].hi = r->at + 1;
    }
}

u32 reply_calls(const struct reply *r, struct call_row *out)
{
    u32 count = 0;
    for (u32 i = 0; i < TURN_CALL_CAP; i++)
        if (r->hashed[i] && r->made[i].hi > 0) out[count++] = r->made[i];
    return count;
}

/* Gives the parser what is held but for the last `keep` counted bytes. */
static void release(struct reply *r, u32 keep)
{
    u32 at = 0, done = 0;
    while (done < r->piece_count) {
        struct reply_piece *p = &r->piece[done];
        u32 free = r->counted_bytes - MIN(r->counted_bytes, keep);
        u32 len = p->counted ? MIN(p->len, free) : p->len;
        if (len == 0 && p->len > 0) break;
        r->at = p->at;
        feed(r, r->held + at, len, (enum vocab_kind)p->kind);
        at += len;
        if (p->counted) r->counted_bytes -= len;
        p->len -= len;
        if (p->len > 0) break;
        done++;
    }
    r->held_bytes -= at;
    r->piece_count -= done;
    memmove(r->held, r->held + at, r->held_bytes);
    memmove(r->piece, r->piece + done, r->piece_count * sizeof r->piece[0]);
}

static void hold(struct reply *r, const char *bytes, u32 len, enum vocab_kind kind)
{
    bool call_tag = kind == VOCAB_CALL_OPEN || kind == VOCAB_CALL_CLOSE;
    bool counted = kind == VOCAB_TEXT || (call_tag && !r->row->tools);
    if (r->piece_count == REPLY_HELD_PIECES || r->held_bytes + len > REPLY_HELD_BYTES)
        release(r, 0);
    r->at = r->id_count;
    if (len > REPLY_HELD_BYTES) { feed(r, bytes, len, kind); return; }
    memcpy(r->held + r->held_bytes, bytes, len);
    r->piece[r->piece_count++] = (struct reply_piece){ r->id_count, len, (u8)kind, counted };
    r->held_bytes += len;
    if (counted) r->counted_bytes += len;
}

/* Drops the last `back` counted bytes and what stands among them: they are the stop text's. */
static void drop(struct reply *r, u32 back)
{
    while (back > 0 && r->piece_count > 0) {
        struct reply_piece *p = &r->piece[r->piece_count - 1];
        u32 len = p->counted ? MIN(p->len, back) : p->len;
        if (p->counted) {
            back -= len;
            r->counted_bytes -= len;
        }
        p->len -= len;
        r->held_bytes -= len;
        if (p->len == 0) r->piece_count--;
    }
}

static void feed_id(struct reply *r, u32 id)
{
    const struct vocab *vocab = tokenizer_vocab(r->model->tokenizer);
    if (r->stopped || id >= vocab->count) return;
    struct vocab_piece p = vocab_piece(vocab, id);
    enum vocab_kind kind = vocab_kind(vocab, id);
    r->at = r->id_count;
    if (r->row->stop_count == 0) { feed(r, p.bytes, p.len, kind); return; }
    u32 cut = 0, back = 0;
    r->stopped = stop_feed(&r->stop, r->row, id, &cut, &back);
    if (r->stopped) {
        drop(r, back);
        if (cut > 0) hold(r, p.bytes, MIN(cut, p.len), VOCAB_TEXT);
        release(r, 0);
        return;
    }
    hold(r, p.bytes, p.len, kind);
    release(r, stop_held(&r->stop));
}

static void take_text(struct reply *r)
{
    if (!r->request->stream || r->content.len == 0) return;
    chunk_begin(r);
    text_json(&r->out, r->content.data, r->content.len);
    chunk_end(r);
    text_clear(&r->content);
}

static void check(struct reply *r)
{
    const struct text *all[5] = { &r->out, &r->reasoning, &r->content, &r->calls, &r->logprobs };
    for (u32 i = 0; i < 5 && r->error == OK; i++)
        if (all[i]->cut) r->error = fail(ERR_MEMORY, "the answer's text found no memory");
}

void reply_ids(struct reply *r, const u32 *ids, u64 count)
{
    if (count == 0) return;
    begin_once(r);
    for (u64 i = 0; i < count; i++, r->id_count++) {
        if (r->request->logprobs) take_logprob(r, ids[i]);
        feed_id(r, ids[i]);
        if (r->request->logprobs) take_events(r);       /* each id with its own delta           */
    }
    if (chat(r)) take_events(r);
    else take_text(r);
    check(r);
}

/* ------------------------------------------------------------------ the end */

static const char *finish_word(const struct reply *r, const struct turn_result *result)
{
    if (r->enough) return "tool_calls";
    if (result->finish == FINISH_LENGTH) return "length";
    return chat(r) && tools_complete_count(r->tools) > 0 ? "tool_calls" : "stop";
}

static void put_usage(const struct reply *r, const struct turn_result *result, struct text *t)
{
    u64 prompt = r->request->ids.count;
    u64 cached = prompt > result->forwarded ? prompt - result->forwarded : 0;
    u64 seen = result->generated - MIN(result->hidden, result->generated);
    text_f(t, "{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu,"
           "\"prompt_tokens_details\":{\"cached_tokens\":%llu},"
           "\"completion_tokens_details\":{\"reasoning_tokens\":%llu}}", (ull)prompt,
           (ull)seen, (ull)(prompt + seen), (ull)cached, (ull)MIN(r->reasoning_tokens, seen));
}

static f64 ms(u64 us) { return (f64)us / 1000.0; }

static void put_holdfast(const struct reply *r, const struct turn_result *result, struct text *t)
{
    const char *reason = turn_reason_word[result->reason];
    if (result->by_memory) reason = turn_reason_word[REASON_MEMORY];
    text_f(t, "\"holdfast\":{\"source\":\"%s\",\"served\":\"%s\",\"served_tokens\":%llu,"
           "\"cached\":%llu,\"forwarded\":%llu,\"restore_ms\":%.3f,\"prefill_ms\":%.3f,"
           "\"ttft_ms\":%.3f,\"reason\":", turn_source_word[result->source],
           turn_served_word[result->served], (ull)(result->cached + result->forwarded),
           (ull)result->cached,
           (ull)result->forwarded, ms(result->restore_us), ms(result->prefill_us),
           ms(result->ttft_us));
    if (reason == NULL) text_str(t, "null");
    else text_f(t, "\"%s\"", reason);
    if (result->part_pos == UINT64_MAX) {
        text_str(t, ",\"part_pos\":null}");
    } else {
        const char *role = request_role_at(r->model, r->request, result->part_sent);
        text_f(t, ",\"part_pos\":{\"pos\":%llu,\"role\":", (ull)result->part_pos);
        if (role == NULL) text_str(t, "null}}");
        else text_f(t, "\"%s\"}}", role);
    }
    text_f(t, ",\"timings\":{\"prompt_n\":%llu,\"cache_n\":%llu,\"prompt_ms\":%.3f,"
           "\"predicted_n\":%llu,\"predicted_ms\":%.3f}", (ull)result->forwarded,
           (ull)result->cached, ms(result->prefill_us), (ull)result->generated,
           ms(result->decode_us));
}

static void end_stream(struct reply *r, const struct turn_result *result)
{
    struct text *t = &r->out;
    text_str(t, "data: ");
    text_put(t, r->prefix.data, r->prefix.len);
    text_f(t, "{\"index\":0,%s", chat(r) ? "\"delta\":{}" : "\"text\":\"\",\"logprobs\":null");
    put_logprobs(r);
    text_f(t, ",\"finish_reason\":\"%s\"}],", finish_word(r, result));
    put_holdfast(r, result, t);
    text_str(t, "}\n\n");
    if (r->request->include_usage) {
        text_str(t, "data: ");
        text_put(t, r->prefix.data, r->prefix.len);
        text_str(t, "],\"usage\":");
        put_usage(r, result, t);
        text_char(t, ',');
        put_holdfast(r, result, t);
        text_str(t, "}\n\n");
    }
    text_str(t, "data: [DONE]\n\n");
}

static void put_message(struct reply *r, struct text *t)
{
    text_str(t, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (r->content.len == 0 && r->calls.len > 0) text_str(t, "null");
    else text_json(t, r->content.data, r->content.len);
    static const char *const key[2] = { ",\"reasoning_content\":", ",\"reasoning\":" };
    enum chat_reasoning_field field = r->model->reasoning_field;
    for (u32 i = 0; i < 2 && r->reasoning.len > 0; i++) {
        if (i == 0 ? field == CHAT_REASONING_PLAIN : field == CHAT_REASONING_CONTENT) continue;
        text_str(t, key[i]);
        text_json(t, r->reasoning.data, r->reasoning.len);
    }
    if (r->calls.len > 0) {
        text_str(t, ",\"tool_calls\":[");
        text_put(t, r->calls.data, r->calls.len);
        text_char(t, ']');
    }
    text_char(t, '}');
}

static void end_body(struct reply *r, const struct turn_result *result)
{
    struct text *t = &r->out;
    put_head(r, t, chat(r) ? "chat.completion" : "text_completion");
    text_str(t, "{\"index\":0,");
    if (chat(r)) {
        put_message(r, t);
    } else {
        text_str(t, "\"text\":");
        text_json(t, r->content.data, r->content.len);
    }
    if (r->logprobs.len > 0) put_logprobs(r);
    else text_str(t, ",\"logprobs\":null");
    text_f(t, ",\"finish_reason\":\"%s\"}],\"usage\":", finish_word(r, result));
    put_usage(r, result, t);
    text_char(t, ',');
    put_holdfast(r, result, t);
    text_char(t, '}');
}

void reply_end(struct reply *r, const struct turn_result *result)
{
    begin_once(r);
    release(r, 0);
    if (chat(r)) {
        if (r->error == OK) r->error = tools_finish(r->tools, &r->events);
        take_events(r);
    } else {
        text_utf8_end(&r->utf8, &r->content);
        take_text(r);
    }
    if (r->request->stream) end_stream(r, result);
    else end_body(r, result);
    check(r);
}

void reply_error(struct reply *r, const struct refusal *refusal)
{
    struct json_out json = {0};
    refusal_json(refusal, &json);
    text_str(&r->out, "data: ");
    if (json_out_check(&json) == OK) text_put(&r->out, json.text, json.bytes);
    text_str(&r->out, "\n\n");
    json_out_close(&json);
}

void reply_comment(struct reply *r, const char *text)
{
    text_f(&r->out, ": %s\n\n", text);
}
