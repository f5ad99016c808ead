/* http/chat/request.c - one pass a step: fields, messages, rendering, ids, limits, session. */
#include "http/chat/request.h"

#include "http/chat/fields.h"
#include "http/chat/force.h"
#include "http/chat/memo.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { REQUEST_NOTE_LEAST = 64 };       /* a smaller reasoning budget is not worth a note        */

static bool fields_sampling(const struct chat_model *m, struct jsontext body, struct request *q,
                            struct refusal *r)
{
    const struct sample_settings *d = &m->sampling;
    struct sample_settings *s = &q->sampling;
    i64 top_k, seed;
    *s = *d;
    if (!fields_f32(body, "temperature", -100, 100, d->temperature, &s->temperature, r) ||
        !fields_f32(body, "top_p", 0, 1, d->top_p, &s->top_p, r) ||
        !fields_f32(body, "min_p", 0, 1, d->min_p, &s->min_p, r) ||
        !fields_whole(body, "top_k", -1, INT32_MAX, d->top_k, &top_k, r) ||
        !fields_f32(body, "repeat_penalty", 1e-3, 100, d->repetition_penalty,
                    &s->repetition_penalty, r) ||
        !fields_f32(body, "repetition_penalty", 1e-3, 100, s->repetition_penalty,
                    &s->repetition_penalty, r) ||
        !fields_f32(body, "presence_penalty", -2, 2, d->presence_penalty, &s->presence_penalty,
                    r) ||
        !fields_f32(body, "frequency_penalty", -2, 2, d->frequency_penalty, &s->frequency_penalty,
                    r) ||
        !fields_whole(body, "seed", INT64_MIN, INT64_MAX, 0, &seed, r)) return false;
    s->top_k = top_k < 0 ? 0 : (u32)top_k;
    s->seed = (u64)seed;
    if (!fields_given(body, "seed") &&
        getrandom(&s->seed, sizeof s->seed, 0) != (ssize_t)sizeof s->seed) {
        fail(ERR_IO, "getrandom gave no seed");
        return refusal_note(r, ERR_IO, NULL);
    }
    return true;
}

static bool put_stop(const struct chat_model *m, struct jsontext v, const char *name,
                     struct request *q, struct refusal *r)
{
    if (v.kind != JSONTEXT_STRING)
        return refusal_bad(r, name, "%s: expected a string, got %s", name,
                           jsontext_kind_word(v.kind));
    if (q->stop_count == m->stop_cap)
        return refusal_bad(r, "stop", "stop: at most %u stop strings", m->stop_cap);
    struct text_span s = jsontext_string(v, &q->pool);
    if (s.bytes == NULL) {
        fail(ERR_MEMORY, "stop: no memory for the request");
        return refusal_note(r, ERR_MEMORY, name);
    }
    if (s.len == 0) return refusal_bad(r, name, "%s: a stop string is not empty", name);
    if (s.len > TURN_STOP_BYTES)
        return refusal_bad(r, name, "%s: %llu bytes, at most %d", name, (ull)s.len,
                           TURN_STOP_BYTES);
    q->stop[q->stop_count++] = s;
    return true;
}

static bool fields_stop(const struct chat_model *m, struct jsontext body, struct request *q,
                        struct refusal *r)
{
    struct jsontext v = jsontext_member(body, "stop");
    if (v.kind == JSONTEXT_ABSENT || v.kind == JSONTEXT_NULL) return true;
    if (v.kind == JSONTEXT_STRING) return put_stop(m, v, "stop", q, r);
    if (v.kind != JSONTEXT_ARRAY)
        return refusal_bad(r, "stop", "stop: expected a string or an array of strings, got %s",
                           jsontext_kind_word(v.kind));
    struct jsontext_walk w;
    struct jsontext item;
    jsontext_walk(&w, v);
    for (u32 i = 0; jsontext_next(&w, NULL, &item); i++) {
        char name[32];
        snprintf(name, sizeof name, "stop[%u]", i);
        if (!put_stop(m, item, name, q, r)) return false;
    }
    return true;
}

/* What is well-formed and known but not served is refused by name, never silently dropped. */
static bool fields_unserved(struct jsontext body, struct refusal *r)
{
    i64 n, best_of;
    if (!fields_whole(body, "n", 1, 128, 1, &n, r)) return false;
    if (n > 1) return refusal_bad(r, "n", "n: %lld choices asked, one is served", (long long)n);
    if (!fields_whole(body, "best_of", 1, 128, 1, &best_of, r)) return false;
    if (best_of > 1) return refusal_bad(r, "best_of", "best_of is not supported");
    struct jsontext bias = jsontext_member(body, "logit_bias");
    if (bias.kind != JSONTEXT_ABSENT && bias.kind != JSONTEXT_NULL) {
        if (bias.kind != JSONTEXT_OBJECT)
            return refusal_bad(r, "logit_bias", "logit_bias: expected an object, got %s",
                               jsontext_kind_word(bias.kind));
        if (jsontext_count(bias) > 0)
            return refusal_bad(r, "logit_bias", "logit_bias is not supported yet");
    }
    struct jsontext format = jsontext_member(body, "response_format");
    if (format.kind == JSONTEXT_ABSENT || format.kind == JSONTEXT_NULL) return true;
    if (format.kind != JSONTEXT_OBJECT)
        return refusal_bad(r, "response_format", "response_format: expected an object, got %s",
                           jsontext_kind_word(format.kind));
    struct jsontext type = jsontext_member(format, "type");
    if (jsontext_is(type, "text")) return true;
    if (jsontext_is(type, "json_object") || jsontext_is(type, "json_schema"))
        return refusal_bad(r, "response_format.type", "response_format.type: constrained output "
                           "is not supported yet, only `text` is served");
    return refusal_bad(r, "response_format.type", "response_format.type: expected `text`, "
                       "`json_object` or `json_schema`");
}

static bool fields_logprobs(struct jsontext body, struct request *q, struct refusal *r)
{
    i64 top;
    if (!fields_bool(body, "logprobs", false, &q->logprobs, r) ||
        !fields_whole(body, "top_logprobs", 0, LOGPROB_TOP, 0, &top, r)) return false;
    q->top_logprobs = (u32)top;
    return top == 0 || q->logprobs ||
           refusal_bad(r, "top_logprobs", "top_logprobs: asked without `logprobs`: true");
}

/* Tokens of reasoning before the block is closed; below 0, null or absent: any number. */
static bool fields_budget(const struct chat_model *m, struct jsontext body, struct request *q,
                          struct refusal *r)
{
    i64 budget;
    struct jsontext thinking = jsontext_member(body, "thinking");
    if (thinking.kind != JSONTEXT_OBJECT) thinking = (struct jsontext){ 0 };
    if (!fields_whole(thinking, "budget_tokens", -1, INT64_MAX, -1, &budget, r)) {
        snprintf(r->param, sizeof r->param, "thinking.budget_tokens");
        return false;
    }
    if (!fields_whole(body, "reasoning_budget", -1, INT64_MAX, budget, &budget, r) ||
        !fields_whole(body, "thinking_budget", -1, INT64_MAX, budget, &budget, r)) return false;
    q->think_budget = budget < 0 ? UINT64_MAX : (u64)budget;
    q->close_ids = m->close_ids;
    q->close_count = budget < 0 ? 0 : m->close_count;
    q->close_hidden = m->close_hidden;
    q->note_ids = m->note_ids;
    q->note_count = budget < REQUEST_NOTE_LEAST ? 0 : m->note_count;
    return true;
}

static bool fields_limits(const struct chat_model *m, struct jsontext body, struct request *q,
                          struct refusal *r)
{
    i64 tokens, completion;
    if (!fields_whole(body, "max_tokens", 1, INT64_MAX, 0, &tokens, r) ||
        !fields_whole(body, "max_completion_tokens", 1, INT64_MAX, tokens, &completion, r))
        return false;
    q->max_tokens = (u64)completion;
    if (!fields_budget(m, body, q, r)) return false;
    if (!fields_bool(body, "stream", false, &q->stream, r)) return false;
    struct jsontext options = jsontext_member(body, "stream_options");
    if (options.kind != JSONTEXT_ABSENT && options.kind != JSONTEXT_NULL) {
        if (options.kind != JSONTEXT_OBJECT)
            return refusal_bad(r, "stream_options", "stream_options: expected an object, got %s",
                               jsontext_kind_word(options.kind));
        if (!fields_bool(options, "include_usage", false, &q->include_usage, r)) {
            snprintf(r->param, sizeof r->param, "stream_options.include_usage");
            return false;
        }
    }
    return fields_sampling(m, body, q, r) && fields_stop(m, body, q, r);
}

static bool fields_model(const struct chat_model *m, struct jsontext body, struct request *q,
                         struct refusal *r)
{
    if (!fields_text(body, "model", &q->pool, &q->model, r)) return false;
    if (q->model.len == 0) q->model = (struct text_span){ m->name, strlen(m->name) };
    if (q->model.len > 256) return refusal_bad(r, "model", "model: a name of at most 256 bytes");
    if (!m->strict_model || text_span_is(q->model, m->name)) return true;
    refusal_set(r, 404, "model_not_found", "model", "the model \"%.*s\" is not served here; this "
                "server has \"%s\"", (int)q->model.len, q->model.bytes, m->name);
    return false;
}

static bool fields_tools(const struct chat_model *m, struct jsontext body, struct request *q,
                         struct refusal *r)
{
    if (q->input.tool_count > m->tools_cap)
        return refusal_bad(r, "tools", "tools: %u tools, at most %u", q->input.tool_count,
                           m->tools_cap);
    struct jsontext choice = jsontext_member(body, "tool_choice");
    bool none = jsontext_is(choice, "none");
    if (choice.kind == JSONTEXT_STRING && !none && !jsontext_is(choice, "auto")) {
        if (jsontext_is(choice, "required"))
            return refusal_bad(r, "tool_choice", "tool_choice: `required` is not supported yet, "
                               "use `auto` or `none`");
        return refusal_bad(r, "tool_choice", "tool_choice: expected `auto`, `none`, `required` or "
                           "an object");
    }
    if (choice.kind == JSONTEXT_OBJECT)
        return refusal_bad(r, "tool_choice", "tool_choice: naming a function is not supported "
                           "yet, use `auto` or `none`");
    if (choice.kind != JSONTEXT_ABSENT && choice.kind != JSONTEXT_NULL &&
        choice.kind != JSONTEXT_STRING)
        return refusal_bad(r, "tool_choice", "tool_choice: expected a string or an object, got %s",
                           jsontext_kind_word(choice.kind));
    q->calls = q->input.tool_count > 0 && !none;
    return fields_bool(body, "parallel_tool_calls", true, &q->parallel_calls, r);
}

static bool within_context(const struct chat_model *m, struct request *q, struct refusal *r)
{
    if (q->ids.count == 0) return refusal_bad(r, "prompt", "prompt: it has no tokens");
    if (q->ids.count < m->ctx) {
        u64 room = m->ctx - q->ids.count;
        if (q->max_tokens > room) q->max_tokens = room;
        return true;
    }
    refusal_set(r, 400, "context_length_exceeded", q->kind == REQUEST_CHAT ? "messages" : "prompt",
                "prompt has %llu tokens, but the configured context size is %llu tokens",
                (ull)q->ids.count, (ull)m->ctx);
    return false;
}

static void put_mark(struct request *q, u64 pos, enum turn_mark_kind kind)
{
    if (pos == 0 || pos >= q->ids.count || q->mark_count == TURN_MARK_CAP) return;
    q->mark[q->mark_count++] = (struct turn_mark){ .pos = pos, .kind = (u32)kind };
}

static void marks_of(struct request *q)
{
    static const enum turn_mark_kind kind[] = {
        [TEMPLATE_MARK_HEAD] = MARK_HEAD, [TEMPLATE_MARK_USER] = MARK_USER,
        [TEMPLATE_MARK_RESULT] = MARK_TOOL, [TEMPLATE_MARK_LAST] = MARK_LAST,
    };
    for (u32 i = 0; i < q->prompt.mark_count; i++) {
        const struct template_mark *mark = &q->prompt.marks[i];
        if (mark->kind < COUNT_OF(kind)) put_mark(q, mark->token, kind[mark->kind]);
    }
}

/* The past calls of the prompt as the engine's memo knows calls. */
static bool calls_of(const struct chat_model *m, struct request *q, struct refusal *r)
{
    const struct template_prompt *p = &q->prompt;
    const struct vocab *vocab = tokenizer_vocab(m->tokenizer);
    if (p->call_count == 0) return true;
    q->past_calls = text_pool_take(&q->pool, p->call_count * sizeof *q->past_calls);
    if (q->past_calls == NULL) {
        fail(ERR_MEMORY, "no memory for the request's calls");
        return refusal_note(r, ERR_MEMORY, "messages");
    }
    for (u32 i = 0; i < p->call_count; i++) {
        const struct template_span *s = &p->calls[i];
        if (s->call->id.len == 0 || s->token_lo >= s->token_hi ||
            vocab_kind(vocab, q->ids.id[s->token_lo]) != VOCAB_CALL_OPEN ||
            vocab_kind(vocab, q->ids.id[s->token_hi - 1]) != VOCAB_CALL_CLOSE) continue;
        struct call_row *call = &q->past_calls[q->past_call_count++];
        *call = (struct call_row){ .id_hash = memo_id(s->call->id), .lo = s->token_lo,
                                   .hi = s->token_hi };
        enum err code = memo_call(s->call->name, s->call->arguments, s->call->argument_count,
                                  &q->pool, call->value_hash);
        if (code != OK) return refusal_note(r, code, "messages");
    }
    return true;
}

/* The rendered prompt up to the end of the first user turn (all of it when there is none). */
static struct text_span head_of(const struct template_prompt *p)
{
    static const char open[] = "<|im_start|>user\n", close[] = "<|im_end|>";
    struct text_span all = { p->text.data, p->text.len };
    u64 start = 0;
    bool inside = false;
    for (u32 i = 0; i < p->segment_count; i++) {
        u64 end = p->segments[i].end;
        if (p->segments[i].kind == TOKENIZER_TEMPLATE) {
            const char *from = p->text.data + start;
            const char *at = inside ? from : memmem(from, end - start, open, sizeof open - 1);
            if (at != NULL) {
                inside = true;
                u64 left = end - (u64)(at - p->text.data);
                const char *stop = memmem(at, left, close, sizeof close - 1);
                if (stop != NULL) { all.len = (u64)(stop - p->text.data); return all; }
            }
        }
        start = end;
    }
    return all;
}

static bool session_of(struct jsontext body, const struct request_source *source,
                       struct request *q, struct refusal *r)
{
    struct session_source s = {0};
    memcpy(s.header, source->session_header, sizeof s.header);
    if (!fields_text(body, "prompt_cache_key", &q->pool, &s.prompt_cache_key, r) ||
        !fields_text(body, "promptCacheKey", &q->pool, &s.prompt_cache_key_camel, r) ||
        !fields_text(body, "user", &q->pool, &s.user, r)) return false;
    struct jsontext metadata = jsontext_member(body, "metadata");
    struct jsontext user_id = jsontext_member(metadata, "user_id");
    if (user_id.kind == JSONTEXT_STRING) s.metadata_user_id = jsontext_string(user_id, &q->pool);
    if (q->kind == REQUEST_CHAT) s.head = head_of(&q->prompt);
    else s.head = (struct text_span){ (const char *)q->ids.id, q->ids.count * sizeof q->ids.id[0] };
    session_id(&s, q->session);
    return true;
}

static bool messages_of(const struct chat_model *m, struct jsontext body, struct request *q,
                        struct refusal *r)
{
    struct normal_param param = {0};
    enum err code = normal_chat(body, &m->normal, &q->pool, &q->input, &param);
    if (code != OK) return refusal_note(r, code, param.path);
    return fields_tools(m, body, q, r);
}

static bool render(const struct chat_model *m, bool encode, struct request *q, struct refusal *r)
{
    enum err code = template_render(m->template_id, &q->input, &q->prompt);
    if (code == OK && encode)
        code = template_encode(m->tokenizer, &q->prompt, m->reference_specials, &q->ids);
    if (code != OK) return refusal_note(r, code, "messages");
    q->think_open = q->prompt.think_open;
    return true;
}

static void begin(enum request_kind kind, struct request *q)
{
    *q = (struct request){ .kind = kind, .forced_cut = UINT64_MAX,
                           .think_budget = UINT64_MAX };
    text_pool_open(&q->pool, &chat_model_heap, REQUEST_POOL_BYTES);
}

static bool force_of(const struct chat_model *m, const struct request_source *source,
                     struct request *q, struct refusal *r)
{
    if (!m->test_hooks || source->force == NULL) return true;
    return force_fill(m, source->force, q, r);
}

bool request_chat(const struct chat_model *m, const struct request_source *source,
                  struct request *q, struct refusal *r)
{
    struct jsontext body;
    begin(REQUEST_CHAT, q);
    bool ok = fields_open(source->body, source->body_bytes, m->json_depth, &body, r) &&
              fields_model(m, body, q, r) && fields_unserved(body, r) &&
              fields_logprobs(body, q, r) && fields_limits(m, body, q, r) &&
              messages_of(m, body, q, r) && render(m, true, q, r) && within_context(m, q, r) &&
              calls_of(m, q, r) && session_of(body, source, q, r) &&
              force_of(m, source, q, r);
    if (ok) marks_of(q);
    else request_close(q);
    return ok;
}

bool request_render(const struct chat_model *m, const struct request_source *source, bool encode,
                    struct request *q, struct refusal *r)
{
    struct jsontext body;
    begin(REQUEST_CHAT, q);
    bool ok = fields_open(source->body, source->body_bytes, m->json_depth, &body, r) &&
              messages_of(m, body, q, r) && render(m, encode, q, r);
    if (!ok) request_close(q);
    return ok;
}

static bool put_ids(const struct chat_model *m, struct jsontext list, struct request *q,
                    struct refusal *r)
{
    u64 count = jsontext_count(list), i = 0;
    struct jsontext_walk w;
    struct jsontext item;
    q->ids.id = chat_model_heap.take(MAX(count, 1u) * sizeof q->ids.id[0]);
    if (q->ids.id == NULL) {
        fail(ERR_MEMORY, "prompt: no memory for %llu ids", (ull)count);
        return refusal_note(r, ERR_MEMORY, "prompt");
    }
    q->ids.cap = count;
    jsontext_walk(&w, list);
    while (jsontext_next(&w, NULL, &item)) {
        u64 id;
        if (!jsontext_u64(item, &id))
            return item.kind == JSONTEXT_NUMBER
                ? refusal_bad(r, "prompt", "prompt[%llu]: %.*s is no token id", (ull)i,
                              (int)MIN(item.len, (u64)32), item.bytes)
                : refusal_bad(r, "prompt", "prompt[%llu]: expected a token id, got %s", (ull)i,
                              jsontext_kind_word(item.kind));
        if (id >= tokenizer_count(m->tokenizer))
            return refusal_bad(r, "prompt", "prompt[%llu]: id %llu, the vocabulary has %u",
                               (ull)i, (ull)id, tokenizer_count(m->tokenizer));
        q->ids.id[i++] = (u32)id;
    }
    q->ids.count = i;
    return true;
}

/* A string, an array of one string, or an array of ids. */
static bool prompt_of(const struct chat_model *m, struct jsontext body, struct request *q,
                      struct refusal *r)
{
    struct jsontext v = jsontext_member(body, "prompt"), first = {0};
    if (v.kind == JSONTEXT_ARRAY) {
        struct jsontext_walk w;
        jsontext_walk(&w, v);
        if (!jsontext_next(&w, NULL, &first))
            return refusal_bad(r, "prompt", "prompt: the array is empty");
        if (first.kind == JSONTEXT_NUMBER) return put_ids(m, v, q, r);
        if (jsontext_count(v) > 1)
            return refusal_bad(r, "prompt", "prompt: %llu prompts, one is served",
                               (ull)jsontext_count(v));
        v = first;
    }
    if (v.kind != JSONTEXT_STRING)
        return refusal_bad(r, "prompt", "prompt: expected a string, an array of one string or "
                           "token ids, got %s", jsontext_kind_word(v.kind));
    struct text_span s = jsontext_string(v, &q->pool);
    enum err code = s.bytes == NULL ? fail(ERR_MEMORY, "prompt: no memory for the request") : OK;
    struct tokenizer_text text = { .bytes = s.bytes, .len = s.len,
                                   .reference_specials = m->reference_specials };
    if (code == OK) code = tokenizer_encode(m->tokenizer, &text, &q->ids);
    return code == OK || refusal_note(r, code, "prompt");
}

static bool fields_completion(struct jsontext body, struct refusal *r)
{
    bool echo;
    struct jsontext suffix = jsontext_member(body, "suffix");
    if (suffix.kind != JSONTEXT_ABSENT && suffix.kind != JSONTEXT_NULL)
        return refusal_bad(r, "suffix", "suffix is not supported");
    struct jsontext logprobs = jsontext_member(body, "logprobs");
    if (logprobs.kind != JSONTEXT_ABSENT && logprobs.kind != JSONTEXT_NULL &&
        logprobs.kind != JSONTEXT_FALSE)
        return refusal_bad(r, "logprobs", "logprobs are not supported in completions, only in "
                           "chat completions");
    if (!fields_bool(body, "echo", false, &echo, r)) return false;
    return echo ? refusal_bad(r, "echo", "echo is not supported") : true;
}

bool request_completion(const struct chat_model *m, const struct request_source *source,
                        struct request *q, struct refusal *r)
{
    struct jsontext body;
    begin(REQUEST_COMPLETION, q);
    bool ok = fields_open(source->body, source->body_bytes, m->json_depth, &body, r) &&
              fields_model(m, body, q, r) && fields_unserved(body, r) &&
              fields_completion(body, r) && fields_limits(m, body, q, r) &&
              prompt_of(m, body, q, r) && within_context(m, q, r) &&
              session_of(body, source, q, r) && force_of(m, source, q, r);
    if (ok) put_mark(q, q->ids.count - 1, MARK_LAST);
    else request_close(q);
    return ok;
}

void request_fill(const struct request *q, struct submit_row *row)
{
    row->ids = q->ids.id;
    row->id_count = q->ids.count;
    memcpy(row->mark, q->mark, sizeof row->mark);
    row->mark_count = q->mark_count;
    row->stop_count = q->stop_count;
    for (u32 i = 0; i < q->stop_count; i++) {
        memcpy(row->stop[i], q->stop[i].bytes, q->stop[i].len);
        row->stop_bytes[i] = (u32)q->stop[i].len;
    }
    row->think_open = q->think_open;
    row->tools = q->calls;
    row->max_tokens = q->max_tokens;
    session_hash(q->session, strlen(q->session), row->session);
    row->sampling = q->sampling;
    row->logprobs = q->logprobs;
    row->top_logprobs = q->top_logprobs;
    row->calls = q->past_calls;
    row->call_count = q->past_call_count;
    row->think_budget = q->think_budget;
    row->close_ids = q->close_ids;
    row->close_count = q->close_count;
    row->close_hidden = q->close_hidden;
    row->note_at = q->think_budget / 2;
    row->note_ids = q->note_ids;
    row->note_count = q->note_count;
    row->forced = q->is_forced ? q->forced.id : NULL;
    row->forced_count = q->forced.count;
    row->forced_cut = q->forced_cut;
}

void request_close(struct request *q)
{
    template_prompt_close(&q->prompt);
    tokenizer_ids_close(&q->ids);
    tokenizer_ids_close(&q->forced);
    text_pool_close(&q->pool);
    *q = (struct request){0};
}

const char *request_role_at(const struct chat_model *m, const struct request *q, u64 pos)
{
    static const struct { const char *begin, *role; } roles[] = {
        { "system\n", "system" }, { "user\n<tool_response>", "tool" }, { "user\n", "user" },
        { "assistant\n", "assistant" },
    };
    u32 start = tokenizer_added(m->tokenizer, "<|im_start|>");
    if (q->kind != REQUEST_CHAT || start == NONE || q->ids.count == 0) return NULL;
    u64 at = MIN(pos, q->ids.count - 1);
    while (at > 0 && q->ids.id[at] != start) at--;
    if (q->ids.id[at] != start) return NULL;
    char bytes[256];
    struct text text;
    text_open(&text, bytes, sizeof bytes);
    tokenizer_decode(m->tokenizer, q->ids.id + at + 1, MIN(q->ids.count - at - 1, (u64)12), &text);
    for (u32 i = 0; i < COUNT_OF(roles); i++)
        if (strncmp(bytes, roles[i].begin, strlen(roles[i].begin)) == 0) return roles[i].role;
    return NULL;
}
