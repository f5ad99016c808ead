/* model/text/tokenizer_gguf.c - tokens, types, merges and ends of turn from GGUF arrays. */
#include "model/text/tokenizer_gguf.h"

#include <string.h>

/* Values of tokenizer.ggml.token_type. */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

static const char pattern_qwen35[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const char *file_of(const struct gguf *g) { return g->file->name; }

/* What is not served is refused by name. */
static enum err read_kind(const struct gguf *g, struct tokenizer_rows *r)
{
    static const struct { const char *key, *word; } served[] = {
        { "tokenizer.ggml.model", "gpt2" }, { "tokenizer.ggml.pre", "qwen35" },
    };
    struct text_span word;
    for (u32 i = 0; i < COUNT_OF(served); i++) {
        TRY(gguf_string(g, served[i].key, &word));
        if (!text_span_is(word, served[i].word))
            return fail(ERR_UNSUPPORTED, "%s: key %s: only %s is served", file_of(g),
                        served[i].key, served[i].word);
    }
    static const char *const off[] = {
        "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token",
        "tokenizer.ggml.add_space_prefix",
    };
    for (u32 i = 0; i < COUNT_OF(off); i++) {
        u64 on = 0;
        if (gguf_find(g, off[i]) != NULL) TRY(gguf_u64(g, off[i], &on));
        if (on != 0)
            return fail(ERR_UNSUPPORTED, "%s: key %s is true; only false is served", file_of(g),
                        off[i]);
    }
    r->t->nfc = true;
    strcpy(r->t->pattern, pattern_qwen35);
    return OK;
}

static enum err utf8_check(const struct gguf *g, const char *key, u32 i, struct text_span word)
{
    if (text_utf8_valid(word.bytes, word.len) == word.len) return OK;
    return fail(ERR_FORMAT, "%s: tokenizer.ggml.%s[%u] is no UTF-8", file_of(g), key, i);
}

static enum err read_token(struct tokenizer_rows *r, const struct gguf *g, u32 id, u64 type,
                           struct text_span word)
{
    struct tokenizer_row *row = &r->row[id];
    if (type == TYPE_UNUSED || type == TYPE_UNKNOWN) return OK;
    if (type < TYPE_NORMAL || type > TYPE_BYTE)
        return fail(ERR_FORMAT, "%s: tokenizer.ggml.token_type[%u] is %llu; 1 to 6 is expected",
                    file_of(g), id, (ull)type);
    if (word.len == 0)
        return fail(ERR_FORMAT, "%s: tokenizer.ggml.tokens[%u] is empty", file_of(g), id);
    TRY(utf8_check(g, "tokens", id, word));
    row->known = 1;
    row->added = type == TYPE_CONTROL || type == TYPE_USER;
    row->special = type == TYPE_CONTROL;
    row->bytes = word;
    if (!row->added) return tokenizer_rows_spelled(r, word, &row->bytes);
    if (r->t->added_count == TOKENIZER_ADDED_MAX)
        return fail(ERR_LIMIT, "%s: tokenizer.ggml.token_type: more than %d control and user "
                    "defined tokens", file_of(g), TOKENIZER_ADDED_MAX);
    r->t->added_count++;
    return OK;
}

static enum err read_tokens(struct tokenizer_rows *r, const struct gguf *g)
{
    const struct gguf_key *tokens, *types;
    struct text_span word;
    u64 at = 0, type = 0;
    TRY(gguf_strings(g, "tokenizer.ggml.tokens", &tokens));
    TRY(gguf_numbers(g, "tokenizer.ggml.token_type", &types));
    if (tokens->count == 0 || tokens->count > TOKENIZER_ROWS_MAX || types->count != tokens->count)
        return fail(ERR_FORMAT, "%s: tokenizer.ggml.tokens has %llu items, token_type %llu; the "
                    "same number, 1 to %d, is expected", file_of(g), (ull)tokens->count,
                    (ull)types->count, TOKENIZER_ROWS_MAX);
    TRY(tokenizer_rows_take(r, (u32)tokens->count));
    for (u32 id = 0; gguf_next(tokens, &at, &word); id++) {
        TRY(gguf_number(g, types, id, &type));
        TRY(read_token(r, g, id, type, word));
    }
    return OK;
}

static enum err read_eos(struct tokenizer_rows *r, const struct gguf *g)
{
    static const char *const keys[] = {
        "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
    };
    for (u32 i = 0; i < COUNT_OF(keys); i++) {
        u64 id = 0;
        if (gguf_find(g, keys[i]) == NULL) continue;
        TRY(gguf_u64(g, keys[i], &id));
        if (id >= r->count || !r->row[id].known)
            return fail(ERR_FORMAT, "%s: key %s: %llu is no token", file_of(g), keys[i],
                        (ull)id);
        tokenizer_rows_eos(r, (u32)id);
    }
    tokenizer_rows_eos_named(r, "<|im_end|>", 10);
    tokenizer_rows_eos_named(r, "<|endoftext|>", 13);
    return OK;
}

/* "a b"; the blank that parts them is the first one behind the first letter. */
static enum err read_merges(struct tokenizer_rows *r, const struct gguf *g)
{
    const struct gguf_key *merges;
    struct text_span word, left, right;
    u64 at = 0;
    TRY(gguf_strings(g, "tokenizer.ggml.merges", &merges));
    if (merges->count > TOKENIZER_ROWS_MAX)
        return fail(ERR_LIMIT, "%s: tokenizer.ggml.merges has %llu items; at most %d are expected",
                    file_of(g), (ull)merges->count, TOKENIZER_ROWS_MAX);
    TRY(tokenizer_rows_bpe(r, merges->count));
    for (u32 rank = 0; gguf_next(merges, &at, &word); rank++) {
        TRY(utf8_check(g, "merges", rank, word));
        const char *gap = word.len > 2 ? memchr(word.bytes + 1, ' ', word.len - 2) : NULL;
        if (gap == NULL)
            return fail(ERR_FORMAT, "%s: tokenizer.ggml.merges[%u]: \"a b\" is expected",
                        file_of(g), rank);
        u64 first = (u64)(gap - word.bytes);
        TRY(tokenizer_rows_spelled(r, (struct text_span){ word.bytes, first }, &left));
        TRY(tokenizer_rows_spelled(r, (struct text_span){ gap + 1, word.len - first - 1 },
                                   &right));
        TRY(bpe_merge_put(&r->t->bpe, rank, left, right));
    }
    return OK;
}

enum err tokenizer_gguf_read(const struct gguf *g, struct tokenizer_rows *rows)
{
    TRY(read_kind(g, rows));
    TRY(read_tokens(rows, g));
    TRY(read_eos(rows, g));
    TRY(tokenizer_rows_fill(rows));
    return read_merges(rows, g);
}
