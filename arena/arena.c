/* arena/arena.c - the table of typed arenas, their ranges, commits and counts.
 *
 * Owns: states (one row an arena) and one range of addresses a space.  The arena `books` comes
 * first in the host's range and holds every other arena's bookkeeping, each array committed from
 * its front.  Which unit or run is free is decided by cells.c and runs.c (pure); this file commits
 * what they name, or leaves everything as it was. */
#include "arena/inside.h"

#include "arena/cells.h"

#include <stdatomic.h>
#include <string.h>

enum book_kind { BOOK_CELLS, BOOK_LINKS, BOOK_LISTS, BOOK_ROWS, BOOK_LABELS, BOOK_COUNT };

struct book { u8 *base; u64 offset, range_bytes, committed_bytes; };

struct state {
    struct arena_row        row;
    const struct space_ops *ops;
    u64 offset;                         /* of its range in the space's                        */
    u64 cap_bytes, reserve_bytes, label_bytes;
    u64 cell_bytes;                     /* blocks, slots: committed at once                   */
    u64 top;                            /* table, scratch: bytes below are in use             */
    struct cells cells;
    struct runs  runs;
    struct inside_heap heap;
    bool kept;                          /* heap: its range outlives arena_close               */
    struct book  book[BOOK_COUNT];
};

static struct state states[ARENA_CAP];
static u32 state_count;                 /* `books` is the last                                */
static struct { u8 *base; u64 bytes; } ranges[SPACE_COUNT];
static _Atomic bool gate_open;

static bool has_units(const struct state *s)
{
    return s->row.kind == ARENA_BLOCKS || s->row.kind == ARENA_SLOTS;
}

static struct state *state_of(u32 arena)
{
    ASSERT(arena < state_count);
    return &states[arena];
}

/* ---------------------------------------------------------------- commits and counts */
static enum err commit(struct state *s, u8 *at, u64 bytes)
{
    if (bytes == 0) return OK;
    TRY(s->ops->commit(at, bytes));
    s->row.committed_bytes += bytes;
    s->row.commit_count++;
    if (!atomic_load(&gate_open)) s->row.ungated_count++;
    return OK;
}

static void decommit(struct state *s, u8 *at, u64 bytes)
{
    if (bytes == 0) return;
    s->ops->decommit(at, bytes);
    s->row.committed_bytes -= bytes;
    s->row.decommit_count++;
}

static void use(struct state *s, u64 bytes)
{
    s->row.used_bytes += bytes;
    s->row.high_water_bytes = MAX(s->row.high_water_bytes, s->row.used_bytes);
}

/* Commits a book's first `bytes`. */
static enum err book_need(struct book *book, u64 bytes)
{
    if (bytes <= book->committed_bytes) return OK;
    struct state *books = &states[state_count - 1];
    u64 end = ALIGN_UP(bytes, books->ops->granule_bytes);
    ASSERT(end <= book->range_bytes);
    u64 more = end - book->committed_bytes;
    TRY(commit(books, book->base + book->committed_bytes, more));
    use(books, more);
    book->committed_bytes = end;
    return OK;
}

/* Takes back what book_need added since `bytes` were committed. */
static void book_cut(struct book *book, u64 bytes)
{
    struct state *books = &states[state_count - 1];
    u64 less = book->committed_bytes - bytes;
    decommit(books, book->base + bytes, less);
    books->row.used_bytes -= less;
    book->committed_bytes = bytes;
}

static void books_cut(struct state *s, const u64 before[BOOK_COUNT])
{
    for (u32 k = 0; k < BOOK_COUNT; k++) book_cut(&s->book[k], before[k]);
}

static void books_mark(const struct state *s, u64 out[BOOK_COUNT])
{
    for (u32 k = 0; k < BOOK_COUNT; k++) out[k] = s->book[k].committed_bytes;
}

/* ---------------------------------------------------------------- open and close */
/* Sizes of the range and of the books; nothing is reserved yet. */
static void measure(struct state *s, u64 books_granule)
{
    u64 granule = s->ops->granule_bytes, sizes[BOOK_COUNT] = { 0 };
    struct arena_row *row = &s->row;
    if (has_units(s)) {
        u64 unit = ALIGN_UP(row->unit_bytes, 64);
        u32 in_cell = unit >= granule ? 1 : (u32)(granule / unit);
        row->unit_bytes = unit >= granule ? ALIGN_UP(unit, granule) : unit;
        s->cell_bytes = MAX(row->unit_bytes, granule);
        u64 cells = ((u64)row->unit_cap + in_cell - 1) / in_cell;
        row->range_bytes = cells * s->cell_bytes;
        sizes[BOOK_CELLS] = cells * sizeof(struct cell_row);
        sizes[BOOK_LINKS] = (u64)row->unit_cap * sizeof(u32);
        sizes[BOOK_LISTS] = in_cell * sizeof(u32) + (in_cell / 64 + 2) * sizeof(u64);
        sizes[BOOK_ROWS] = (u64)row->unit_cap * (row->kind == ARENA_BLOCKS ?
                           INSIDE_BLOCK_ROW_BYTES : INSIDE_SLOT_ROW_BYTES);
        sizes[BOOK_LABELS] = (u64)row->unit_cap * s->label_bytes;
    } else if (row->kind == ARENA_HEAP) {
        row->range_bytes = ALIGN_UP(4 * s->cap_bytes + 64 * MIB, granule);
        sizes[BOOK_ROWS] = row->range_bytes / granule * sizeof(u16);
    } else {
        row->range_bytes = ALIGN_UP(s->cap_bytes, granule);
        if (row->kind == ARENA_EXTENTS)
            sizes[BOOK_ROWS] = (row->range_bytes / granule + 2) * sizeof(struct run_row);
    }
    for (u32 k = 0; k < BOOK_COUNT; k++)
        s->book[k] = (struct book){ .range_bytes = ALIGN_UP(sizes[k], books_granule) };
}

static enum err check_decl(const struct arena_decl *decl, u32 count)
{
    if (count >= ARENA_CAP)
        return fail(ERR_CONFIG, "%u arenas declared, at most %d", count, ARENA_CAP - 1);
    for (u32 i = 0; i < count; i++) {
        const struct arena_decl *d = &decl[i];
        ASSERT(d->name != NULL && (u32)d->kind < ARENA_KIND_COUNT);
        if (strlen(d->name) >= ARENA_NAME_BYTES || d->name[0] == 0)
            return fail(ERR_CONFIG, "arena name \"%s\": expected 1 to %d bytes", d->name,
                        ARENA_NAME_BYTES - 1);
        for (u32 j = 0; j < i; j++)
            if (strcmp(d->name, decl[j].name) == 0)
                return fail(ERR_CONFIG, "arena %s is declared twice", d->name);
        if ((d->kind == ARENA_BLOCKS || d->kind == ARENA_SLOTS) && d->unit_bytes == 0)
            return fail(ERR_CONFIG, "arena %s: unit_bytes is 0", d->name);
        const u64 most = 64 * KIB * GIB;                /* half of a process's addresses       */
        if (d->cap_bytes > most / 8 || d->unit_bytes > most || d->label_bytes > most / MAX(1,
            d->unit_cap) || (d->unit_cap > 0 && d->unit_bytes > most / d->unit_cap))
            return fail(ERR_MEMORY, "arena %s: more addresses than there are", d->name);
        if (space_ops(d->space) == NULL)
            return fail(ERR_CONFIG, "arena %s: this machine has no such space", d->name);
    }
    return OK;
}

static void declare(struct state *s, const struct arena_decl *d)
{
    *s = (struct state){ .ops = space_ops(d->space), .cap_bytes = d->cap_bytes,
                         .reserve_bytes = d->reserve_bytes };
    if (d->kind == ARENA_BLOCKS) s->label_bytes = d->label_bytes;
    s->row = (struct arena_row){ .space = space_real(d->space), .kind = d->kind,
                                 .unit_bytes = d->unit_bytes, .unit_cap = d->unit_cap };
    strcpy(s->row.name, d->name);
}

/* Places books and arenas in their space's range; ranges[].bytes are set. */
static void place(void)
{
    struct state *books = &states[state_count - 1];
    u64 at[SPACE_COUNT] = { 0 };
    books->offset = 0;
    for (u32 i = 0; i + 1 < state_count; i++)
        for (u32 k = 0; k < BOOK_COUNT; k++) {
            states[i].book[k].offset = at[SPACE_HOST];
            at[SPACE_HOST] += states[i].book[k].range_bytes;
        }
    books->row.range_bytes = at[SPACE_HOST];
    for (u32 i = 0; i + 1 < state_count; i++) {
        struct state *s = &states[i];
        u64 align = s->row.kind == ARENA_HEAP ? 2 * MIB : 1;    /* jemalloc's metadata block  */
        s->offset = ALIGN_UP(at[s->row.space], MAX(align, s->ops->granule_bytes));
        at[s->row.space] = s->offset + s->row.range_bytes;
    }
    for (u32 space = 0; space < SPACE_COUNT; space++) ranges[space].bytes = at[space];
}

/* Turns offsets into addresses and makes the first rows of the books writable. */
static enum err settle(struct state *s)
{
    struct state *books = &states[state_count - 1];
    s->row.base = ranges[s->row.space].base + s->offset;
    if (s == books) return OK;
    for (u32 k = 0; k < BOOK_COUNT; k++)
        s->book[k].base = books->row.base + s->book[k].offset;
    if (has_units(s)) {
        u32 in_cell = (u32)(s->cell_bytes / s->row.unit_bytes);
        TRY(book_need(&s->book[BOOK_LISTS], s->book[BOOK_LISTS].range_bytes));
        s->cells.cell = (struct cell_row *)(void *)s->book[BOOK_CELLS].base;
        s->cells.next_free = (u32 *)(void *)s->book[BOOK_LINKS].base;
        s->cells.listed = (u64 *)(void *)s->book[BOOK_LISTS].base;
        s->cells.list = (u32 *)(void *)(s->cells.listed + in_cell / 64 + 1);
        cells_open(&s->cells, s->row.unit_cap, in_cell);
    }
    if (s->row.kind == ARENA_EXTENTS) {
        u64 granules = s->row.range_bytes / s->ops->granule_bytes;
        if (granules > UINT32_MAX / 2)
            return fail(ERR_CONFIG, "arena %s: a range of %llu bytes", s->row.name,
                        (ull)s->row.range_bytes);
        s->runs.row = (struct run_row *)(void *)s->book[BOOK_ROWS].base;
        TRY(book_need(&s->book[BOOK_ROWS], sizeof(struct run_row)));
        runs_open(&s->runs, (u32)granules);
    }
    return OK;
}

enum err arena_open(const struct arena_decl *decl, u32 count)
{
    ASSERT(state_count == 0);
    TRY(check_decl(decl, count));
    const struct arena_decl books = { .name = "books", .space = SPACE_HOST, .kind = ARENA_TABLE };
    u64 books_granule = space_ops(SPACE_HOST)->granule_bytes;
    for (u32 i = 0; i < count; i++) {
        declare(&states[i], &decl[i]);
        measure(&states[i], books_granule);
    }
    declare(&states[count], &books);
    state_count = count + 1;
    place();
    atomic_store(&gate_open, true);                     /* what opening commits is no surprise */
    enum err err = OK;
    for (u32 space = 0; space < SPACE_COUNT && err == OK; space++)
        if (ranges[space].bytes > 0)
            err = space_ops((enum space)space)->reserve(ranges[space].bytes, &ranges[space].base);
    for (u32 i = state_count; i-- > 0 && err == OK;) err = settle(&states[i]);
    atomic_store(&gate_open, false);
    if (err != OK) arena_close();
    return err;
}

/* Releases a space's range but for a heap that is kept. */
static void release(u32 space)
{
    const struct space_ops *ops = space_ops((enum space)space);
    u64 at = 0;
    for (u32 i = 0; i < state_count; i++) {
        const struct state *s = &states[i];
        if (!s->kept || s->row.space != space) continue;
        ops->release(ranges[space].base + at, s->offset - at);
        at = s->offset + s->row.range_bytes;
    }
    ops->release(ranges[space].base + at, ranges[space].bytes - at);
}

void arena_close(void)
{
    for (u32 space = 0; space < SPACE_COUNT; space++) {
        if (ranges[space].base != NULL) release(space);
        ranges[space].base = NULL;
        ranges[space].bytes = 0;
    }
    state_count = 0;
    atomic_store(&gate_open, false);
}

/* ---------------------------------------------------------------- the table */
u32 arena_find(const char *name)
{
    for (u32 i = 0; i < state_count; i++)
        if (strcmp(states[i].row.name, name) == 0) return i;
    return NONE;
}

const struct arena_row *arena_row(u32 arena)
{
    struct state *s = state_of(arena);
    if (s->row.kind == ARENA_HEAP) {
        s->row.committed_bytes = atomic_load(&s->heap.committed_bytes);
        s->row.used_bytes = MIN(atomic_load(&s->heap.used_bytes), s->row.committed_bytes);
        s->row.high_water_bytes = atomic_load(&s->heap.high_water_bytes);
        s->row.commit_count = atomic_load(&s->heap.commit_count);
        s->row.decommit_count = atomic_load(&s->heap.decommit_count);
        s->row.ungated_count = atomic_load(&s->heap.ungated_count);
    }
    return &s->row;
}

u32 arena_count(void)
{
    return state_count;
}

u64 arena_free_bytes(u32 arena)
{
    const struct arena_row *row = &state_of(arena)->row;
    return row->committed_bytes - row->used_bytes;
}

u64 arena_trim(u32 arena, u64 keep_free_bytes)
{
    struct state *s = state_of(arena);
    u64 before = arena_row(arena)->committed_bytes;
    if (has_units(s))
        while (arena_free_bytes(arena) > keep_free_bytes) {     /* ends: a cell less each time */
            u32 cell = cells_strip(&s->cells);
            if (cell == NONE) break;
            decommit(s, s->row.base + cell * s->cell_bytes, s->cell_bytes);
        }
    if (s->row.kind == ARENA_SCRATCH && arena_free_bytes(arena) > keep_free_bytes) {
        u64 granule = s->ops->granule_bytes;
        u64 keep = MAX(ALIGN_UP(s->top, granule), ALIGN_DOWN(s->top + keep_free_bytes, granule));
        decommit(s, s->row.base + keep, s->row.committed_bytes - keep);
    }
    return before - arena_row(arena)->committed_bytes;
}

u64 arena_cost_units(u32 arena, u32 count)
{
    const struct state *s = state_of(arena);
    ASSERT(has_units(s));
    return cells_cost(&s->cells, count) * s->cell_bytes;
}

u64 arena_cost_bytes(u32 arena, u64 bytes)
{
    const struct state *s = state_of(arena);
    u64 granule = s->ops->granule_bytes;
    if (s->row.kind == ARENA_EXTENTS) return ALIGN_UP(bytes, granule);
    ASSERT(s->row.kind == ARENA_TABLE || s->row.kind == ARENA_SCRATCH);
    u64 end = ALIGN_UP(ALIGN_UP(s->top, 256) + bytes, granule);
    return end > s->row.committed_bytes ? end - s->row.committed_bytes : 0;
}

void arena_gate(bool open)
{
    atomic_store(&gate_open, open);
}

/* Sums a unit arena's rows anew and compares. */
static void check_units(const struct state *s)
{
    cells_check(&s->cells);
    u64 stride = s->row.kind == ARENA_BLOCKS ? INSIDE_BLOCK_ROW_BYTES : INSIDE_SLOT_ROW_BYTES;
    u64 rows = MIN(s->book[BOOK_ROWS].committed_bytes / stride,
                   (u64)s->cells.cell_fresh * s->cells.cell_units);
    struct holders_bytes held = { { 0 } };
    u32 units = 0;
    for (u64 i = 0; i < MIN(rows, s->row.unit_cap); i++) {
        struct holders h;                               /* the first member of both rows      */
        memcpy(&h, s->book[BOOK_ROWS].base + i * stride, sizeof h);
        enum holder class = holders_charged(&h);
        if (class == HOLD_COUNT) continue;
        held.bytes[class] += s->row.unit_bytes;
        units++;
    }
    ASSERT(units == s->cells.unit_count);
    ASSERT(memcmp(&held, &s->row.held, sizeof held) == 0);
    ASSERT(s->row.used_bytes == units * s->row.unit_bytes);
    ASSERT(s->row.committed_bytes == s->cells.cell_count * s->cell_bytes);
}

void arena_check(void)
{
    u64 books_bytes = 0;
    for (u32 i = 0; i < state_count; i++) {
        const struct state *s = &states[i];
        const struct arena_row *row = arena_row(i);
        u64 granule = s->ops->granule_bytes;
        ASSERT(row->committed_bytes == row->used_bytes + arena_free_bytes(i));
        ASSERT(row->used_bytes <= row->committed_bytes && row->committed_bytes % granule == 0);
        ASSERT(row->committed_bytes <= row->range_bytes);
        ASSERT(row->used_bytes <= row->high_water_bytes || row->kind == ARENA_HEAP);
        for (u32 k = 0; k < BOOK_COUNT; k++) books_bytes += s->book[k].committed_bytes;
        if (has_units(s)) check_units(s);
        if (row->kind == ARENA_EXTENTS) {
            runs_check(&s->runs);
            ASSERT(row->used_bytes == s->runs.used * granule);
            ASSERT(row->committed_bytes == row->used_bytes);
        }
        if (i + 1 == state_count) ASSERT(row->used_bytes == books_bytes);
        else if (row->kind == ARENA_TABLE || row->kind == ARENA_SCRATCH)
            ASSERT(row->used_bytes == s->top);
    }
}

/* ---------------------------------------------------------------- units */
enum err arena_inside_take(u32 arena, enum arena_kind kind, u32 *unit_out)
{
    struct state *s = state_of(arena);
    ASSERT(s->row.kind == kind);
    struct cells_pick pick;
    if (!cells_pick(&s->cells, &pick))
        return fail(ERR_FULL, "arena %s: all of its %u units are held", s->row.name,
                    s->row.unit_cap);
    u64 before[BOOK_COUNT], rows = (u64)pick.unit + 1;
    books_mark(s, before);
    u64 row_bytes = kind == ARENA_BLOCKS ? INSIDE_BLOCK_ROW_BYTES : INSIDE_SLOT_ROW_BYTES;
    enum err err = book_need(&s->book[BOOK_CELLS], (pick.cell + 1ull) * sizeof(struct cell_row));
    if (err == OK) err = book_need(&s->book[BOOK_LINKS], rows * sizeof(u32));
    if (err == OK) err = book_need(&s->book[BOOK_ROWS], rows * row_bytes);
    if (err == OK) err = book_need(&s->book[BOOK_LABELS], rows * s->label_bytes);
    if (err == OK && pick.commit)
        err = commit(s, s->row.base + pick.cell * s->cell_bytes, s->cell_bytes);
    if (err != OK) {
        books_cut(s, before);
        return err;
    }
    cells_take(&s->cells, pick);
    use(s, s->row.unit_bytes);
    *unit_out = pick.unit;
    return OK;
}

void arena_inside_give(u32 arena, u32 unit)
{
    struct state *s = state_of(arena);
    cells_give(&s->cells, unit);
    s->row.used_bytes -= s->row.unit_bytes;
}

u8 *arena_inside_unit(u32 arena, u32 unit)
{
    const struct state *s = state_of(arena);
    u32 in_cell = s->cells.cell_units;
    return s->row.base + unit / in_cell * s->cell_bytes + unit % in_cell * s->row.unit_bytes;
}

u8 *arena_inside_label(u32 arena, u32 unit)
{
    const struct state *s = state_of(arena);
    return s->book[BOOK_LABELS].base + unit * s->label_bytes;
}

u64 arena_inside_label_bytes(u32 arena)
{
    return state_of(arena)->label_bytes;
}

void *arena_inside_row(u32 arena, enum arena_kind kind, u32 unit)
{
    const struct state *s = state_of(arena);
    ASSERT(s->row.kind == kind);
    u64 row_bytes = kind == ARENA_BLOCKS ? INSIDE_BLOCK_ROW_BYTES : INSIDE_SLOT_ROW_BYTES;
    if (unit >= s->row.unit_cap) return NULL;
    if ((unit + 1ull) * row_bytes > s->book[BOOK_ROWS].committed_bytes) return NULL;
    return s->book[BOOK_ROWS].base + unit * row_bytes;
}

struct holders_bytes *arena_inside_held(u32 arena)
{
    return &state_of(arena)->row.held;
}

u32 arena_inside_used(u32 arena)
{
    return state_of(arena)->cells.unit_count;
}

/* ---------------------------------------------------------------- extents */
const struct runs *arena_inside_runs(u32 arena)
{
    struct state *s = state_of(arena);
    ASSERT(s->row.kind == ARENA_EXTENTS);
    return &s->runs;
}

/* Granules of `bytes`; ERR_FULL when no range is that long. */
static enum err granules_of(const struct state *s, u64 bytes, u32 *out)
{
    u64 granule = s->ops->granule_bytes;
    if (bytes > s->row.range_bytes)
        return fail(ERR_FULL, "arena %s: %llu bytes asked for, its range has %llu", s->row.name,
                    (ull)bytes, (ull)s->row.range_bytes);
    *out = (u32)((MAX(bytes, 1) + granule - 1) / granule);
    return OK;
}

enum err arena_inside_run_take(u32 arena, u64 bytes, u32 *run_out)
{
    struct state *s = state_of(arena);
    ASSERT(s->row.kind == ARENA_EXTENTS);
    u64 granule = s->ops->granule_bytes, before[BOOK_COUNT];
    u32 count = 0;
    TRY(granules_of(s, bytes, &count));
    u32 run = s->runs.granule_cap == 0 ? NONE : runs_find(&s->runs, count);
    if (run == NONE)
        return fail(ERR_FULL, "arena %s: no free run of %llu bytes", s->row.name, (ull)bytes);
    books_mark(s, before);
    TRY(book_need(&s->book[BOOK_ROWS], (s->runs.row_fresh + 1ull) * sizeof(struct run_row)));
    enum err err = commit(s, s->row.base + s->runs.row[run].first * granule, count * granule);
    if (err != OK) {
        books_cut(s, before);
        return err;
    }
    runs_take(&s->runs, run, count);
    use(s, count * granule);
    *run_out = run;
    return OK;
}

void arena_inside_run_give(u32 arena, u32 run)
{
    struct state *s = state_of(arena);
    u64 granule = s->ops->granule_bytes, bytes = s->runs.row[run].count * granule;
    decommit(s, s->row.base + s->runs.row[run].first * granule, bytes);
    s->row.used_bytes -= bytes;
    runs_give(&s->runs, run);
}

enum err arena_inside_run_grow(u32 arena, u32 run, u64 bytes)
{
    struct state *s = state_of(arena);
    u64 granule = s->ops->granule_bytes;
    u32 count = 0, have = s->runs.row[run].count;
    TRY(granules_of(s, bytes, &count));
    if (count <= have) return OK;
    if (!runs_can_grow(&s->runs, run, count))
        return fail(ERR_FULL, "arena %s: a neighbour is in the way", s->row.name);
    u64 more = (count - have) * granule;
    TRY(commit(s, s->row.base + (s->runs.row[run].first + (u64)have) * granule, more));
    runs_grow(&s->runs, run, count);
    use(s, more);
    return OK;
}

/* ---------------------------------------------------------------- table and scratch */
enum err arena_inside_push(u32 arena, enum arena_kind kind, const char *what, u64 bytes, u64 align,
                           u8 **out)
{
    struct state *s = state_of(arena);
    ASSERT(s->row.kind == kind);
    u64 start = ALIGN_UP(s->top, align);
    if (bytes > s->row.range_bytes || start > s->row.range_bytes - bytes)
        return fail(ERR_FULL, "arena %s: no room for the %llu bytes of %s (%llu of %llu in use)",
                    s->row.name, (ull)bytes, what, (ull)s->top, (ull)s->row.range_bytes);
    u64 end = ALIGN_UP(start + bytes, s->ops->granule_bytes);
    if (end > s->row.committed_bytes)
        TRY(commit(s, s->row.base + s->row.committed_bytes, end - s->row.committed_bytes));
    use(s, start + bytes - s->top);
    s->top = start + bytes;
    *out = s->row.base + start;
    return OK;
}

u64 arena_inside_top(u32 arena)
{
    return state_of(arena)->top;
}

void arena_inside_rewind(u32 arena, u64 top)
{
    struct state *s = state_of(arena);
    ASSERT(s->row.kind == ARENA_SCRATCH && top <= s->top);
    s->row.used_bytes -= s->top - top;
    s->top = top;
}

/* ---------------------------------------------------------------- heap */
struct inside_heap *arena_inside_heap(u32 arena)
{
    return &state_of(arena)->heap;
}

void arena_inside_heap_keep(u32 arena)
{
    state_of(arena)->kept = true;
}

u64 arena_inside_heap_cap(u32 arena)
{
    const struct state *s = state_of(arena);
    return ALIGN_DOWN(s->cap_bytes, s->ops->granule_bytes);
}

u64 arena_inside_heap_reserve(u32 arena)
{
    const struct state *s = state_of(arena);
    return MIN(ALIGN_UP(s->reserve_bytes, s->ops->granule_bytes), arena_inside_heap_cap(arena));
}

enum err arena_inside_heap_book(u32 arena, u16 **out)
{
    struct state *s = state_of(arena);
    ASSERT(s->row.kind == ARENA_HEAP);
    TRY(book_need(&s->book[BOOK_ROWS], s->book[BOOK_ROWS].range_bytes));
    *out = (u16 *)(void *)s->book[BOOK_ROWS].base;
    return OK;
}

const struct space_ops *arena_inside_ops(u32 arena)
{
    return state_of(arena)->ops;
}

bool arena_inside_gated(void)
{
    return atomic_load(&gate_open);
}
