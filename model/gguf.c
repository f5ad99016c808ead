/* model/gguf.c - walking GGUF headers with a cursor that never leaves the file. */
#include "model/gguf.h"

#include <stdio.h>
#include <string.h>

#include "arena/base/hash.h"

enum { HEAD_BYTES = 24, VERSION = 3 };

/* Blocks of every known type: values, bytes.  `type` OTHER: listed, not served. */
static const struct { u32 id; u32 type; const char *word; u32 values, bytes; } TYPES[] = {
    { 0, TENSORS_F32, "F32", 1, 4 },        { 1, TENSORS_F16, "F16", 1, 2 },
    { 30, TENSORS_BF16, "BF16", 1, 2 },     { 8, TENSORS_Q8_0, "Q8_0", 32, 34 },
    { 2, TENSORS_Q4_0, "Q4_0", 32, 18 },    { 12, TENSORS_Q4_K, "Q4_K", 256, 144 },
    { 13, TENSORS_Q5_K, "Q5_K", 256, 176 }, { 14, TENSORS_Q6_K, "Q6_K", 256, 210 },
    { 3, TENSORS_OTHER, "Q4_1", 32, 20 },   { 6, TENSORS_OTHER, "Q5_0", 32, 22 },
    { 7, TENSORS_OTHER, "Q5_1", 32, 24 },   { 10, TENSORS_OTHER, "Q2_K", 256, 84 },
    { 11, TENSORS_OTHER, "Q3_K", 256, 110 }, { 20, TENSORS_OTHER, "IQ4_NL", 32, 18 },
    { 23, TENSORS_OTHER, "IQ4_XS", 256, 136 }, { 39, TENSORS_OTHER, "MXFP4", 32, 17 },
    { 40, TENSORS_OTHER, "NVFP4", 64, 36 },
};

static const u8 KIND_BYTES[GGUF_KINDS] = {
    [GGUF_U8] = 1, [GGUF_I8] = 1, [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

struct cursor { const char *file; const u8 *base; u64 at, bytes; };

static u64 read_le(const u8 *at, u32 bytes)
{
    u64 value = 0;
    for (u32 i = 0; i < bytes; i++) value |= (u64)at[i] << (8 * i);
    return value;
}

static enum err cut_short(const struct cursor *c, u64 need, const char *what)
{
    return fail(ERR_FORMAT, "%s: %s at byte %llu needs %llu bytes, the file has %llu: it is cut "
                "short", c->file, what, (ull)c->at, (ull)need, (ull)c->bytes);
}

/* An integer of `bytes` bytes; the cursor moves behind it. */
static enum err take(struct cursor *c, u32 bytes, const char *what, u64 *out)
{
    if (bytes > c->bytes - c->at) return cut_short(c, bytes, what);
    *out = read_le(c->base + c->at, bytes);
    c->at += bytes;
    return OK;
}

static enum err take_string(struct cursor *c, const char *what, struct text_span *out)
{
    u64 len = 0;
    TRY(take(c, 8, what, &len));
    if (len > c->bytes - c->at) return cut_short(c, len, what);
    *out = (struct text_span){ (const char *)c->base + c->at, len };
    c->at += len;
    return OK;
}

/* A name of a key or a tensor: 1 to max printable characters, so that it can stand in an error. */
static enum err take_name(struct cursor *c, u64 max, const char *what, struct text_span *out)
{
    u64 from = c->at;
    TRY(take_string(c, what, out));
    if (out->len == 0 || out->len > max)
        return fail(ERR_LIMIT, "%s: %s at byte %llu has %llu bytes; 1 to %llu are expected",
                    c->file, what, (ull)from, (ull)out->len, (ull)max);
    for (u64 i = 0; i < out->len; i++)
        if (out->bytes[i] <= ' ' || out->bytes[i] > '~')
            return fail(ERR_FORMAT, "%s: %s at byte %llu holds a byte %02x; printable ASCII is "
                        "expected", c->file, what, (ull)from, (u8)out->bytes[i]);
    return OK;
}

/* ---------------------------------------------------------------- metadata */

/* Passes `count` items of `kind`: fixed width, or strings one by one. */
static enum err pass_items(struct cursor *c, const char *what, u32 kind, u64 count)
{
    struct text_span unused;
    u64 each = kind == GGUF_STRING ? 8 : KIND_BYTES[kind], room = (c->bytes - c->at) / each;
    if (count > room)
        return fail(ERR_FORMAT, "%s: %s at byte %llu has %llu items of %llu bytes or more, the "
                    "file has room for %llu: it is cut short", c->file, what, (ull)c->at,
                    (ull)count, (ull)each, (ull)room);
    if (kind == GGUF_STRING) {
        for (u64 i = 0; i < count; i++) TRY(take_string(c, what, &unused));
        return OK;
    }
    c->at += count * each;
    return OK;
}

static enum err take_key(struct cursor *c, struct gguf *g)
{
    struct gguf_key k = { .count = 1 };
    char what[GGUF_KEY_BYTES + 8];
    u64 kind = 0, from;
    TRY(take_name(c, GGUF_KEY_BYTES, "a key's name", &k.name));
    snprintf(what, sizeof what, "key %.*s", (int)k.name.len, k.name.bytes);
    for (u32 i = 0; i < g->key_count; i++)
        if (g->key[i].name.len == k.name.len &&
            memcmp(g->key[i].name.bytes, k.name.bytes, k.name.len) == 0)
            return fail(ERR_FORMAT, "%s: %s is there twice (byte %llu)", c->file, what,
                        (ull)c->at);
    from = c->at;
    TRY(take(c, 4, what, &kind));
    if (kind == GGUF_ARRAY) {
        k.array = true;
        from = c->at;
        TRY(take(c, 4, what, &kind));
        TRY(take(c, 8, what, &k.count));
    }
    if (kind >= GGUF_KINDS || kind == GGUF_ARRAY)
        return fail(ERR_UNSUPPORTED, "%s: %s at byte %llu has %s %llu; 0 to 12%s is expected",
                    c->file, what, (ull)from, k.array ? "items of type" : "type", (ull)kind,
                    k.array ? " but 9 (arrays in arrays)" : "");
    k.kind = (u32)kind;
    k.at = c->base + c->at;
    from = c->at;
    TRY(pass_items(c, what, k.kind, k.count));
    k.bytes = c->at - from;
    g->key[g->key_count++] = k;
    return OK;
}

static enum err take_head(struct cursor *c, struct gguf *g)
{
    u64 version = 0, keys = 0;
    if (c->bytes < HEAD_BYTES || memcmp(c->base, "GGUF", 4) != 0)
        return fail(ERR_FORMAT, "%s: %llu bytes that do not begin with GGUF and a head of %d "
                    "bytes", c->file, (ull)c->bytes, HEAD_BYTES);
    c->at = 4;
    TRY(take(c, 4, "the version", &version));
    if (version != VERSION)
        return fail(ERR_UNSUPPORTED, "%s: version %llu at byte 4; %d is expected", c->file,
                    (ull)version, VERSION);
    TRY(take(c, 8, "the tensor count", &g->tensor_count));
    TRY(take(c, 8, "the key count", &keys));
    if (g->tensor_count > TENSORS_CAP)
        return fail(ERR_LIMIT, "%s: %llu tensors (byte 8); at most %d are expected", c->file,
                    (ull)g->tensor_count, TENSORS_CAP);
    if (keys > GGUF_KEY_CAP)
        return fail(ERR_LIMIT, "%s: %llu keys (byte 16); at most %d are expected", c->file,
                    (ull)keys, GGUF_KEY_CAP);
    for (u64 i = 0; i < keys; i++) TRY(take_key(c, g));
    return OK;
}

/* Head and keys of one file. */
static enum err read_part(const struct files_row *file, struct gguf *g)
{
    struct cursor c = { file->name, file->data, 0, file->bytes };
    *g = (struct gguf){ .file = file, .align = 32 };
    TRY(take_head(&c, g));
    g->infos_at = c.at;
    if (gguf_find(g, "general.alignment") != NULL)
        TRY(gguf_u64(g, "general.alignment", &g->align));
    if (g->align == 0 || g->align > GGUF_ALIGN_MAX || (g->align & (g->align - 1)) != 0)
        return fail(ERR_FORMAT, "%s: key general.alignment is %llu; a power of two up to %d is "
                    "expected", file->name, (ull)g->align, GGUF_ALIGN_MAX);
    return OK;
}

enum err gguf_open(struct files *files, struct gguf *out)
{
    const struct files_row *file;
    ASSERT(files->gguf[0] != 0);
    TRY(files_get(files, files->gguf, &file));
    return read_part(file, out);
}

/* ---------------------------------------------------------------- tensors */

static enum err take_type(struct cursor *c, const char *what, struct tensor_row *row, u32 *values,
                          u32 *bytes)
{
    u64 id = 0, from = c->at;
    u32 k = 0;
    TRY(take(c, 4, what, &id));
    while (k < COUNT_OF(TYPES) && TYPES[k].id != id) k++;
    if (k == COUNT_OF(TYPES))
        return fail(ERR_UNSUPPORTED, "%s: %s: type %llu at byte %llu is not known", c->file, what,
                    (ull)id, (ull)from);
    row->type = TYPES[k].type;
    row->word = TYPES[k].word;
    *values = TYPES[k].values;
    *bytes = TYPES[k].bytes;
    return OK;
}

/* dims of the file, fastest first, to the row's, outermost first; bytes of the data. */
static enum err take_dims(struct cursor *c, const char *what, struct tensor_row *row)
{
    u64 count = 0, dim[GGUF_DIM_CAP] = { 0 }, values = 1, from = c->at;
    u32 block_values = 1, block_bytes = 0;
    TRY(take(c, 4, what, &count));
    if (count == 0 || count > GGUF_DIM_CAP)
        return fail(ERR_FORMAT, "%s: %s has %llu dims (byte %llu); 1 to %d are expected", c->file,
                    what, (ull)count, (ull)from, GGUF_DIM_CAP);
    for (u64 i = 0; i < count; i++) {
        TRY(take(c, 8, what, &dim[i]));
        if (dim[i] == 0 || __builtin_mul_overflow(values, dim[i], &values))
            return fail(ERR_FORMAT, "%s: %s: dim %llu is %llu (byte %llu): its size is no number "
                        "of 64 bits above 0", c->file, what, (ull)i, (ull)dim[i],
                        (ull)(c->at - 8));
    }
    TRY(take_type(c, what, row, &block_values, &block_bytes));
    if (dim[0] % block_values != 0)
        return fail(ERR_FORMAT, "%s: %s: rows of %llu values; %s has blocks of %u", c->file, what,
                    (ull)dim[0], row->word, block_values);
    if (__builtin_mul_overflow(values / block_values, (u64)block_bytes, &row->bytes))
        return fail(ERR_FORMAT, "%s: %s: its size overflows", c->file, what);
    row->dim_count = (u32)count;
    for (u32 i = 0; i < row->dim_count; i++) row->dim[i] = dim[row->dim_count - 1 - i];
    return OK;
}

/* One info; `offset` counts from the data's start, which the infos' end decides. */
static enum err take_info(struct cursor *c, struct tensor_row *row, u64 *offset)
{
    struct text_span name;
    char what[TENSORS_NAME_BYTES + 8];
    TRY(take_name(c, TENSORS_NAME_BYTES - 1, "a tensor's name", &name));
    row->name = name.bytes;
    row->name_bytes = (u32)name.len;
    row->hash = hash_64(name.bytes, name.len);
    snprintf(what, sizeof what, "tensor %.*s", (int)name.len, name.bytes);
    TRY(take_dims(c, what, row));
    return take(c, 8, what, offset);
}

/* What a walk over all infos fills: a table, or the answer whether a name is there. */
struct walk { struct tensors *table; const char *name; bool found; u64 count; };

/* The infos are walked twice: first to their end, where the data begins, then row by row. */
static enum err read_infos(const struct gguf *g, u32 file_index, struct walk *w)
{
    struct cursor c = { g->file->name, g->file->data, g->infos_at, g->file->bytes };
    u64 offset = 0, data;
    for (u64 i = 0; i < g->tensor_count; i++) {
        struct tensor_row row = { 0 };
        TRY(take_info(&c, &row, &offset));
    }
    data = ALIGN_UP(c.at, g->align);
    if (g->tensor_count > 0 && data > c.bytes)
        return fail(ERR_FORMAT, "%s: the data begins at byte %llu of %llu: it is cut short",
                    c.file, (ull)data, (ull)c.bytes);
    c.at = g->infos_at;
    for (u64 i = 0; i < g->tensor_count; i++) {
        struct tensor_row row = { .file = file_index };
        TRY(take_info(&c, &row, &offset));
        int n = (int)row.name_bytes;
        if (offset % g->align != 0)
            return fail(ERR_FORMAT, "%s: tensor %.*s: offset %llu (byte %llu); a multiple of %llu "
                        "is expected", c.file, n, row.name, (ull)offset, (ull)(c.at - 8),
                        (ull)g->align);
        if (offset > c.bytes - data || row.bytes > c.bytes - data - offset)
            return fail(ERR_FORMAT, "%s: tensor %.*s: %llu bytes at offset %llu lie outside the "
                        "%llu bytes of data (is the file cut short?)", c.file, n, row.name,
                        (ull)row.bytes, (ull)offset, (ull)(c.bytes - data));
        row.data = c.base + data + offset;
        w->count++;
        if (w->table != NULL) TRY(tensors_add(w->table, &row));
        else if (text_span_is((struct text_span){ row.name, row.name_bytes }, w->name))
            w->found = true;
    }
    return OK;
}

/* A key of a split file, `otherwise` without it. */
static enum err split_key(const struct gguf *g, const char *name, u64 otherwise, u64 *out)
{
    *out = otherwise;
    return gguf_find(g, name) == NULL ? OK : gguf_u64(g, name, out);
}

static enum err part_check(const struct gguf *g, u64 part, u64 parts)
{
    u64 number = 0, count = 0;
    TRY(split_key(g, "split.no", 0, &number));
    TRY(split_key(g, "split.count", 1, &count));
    if (number == part && count == parts) return OK;
    return fail(ERR_FORMAT, "%s: split.no %llu of split.count %llu; %llu of %llu is expected%s",
                g->file->name, (ull)number, (ull)count, (ull)part, (ull)parts,
                part == 0 ? " (give the file that ends in -00001-of-...)" : "");
}

/* NAME-00001-of-0000N.gguf -> the name of part `part`; false when it is no such name. */
static bool part_name(const char *first, u64 part, u64 parts, char out[FILES_NAME_BYTES])
{
    char tail[32];
    u64 length = strlen(first);
    int tail_bytes = snprintf(tail, sizeof tail, "-00001-of-%05llu.gguf", (ull)parts);
    if (length < (u64)tail_bytes || strcmp(first + length - (u64)tail_bytes, tail) != 0)
        return false;
    snprintf(out, FILES_NAME_BYTES, "%.*s-%05llu-of-%05llu.gguf", (int)length - tail_bytes, first,
             (ull)part + 1, (ull)parts);
    return true;
}

static enum err walk_infos(struct files *files, struct walk *w)
{
    struct gguf g;
    u64 parts = 1, total = 0;
    TRY(gguf_open(files, &g));
    TRY(split_key(&g, "split.count", 1, &parts));
    parts = MAX(parts, 1ull);
    TRY(split_key(&g, "split.tensors.count", UINT64_MAX, &total));
    if (parts > FILES_CAP)
        return fail(ERR_LIMIT, "%s: split.count is %llu; at most %d is expected", g.file->name,
                    (ull)parts, FILES_CAP);
    for (u64 part = 0; part < parts; part++) {
        char name[FILES_NAME_BYTES];
        const struct files_row *file = g.file;
        if (part > 0) {
            if (!part_name(files->gguf, part, parts, name))
                return fail(ERR_FORMAT, "%s: split.count is %llu; a name ending in -00001-of-"
                            "%05llu.gguf is expected", files->gguf, (ull)parts, (ull)parts);
            TRY(files_get(files, name, &file));
            TRY(read_part(file, &g));
        }
        TRY(part_check(&g, part, parts));
        TRY(read_infos(&g, (u32)(file - files->row), w));
    }
    if (total != UINT64_MAX && total != w->count)
        return fail(ERR_FORMAT, "%s: split.tensors.count is %llu, the files hold %llu tensors",
                    files->gguf, (ull)total, (ull)w->count);
    return OK;
}

enum err gguf_tensors(struct files *files, struct tensors *t)
{
    t->files = files;
    t->count = 0;
    return walk_infos(files, &(struct walk){ .table = t });
}

enum err gguf_has_tensor(struct files *files, const char *name, bool *out)
{
    struct walk w = { .name = name };
    TRY(walk_infos(files, &w));
    *out = w.found;
    return OK;
}

/* ---------------------------------------------------------------- values */

const struct gguf_key *gguf_find(const struct gguf *g, const char *name)
{
    for (u32 i = 0; i < g->key_count; i++)
        if (text_span_is(g->key[i].name, name)) return &g->key[i];
    return NULL;
}

static bool is_whole(u32 kind)
{
    return kind != GGUF_F32 && kind != GGUF_F64 && kind != GGUF_STRING;
}

static enum err get(const struct gguf *g, const char *name, bool array,
                    const struct gguf_key **out)
{
    *out = gguf_find(g, name);
    if (*out == NULL)
        return fail(ERR_NOT_FOUND, "%s: there is no key %s", g->file->name, name);
    if ((*out)->array != array)
        return fail(ERR_FORMAT, "%s: key %s is %s; %s is expected", g->file->name, name,
                    array ? "one value" : "an array", array ? "an array" : "one value");
    return OK;
}

static enum err wrong(const struct gguf *g, const struct gguf_key *k, const char *expected)
{
    return fail(ERR_FORMAT, "%s: key %.*s (byte %llu) has type %u; %s expected", g->file->name,
                (int)k->name.len, k->name.bytes, (ull)(k->at - g->file->data), k->kind, expected);
}

static bool is_signed(u32 kind)
{
    return kind == GGUF_I8 || kind == GGUF_I16 || kind == GGUF_I32 || kind == GGUF_I64;
}

enum err gguf_number(const struct gguf *g, const struct gguf_key *k, u64 i, u64 *out)
{
    u32 bytes = KIND_BYTES[k->kind];
    ASSERT(i < k->count && is_whole(k->kind));
    u64 value = read_le(k->at + i * bytes, bytes);
    if (is_signed(k->kind) && value >> (8 * bytes - 1) != 0)
        return fail(ERR_FORMAT, "%s: key %.*s: a negative number at byte %llu; 0 or more is "
                    "expected", g->file->name, (int)k->name.len, k->name.bytes,
                    (ull)(k->at - g->file->data) + i * bytes);
    *out = value;
    return OK;
}

enum err gguf_u64(const struct gguf *g, const char *name, u64 *out)
{
    const struct gguf_key *k;
    TRY(get(g, name, false, &k));
    if (!is_whole(k->kind)) return wrong(g, k, "an integer is");
    return gguf_number(g, k, 0, out);
}

enum err gguf_i64(const struct gguf *g, const char *name, i64 *out)
{
    const struct gguf_key *k;
    TRY(get(g, name, false, &k));
    if (!is_whole(k->kind)) return wrong(g, k, "an integer is");
    u32 bytes = KIND_BYTES[k->kind];
    u64 value = read_le(k->at, bytes);
    if (is_signed(k->kind) && value >> (8 * bytes - 1) != 0)
        value |= bytes < 8 ? UINT64_MAX << (8 * bytes) : 0;
    else if (value > INT64_MAX) return wrong(g, k, "an integer below 2^63 is");
    *out = (i64)value;
    return OK;
}

enum err gguf_f64(const struct gguf *g, const char *name, f64 *out)
{
    i64 whole = 0;
    const struct gguf_key *k;
    union { u64 u; f64 f; } wide;
    union { u32 u; f32 f; } narrow;
    TRY(get(g, name, false, &k));
    if (is_whole(k->kind)) {
        TRY(gguf_i64(g, name, &whole));
        *out = (f64)whole;
        return OK;
    }
    if (k->kind == GGUF_STRING) return wrong(g, k, "a float is");
    wide.u = read_le(k->at, KIND_BYTES[k->kind]);
    narrow.u = (u32)wide.u;
    *out = k->kind == GGUF_F64 ? wide.f : (f64)narrow.f;
    return OK;
}

enum err gguf_string(const struct gguf *g, const char *name, struct text_span *out)
{
    const struct gguf_key *k;
    TRY(get(g, name, false, &k));
    if (k->kind != GGUF_STRING) return wrong(g, k, "a string is");
    *out = (struct text_span){ (const char *)k->at + 8, k->bytes - 8 };
    return OK;
}

enum err gguf_strings(const struct gguf *g, const char *name, const struct gguf_key **out)
{
    TRY(get(g, name, true, out));
    return (*out)->kind == GGUF_STRING ? OK : wrong(g, *out, "an array of strings is");
}

enum err gguf_numbers(const struct gguf *g, const char *name, const struct gguf_key **out)
{
    TRY(get(g, name, true, out));
    return is_whole((*out)->kind) ? OK : wrong(g, *out, "an array of integers is");
}

bool gguf_next(const struct gguf_key *k, u64 *at, struct text_span *out)
{
    if (*at >= k->bytes) return false;
    u64 len = read_le(k->at + *at, 8);              /* checked when the file was read         */
    *out = (struct text_span){ (const char *)k->at + *at + 8, len };
    *at += 8 + len;
    return true;
}
