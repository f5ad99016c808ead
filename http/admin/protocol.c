/* http/admin/protocol.c - the admin messages, both sides. */
#include "http/admin/protocol.h"

#include <string.h>

struct op_name { const char *op, *format; };

static const struct op_name names[PROTOCOL_OP_COUNT] = {
    [PROTOCOL_STATS]       = { "stats", "json" },
    [PROTOCOL_MEMORY_TREE] = { "memory", "tree" },
    [PROTOCOL_MEMORY_JSON] = { "memory", "json" },
    [PROTOCOL_MEMORY_MSGPACK] = { "memory", "msgpack" },
    [PROTOCOL_MEMORY_DOT]     = { "memory", "dot" },
    [PROTOCOL_MEMORY_FOLDED]  = { "memory", "folded" },
    [PROTOCOL_SET]            = { "set", "text" },
};

static bool is_text(const char *text, u32 bytes, const char *word)
{
    return strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

/* args.format, or "" when there is none. */
static enum err read_format(struct pack_at root, const char **format, u32 *bytes)
{
    struct pack_at args, at;
    *format = "";
    *bytes = 0;
    if (!pack_find(root, "args", &args)) return OK;
    if (!pack_find(args, "format", &at)) return OK;
    return pack_get_str(args, "format", format, bytes);
}

enum err protocol_read(const void *body, u64 bytes, enum protocol_op *out)
{
    struct pack_at root;
    u64 version;
    const char *op, *format;
    u32 op_bytes, format_bytes;
    TRY(pack_open(body, bytes, PROTOCOL_REQUEST_BYTES, &root));
    TRY(pack_get_u64(root, "v", &version));
    if (version != PROTOCOL_VERSION)
        return fail(ERR_UNSUPPORTED, "v: version %llu is not served; 1 is", (ull)version);
    TRY(pack_get_str(root, "op", &op, &op_bytes));
    TRY(read_format(root, &format, &format_bytes));
    bool known = false;
    for (u32 i = 0; i < PROTOCOL_OP_COUNT; i++) {
        if (!is_text(op, op_bytes, names[i].op)) continue;
        known = true;
        if (format_bytes > 0 && !is_text(format, format_bytes, names[i].format)) continue;
        *out = (enum protocol_op)i;
        return OK;
    }
    if (known)
        return fail(ERR_UNSUPPORTED, "args.format: \"%.*s\" is not served for %.*s",
                    (int)MIN(format_bytes, 40u), format, (int)op_bytes, op);
    return fail(ERR_UNSUPPORTED, "op: \"%.*s\" is not served; stats, memory and set are",
                (int)MIN(op_bytes, 40u), op);
}

enum err protocol_read_set(const void *body, u64 bytes, struct protocol_set *out)
{
    struct pack_at root, args, cap;
    struct pack_item item;
    const char *node;
    u32 node_bytes;
    TRY(pack_open(body, bytes, PROTOCOL_REQUEST_BYTES, &root));
    if (!pack_find(root, "args", &args)) return fail(ERR_FORMAT, "args: set needs node, cap_bytes");
    TRY(pack_get_str(args, "node", &node, &node_bytes));
    if (!pack_find(args, "cap_bytes", &cap) || !pack_next(&cap, &item) ||
        (item.kind != PACK_UINT && item.kind != PACK_NIL))
        return fail(ERR_FORMAT, "args.cap_bytes: expected bytes, or nil for no cap");
    if (node_bytes >= sizeof out->node)
        return fail(ERR_FORMAT, "args.node: no node has such a name");
    memset(out->node, 0, sizeof out->node);
    memcpy(out->node, node, node_bytes);
    out->cap_bytes = item.kind == PACK_NIL ? UINT64_MAX : item.uint;
    return OK;
}

void protocol_put_ok(struct pack_out *out, enum protocol_op op, const char *text, u64 bytes)
{
    ASSERT(op < PROTOCOL_OP_COUNT && bytes <= UINT32_MAX);
    pack_map(out, 2);
    pack_cstr(out, "v");
    pack_u64(out, PROTOCOL_VERSION);
    pack_cstr(out, "ok");
    pack_map(out, 2);
    pack_cstr(out, "format");
    pack_cstr(out, names[op].format);
    bool binary = op == PROTOCOL_MEMORY_MSGPACK;
    pack_cstr(out, binary ? "bin" : "text");
    if (binary) pack_bin(out, text, (u32)bytes);
    else pack_str(out, text, (u32)bytes);
}

void protocol_put_err(struct pack_out *out, enum err code, const char *text)
{
    pack_map(out, 2);
    pack_cstr(out, "v");
    pack_u64(out, PROTOCOL_VERSION);
    pack_cstr(out, "err");
    pack_map(out, 2);
    pack_cstr(out, "code");
    pack_cstr(out, err_word(code));
    pack_cstr(out, "text");
    pack_cstr(out, text);
}

void protocol_put_request(struct pack_out *out, enum protocol_op op)
{
    ASSERT(op < PROTOCOL_OP_COUNT && op != PROTOCOL_SET);
    pack_map(out, 3);
    pack_cstr(out, "v");
    pack_u64(out, PROTOCOL_VERSION);
    pack_cstr(out, "op");
    pack_cstr(out, names[op].op);
    pack_cstr(out, "args");
    pack_map(out, 1);
    pack_cstr(out, "format");
    pack_cstr(out, names[op].format);
}

void protocol_put_set(struct pack_out *out, const char *node, u64 cap_bytes)
{
    pack_map(out, 3);
    pack_cstr(out, "v");
    pack_u64(out, PROTOCOL_VERSION);
    pack_cstr(out, "op");
    pack_cstr(out, names[PROTOCOL_SET].op);
    pack_cstr(out, "args");
    pack_map(out, 2);
    pack_cstr(out, "node");
    pack_cstr(out, node);
    pack_cstr(out, "cap_bytes");
    if (cap_bytes == UINT64_MAX) pack_nil(out);
    else pack_u64(out, cap_bytes);
}

static enum err code_of(const char *word, u32 bytes)
{
    for (u32 i = 1; i < ERR_COUNT; i++)
        if (is_text(word, bytes, err_word((enum err)i))) return (enum err)i;
    return ERR_FORMAT;
}

enum err protocol_read_answer(const void *body, u64 bytes, const char **text_out,
                              u32 *text_bytes_out)
{
    struct pack_at root, part;
    u64 version;
    const char *word, *text;
    u32 word_bytes, text_bytes;
    TRY(pack_open(body, bytes, PROTOCOL_ANSWER_BYTES, &root));
    TRY(pack_get_u64(root, "v", &version));
    if (version != PROTOCOL_VERSION)
        return fail(ERR_UNSUPPORTED, "answer of version %llu; this program knows 1", (ull)version);
    if (pack_find(root, "ok", &part)) {
        struct pack_at bin;
        struct pack_item item;
        if (!pack_find(part, "bin", &bin))
            return pack_get_str(part, "text", text_out, text_bytes_out);
        if (!pack_next(&bin, &item) || item.kind != PACK_BIN)
            return fail(ERR_FORMAT, "ok.bin: expected bytes");
        *text_out = (const char *)item.bytes;
        *text_bytes_out = item.count;
        return OK;
    }
    if (!pack_find(root, "err", &part)) return fail(ERR_FORMAT, "answer without ok or err");
    TRY(pack_get_str(part, "code", &word, &word_bytes));
    TRY(pack_get_str(part, "text", &text, &text_bytes));
    return fail(code_of(word, word_bytes), "%.*s", (int)MIN(text_bytes, 400u), text);
}
