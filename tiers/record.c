/* tiers/record.c - the record table: start, fork, branch, leave and enter a slot, cut, drop. */
#include "tiers/record.h"

#include "arena/table.h"
#include "model/state.h"

#include <string.h>

enum { RECORD_END_ROWS = 64, RECORD_END_MIN = 4096, RECORD_END_MAX = 65536,
       RECORD_LIST_MIN = 1024, RECORD_LIST_MAX = 1 << 20, RECORD_LIST_EACH = 64,
       RECORD_CHECK_CAP = 1 << 16 };

/* Rows for generations, spans and calls: of all records together. */
static u32 end_rows(u32 cap)
{
    return MIN(MAX(cap * RECORD_END_ROWS, (u32)RECORD_END_MIN), (u32)RECORD_END_MAX);
}

static struct {
    struct record_row      *row;
    struct anchor_row      *anchor;         /* [record_cap][anchor_cap]                       */
    struct generation_list *generation;
    block_id               *list;           /* [list_cap] runs of records aside, see run_take */
    u32 cap, anchor_cap, count, list_cap, list_end;
    u64 number;
} table;

u64 record_table_bytes(u32 cap, u32 anchor_cap, u32 list_cap)
{
    return (u64)cap * (sizeof(struct record_row) + sizeof(struct generation_list) +
                       (u64)anchor_cap * sizeof(struct anchor_row)) + 4 * 64 +
           (u64)list_cap * sizeof(block_id) + end_table_bytes(end_rows(cap));
}

u32 record_list_cap(u32 cap, u64 ctx_blocks)
{
    u64 each = MIN(ctx_blocks + 1, (u64)RECORD_LIST_EACH) * cap;
    u64 least = MAX(4 * (ctx_blocks + 1), (u64)RECORD_LIST_MIN);
    return (u32)MIN(MAX(each, least), (u64)RECORD_LIST_MAX);
}

enum err record_open(u32 table_arena, u32 cap, u32 anchor_cap, u32 list_cap)
{
    memset(&table, 0, sizeof table);
    TRY(arena_table_take(table_arena, "records", sizeof *table.row, cap, &table.row));
    TRY(arena_table_take(table_arena, "anchors", sizeof *table.anchor, (u64)cap * anchor_cap,
                         &table.anchor));
    TRY(arena_table_take(table_arena, "answers", sizeof *table.generation, cap,
                         &table.generation));
    TRY(arena_table_take(table_arena, "block lists", sizeof *table.list, list_cap, &table.list));
    TRY(end_open(table_arena, end_rows(cap)));
    table.cap = cap;
    table.anchor_cap = anchor_cap;
    table.list_cap = list_cap;
    return OK;
}

u32 record_cap(void) { return table.cap; }
u32 record_count(void) { return table.count; }

struct record_row *record_at(u32 record)
{
    ASSERT(record < table.cap && table.row[record].number != 0);
    return &table.row[record];
}

struct anchor_list record_anchors(u32 record)
{
    ASSERT(record < table.cap);
    return (struct anchor_list){ table.anchor + (u64)record * table.anchor_cap, table.anchor_cap };
}

struct generation_list *record_generations(u32 record)
{
    ASSERT(record < table.cap);
    return &table.generation[record];
}

const block_id *record_blocks(u32 record, u32 *count_out, u64 *rows_out)
{
    const struct record_row *r = record_at(record);
    if (r->slot != NONE) return state_rows_out(r->slot, count_out, rows_out);
    *count_out = r->list_count;
    *rows_out = r->rows;
    return table.list + r->list;
}

u64 record_rows(u32 record)
{
    u32 count;
    u64 rows;
    record_blocks(record, &count, &rows);
    return rows;
}

static enum holder anchor_holder(enum holder class)
{
    return class == HOLD_LIVE ? HOLD_ANCHOR : class;
}

enum holder record_anchor_holder(u32 record) { return anchor_holder(record_at(record)->class); }

bool record_is(u32 record, u64 number)
{
    return record < table.cap && number != 0 && table.row[record].number == number;
}

bool record_session(u32 record, const u64 session[2])
{
    const u64 *mine = record_at(record)->session;
    return mine[0] == session[0] && mine[1] == session[1];
}

u32 record_next(u32 from)
{
    for (u32 i = from; i < table.cap; i++)
        if (table.row[i].number != 0) return i;
    return NONE;
}

static u32 blocks_of(u64 rows)
{
    return (u32)((rows + state_shape()->block_rows - 1) / state_shape()->block_rows);
}

/* ------------------------------------------------------------------ lists of records aside
 *
 * A run is one handle that says whose it is and how long (index: record or NONE, generation: its
 * handles), then the handles.  Runs stand one behind the other; when the end is reached they are
 * moved together. */

static void runs_compact(void)
{
    u32 to = 0;
    for (u32 at = 0; at < table.list_end;) {
        block_id head = table.list[at];
        u32 cells = head.generation + 1;
        if (head.index != NONE) {
            memmove(table.list + to, table.list + at, cells * sizeof *table.list);
            table.row[head.index].list = to + 1;
            to += cells;
        }
        at += cells;
    }
    table.list_end = to;
}

static enum err run_take(u32 record, u32 count)
{
    if (table.list_end + count + 1 > table.list_cap) runs_compact();
    if (table.list_end + count + 1 > table.list_cap)
        return fail(ERR_FULL, "records: no room for a list of %u blocks", count);
    table.list[table.list_end] = (block_id){ record, count };
    table.row[record].list = table.list_end + 1;
    table.row[record].list_count = count;
    table.list_end += count + 1;
    return OK;
}

static void run_free(u32 record)
{
    table.list[table.row[record].list - 1].index = NONE;
    table.row[record].list = table.row[record].list_count = 0;
}

/* What a lookup asks first stands in the row itself: most records are told apart by it. */
static void keep_first(u32 record)
{
    struct record_row *r = &table.row[record];
    u32 blocks = state_blocks_arena();
    block_id first = table.list[r->list];
    r->first_key = ((const u64 *)arena_blocks_label(blocks, first))[0];
    bool whole = r->rows >= state_shape()->block_rows;
    r->first_hash = whole ? arena_blocks_row(blocks, first)->hash[0] : 0;
}

/* ------------------------------------------------------------------ start, fork, branch */

static enum err row_take(const struct record_row *like, u32 *out)
{
    u32 free_row = 0;
    while (free_row < table.cap && table.row[free_row].number != 0) free_row++;
    if (free_row == table.cap) return fail(ERR_FULL, "records: all %u rows are used", table.cap);
    table.row[free_row] = *like;
    table.row[free_row].number = ++table.number;
    ASSERT(table.generation[free_row].count == 0);
    table.count++;
    *out = free_row;
    return OK;
}

static void row_free(u32 record)
{
    memset(&table.row[record], 0, sizeof table.row[record]);
    table.count--;
}

enum err record_start(u32 slot, enum holder class, const u64 session[2], u64 now_us, u32 *out)
{
    ASSERT(class == HOLD_LIVE || class == HOLD_STASH);
    return row_take(&(struct record_row){
        .session = { session[0], session[1] }, .taint = UINT64_MAX, .used_us = now_us,
        .slot = slot, .class = class,
    }, out);
}

/* Rows [0, pos) of the list are counted on by another holder than their writer from now on. */
static void freeze(const block_id *list, u64 pos)
{
    u64 block_rows = state_shape()->block_rows;
    for (u32 i = 0; i < blocks_of(pos); i++) {
        struct block_row *block = arena_blocks_row(state_blocks_arena(), list[i]);
        block->frozen = MAX(block->frozen, (u32)MIN(pos - i * block_rows, block_rows));
    }
}

static void hold_all(const block_id *list, u32 count, enum holder class)
{
    for (u32 i = 0; i < count; i++) arena_blocks_hold(state_blocks_arena(), list[i], class);
}

static void drop_all(const block_id *list, u32 count, enum holder class)
{
    for (u32 i = count; i-- > 0;) arena_blocks_drop(state_blocks_arena(), list[i], class);
}

/* The slot's list becomes its first blocks that rows [0, pos) need; references change hands. */
static void share_rows(const block_id *list, u64 pos, u32 slot, enum holder class)
{
    u32 skip = FAULT(FAULT_BLOCK_FREED);
    hold_all(list + skip, blocks_of(pos) - MIN(skip, blocks_of(pos)), class);
    state_rows_in(slot, list, blocks_of(pos), pos);
}

/* The taint of what keeps rows [0, pos) only. */
static u64 taint_below(u32 record, u64 pos)
{
    u64 taint = record_at(record)->taint;
    return taint < pos ? taint : UINT64_MAX;
}

/* Anchors, generations and marks of `source` up to `pos`. */
static void inherit(u32 made, u32 source, u64 pos)
{
    struct anchor_list from = record_anchors(source), to = record_anchors(made);
    anchors_fork(&to, &from, state_sections_arena(), pos, record_anchor_holder(made));
    end_copy(record_generations(made), record_generations(source), pos);
    table.row[made].head_pos = table.row[source].head_pos <= pos ? table.row[source].head_pos : 0;
    table.row[made].taint = taint_below(source, pos);
}

enum err record_fork(u32 source, u64 pos, u32 slot, enum holder class, const u64 session[2],
                     u64 now_us, u32 *out)
{
    u32 count, made;
    u64 rows;
    const block_id *list = record_blocks(source, &count, &rows);
    ASSERT(pos <= rows && record_at(source)->slot != slot);
    TRY(record_start(slot, class, session, now_us, &made));
    freeze(list, pos);
    share_rows(list, pos, slot, class);
    inherit(made, source, pos);
    *out = made;
    return OK;
}

enum err record_branch(u32 source, u64 pos, enum holder class, u32 *out)
{
    struct record_row like = *record_at(source);
    u32 count, made;
    u64 rows;
    ASSERT(class > HOLD_STASH && pos > 0 && pos <= record_rows(source));
    like.slot = NONE;
    like.rows = pos;
    like.class = class;
    like.list = like.list_count = like.hits = 0;
    like.saved_tokens = 0;
    like.busy = like.tail = like.guest = like.prefix = false;
    TRY(row_take(&like, &made));
    enum err err = run_take(made, blocks_of(pos));
    if (err != OK) {
        row_free(made);
        return err;
    }
    const block_id *list = record_blocks(source, &count, &rows);
    memcpy(table.list + table.row[made].list, list, blocks_of(pos) * sizeof *list);
    freeze(list, pos);
    hold_all(list, blocks_of(pos), class);
    inherit(made, source, pos);
    keep_first(made);
    *out = made;
    return OK;
}

enum err record_adopt(const struct record_found *found, enum holder class, u64 now_us, u32 *out)
{
    struct record_row like = { .session = { found->session[0], found->session[1] },
                               .head_pos = found->head_pos, .taint = found->taint,
                               .used_us = now_us, .rows = found->rows, .slot = NONE,
                               .class = class };
    u32 count = blocks_of(found->rows), made;
    ASSERT(class > HOLD_STASH && found->rows > 0);
    TRY(row_take(&like, &made));
    enum err err = run_take(made, count);
    if (err != OK) {
        row_free(made);
        return err;
    }
    memcpy(table.list + table.row[made].list, found->block, count * sizeof *found->block);
    freeze(found->block, found->rows);
    hold_all(found->block, count, class);
    struct anchor_list anchors = record_anchors(made);
    ASSERT(found->anchor_count > 0 && found->anchor_count <= anchors.row_cap);
    for (u32 i = 0; i < found->anchor_count; i++) {
        const struct record_found_anchor *a = &found->anchor[i];
        arena_slots_hold(state_sections_arena(), a->unit, class);
        anchors_take(&anchors, a->pos, a->unit, a->kind, a->head);
    }
    keep_first(made);
    *out = made;
    return OK;
}

/* ------------------------------------------------------------------ leave, enter, change class */

void record_keep_end(u32 record)
{
    struct anchor_list list = record_anchors(record);
    u64 rows = record_rows(record);
    unit_id unit;
    if (rows == 0 || anchors_at(&list, rows) != NONE) return;
    if (anchors_count(&list) == list.row_cap) return;
    if (!state_give(record_at(record)->slot, record_anchor_holder(record), &unit)) return;
    anchors_take(&list, rows, unit, ANCHOR_END, false);
}

enum err record_leave(u32 record, enum holder class)
{
    struct record_row *r = record_at(record);
    struct anchor_list anchors = record_anchors(record);
    u32 count, slot = r->slot;
    u64 rows;
    const block_id *list = state_rows_out(slot, &count, &rows);
    ASSERT(class > HOLD_STASH && rows > 0 && !r->busy);
    TRY(run_take(record, blocks_of(rows)));
    memcpy(table.list + r->list, list, r->list_count * sizeof *list);
    freeze(list, rows);
    hold_all(list, r->list_count, class);
    state_rows_in(slot, NULL, 0, 0);
    anchors_recharge(&anchors, state_sections_arena(), anchor_holder(r->class), class);
    r->slot = NONE;
    r->rows = rows;
    r->class = class;
    keep_first(record);
    return OK;
}

void record_enter(u32 record, u32 slot, enum holder class)
{
    struct record_row *r = record_at(record);
    struct anchor_list anchors = record_anchors(record);
    const block_id *list = table.list + r->list;
    ASSERT(r->slot == NONE && (class == HOLD_LIVE || class == HOLD_STASH));
    share_rows(list, r->rows, slot, class);
    drop_all(list, r->list_count, r->class);
    run_free(record);
    anchors_recharge(&anchors, state_sections_arena(), r->class, anchor_holder(class));
    r->slot = slot;
    r->class = class;
    r->rows = 0;
    r->tail = false;
}

void record_class(u32 record, enum holder class)
{
    struct record_row *r = record_at(record);
    struct anchor_list anchors = record_anchors(record);
    const block_id *list = table.list + r->list;
    ASSERT(r->slot == NONE && class > HOLD_STASH);
    hold_all(list, r->list_count, class);
    drop_all(list, r->list_count, r->class);
    anchors_recharge(&anchors, state_sections_arena(), r->class, class);
    r->class = class;
}

/* ------------------------------------------------------------------ cut, drop */

void record_cut(u32 record, u64 pos)
{
    struct record_row *r = record_at(record);
    u32 count;
    u64 rows;
    const block_id *list = record_blocks(record, &count, &rows);
    ASSERT(pos <= rows && (pos > 0 || r->slot != NONE));
    if (r->slot != NONE) {
        share_rows(list, pos, r->slot, r->class);
    } else {
        drop_all(list + blocks_of(pos), count - blocks_of(pos), r->class);
        r->list_count = blocks_of(pos);
        r->rows = pos;
        keep_first(record);
    }
    struct anchor_list anchors = record_anchors(record);
    anchors_cut(&anchors, state_sections_arena(), pos, record_anchor_holder(record));
    end_cut(record_generations(record), pos);
    r->taint = taint_below(record, pos);
    if (r->head_pos > pos) r->head_pos = 0;
}

void record_drop(u32 record)
{
    struct record_row *r = record_at(record);
    struct anchor_list anchors = record_anchors(record);
    anchors_cut(&anchors, state_sections_arena(), 0, record_anchor_holder(record));
    end_cut(record_generations(record), 0);
    if (r->slot != NONE) {
        state_rows_in(r->slot, NULL, 0, 0);
    } else {
        drop_all(table.list + r->list, r->list_count, r->class);
        run_free(record);
    }
    row_free(record);
}

/* ------------------------------------------------------------------ what it is worth */

u64 record_freed_bytes(u32 record, u64 pos)
{
    u32 count, arena = state_blocks_arena(), freed = 0;
    u64 rows, block_rows = state_shape()->block_rows;
    const block_id *list = record_blocks(record, &count, &rows);
    for (u64 i = count; i-- > (pos + block_rows - 1) / block_rows; freed++)
        if (holders_total(&arena_blocks_row(arena, list[i])->holders) > 1) break;
    return (u64)freed * arena_row(arena)->unit_bytes;
}

u64 record_anchor_bytes(u32 record)
{
    u32 arena = state_sections_arena(), freed = 0;
    struct anchor_list list = record_anchors(record);
    for (u32 i = anchors_count(&list); i-- > 0;)
        freed += holders_total(arena_slots_holders(arena, list.row[i].unit)) == 1;
    return (u64)freed * arena_row(arena)->unit_bytes;
}

/* Who shares a block shares all before it, so the shared ones are found by halving. */
u64 record_shared_rows(u32 record)
{
    u32 count, arena = state_blocks_arena(), lo = 0;
    u64 rows;
    const block_id *list = record_blocks(record, &count, &rows);
    for (u32 hi = count; lo < hi;) {
        u32 middle = lo + (hi - lo) / 2;
        if (holders_total(&arena_blocks_row(arena, list[middle])->holders) > 1) lo = middle + 1;
        else hi = middle;
    }
    return MIN(rows, (u64)lo * state_shape()->block_rows);
}

bool record_covers(u32 record, u32 other)
{
    u32 count, other_count;
    u64 rows, other_rows;
    const block_id *list = record_blocks(record, &count, &rows);
    const block_id *others = record_blocks(other, &other_count, &other_rows);
    u32 whole = (u32)(other_rows / state_shape()->block_rows);
    return whole > 0 && other_rows <= rows && list[whole - 1].index == others[whole - 1].index;
}

/* ------------------------------------------------------------------ check */

static struct {
    u16 blocks[RECORD_CHECK_CAP], units[RECORD_CHECK_CAP];  /* references by class            */
    bool seen[RECORD_CHECK_CAP];                            /* block: found in some list      */
} tally;

/* Adds, or once all are added asserts, the references of one list as `class`. */
static u32 tally_list(const block_id *list, u32 count, enum holder class, bool check)
{
    u32 fresh = 0, blocks = state_blocks_arena();
    for (u32 i = 0; i < count; i++) {
        u32 index = list[i].index;
        if (index >= RECORD_CHECK_CAP) continue;
        if (!check) {
            tally.blocks[index]++;
            continue;
        }
        ASSERT(arena_blocks_row(blocks, list[i])->holders.count[class] == tally.blocks[index]);
        fresh += !tally.seen[index];
        tally.seen[index] = true;
    }
    return fresh;
}

static u32 tally_blocks(u32 slots, enum holder class, bool check)
{
    u32 count, fresh = 0;
    u64 rows;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        if (table.row[r].class != class) continue;
        const block_id *list = record_blocks(r, &count, &rows);
        fresh += tally_list(list, count, class, check);
    }
    for (u32 slot = 0; slot < slots && class == HOLD_LIVE; slot++) {
        bool known = false;             /* a slot nobody has a record for                     */
        for (u32 r = record_next(0); r != NONE; r = record_next(r + 1))
            known = known || table.row[r].slot == slot;
        const block_id *list = state_rows_out(slot, &count, &rows);
        if (!known) fresh += tally_list(list, count, class, check);
    }
    return fresh;
}

static void tally_units(enum holder class, bool check)
{
    u32 sections = state_sections_arena();
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        struct anchor_list list = record_anchors(r);
        if (record_anchor_holder(r) != class) continue;
        for (u32 i = anchors_count(&list); i-- > 0;) {
            unit_id unit = list.row[i].unit;
            if (unit.index >= RECORD_CHECK_CAP) continue;
            if (!check) tally.units[unit.index]++;
            else ASSERT(arena_slots_holders(sections, unit)->count[class] ==
                        tally.units[unit.index]);
        }
    }
}

/* Blocks that nothing but a file call holds. */
static u64 only_writing(void)
{
    const struct arena_row *row = arena_row(state_blocks_arena());
    return row->held.bytes[HOLD_WRITING] / row->unit_bytes;
}

void record_check(u32 slots, const unit_id *extra, u32 extra_count)
{
    u32 used = 0, ends = 0, found = 0;
    memset(tally.seen, 0, sizeof tally.seen);
    for (u32 class = 0; class < HOLD_COUNT; class++) {
        memset(tally.blocks, 0, sizeof tally.blocks);
        memset(tally.units, 0, sizeof tally.units);
        for (u32 i = 0; class == HOLD_ANCHOR && i < extra_count; i++)
            if (extra[i].index < RECORD_CHECK_CAP) tally.units[extra[i].index]++;
        tally_blocks(slots, (enum holder)class, false);
        tally_units((enum holder)class, false);
        found += tally_blocks(slots, (enum holder)class, true);
        tally_units((enum holder)class, true);
    }
    if (arena_row(state_blocks_arena())->unit_cap <= RECORD_CHECK_CAP)
        ASSERT(found + only_writing() == arena_blocks_used(state_blocks_arena()));
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        struct anchor_list list = record_anchors(r);
        const struct record_row *row = record_at(r);
        u32 count;
        u64 rows;
        record_blocks(r, &count, &rows);
        ASSERT(rows <= (u64)count * state_shape()->block_rows);
        ASSERT((row->slot == NONE) == (row->class > HOLD_STASH));
        ASSERT(row->slot != NONE || (rows > 0 && count == blocks_of(rows) && !row->busy));
        anchors_check(&list, state_sections_arena(), rows, record_anchor_holder(r));
        ends += end_check(record_generations(r));
        used++;
    }
    ASSERT(used == table.count && ends == end_used());
}
