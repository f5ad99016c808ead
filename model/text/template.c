/* model/text/template.c - one renderer, four rows of differences (chat.md 4 and 5).
 *
 * Text goes out through put_ours (template) and put_theirs (message); neighbours of one kind are
 * one segment.  The constants are those of tests/golden/chat_golden.json, byte for byte. */
#include "model/text/template.h"

#include <string.h>

#include "arena/heap.h"

static const char effort_xhigh[] =
    "Reasoning effort is set to xhigh. Please think carefully through the task, validate key "
    "assumptions, consider plausible alternatives, and prioritize correctness, consistency, "
    "and clarity in the final answer.";

static const char effort_low[] =
    "Reasoning effort is set to low. Keep your thinking brief and focused, moving directly to "
    "the conclusion without unnecessary elaboration.";

static const char tools_open[] =
    "# Tools\n\nYou have access to the following functions:\n\n<tools>";

static const char tools_close[] =
    "\n</tools>";

static const char tools_rules[] =
    "\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n"
    "\n<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\n"
    "value_1\n</parameter>\n<parameter=example_parameter_2>\nThis is the value for the second "
    "parameter\nthat can span\nmultiple lines\n</parameter>\n</function>\n"
    "</tool_call>\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified "
    "format: an inner <function=...></function> block must be nested within "
    "<tool_call></tool_call> XML tags\n- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE "
    "the function call, but NOT after\n- If there is no function call available, answer the "
    "question like normal with your current knowledge and do not tell the user about function "
    "calls\n</IMPORTANT>";

struct template_traits {
    const char *name;
    bool effort_line;           /* 3.8: a line on effort heads the system turn                   */
    bool blank_system;          /* a blank system message still prints its turn                  */
    bool keeps_reasoning;       /* of all past answers, unless preserve is off                   */
    bool knows_preserve;        /* the kwarg is read                                             */
    bool splits_content;        /* </think> inside content ends its reasoning                    */
    bool python_scalars;        /* True, False, None in arguments                                */
    bool closed_by_default;     /* thinking unset: the generation prompt closes the block        */
};

static const struct template_traits templates[TEMPLATE_COUNT] = {
    [TEMPLATE_38] = { .name = "3.8",
        .effort_line = true, .keeps_reasoning = true, .knows_preserve = true },
    [TEMPLATE_36] = { .name = "3.6",
        .blank_system = true, .knows_preserve = true, .splits_content = true },
    [TEMPLATE_35] = { .name = "3.5",
        .blank_system = true, .splits_content = true, .python_scalars = true },
    [TEMPLATE_35_SMALL] = { .name = "3.5-small",
        .blank_system = true, .splits_content = true, .python_scalars = true,
        .closed_by_default = true },
};

static const struct text_source heap_source = { arena_heap_alloc, arena_heap_free };

enum { TEMPLATE_TEXT_MAX = 1 << 30 };

const char *template_name(enum template_id id)
{
    return templates[id].name;
}

/* ------------------------------------------------------------------ putting text out */

struct renderer {
    const struct template_traits *traits;
    const struct template_input *in;
    struct template_prompt *out;
    struct text_pool pool;              /* of json(x)                                            */
    struct text json;
    u32 query;                          /* Q: the last user message that is a query              */
    u32 user_marks_from;                /* the first message of the last three users             */
    u32 result_mark;                    /* the last tool message, or NONE                        */
    u32 owner;                          /* `index` of the message that is written                */
    bool no_memory;
};

static void put(struct renderer *r, const char *bytes, u64 len, u8 kind)
{
    struct template_prompt *p = r->out;
    if (len == 0 || r->no_memory) return;
    text_put(&p->text, bytes, len);
    if (p->segment_count > 0 && p->segments[p->segment_count - 1].kind == kind) {
        p->segments[p->segment_count - 1].end = p->text.len;
        return;
    }
    if (p->segment_count == p->segment_cap) {
        u32 cap = MAX(p->segment_cap * 2, 64u);
        struct tokenizer_segment *rows = arena_heap_alloc(cap * (sizeof *rows + sizeof(u32)));
        r->no_memory = rows == NULL;
        if (r->no_memory) return;
        u32 *owners = (u32 *)(rows + cap);              /* one piece of memory, two columns */
        if (p->segment_count > 0) {
            memcpy(rows, p->segments, p->segment_count * sizeof *rows);
            memcpy(owners, p->owners, p->segment_count * sizeof *owners);
        }
        arena_heap_free(p->segments);
        p->segments = rows;
        p->owners = owners;
        p->segment_cap = cap;
    }
    p->owners[p->segment_count] = r->owner;
    p->segments[p->segment_count++] = (struct tokenizer_segment){ p->text.len, kind };
}

static void put_ours(struct renderer *r, const char *s)
{
    put(r, s, strlen(s), TOKENIZER_TEMPLATE);
}

static void put_theirs(struct renderer *r, struct text_span s)
{
    put(r, s.bytes, s.len, TOKENIZER_MESSAGE);
}

static enum err put_json(struct renderer *r, struct jsontext v)
{
    text_clear(&r->json);
    TRY(jsontext_dump(v, &r->pool, &r->json));
    put_theirs(r, (struct text_span){ r->json.data, r->json.len });
    r->no_memory |= r->json.cut;
    return OK;
}

/* A mark where the text now ends; a second one at the same place is left out. */
static void mark(struct renderer *r, enum template_mark_kind kind)
{
    struct template_prompt *p = r->out;
    u64 byte = p->text.len;
    if (p->mark_count > 0 && p->marks[p->mark_count - 1].byte == byte) return;
    if (byte == 0 || p->mark_count + 1 == TEMPLATE_MARKS_MAX) return;
    p->marks[p->mark_count++] = (struct template_mark){ .byte = byte, .kind = (u8)kind };
}

/* ------------------------------------------------------------------ content */

static enum err refuse(const char *text)
{
    return fail(ERR_FORMAT, "%s", text);
}

static bool is_system(const struct template_message *m)
{
    return m->role == TEMPLATE_SYSTEM || m->role == TEMPLATE_LATE_SYSTEM;
}

static enum err check_content(const struct template_message *m)
{
    for (u32 i = 0; i < m->part_count; i++) {
        switch (m->parts[i].kind) {
        case TEMPLATE_PART_TEXT: break;
        case TEMPLATE_PART_IMAGE:
            if (is_system(m)) return refuse("System message cannot contain images.");
            break;
        case TEMPLATE_PART_VIDEO:
            if (is_system(m)) return refuse("System message cannot contain videos.");
            break;
        case TEMPLATE_PART_OTHER: return refuse("Unexpected item type in content.");
        default: return refuse("Unexpected content type.");
        }
    }
    return OK;
}

/* The parts [*first, *last] that are left after trimming; false when nothing is. */
static bool content_range(const struct template_message *m, u32 *first, u32 *last)
{
    bool any = false;
    for (u32 i = 0; i < m->part_count; i++) {
        const struct template_part *p = &m->parts[i];
        if (p->kind == TEMPLATE_PART_TEXT && text_trim(p->text).len == 0) continue;
        if (!any) *first = i;
        *last = i;
        any = true;
    }
    return any;
}

/* Part i of a range as text: trimmed on the range's outer sides.  Of an image: its placeholder. */
static struct text_span part_text(const struct template_message *m, u32 i, u32 first, u32 last)
{
    static const char image[] = "<|vision_start|><|image_pad|><|vision_end|>";
    static const char video[] = "<|vision_start|><|video_pad|><|vision_end|>";
    const struct template_part *p = &m->parts[i];
    if (p->kind == TEMPLATE_PART_IMAGE) return (struct text_span){ image, sizeof image - 1 };
    if (p->kind == TEMPLATE_PART_VIDEO) return (struct text_span){ video, sizeof video - 1 };
    struct text_span all = p->text, trimmed = text_trim(all);
    const char *from = i == first ? trimmed.bytes : all.bytes;
    const char *to = i == last ? trimmed.bytes + trimmed.len : all.bytes + all.len;
    return (struct text_span){ from, (u64)(to - from) };
}

static void put_vision(struct renderer *r, const struct template_part *p, struct text_span text)
{
    char line[40];
    struct text label;
    bool image = p->kind == TEMPLATE_PART_IMAGE;
    u32 number = image ? ++r->out->image_count : ++r->out->video_count;
    text_open(&label, line, sizeof line);
    text_f(&label, "%s %u: ", image ? "Picture" : "Video", number);
    if (r->in->vision_ids) put_ours(r, line);
    put(r, text.bytes, text.len, TOKENIZER_TEMPLATE);
}

/* C, trimmed; the vision counters advance. */
static void put_content(struct renderer *r, const struct template_message *m)
{
    u32 first = 0, last = 0;
    if (!content_range(m, &first, &last)) return;
    for (u32 i = first; i <= last; i++) {
        struct text_span text = part_text(m, i, first, last);
        if (m->parts[i].kind == TEMPLATE_PART_TEXT) put_theirs(r, text);
        else put_vision(r, &m->parts[i], text);
    }
}

static bool blank_content(const struct template_message *m)
{
    u32 first, last;
    return !content_range(m, &first, &last);
}

/* Whether the trimmed content, read over its parts, begins with (or, backwards, ends with) `s`. */
static bool content_meets(const struct template_message *m, const char *s, bool at_end)
{
    u32 first = 0, last = 0;
    u64 left = strlen(s);
    if (!content_range(m, &first, &last)) return left == 0;
    for (u32 n = 0; left > 0 && n <= last - first; n++) {
        u32 i = at_end ? last - n : first + n;
        struct text_span text = part_text(m, i, first, last);
        u64 take = MIN(left, text.len);
        const char *have = at_end ? text.bytes + text.len - take : text.bytes;
        const char *want = at_end ? s + left - take : s + strlen(s) - left;
        if (take > 0 && memcmp(have, want, take) != 0) return false;
        left -= take;
    }
    return left == 0;
}

static bool is_query(const struct template_message *m)
{
    return m->role == TEMPLATE_USER && !(content_meets(m, "<tool_response>", false) &&
                                         content_meets(m, "</tool_response>", true));
}

/* ------------------------------------------------------------------ the head */

static const char *effort_line(const struct renderer *r)
{
    if (!r->traits->effort_line || r->in->thinking == TEMPLATE_OFF) return "";
    switch (r->in->effort) {
    case TEMPLATE_EFFORT_MEDIUM: return "";
    case TEMPLATE_EFFORT_LOW: return effort_low;
    default: return effort_xhigh;
    }
}

static enum err check_effort(const struct renderer *r)
{
    if (!r->traits->effort_line || r->in->thinking == TEMPLATE_OFF ||
        r->in->effort != TEMPLATE_EFFORT_OTHER) return OK;
    return fail(ERR_FORMAT, "Unexpected reasoning effort %.*s. Supported types are xhigh "
                "(default), medium, and low.", (int)MIN(r->in->effort_text.len, 64u),
                r->in->effort_text.bytes);
}

static enum err put_head(struct renderer *r)
{
    const struct template_message *m = &r->in->messages[0];
    const char *effort = effort_line(r);
    bool system = m->role == TEMPLATE_SYSTEM, text = system && !blank_content(m);
    if (r->in->tool_count > 0) {
        put_ours(r, "<|im_start|>system\n");
        put_ours(r, effort);
        if (effort[0] != 0) put_ours(r, "\n\n");
        put_ours(r, tools_open);
        for (u32 i = 0; i < r->in->tool_count; i++) {
            put_ours(r, "\n");
            TRY(put_json(r, r->in->tools[i]));
        }
        put_ours(r, tools_close);
        put_ours(r, tools_rules);
        if (text) put_ours(r, "\n\n");
    } else if (text || effort[0] != 0 || (system && r->traits->blank_system)) {
        put_ours(r, "<|im_start|>system\n");
        put_ours(r, effort);
        if (text && effort[0] != 0) put_ours(r, "\n\n");
    } else {
        return OK;
    }
    if (text) put_content(r, m);
    put_ours(r, "<|im_end|>\n");
    return OK;
}

/* ------------------------------------------------------------------ messages */

/* A row for a call that begins where the text now ends. */
static struct template_span *open_span(struct renderer *r, const struct template_call *call)
{
    struct template_prompt *p = r->out;
    if (p->call_count == p->call_cap) {
        u32 cap = MAX(p->call_cap * 2, 16u);
        struct template_span *rows = arena_heap_alloc(cap * sizeof *rows);
        r->no_memory |= rows == NULL;
        if (rows == NULL) return NULL;
        if (p->call_count > 0) memcpy(rows, p->calls, p->call_count * sizeof *rows);
        arena_heap_free(p->calls);
        p->calls = rows;
        p->call_cap = cap;
    }
    struct template_span *span = &p->calls[p->call_count++];
    *span = (struct template_span){ .call = call, .byte_lo = p->text.len };
    return span;
}

static enum err put_call(struct renderer *r, const struct template_call *call)
{
    struct template_span *span = open_span(r, call);
    put_ours(r, "<tool_call>\n<function=");
    put_theirs(r, call->name);
    put_ours(r, ">\n");
    for (u32 i = 0; i < call->argument_count; i++) {
        const struct jsontext_row *a = &call->arguments[i];
        put_ours(r, "<parameter=");
        put_theirs(r, a->key);
        put_ours(r, ">\n");
        if (a->value.kind == JSONTEXT_STRING) {
            struct text_span s = jsontext_string(a->value, &r->pool);
            r->no_memory |= s.bytes == NULL;
            put_theirs(r, s);
        } else if (r->traits->python_scalars && a->value.kind <= JSONTEXT_TRUE) {
            const char *word = a->value.kind == JSONTEXT_TRUE ? "True" :
                               a->value.kind == JSONTEXT_FALSE ? "False" : "None";
            put_theirs(r, (struct text_span){ word, strlen(word) });
        } else {
            TRY(put_json(r, a->value));
        }
        put_ours(r, "\n</parameter>\n");
    }
    put_ours(r, "</function>\n</tool_call>");
    if (span != NULL) span->byte_hi = r->out->text.len;
    return OK;
}

static struct text_span strip_newlines(struct text_span s, bool left, bool right)
{
    for (; left && s.len > 0 && s.bytes[0] == '\n'; s.len--) s.bytes++;
    while (right && s.len > 0 && s.bytes[s.len - 1] == '\n') s.len--;
    return s;
}

/* Where `word` is in s, the first or the last time; NULL: nowhere. */
static const char *find_word(struct text_span s, const char *word, bool last)
{
    u64 len = strlen(word);
    const char *found = NULL;
    for (u64 i = 0; i + len <= s.len; i++) {
        if (s.bytes[i] != word[0] || memcmp(s.bytes + i, word, len) != 0) continue;
        found = s.bytes + i;
        if (!last) break;
    }
    return found;
}

/* 3.6 and older: `</think>` inside C without reasoning_content.  True when it was split. */
static bool split_content(struct text_span c, struct text_span *reasoning, struct text_span *rest)
{
    const char *close = find_word(c, "</think>", false);
    if (close == NULL) return false;
    struct text_span before = strip_newlines(
        (struct text_span){ c.bytes, (u64)(close - c.bytes) }, false, true);
    const char *open = find_word(before, "<think>", true), *end = before.bytes + before.len;
    if (open != NULL) before = (struct text_span){ open + 7, (u64)(end - open - 7) };
    *reasoning = strip_newlines(before, true, false);
    const char *after = find_word(c, "</think>", true) + 8;
    *rest = (struct text_span){ after, (u64)(c.bytes + c.len - after) };
    *rest = strip_newlines(*rest, true, false);
    return true;
}

/* C as one span of text without images, for split_content; false when it has an image. */
static bool joined_content(struct renderer *r, const struct template_message *m,
                           struct text_span *out)
{
    u32 first = 0, last = 0;
    u64 len = 0;
    *out = (struct text_span){ "", 0 };
    if (!content_range(m, &first, &last)) return true;
    for (u32 i = first; i <= last; i++) {
        if (m->parts[i].kind != TEMPLATE_PART_TEXT) return false;
        len += part_text(m, i, first, last).len;
    }
    if (first == last) {
        *out = part_text(m, first, first, last);
        return true;
    }
    char *bytes = text_pool_take(&r->pool, len);
    r->no_memory |= bytes == NULL;
    if (bytes == NULL) return true;
    len = 0;
    for (u32 i = first; i <= last; i++) {
        struct text_span text = part_text(m, i, first, last);
        if (text.len > 0) memcpy(bytes + len, text.bytes, text.len);
        len += text.len;
    }
    *out = (struct text_span){ bytes, len };
    return true;
}

struct answer {                         /* an assistant message taken apart                      */
    struct text_span reasoning, rest;
    bool split;                         /* `rest` is its content                                 */
    bool blank;                         /* its content is empty                                  */
    bool think;                         /* its think block is printed                            */
};

static struct answer answer_of(struct renderer *r, u32 i)
{
    const struct template_message *m = &r->in->messages[i];
    const struct template_traits *traits = r->traits;
    struct answer a = { .blank = blank_content(m) };
    struct text_span all;
    if (m->has_reasoning) a.reasoning = text_trim(m->reasoning);
    else if (traits->splits_content && joined_content(r, m, &all))
        a.split = split_content(all, &a.reasoning, &a.rest);
    if (a.split) {
        a.reasoning = text_trim(a.reasoning);
        a.blank = a.rest.len == 0;
    }
    bool keep = traits->keeps_reasoning;
    if (traits->knows_preserve && r->in->preserve != TEMPLATE_UNSET)
        keep = r->in->preserve == TEMPLATE_ON;
    a.think = keep || i > r->query;
    return a;
}

static void put_answer_content(struct renderer *r, const struct template_message *m,
                               const struct answer *a)
{
    if (a->split) put_theirs(r, a->rest);
    else put_content(r, m);
}

static enum err put_assistant(struct renderer *r, u32 i)
{
    const struct template_message *m = &r->in->messages[i];
    struct answer a = answer_of(r, i);
    bool continued = r->in->continue_final && i + 1 == r->in->message_count;
    put_ours(r, "<|im_start|>assistant\n");
    if (a.think) {
        put_ours(r, "<think>\n");
        put_theirs(r, a.reasoning);
        if (continued && a.blank) {             /* goes on inside the reasoning */
            r->out->think_open = true;
            return OK;
        }
        put_ours(r, "\n</think>\n\n");
    }
    put_answer_content(r, m, &a);
    if (continued) return OK;
    for (u32 k = 0; k < m->call_count; k++) {
        if (k > 0) put_ours(r, "\n");
        else if (!a.blank) put_ours(r, "\n\n");
        TRY(put_call(r, &m->calls[k]));
    }
    put_ours(r, "<|im_end|>\n");
    return OK;
}

static bool is_tool(const struct renderer *r, u32 i)
{
    return i < r->in->message_count && r->in->messages[i].role == TEMPLATE_TOOL;
}

static enum err put_message(struct renderer *r, u32 i)
{
    const struct template_message *m = &r->in->messages[i];
    r->owner = m->index;
    switch (m->role) {
    case TEMPLATE_SYSTEM:
        if (i > 0) return refuse("System message must be at the beginning.");
        return OK;
    case TEMPLATE_LATE_SYSTEM:
        put_ours(r, "<|im_start|>system\n");
        put_content(r, m);
        put_ours(r, "<|im_end|>\n");
        return OK;
    case TEMPLATE_USER:
        if (i >= r->user_marks_from) mark(r, TEMPLATE_MARK_USER);
        put_ours(r, "<|im_start|>user\n");
        put_content(r, m);
        put_ours(r, "<|im_end|>\n");
        return OK;
    case TEMPLATE_ASSISTANT:
        return put_assistant(r, i);
    case TEMPLATE_TOOL:
        if (i == r->result_mark) mark(r, TEMPLATE_MARK_RESULT);
        if (i == 0 || !is_tool(r, i - 1)) put_ours(r, "<|im_start|>user");
        put_ours(r, "\n<tool_response>\n");
        put_content(r, m);
        put_ours(r, "\n</tool_response>");
        if (!is_tool(r, i + 1)) put_ours(r, "<|im_end|>\n");
        return OK;
    default:
        return refuse("Unexpected message role.");
    }
}

/* ------------------------------------------------------------------ all of it */

/* Q, and which messages get a mark. */
static enum err survey(struct renderer *r)
{
    u32 users = 0;
    r->query = r->result_mark = NONE;
    for (u32 i = r->in->message_count; i-- > 0;) {
        const struct template_message *m = &r->in->messages[i];
        if (m->role == TEMPLATE_USER && ++users <= 3) r->user_marks_from = i;
        if (m->role == TEMPLATE_TOOL && r->result_mark == NONE) r->result_mark = i;
        if (r->query == NONE && is_query(m)) r->query = i;
    }
    return r->query == NONE ? refuse("No user query found in messages.") : OK;
}

static void put_generation(struct renderer *r)
{
    bool open = r->in->thinking == TEMPLATE_UNSET ? !r->traits->closed_by_default
                                                  : r->in->thinking == TEMPLATE_ON;
    put_ours(r, "<|im_start|>assistant\n");
    put_ours(r, open ? "<think>\n" : "<think>\n\n</think>\n\n");
    r->out->think_open = open;
}

/* A final assistant message to go on with: nothing in it means it is not there (chat.md 2.9). */
static enum err final_message(struct renderer *r, u32 *count, bool *continued)
{
    u32 last = *count - 1;
    *continued = false;
    if (!r->in->continue_final) return OK;
    if (r->in->messages[last].role != TEMPLATE_ASSISTANT || r->in->messages[last].call_count > 0)
        return refuse("continue_final_message: the last message must be an assistant message "
                      "without tool calls");
    struct answer a = answer_of(r, last);
    if (a.blank && a.reasoning.len == 0) *count = last;
    else *continued = true;
    return OK;
}

static enum err render(struct renderer *r)
{
    if (r->in->message_count == 0) return refuse("No messages provided.");
    TRY(check_effort(r));
    for (u32 i = 0; i < r->in->message_count; i++) TRY(check_content(&r->in->messages[i]));
    TRY(survey(r));
    u32 count = r->in->message_count;
    bool continued;
    TRY(final_message(r, &count, &continued));
    TRY(put_head(r));
    mark(r, TEMPLATE_MARK_HEAD);
    for (u32 i = 0; i < count; i++) TRY(put_message(r, i));
    if (!continued && !r->in->no_generation_prompt) put_generation(r);
    if (r->out->text.cut || r->no_memory)
        return fail(ERR_MEMORY, "no memory for the prompt's text");
    return OK;
}

enum err template_render(enum template_id id, const struct template_input *in,
                         struct template_prompt *out)
{
    struct renderer r = { .traits = &templates[id], .in = in, .out = out };
    *out = (struct template_prompt){ 0 };
    text_open_growing(&out->text, &heap_source, TEMPLATE_TEXT_MAX);
    text_open_growing(&r.json, &heap_source, TEMPLATE_TEXT_MAX);
    text_pool_open(&r.pool, &heap_source, TEMPLATE_TEXT_MAX);
    enum err code = render(&r);
    text_pool_close(&r.pool);
    text_close(&r.json);
    return code;
}

void template_prompt_close(struct template_prompt *p)
{
    if (p->text.source != NULL) text_close(&p->text);
    arena_heap_free(p->segments);
    arena_heap_free(p->calls);
    *p = (struct template_prompt){ 0 };
}

/* With special tokens counting everywhere, a placeholder in a message stands for no image. */
static enum err check_placeholders(const struct template_prompt *p)
{
    static const char *const words[] = { "<|image_pad|>", "<|video_pad|>" };
    u64 start = 0;
    for (u32 i = 0; i < p->segment_count; i++) {
        const struct tokenizer_segment *s = &p->segments[i];
        struct text_span text = { p->text.data + start, s->end - start };
        start = s->end;
        if (s->kind != TOKENIZER_MESSAGE) continue;
        for (u32 k = 0; k < COUNT_OF(words); k++)
            if (find_word(text, words[k], false) != NULL)
                return fail(ERR_FORMAT, "messages[%u]: the text holds %s, but no image or video is "
                            "there for it", p->owners[i], words[k]);
    }
    return OK;
}

/* The next place by its byte: of a mark, a call's begin, its end; where its token goes. */
static u64 *next_place(struct template_prompt *p, u32 *mark, u32 *call, u64 *byte)
{
    bool marks = *mark < p->mark_count && p->marks[*mark].kind != TEMPLATE_MARK_LAST;
    if (*call < 2 * p->call_count) {
        struct template_span *s = &p->calls[*call / 2];
        u64 here = *call % 2 == 0 ? s->byte_lo : s->byte_hi;
        if (!marks || here < p->marks[*mark].byte) {
            *byte = here;
            return (*call)++ % 2 == 0 ? &s->token_lo : &s->token_hi;
        }
    }
    if (!marks) return NULL;
    *byte = p->marks[*mark].byte;
    return &p->marks[(*mark)++].token;
}

/* Encodes the text; every mark and call gets its tokens. */
static enum err encode_places(const struct tokenizer *t, struct template_prompt *p,
                              bool reference_specials, struct tokenizer_ids *ids)
{
    u64 most = p->mark_count + 2ull * p->call_count;
    u64 *bytes = arena_heap_alloc(2 * (most + 1) * sizeof *bytes), *tokens = bytes + most + 1;
    u64 *place;
    u32 count = 0, mark = 0, call = 0;
    if (bytes == NULL) return fail(ERR_MEMORY, "no memory for the prompt's marks");
    while (next_place(p, &mark, &call, &bytes[count]) != NULL) count++;
    enum err code = tokenizer_encode(t, &(struct tokenizer_text){
        .bytes = p->text.data != NULL ? p->text.data : "", .len = p->text.len,
        .segments = p->segments, .segment_count = p->segment_count, .marks = bytes,
        .mark_tokens = tokens, .mark_count = count, .reference_specials = reference_specials,
    }, ids);
    u64 byte;
    mark = call = 0;
    for (u32 i = 0; code == OK && (place = next_place(p, &mark, &call, &byte)) != NULL; i++)
        *place = tokens[i];
    arena_heap_free(bytes);
    return code;
}

enum err template_encode(const struct tokenizer *t, struct template_prompt *p,
                         bool reference_specials, struct tokenizer_ids *ids)
{
    u64 before = ids->count;
    if (reference_specials) TRY(check_placeholders(p));
    TRY(encode_places(t, p, reference_specials, ids));
    while (p->mark_count > 0 && p->marks[p->mark_count - 1].kind == TEMPLATE_MARK_LAST)
        p->mark_count--;
    if (ids->count > before)
        p->marks[p->mark_count++] = (struct template_mark){
            .byte = p->text.len, .token = ids->count - 1, .kind = TEMPLATE_MARK_LAST };
    return OK;
}
