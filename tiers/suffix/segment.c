/* tiers/suffix/segment.c - rows, their extents, the chain. */
#include "tiers/suffix/segment.h"

#include "arena/table.h"
#include "tiers/suffix/array.h"
#include "tiers/value.h"

#include <string.h>

enum { SHARE = 48,                      /* a log of so many segments when it is full          */
       HEADS_MIN = 64, HEADS_PER = 4,   /* words of a chain's table: one for so many          */
       HALF_LIFE_US = 1000000 };        /* times VALUE_HALF_LIFE_S                            */

static struct {
    struct budget_graph *graph;
    struct segment_row *row;            /* [SEGMENT_ROWS]                                     */
    struct segment_view *view;          /* [SEGMENT_ROWS]                                     */
    u32 arena, node, views;
    u64 now_us, yielded, refused, released;
    bool stale;                         /* the views are not of the table as it is            */
} own;

static const extent_id nothing = { NONE, 0 };

u64 segment_words(u64 cap_bytes)
{
    return MIN(MAX(cap_bytes / sizeof(u32) / SHARE, (u64)SEGMENT_WORDS_MIN),
               (u64)SEGMENT_WORDS_MAX);
}

/* Twice the ids (words and places), what one open and some unbuilt segments need beside, work. */
u64 segment_arena_bytes(u64 cap_bytes, u64 corpus_bytes)
{
    if (cap_bytes + corpus_bytes == 0) return 0;
    return 3 * cap_bytes + 3 * sizeof(u32) * corpus_bytes +
           64 * (cap_bytes > 0 ? segment_words(cap_bytes) : SEGMENT_WORDS_MAX) + 4 * MIB;
}

u64 segment_work_bytes(u64 cap_bytes)
{
    u64 words = cap_bytes > 0 ? segment_words(cap_bytes) : SEGMENT_WORDS_MAX;
    return words * (ARRAY_WORK_BYTES + sizeof(u32));
}

u64 segment_table_bytes(void)
{
    return SEGMENT_ROWS * (sizeof(struct segment_row) + sizeof(struct segment_view)) + 2 * 64;
}

/* ------------------------------------------------------------------ memory */

void segment_give(extent_id *extent)
{
    if (extent->index != NONE) arena_extents_free(own.arena, *extent);
    *extent = nothing;
}

void *segment_address(extent_id extent) { return arena_extents_addr(own.arena, extent); }

static void give_all(struct segment_row *r)
{
    segment_give(&r->words);
    segment_give(&r->chain);
    segment_give(&r->array);
}

struct pieces { const struct segment_piece *piece; u32 count; };

static enum err commit(void *owner, u64 bytes)
{
    const struct pieces *p = owner;
    (void)bytes;
    for (u32 i = 0; i < p->count; i++) {
        enum err err = arena_extents_take(own.arena, p->piece[i].bytes, p->piece[i].out);
        if (err == OK) continue;
        while (i-- > 0) segment_give(p->piece[i].out);
        return err;
    }
    return OK;
}

bool segment_gate(const struct segment_piece *piece, u32 count)
{
    static struct budget_plan plan;
    struct pieces p = { piece, count };
    u64 bytes = 0;
    for (u32 i = 0; i < count; i++) {
        bytes += arena_cost_bytes(own.arena, piece[i].bytes);
        *piece[i].out = nothing;
    }
    struct budget_want want = { .node = own.node, .arena = own.arena, .min_bytes = bytes,
                                .max_bytes = bytes, .unit_bytes = 1, .commit = commit,
                                .owner = &p };
    enum err err = budget_gate(own.graph, &(struct budget_ask){
        .kind = GATE_KEEP, .wants = &want, .want_count = 1 }, &plan);
    bool granted = err == OK && plan.grant[0].bytes == bytes;
    own.refused += !granted;
    return granted;
}

/* Bytes that go with a row. */
static u64 memory_bytes(const struct segment_row *r)
{
    const extent_id all[] = { r->words, r->chain, r->array };
    u64 bytes = 0;
    for (u32 i = 0; i < COUNT_OF(all); i++)
        if (all[i].index != NONE) bytes += arena_extents_bytes(own.arena, all[i]);
    return bytes;
}

static void set_free(struct segment_row *r)
{
    give_all(r);
    *r = (struct segment_row){ .words = nothing, .chain = nothing, .array = nothing };
}

static bool yields(const struct segment_row *r)
{
    return (r->state == SEGMENT_OPEN || r->state == SEGMENT_CLOSED) && r->holds == 0;
}

static u64 yield(void *owner, const u32 *records, u32 count)
{
    u64 bytes = 0;
    (void)owner;
    for (u32 i = 0; i < count; i++) {
        struct segment_row *r = &own.row[records[i]];
        ASSERT(yields(r));
        bytes += memory_bytes(r);
        own.yielded++;
        if (!r->filed) {
            set_free(r);
            continue;
        }
        give_all(r);
        r->state = SEGMENT_STORED;
        r->count = MAX(r->written, (u64)WORDS_FILE);
        r->ids = MIN(r->ids, r->count);
        r->places = 0;
    }
    own.stale = true;
    return bytes;
}

enum err segment_declare(struct budget_graph *g, u64 arena_bytes)
{
    if (arena_bytes == 0) return OK;
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "suffix", .parent = "caches", .pool = POOL_BOARD, .node_class = CLASS_CACHE,
        .used = USED_ARENA, .arena = "suffix", .cap_bytes = arena_bytes, .yield = yield }, NULL));
    return budget_graph_edge(g, "live", "suffix", 6);
}

enum err segment_open(u32 table_arena, struct budget_graph *g)
{
    memset(&own, 0, sizeof own);
    u32 arena = arena_find("suffix"), node = budget_graph_find(g, "suffix");
    if (arena == NONE || node == NONE)
        return fail(ERR_NOT_FOUND, "suffix: the arena and the node are not declared");
    TRY(arena_table_take(table_arena, "segments", sizeof *own.row, SEGMENT_ROWS, &own.row));
    TRY(arena_table_take(table_arena, "segment views", sizeof *own.view, SEGMENT_ROWS, &own.view));
    own.graph = g;
    own.arena = arena;
    own.node = node;
    own.stale = true;
    for (u32 i = 0; i < SEGMENT_ROWS; i++)
        own.row[i].words = own.row[i].chain = own.row[i].array = nothing;
    return OK;
}

void segment_close(void)
{
    for (u32 i = 0; own.row != NULL && i < SEGMENT_ROWS; i++) set_free(&own.row[i]);
    memset(&own, 0, sizeof own);
}

struct segment_row *segment_at(u32 row)
{
    ASSERT(row < SEGMENT_ROWS);
    return &own.row[row];
}

u32 segment_next(u32 from)
{
    for (u32 i = from; own.row != NULL && i < SEGMENT_ROWS; i++)
        if (own.row[i].state != SEGMENT_FREE) return i;
    return NONE;
}

u32 *segment_memory(u32 row) { return segment_address(segment_at(row)->words); }

/* ------------------------------------------------------------------ the chain */

static u32 heads_of(u64 cap)
{
    u32 heads = HEADS_MIN;
    while (heads < cap / HEADS_PER) heads *= 2;         /* ends: cap is bounded               */
    return heads;
}

u32 segment_hash(const u32 *end)
{
    u32 h = end[-1] * 0x9E3779B1u ^ end[-2] * 0x85EBCA77u ^ end[-3] * 0xC2B2AE3Du;
    return h ^ h >> 15;
}

/* Chains the places behind ids [lo, hi) of one record; numbers of words without the file's head. */
static void chain(const struct segment_row *r, const u32 *words, u64 lo, u64 hi)
{
    u32 *heads = segment_address(r->chain);
    u32 count = heads_of(r->cap), *prev = heads + count;
    for (u64 place = lo + 3; place <= hi; place++) {
        u32 at = segment_hash(words + place) & (count - 1);
        prev[place] = heads[at];
        heads[at] = (u32)place;
    }
}

void segment_rechain(u32 row)
{
    struct segment_row *r = segment_at(row);
    const u32 *words = segment_memory(row) + WORDS_FILE;
    u64 count = r->count - WORDS_FILE, at = 0;
    memset(arena_extents_addr(own.arena, r->chain), 0, heads_of(r->cap) * sizeof(u32));
    while (at < count) {                                /* ends: records are whole            */
        u64 lo = at + WORDS_RECORD, hi = lo;
        while (hi < count && words_id(words[hi])) hi++;
        chain(r, words, lo, hi);
        at = hi;
    }
    own.stale = true;
}

/* ------------------------------------------------------------------ rows */

static u32 free_row(void)
{
    for (u32 row = 0; row < SEGMENT_ROWS; row++)
        if (own.row[row].state == SEGMENT_FREE) return row;
    return NONE;
}

enum err segment_stored(u64 number, u64 count)
{
    u32 row = free_row();
    if (row == NONE) return fail(ERR_FULL, "%d segments", SEGMENT_ROWS);
    own.row[row].state = SEGMENT_STORED;
    own.row[row].filed = true;
    own.row[row].number = number;
    own.row[row].count = own.row[row].cap = own.row[row].written = MAX(count, (u64)WORDS_FILE);
    return OK;
}

u32 segment_take(u64 cap, bool chained)
{
    u32 row = free_row();
    ASSERT(cap > WORDS_FILE + WORDS_RECORD && cap <= WORDS_CAP);
    if (row == NONE) return NONE;
    struct segment_row *r = &own.row[row];
    struct segment_piece piece[] = {
        { cap * sizeof(u32), &r->words },
        { (cap + heads_of(cap)) * sizeof(u32), &r->chain },
    };
    if (!segment_gate(piece, chained ? 2 : 1)) return NONE;
    r->state = SEGMENT_OPEN;
    r->cap = cap;
    r->count = WORDS_FILE;
    own.stale = true;
    return row;
}

void segment_put(u32 row, const u64 session[2], const u32 *ids, u32 count)
{
    struct segment_row *r = segment_at(row);
    ASSERT(r->state == SEGMENT_OPEN && r->count + WORDS_RECORD + count <= r->cap);
    u32 *words = segment_memory(row);
    u64 lo = r->count + WORDS_RECORD - WORDS_FILE;
    r->count += words_put(words + r->count, session, ids, count);
    r->ids += count;
    if (r->chain.index != NONE) chain(r, words + WORDS_FILE, lo, lo + count);
    own.stale = true;
}

void segment_forget(u32 row)
{
    struct segment_row *r = segment_at(row);
    own.stale = true;
    if (r->holds > 0) r->state = SEGMENT_GONE;
    else set_free(r);
}

void segment_release(u32 row)
{
    struct segment_row *r = segment_at(row);
    ASSERT(r->state != SEGMENT_FREE && r->holds > 0);
    own.released++;
    if (--r->holds == 0 && r->state == SEGMENT_GONE) set_free(r);
}

/* The same segment in another row, for when some thread still has this one. */
static u32 copy(u32 row)
{
    struct segment_row *old = segment_at(row);
    u32 fresh = segment_take(old->cap, old->chain.index != NONE);
    if (fresh == NONE) return NONE;
    struct segment_row *r = segment_at(fresh);
    r->number = old->number;
    r->filed = old->filed;
    r->state = old->state;
    r->hits = old->hits;
    r->used_us = old->used_us;
    memcpy(segment_memory(fresh), segment_memory(row), old->count * sizeof(u32));
    r->count = old->count;
    r->ids = old->ids;
    return fresh;
}

u32 segment_cut(u32 row, const u64 session[2])
{
    u32 at = segment_at(row)->holds > 0 ? copy(row) : row;
    if (at != row) segment_forget(row);
    if (at == NONE) return NONE;
    struct segment_row *r = segment_at(at);
    u32 *words = segment_memory(at);
    r->ids -= words_of_session(words, r->count, session);
    r->count = words_without(words, r->count, session, words);
    r->written = 0;
    r->places = 0;
    segment_give(&r->array);
    own.stale = true;
    if (r->chain.index != NONE) segment_rechain(at);
    if (r->count > WORDS_FILE) return at;
    segment_forget(at);
    return NONE;
}

void segment_sorted(u32 row, extent_id array, u64 places)
{
    struct segment_row *r = segment_at(row);
    segment_give(&r->chain);
    segment_give(&r->array);
    r->array = array;
    r->places = places;
    own.stale = true;
}

/* ------------------------------------------------------------------ views */

static bool newer(const struct segment_view *a, const struct segment_view *b)
{
    const struct segment_row *x = &own.row[a->row], *y = &own.row[b->row];
    return x->corpus != y->corpus ? y->corpus : x->number > y->number;
}

static struct segment_view view_of(u32 row)
{
    const struct segment_row *r = &own.row[row];
    struct segment_view v = { .words = segment_memory(row) + WORDS_FILE,
                              .count = r->count - WORDS_FILE, .row = row };
    if (r->array.index != NONE) {
        v.array = segment_address(r->array);
        v.places = r->places;
    } else if (r->chain.index != NONE) {
        v.heads = segment_address(r->chain);
        v.mask = heads_of(r->cap) - 1;
        v.prev = v.heads + v.mask + 1;
    }
    return v;
}

u32 segment_views(const struct segment_view **out)
{
    *out = own.view;
    if (!own.stale || own.row == NULL) return own.views;
    own.views = 0;
    for (u32 row = 0; row < SEGMENT_ROWS; row++) {
        const struct segment_row *r = &own.row[row];
        if (r->state != SEGMENT_OPEN && r->state != SEGMENT_CLOSED) continue;
        struct segment_view v = view_of(row);
        if (v.array == NULL && v.heads == NULL) continue;
        u32 at = own.views++;
        for (; at > 0 && newer(&v, &own.view[at - 1]); at--) own.view[at] = own.view[at - 1];
        own.view[at] = v;
    }
    own.stale = false;
    return own.views;
}

void segment_hit(u32 row, u64 now_us)
{
    own.row[row].hits++;
    own.row[row].used_us = own.now_us = MAX(own.now_us, now_us);
}

u32 segment_victims(struct budget_record *out, u32 cap)
{
    u32 count = 0;
    for (u32 row = segment_next(0); row != NONE && count < cap; row = segment_next(row + 1)) {
        const struct segment_row *r = &own.row[row];
        if (!yields(r)) continue;
        out[count++] = (struct budget_record){
            .node = own.node, .record = row, .arena = NONE, .freed_bytes = memory_bytes(r),
            .value = value_of(r->hits, 1, own.now_us - MIN(own.now_us, r->used_us),
                              (u64)VALUE_HALF_LIFE_S * HALF_LIFE_US, 1) };
    }
    return count;
}

u64 segment_yielded(void) { return own.yielded; }
u64 segment_refused(void) { return own.refused; }
u64 segment_released(void) { return own.released; }

void segment_check(void)
{
    for (u32 row = segment_next(0); row != NONE; row = segment_next(row + 1)) {
        const struct segment_row *r = &own.row[row];
        bool memory = r->words.index != NONE;
        ASSERT(memory == (r->state != SEGMENT_STORED));
        ASSERT(r->count >= WORDS_FILE && r->count <= r->cap && r->written <= r->count);
        ASSERT(r->ids <= r->count && r->places <= r->ids);
        ASSERT(r->state != SEGMENT_GONE || r->holds > 0);
        ASSERT(r->state != SEGMENT_OPEN || r->corpus || r->chain.index != NONE);
        if (!memory) continue;
        u64 ids;
        ASSERT(words_valid(segment_memory(row), r->count, WORDS_ID_CAP, &ids) == r->count);
        ASSERT(ids == r->ids);
    }
}
