/* tiers/nvme/load.c - restores: memory taken, reads queued, a record when all of them came. */
#include "tiers/nvme/load.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "arena/heap.h"
#include "arena/table.h"
#include "tiers/key.h"
#include "tiers/nvme/disk.h"
#include "tiers/nvme/reader.h"
#include "tiers/nvme/spill.h"
#include "tiers/nvme/transfer.h"

#include <string.h>

struct load_row {
    struct nvme_hit hit;
    struct manifest talk;               /* of the entry, as it was                            */
    struct reader_blob file;            /* its manifest, for the generations                  */
    u64 session[2];
    u64 *keys;                          /* [ctx]                                              */
    block_id *block;                    /* [ctx / B]                                          */
    unit_id unit[NVME_UNITS];           /* [hit.units], the start's last                      */
    u32 reads_left;
    enum err err;
    bool more[NVME_UNITS];              /* that anchor was asked for                          */
    u64  pos[NVME_UNITS];               /* where it stands                                    */
    bool boot;                          /* of the start: no turn waits for it                 */
    bool used, gone;                    /* gone: its turn does not wait any more              */
};

static struct {
    struct load_row load[NVME_LOADS];
    struct rates *rates;
    bool threads;
} own;

u64 nvme_load_table_bytes(const struct state_shape *shape, u64 ctx)
{
    u64 blocks = (ctx + shape->block_rows - 1) / shape->block_rows;
    return NVME_LOADS * (ctx * sizeof(u64) + blocks * sizeof(block_id) + 2 * 64);
}

enum err nvme_load_open(u32 table_arena, u64 ctx, bool threads, struct rates *rates)
{
    u64 blocks = (ctx + state_shape()->block_rows - 1) / state_shape()->block_rows;
    memset(&own, 0, sizeof own);
    own.threads = threads;
    own.rates = rates;
    for (u32 i = 0; i < NVME_LOADS; i++) {
        TRY(arena_table_take(table_arena, "load keys", sizeof(u64), ctx, &own.load[i].keys));
        TRY(arena_table_take(table_arena, "load blocks", sizeof(block_id), blocks,
                             &own.load[i].block));
    }
    return OK;
}

/* What a restore holds on its own account. */
static void let_go(struct load_row *r)
{
    u64 b = state_shape()->block_rows;
    for (u64 k = 0; k * b < r->hit.start; k++)
        arena_blocks_drop(state_blocks_arena(), r->block[k], HOLD_WRITING);
    for (u32 i = 0; i < r->hit.units; i++)
        arena_slots_drop(state_sections_arena(), r->unit[i], HOLD_WRITING);
    arena_heap_free(r->file.bytes);
    r->used = false;
}

void nvme_load_close(void)
{
    for (u32 i = 0; i < NVME_LOADS; i++)
        if (own.load[i].used) let_go(&own.load[i]);
}

/* ------------------------------------------------------------------ load */

static enum err take_memory(struct load_row *r)
{
    u64 b = state_shape()->block_rows, taken = 0;
    u32 units = 0;
    enum err err = OK;
    for (; err == OK && units < r->hit.units; units += err == OK)
        err = arena_slots_take(state_sections_arena(), HOLD_WRITING, &r->unit[units]);
    for (; err == OK && taken * b < r->hit.start; taken += err == OK)
        err = arena_blocks_take(state_blocks_arena(), HOLD_WRITING, &r->block[taken]);
    if (err == OK) return OK;
    while (taken-- > 0)
        arena_blocks_drop(state_blocks_arena(), r->block[taken], HOLD_WRITING);
    while (units-- > 0)
        arena_slots_drop(state_sections_arena(), r->unit[units], HOLD_WRITING);
    return err;
}

static u32 free_load(void)
{
    u32 at = 0;
    while (at < NVME_LOADS && own.load[at].used) at++;
    return at;
}

enum err nvme_load_room(const struct nvme_hit *hit)
{
    if (free_load() == NVME_LOADS) return fail(ERR_FULL, "%u restores are under way", NVME_LOADS);
    if (reader_room() < MAX(hit->units, transfer_reads(hit->anchor, hit->cover)))
        return fail(ERR_FULL, "the I/O thread has no room for this restore");
    return OK;
}

enum err nvme_load(const struct nvme_hit *hit, const struct tier_prompt *prompt, u32 *load_out)
{
    TRY(nvme_load_room(hit));
    u32 at = free_load();
    struct load_row *r = &own.load[at];
    *r = (struct load_row){ .hit = *hit, .keys = r->keys, .block = r->block,
                            .session = { prompt->session[0], prompt->session[1] } };
    TRY(take_memory(r));
    r->boot = prompt->keys == NULL;
    if (!hit->whole) memcpy(r->keys, prompt->keys, hit->start * sizeof *r->keys);
    struct transfer_ask ask = { .owner = at, .anchor = hit->anchor, .cover = hit->cover,
                                .keys = hit->whole ? NULL : r->keys,
                                .learn = hit->whole ? r->keys : NULL,
                                .block = r->block, .unit = r->unit[hit->units - 1] };
    bool queued = transfer_load(&ask, &r->reads_left);
    ASSERT(queued);                     /* nvme_load_room                                     */
    for (u32 i = 0; i + 1 < hit->units; i++) {  /* as many as the reader has room for         */
        ask.anchor = hit->more[i];
        ask.unit = r->unit[i];
        r->more[i] = transfer_load_unit(&ask);
        r->reads_left += r->more[i];
    }
    if (hit->row != NONE) {
        r->talk = spill_at(hit->row)->talk;
        spill_at(hit->row)->reads++;
        r->file.cap_bytes = MANIFEST_BYTES_MAX;
        manifest_name(r->talk.session, r->file.name);
        bool asked = reader_submit(&(struct reader_ask){ .owner = at, .piece = NONE,
                                                         .blob = &r->file });
        r->reads_left += asked;         /* without it nothing is aligned                      */
    }
    for (u32 i = 0; i + 1 < hit->units; i++) r->pos[i] = pieces_row(hit->more[i])->hi;
    pieces_hold(hit->anchor);           /* until nvme_load_done                               */
    r->used = true;
    *load_out = at;
    return OK;
}

/* Whole conversations bring their own ids: what they are was hashed into the anchors' names. */
static bool ids_are_its(const struct load_row *r)
{
    u64 line_count, name[2];
    if (!r->hit.whole) return true;
    const u64 (*lines)[2] = transfer_prompt(r->keys, r->hit.start, &line_count);
    transfer_name(lines, r->keys, r->hit.start, name);
    return memcmp(name, pieces_row(r->hit.anchor)->name, sizeof name) == 0;
}

/* Kind of an anchor as its manifest says. */
static struct record_found_anchor found_of(const struct load_row *r, u32 at)
{
    u64 pos = at + 1 == r->hit.units ? r->hit.start : r->pos[at];
    struct record_found_anchor a = { .unit = r->unit[at], .pos = pos, .kind = ANCHOR_TURN };
    if (r->hit.row == NONE) a.kind = ANCHOR_GRID;
    for (u32 i = 0; r->hit.row != NONE && i < r->talk.anchor_count; i++) {
        const struct manifest_anchor *m = &r->talk.anchor[i];
        if (m->pos != pos) continue;
        if (m->kind > ANCHOR_FREE && m->kind < ANCHOR_KIND_COUNT)
            a.kind = (enum anchor_kind)m->kind;
        a.head = m->head;
    }
    return a;
}

/* What was read stands aside as a record from now on. */
static enum err adopt(struct load_row *r, u64 now_us, struct nvme_record *out)
{
    struct record_found found = { .session = { r->session[0], r->session[1] },
                                  .taint = UINT64_MAX, .block = r->block, .rows = r->hit.start };
    struct record_found_anchor anchor[NVME_UNITS];
    for (u32 i = 0; i < r->hit.units; i++)
        if (i + 1 == r->hit.units || r->more[i])
            anchor[found.anchor_count++] = found_of(r, i);
    found.anchor = anchor;
    if (r->hit.row != NONE) {
        const struct manifest *m = &r->talk;
        found.head_pos = m->head_pos <= found.rows ? m->head_pos : 0;
        found.taint = m->taint < found.rows ? m->taint : UINT64_MAX;
    }
    key_put(state_blocks_arena(), state_shape()->block_rows, r->block, 0, r->keys, r->hit.start);
    TRY(record_adopt(&found, HOLD_PARK, now_us, &out->record));
    struct generation_list *list = record_generations(out->record);
    bool its = r->hit.row != NONE && spill_is(r->hit.row, &r->talk);
    if (its && r->file.bytes != NULL &&
        spill_generations(&r->talk, r->file.bytes, r->file.count, r->hit.start, list) != OK)
        log_line(LOG_LEVEL_WARN, "spill: generations: %s", err_last()->text);
    bool same = its && record_session(out->record, r->talk.session);
    out->saved_rows = same ? r->hit.start : 0;
    out->boot = r->boot;
    return OK;
}

enum nvme_state nvme_load_done(u32 load, u64 now_us, struct nvme_record *out)
{
    struct load_row *r = &own.load[load];
    ASSERT(r->used);
    if (r->reads_left > 0) return NVME_LOADING;
    bool spill = r->hit.row != NONE;
    u64 now_s = (u64)clock_wall_s();
    if (r->err == OK && !ids_are_its(r)) r->err = fail(ERR_STALE, "its ids are not its name's");
    if (r->err == OK && !r->gone) r->err = adopt(r, now_us, out);
    if (spill && spill_is(r->hit.row, &r->talk)) {
        struct spill_hit hit = { .row = r->hit.row, .anchor = r->hit.anchor };
        spill_served(&hit, r->err == OK, now_s);
        if (spill_at(r->hit.row)->reads > 0) spill_at(r->hit.row)->reads--;
    } else if (!spill) {
        struct disk_hit hit = { .anchor = r->hit.anchor };
        disk_served(&hit, r->err == OK, now_s);
    }
    memcpy(out->name, pieces_row(r->hit.anchor)->name, sizeof out->name);
    pieces_release(r->hit.anchor);
    let_go(r);
    spill_check();
    if (r->err != OK || r->gone) return NVME_FAILED;
    out->source = spill ? TIER_SPILL : TIER_DISK;
    return NVME_LOADED;
}

void nvme_load_abandon(u32 load) { own.load[load].gone = true; }

bool nvme_load_answers(u64 now_us)
{
    struct reader_answer answer;
    bool any = false;
    if (!own.threads)
        while (reader_step()) continue;
    while (reader_done(&answer)) {
        struct load_row *r = &own.load[answer.owner];
        any = true;
        bool piece = answer.piece != NONE;      /* else a manifest: never the rows' fault     */
        if (piece && answer.err == OK) rates_read(own.rates, answer.bytes, answer.us);
        else if (piece && r->err == OK) r->err = answer.err;
        r->reads_left--;
        if (piece) transfer_answer(&answer);
        struct nvme_record none;
        if (r->reads_left == 0 && r->gone) nvme_load_done(answer.owner, now_us, &none);
    }
    return any;
}
