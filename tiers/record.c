/* tiers/record.c - the record table: start, fork, cut, drop. */
#include "tiers/record.h"

#include "arena/table.h"
#include "model/state.h"

#include <string.h>

enum { RECORD_LIST_CAP = 1 << 20, RECORD_END_ROWS = 64, RECORD_END_MIN = 4096,
       RECORD_END_MAX = 65536 };

/* Rows for generations, spans and calls: of all records together. */
static u32 end_rows(u32 cap)
{
    return MIN(MAX(cap * RECORD_END_ROWS, (u32)RECORD_END_MIN), (u32)RECORD_END_MAX);
}

static struct {
    struct record_row      *row;
    struct anchor_row      *anchor;         /* [record_cap][anchor_cap]                       */
    struct generation_list *generation;
    u32 cap, anchor_cap, count;
    u64 number;
} table;

u64 record_table_bytes(u32 cap, u32 anchor_cap)
{
    return (u64)cap * (sizeof(struct record_row) + sizeof(struct generation_list) +
                       (u64)anchor_cap * sizeof(struct anchor_row)) + 3 * 64 +
           end_table_bytes(end_rows(cap));
}

enum err record_open(u32 table_arena, u32 cap, u32 anchor_cap)
{
    memset(&table, 0, sizeof table);
    TRY(arena_table_take(table_arena, "records", sizeof *table.row, cap, &table.row));
    TRY(arena_table_take(table_arena, "anchors", sizeof *table.anchor, (u64)cap * anchor_cap,
                         &table.anchor));
    TRY(arena_table_take(table_arena, "answers", sizeof *table.generation, cap,
                         &table.generation));
    TRY(end_open(table_arena, end_rows(cap)));
    table.cap = cap;
    table.anchor_cap = anchor_cap;
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
    return state_rows_out(record_at(record)->slot, count_out, rows_out);
}

u32 record_next(u32 from)
{
    for (u32 i = from; i < table.cap; i++)
        if (table.row[i].number != 0) return i;
    return NONE;
}

enum err record_start(u32 slot, const u64 session[2], u64 now_us, u32 *out)
{
    u32 free_row = 0;
    while (free_row < table.cap && table.row[free_row].number != 0) free_row++;
    if (free_row == table.cap) return fail(ERR_FULL, "records: all %u rows are used", table.cap);
    table.row[free_row] = (struct record_row){
        .session = { session[0], session[1] }, .taint = UINT64_MAX, .used_us = now_us,
        .number = ++table.number, .slot = slot, .class = HOLD_LIVE,
    };
    ASSERT(table.generation[free_row].count == 0);
    table.count++;
    *out = free_row;
    return OK;
}

/* The slot's list becomes its first blocks that rows [0, pos) need; references change hands. */
static void share_rows(const block_id *list, u64 pos, u32 slot)
{
    u32 blocks = state_blocks_arena();
    u32 count = (u32)((pos + state_shape()->block_rows - 1) / state_shape()->block_rows);
    for (u32 i = FAULT(FAULT_BLOCK_FREED); i < count; i++)
        arena_blocks_hold(blocks, list[i], HOLD_LIVE);
    state_rows_in(slot, list, count, pos);
}

/* The taint of what keeps rows [0, pos) only. */
static u64 taint_below(u32 record, u64 pos)
{
    u64 taint = record_at(record)->taint;
    return taint < pos ? taint : UINT64_MAX;
}

enum err record_fork(u32 source, u64 pos, u32 slot, const u64 session[2], u64 now_us, u32 *out)
{
    u32 count, made;
    u64 rows;
    const block_id *list = record_blocks(source, &count, &rows);
    ASSERT(pos <= rows && record_at(source)->slot != slot);
    TRY(record_start(slot, session, now_us, &made));
    state_freeze(record_at(source)->slot, pos);
    share_rows(list, pos, slot);
    struct anchor_list from = record_anchors(source), to = record_anchors(made);
    anchors_fork(&to, &from, state_sections_arena(), pos);
    end_copy(record_generations(made), record_generations(source), pos);
    table.row[made].head_pos = table.row[source].head_pos <= pos ? table.row[source].head_pos : 0;
    table.row[made].taint = taint_below(source, pos);
    *out = made;
    return OK;
}

void record_cut(u32 record, u64 pos)
{
    u32 count;
    u64 rows;
    const block_id *list = record_blocks(record, &count, &rows);
    ASSERT(pos <= rows);
    share_rows(list, pos, record_at(record)->slot);
    struct anchor_list anchors = record_anchors(record);
    anchors_cut(&anchors, state_sections_arena(), pos);
    end_cut(record_generations(record), pos);
    record_at(record)->taint = taint_below(record, pos);
    if (record_at(record)->head_pos > pos) record_at(record)->head_pos = 0;
}

void record_drop(u32 record)
{
    struct record_row *r = record_at(record);
    struct anchor_list anchors = record_anchors(record);
    for (u32 i = anchors_count(&anchors); i-- > 0;)
        anchors_drop(&anchors, state_sections_arena(), i);
    end_cut(record_generations(record), 0);
    state_rows_in(r->slot, NULL, 0, 0);
    memset(r, 0, sizeof *r);
    table.count--;
}

u64 record_freed_bytes(u32 record, u64 pos)
{
    u32 count, arena = state_blocks_arena(), freed = 0;
    u64 rows, block_rows = state_shape()->block_rows;
    const block_id *list = record_blocks(record, &count, &rows);
    for (u64 i = (pos + block_rows - 1) / block_rows; i < count; i++)
        freed += holders_total(&arena_blocks_row(arena, list[i])->holders) == 1;
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

u64 record_shared_rows(u32 record)
{
    u32 count, arena = state_blocks_arena();
    u64 rows, shared = 0, block_rows = state_shape()->block_rows;
    const block_id *list = record_blocks(record, &count, &rows);
    for (u32 i = 0; i < count; i++) {
        if (holders_total(&arena_blocks_row(arena, list[i])->holders) == 1) break;
        shared = MIN(rows, (i + 1) * block_rows);
    }
    return shared;
}

/* Live references to `block` in the lists of all slots. */
static u32 references_of_block(u32 slots, block_id block)
{
    u32 found = 0;
    for (u32 slot = 0; slot < slots; slot++) {
        u32 count;
        u64 rows;
        const block_id *list = state_rows_out(slot, &count, &rows);
        for (u32 i = 0; i < count; i++) found += list[i].index == block.index;
    }
    return found;
}

static u32 references_of_unit(unit_id unit, const unit_id *extra, u32 extra_count)
{
    u32 found = 0;
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        struct anchor_list list = record_anchors(r);
        for (u32 i = anchors_count(&list); i-- > 0;) found += list.row[i].unit.index == unit.index;
    }
    for (u32 i = 0; i < extra_count; i++) found += extra[i].index == unit.index;
    return found;
}

void record_check(u32 slots, const unit_id *extra, u32 extra_count)
{
    u32 blocks = state_blocks_arena(), sections = state_sections_arena(), used = 0, ends = 0;
    u64 distinct_x = 0;             /* 1 / references summed over references = distinct blocks */
    const u64 one = 720720;         /* divisible by 1 .. 16 */
    for (u32 slot = 0; slot < slots; slot++) {
        u32 count;
        u64 rows;
        const block_id *list = state_rows_out(slot, &count, &rows);
        ASSERT(count <= RECORD_LIST_CAP && rows <= (u64)count * state_shape()->block_rows);
        for (u32 i = 0; i < count; i++) {
            u32 found = references_of_block(slots, list[i]);
            ASSERT(arena_blocks_row(blocks, list[i])->holders.count[HOLD_LIVE] == found);
            distinct_x += one / found;
        }
    }
    if (slots <= 16) ASSERT(distinct_x == one * arena_blocks_used(blocks));
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) {
        struct anchor_list list = record_anchors(r);
        u32 count;
        u64 rows;
        record_blocks(r, &count, &rows);
        anchors_check(&list, sections, rows);
        for (u32 i = anchors_count(&list); i-- > 0;) {
            unit_id unit = list.row[i].unit;
            ASSERT(arena_slots_holders(sections, unit)->count[HOLD_ANCHOR] ==
                   references_of_unit(unit, extra, extra_count));
        }
        ends += end_check(record_generations(r));
        used++;
    }
    ASSERT(used == table.count && ends == end_used());
}
