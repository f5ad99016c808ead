/* tests/model/rig.h - a model with its arenas, open in one call; static, for tests to include. */
#ifndef MODEL_RIG_H
#define MODEL_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena/arena.h"
#include "model/forward.h"
#include "model/model.h"
#include "model/slot.h"
#include "model/weights.h"
#include "tests/test.h"

struct rig {
    const char *dir;                    /* NULL: embedded                                     */
    const char *level;
    u32  threads, block_rows, grid_rows, slots;
    u64  ctx_rows;
    u32  verify_rows;
    bool reference;
    enum ops_arithmetic arithmetic;     /* unless reference                                   */
    const char *pack_folder;
    enum model_draft draft;
};

static struct model_room rig_room;

static enum err rig_try(const struct rig *r)
{
    struct model_setup setup = {
        .dir = r->dir, .draft = r->draft, .block_rows = r->block_rows, .grid_rows = r->grid_rows,
        .backend = { .level = r->level, .threads = r->threads == 0 ? 1 : r->threads,
                     .arithmetic = r->reference ? OPS_REFERENCE : r->arithmetic },
    };
    struct arena_decl decl[MODEL_DECL_CAP];
    rig_room = (struct model_room){
        .slot_count = r->slots == 0 ? 2 : r->slots,
        .ctx_rows = r->ctx_rows == 0 ? 2048 : r->ctx_rows, .pack_folder = r->pack_folder,
        .pool_bytes = 256 * MIB,
        .verify_rows = r->verify_rows,
    };
    model_close();                      /* of a test that failed half way                     */
    arena_close();
    TRY(model_open(&setup));
    u32 count = model_declare(&rig_room, decl);
    enum err err = arena_open(decl, count);
    if (err != OK) {
        model_close();
        return err;
    }
    err = model_load(&rig_room);
    if (err != OK) arena_close();
    return err;
}

__attribute__((unused)) static void rig_close(void)
{
    arena_check();
    slot_check();
    model_close();
    arena_check();
    arena_close();
}

__attribute__((unused)) static void rig_open(const struct rig *r)
{
    enum err err = rig_try(r);
    if (err != OK) test_failed(__FILE__, __LINE__, "%s: %s", err_word(err), err_last()->text);
}

/* Runs a command; a failure fails the test. */
__attribute__((unused)) static void rig_run(const char *format, const char *a, const char *b)
{
    char command[1024];
    snprintf(command, sizeof command, format, a, b);
    if (system(command) != 0) test_failed(__FILE__, __LINE__, "%s", command);
}

/* One of tests/oracle/make_tiny.py's checkpoints, made once a build folder. */
__attribute__((unused)) static const char *rig_tiny(const char *name, const char *flags)
{
    static char dir[4][64];
    static u32 next;
    char *out = dir[next++ % 4], config[128];
    snprintf(out, sizeof dir[0], "build/golden/%s", name);
    snprintf(config, sizeof config, "%s/done", out);
    FILE *f = fopen(config, "r");
    if (f != NULL) {
        fclose(f);
        return out;
    }
    rig_run("mkdir -p build/golden && OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 "
            "/usr/bin/python3 tests/oracle/make_tiny.py %s --seed 1 %s", out, flags);
    rig_run("touch %s/done%s", out, "");
    return out;
}

#endif
