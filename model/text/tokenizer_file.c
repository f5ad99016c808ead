/* model/text/tokenizer_file.c - reading tokenizer.json, tokenizer_config.json, generation_config.
 *
 * Everything parsed on the way lies in one pool that goes at the end; only the tables stay. */
#include "model/text/tokenizer_file.h"

#include <string.h>

#include "arena/heap.h"

static const struct text_source heap_source = { arena_heap_alloc, arena_heap_free };

enum { ALPHABET = 0x144, POOL_CAP_BYTES = 1 << 30 };

struct row {                            /* one id while the files are read                       */
    struct text_span bytes;
    u8 known, added, special;
};

struct reader {
    struct text_pool pool;
    i16 byte_of[ALPHABET];              /* code point of the byte-level alphabet -> byte, or -1  */
    struct jsontext root, model, vocab, config, generation;
    struct row *rows;
    u32 row_count;
    struct tokenizer_tables *t;
};

/* GPT-2's alphabet: printable Latin-1 stands for itself, the rest from U+0100 on, in order. */
static void alphabet_fill(i16 byte_of[ALPHABET])
{
    i16 next = 0x100;
    memset(byte_of, 0xFF, ALPHABET * sizeof *byte_of);
    for (i16 b = 0; b < 256; b++) {
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        byte_of[plain ? b : next++] = b;
    }
}

static enum err no_memory(void)
{
    return fail(ERR_MEMORY, "no memory to read tokenizer.json");
}

static enum err bad(const char *field, const char *expected)
{
    return fail(ERR_FORMAT, "tokenizer.json: %s: expected %s", field, expected);
}

/* The bytes that a vocabulary key spells; a key with foreign letters stands for its own bytes. */
static enum err spelled(struct reader *r, struct text_span key, struct text_span *out)
{
    char *bytes = text_pool_take(&r->pool, key.len);
    if (bytes == NULL) return no_memory();
    u64 len = 0, at = 0;
    while (at < key.len) {
        u32 n, c = text_utf8_at(key.bytes + at, key.len - at, &n);
        if (c >= ALPHABET || r->byte_of[c] < 0) {
            *out = key;
            return OK;
        }
        bytes[len++] = (char)r->byte_of[c];
        at += n;
    }
    *out = (struct text_span){ bytes, len };
    return OK;
}

static enum err string_of(struct reader *r, struct jsontext v, struct text_span *out)
{
    *out = jsontext_string(v, &r->pool);
    return out->bytes == NULL ? no_memory() : OK;
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
        TRY(spelled(r, spelling, &bytes));
        if (r->rows[id].known)
            return fail(ERR_FORMAT, "tokenizer.json: model.vocab: two tokens have id %u", id);
        r->rows[id] = (struct row){ .bytes = bytes, .known = 1 };
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
    r->rows[id] = (struct row){ .bytes = s, .known = 1, .added = 1,
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
        if (r->rows[id].added)
            return fail(ERR_FORMAT, "tokenizer.json: added_tokens: id %u twice", id);
        TRY(add_token(r, id, value));
    }
    jsontext_walk(&w, jsontext_member(r->config, "added_tokens_decoder"));
    while (w.object && jsontext_next(&w, &key, &value)) {
        TRY(id_of_key(key, &id));
        if (!r->rows[id].added) TRY(add_token(r, id, value));
    }
    return OK;
}

/* ------------------------------------------------------------------ ends of a turn */

static void eos_add(struct tokenizer_tables *t, u32 id)
{
    for (u32 i = 0; i < t->eos_count; i++)
        if (t->eos[i] == id) return;
    if (t->eos_count < TOKENIZER_EOS_MAX) t->eos[t->eos_count++] = id;
}

static void eos_named(struct reader *r, const char *spelling, u64 len)
{
    for (u32 id = 0; id < r->row_count; id++) {
        const struct row *row = &r->rows[id];
        if (row->added && row->bytes.len == len && memcmp(row->bytes.bytes, spelling, len) == 0)
            eos_add(r->t, id);
    }
}

static void eos_number(struct reader *r, struct jsontext v)
{
    u64 id;
    if (jsontext_u64(v, &id) && id < r->row_count && r->rows[id].known) eos_add(r->t, (u32)id);
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
        eos_named(r, s.bytes, s.len);
    }
    eos_named(r, "<|im_end|>", 10);
    eos_named(r, "<|endoftext|>", 13);
    return OK;
}

/* ------------------------------------------------------------------ tables */

static enum vocab_kind kind_of(const struct reader *r, u32 id)
{
    static const struct { const char *spelling; enum vocab_kind kind; } tags[] = {
        { "<think>", VOCAB_THINK_OPEN }, { "</think>", VOCAB_THINK_CLOSE },
        { "<tool_call>", VOCAB_CALL_OPEN }, { "</tool_call>", VOCAB_CALL_CLOSE },
    };
    const struct row *row = &r->rows[id];
    if (!row->known) return VOCAB_PADDING;
    for (u32 i = 0; i < r->t->eos_count; i++)
        if (r->t->eos[i] == id) return VOCAB_TURN_END;
    if (!row->added) return VOCAB_TEXT;
    for (u32 i = 0; i < COUNT_OF(tags); i++)
        if (text_span_is(row->bytes, tags[i].spelling)) return tags[i].kind;
    return row->special ? VOCAB_SPECIAL : VOCAB_TEXT;
}

static enum err fill_vocab(struct reader *r)
{
    struct tokenizer_tables *t = r->t;
    u64 bytes = 0;
    for (u32 id = 0; id < r->row_count; id++) bytes += r->rows[id].bytes.len;
    t->vocab_memory = arena_heap_alloc(vocab_bytes(r->row_count, bytes));
    if (t->vocab_memory == NULL) return no_memory();
    vocab_open(&t->vocab, t->vocab_memory, r->row_count, bytes);
    for (u32 id = 0; id < r->row_count; id++) {
        const struct row *row = &r->rows[id];
        TRY(vocab_put(&t->vocab, row->bytes.bytes, row->bytes.len, kind_of(r, id)));
        if (row->known) t->known_count = id + 1;
    }
    return OK;
}

/* Added tokens by first byte, longest first among them (insertion: a few dozen of them). */
static enum err fill_added(struct reader *r)
{
    struct tokenizer_tables *t = r->t;
    t->added = arena_heap_alloc(MAX(t->added_count, 1u) * sizeof *t->added);
    if (t->added == NULL) return no_memory();
    u32 count = 0;
    for (u32 id = 0; id < r->row_count; id++) {
        if (!r->rows[id].added) continue;
        struct vocab_piece p = vocab_piece(&t->vocab, id);
        struct tokenizer_added row = { id, p.len, p.bytes, r->rows[id].special };
        u32 at = count++;
        for (; at > 0; at--) {
            const struct tokenizer_added *a = &t->added[at - 1];
            u8 first = (u8)a->bytes[0], mine = (u8)row.bytes[0];
            if (first < mine || (first == mine && a->len >= row.len)) break;
            t->added[at] = *a;
        }
        t->added[at] = row;
    }
    for (u32 byte = 0, at = 0; byte <= 256; byte++) {
        while (at < count && (u8)t->added[at].bytes[0] < byte) at++;
        t->added_from[byte] = at;
    }
    t->added_count = count;
    return OK;
}

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
    TRY(spelled(r, l, left));
    return spelled(r, s, right);
}

static enum err fill_merges(struct reader *r)
{
    struct jsontext merges = jsontext_member(r->model, "merges"), item;
    if (merges.kind != JSONTEXT_ARRAY) return bad("model.merges", "an array");
    u64 count = jsontext_count(merges);
    if (count > TOKENIZER_ROWS_MAX)
        return fail(ERR_LIMIT, "tokenizer.json: model.merges: %llu, at most %d", (ull)count,
                    TOKENIZER_ROWS_MAX);
    u8 *added = text_pool_take(&r->pool, r->row_count);
    if (added == NULL) return no_memory();
    for (u32 id = 0; id < r->row_count; id++) added[id] = r->rows[id].added;
    TRY(bpe_open(&r->t->bpe, &r->t->vocab, added, count));
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
    if (source->rows > TOKENIZER_ROWS_MAX)
        return fail(ERR_LIMIT, "vocab_size %u, at most %d", source->rows, TOKENIZER_ROWS_MAX);
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
    r->row_count = source->rows != 0 ? source->rows : max + 1;
    r->rows = text_pool_take(&r->pool, (u64)r->row_count * sizeof *r->rows);
    if (r->rows == NULL) return no_memory();
    TRY(read_vocab(r));
    TRY(read_added(r));
    TRY(read_eos(r));
    TRY(fill_vocab(r));
    TRY(fill_added(r));
    return fill_merges(r);
}

enum err tokenizer_file_read(const struct tokenizer_source *source, struct tokenizer_tables *out)
{
    struct reader r = { .t = out };
    *out = (struct tokenizer_tables){ 0 };
    alphabet_fill(r.byte_of);
    text_pool_open(&r.pool, &heap_source, POOL_CAP_BYTES);
    enum err code = read_all(&r, source);
    text_pool_close(&r.pool);
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
