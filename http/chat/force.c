/* http/chat/force.c - the force file in memory, lines found once, an entry read when it is named.
 *
 * An entry's text is cut into the same template and message segments as the renderer's: it
 * tokenises as the model's own answer would, and the next prompt renders to the same ids. */
#include "http/chat/force.h"

#include "arena/base/file.h"
#include "arena/heap.h"
#include "http/chat/fields.h"

#include <stdio.h>
#include <string.h>

enum { FORCE_DEPTH = 64, FORCE_TEXT_BYTES = 64 << 20, FORCE_SEGMENT_CAP = 4096 };

struct line_row { u64 start, len; };

static char *file_text;
static struct line_row *lines;
static u32 line_count;

void force_close(void)
{
    arena_heap_free(file_text);
    arena_heap_free(lines);
    file_text = NULL;
    lines = NULL;
    line_count = 0;
}

static enum err lines_find(const char *path, u64 bytes)
{
    for (u64 at = 0, number = 1; at < bytes; number++) {
        const char *end = memchr(file_text + at, '\n', bytes - at);
        u64 len = end == NULL ? bytes - at : (u64)(end - (file_text + at));
        struct jsontext root;
        if (len > 0) {
            if (line_count == FORCE_ENTRY_CAP)
                return fail(ERR_LIMIT, "%s: more than %d entries", path, FORCE_ENTRY_CAP);
            if (jsontext_open(file_text + at, len, FORCE_DEPTH, &root) != OK)
                return fail(ERR_FORMAT, "%s:%llu: %s", path, (ull)number, err_last()->text);
            if (root.kind != JSONTEXT_OBJECT)
                return fail(ERR_FORMAT, "%s:%llu: expected an object", path, (ull)number);
            lines[line_count++] = (struct line_row){ at, len };
        }
        at += len + 1;
    }
    return OK;
}

enum err force_open(const char *path)
{
    struct file_stat stat;
    u64 bytes = 0;
    int fd = -1;
    force_close();
    if (path == NULL || path[0] == 0) return OK;
    TRY(file_stat(path, &stat));
    if (stat.bytes > FORCE_FILE_BYTES)
        return fail(ERR_LIMIT, "--force-file %s: %llu bytes, at most %d", path, (ull)stat.bytes,
                    FORCE_FILE_BYTES);
    file_text = arena_heap_alloc(MAX(stat.bytes, (u64)1));
    lines = arena_heap_alloc(FORCE_ENTRY_CAP * sizeof lines[0]);
    enum err code = OK;
    if (file_text == NULL || lines == NULL) code = fail(ERR_MEMORY, "--force-file: no memory");
    if (code == OK) code = file_open(path, FILE_OPEN_READ, 0, &fd);
    bytes = stat.bytes;
    if (code == OK) code = file_read_at(fd, 0, file_text, bytes);
    file_close(fd);
    if (code == OK) code = lines_find(path, bytes);
    if (code != OK) force_close();
    return code;
}

/* A text in segments under construction. */
struct written {
    struct text text;
    struct tokenizer_segment segment[FORCE_SEGMENT_CAP];
    u32  segment_count;
    bool cut;
};

static void put(struct written *w, u8 kind, const char *bytes, u64 len)
{
    if (len == 0) return;
    text_put(&w->text, bytes, len);
    if (w->segment_count > 0 && w->segment[w->segment_count - 1].kind == kind) {
        w->segment[w->segment_count - 1].end = w->text.len;
    } else if (w->segment_count < FORCE_SEGMENT_CAP) {
        w->segment[w->segment_count++] = (struct tokenizer_segment){ w->text.len, kind };
    } else {
        w->cut = true;
    }
}

static void put_plain(struct written *w, const char *text)
{
    put(w, TOKENIZER_TEMPLATE, text, strlen(text));
}

static bool put_member(struct written *w, struct jsontext entry, const char *name,
                       struct request *q, bool *any_out)
{
    struct jsontext v = jsontext_member(entry, name);
    *any_out = false;
    if (v.kind == JSONTEXT_ABSENT || v.kind == JSONTEXT_NULL) return true;
    if (v.kind != JSONTEXT_STRING) return false;
    struct text_span s = jsontext_string(v, &q->pool);
    if (s.bytes == NULL) return false;
    put(w, TOKENIZER_MESSAGE, s.bytes, s.len);
    *any_out = s.len > 0;
    return true;
}

/* `arguments` is an object or the text of one; absent, null and "" are no arguments. */
static bool arguments_of(struct jsontext call, struct request *q, struct jsontext_row **rows,
                         u32 *count)
{
    struct jsontext v = jsontext_member(call, "arguments");
    *count = 0;
    if (v.kind == JSONTEXT_ABSENT || v.kind == JSONTEXT_NULL) return true;
    if (v.kind == JSONTEXT_STRING) {
        struct text_span s = jsontext_string(v, &q->pool);
        if (s.bytes == NULL) return false;
        if (s.len == 0) return true;
        if (jsontext_open(s.bytes, s.len, FORCE_DEPTH, &v) != OK) return false;
    }
    return v.kind == JSONTEXT_OBJECT && jsontext_rows(v, &q->pool, rows, count) == OK;
}

static bool put_call(struct written *w, struct jsontext call, bool first, bool content,
                     struct request *q)
{
    struct jsontext_row *rows = NULL;
    u32 count = 0;
    bool any;
    if (call.kind != JSONTEXT_OBJECT || q->forced_call_count == REQUEST_FORCED_CALLS) return false;
    struct jsontext id = jsontext_member(call, "id");
    struct text_span *kept = &q->forced_call_id[q->forced_call_count++];
    if (id.kind == JSONTEXT_STRING) *kept = jsontext_string(id, &q->pool);
    put_plain(w, first ? content ? "\n\n" : "" : "\n");
    put_plain(w, "<tool_call>\n<function=");
    if (!put_member(w, call, "name", q, &any) || !any) return false;
    put_plain(w, ">\n");
    if (!arguments_of(call, q, &rows, &count)) return false;
    for (u32 i = 0; i < count; i++) {
        struct text value = {0};
        put_plain(w, "<parameter=");
        put(w, TOKENIZER_MESSAGE, rows[i].key.bytes, rows[i].key.len);
        put_plain(w, ">\n");
        if (rows[i].value.kind == JSONTEXT_STRING) {
            struct text_span s = jsontext_string(rows[i].value, &q->pool);
            if (s.bytes == NULL) return false;
            put(w, TOKENIZER_MESSAGE, s.bytes, s.len);
        } else {
            text_open_growing(&value, &chat_model_heap, FORCE_TEXT_BYTES);
            bool ok = jsontext_dump(rows[i].value, &q->pool, &value) == OK && !value.cut;
            if (ok) put(w, TOKENIZER_MESSAGE, value.data, value.len);
            text_close(&value);
            if (!ok) return false;
        }
        put_plain(w, "\n</parameter>\n");
    }
    put_plain(w, "</function>\n</tool_call>");
    return true;
}

/* The answer as the model would have written it after this prompt. */
static bool put_answer(struct written *w, struct jsontext entry, struct request *q)
{
    bool any, content;
    if (q->kind == REQUEST_CHAT && q->think_open) {
        if (!put_member(w, entry, "reasoning", q, &any)) return false;
        put_plain(w, "\n</think>\n\n");
    }
    if (!put_member(w, entry, "content", q, &content)) return false;
    struct jsontext calls = jsontext_member(entry, "tool_calls");
    if (calls.kind == JSONTEXT_ABSENT || calls.kind == JSONTEXT_NULL) return true;
    if (calls.kind != JSONTEXT_ARRAY) return false;
    struct jsontext_walk walk;
    struct jsontext call;
    jsontext_walk(&walk, calls);
    for (bool first = true; jsontext_next(&walk, NULL, &call); first = false)
        if (!put_call(w, call, first, content, q)) return false;
    return true;
}

static bool fill_ids(const struct chat_model *m, struct jsontext list, const char *number,
                     struct request *q, struct refusal *r)
{
    u64 count = jsontext_count(list);
    struct jsontext_walk walk;
    struct jsontext item;
    u64 id;
    q->forced.id = arena_heap_alloc(MAX(count, (u64)1) * sizeof q->forced.id[0]);
    if (list.kind != JSONTEXT_ARRAY || q->forced.id == NULL)
        return refusal_bad(r, "x-holdfast-force", "x-holdfast-force: entry %s: `ids` is no array",
                           number);
    q->forced.cap = count;
    jsontext_walk(&walk, list);
    while (jsontext_next(&walk, NULL, &item)) {
        if (!jsontext_u64(item, &id) || id >= tokenizer_count(m->tokenizer))
            return refusal_bad(r, "x-holdfast-force", "x-holdfast-force: entry %s has an id "
                               "outside the vocabulary of %u", number,
                               tokenizer_count(m->tokenizer));
        q->forced.id[q->forced.count++] = (u32)id;
    }
    return true;
}

static bool fill_text(const struct chat_model *m, struct jsontext entry, bool close,
                      const char *number, struct request *q, struct refusal *r)
{
    struct written *w = arena_heap_alloc(sizeof *w);
    if (w == NULL) {
        fail(ERR_MEMORY, "x-holdfast-force: no memory");
        return refusal_note(r, ERR_MEMORY, NULL);
    }
    *w = (struct written){0};
    text_open_growing(&w->text, &chat_model_heap, FORCE_TEXT_BYTES);
    bool ok = put_answer(w, entry, q);
    if (ok && close) put_plain(w, "<|im_end|>");
    if (!ok || w->cut || w->text.cut) {
        ok = refusal_bad(r, "x-holdfast-force", "x-holdfast-force: entry %s is not an answer: "
                         "expected ids, or reasoning, content, tool_calls", number);
    } else if (w->text.len > 0) {
        struct tokenizer_text text = { .bytes = w->text.data, .len = w->text.len,
            .segments = w->segment, .segment_count = w->segment_count,
            .reference_specials = m->reference_specials };
        enum err code = tokenizer_encode(m->tokenizer, &text, &q->forced);
        if (code != OK) ok = refusal_note(r, code, "x-holdfast-force");
    }
    text_close(&w->text);
    arena_heap_free(w);
    return ok;
}

bool force_fill(const struct chat_model *m, const char *number, struct request *q,
                struct refusal *r)
{
    u64 n = 0, len = strspn(number, "0123456789");
    for (u64 i = 0; i < len && i < 10; i++) n = n * 10 + (u64)(number[i] - '0');
    if (len == 0 || len > 9 || number[len] != 0)
        return refusal_bad(r, "x-holdfast-force", "x-holdfast-force: %.32s is no entry number",
                           number);
    if (file_text == NULL)
        return refusal_bad(r, "x-holdfast-force", "x-holdfast-force: %s asked, but there is no "
                           "--force-file", number);
    if (n >= line_count)
        return refusal_bad(r, "x-holdfast-force", "x-holdfast-force: no entry %s, the file has %u",
                           number, line_count);
    struct jsontext entry;
    enum err code = jsontext_open(file_text + lines[n].start, lines[n].len, FORCE_DEPTH, &entry);
    if (code != OK) return refusal_note(r, code, "x-holdfast-force");
    struct jsontext cut = jsontext_member(entry, "cut");
    struct jsontext ids = jsontext_member(entry, "ids");
    bool at_end = cut.kind == JSONTEXT_TRUE;
    bool ok = ids.kind != JSONTEXT_ABSENT ? fill_ids(m, ids, number, q, r)
                                          : fill_text(m, entry, !at_end, number, q, r);
    if (!ok) return false;
    if (q->forced.count == 0)
        return refusal_bad(r, "x-holdfast-force", "x-holdfast-force: entry %s is empty", number);
    if (at_end) q->forced_cut = q->forced.count;
    else if (cut.kind == JSONTEXT_NUMBER && !jsontext_u64(cut, &q->forced_cut))
        return refusal_bad(r, "x-holdfast-force", "x-holdfast-force: entry %s: `cut` is k or true",
                           number);
    q->is_forced = true;
    return true;
}
