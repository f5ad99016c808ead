/* model/text/tokenizer.c - text -> runs between added tokens -> NFC -> pieces -> ids.
 *
 * The one file that includes PCRE2 and utf8proc.  The compiled pattern and the tables are shared
 * and read-only; match data, JIT stack, NFC and merge scratch belong to one call. */
#include "model/text/tokenizer.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include "arena/heap.h"
#include "model/text/tokenizer_file.h"

struct tokenizer {
    struct tokenizer_tables tables;
    pcre2_general_context *memory;
    pcre2_code *pattern;
};

enum { JIT_STACK_FIRST = 32 * 1024, JIT_STACK_MAX = 1024 * 1024 };

/* ------------------------------------------------------------------ the split pattern */

static void *pcre2_take(PCRE2_SIZE bytes, void *unused)
{
    (void)unused;
    return arena_heap_alloc(bytes);
}

static void pcre2_give(void *at, void *unused)
{
    (void)unused;
    arena_heap_free(at);
}

/* With UCP, PCRE2's \s also takes U+180E, which is no White_Space: \s and \S are written out. */
#define WHITE_SPACE "\\x{9}-\\x{d} \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}" \
                    "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static void pattern_for_pcre2(const char *in, struct text *out)
{
    bool in_class = false;
    for (; *in != 0; in++) {
        if (*in == '\\' && in[1] != 0) {
            in++;
            if (*in == 's') text_str(out, in_class ? WHITE_SPACE : "[" WHITE_SPACE "]");
            else if (*in == 'S' && !in_class) text_str(out, "[^" WHITE_SPACE "]");
            else {
                text_char(out, '\\');
                text_char(out, *in);
            }
            continue;
        }
        if (*in == '[') in_class = true;
        if (*in == ']') in_class = false;
        text_char(out, *in);
    }
}

static enum err pattern_compile(struct tokenizer *t)
{
    char line[256];
    char written[4 * TOKENIZER_PATTERN_MAX];
    struct text rewritten;
    text_open(&rewritten, written, sizeof written);
    pattern_for_pcre2(t->tables.pattern, &rewritten);
    if (rewritten.cut) return fail(ERR_LIMIT, "tokenizer.json: the split pattern is too long");
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(t->memory);
    if (context == NULL) return fail(ERR_MEMORY, "no memory to compile the split pattern");
    t->pattern = pcre2_compile((PCRE2_SPTR)rewritten.data, rewritten.len,
                               PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at,
                               context);
    pcre2_compile_context_free(context);
    if (t->pattern == NULL) {
        pcre2_get_error_message(code, (PCRE2_UCHAR *)line, sizeof line);
        return fail(ERR_FORMAT, "tokenizer.json: pre_tokenizer: the split pattern does not compile "
                    "(%s): %s", line, t->tables.pattern);
    }
    pcre2_jit_compile(t->pattern, PCRE2_JIT_COMPLETE);      /* without a JIT it is interpreted */
    return OK;
}

enum err tokenizer_open(const struct tokenizer_source *source, struct tokenizer **out)
{
    struct tokenizer *t = arena_heap_alloc(sizeof *t);
    if (t == NULL) return fail(ERR_MEMORY, "no memory for the tokenizer");
    *t = (struct tokenizer){ 0 };
    enum err code = tokenizer_file_read(source, &t->tables);
    if (code == OK) {
        t->memory = pcre2_general_context_create(pcre2_take, pcre2_give, NULL);
        code = t->memory != NULL ? pattern_compile(t)
                                 : fail(ERR_MEMORY, "no memory for the tokenizer");
    }
    if (code != OK) {
        tokenizer_close(t);
        return code;
    }
    *out = t;
    return OK;
}

void tokenizer_close(struct tokenizer *t)
{
    if (t == NULL) return;
    pcre2_code_free(t->pattern);
    pcre2_general_context_free(t->memory);
    tokenizer_file_close(&t->tables);
    arena_heap_free(t);
}

const struct vocab *tokenizer_vocab(const struct tokenizer *t)
{
    return &t->tables.vocab;
}

u32 tokenizer_count(const struct tokenizer *t)
{
    return t->tables.known_count;
}

const u32 *tokenizer_eos(const struct tokenizer *t, u32 *count_out)
{
    *count_out = t->tables.eos_count;
    return t->tables.eos;
}

u32 tokenizer_added(const struct tokenizer *t, const char *spelling)
{
    u8 first = (u8)spelling[0];
    u64 len = strlen(spelling);
    for (u32 i = t->tables.added_from[first]; i < t->tables.added_from[first + 1]; i++) {
        const struct tokenizer_added *a = &t->tables.added[i];
        if (a->len == len && memcmp(a->bytes, spelling, len) == 0) return a->id;
    }
    return NONE;
}

void tokenizer_ids_close(struct tokenizer_ids *ids)
{
    arena_heap_free(ids->id);
    *ids = (struct tokenizer_ids){ 0 };
}

/* ------------------------------------------------------------------ one encoding */

struct encoding {
    const struct tokenizer *t;
    const struct tokenizer_text *text;
    struct tokenizer_ids *ids;
    u32 mark;                           /* the next mark without a token                         */
    u32 segment;                        /* the segment of the search position                    */
    struct bpe_scratch scratch;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    i32 *points;                        /* code points of a run that NFC may change              */
    u64 point_cap;
};

static enum err no_memory(void)
{
    return fail(ERR_MEMORY, "no memory to tokenize the prompt");
}

static enum err ids_room(struct tokenizer_ids *ids, u64 more)
{
    if (more <= ids->cap - ids->count) return OK;
    u64 cap = MAX(MAX(ids->cap * 2, ids->count + more), 64u);
    u32 *grown = arena_heap_alloc(cap * sizeof *grown);
    if (grown == NULL) return no_memory();
    if (ids->count > 0) memcpy(grown, ids->id, ids->count * sizeof *grown);
    arena_heap_free(ids->id);
    ids->id = grown;
    ids->cap = cap;
    return OK;
}

/* Marks at or before `pos` get the token that starts there: number `index`. */
static void marks_pass(struct encoding *e, u64 pos, u64 index)
{
    while (e->mark < e->text->mark_count && e->text->marks[e->mark] <= pos)
        e->text->mark_tokens[e->mark++] = index;
}

/* Ids of one piece.  `pos` is where it starts in the text; with `moved` (NFC changed its run) only
 * the run's start is known, and every token of the run is said to start there. */
static enum err put_piece(struct encoding *e, const char *bytes, u64 len, u64 pos, bool moved)
{
    TRY(ids_room(e->ids, len));
    u64 count;
    u32 *out = e->ids->id + e->ids->count;
    TRY(bpe_piece(&e->t->tables.bpe, bytes, len, &e->scratch, out, &count));
    if (e->mark < e->text->mark_count && pos + len >= e->text->marks[e->mark]) {
        for (u64 i = 0; i < count; i++) {
            marks_pass(e, pos, e->ids->count + i);
            if (!moved) pos += vocab_piece(&e->t->tables.vocab, out[i]).len;
        }
    }
    e->ids->count += count;
    return OK;
}

static enum err match_at(struct encoding *e, const char *bytes, u64 len, u64 at, u64 *from, u64 *to)
{
    int code = pcre2_match(e->t->pattern, (PCRE2_SPTR)bytes, len, at, PCRE2_NO_UTF_CHECK, e->match,
                           e->context);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT)
        code = pcre2_match(e->t->pattern, (PCRE2_SPTR)bytes, len, at,
                           PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, e->match, e->context);
    if (code == PCRE2_ERROR_NOMATCH) {
        *from = *to = len;
        return OK;
    }
    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAPLIMIT) return no_memory();
    if (code < 0) return fail(ERR_LIMIT, "the prompt cannot be split into words (PCRE2 %d)", code);
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(e->match);
    *from = found[0];
    *to = found[1];
    return OK;
}

/* Splits one run and merges its pieces; what lies between two matches is a piece too. */
static enum err put_run(struct encoding *e, const char *bytes, u64 len, u64 pos, bool moved)
{
    u64 at = 0;
    while (at < len) {
        u64 from = len, to = len, search = at;
        do {                            /* an empty match is none: look on behind it */
            TRY(match_at(e, bytes, len, search, &from, &to));
            search = from;
            if (from == to && from < len) {
                u32 step;
                text_utf8_at(bytes + from, len - from, &step);
                search = from + step;
            }
        } while (from == to && from < len);
        if (from > at) TRY(put_piece(e, bytes + at, from - at, moved ? pos : pos + at, moved));
        if (to > from) TRY(put_piece(e, bytes + from, to - from, moved ? pos : pos + from, moved));
        at = MAX(to, from);
    }
    return OK;
}

/* False only when the run surely is in NFC already: nothing below U+0300 is ever changed, and the
 * ranges below hold neither marks nor anything that composes or decomposes. */
static bool nfc_may_change(const char *bytes, u64 len)
{
    static const struct { u32 first, last; } stable[] = {
        { 0x400, 0x482 }, { 0x5D0, 0x5EA }, { 0x621, 0x64A }, { 0x2010, 0x2027 },
        { 0x2030, 0x205E }, { 0x2190, 0x21FF }, { 0x2500, 0x27BF }, { 0x3000, 0x3029 },
        { 0x3041, 0x3096 }, { 0x30A0, 0x30FF }, { 0x4E00, 0x9FFF }, { 0xAC00, 0xD7A3 },
        { 0xFF01, 0xFF9F }, { 0x1F300, 0x1F64F }, { 0x1F900, 0x1F9FF },
    };
    for (u64 i = 0; i < len;) {
        if ((u8)bytes[i] < 0xCC) {
            i++;                        /* below U+0300, or inside a sequence of that */
            continue;
        }
        u32 step, c = text_utf8_at(bytes + i, len - i, &step), k = 0;
        while (k < COUNT_OF(stable) && (c < stable[k].first || c > stable[k].last)) k++;
        if (k == COUNT_OF(stable)) return true;
        i += step;
    }
    return false;
}

static enum err put_normalised(struct encoding *e, const char *bytes, u64 len, u64 pos)
{
    const utf8proc_option_t nfc = (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    utf8proc_ssize_t need = utf8proc_decompose((const u8 *)bytes, (utf8proc_ssize_t)len, e->points,
                                               (utf8proc_ssize_t)e->point_cap, nfc);
    if (need < 0) return fail(ERR_FORMAT, "the prompt cannot be normalised");
    if ((u64)need >= e->point_cap) {            /* one more point: reencode ends with a 0 */
        arena_heap_free(e->points);
        e->point_cap = 0;
        e->points = arena_heap_alloc(((u64)need + 1) * sizeof *e->points);
        if (e->points == NULL) return no_memory();
        e->point_cap = (u64)need + 1;
        need = utf8proc_decompose((const u8 *)bytes, (utf8proc_ssize_t)len, e->points,
                                  (utf8proc_ssize_t)e->point_cap, nfc);
    }
    utf8proc_ssize_t out = utf8proc_reencode(e->points, need, nfc);
    if (out < 0) return fail(ERR_FORMAT, "the prompt cannot be normalised");
    const char *made = (const char *)e->points;
    bool moved = (u64)out != len || memcmp(made, bytes, len) != 0;
    return put_run(e, made, (u64)out, pos, moved);
}

static enum err put_plain(struct encoding *e, u64 from, u64 to)
{
    const char *bytes = e->text->bytes + from;
    u64 len = to - from;
    if (len == 0) return OK;
    if (e->t->tables.nfc && nfc_may_change(bytes, len)) return put_normalised(e, bytes, len, from);
    return put_run(e, bytes, len, from, false);
}

/* True when [from, to) lies in template segments; `from` never goes down from call to call. */
static bool in_template(struct encoding *e, u64 from, u64 to)
{
    const struct tokenizer_text *text = e->text;
    if (text->segments == NULL || text->reference_specials) return true;
    while (e->segment < text->segment_count && text->segments[e->segment].end <= from)
        e->segment++;
    for (u32 s = e->segment; s < text->segment_count; s++) {
        if (text->segments[s].kind != TOKENIZER_TEMPLATE) return false;
        if (text->segments[s].end >= to) return true;
    }
    return false;
}

/* The longest added token at `at` that counts there, or NULL. */
static const struct tokenizer_added *added_at(struct encoding *e, u64 at)
{
    const struct tokenizer_tables *t = &e->t->tables;
    u8 first = (u8)e->text->bytes[at];
    for (u32 i = t->added_from[first]; i < t->added_from[first + 1]; i++) {
        const struct tokenizer_added *a = &t->added[i];
        if (a->len > e->text->len - at || memcmp(a->bytes, e->text->bytes + at, a->len) != 0)
            continue;
        if (!a->special || in_template(e, at, at + a->len)) return a;
    }
    return NULL;
}

static enum err encode_all(struct encoding *e)
{
    u64 run = 0, at = 0;
    while (at < e->text->len) {
        const struct tokenizer_added *a = added_at(e, at);
        if (a == NULL) {
            at++;
            continue;
        }
        TRY(put_plain(e, run, at));
        TRY(ids_room(e->ids, 1));
        marks_pass(e, at, e->ids->count);
        e->ids->id[e->ids->count++] = a->id;
        at += a->len;
        run = at;
    }
    TRY(put_plain(e, run, at));
    marks_pass(e, UINT64_MAX, e->ids->count);
    return OK;
}

static enum err encoding_open(struct encoding *e)
{
    e->match = pcre2_match_data_create(1, e->t->memory);
    e->context = pcre2_match_context_create(e->t->memory);
    if (e->match == NULL || e->context == NULL) return no_memory();
    e->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MAX, e->t->memory);
    if (e->stack != NULL) pcre2_jit_stack_assign(e->context, NULL, e->stack);
    pcre2_set_match_limit(e->context, UINT32_MAX);      /* a run of blanks is walked back once */
    return OK;
}

enum err tokenizer_encode(const struct tokenizer *t, const struct tokenizer_text *text,
                          struct tokenizer_ids *ids)
{
    u64 valid = text_utf8_valid(text->bytes, text->len), before = ids->count;
    if (valid < text->len)
        return fail(ERR_FORMAT, "the text is not UTF-8 at byte %llu", (ull)valid);
    struct encoding e = { .t = t, .text = text, .ids = ids };
    enum err code = encoding_open(&e);
    if (code == OK) code = encode_all(&e);
    pcre2_match_data_free(e.match);
    pcre2_match_context_free(e.context);
    pcre2_jit_stack_free(e.stack);
    bpe_scratch_close(&e.scratch);
    arena_heap_free(e.points);
    if (code != OK) ids->count = before;
    return code;
}

void tokenizer_decode(const struct tokenizer *t, const u32 *ids, u64 count, struct text *out)
{
    for (u64 i = 0; i < count; i++) {
        if (ids[i] >= t->tables.vocab.filled) continue;
        struct vocab_piece p = vocab_piece(&t->tables.vocab, ids[i]);
        text_put(out, p.bytes, p.len);
    }
}
