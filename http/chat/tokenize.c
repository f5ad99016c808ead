/* http/chat/tokenize.c - llama.cpp's and vLLM's shapes over the same tokenizer. */
#include "http/chat/tokenize.h"

#include "arena/heap.h"
#include "http/chat/fields.h"

#include <string.h>

enum { TOKENIZE_POOL_BYTES = 256 << 20, TOKENIZE_TEXT_BYTES = 256 << 20 };

static void put_ids(struct json_out *out, const u32 *ids, u64 count)
{
    json_put_key(out, "tokens");
    json_put_array(out);
    for (u64 i = 0; i < count; i++) json_put_u64(out, ids[i]);
    json_put_array_end(out);
}

/* llama.cpp's with_pieces: {"id","piece"}; a piece that is no UTF-8 is an array of bytes. */
static void put_pieces(const struct chat_model *m, struct json_out *out, const u32 *ids, u64 count)
{
    const struct vocab *vocab = tokenizer_vocab(m->tokenizer);
    json_put_key(out, "tokens");
    json_put_array(out);
    for (u64 i = 0; i < count; i++) {
        struct vocab_piece p = vocab_piece(vocab, ids[i]);
        json_put_object(out);
        json_put_key(out, "id");
        json_put_u64(out, ids[i]);
        json_put_key(out, "piece");
        if (text_utf8_valid(p.bytes, p.len) == p.len) {
            json_put_str(out, p.bytes, p.len);
        } else {
            json_put_array(out);
            for (u32 b = 0; b < p.len; b++) json_put_u64(out, (u8)p.bytes[b]);
            json_put_array_end(out);
        }
        json_put_object_end(out);
    }
    json_put_array_end(out);
}

static bool ids_of_text(const struct chat_model *m, struct jsontext body, const char *name,
                        struct json_out *out, struct refusal *r)
{
    struct text_pool pool;
    struct tokenizer_ids ids = {0};
    struct text_span s;
    bool specials, pieces, ok;
    text_pool_open(&pool, &chat_model_heap, TOKENIZE_POOL_BYTES);
    ok = fields_text(body, name, &pool, &s, r) &&
         fields_bool(body, "parse_special", true, &specials, r) &&
         fields_bool(body, "with_pieces", false, &pieces, r);
    if (ok) {
        struct tokenizer_segment all = { s.len, TOKENIZER_MESSAGE };
        struct tokenizer_text text = { .bytes = s.bytes, .len = s.len,
            .segments = specials ? NULL : &all, .segment_count = specials ? 0 : 1 };
        enum err code = s.len == 0 ? OK : tokenizer_encode(m->tokenizer, &text, &ids);
        if (code != OK) ok = refusal_note(r, code, name);
    }
    if (ok) {
        json_put_object(out);
        if (strcmp(name, "prompt") == 0) {
            json_put_key(out, "count");
            json_put_u64(out, ids.count);
            json_put_key(out, "max_model_len");
            json_put_u64(out, m->ctx);
        }
        if (pieces) put_pieces(m, out, ids.id, ids.count);
        else put_ids(out, ids.id, ids.count);
        json_put_object_end(out);
    }
    tokenizer_ids_close(&ids);
    text_pool_close(&pool);
    return ok;
}

bool tokenize_ids(const struct chat_model *m, const struct request_source *source,
                  struct json_out *out, struct refusal *r)
{
    struct jsontext body;
    struct request q;
    if (!fields_open(source->body, source->body_bytes, m->json_depth, &body, r)) return false;
    if (fields_given(body, "content")) return ids_of_text(m, body, "content", out, r);
    if (fields_given(body, "prompt")) return ids_of_text(m, body, "prompt", out, r);
    if (!fields_given(body, "messages"))
        return refusal_bad(r, NULL, "expected `content`, `prompt` or `messages`");
    if (!request_render(m, source, true, &q, r)) return false;
    json_put_object(out);
    json_put_key(out, "count");
    json_put_u64(out, q.ids.count);
    json_put_key(out, "max_model_len");
    json_put_u64(out, m->ctx);
    put_ids(out, q.ids.id, q.ids.count);
    json_put_object_end(out);
    request_close(&q);
    return true;
}

bool tokenize_text(const struct chat_model *m, const struct request_source *source,
                   struct json_out *out, struct refusal *r)
{
    struct jsontext body, item;
    struct jsontext_walk w;
    if (!fields_open(source->body, source->body_bytes, m->json_depth, &body, r)) return false;
    struct jsontext list = jsontext_member(body, "tokens");
    if (list.kind != JSONTEXT_ARRAY)
        return refusal_bad(r, "tokens", "tokens: expected an array of token ids, got %s",
                           jsontext_kind_word(list.kind));
    struct text bytes, utf8_text;
    struct text_utf8 utf8 = {0};
    text_open_growing(&bytes, &chat_model_heap, TOKENIZE_TEXT_BYTES);
    text_open_growing(&utf8_text, &chat_model_heap, TOKENIZE_TEXT_BYTES);
    jsontext_walk(&w, list);
    bool ok = true;
    for (u64 i = 0; ok && jsontext_next(&w, NULL, &item); i++) {
        u64 id;
        if (!jsontext_u64(item, &id) || id >= tokenizer_count(m->tokenizer)) {
            ok = refusal_bad(r, "tokens", "tokens[%llu]: expected a token id below %u", (ull)i,
                             tokenizer_count(m->tokenizer));
        } else {
            u32 one = (u32)id;
            tokenizer_decode(m->tokenizer, &one, 1, &bytes);
        }
    }
    text_utf8_feed(&utf8, bytes.data, bytes.len, &utf8_text);
    text_utf8_end(&utf8, &utf8_text);
    if (ok) {
        json_put_object(out);
        json_put_key(out, "content");
        json_put_str(out, utf8_text.data, utf8_text.len);
        json_put_key(out, "prompt");
        json_put_str(out, utf8_text.data, utf8_text.len);
        json_put_object_end(out);
    }
    text_close(&bytes);
    text_close(&utf8_text);
    return ok;
}

bool tokenize_prompt(const struct chat_model *m, const struct request_source *source,
                     struct json_out *out, struct refusal *r)
{
    struct request q;
    if (!request_render(m, source, false, &q, r)) return false;
    json_put_object(out);
    json_put_key(out, "prompt");
    json_put_str(out, q.prompt.text.data, q.prompt.text.len);
    json_put_object_end(out);
    request_close(&q);
    return true;
}

static void put_model(const struct chat_model *m, struct json_out *out)
{
    json_put_object(out);
    json_put_key(out, "id");
    json_put_cstr(out, m->name);
    json_put_key(out, "object");
    json_put_cstr(out, "model");
    json_put_key(out, "created");
    json_put_u64(out, m->created_s);
    json_put_key(out, "owned_by");
    json_put_cstr(out, "holdfast");
    json_put_key(out, "context_length");
    json_put_u64(out, m->ctx);
    json_put_key(out, "max_model_len");
    json_put_u64(out, m->ctx);
    json_put_key(out, "meta");
    json_put_object(out);
    json_put_key(out, "n_ctx");
    json_put_u64(out, m->ctx);
    json_put_object_end(out);
    json_put_object_end(out);
}

bool tokenize_models(const struct chat_model *m, const char *id, struct json_out *out,
                     struct refusal *r)
{
    if (id != NULL && strcmp(id, m->name) != 0) {
        refusal_set(r, 404, "model_not_found", "model", "the model \"%.256s\" is not served here; "
                    "this server has \"%s\"", id, m->name);
        return false;
    }
    if (id != NULL) { put_model(m, out); return true; }
    json_put_object(out);
    json_put_key(out, "object");
    json_put_cstr(out, "list");
    json_put_key(out, "data");
    json_put_array(out);
    put_model(m, out);
    json_put_array_end(out);
    json_put_object_end(out);
    return true;
}
