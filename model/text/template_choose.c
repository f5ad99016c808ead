/* model/text/template_choose.c - which of the four templates a model means. */
#include "model/text/template.h"

#include <string.h>

#include "arena/base/sha256.h"
#include "arena/heap.h"

/* SHA-256 of the published template texts (chat.md 1). */
static const char *const digests[TEMPLATE_COUNT] = {
    [TEMPLATE_38] = "c3cf9e34abf4f9e36c2d72165aa9c132d3e2a725b6c2586aaa3a8af9d7a81041",
    [TEMPLATE_36] = "e84f32a23fdda27689f868aa4a1a5621f41133e51a48d7f3efcbea2839574259",
    [TEMPLATE_35] = "a4aee8afcf2e0711942cf848899be66016f8d14a889ff9ede07bca099c28f715",
    [TEMPLATE_35_SMALL] = "273d8e0e683b885071fb17e08d71e5f2a5ddfb5309756181681de4f5a1822d80",
};

static const struct text_source heap_source = { arena_heap_alloc, arena_heap_free };

enum { FILE_POOL_MAX = 1 << 24 };

static u32 named(struct text_span name)
{
    for (u32 id = 0; id < TEMPLATE_COUNT; id++)
        if (text_span_is(name, template_name((enum template_id)id))) return id;
    return NONE;
}

/* By the digest of the text as it is, without its last newline, or with one more. */
static enum err by_digest(struct text_span text, struct text_pool *pool, u32 *id)
{
    char *copy = text_pool_take(pool, text.len + 1), hex[3][65];
    if (copy == NULL) return fail(ERR_MEMORY, "no memory to read the chat template");
    memcpy(copy, text.bytes, text.len);
    copy[text.len] = '\n';
    sha256_hex(copy, text.len, hex[0]);
    sha256_hex(copy, text.len + 1, hex[1]);
    sha256_hex(copy, text.len - (text.len > 0 && text.bytes[text.len - 1] == '\n'), hex[2]);
    for (*id = 0; *id < TEMPLATE_COUNT; (*id)++)
        for (u32 i = 0; i < 3; i++)
            if (strcmp(hex[i], digests[*id]) == 0) return OK;
    return fail(ERR_UNSUPPORTED, "the model's chat template (sha256 %.16s, %llu bytes) is none of "
                "the built-in ones: name one with --template 3.8, 3.6, 3.5 or 3.5-small", hex[0],
                (ull)text.len);
}

/* "chat_template" is a string, or a list of {name, template} with one named default. */
static struct jsontext template_member(struct jsontext config)
{
    struct jsontext v = jsontext_member(config, "chat_template"), item;
    if (v.kind != JSONTEXT_ARRAY) return v;
    struct jsontext_walk w;
    jsontext_walk(&w, v);
    while (jsontext_next(&w, NULL, &item))
        if (jsontext_is(jsontext_member(item, "name"), "default"))
            return jsontext_member(item, "template");
    return (struct jsontext){ 0 };
}

static enum err choose(const struct template_source *source, struct text_pool *pool, u32 *id)
{
    struct jsontext config = { 0 };
    if (source->tokenizer_config.len > 0 &&
        jsontext_open(source->tokenizer_config.bytes, source->tokenizer_config.len,
                      JSONTEXT_DEPTH_MAX, &config) != OK)
        return fail(ERR_FORMAT, "tokenizer_config.json: %s", err_last()->text);
    struct jsontext name = jsontext_member(config, "holdfast_chat_template");
    if (name.kind == JSONTEXT_STRING) {
        *id = named(jsontext_string(name, pool));
        if (*id != NONE) return OK;
        return fail(ERR_UNSUPPORTED, "tokenizer_config.json: holdfast_chat_template: expected 3.8, "
                    "3.6, 3.5 or 3.5-small");
    }
    if (source->jinja.len > 0) return by_digest(source->jinja, pool, id);
    struct jsontext text = template_member(config);
    if (text.kind != JSONTEXT_STRING)
        return fail(ERR_UNSUPPORTED, "the model has no chat template: name one with --template "
                    "3.8, 3.6, 3.5 or 3.5-small");
    struct text_span decoded = jsontext_string(text, pool);
    if (decoded.bytes == NULL) return fail(ERR_MEMORY, "no memory to read the chat template");
    return by_digest(decoded, pool, id);
}

enum err template_choose(const struct template_source *source, enum template_id *out)
{
    u32 id = NONE;
    if (source->name != NULL && source->name[0] != 0) {
        id = named((struct text_span){ source->name, strlen(source->name) });
        if (id == NONE)
            return fail(ERR_USAGE, "--template %s: expected 3.8, 3.6, 3.5 or 3.5-small",
                        source->name);
        *out = (enum template_id)id;
        return OK;
    }
    struct text_pool pool;
    text_pool_open(&pool, &heap_source, FILE_POOL_MAX);
    enum err code = choose(source, &pool, &id);
    text_pool_close(&pool);
    if (code == OK) *out = (enum template_id)id;
    return code;
}
