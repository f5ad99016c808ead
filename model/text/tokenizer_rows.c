/* model/text/tokenizer_rows.c - rows by id, gathered by a reader, to tables that stay. */
#include "model/text/tokenizer_rows.h"

#include <string.h>

#include "arena/heap.h"

static const struct text_source heap_source = { arena_heap_alloc, arena_heap_free };

enum { POOL_CAP_BYTES = 1 << 30 };

/* GPT-2's alphabet: printable Latin-1 stands for itself, the rest from U+0100 on, in order. */
static void alphabet_fill(i16 byte_of[TOKENIZER_ALPHABET])
{
    i16 next = 0x100;
    memset(byte_of, 0xFF, TOKENIZER_ALPHABET * sizeof *byte_of);
    for (i16 b = 0; b < 256; b++) {
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        byte_of[plain ? b : next++] = b;
    }
}

enum err tokenizer_rows_no_memory(void)
{
    return fail(ERR_MEMORY, "no memory to read the tokenizer");
}

void tokenizer_rows_open(struct tokenizer_rows *r, struct tokenizer_tables *t)
{
    *r = (struct tokenizer_rows){ .t = t };
    alphabet_fill(r->byte_of);
    text_pool_open(&r->pool, &heap_source, POOL_CAP_BYTES);
}

void tokenizer_rows_close(struct tokenizer_rows *r)
{
    text_pool_close(&r->pool);
}

enum err tokenizer_rows_take(struct tokenizer_rows *r, u32 count)
{
    r->count = count;
    r->row = text_pool_take(&r->pool, (u64)count * sizeof *r->row);
    return r->row == NULL ? tokenizer_rows_no_memory() : OK;
}

enum err tokenizer_rows_spelled(struct tokenizer_rows *r, struct text_span key,
                                struct text_span *out)
{
    char *bytes = text_pool_take(&r->pool, key.len);
    if (bytes == NULL) return tokenizer_rows_no_memory();
    u64 len = 0, at = 0;
    while (at < key.len) {
        u32 n, c = text_utf8_at(key.bytes + at, key.len - at, &n);
        if (c >= TOKENIZER_ALPHABET || r->byte_of[c] < 0) {
            *out = key;
            return OK;
        }
        bytes[len++] = (char)r->byte_of[c];
        at += n;
    }
    *out = (struct text_span){ bytes, len };
    return OK;
}

void tokenizer_rows_eos(struct tokenizer_rows *r, u32 id)
{
    struct tokenizer_tables *t = r->t;
    for (u32 i = 0; i < t->eos_count; i++)
        if (t->eos[i] == id) return;
    if (t->eos_count < TOKENIZER_EOS_MAX) t->eos[t->eos_count++] = id;
}

void tokenizer_rows_eos_named(struct tokenizer_rows *r, const char *spelling, u64 len)
{
    for (u32 id = 0; id < r->count; id++) {
        const struct tokenizer_row *row = &r->row[id];
        if (row->added && row->bytes.len == len && memcmp(row->bytes.bytes, spelling, len) == 0)
            tokenizer_rows_eos(r, id);
    }
}

static enum vocab_kind kind_of(const struct tokenizer_rows *r, u32 id)
{
    static const struct { const char *spelling; enum vocab_kind kind; } tags[] = {
        { "<think>", VOCAB_THINK_OPEN }, { "</think>", VOCAB_THINK_CLOSE },
        { "<tool_call>", VOCAB_CALL_OPEN }, { "</tool_call>", VOCAB_CALL_CLOSE },
    };
    const struct tokenizer_row *row = &r->row[id];
    if (!row->known) return VOCAB_PADDING;
    for (u32 i = 0; i < r->t->eos_count; i++)
        if (r->t->eos[i] == id) return VOCAB_TURN_END;
    if (!row->added) return VOCAB_TEXT;
    for (u32 i = 0; i < COUNT_OF(tags); i++)
        if (text_span_is(row->bytes, tags[i].spelling)) return tags[i].kind;
    return row->special ? VOCAB_SPECIAL : VOCAB_TEXT;
}

static enum err fill_vocab(struct tokenizer_rows *r)
{
    struct tokenizer_tables *t = r->t;
    u64 bytes = 0;
    for (u32 id = 0; id < r->count; id++) bytes += r->row[id].bytes.len;
    t->vocab_memory = arena_heap_alloc(vocab_bytes(r->count, bytes));
    if (t->vocab_memory == NULL) return tokenizer_rows_no_memory();
    vocab_open(&t->vocab, t->vocab_memory, r->count, bytes);
    for (u32 id = 0; id < r->count; id++) {
        const struct tokenizer_row *row = &r->row[id];
        TRY(vocab_put(&t->vocab, row->bytes.bytes, row->bytes.len, kind_of(r, id)));
        if (row->known) t->known_count = id + 1;
    }
    return OK;
}

/* Added tokens by first byte, longest first among them (insertion: a few dozen of them). */
static enum err fill_added(struct tokenizer_rows *r)
{
    struct tokenizer_tables *t = r->t;
    t->added = arena_heap_alloc(MAX(t->added_count, 1u) * sizeof *t->added);
    if (t->added == NULL) return tokenizer_rows_no_memory();
    u32 count = 0;
    for (u32 id = 0; id < r->count; id++) {
        if (!r->row[id].added) continue;
        struct vocab_piece p = vocab_piece(&t->vocab, id);
        struct tokenizer_added row = { id, p.len, p.bytes, r->row[id].special };
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

enum err tokenizer_rows_fill(struct tokenizer_rows *r)
{
    TRY(fill_vocab(r));
    return fill_added(r);
}

enum err tokenizer_rows_bpe(struct tokenizer_rows *r, u64 merge_cap)
{
    u8 *added = text_pool_take(&r->pool, r->count);
    if (added == NULL) return tokenizer_rows_no_memory();
    for (u32 id = 0; id < r->count; id++) added[id] = r->row[id].added;
    return bpe_open(&r->t->bpe, &r->t->vocab, added, merge_cap);
}
