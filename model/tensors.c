/* model/tensors.c - reading safetensors headers with every length checked first. */
#include "model/tensors.h"

#include <string.h>

#include "arena/base/hash.h"
#include "arena/base/jsontext.h"

enum { INDEX_BYTES_MAX = 64 << 20, HEADER_DEPTH = 4, DIM_MAX = 8 };

static const struct { const char *word; u32 type; u32 bytes; } TYPES[] = {
    { "BF16", TENSORS_BF16, 2 }, { "F16", TENSORS_F16, 2 }, { "F32", TENSORS_F32, 4 },
    { "F8_E4M3", TENSORS_F8_E4M3, 1 }, { "F64", TENSORS_OTHER, 8 }, { "I64", TENSORS_OTHER, 8 },
    { "U64", TENSORS_OTHER, 8 }, { "I32", TENSORS_OTHER, 4 }, { "U32", TENSORS_OTHER, 4 },
    { "I16", TENSORS_OTHER, 2 }, { "U16", TENSORS_OTHER, 2 }, { "I8", TENSORS_OTHER, 1 },
    { "U8", TENSORS_OTHER, 1 }, { "BOOL", TENSORS_OTHER, 1 }, { "F8_E5M2", TENSORS_OTHER, 1 },
};

/* A JSON string without escapes as a span of the text; false when it is something else. */
static bool plain(struct jsontext v, u32 bytes_max, const char **out, u32 *bytes_out)
{
    if (v.kind != JSONTEXT_STRING || v.len < 3 || v.len - 2 > bytes_max) return false;
    if (memchr(v.bytes, '\\', v.len) != NULL) return false;
    *out = v.bytes + 1;
    *bytes_out = (u32)(v.len - 2);
    return true;
}

/* Type, dims and byte range of one entry; `elements` says how many bytes it must have. */
static enum err read_entry(const char *file, struct jsontext value, u64 data_bytes,
                           struct tensor_row *row, u64 offsets[2])
{
    struct jsontext dtype = jsontext_member(value, "dtype"), item;
    struct jsontext shape = jsontext_member(value, "shape");
    struct jsontext range = jsontext_member(value, "data_offsets");
    struct jsontext_walk walk;
    int n = (int)row->name_bytes;
    u64 want = 1;
    u32 k = 0;
    if (dtype.kind != JSONTEXT_STRING || shape.kind != JSONTEXT_ARRAY ||
        range.kind != JSONTEXT_ARRAY || jsontext_count(range) != 2)
        return fail(ERR_FORMAT, "%s: tensor %.*s: dtype (a string), shape (an array) and "
                    "data_offsets (two integers) are expected", file, n, row->name);
    while (k < COUNT_OF(TYPES) && !jsontext_is(dtype, TYPES[k].word)) k++;
    if (k == COUNT_OF(TYPES))
        return fail(ERR_UNSUPPORTED, "%s: tensor %.*s: dtype %.*s is not known", file, n,
                    row->name, (int)MIN(dtype.len, 20), dtype.bytes);
    row->type = TYPES[k].type;
    row->word = TYPES[k].word;
    want = TYPES[k].bytes;
    jsontext_walk(&walk, shape);
    for (row->dim_count = 0; jsontext_next(&walk, NULL, &item); row->dim_count++) {
        u64 dim;
        if (row->dim_count == DIM_MAX || !jsontext_u64(item, &dim))
            return fail(ERR_FORMAT, "%s: tensor %.*s: shape: at most %d sizes are expected", file,
                        n, row->name, DIM_MAX);
        if (__builtin_mul_overflow(want, dim, &want))
            return fail(ERR_FORMAT, "%s: tensor %.*s: its shape overflows", file, n, row->name);
        if (row->dim_count < TENSORS_DIM_CAP) row->dim[row->dim_count] = dim;
    }
    jsontext_walk(&walk, range);
    for (u32 i = 0; i < 2; i++)
        if (!jsontext_next(&walk, NULL, &item) || !jsontext_u64(item, &offsets[i]))
            return fail(ERR_FORMAT, "%s: tensor %.*s: data_offsets: two integers are expected",
                        file, n, row->name);
    if (offsets[0] > offsets[1] || offsets[1] > data_bytes)
        return fail(ERR_FORMAT, "%s: tensor %.*s: data_offsets [%llu, %llu) lie outside the %llu "
                    "bytes of data (is the file cut short?)", file, n, row->name, (ull)offsets[0],
                    (ull)offsets[1], (ull)data_bytes);
    row->bytes = offsets[1] - offsets[0];
    if (row->bytes != want)
        return fail(ERR_FORMAT, "%s: tensor %.*s: %llu bytes, its shape and dtype need %llu", file,
                    n, row->name, (ull)row->bytes, (ull)want);
    return OK;
}

/* Names are unique over all files, bytes of one file belong to one tensor. */
enum err tensors_add(struct tensors *t, const struct tensor_row *row)
{
    const char *file = t->files->row[row->file].name;
    for (u32 i = 0; i < t->count; i++) {
        const struct tensor_row *other = &t->row[i];
        if (other->hash == row->hash && other->name_bytes == row->name_bytes &&
            memcmp(other->name, row->name, row->name_bytes) == 0)
            return fail(ERR_FORMAT, "%s: tensor %.*s is there twice (also in %s)", file,
                        (int)row->name_bytes, row->name, t->files->row[other->file].name);
        if (other->file == row->file && other->bytes > 0 && row->bytes > 0 &&
            other->data < row->data + row->bytes &&
            row->data < other->data + other->bytes)
            return fail(ERR_FORMAT, "%s: tensors %.*s and %.*s share bytes", file,
                        (int)other->name_bytes, other->name, (int)row->name_bytes, row->name);
    }
    if (t->count == TENSORS_CAP)
        return fail(ERR_LIMIT, "%s: more than %d tensors", file, TENSORS_CAP);
    t->row[t->count++] = *row;
    return OK;
}

static enum err read_file(struct tensors *t, const struct files_row *f)
{
    u64 header = 0;
    struct jsontext top, key, value;
    struct jsontext_walk walk;
    if (f->bytes < 8)
        return fail(ERR_FORMAT, "%s: %llu bytes; a safetensors file begins with 8 bytes of header "
                    "length", f->name, (ull)f->bytes);
    for (u32 i = 0; i < 8; i++) header |= (u64)f->data[i] << (8 * i);
    if (header > TENSORS_HEADER_BYTES_MAX)
        return fail(ERR_LIMIT, "%s: a header of %llu bytes; at most %d are expected", f->name,
                    (ull)header, TENSORS_HEADER_BYTES_MAX);
    if (header > f->bytes - 8)
        return fail(ERR_FORMAT, "%s: a header of %llu bytes in a file of %llu: it is cut short",
                    f->name, (ull)header, (ull)f->bytes);
    if (jsontext_open((const char *)f->data + 8, header, HEADER_DEPTH, &top) != OK)
        return fail(ERR_FORMAT, "%s: the header is not JSON: %.300s", f->name, err_last()->text);
    if (top.kind != JSONTEXT_OBJECT)
        return fail(ERR_FORMAT, "%s: the header is %s; an object is expected", f->name,
                    jsontext_kind_word(top.kind));
    jsontext_walk(&walk, top);
    while (jsontext_next(&walk, &key, &value)) {
        struct tensor_row row = { .file = (u32)(f - t->files->row) };
        u64 offsets[2];
        if (jsontext_is(key, "__metadata__")) continue;
        if (!plain(key, TENSORS_NAME_BYTES - 1, &row.name, &row.name_bytes))
            return fail(ERR_FORMAT, "%s: a tensor's name: 1 to %d plain characters are expected, "
                        "got %.*s", f->name, TENSORS_NAME_BYTES - 1, (int)MIN(key.len, 60),
                        key.bytes);
        TRY(read_entry(f->name, value, f->bytes - 8 - header, &row, offsets));
        row.data = f->data + 8 + header + offsets[0];
        row.hash = hash_64(row.name, row.name_bytes);
        TRY(tensors_add(t, &row));
    }
    return OK;
}

static struct tensor_row *find(struct tensors *t, const char *name, u64 bytes)
{
    u64 hash = hash_64(name, bytes);
    for (u32 i = 0; i < t->count; i++)
        if (t->row[i].hash == hash && t->row[i].name_bytes == bytes &&
            memcmp(t->row[i].name, name, bytes) == 0) return &t->row[i];
    return NULL;
}

struct tensor_row *tensors_find(struct tensors *t, const char *name)
{
    struct tensor_row *row = find(t, name, strlen(name));
    if (row != NULL) row->used = true;
    return row;
}

static bool is_read(const struct tensors *t, const struct files_row *f)
{
    for (u32 i = 0; i < t->count; i++)
        if (&t->files->row[t->row[i].file] == f) return true;
    return false;
}

/* The index's shards, then: each tensor it maps is in the file it says. */
static enum err read_index(struct tensors *t, const struct files_row *index)
{
    struct jsontext top, map, key, value;
    struct jsontext_walk walk;
    if (index->bytes > INDEX_BYTES_MAX)
        return fail(ERR_LIMIT, "%s: %llu bytes; at most %d are expected", index->name,
                    (ull)index->bytes, INDEX_BYTES_MAX);
    if (jsontext_open((const char *)index->data, index->bytes, 16, &top) != OK)
        return fail(ERR_FORMAT, "%s: not JSON: %.300s", index->name, err_last()->text);
    map = jsontext_member(top, "weight_map");
    if (map.kind != JSONTEXT_OBJECT)
        return fail(ERR_FORMAT, "%s: weight_map: an object {tensor: file} is expected",
                    index->name);
    for (u32 pass = 0; pass < 2; pass++) {
        jsontext_walk(&walk, map);
        while (jsontext_next(&walk, &key, &value)) {
            const char *name, *file;
            u32 name_bytes, file_bytes;
            char word[FILES_NAME_BYTES];
            const struct files_row *shard;
            if (!plain(key, TENSORS_NAME_BYTES - 1, &name, &name_bytes) ||
                !plain(value, FILES_NAME_BYTES - 1, &file, &file_bytes))
                return fail(ERR_FORMAT, "%s: weight_map: plain names are expected, got %.*s: %.*s",
                            index->name, (int)MIN(key.len, 60), key.bytes,
                            (int)MIN(value.len, 60), value.bytes);
            memcpy(word, file, file_bytes);
            word[file_bytes] = 0;
            if (files_get(t->files, word, &shard) != OK)
                return fail(err_last()->code, "%s: tensor %.*s: its shard: %.300s", index->name,
                            (int)name_bytes, name, err_last()->text);
            if (pass == 0 && !is_read(t, shard)) TRY(read_file(t, shard));
            const struct tensor_row *row = pass == 0 ? NULL : find(t, name, name_bytes);
            if (pass == 1 && (row == NULL || &t->files->row[row->file] != shard))
                return fail(ERR_FORMAT, "%s: tensor %.*s is said to be in %s, which does not hold "
                            "it", index->name, (int)name_bytes, name, word);
        }
    }
    return OK;
}

enum err tensors_open(struct tensors *t, struct files *files)
{
    const struct files_row *index, *single;
    t->files = files;
    t->count = 0;
    TRY(files_try(files, "model.safetensors.index.json", &index));
    if (index != NULL) return read_index(t, index);
    TRY(files_try(files, "model.safetensors", &single));
    if (single == NULL)
        return fail(ERR_NOT_FOUND, "%s: there is neither model.safetensors nor "
                    "model.safetensors.index.json", files->dir);
    return read_file(t, single);
}
