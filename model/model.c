/* model/model.c - opening and closing of the model's rooms, in order. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include "arena/base/log.h"
#include "model/family/family.h"
#include "model/forward.h"
#include "model/shape_gguf.h"
#include "model/slot.h"
#include "model/weights.h"

enum { NAME_BYTES = 128 };
enum stage { CLOSED, FILES, BACKEND, SCANNED, WEIGHTS, SLOTS, LOADED };

static struct {
    struct files files;
    struct model_shape shape;
    struct state_shape layout;
    struct ops ops;
    u32 chunk_rows;
    enum stage stage;
    char name[NAME_BYTES];
} model;

static void name_model(const char *dir)
{
    if (dir == NULL) {
        snprintf(model.name, sizeof model.name, "holdfast-default");
        return;
    }
    if (model.files.gguf[0] != 0) {             /* without .gguf and -00001-of-0000N          */
        const char *file = model.files.gguf, *part = strstr(file, "-00001-of-");
        int length = (int)(part != NULL ? (u64)(part - file) : strlen(file) - strlen(".gguf"));
        snprintf(model.name, sizeof model.name, "%.*s", MIN(length, NAME_BYTES - 1), file);
        return;
    }
    const char *slash = strrchr(model.files.dir, '/');
    snprintf(model.name, sizeof model.name, "%.*s", NAME_BYTES - 1,
             slash == NULL || slash[1] == 0 ? model.files.dir : slash + 1);
}

/* Why the checkpoint's draft head can't be loaded; OK: shape.draft says whether it is wanted. */
static enum err draft_choose(enum model_draft draft, struct model_shape *s)
{
    const char *key = model.files.gguf[0] != 0 ? "qwen35.nextn_predict_layers"
                                               : "mtp_num_hidden_layers";
    if (draft == MODEL_DRAFT_OFF || (draft == MODEL_DRAFT_AUTO && s->mtp_layers == 0)) return OK;
    if (s->mtp_layers != 1)
        return fail(ERR_UNSUPPORTED, "%s: %s is %u; --draft mtp takes a head of 1 layer",
                    model.name, key, s->mtp_layers);
    if (s->mtp_embeddings)
        return fail(ERR_UNSUPPORTED, "%s: its draft head has an embedding of its own "
                    "(mtp_use_dedicated_embeddings); --draft mtp takes one that has none",
                    model.name);
    s->draft = true;
    return OK;
}

/* Every tensor found, those of the draft head if it is wanted and there. */
static enum err scan(enum model_draft draft, const struct family *family)
{
    enum err err = draft_choose(draft, &model.shape);
    if (err == OK) err = weights_scan(&model.files, &model.shape, family);
    bool without = draft == MODEL_DRAFT_AUTO &&
                   (err == ERR_UNSUPPORTED || (err == ERR_NOT_FOUND && model.shape.draft));
    if (!without) return err;
    char why[sizeof err_last()->text];
    snprintf(why, sizeof why, "%s", err_last()->text);
    model.shape.draft = false;
    TRY(weights_scan(&model.files, &model.shape, family));
    log_line(LOG_LEVEL_WARN, "draft: no head is loaded: %s", why);
    return OK;
}

static enum err open_all(const struct model_setup *setup)
{
    u32 b = setup->block_rows == 0 ? MODEL_BLOCK_ROWS : setup->block_rows;
    u32 g = setup->grid_rows == 0 ? MAX(b, MODEL_GRID_ROWS) : setup->grid_rows;
    model.chunk_rows = setup->chunk_rows == 0 ? MODEL_CHUNK_ROWS : setup->chunk_rows;
    TRY(files_open(&model.files, setup->dir));
    model.stage = FILES;
    name_model(setup->dir);
    TRY(model.files.gguf[0] != 0 ? shape_gguf_load(&model.files, &model.shape)
                                 : shape_load(&model.files, &model.shape));
    const struct family *family = family_find(model.shape.model_type);
    ASSERT(family != NULL);                     /* shape_load refuses what has none           */
    TRY(backend_open(&setup->backend, &model.ops));
    model.stage = BACKEND;
    TRY(scan(setup->draft, family));
    TRY(family->fill(&model.shape, b, g, model.ops.store_bytes, &model.layout));
    model.ops.arithmetic_id = weights_arithmetic(&model.ops);
    if (weights_codes_expanded(&model.ops))
        log_line(LOG_LEVEL_INFO, "weights: codes of 4 to 6 bits are expanded to BF16; "
                 "--arithmetic int8 multiplies them as integers, faster, with activations in 8 "
                 "bits (caches of the two are kept apart)");
    if (model.shape.draft)
        log_line(LOG_LEVEL_INFO, "draft: the head is loaded: %u B a row and %llu B a state more",
                 model.layout.view[FAMILY_VIEW_DRAFT_K].row_bytes +
                 model.layout.view[FAMILY_VIEW_DRAFT_V].row_bytes,
                 (ull)model.layout.section[family_section_draft(&model.shape)].bytes);
    model.stage = SCANNED;
    return OK;
}

enum err model_open(const struct model_setup *setup)
{
    ASSERT(model.stage == CLOSED);
    enum err err = open_all(setup);
    if (err != OK) model_close();
    return err;
}

static u64 scratch_cap(u32 verify_rows)
{
    return ALIGN_UP(forward_scratch_need(&model.shape, &model.ops, model.layout.block_rows,
                                         model.chunk_rows, model.chunk_rows) +
                    forward_verify_need(&model.shape, &model.ops, verify_rows), 2 * MIB);
}

static u64 weights_cap(void) { return ALIGN_UP(weights_extent_bytes(&model.ops), 2 * MIB); }

u64 model_fixed_bytes(u32 verify_rows)
{
    return weights_cap() + scratch_cap(verify_rows);
}

u32 model_declare(const struct model_room *room, struct arena_decl *decl)
{
    ASSERT(model.stage == SCANNED);
    u64 blocks = room->ctx_rows / model.layout.block_rows + 2;
    decl[0] = (struct arena_decl){ .name = "weights", .space = SPACE_DEVICE,
                                   .kind = ARENA_EXTENTS, .cap_bytes = weights_cap() };
    decl[1] = (struct arena_decl){ .name = "scratch", .space = SPACE_DEVICE,
                                   .kind = ARENA_SCRATCH,
                                   .cap_bytes = scratch_cap(room->verify_rows) };
    decl[2] = (struct arena_decl){ .name = "lists", .space = SPACE_HOST, .kind = ARENA_EXTENTS,
                                   .cap_bytes = room->slot_count *
                                                ALIGN_UP(24 * blocks, 64 * KIB) };
    state_declare(&model.layout, room->pool_bytes, &decl[3]);
    return MODEL_DECL_CAP;
}

static enum err load_all(const struct model_room *room)
{
    TRY(weights_open(&model.ops, arena_find("weights"), room->pack_folder));
    model.stage = WEIGHTS;
    TRY(state_open(&model.layout));
    TRY(slot_open(room->slot_count, room->ctx_rows, arena_find("lists")));
    model.stage = SLOTS;
    TRY(forward_open(&model.shape, &model.ops, arena_find("scratch"), model.chunk_rows,
                     room->verify_rows));
    model.stage = LOADED;
    return OK;
}

enum err model_load(const struct model_room *room)
{
    ASSERT(model.stage == SCANNED);
    enum err err = load_all(room);
    if (err != OK) model_close();
    return err;
}

void model_close(void)
{
    if (model.stage >= LOADED) forward_close();
    if (model.stage >= SLOTS) slot_close();
    if (model.stage >= SCANNED) weights_close();
    if (model.stage >= BACKEND) backend_close();
    if (model.stage >= FILES) files_close(&model.files);
    model.stage = CLOSED;
}

struct files *model_files(void) { return &model.files; }

const struct model_shape *model_shape(void) { return &model.shape; }

const struct state_shape *model_layout(void) { return &model.layout; }

const struct ops *model_ops(void) { return &model.ops; }

const char *model_name(void) { return model.name; }
