/* budget/dump_pack.c - walks a JSON value and writes it as msgpack; depth as json_open allows. */
#include "budget/dump_pack.h"

#include "arena/base/pack.h"

static enum err put(const struct json_at *at, struct pack_out *out);

static enum err put_object(const struct json_at *at, struct pack_out *out)
{
    struct json_at member;
    const char *key;
    void *cursor = NULL;
    pack_map(out, json_count(at));
    while (json_next(at, &cursor, &key, &member)) {
        pack_cstr(out, key);
        TRY(put(&member, out));
    }
    return OK;
}

static enum err put_array(const struct json_at *at, struct pack_out *out)
{
    u32 count = json_count(at);
    pack_array(out, count);
    for (u32 i = 0; i < count; i++) {
        struct json_at item;
        TRY(json_item(at, i, &item));
        TRY(put(&item, out));
    }
    return OK;
}

/* Recursion: PACK_DEPTH_MAX at most, the limit of the text's reader. */
static enum err put(const struct json_at *at, struct pack_out *out)
{
    bool yes;
    i64 number;
    f64 real;
    const char *text;
    u64 bytes;
    switch (json_kind(at)) {
    case JSON_IS_BOOL:
        TRY(json_bool(at, NULL, &yes));
        pack_bool(out, yes);
        return OK;
    case JSON_IS_INTEGER:
        TRY(json_i64(at, NULL, &number));
        if (number >= 0) pack_u64(out, (u64)number);
        else pack_i64(out, number);
        return OK;
    case JSON_IS_REAL:
        TRY(json_f64(at, NULL, &real));
        pack_f64(out, real);
        return OK;
    case JSON_IS_STR:
        TRY(json_str(at, NULL, &text, &bytes));
        pack_str(out, text, (u32)bytes);
        return OK;
    case JSON_IS_ARRAY:  return put_array(at, out);
    case JSON_IS_OBJECT: return put_object(at, out);
    default:
        pack_nil(out);
        return OK;
    }
}

enum err dump_pack(const char *text, u64 bytes, struct json_out *out)
{
    struct json_limits limits = { .bytes_max = bytes, .depth_max = PACK_DEPTH_MAX };
    struct pack_out pack = { 0 };
    struct json_doc doc;
    struct json_at root;
    TRY(json_open(text, bytes, limits, "dump", &doc, &root));
    enum err e = put(&root, &pack);
    if (e == OK) e = pack_out_check(&pack);
    if (e == OK) json_put_plain(out, (const char *)pack.bytes, pack.count);
    pack_out_close(&pack);
    json_close(&doc);
    return e;
}
