/* model/text/tokenizer_file.c - reading tokenizer.json, tokenizer_config.json, generation_config.
 *
 * Everything parsed on the way lies in one pool that goes at the end; only the tables stay. */
#include "model/text/tokenizer_file.h"

#include <string.h>

#include "arena/heap.h"
#include "model/text/tokenizer_gguf.h"
#include "model/text/tokenizer_rows.h"

struct reader {
    struct tokenizer_rows *rows;
    struct jsontext root, model, vocab, config, generation;
    struct tokenizer_tables *t;
};

static enum err bad(const char *field, const char *expected)
{
    return fail(ERR_FORMAT, "tokenizer.json: %s: expected %s", field, expected);
}

static enum err string_of(struct reader *r, struct jsontext v, struct text_span *out)
{
    *out = jsontext_string(v, &r->rows->pool);
    return out->bytes == NULL ? tokenizer_rows_no_memory() : OK;
}

/* ------------------------------------------------------------------ what is refused */

static bool set(struct jsontext v)
{
    return v.kind != JSONTEXT_ABSENT && v.kind != JSONTEXT_NULL && v.kind != JSONTEXT_FALSE;
}

static bool not_empty(struct jsontext v)
{
    return v.kind == JSONTEXT_STRING && v.len > 2;
}

static enum err check_model(struct reader *r)
{
    r->model = jsontext_member(r->root, "model");
    if (r->model.kind != JSONTEXT_OBJECT) return bad("model", "an object");
    struct jsontext type = jsontext_member(r->model, "type");
    if (set(type) && !jsontext_is(type, "BPE"))
        return fail(ERR_UNSUPPORTED, "tokenizer.json: model.type: only BPE is served");
    static const char *const off[] = { "byte_fallback", "dropout" };
    for (u32 i = 0; i < COUNT_OF(off); i++)
        if (set(jsontext_member(r->model, off[i])))
            return fail(ERR_UNSUPPORTED, "tokenizer.json: model.%s is not served", off[i]);
    if (not_empty(jsontext_member(r->model, "continuing_subword_prefix")) ||
        not_empty(jsontext_member(r->model, "end_of_word_suffix")))
        return fail(ERR_UNSUPPORTED, "tokenizer.json: model: affixes of words are not served");
    r->vocab = jsontext_member(r->model, "vocab");
    if (r->vocab.kind != JSONTEXT_OBJECT) return bad("model.vocab", "an object");
    return OK;
}

static enum err read_normalizer(struct reader *r, struct jsontext n)
{
    if (!set(n)) return OK;
    struct jsontext type = jsontext_member(n, "type");
    if (jsontext_is(type, "NFC")) {
        r->t->nfc = true;
        return OK;
    }
    if (!jsontext_is(type, "Sequence"))
        return fail(ERR_UNSUPPORTED, "tokenizer.json: normalizer.type: only NFC is served");
    struct jsontext_walk w;
    struct jsontext item;
    jsontext_walk(&w, jsontext_member(n, "normalizers"));
    while (jsontext_next(&w, NULL, &item)) {
        if (!jsontext_is(jsontext_member(item, "type"), "NFC"))
            return fail(ERR_UNSUPPORTED, "tokenizer.json: normalizer: only NFC is served");
        r->t->nfc = true;
    }
    return OK;
}

/* ------------------------------------------------------------------ the split pattern */

static const char gpt2_pattern[] =
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static enum err keep_pattern(struct reader *r, struct text_span s)
{
    if (s.len >= TOKENIZER_PATTERN_MAX || memchr(s.bytes, 0, s.len) != NULL)
        return fail(ERR_LIMIT, "tokenizer.json: pre_tokenizer: a pattern of %llu bytes, at most "
                    "%d without NUL", (ull)s.len, TOKENIZER_PATTERN_MAX - 1);
    memcpy(r->t->pattern, s.bytes, s.len);
    r->t->pattern[s.len] = 0;
    return OK;
}

static enum err read_split(struct reader *r, struct jsontext p)
{
    struct jsontext regex = jsontext_member(jsontext_member(p, "pattern"), "Regex");
    struct text_span s;
    if (regex.kind != JSONTEXT_STRING)
        return fail(ERR_UNSUPPORTED, "tokenizer.json: pre_tokenizer: Split without pattern.Regex");
    if (!jsontext_is(jsontext_member(p, "behavior"), "Isolated") ||
        set(jsontext_member(p, "invert")))
        return fail(ERR_UNSUPPORTED, "tokenizer.json: pre_tokenizer: Split: only behavior "
                    "Isolated, not inverted, is served");
    TRY(string_of(r, regex, &s));
    return keep_pattern(r, s);
}

static enum err read_pre_tokenizer(struct reader *r, struct jsontext p, u32 depth)
{
    struct jsontext type = jsontext_member(p, "type"), item;
    if (jsontext_is(type, "Split") && r->t->pattern[0] == 0) return read_split(r, p);
    if (jsontext_is(type, "ByteLevel")) {
        if (set(jsontext_member(p, "add_prefix_space")))
            return fail(ERR_UNSUPPORTED, "tokenizer.json: pre_tokenizer.add_prefix_space: "
                        "not served");
        bool own = jsontext_member(p, "use_regex").kind != JSONTEXT_FALSE;
        if (!own || r->t->pattern[0] != 0) return OK;
        return keep_pattern(r, (struct text_span){ gpt2_pattern, sizeof gpt2_pattern - 1 });
    }
    if (jsontext_is(type, "Sequence") && depth < 4) {
        struct jsontext_walk w;
        jsontext_walk(&w, jsontext_member(p, "pretokenizers"));
        while (jsontext_next(&w, NULL, &item)) TRY(read_pre_tokenizer(r, item, depth + 1));
        return OK;
    }
    return fail(ERR_UNSUPPORTED, "tokenizer.json: pre_tokenizer: only one Split and ByteLevel are "
                "served");
}

/* ------------------------------------------------------------------ ids */

static enum err id_of(struct jsontext v, const char *field, u32 *out)
{
    u64 id;
    if (!jsontext_u64(v, &id)) return bad(field, "an id, a number of 0 or more");
    if (id >= TOKENIZER_ROWS_MAX)
        return fail(ERR_LIMIT, "tokenizer.json: %s: id %llu, at most %d", field, (ull)id,
                    TOKENIZER_ROWS_MAX - 1);
    *out = (u32)id;
    return OK;
}

/* The id that a member of added_tokens_decoder names in its key. */
static enum err id_of_key(struct jsontext key, u32 *out)
{
    struct jsontext digits = { key.bytes + 1, key.len - 2, JSONTEXT_NUMBER };
    bool number = digits.len > 0;
    for (u64 i = 0; i < digits.len; i++)
        number = number && digits.bytes[i] >= '0' && digits.bytes[i] <= '9';
    if (!number)
        return fail(ERR_FORMAT, "tokenizer_config.json: added_tokens_decoder: expected ids as "
                    "keys");
    return id_of(digits, "added_tokens_decoder", out);
}

static enum err max_of_vocab(struct reader *r, u32 *max)
{
    struct jsontext_walk w;
    struct jsontext key, value;
    u32 id;
    jsontext_walk(&w, r->vocab);
    while (jsontext_next(&w, &key, &value)) {
        TRY(id_of(value, "model.vocab", &id));
        *max = MAX(*max, id);
    }
    jsontext_walk(&w, jsontext_member(r->root, "added_tokens"));
    while (jsontext_next(&w, NULL, &value)) {
        TRY(id_of(jsontext_member(value, "id"), "added_tokens[].id", &id));
        *max = MAX(*max, id);
    }
    jsontext_walk(&w, jsontext_member(r->config, "added_tokens_decoder"));
    while (w.object && jsontext_next(&w, &key, &value)) {
        TRY(id_of_key(key, &id));
        *max = MAX(*max, id);
    }
    return OK;
}

static enum err read_vocab(struct reader *r)
{
    struct jsontext_walk w;
    struct jsontext key, value;
    struct text_span spelling, bytes;
    u32 id;
    jsontext_walk(&w, r->vocab);
    while (jsontext_next(&w, &key, &value)) {
        TRY(id_of(value, "model.vocab", &id));
        TRY(string_of(r, key, &spelling));
        TRY(tokenizer_rows_spelled(r->rows, spelling, &bytes));
        if (r->rows->row[id].known)
            return fail(ERR_FORMAT, "tokenizer.json: model.vocab: two tokens have id %u", id);
        r->rows->row[id] = (struct tokenizer_row){ .bytes = bytes, .known = 1 };
    }
    return OK;
}

static enum err add_token(struct reader *r, u32 id, struct jsontext token)
{
    struct jsontext content = jsontext_member(token, "content");
    struct text_span s;
    if (content.kind != JSONTEXT_STRING || content.len == 2)
        return fail(ERR_FORMAT, "added token %u: content: expected a string", id);
    static const char *const off[] = { "single_word", "lstrip", "rstrip" };
    for (u32 i = 0; i < COUNT_OF(off); i++)
        if (set(jsontext_member(token, off[i])))
            return fail(ERR_UNSUPPORTED, "added token %u: %s is not served", id, off[i]);
    TRY(string_of(r, content, &s));
    if (r->t->added_count == TOKENIZER_ADDED_MAX)
        return fail(ERR_LIMIT, "tokenizer.json: more than %d added tokens", TOKENIZER_ADDED_MAX);
    r->rows->row[id] = (struct tokenizer_row){ .bytes = s, .known = 1, .added = 1,
                                .special = set(jsontext_member(token, "special")) };
    r->t->added_count++;
    return OK;
}

static enum err read_added(struct reader *r)
{
    struct jsontext_walk w;
    struct jsontext key, value;
    u32 id;
    jsontext_walk(&w, jsontext_member(r->root, "added_tokens"));
    while (jsontext_next(&w, NULL, &value)) {
        TRY(id_of(jsontext_member(value, "id"), "added_tokens[].id", &id));
        if (r->rows->row[id].added)
            return fail(ERR_FORMAT, "tokenizer.json: added_tokens: id %u twice", id);
        TRY(add_token(r, id, value));
    }
    jsontext_walk(&w, jsontext_member(r->config, "added_tokens_decoder"));
    while (w.object && jsontext_next(&w, &key, &value)) {
        TRY(id_of_key(key, &id));
        if (!r->rows->row[id].added) TRY(add_token(r, id, value));
    }
    return OK;
}

/* ------------------------------------------------------------------ ends of a turn */

static void eos_number(struct reader *r, struct jsontext v)
{
    u64 id;
    if (jsontext_u64(v, &id) && id < r->rows->count && r->rows->row[id].known)
        tokenizer_rows_eos(r->rows, (u32)id);
}

static enum err read_eos(struct reader *r)
{
    struct jsontext ids = jsontext_member(r->generation, "eos_token_id"), item;
    struct jsontext_walk w;
    eos_number(r, ids);
    jsontext_walk(&w, ids);
    while (jsontext_next(&w, NULL, &item)) eos_number(r, item);

    struct jsontext eos = jsontext_member(r->config, "eos_token");
    if (eos.kind == JSONTEXT_OBJECT) eos = jsontext_member(eos, "content");
    if (eos.kind == JSONTEXT_STRING) {
        struct text_span s;
        TRY(string_of(r, eos, &s));
        tokenizer_rows_eos_named(r->rows, s.bytes, s.len);
    }
    tokenizer_rows_eos_named(r->rows, "<|im_end|>", 10);
    tokenizer_rows_eos_named(r->rows, "<|endoftext|>", 13);
    return OK;
}

/* ------------------------------------------------------------------ merges */

/* "a b" or ["a", "b"]. */
static enum err merge_parts(struct reader *r, struct jsontext v, u32 rank, struct text_span *left,
                            struct text_span *right)
{
    struct text_span l = { 0 }, s = { 0 };
    if (v.kind == JSONTEXT_STRING) {
        TRY(string_of(r, v, &s));
        const char *gap = s.len > 0 ? memchr(s.bytes, ' ', s.len) : NULL;
        if (gap != NULL) {
            l = (struct text_span){ s.bytes, (u64)(gap - s.bytes) };
            s = (struct text_span){ gap + 1, s.len - l.len - 1 };
        }
    } else if (v.kind == JSONTEXT_ARRAY) {
        struct jsontext_walk w;
        struct jsontext a, b;
        jsontext_walk(&w, v);
        if (jsontext_next(&w, NULL, &a) && jsontext_next(&w, NULL, &b) &&
            a.kind == JSONTEXT_STRING && b.kind == JSONTEXT_STRING) {
            TRY(string_of(r, a, &l));
            TRY(string_of(r, b, &s));
        }
    }
    if (l.len == 0 || s.len == 0)
        return fail(ERR_FORMAT, "tokenizer.json: model.merges[%u]: expected \"a b\" or "
                    "[\"a\", \"b\"]", rank);
    TRY(tokenizer_rows_spelled(r->rows, l, left));
    return tokenizer_rows_spelled(r->rows, s, right);
}

static enum err fill_merges(struct reader *r)
{
    struct jsontext merges = jsontext_member(r->model, "merges"), item;
    if (merges.kind != JSONTEXT_ARRAY) return bad("model.merges", "an array");
    u64 count = jsontext_count(merges);
    if (count > TOKENIZER_ROWS_MAX)
        return fail(ERR_LIMIT, "tokenizer.json: model.merges: %llu, at most %d", (ull)count,
                    TOKENIZER_ROWS_MAX);
    TRY(tokenizer_rows_bpe(r->rows, count));
    r->t->bpe.ignore_merges = set(jsontext_member(r->model, "ignore_merges"));
    struct jsontext_walk w;
    u32 rank = 0;
    jsontext_walk(&w, merges);
    for (; jsontext_next(&w, NULL, &item); rank++) {
        struct text_span left, right;
        TRY(merge_parts(r, item, rank, &left, &right));
        TRY(bpe_merge_put(&r->t->bpe, rank, left, right));
    }
    return OK;
}

/* ------------------------------------------------------------------ all of it */

static enum err open_optional(struct text_span file, const char *name, struct jsontext *out)
{
    if (file.len == 0) return OK;
    if (jsontext_open(file.bytes, file.len, JSONTEXT_DEPTH_MAX, out) == OK) return OK;
    return fail(err_last()->code, "%s: %s", name, err_last()->text);
}

static enum err read_all(struct reader *r, const struct tokenizer_source *source)
{
    if (source->tokenizer_json.len == 0) return fail(ERR_FORMAT, "tokenizer.json is empty");
    TRY(open_optional(source->tokenizer_json, "tokenizer.json", &r->root));
    TRY(open_optional(source->tokenizer_config, "tokenizer_config.json", &r->config));
    TRY(open_optional(source->generation_config, "generation_config.json", &r->generation));
    TRY(check_model(r));
    TRY(read_normalizer(r, jsontext_member(r->root, "normalizer")));
    TRY(read_pre_tokenizer(r, jsontext_member(r->root, "pre_tokenizer"), 0));

    u32 max = 0;
    TRY(max_of_vocab(r, &max));
    if (source->rows != 0 && max >= source->rows)
        return fail(ERR_FORMAT, "tokenizer.json: id %u, but the model has %u rows (vocab_size)",
                    max, source->rows);
    TRY(tokenizer_rows_take(r->rows, source->rows != 0 ? source->rows : max + 1));
    TRY(read_vocab(r));
    TRY(read_added(r));
    TRY(read_eos(r));
    TRY(tokenizer_rows_fill(r->rows));
    return fill_merges(r);
}

enum err tokenizer_file_read(const struct tokenizer_source *source, struct tokenizer_tables *out)
{
    struct tokenizer_rows rows;
    struct reader r = { .rows = &rows, .t = out };
    *out = (struct tokenizer_tables){ 0 };
    if (source->rows > TOKENIZER_ROWS_MAX)
        return fail(ERR_LIMIT, "vocab_size %u, at most %d", source->rows, TOKENIZER_ROWS_MAX);
    tokenizer_rows_open(&rows, out);
    enum err code = source->gguf != NULL ? tokenizer_gguf_read(source->gguf, &rows)
                                         : read_all(&r, source);
    tokenizer_rows_close(&rows);
    if (code != OK) tokenizer_file_close(out);
    return code;
}

void tokenizer_file_close(struct tokenizer_tables *t)
{
    bpe_close(&t->bpe);
    arena_heap_free(t->added);
    arena_heap_free(t->vocab_memory);
    *t = (struct tokenizer_tables){ 0 };
}
