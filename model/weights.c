/* model/weights.c - tensors found, checked, packed, hashed; source pages dropped one by one. */
#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arena/base/file.h"
#include "arena/base/hash.h"
#include "arena/base/log.h"
#include "arena/base/text.h"
#include "arena/extents.h"
#include "model/gguf.h"
#include "model/packed.h"
#include "model/tensors.h"

enum { PIECE_ALIGN = 256, FP8_BLOCK = 128 };

struct weight_row {                     /* one tensor in use                                  */
    struct family_tensor what;
    const struct tensor_row *source, *scale;    /* scale: of block FP8                        */
    struct ops_matrix matrix;
    const f32 *vector;
};
enum { LAYERS_CAP = SHAPE_LAYERS_MAX + 2, LAYER_TENSORS = 16,      /* trunk, none, draft head */
       WEIGHTS_CAP = LAYERS_CAP * LAYER_TENSORS };

static struct {
    struct files *files;
    const struct model_shape *shape;
    struct tensors tensors;
    struct weight_row row[WEIGHTS_CAP];
    u16 find[LAYERS_CAP][ROLE_COUNT];                   /* index + 1 into row                 */
    u32 count;
    u32 arena;
    extent_id extent;
    bool open;
    u64 placed_bytes;                   /* of a file of packed weights under the extent       */
    u64 mapped_bytes;
    u64 hash[2];
    struct weights_progress progress;
} table;

static const char *const PREFIXES[] = { "model.language_model.", "model.", "" };

/* The prefix of this checkpoint's text tensors: the one its embedding has. */
static enum err prefix_find(const char **out)
{
    char name[TENSORS_NAME_BYTES];
    for (u32 i = 0; i < COUNT_OF(PREFIXES); i++) {
        snprintf(name, sizeof name, "%sembed_tokens.weight", PREFIXES[i]);
        if (tensors_find(&table.tensors, name) == NULL) continue;
        *out = PREFIXES[i];
        return OK;
    }
    return fail(ERR_NOT_FOUND, "%s: there is no tensor model.language_model.embed_tokens.weight "
                "(or model.embed_tokens.weight)", table.files->dir);
}

/* The model in an error: its folder, or its GGUF file. */
static const char *model_word(void)
{
    return table.files->gguf[0] != 0 ? table.files->gguf : table.files->dir;
}

static const char *file_of(const struct tensor_row *t) { return table.files->row[t->file].name; }

static u32 type_bytes(u32 type)
{
    return type == TENSORS_F32 ? 4 : type == TENSORS_BF16 || type == TENSORS_F16 ? 2 : 1;
}

static enum err shape_check(const struct weight_row *w, const char *name)
{
    const struct tensor_row *t = w->source;
    const struct family_tensor *f = &w->what;
    bool fits;
    if (f->form == FORM_TAPS)
        fits = (t->dim_count == 3 && t->dim[0] == f->rows && t->dim[1] == 1 &&
                t->dim[2] == f->cols) ||
               (t->dim_count == 2 && t->dim[0] == f->rows && t->dim[1] == f->cols);
    else if (f->form == FORM_MATRIX || f->form == FORM_TABLE)
        fits = t->dim_count == 2 && t->dim[0] == f->rows && t->dim[1] == f->cols;
    else
        fits = t->dim_count == 1 && t->dim[0] == f->rows;
    if (fits) return OK;
    char have[96] = "";
    for (u32 i = 0, at = 0; i < MIN(t->dim_count, TENSORS_DIM_CAP) && at < 80; i++)
        at += (u32)snprintf(have + at, sizeof have - at, i ? ", %llu" : "%llu", (ull)t->dim[i]);
    if (f->cols > 1)
        return fail(ERR_FORMAT, "%s: tensor %s: shape [%s]; [%u, %s%u] is expected", file_of(t),
                    name, have, f->rows, f->form == FORM_TAPS ? "1, " : "", f->cols);
    return fail(ERR_FORMAT, "%s: tensor %s: shape [%s]; [%u] is expected", file_of(t), name, have,
                f->rows);
}

/* Block FP8 comes with its scales beside it. */
static enum err scale_find(struct weight_row *w, const char *name)
{
    char scale[TENSORS_NAME_BYTES + 16];
    u64 rows = (w->what.rows + FP8_BLOCK - 1) / FP8_BLOCK;
    u64 cols = (w->what.cols + FP8_BLOCK - 1) / FP8_BLOCK;
    snprintf(scale, sizeof scale, "%s_scale_inv", name);
    w->scale = tensors_find(&table.tensors, scale);
    if (w->scale == NULL)
        return fail(ERR_NOT_FOUND, "%s: tensor %s is F8_E4M3, and there is no %s",
                    file_of(w->source), name, scale);
    const struct tensor_row *s = w->scale;
    if ((s->type != TENSORS_BF16 && s->type != TENSORS_F32) || s->dim_count != 2 ||
        s->dim[0] != rows || s->dim[1] != cols)
        return fail(ERR_FORMAT, "%s: tensor %s: BF16 or F32 [%llu, %llu] is expected (one scale a "
                    "block of 128 by 128)", file_of(s), scale, (ull)rows, (ull)cols);
    return OK;
}

static enum err aligned(const struct tensor_row *t, const char *name)
{
    if ((uintptr_t)t->data % type_bytes(t->type) == 0) return OK;
    return fail(ERR_FORMAT, "%s: tensor %s: its bytes do not start on a multiple of %u",
                file_of(t), name, type_bytes(t->type));
}

/* Plain types everywhere; matrices also block FP8 and GGUF's blocks, tables the latter. */
static enum err type_check(const struct weight_row *w, const char *name)
{
    u32 type = w->source->type, form = w->what.form;
    bool plain = type == TENSORS_BF16 || type == TENSORS_F16 || type == TENSORS_F32;
    if (plain || (type == TENSORS_F8_E4M3 && form == FORM_MATRIX)) return OK;
    if (type > TENSORS_F8_E4M3 && (form == FORM_MATRIX || form == FORM_TABLE)) return OK;
    bool gguf = table.files->gguf[0] != 0, blocks = form == FORM_MATRIX || form == FORM_TABLE;
    return fail(ERR_UNSUPPORTED, "%s: tensor %s: %s; BF16, F16%s F32%s is expected",
                file_of(w->source), name, w->source->word,
                blocks ? "," : " or", !blocks ? "" : gguf ? ", Q8_0, Q4_0, Q4_K, Q5_K or Q6_K" :
                form == FORM_MATRIX ? " or block F8_E4M3" : "");
}

/* A weight with a scale of its own beside it (some NVFP4 files) means more than it says. */
static enum err scale_absent(const char *name)
{
    char scale[TENSORS_NAME_BYTES];
    u64 length = strlen(name);
    if (table.files->gguf[0] == 0 || length < 7 || strcmp(name + length - 7, ".weight") != 0)
        return OK;
    snprintf(scale, sizeof scale, "%.*s.scale", (int)length - 7, name);
    if (tensors_find(&table.tensors, scale) == NULL) return OK;
    return fail(ERR_UNSUPPORTED, "%s: tensor %s: scaled weights are not served",
                table.files->gguf, scale);
}

/* Finds one tensor in the checkpoint and checks shape, type and place. */
static enum err take_in(const struct family_tensor *what, const char *prefix, u32 layer)
{
    struct weight_row *w = &table.row[table.count];
    char name[TENSORS_NAME_BYTES];
    ASSERT(table.count < WEIGHTS_CAP);
    *w = (struct weight_row){ .what = *what };
    snprintf(name, sizeof name, "%s%s", what->top ? "" : prefix, what->name);
    w->source = tensors_find(&table.tensors, name);
    if (w->source == NULL)
        return fail(ERR_NOT_FOUND, "%s: there is no tensor %s", model_word(), name);
    TRY(shape_check(w, name));
    bool fp8 = w->source->type == TENSORS_F8_E4M3;
    TRY(type_check(w, name));
    TRY(scale_absent(name));
    TRY(aligned(w->source, name));
    if (fp8) TRY(scale_find(w, name));
    if (fp8) TRY(aligned(w->scale, name));
    table.find[layer][what->role] = (u16)++table.count;
    return OK;
}

/* What the checkpoint holds and this version leaves alone, one line. */
static void log_unused(void)
{
    u32 count = 0;
    const struct tensor_row *first = NULL;
    for (u32 i = 0; i < table.tensors.count; i++) {
        if (table.tensors.row[i].used) continue;
        if (first == NULL) first = &table.tensors.row[i];
        count++;
    }
    if (count > 0)
        log_line(LOG_LEVEL_INFO, "weights: %u tensors are not used (%.*s%s)", count,
                 (int)first->name_bytes, first->name, count > 1 ? ", ..." : "");
}

/* How many tensors in use have which type, one line: words that --arithmetic takes. */
static void log_formats(void)
{
    char line[160];
    struct text text;
    text_open(&text, line, sizeof line);
    for (u32 type = TENSORS_BF16; type <= TENSORS_Q6_K; type++) {
        const char *word = NULL;
        u32 count = 0;
        for (u32 i = 0; i < table.count; i++) {
            if (table.row[i].source->type != type) continue;
            word = table.row[i].source->word;
            count++;
        }
        if (count > 0) text_f(&text, "%s%u %s", text.len > 0 ? ", " : "", count, word);
    }
    log_line(LOG_LEVEL_INFO, "weights: %.*s tensors", (int)text.len, line);
}

enum err weights_scan(struct files *files, const struct model_shape *shape,
                      const struct family *family)
{
    const char *prefix = "";
    ASSERT(!table.open);
    table.files = files;
    table.shape = shape;
    table.count = 0;
    memset(table.find, 0, sizeof table.find);
    bool gguf = files->gguf[0] != 0;
    TRY(gguf ? gguf_tensors(files, &table.tensors) : tensors_open(&table.tensors, files));
    if (!gguf) TRY(prefix_find(&prefix));
    u64 total = 0;
    for (u32 layer = 0; layer <= family_draft_layer(shape); layer++) {
        struct family_tensor what;
        for (u32 k = 0; family->tensor(shape, layer, k, &what); k++) {
            if (gguf) family->gguf(shape, layer, &what);
            TRY(take_in(&what, prefix, layer));
            const struct weight_row *w = &table.row[table.count - 1];
            total += w->source->bytes + (w->scale == NULL ? 0 : w->scale->bytes);
        }
    }
    atomic_store(&table.progress.done_bytes, 0);
    atomic_store(&table.progress.total_bytes, total);
    log_formats();
    log_unused();
    return OK;
}

static enum ops_source source_of(u32 type)
{
    static const enum ops_source of[] = {
        [TENSORS_BF16] = OPS_BF16, [TENSORS_F16] = OPS_F16, [TENSORS_F32] = OPS_F32,
        [TENSORS_F8_E4M3] = OPS_FP8_BLOCK, [TENSORS_Q8_0] = OPS_Q8_0, [TENSORS_Q4_0] = OPS_Q4_0,
        [TENSORS_Q4_K] = OPS_Q4_K, [TENSORS_Q5_K] = OPS_Q5_K, [TENSORS_Q6_K] = OPS_Q6_K,
    };
    ASSERT(type != TENSORS_OTHER && type < COUNT_OF(of));
    return of[type];
}

static struct ops_pack_source pack_source(const struct weight_row *w)
{
    struct ops_pack_source source = {
        .data = w->source->data, .type = source_of(w->source->type),
        .n = w->what.rows, .k = w->what.cols,
        .rows = w->what.row_heads, .cols = w->what.col_heads,
    };
    if (w->scale != NULL) {
        source.scale = w->scale->data;
        source.scale_type = source_of(w->scale->type);
    }
    return source;
}

/* Bytes a tensor takes in the extent. */
static u64 piece_bytes(const struct ops *ops, const struct weight_row *w)
{
    if (w->what.form == FORM_TABLE) return 0;
    if (w->what.form == FORM_MATRIX) {
        struct ops_pack_source source = pack_source(w);
        return ALIGN_UP(ops->pack_bytes(&source), PIECE_ALIGN);
    }
    return ALIGN_UP(4ull * w->what.rows * w->what.cols, PIECE_ALIGN);
}

u64 weights_extent_bytes(const struct ops *ops)
{
    u64 bytes = 0;
    for (u32 i = 0; i < table.count; i++) bytes += piece_bytes(ops, &table.row[i]);
    return bytes;
}

u32 weights_arithmetic(const struct ops *ops)
{
    u32 id = ops->arithmetic_id;
    for (u32 i = 0; i < table.count; i++)
        if (table.row[i].what.form == FORM_MATRIX)
            id = ops_arithmetic_both(id, ops->arithmetic_of(source_of(table.row[i].source->type)));
    return id;
}

bool weights_codes_expanded(const struct ops *ops)
{
    for (u32 i = 0; i < table.count; i++) {
        enum ops_source type = source_of(table.row[i].source->type);
        if (table.row[i].what.form == FORM_MATRIX && type > OPS_Q8_0 && !ops->reference &&
            ops->arithmetic_of(type) == ops->arithmetic_of(OPS_BF16)) return true;
    }
    return false;
}

static f32 half_decode(u16 bits)
{
    u32 sign = (u32)(bits >> 15) << 31, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    union { u32 u; f32 f; } x;
    if (exponent == 0) {
        x.f = (f32)fraction * 0x1p-24f;
        x.u |= sign;
    } else {
        x.u = sign | ((exponent == 31 ? 255 : exponent + 112) << 23) | fraction << 13;
    }
    return x.f;
}

/* Element `i` of a BF16, F16 or F32 tensor. */
static f32 element(const struct tensor_row *t, u64 i)
{
    union { u32 u; f32 f; } x = { 0 };
    u16 half;
    if (t->type == TENSORS_F32) {
        memcpy(&x.u, t->data + 4 * i, 4);
        return x.f;
    }
    memcpy(&half, t->data + 2 * i, 2);
    if (t->type == TENSORS_F16) return half_decode(half);
    x.u = (u32)half << 16;
    return x.f;
}

static void fill_vector(const struct weight_row *w, f32 *to)
{
    u32 cols = w->what.cols;
    for (u32 row = 0; row < w->what.rows; row++) {
        u64 from = (u64)ops_heads_from(&w->what.row_heads, row) * cols;
        for (u32 c = 0; c < cols; c++) {
            f32 x = element(w->source, from + c);
            if (w->what.form == FORM_SCALE) x = 1.0f + x;
            if (w->what.form == FORM_DECAY) x = (f32)-exp((f64)x);
            to[(u64)row * cols + c] = x;
        }
    }
}

static void hash_tensor(struct hash_state *hash, const struct weight_row *w)
{
    u32 head[4] = { w->source->type, w->what.role, w->what.rows, w->what.cols };
    hash_add(hash, w->what.name, strlen(w->what.name));
    hash_add(hash, head, sizeof head);
    hash_add(hash, w->source->data, w->source->bytes);
    if (w->scale != NULL) hash_add(hash, w->scale->data, w->scale->bytes);
}

/* The config's sizes that reach a bit of a row. */
static void hash_shape(struct hash_state *hash, const struct model_shape *s)
{
    u32 sizes[] = { s->layer_count, s->hidden, s->ffn, s->vocab, s->nh, s->nkv, s->d, s->rot,
                    s->hk, s->hv, s->dk, s->dv, s->gate_sigmoid, s->mrope_section[0],
                    s->mrope_section[1], s->mrope_section[2] };
    hash_add(hash, sizes, sizeof sizes);
    hash_add(hash, &s->eps, sizeof s->eps);
    hash_add(hash, s->inv_freq, s->rot / 2 * sizeof s->inv_freq[0]);
}

static enum err fill(const struct ops *ops, u8 *base)
{
    struct hash_state hash;
    u64 at = 0;
    hash_open(&hash);
    hash_shape(&hash, table.shape);
    table.mapped_bytes = 0;
    for (u32 i = 0; i < table.count; i++) {
        struct weight_row *w = &table.row[i];
        hash_tensor(&hash, w);
        struct ops_pack_source source = pack_source(w);
        if (w->what.form == FORM_MATRIX) TRY(ops->pack(&source, base + at, &w->matrix));
        else if (w->what.form == FORM_TABLE) table.mapped_bytes += w->source->bytes;
        else {
            w->vector = (const f32 *)(base + at);
            fill_vector(w, (f32 *)(base + at));
        }
        files_drop(table.files, w->source->data, w->source->bytes);
        at += piece_bytes(ops, w);
        atomic_fetch_add(&table.progress.done_bytes,
                         w->source->bytes + (w->scale == NULL ? 0 : w->scale->bytes));
    }
    hash_close(&hash, table.hash);
    return OK;
}

/* The model's files as they are now, and what is taken from them: a file of packed weights was made
 * of just these.  Times are those of the last change of a file or of its name. */
static enum err sources_of(const struct ops *ops, u64 out[2])
{
    struct hash_state hash;
    char path[FILE_PATH_BYTES];
    hash_open(&hash);
    hash_shape(&hash, table.shape);
    for (u32 i = 0; i < table.files->count; i++) {
        struct file_stat stat;
        TRY(file_join(table.files->dir, table.files->row[i].name, path));
        TRY(file_stat(path, &stat));
        u64 say[] = { stat.bytes, stat.inode, stat.mtime_ns, stat.ctime_ns };
        hash_add(&hash, path, strlen(path));
        hash_add(&hash, say, sizeof say);
    }
    for (u32 i = 0; i < table.count; i++) {
        const struct weight_row *w = &table.row[i];
        u64 say[] = { w->source->type, w->what.role, w->what.form, w->what.rows, w->what.cols,
                      piece_bytes(ops, w) };
        hash_add(&hash, w->what.name, strlen(w->what.name));
        hash_add(&hash, say, sizeof say);
    }
    hash_close(&hash, out);
    return OK;
}

/* The rows of an extent that came from a file. */
static void take_placed(const struct ops *ops, const u8 *base)
{
    u64 at = 0;
    table.mapped_bytes = 0;
    for (u32 i = 0; i < table.count; i++) {
        struct weight_row *w = &table.row[i];
        struct ops_pack_source source = pack_source(w);
        if (w->what.form == FORM_MATRIX) ops->packed(&source, base + at, &w->matrix);
        else if (w->what.form == FORM_TABLE) table.mapped_bytes += w->source->bytes;
        else w->vector = (const f32 *)(const void *)(base + at);
        at += piece_bytes(ops, w);
    }
}

static void placed_done(u64 bytes) { atomic_fetch_add(&table.progress.done_bytes, bytes); }

/* True when a file of packed weights is under the extent. */
static bool place(const struct ops *ops, const char *folder, const struct packed_key *key, u8 *base)
{
    u64 total = atomic_load(&table.progress.total_bytes);
    atomic_store(&table.progress.total_bytes, key->bytes);
    enum err err = packed_map(folder, key, base, table.hash, placed_done);
    atomic_store(&table.progress.total_bytes, total);
    atomic_store(&table.progress.done_bytes, err == OK ? total : 0);
    if (err != OK && err != ERR_NOT_FOUND)
        log_line(LOG_LEVEL_WARN, "pack cache: %s; the weights are packed again", err_last()->text);
    if (err != OK) return false;
    table.placed_bytes = key->bytes;
    take_placed(ops, base);
    log_line(LOG_LEVEL_INFO, "pack cache: %llu MiB of packed weights mapped",
             (ull)(key->bytes / MIB));
    return true;
}

static void keep(const char *folder, const struct packed_key *key, const u8 *base)
{
    if (packed_write(folder, key, base, table.hash) == OK)
        log_line(LOG_LEVEL_INFO, "pack cache: %llu MiB of packed weights written to %s/packed",
                 (ull)(key->bytes / MIB), folder);
    else
        log_line(LOG_LEVEL_WARN, "pack cache: %s", err_last()->text);
}

static enum err open_extent(const struct ops *ops, const char *folder, u8 *base)
{
    struct packed_key key = { .packing_id = ops->packing_id, .bytes = weights_extent_bytes(ops) };
    bool cached = folder != NULL && !table.files->embedded;
    if (cached) TRY(sources_of(ops, key.sources));
    if (cached && place(ops, folder, &key, base)) return OK;
    TRY(fill(ops, base));
    TRY(ops->sync());
    if (cached) keep(folder, &key, base);
    return OK;
}

enum err weights_open(const struct ops *ops, u32 weights_arena, const char *pack_folder)
{
    ASSERT(!table.open && table.count > 0);
    TRY(arena_extents_take(weights_arena, weights_extent_bytes(ops), &table.extent));
    table.arena = weights_arena;
    table.open = true;
    table.placed_bytes = 0;
    enum err err = open_extent(ops, pack_folder,
                               arena_extents_addr(weights_arena, table.extent));
    if (err != OK) weights_close();
    return err;
}

void weights_close(void)
{
    if (table.open && table.placed_bytes > 0)
        packed_unmap(arena_extents_addr(table.arena, table.extent), table.placed_bytes);
    if (table.open) arena_extents_free(table.arena, table.extent);
    table.open = false;
    table.count = 0;
}

static const struct weight_row *row_of(u32 layer, enum family_role role)
{
    ASSERT(table.open && layer < LAYERS_CAP && table.find[layer][role] > 0);
    return &table.row[table.find[layer][role] - 1];
}

const struct ops_matrix *weights_matrix(u32 layer, enum family_role role)
{
    const struct weight_row *w = row_of(layer, role);
    ASSERT(w->what.form == FORM_MATRIX);
    return &w->matrix;
}

u32 weights_next(u32 at, const struct ops_matrix **matrix_out, enum family_role *role_out)
{
    for (; at < table.count; at++) {
        if (table.row[at].what.form != FORM_MATRIX) continue;
        *matrix_out = &table.row[at].matrix;
        *role_out = (enum family_role)table.row[at].what.role;
        return at + 1;
    }
    return NONE;
}

const f32 *weights_vector(u32 layer, enum family_role role)
{
    const struct weight_row *w = row_of(layer, role);
    ASSERT(w->vector != NULL);
    return w->vector;
}

const u8 *weights_table(enum ops_source *type_out)
{
    const struct weight_row *w = row_of(table.shape->layer_count, ROLE_EMBED);
    *type_out = source_of(w->source->type);
    return w->source->data;
}

void weights_hash(u64 out[2])
{
    out[0] = table.hash[0];
    out[1] = table.hash[1];
}

u64 weights_mapped_bytes(void) { return table.mapped_bytes + table.placed_bytes; }

struct weights_progress *weights_progress(void) { return &table.progress; }
