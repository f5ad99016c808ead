/* http/chat/normal.c - one walk over the body, one over each message. */
#include "http/chat/normal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct normal {
    const struct normal_options *options;
    struct text_pool *pool;
    struct template_input *out;
    struct normal_param *param;
    u8 effort, thinking;                        /* as asked for; UNSET: not at all               */
    bool effort_none;
    u8 add_generation;                          /* enum template_switch                          */
    char here[64];                              /* "messages[12]" while one is read              */
};

/* Names the field at fault: a path below the message that is read, or of the body. */
static void PRINTF_LIKE(2, 3) at_fault(struct normal *n, const char *format, ...)
{
    char tail[96];
    struct text path;
    va_list args;
    va_start(args, format);
    vsnprintf(tail, sizeof tail, format, args);
    va_end(args);
    text_open(&path, n->param->path, sizeof n->param->path);
    text_f(&path, "%s%s", n->here, tail);
}

static enum err no_memory(void)
{
    return fail(ERR_MEMORY, "no memory to read the request");
}

static bool given(struct jsontext v)
{
    return v.kind != JSONTEXT_ABSENT && v.kind != JSONTEXT_NULL;
}

/* The field at fault leads the note; the template's own refusals keep their words (chat.md 4). */
static enum err expected(const struct normal *n, struct jsontext v, const char *what)
{
    const char *path = n->param->path;
    return fail(ERR_FORMAT, "%s%sexpected %s, got %s", path, path[0] == 0 ? "" : ": ", what,
                jsontext_kind_word(v.kind));
}

static enum err string_of(struct normal *n, struct jsontext v, struct text_span *out)
{
    *out = jsontext_string(v, n->pool);
    return out->bytes == NULL ? no_memory() : OK;
}

/* `v` in quotes for a message: at most 40 bytes, cut at a whole character. */
static void quoted(struct jsontext v, char out[64])
{
    u64 len = MIN(v.len, 40u);
    len = text_utf8_valid(v.bytes, len);
    memcpy(out, v.bytes, len);
    out[len] = 0;
}

/* ------------------------------------------------------------------ content */

static enum err url_of(struct normal *n, struct jsontext v, struct text_span *out)
{
    if (v.kind == JSONTEXT_OBJECT) v = jsontext_member(v, "url");
    if (v.kind != JSONTEXT_STRING) return OK;
    return string_of(n, v, out);
}

static enum err vision_part(struct normal *n, struct jsontext source, u8 kind,
                            struct template_part *out)
{
    if (!n->options->images)
        return fail(ERR_UNSUPPORTED, "%s: the loaded model takes no images or videos",
                    n->param->path);
    out->kind = kind;
    return url_of(n, source, &out->text);
}

static enum err text_part(struct normal *n, u32 k, struct jsontext text, struct template_part *out)
{
    if (text.kind == JSONTEXT_STRING) return string_of(n, text, &out->text);
    at_fault(n, ".content[%u].text", k);
    return expected(n, text, "a string");
}

static enum err read_part(struct normal *n, u32 k, struct jsontext part, struct template_part *out)
{
    at_fault(n, ".content[%u]", k);
    if (part.kind != JSONTEXT_OBJECT) return expected(n, part, "an object");
    struct jsontext type = jsontext_member(part, "type"), text = jsontext_member(part, "text");
    struct jsontext image = jsontext_member(part, "image_url");
    struct jsontext video = jsontext_member(part, "video_url");
    if (image.kind == JSONTEXT_ABSENT) image = jsontext_member(part, "image");
    if (video.kind == JSONTEXT_ABSENT) video = jsontext_member(part, "video");
    if (image.kind != JSONTEXT_ABSENT || jsontext_is(type, "image") ||
        jsontext_is(type, "input_image"))
        return vision_part(n, image, TEMPLATE_PART_IMAGE, out);
    if (video.kind != JSONTEXT_ABSENT || jsontext_is(type, "video"))
        return vision_part(n, video, TEMPLATE_PART_VIDEO, out);
    if (jsontext_is(type, "text") || jsontext_is(type, "input_text") ||
        jsontext_is(type, "output_text") ||
        (type.kind == JSONTEXT_ABSENT && text.kind != JSONTEXT_ABSENT))
        return text_part(n, k, text, out);
    if (jsontext_is(type, "refusal")) return OK;        /* an empty text */
    char word[64] = "without a type";
    if (type.kind == JSONTEXT_STRING) quoted(type, word);
    return fail(ERR_FORMAT, "Unexpected item type in content. Parts of type %s are not served "
                "here.", word);
}

static enum err read_content(struct normal *n, struct jsontext content,
                             struct template_message *m)
{
    at_fault(n, ".content");
    if (!given(content)) return OK;                     /* the empty text */
    if (content.kind != JSONTEXT_STRING && content.kind != JSONTEXT_ARRAY)
        return fail(ERR_FORMAT, "Unexpected content type. Expected a string or an array, got %s.",
                    jsontext_kind_word(content.kind));
    u64 count = content.kind == JSONTEXT_STRING ? 1 : jsontext_count(content);
    if (count > NORMAL_PARTS_MAX)
        return fail(ERR_LIMIT, "%llu parts, at most %d", (ull)count, NORMAL_PARTS_MAX);
    m->parts = text_pool_take(n->pool, count * sizeof *m->parts);
    if (m->parts == NULL) return no_memory();
    m->part_count = (u32)count;
    if (content.kind == JSONTEXT_STRING) return string_of(n, content, &m->parts[0].text);
    struct jsontext_walk w;
    struct jsontext part;
    u32 k = 0;
    jsontext_walk(&w, content);
    for (; jsontext_next(&w, NULL, &part); k++) TRY(read_part(n, k, part, &m->parts[k]));
    return OK;
}

/* ------------------------------------------------------------------ calls */

static bool is_blank(struct text_span s)
{
    return text_trim(s).len == 0;
}

static enum err read_arguments(struct normal *n, struct jsontext v, struct template_call *out)
{
    if (v.kind == JSONTEXT_STRING) {
        struct text_span s;
        TRY(string_of(n, v, &s));
        if (is_blank(s)) return OK;
        if (jsontext_open(s.bytes, s.len, JSONTEXT_DEPTH_MAX, &v) != OK)
            return fail(ERR_FORMAT, "%s: expected the text of a JSON object: %s",
                        n->param->path, err_last()->text);
        if (v.kind == JSONTEXT_NULL) return OK;
        if (v.kind != JSONTEXT_OBJECT) return expected(n, v, "the text of a JSON object");
    }
    if (!given(v)) return OK;
    if (v.kind != JSONTEXT_OBJECT) return expected(n, v, "the text of a JSON object");
    return jsontext_rows(v, n->pool, &out->arguments, &out->argument_count);
}

static enum err read_call(struct normal *n, u32 j, struct jsontext call, struct template_call *out)
{
    at_fault(n, ".tool_calls[%u]", j);
    if (call.kind != JSONTEXT_OBJECT) return expected(n, call, "an object");
    struct jsontext id = jsontext_member(call, "id"), function = jsontext_member(call, "function");
    if (id.kind == JSONTEXT_STRING) TRY(string_of(n, id, &out->id));
    at_fault(n, ".tool_calls[%u].function", j);
    if (function.kind != JSONTEXT_OBJECT) return expected(n, function, "an object");
    struct jsontext name = jsontext_member(function, "name");
    at_fault(n, ".tool_calls[%u].function.name", j);
    if (name.kind != JSONTEXT_STRING) return expected(n, name, "a string");
    TRY(string_of(n, name, &out->name));
    at_fault(n, ".tool_calls[%u].function.arguments", j);
    return read_arguments(n, jsontext_member(function, "arguments"), out);
}

static enum err read_calls(struct normal *n, struct jsontext calls, struct template_message *m)
{
    at_fault(n, ".tool_calls");
    if (!given(calls)) return OK;
    if (calls.kind != JSONTEXT_ARRAY) return expected(n, calls, "an array");
    u64 count = jsontext_count(calls);
    if (count > NORMAL_CALLS_MAX)
        return fail(ERR_LIMIT, "%llu tool calls, at most %d", (ull)count, NORMAL_CALLS_MAX);
    m->calls = text_pool_take(n->pool, count * sizeof *m->calls);
    if (m->calls == NULL) return no_memory();
    m->call_count = (u32)count;
    struct jsontext_walk w;
    struct jsontext call;
    u32 j = 0;
    jsontext_walk(&w, calls);
    for (; jsontext_next(&w, NULL, &call); j++) TRY(read_call(n, j, call, &m->calls[j]));
    return OK;
}

/* ------------------------------------------------------------------ messages */

static enum err role_of(struct normal *n, struct jsontext role, u8 *out)
{
    static const struct { const char *word; u8 role; } roles[] = {
        { "system", TEMPLATE_SYSTEM }, { "developer", TEMPLATE_SYSTEM },
        { "user", TEMPLATE_USER }, { "assistant", TEMPLATE_ASSISTANT }, { "tool", TEMPLATE_TOOL },
    };
    at_fault(n, ".role");
    if (role.kind != JSONTEXT_STRING) return expected(n, role, "a string");
    for (u32 i = 0; i < COUNT_OF(roles); i++) {
        if (!jsontext_is(role, roles[i].word)) continue;
        *out = roles[i].role;
        return OK;
    }
    char word[64];
    quoted(role, word);
    return fail(ERR_FORMAT, "Unexpected message role. Expected system, developer, user, assistant "
                "or tool, got %s.", word);
}

struct fields { struct jsontext role, content, reasoning, reasoning_content, tool_calls; };

/* The members that count, in one walk: the last of a name stands. */
static void pick_fields(struct jsontext message, struct fields *f)
{
    struct jsontext_walk w;
    struct jsontext key, value;
    *f = (struct fields){ 0 };
    jsontext_walk(&w, message);
    while (jsontext_next(&w, &key, &value)) {
        if (jsontext_is(key, "role")) f->role = value;
        else if (jsontext_is(key, "content")) f->content = value;
        else if (jsontext_is(key, "reasoning")) f->reasoning = value;
        else if (jsontext_is(key, "reasoning_content")) f->reasoning_content = value;
        else if (jsontext_is(key, "tool_calls")) f->tool_calls = value;
    }
}

/* The first block of the first system message, when it is Claude Code's billing line, is not part
 * of the prompt: it holds a nonce, and no two requests would share a head (http.md 7). */
static void drop_billing(struct template_message *m)
{
    static const char line[] = "x-anthropic-billing-header:";
    if (m->part_count == 0 || m->parts[0].kind != TEMPLATE_PART_TEXT) return;
    struct text_span first = m->parts[0].text;
    if (first.len < sizeof line - 1 || memcmp(first.bytes, line, sizeof line - 1) != 0) return;
    m->parts++;
    m->part_count--;
}

static enum err read_message(struct normal *n, struct jsontext v, struct template_message *m)
{
    struct fields f;
    at_fault(n, "%s", "");
    if (v.kind != JSONTEXT_OBJECT) return expected(n, v, "an object");
    pick_fields(v, &f);
    TRY(role_of(n, f.role, &m->role));
    TRY(read_content(n, f.content, m));
    if (m->role == TEMPLATE_SYSTEM && m->index == 0 && f.content.kind == JSONTEXT_ARRAY)
        drop_billing(m);
    if (m->role != TEMPLATE_ASSISTANT) return OK;
    struct jsontext why = given(f.reasoning_content) ? f.reasoning_content : f.reasoning;
    if (why.kind == JSONTEXT_STRING) {
        TRY(string_of(n, why, &m->reasoning));
        m->has_reasoning = true;
    }
    return read_calls(n, f.tool_calls, m);
}

/* The text of a message whose parts are all text, trimmed. */
static enum err joined(struct normal *n, const struct template_message *m, struct text_span *out)
{
    u64 len = 0;
    for (u32 k = 0; k < m->part_count; k++) len += m->parts[k].text.len;
    char *bytes = text_pool_take(n->pool, len);
    if (bytes == NULL) return no_memory();
    len = 0;
    for (u32 k = 0; k < m->part_count; k++) {
        struct text_span s = m->parts[k].text;
        if (s.len > 0) memcpy(bytes + len, s.bytes, s.len);
        len += s.len;
    }
    *out = text_trim((struct text_span){ bytes, len });
    return OK;
}

/* The leading run of `count` system messages becomes messages[0]; the others move up behind it. */
static enum err merge_leading(struct normal *n, u32 count)
{
    struct template_input *in = n->out;
    struct template_message *m = in->messages;
    struct template_part *parts = text_pool_take(n->pool, 2 * (u64)count * sizeof *parts);
    u32 part_count = 0;
    if (parts == NULL) return no_memory();
    for (u32 i = 0; i < count; i++) {
        for (u32 k = 0; k < m[i].part_count; k++)
            if (m[i].parts[k].kind != TEMPLATE_PART_TEXT) return OK;    /* the template refuses */
        struct text_span s;
        TRY(joined(n, &m[i], &s));
        if (s.len == 0) continue;
        if (part_count > 0) parts[part_count++].text = (struct text_span){ "\n", 1 };
        parts[part_count++].text = s;
    }
    m[0].parts = parts;
    m[0].part_count = part_count;
    memmove(m + 1, m + count, (in->message_count - count) * sizeof *m);
    in->message_count -= count - 1;
    return OK;
}

static enum err place_systems(struct normal *n)
{
    struct template_input *in = n->out;
    u32 leading = 0;
    while (leading < in->message_count && in->messages[leading].role == TEMPLATE_SYSTEM) leading++;
    for (u32 i = leading; i < in->message_count; i++) {
        if (in->messages[i].role != TEMPLATE_SYSTEM) continue;
        if (n->options->late_system_refuse) {
            at_fault(n, "messages[%u].role", i);
            return fail(ERR_FORMAT, "System message must be at the beginning.");
        }
        in->messages[i].role = TEMPLATE_LATE_SYSTEM;
    }
    return leading > 1 ? merge_leading(n, leading) : OK;
}

static enum err read_messages(struct normal *n, struct jsontext messages)
{
    struct template_input *in = n->out;
    at_fault(n, "messages");
    if (messages.kind != JSONTEXT_ARRAY) return expected(n, messages, "an array");
    u64 count = jsontext_count(messages);
    if (count == 0) return fail(ERR_FORMAT, "No messages provided.");
    if (count > NORMAL_MESSAGES_MAX)
        return fail(ERR_LIMIT, "%llu messages, at most %d", (ull)count, NORMAL_MESSAGES_MAX);
    in->messages = text_pool_take(n->pool, count * sizeof *in->messages);
    if (in->messages == NULL) return no_memory();
    in->message_count = (u32)count;
    struct jsontext_walk w;
    struct jsontext message;
    u32 i = 0;
    jsontext_walk(&w, messages);
    for (; jsontext_next(&w, NULL, &message); i++) {
        struct text here;
        text_open(&here, n->here, sizeof n->here);
        text_f(&here, "messages[%u]", i);
        in->messages[i].index = i;
        TRY(read_message(n, message, &in->messages[i]));
    }
    n->here[0] = 0;
    return place_systems(n);
}

/* ------------------------------------------------------------------ tools */

static enum err read_tool(struct normal *n, u32 i, struct jsontext tool)
{
    at_fault(n, "tools[%u]", i);
    if (tool.kind != JSONTEXT_OBJECT) return expected(n, tool, "an object");
    struct jsontext type = jsontext_member(tool, "type");
    if (given(type) && !jsontext_is(type, "function")) return OK;       /* other types: ignored */
    struct jsontext function = jsontext_member(tool, "function");
    at_fault(n, "tools[%u].function", i);
    if (function.kind != JSONTEXT_OBJECT) return expected(n, function, "an object");
    struct jsontext name = jsontext_member(function, "name");
    at_fault(n, "tools[%u].function.name", i);
    if (name.kind != JSONTEXT_STRING) return expected(n, name, "a string");
    struct jsontext parameters = jsontext_member(function, "parameters");
    at_fault(n, "tools[%u].function.parameters", i);
    if (given(parameters) && parameters.kind != JSONTEXT_OBJECT)
        return expected(n, parameters, "an object");
    n->out->tools[n->out->tool_count++] = tool;
    return OK;
}

static enum err read_tools(struct normal *n, struct jsontext tools)
{
    at_fault(n, "tools");
    if (!given(tools)) return OK;
    if (tools.kind != JSONTEXT_ARRAY) return expected(n, tools, "an array");
    u64 count = jsontext_count(tools);
    if (count > NORMAL_TOOLS_MAX)
        return fail(ERR_LIMIT, "%llu tools, at most %d", (ull)count, NORMAL_TOOLS_MAX);
    n->out->tools = text_pool_take(n->pool, count * sizeof *n->out->tools);
    if (n->out->tools == NULL) return no_memory();
    struct jsontext_walk w;
    struct jsontext tool;
    u32 i = 0;
    jsontext_walk(&w, tools);
    for (; jsontext_next(&w, NULL, &tool); i++) TRY(read_tool(n, i, tool));
    return OK;
}

/* ------------------------------------------------------------------ effort, thinking, the rest */

static enum err read_effort(struct normal *n, struct jsontext v, const char *field)
{
    static const struct { const char *word; u8 effort; } words[] = {
        { "xhigh", TEMPLATE_EFFORT_XHIGH }, { "high", TEMPLATE_EFFORT_XHIGH },
        { "max", TEMPLATE_EFFORT_XHIGH }, { "medium", TEMPLATE_EFFORT_MEDIUM },
        { "low", TEMPLATE_EFFORT_LOW }, { "minimal", TEMPLATE_EFFORT_LOW },
    };
    if (!given(v) || n->effort != TEMPLATE_EFFORT_UNSET || n->effort_none) return OK;
    at_fault(n, "%s", field);
    n->effort_none = jsontext_is(v, "none");
    if (n->effort_none) return OK;
    for (u32 i = 0; i < COUNT_OF(words); i++)
        if (jsontext_is(v, words[i].word)) n->effort = words[i].effort;
    if (n->effort != TEMPLATE_EFFORT_UNSET) return OK;
    char word[64];
    quoted(v, word);
    return fail(ERR_FORMAT, "Unexpected reasoning effort %s. Supported are xhigh, high, max, "
                "medium, low, minimal and none.", word);
}

static enum err read_switch(struct normal *n, struct jsontext v, const char *field, u8 *out)
{
    bool on;
    if (!given(v) || *out != TEMPLATE_UNSET) return OK;
    at_fault(n, "%s", field);
    if (!jsontext_bool(v, &on)) return expected(n, v, "true or false");
    *out = on ? TEMPLATE_ON : TEMPLATE_OFF;
    return OK;
}

static enum err read_thinking(struct normal *n, struct jsontext body, struct jsontext kwargs)
{
    TRY(read_effort(n, jsontext_member(kwargs, "reasoning_effort"),
                    "chat_template_kwargs.reasoning_effort"));
    TRY(read_effort(n, jsontext_member(body, "reasoning_effort"), "reasoning_effort"));
    TRY(read_effort(n, jsontext_member(jsontext_member(body, "reasoning"), "effort"),
                    "reasoning.effort"));
    TRY(read_effort(n, jsontext_member(jsontext_member(body, "output_config"), "effort"),
                    "output_config.effort"));
    TRY(read_switch(n, jsontext_member(kwargs, "enable_thinking"),
                    "chat_template_kwargs.enable_thinking", &n->thinking));
    TRY(read_switch(n, jsontext_member(body, "enable_thinking"), "enable_thinking", &n->thinking));
    struct jsontext type = jsontext_member(jsontext_member(body, "thinking"), "type");
    if (n->thinking == TEMPLATE_UNSET) {
        if (jsontext_is(type, "disabled")) n->thinking = TEMPLATE_OFF;
        if (jsontext_is(type, "enabled") || jsontext_is(type, "adaptive"))
            n->thinking = TEMPLATE_ON;
    }
    if (n->thinking == TEMPLATE_UNSET) n->thinking = n->options->thinking;
    n->out->thinking = n->effort_none ? TEMPLATE_OFF : n->thinking;
    n->out->effort = n->effort != TEMPLATE_EFFORT_UNSET ? n->effort : n->options->effort;
    return OK;
}

static enum err read_continue(struct normal *n, struct jsontext body)
{
    u8 go_on = TEMPLATE_UNSET;
    const struct template_input *in = n->out;
    TRY(read_switch(n, jsontext_member(body, "add_generation_prompt"), "add_generation_prompt",
                    &n->add_generation));
    TRY(read_switch(n, jsontext_member(body, "continue_final_message"), "continue_final_message",
                    &go_on));
    n->out->no_generation_prompt = n->add_generation == TEMPLATE_OFF;
    if (go_on != TEMPLATE_ON) return OK;
    at_fault(n, "continue_final_message");
    const struct template_message *last = &in->messages[in->message_count - 1];
    if (last->role != TEMPLATE_ASSISTANT)
        return fail(ERR_FORMAT, "continue_final_message: the last message must be an assistant's");
    if (last->call_count > 0)
        return fail(ERR_FORMAT, "continue_final_message: a message with tool_calls ends its turn");
    if (n->add_generation == TEMPLATE_ON)
        return fail(ERR_FORMAT, "continue_final_message: cannot be true together with "
                    "add_generation_prompt");
    n->out->continue_final = true;
    return OK;
}

static enum err read_body(struct normal *n, struct jsontext body)
{
    struct jsontext kwargs = jsontext_member(body, "chat_template_kwargs");
    u8 vision_ids = TEMPLATE_UNSET;
    at_fault(n, "%s", "");
    if (body.kind != JSONTEXT_OBJECT) return expected(n, body, "an object");
    at_fault(n, "chat_template_kwargs");
    if (given(kwargs) && kwargs.kind != JSONTEXT_OBJECT) return expected(n, kwargs, "an object");
    TRY(read_messages(n, jsontext_member(body, "messages")));
    TRY(read_tools(n, jsontext_member(body, "tools")));
    TRY(read_thinking(n, body, kwargs));
    TRY(read_switch(n, jsontext_member(kwargs, "preserve_thinking"),
                    "chat_template_kwargs.preserve_thinking", &n->out->preserve));
    TRY(read_switch(n, jsontext_member(kwargs, "add_vision_id"),
                    "chat_template_kwargs.add_vision_id", &vision_ids));
    n->out->vision_ids = vision_ids == TEMPLATE_ON;
    TRY(read_continue(n, body));
    at_fault(n, "%s", "");
    return OK;
}

enum err normal_chat(struct jsontext body, const struct normal_options *options,
                     struct text_pool *pool, struct template_input *out,
                     struct normal_param *param)
{
    struct template_input made = { 0 };
    struct normal n = { .options = options, .pool = pool, .out = &made, .param = param };
    TRY(read_body(&n, body));
    *out = made;
    return OK;
}
