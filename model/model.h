/* model/model.h - the order in which the model's rooms open, on one page.
 *
 *   model_open       files -> shape -> backend -> family's layout -> headers of the weights
 *   model_declare    arenas weights, scratch, lists, blocks, sections: for the caller's arena_open
 *   (arena_open)
 *   model_load       weights packed -> state -> slots -> forward; minutes for a large model, with
 *                    weights_progress to watch from another thread
 *   model_close      everything, in reverse; before arena_close
 *
 * One model a process.  A step that fails names itself and leaves nothing of it open; model_close
 * is safe after any of them.  Owner: the thread that opened the arenas. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "arena/arena.h"
#include "model/backend.h"
#include "model/files.h"
#include "model/shape.h"
#include "model/state.h"

enum {
    MODEL_DECL_CAP = 5,
    MODEL_BLOCK_ROWS = 256, MODEL_GRID_ROWS = 1024, MODEL_CHUNK_ROWS = 1024,
};

/* The checkpoint's draft head: not loaded; loaded if there is one (a head of another make, or that
 * the files lack, is left out with a line in the log); loaded, or the model isn't opened. */
enum model_draft { MODEL_DRAFT_OFF, MODEL_DRAFT_AUTO, MODEL_DRAFT_MTP };

struct model_setup {
    const char *dir;                    /* a folder or FILE.gguf; NULL: the embedded model    */
    enum model_draft draft;
    struct backend_choice backend;
    u32 block_rows, grid_rows;          /* B, G; 0: the constants above                       */
    u32 chunk_rows;                     /* most rows a batch; 0: the constant above           */
};

struct model_room {                     /* what the rooms above the model may ask for         */
    u32 slot_count;
    u64 ctx_rows;                       /* rows a sequence may have                           */
    u64 pool_bytes;                     /* blocks and sections span so many bytes at most     */
    u32 verify_rows;                    /* most rows of a batch with drafts; 0: no drafts     */
    const char *pack_folder;            /* of a file of packed weights (packed.h), or NULL    */
};

MUST_USE enum err model_open(const struct model_setup *setup);
/* Fills `decl` [MODEL_DECL_CAP]; returns how many.  Names must live until arena_open. */
u32 model_declare(const struct model_room *room, struct arena_decl *decl);
/* With the same room, after arena_open. */
MUST_USE enum err model_load(const struct model_room *room);
void model_close(void);

/* Bytes the arenas weights and scratch will commit: what stands before any sequence. */
u64 model_fixed_bytes(u32 verify_rows);

/* Valid from model_open to model_close. */
struct files *model_files(void);
const struct model_shape *model_shape(void);
const struct state_shape *model_layout(void);      /* sections and views, B and G        */
const struct ops *model_ops(void);
/* Last part of the folder's path, a GGUF file's name without its end, or "holdfast-default". */
const char *model_name(void);

#endif
