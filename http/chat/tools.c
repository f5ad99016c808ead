/* http/chat/tools.c - a state and a buffer of undecided bytes.
 *
 * Bytes are made valid UTF-8 and go to the end of `pend`; `run` takes decided ones from its front
 * until a state has to wait for more.  Think and call tags come as token kinds (or, for a
 * vocabulary without them, as text); inside a call everything is text.  What may still turn out to
 * be a closing tag, or blanks at an end, is held: at most HOLD_BLANKS of blanks and one tag. */
#include "http/chat/tools.h"

#include <string.h>
#include <sys/random.h>

#include "http/chat/tools_value.h"

enum state {
    REASONING, CONTENT,
    CALL_OPEN,                  /* behind <tool_call>: blanks, <function=NAME>                   */
    CALL_BODY,                  /* between parameters                                            */
    CALL_VALUE,
    CALL_AFTER,                 /* behind </function>: blanks, </tool_call>                      */
};

enum { HOLD_BLANKS = 1024, PEND_MAX = 1 << 30, DECLARED_MAX = 1024, ROUNDS_MAX = 1 << 30 };

enum verdict { NO, MORE, YES };         /* a pattern at a place: it isn't, it may be, it is      */

struct tools {
    struct tools_options options;
    const struct text_source *source;
    struct tools_events *out;           /* of the feed that runs                                 */
    struct text_utf8 utf8;
    struct text pend;                   /* undecided bytes, valid UTF-8; [at, len)               */
    u64 at;
    struct text hold;                   /* blanks behind the text sent so far                    */
    struct text value;                  /* of a parameter that is typed at its close             */
    struct text_pool pool;              /* the open call's schema rows                           */
    struct jsontext_row *declared;
    u32 declared_count;
    u64 seen[DECLARED_MAX / 64];
    struct tools_value_types types;     /* of the open value                                     */
    struct text_span key;               /* of the open value; in key_bytes                       */
    char key_bytes[TOOLS_KEY_MAX];
    char ids[TOOLS_CALLS_MAX][TOOLS_ID_BYTES];
    u32 call_count, complete_count;
    u8 state;                           /* enum state                                            */
    bool ended;                         /* no more bytes come                                    */
    bool started;                       /* text of this state was sent                           */
    bool think_dropped;
    bool value_start;                   /* nothing of the open value was taken yet               */
    bool any_parameter;                 /* the open call has one already                         */
    bool no_memory;
};

/* ------------------------------------------------------------------ events */

void tools_events_open(struct tools_events *e, const struct text_source *source)
{
    *e = (struct tools_events){ 0 };
    text_open_growing(&e->text, source, PEND_MAX);
}

void tools_events_clear(struct tools_events *e)
{
    e->count = 0;
    text_clear(&e->text);
}

void tools_events_close(struct tools_events *e)
{
    if (e->rows != NULL) e->text.source->give(e->rows);
    text_close(&e->text);
    *e = (struct tools_events){ .text = e->text };
}

/* Opens an event whose text follows in out->text; close_event gives its length. */
static struct tools_event *open_event(struct tools *p, u8 kind)
{
    struct tools_events *e = p->out;
    if (e->count == e->cap) {
        u32 cap = MAX(e->cap * 2, 16u);
        struct tools_event *rows = e->text.source->take(cap * sizeof *rows);
        if (rows == NULL) {
            p->no_memory = true;
            return NULL;
        }
        if (e->count > 0) memcpy(rows, e->rows, e->count * sizeof *rows);
        if (e->rows != NULL) e->text.source->give(e->rows);
        e->rows = rows;
        e->cap = cap;
    }
    u32 call = kind >= TOOLS_CALL_BEGIN ? p->call_count - 1 : 0;
    struct tools_event *row = &e->rows[e->count++];
    *row = (struct tools_event){ .kind = kind, .call = call, .start = e->text.len };
    return row;
}

static void close_event(struct tools *p, struct tools_event *row)
{
    if (row != NULL) row->len = p->out->text.len - row->start;
}

/* Text of a kind; it joins the event before it when that is of the same kind. */
static void put(struct tools *p, u8 kind, const char *bytes, u64 len)
{
    struct tools_events *e = p->out;
    struct tools_event *last = e->count > 0 ? &e->rows[e->count - 1] : NULL;
    if (last == NULL || last->kind != kind || kind == TOOLS_CALL_BEGIN ||
        (kind == TOOLS_CALL_ARGUMENTS && last->call != p->call_count - 1)) {
        last = open_event(p, kind);
        if (last == NULL) return;
    }
    text_put(&e->text, bytes, len);
    close_event(p, last);
}

static void put_arguments(struct tools *p, const char *s)
{
    put(p, TOOLS_CALL_ARGUMENTS, s, strlen(s));
}

static void put_arguments_escaped(struct tools *p, const char *bytes, u64 len)
{
    put(p, TOOLS_CALL_ARGUMENTS, "", 0);
    text_json_inner(&p->out->text, bytes, len);
    close_event(p, p->no_memory ? NULL : &p->out->rows[p->out->count - 1]);
}

/* ------------------------------------------------------------------ reasoning and content */

/* Blanks go at the state's start and are held at its end. */
static void put_trimmed(struct tools *p, const char *bytes, u64 len)
{
    u8 kind = p->state == REASONING ? TOOLS_REASONING : TOOLS_CONTENT;
    struct text_span s = { bytes, len }, inner = text_trim(s);
    if (inner.len == 0) {
        if (p->started) text_put(&p->hold, bytes, len);
        return;
    }
    if (p->started) {
        if (p->hold.len > 0) put(p, kind, p->hold.data, p->hold.len);
        inner.len += (u64)(inner.bytes - bytes);
        inner.bytes = bytes;
    }
    text_clear(&p->hold);
    put(p, kind, inner.bytes, inner.len);
    p->started = true;
    const char *rest = inner.bytes + inner.len;
    text_put(&p->hold, rest, (u64)(bytes + len - rest));
}

static void enter_content(struct tools *p)
{
    text_clear(&p->hold);
    p->state = CONTENT;
    p->started = false;
}

/* A think or call tag in reasoning or content. */
static void take_tag(struct tools *p, const char *bytes, u64 len, u8 kind)
{
    if (kind == VOCAB_THINK_OPEN && p->state == REASONING && !p->started && !p->think_dropped) {
        p->think_dropped = true;
        return;
    }
    if (kind == VOCAB_THINK_CLOSE) {
        if (p->state == REASONING) enter_content(p);
        return;
    }
    if (kind == VOCAB_CALL_OPEN && p->options.calls) {
        if (p->state == REASONING) enter_content(p);
        p->state = CALL_OPEN;           /* `hold` stays: it is content if no call follows */
        return;
    }
    put_trimmed(p, bytes, len);
}

static const struct { const char *text; u8 kind; } tags[] = {
    { "<think>", VOCAB_THINK_OPEN }, { "</think>", VOCAB_THINK_CLOSE },
    { "<tool_call>", VOCAB_CALL_OPEN },
};

static struct text_span pending(const struct tools *p)
{
    return (struct text_span){ p->pend.data + p->at, p->pend.len - p->at };
}

/* Does `s` begin with `word`?  MORE when it is a proper beginning of it. */
static enum verdict begins(struct text_span s, const char *word)
{
    u64 len = strlen(word), take = MIN(len, s.len);
    if (take > 0 && memcmp(s.bytes, word, take) != 0) return NO;
    return take == len ? YES : MORE;
}

static struct text_span behind(struct text_span s, u64 len)
{
    return (struct text_span){ s.bytes + len, s.len - len };
}

/* Plain text up to a tag; with tags by token kind all of it.  False: wait. */
static bool run_text(struct tools *p)
{
    struct text_span s = pending(p);
    if (!p->options.tags_by_text) {
        put_trimmed(p, s.bytes, s.len);
        p->at += s.len;
        return false;
    }
    const char *open = memchr(s.bytes, '<', s.len);
    u64 plain = open != NULL ? (u64)(open - s.bytes) : s.len;
    put_trimmed(p, s.bytes, plain);
    p->at += plain;
    if (open == NULL) return false;
    s = behind(s, plain);
    bool more = false;
    for (u32 i = 0; i < COUNT_OF(tags); i++) {
        enum verdict v = begins(s, tags[i].text);
        more |= v == MORE && !p->ended;
        if (v != YES) continue;
        p->at += strlen(tags[i].text);
        take_tag(p, s.bytes, strlen(tags[i].text), tags[i].kind);
        return true;
    }
    if (more) return false;
    put_trimmed(p, s.bytes, 1);
    p->at += 1;
    return true;
}

/* ------------------------------------------------------------------ a call begins */

static void make_id(struct tools *p, char *id)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    struct text t;
    u8 bytes[48];
    text_open(&t, id, TOOLS_ID_BYTES);
    text_str(&t, p->options.id_prefix != NULL ? p->options.id_prefix : "call_");
    u64 prefix = t.len;
    while (t.len < prefix + 24 && !t.cut) {             /* 62 of 64 values are used */
        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) continue;
        for (u32 i = 0; i < sizeof bytes && t.len < prefix + 24; i++)
            if ((bytes[i] & 63) < 62) text_char(&t, letters[bytes[i] & 63]);
    }
}

/* The properties that the named tool declares, decoded; none for an unknown one. */
static void declare(struct tools *p, struct text_span name)
{
    text_pool_close(&p->pool);
    memset(p->seen, 0, sizeof p->seen);
    p->declared_count = 0;
    for (u32 i = 0; i < p->options.tool_count; i++) {
        struct jsontext f = jsontext_member(p->options.tools[i], "function");
        struct jsontext word = jsontext_member(f, "name");
        if (word.kind != JSONTEXT_STRING) continue;
        struct text_span have = jsontext_string(word, &p->pool);
        if (have.bytes == NULL || have.len != name.len ||
            memcmp(have.bytes, name.bytes, name.len) != 0) continue;
        struct jsontext rows = jsontext_member(jsontext_member(f, "parameters"), "properties");
        if (rows.kind == JSONTEXT_OBJECT &&
            jsontext_rows(rows, &p->pool, &p->declared, &p->declared_count) != OK)
            p->no_memory = true;
        return;
    }
}

static void begin_call(struct tools *p, struct text_span name)
{
    p->call_count++;
    make_id(p, p->ids[p->call_count - 1]);
    put(p, TOOLS_CALL_BEGIN, name.bytes, name.len);
    put_arguments(p, "{");
    declare(p, name);
    text_clear(&p->hold);
    p->any_parameter = false;
    p->state = CALL_BODY;
}

/* No call after all: the tag and what follows it are content. */
static bool no_call(struct tools *p)
{
    p->state = CONTENT;
    put_trimmed(p, "<tool_call>", 11);
    return true;
}

static u64 blanks_of(struct text_span s)
{
    u64 at = 0;
    while (at < s.len && (s.bytes[at] == ' ' || (s.bytes[at] >= '\t' && s.bytes[at] <= '\r'))) at++;
    return at;
}

static bool run_open(struct tools *p)
{
    static const char word[] = "<function=";
    struct text_span s = pending(p);
    u64 blanks = blanks_of(s);
    struct text_span tag = behind(s, blanks);
    enum verdict v = begins(tag, word);
    if (v == NO || blanks > HOLD_BLANKS || p->call_count == TOOLS_CALLS_MAX) return no_call(p);
    if (v == MORE) return p->ended ? no_call(p) : false;
    struct text_span name = behind(tag, sizeof word - 1);
    const char *close = name.len > 0 ? memchr(name.bytes, '>', name.len) : NULL;
    if (close == NULL) return p->ended || name.len > TOOLS_NAME_MAX ? no_call(p) : false;
    name.len = (u64)(close - name.bytes);
    if (name.len > TOOLS_NAME_MAX) return no_call(p);
    p->at += (u64)(close + 1 - s.bytes);
    begin_call(p, text_trim(name));
    return true;
}

/* ------------------------------------------------------------------ between parameters */

static u32 declared_index(const struct tools *p, struct text_span key)
{
    for (u32 i = 0; i < p->declared_count; i++)
        if (p->declared[i].key.len == key.len &&
            (key.len == 0 || memcmp(p->declared[i].key.bytes, key.bytes, key.len) == 0)) return i;
    return NONE;
}

static bool unseen(const struct tools *p, u32 i)
{
    return i < DECLARED_MAX && (p->seen[i / 64] >> i % 64 & 1) == 0;
}

static void put_key(struct tools *p)
{
    if (p->any_parameter) put_arguments(p, ", ");
    p->any_parameter = true;
    put_arguments(p, "\"");
    put_arguments_escaped(p, p->key.bytes, p->key.len);
    put_arguments(p, "\": ");
}

static void begin_value(struct tools *p, struct text_span key)
{
    struct jsontext schema = { 0 };
    u32 i = declared_index(p, key);
    if (i != NONE) schema = p->declared[i].value;
    if (i != NONE && i < DECLARED_MAX) p->seen[i / 64] |= 1ull << i % 64;
    tools_value_read_types(schema, &p->types);
    if (key.len > 0) memcpy(p->key_bytes, key.bytes, key.len);
    p->key = (struct text_span){ p->key_bytes, key.len };
    text_clear(&p->value);
    p->value_start = true;
    p->state = CALL_VALUE;
    if (!tools_value_is_string(&p->types)) return;
    put_key(p);
    put_arguments(p, "\"");
}

static bool end_call(struct tools *p, u8 state, u64 taken)
{
    put_arguments(p, "}");
    put(p, TOOLS_CALL_END, "", 0);
    p->complete_count++;
    p->at += taken;
    p->state = state;
    return true;
}

/* At the text behind `<parameter=`: the key up to `>`.  False: wait. */
static bool run_key(struct tools *p, struct text_span s)
{
    const char *close = s.len > 0 ? memchr(s.bytes, '>', MIN(s.len, TOOLS_KEY_MAX)) : NULL;
    if (close == NULL && s.len < TOOLS_KEY_MAX) return false;
    u64 len = close != NULL ? (u64)(close - s.bytes) : 0;
    p->at = (u64)(s.bytes - p->pend.data) + len + (close != NULL);     /* no `>`: passed over */
    if (close != NULL) begin_value(p, text_trim((struct text_span){ s.bytes, len }));
    return true;
}

static bool run_body(struct tools *p)
{
    struct text_span s = pending(p);
    const char *open = s.len > 0 ? memchr(s.bytes, '<', s.len) : NULL;
    if (open == NULL) {
        p->at += s.len;                 /* between parameters nothing but tags counts */
        return false;
    }
    p->at += (u64)(open - s.bytes);
    s = pending(p);
    enum verdict parameter = begins(s, "<parameter="), function = begins(s, "</function>");
    enum verdict call = begins(s, "</tool_call>");
    if (parameter == YES) return run_key(p, behind(s, 11));
    if (function == YES) return end_call(p, CALL_AFTER, 11);
    if (call == YES) {
        end_call(p, CONTENT, 12);
        return true;
    }
    if (parameter == MORE || function == MORE || call == MORE) return false;
    p->at++;
    return true;
}

static bool run_after(struct tools *p)
{
    struct text_span s = pending(p);
    u64 blanks = blanks_of(s);
    enum verdict v = begins(behind(s, blanks), "</tool_call>");
    if (v == MORE && blanks <= HOLD_BLANKS && !p->ended) return false;
    if (v == YES) p->at += blanks + 12;
    p->state = CONTENT;
    return true;
}

/* ------------------------------------------------------------------ values */

/* `</parameter>`, blanks, then `<parameter=`, `</function>` or the end; or, before the very end, a
 * `</tool_call>` whose `</function>` is missing.  *taken: up to behind `</parameter>`. */
static enum verdict closes(const struct tools *p, struct text_span s, u64 *taken)
{
    static const char word[] = "</parameter>";
    u64 line = s.len > 0 && s.bytes[0] == '\n';
    enum verdict v = begins(behind(s, line), word);
    if (v != YES) return v;
    *taken = line + sizeof word - 1;
    struct text_span next = behind(s, *taken);
    u64 blanks = blanks_of(next);
    if (blanks > HOLD_BLANKS) return NO;
    next = behind(next, blanks);
    if (next.len == 0) return p->ended ? YES : MORE;
    v = MAX(begins(next, "<parameter="), begins(next, "</function>"));
    if (v == MORE && p->ended) return YES;
    if (v != NO) return v;
    v = begins(next, "</tool_call>");
    if (v != YES) return p->ended && v == MORE ? YES : v;
    next = behind(next, 12);
    blanks = blanks_of(next);
    if (blanks < next.len || blanks > HOLD_BLANKS) return NO;
    return p->ended ? YES : MORE;
}

/* `\n<parameter=K>` with K declared and not yet seen. */
static enum verdict closes_by_key(const struct tools *p, struct text_span s)
{
    static const char word[] = "\n<parameter=";
    enum verdict v = begins(s, word);
    if (v != YES) return v;
    s = behind(s, sizeof word - 1);
    const char *close = s.len > 0 ? memchr(s.bytes, '>', MIN(s.len, TOOLS_KEY_MAX)) : NULL;
    if (close != NULL) {
        struct text_span key = { s.bytes, (u64)(close - s.bytes) };
        return unseen(p, declared_index(p, text_trim(key))) ? YES : NO;
    }
    for (u32 i = 0; i < p->declared_count; i++) {
        struct text_span key = p->declared[i].key;
        if (!unseen(p, i) || key.len < s.len) continue;
        if (s.len == 0 || memcmp(key.bytes, s.bytes, s.len) == 0) return MORE;
    }
    return NO;
}

/* `\n</function>`, blanks, `</tool_call>`. */
static enum verdict closes_by_end(const struct tools *p, struct text_span s)
{
    static const char word[] = "\n</function>";
    enum verdict v = begins(s, word);
    if (v != YES) return v;
    s = behind(s, sizeof word - 1);
    u64 blanks = blanks_of(s);
    if (blanks > HOLD_BLANKS) return NO;
    v = begins(behind(s, blanks), "</tool_call>");
    return v == MORE && p->ended ? YES : v;
}

static void take_value(struct tools *p, const char *bytes, u64 len)
{
    if (len == 0) return;
    p->value_start = false;
    if (tools_value_is_string(&p->types)) put_arguments_escaped(p, bytes, len);
    else text_put(&p->value, bytes, len);
}

static bool end_value(struct tools *p, u64 taken)
{
    p->at += taken;
    p->state = CALL_BODY;
    if (tools_value_is_string(&p->types)) {
        put_arguments(p, "\"");
        return true;
    }
    put_key(p);
    struct text_span raw = { p->value.data != NULL ? p->value.data : "", p->value.len };
    tools_value_put(&p->types, raw, &p->out->text);
    close_event(p, p->no_memory ? NULL : &p->out->rows[p->out->count - 1]);
    return true;
}

static bool run_value(struct tools *p)
{
    struct text_span s = pending(p);
    u64 plain = 0;
    while (plain < s.len && s.bytes[plain] != '\n' && s.bytes[plain] != '<') plain++;
    take_value(p, s.bytes, plain);
    p->at += plain;
    s = behind(s, plain);
    if (s.len == 0) return false;
    u64 taken = 0;
    enum verdict close = closes(p, s, &taken);
    if (close == YES) return end_value(p, taken);
    enum verdict key = closes_by_key(p, s), end = closes_by_end(p, s);
    if (key == YES || end == YES) return end_value(p, 1);
    if (close == MORE || key == MORE || end == MORE) return false;
    if (!p->value_start || s.bytes[0] != '\n') take_value(p, s.bytes, 1);
    p->value_start = false;             /* one newline is taken from the front */
    p->at++;
    return true;
}

/* ------------------------------------------------------------------ feeding */

static bool run_state(struct tools *p)
{
    switch (p->state) {
    case CALL_OPEN:  return run_open(p);
    case CALL_BODY:  return run_body(p);
    case CALL_VALUE: return run_value(p);
    case CALL_AFTER: return run_after(p);
    default:         return run_text(p);
    }
}

/* Every round takes bytes or changes the state towards content: it ends. */
static void run(struct tools *p)
{
    for (u32 round = 0; round < ROUNDS_MAX && p->at < p->pend.len; round++)
        if (!run_state(p)) break;
    u64 left = p->pend.len - p->at;
    if (p->at > 0) {
        if (left > 0) memmove(p->pend.data, p->pend.data + p->at, left);
        p->pend.len = left;
        p->pend.data[left] = 0;
        p->at = 0;
    }
}

static enum err result(const struct tools *p)
{
    if (p->no_memory || p->pend.cut || p->hold.cut || p->value.cut || p->out->text.cut)
        return fail(ERR_MEMORY, "no memory to parse the answer");
    return OK;
}

enum err tools_open(const struct tools_options *options, const struct text_source *source,
                    struct tools **out)
{
    struct tools *p = source->take(sizeof *p);
    if (p == NULL) return fail(ERR_MEMORY, "no memory to parse the answer");
    *p = (struct tools){ .options = *options, .source = source,
                         .state = options->think_open ? REASONING : CONTENT };
    text_open_growing(&p->pend, source, PEND_MAX);
    text_open_growing(&p->hold, source, PEND_MAX);
    text_open_growing(&p->value, source, PEND_MAX);
    text_pool_open(&p->pool, source, PEND_MAX);
    *out = p;
    return OK;
}

void tools_close(struct tools *p)
{
    if (p == NULL) return;
    text_close(&p->pend);
    text_close(&p->hold);
    text_close(&p->value);
    text_pool_close(&p->pool);
    p->source->give(p);
}

static bool is_tag(const struct tools *p, enum vocab_kind kind)
{
    return !p->options.tags_by_text && kind >= VOCAB_THINK_OPEN && kind <= VOCAB_CALL_CLOSE;
}

/* A tag token: text inside a call's body; it decides what stood open outside. */
static void feed_tag(struct tools *p, const char *bytes, u64 len, u8 kind)
{
    if (p->state == CALL_BODY || p->state == CALL_VALUE) {
        text_put(&p->pend, bytes, len);
        return;
    }
    if (p->state == CALL_AFTER) {
        p->at = p->pend.len;                    /* blanks */
        p->state = CONTENT;
        if (kind == VOCAB_CALL_CLOSE) return;
    }
    if (p->state == CALL_OPEN) {
        no_call(p);
        run(p);
    }
    take_tag(p, bytes, len, kind);
}

enum err tools_feed(struct tools *p, const char *bytes, u64 len, enum vocab_kind kind,
                    struct tools_events *out)
{
    if (kind == VOCAB_SPECIAL || kind == VOCAB_TURN_END || kind == VOCAB_PADDING) return OK;
    p->out = out;
    if (is_tag(p, kind)) {
        text_utf8_end(&p->utf8, &p->pend);
        run(p);
        feed_tag(p, bytes, len, (u8)kind);
    } else {
        text_utf8_feed(&p->utf8, bytes, len, &p->pend);
    }
    run(p);
    return result(p);
}

enum err tools_finish(struct tools *p, struct tools_events *out)
{
    p->out = out;
    p->ended = true;
    text_utf8_end(&p->utf8, &p->pend);
    if (p->state == CALL_OPEN && p->pend.len == 0) no_call(p);
    run(p);
    if (p->state == CALL_BODY || p->state == CALL_VALUE) put(p, TOOLS_CALL_CUT, "", 0);
    p->state = CONTENT;
    return result(p);
}

const char *tools_call_id(const struct tools *p, u32 call)
{
    ASSERT(call < p->call_count);
    return p->ids[call];
}

u32 tools_call_count(const struct tools *p)
{
    return p->call_count;
}

u32 tools_complete_count(const struct tools *p)
{
    return p->complete_count;
}

bool tools_in_reasoning(const struct tools *p)
{
    return p->state == REASONING;
}

bool tools_in_content(const struct tools *p)
{
    return p->state == CONTENT || p->state == CALL_OPEN;
}
