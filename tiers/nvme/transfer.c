/* tiers/nvme/transfer.c - a record's rows as files. */
#include "tiers/nvme/transfer.h"

#include "arena/table.h"

#include <string.h>

static struct {
    u64 (*prompt)[2], (*lines)[2];
    u64 *keys;                          /* [G] of the piece at hand                           */
    u64 line_cap;
} own;

u64 transfer_table_bytes(const struct state_shape *shape, u64 ctx_rows)
{
    return 2 * (ctx_rows / shape->grid_rows + 1) * sizeof *own.lines +
           shape->grid_rows * sizeof(u64) + 3 * 64;
}

enum err transfer_open(u32 table_arena, u64 ctx_rows)
{
    own.line_cap = ctx_rows / state_shape()->grid_rows + 1;
    TRY(arena_table_take(table_arena, "prompt lines", sizeof *own.prompt, own.line_cap,
                         &own.prompt));
    TRY(arena_table_take(table_arena, "record lines", sizeof *own.lines, own.line_cap,
                         &own.lines));
    return arena_table_take(table_arena, "piece keys", sizeof(u64), state_shape()->grid_rows,
                            &own.keys);
}

/* ------------------------------------------------------------------ names */

const u64 (*transfer_prompt(const u64 *keys, u64 count, u64 *line_count_out))[2]
{
    u64 b = state_shape()->block_rows, g = state_shape()->grid_rows, hash[2] = { 0, 0 };
    u64 lines = MIN(count / g, own.line_cap);
    for (u64 pos = 0; pos < lines * g; pos += b) {
        format_chain(hash, keys + pos, b);
        if ((pos + b) % g == 0) memcpy(own.prompt[pos / g], hash, sizeof hash);
    }
    *line_count_out = lines;
    return (const u64 (*)[2])own.prompt;
}

const u64 (*transfer_lines(const struct transfer_rows *rows, u64 *line_count_out))[2]
{
    u64 b = state_shape()->block_rows, g = state_shape()->grid_rows, hash[2] = { 0, 0 };
    u64 lines = MIN(rows->rows / g, own.line_cap);
    for (u64 pos = 0; pos < lines * g; pos += b) {
        format_chain(hash, arena_blocks_label(state_blocks_arena(), rows->block[pos / b]), b);
        if ((pos + b) % g == 0) memcpy(own.lines[pos / g], hash, sizeof hash);
    }
    *line_count_out = lines;
    return (const u64 (*)[2])own.lines;
}

static void below_of(const u64 (*lines)[2], u64 lo, u64 out[2])
{
    out[0] = lo == 0 ? 0 : lines[lo / state_shape()->grid_rows - 1][0];
    out[1] = lo == 0 ? 0 : lines[lo / state_shape()->grid_rows - 1][1];
}

void transfer_name(const u64 (*lines)[2], const u64 *keys, u64 pos, u64 out[2])
{
    u64 lo = ALIGN_DOWN(pos, state_shape()->grid_rows), below[2];
    below_of(lines, lo, below);
    format_name_hash(state_shape(), below, keys + lo, pos - lo, out);
}

/* ------------------------------------------------------------------ write */

/* Key ids of rows [lo, hi) into the list at hand. */
static const u64 *gather(const struct transfer_rows *rows, u64 lo, u64 hi)
{
    u64 b = state_shape()->block_rows;
    for (u64 pos = lo; pos < hi; pos += b) {
        const u64 *label = arena_blocks_label(state_blocks_arena(), rows->block[pos / b]);
        memcpy(own.keys + (pos - lo), label, MIN(hi - pos, b) * sizeof *label);
    }
    return own.keys;
}

/* Rows [lo, hi) as a chunk or tail.  One that is there with other sums is bad. */
static enum err put_rows(const struct transfer_rows *rows, const u64 (*lines)[2],
                         enum format_kind kind, u64 lo, u64 hi, bool always, u64 now_s, u32 *out)
{
    struct writer_ask ask = { .kind = WRITER_PIECE, .piece = kind, .always = always, .lo = lo,
                              .hi = hi, .turn = rows->turn };
    u32 piece;
    memcpy(ask.session, rows->session, sizeof ask.session);
    ask.block = rows->block + lo / state_shape()->block_rows;
    ask.keys = gather(rows, lo, hi);
    below_of(lines, lo, ask.below);
    format_name_hash(state_shape(), ask.below, ask.keys, hi - lo, ask.hash);
    state_sums(ask.block, hi - lo, ask.sums);
    TRY(pieces_write(&ask, now_s, &piece));
    if (memcmp(pieces_row(piece)->sums, ask.sums, sizeof ask.sums) != 0) {
        pieces_doom(piece);
        return fail(ERR_FULL, "rows %llu to %llu are on disk with other sums: that file goes",
                    (ull)lo, (ull)hi);
    }
    *out = piece;
    return OK;
}

enum err transfer_chunks(const struct transfer_rows *rows, const u64 (*lines)[2], u64 from,
                         u64 line, bool always, u64 now_s, u32 *top_out)
{
    u64 g = state_shape()->grid_rows;
    ASSERT(line % g == 0 && line <= rows->rows);
    *top_out = NONE;
    for (u64 lo = 0; lo < line; lo += g) {
        u32 there = lo < from ? pieces_find(FORMAT_CHUNK, lines[lo / g]) : NONE;
        if (there != NONE && !pieces_row(there)->doomed) *top_out = there;
        else TRY(put_rows(rows, lines, FORMAT_CHUNK, lo, lo + g, always, now_s, top_out));
    }
    return OK;
}

enum err transfer_tail(const struct transfer_rows *rows, const u64 (*lines)[2], bool always,
                       u64 now_s, u32 *tail_out)
{
    u64 lo = ALIGN_DOWN(rows->rows, state_shape()->grid_rows);
    ASSERT(lo < rows->rows);
    return put_rows(rows, lines, FORMAT_TAIL, lo, rows->rows, always, now_s, tail_out);
}

enum err transfer_anchor(const struct transfer_rows *rows, const u64 (*lines)[2], u64 pos,
                         unit_id unit, bool always, u64 now_s, u32 *anchor_out)
{
    u64 g = state_shape()->grid_rows, lo = ALIGN_DOWN(pos - 1, g);
    ASSERT(pos > 0 && pos <= rows->rows);
    struct writer_ask ask = { .kind = WRITER_PIECE, .piece = FORMAT_ANCHOR, .always = always,
                              .lo = lo, .hi = pos, .unit = unit, .turn = rows->turn,
                              .session = { rows->session[0], rows->session[1] } };
    ask.keys = gather(rows, lo, pos);
    below_of(lines, lo, ask.below);
    format_name_hash(state_shape(), ask.below, ask.keys, pos - lo, ask.hash);
    return pieces_write(&ask, now_s, anchor_out);
}

/* ------------------------------------------------------------------ read */

/* The highest piece that holds rows of a start. */
static u32 rows_top(u32 anchor, u32 cover)
{
    return cover != NONE ? cover : pieces_below(anchor);
}

u64 transfer_bytes(u32 anchor, u32 cover)
{
    return pieces_row(anchor)->bytes + pieces_chain_bytes(rows_top(anchor, cover), 0);
}

static void submit(const struct transfer_ask *ask, u32 piece, u64 rows_hi)
{
    const struct piece_row *r = pieces_row(piece);
    struct reader_ask read = {
        .owner = ask->owner, .piece = piece, .kind = (enum format_kind)r->kind, .lo = r->lo,
        .hi = r->hi, .rows_hi = MIN(rows_hi, r->hi), .hash = { r->name[0], r->name[1] },
        .keys = ask->keys == NULL ? NULL : ask->keys + r->lo,
        .learn = ask->learn == NULL ? NULL : ask->learn + r->lo,
        .block = ask->block + r->lo / state_shape()->block_rows,
        .unit = ask->unit,
    };
    pieces_hold(piece);
    bool taken = reader_submit(&read);
    ASSERT(taken);                      /* room for all was asked for                         */
}

u32 transfer_reads(u32 anchor, u32 cover)
{
    u32 reads = 1;
    for (u32 at = rows_top(anchor, cover); at != NONE; at = pieces_below(at)) reads++;
    return reads;
}

bool transfer_load(const struct transfer_ask *ask, u32 *reads_out)
{
    u64 pos = pieces_row(ask->anchor)->hi;
    u32 reads = transfer_reads(ask->anchor, ask->cover), top = rows_top(ask->anchor, ask->cover);
    if (reader_room() < reads) return false;
    for (u32 at = top; at != NONE; at = pieces_below(at)) submit(ask, at, pos);
    submit(ask, ask->anchor, pos);
    *reads_out = reads;
    return true;
}

bool transfer_load_unit(const struct transfer_ask *ask)
{
    if (reader_room() == 0) return false;
    submit(ask, ask->anchor, pieces_row(ask->anchor)->hi);
    return true;
}

void transfer_answer(const struct reader_answer *answer)
{
    pieces_release(answer->piece);
    if (answer->err != OK && answer->err != ERR_STALE && !pieces_row(answer->piece)->doomed)
        pieces_doom(answer->piece);
}
