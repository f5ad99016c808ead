/* tiers/response.c - questions and their answers, an extent each. */
#include "tiers/response.h"

#include "arena/base/hash.h"
#include "arena/extents.h"
#include "arena/table.h"
#include "tiers/value.h"

#include <string.h>

enum { RESPONSE_ENTRIES = 1024, RESPONSE_SHARE = 4 };

struct entry {
    u64 hash[2];                    /* of what was asked                                      */
    extent_id extent;               /* fields, ids, answer                                    */
    u64 bytes;                      /* of the extent; 0: row unused                           */
    u64 id_count, answer_count, used_us;
    u32 field_count, held, hits;
    u32 finish, stop_id, flags;
};

static struct {
    struct entry *row;              /* [RESPONSE_ENTRIES], or NULL: off                       */
    struct budget_graph *graph;
    u32 arena, node;
    u64 half_life_us;
    struct response_counts counts;
} own;

u64 response_arena_bytes(u64 cap_bytes)
{
    return cap_bytes == 0 ? 0 : 2 * ALIGN_UP(cap_bytes, space_ops(SPACE_HOST)->granule_bytes);
}

u64 response_table_bytes(u64 cap_bytes)
{
    return cap_bytes == 0 ? 0 : RESPONSE_ENTRIES * sizeof(struct entry) + 64;
}

static void let_go(u32 at)
{
    arena_extents_free(own.arena, own.row[at].extent);
    memset(&own.row[at], 0, sizeof own.row[at]);
    own.counts.entries--;
}

static u64 yield(void *owner, const u32 *entries, u32 count)
{
    u64 bytes = 0;
    (void)owner;
    for (u32 i = 0; i < count; i++) {
        ASSERT(entries[i] < RESPONSE_ENTRIES && own.row[entries[i]].held == 0);
        bytes += own.row[entries[i]].bytes;
        own.counts.yielded++;
        let_go(entries[i]);
    }
    return bytes;
}

enum err response_declare(struct budget_graph *g, u64 cap_bytes)
{
    static const struct { const char *taker; u32 order; } takers[] = {
        { "live", 2 }, { "stash", 2 }, { "park", 2 }, { "pin", 2 }, { "anchors", 2 },
        { "store", 1 },
    };
    if (cap_bytes == 0) return OK;
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "response", .parent = "caches", .pool = POOL_BOARD, .node_class = CLASS_CACHE,
        .used = USED_ARENA, .arena = "responses", .cap_bytes = cap_bytes, .yield = yield }, NULL));
    for (u32 i = 0; i < COUNT_OF(takers); i++)
        if (strcmp(takers[i].taker, "live") == 0 || budget_graph_find(g, takers[i].taker) != NONE)
            TRY(budget_graph_edge(g, takers[i].taker, "response", takers[i].order));
    return OK;
}

enum err response_open(struct budget_graph *g, u32 table_arena, u64 cap_bytes, u64 half_life_us)
{
    memset(&own, 0, sizeof own);
    if (cap_bytes == 0) return OK;
    own.graph = g;
    own.half_life_us = half_life_us;
    own.node = budget_graph_find(g, "response");
    own.arena = arena_find("responses");
    if (own.arena == NONE || own.node == NONE)
        return fail(ERR_NOT_FOUND, "responses: no arena or node of that name");
    return arena_table_take(table_arena, "responses", sizeof *own.row, RESPONSE_ENTRIES, &own.row);
}

void response_close(void) { memset(&own, 0, sizeof own); }
bool response_on(void) { return own.row != NULL; }
struct response_counts response_counts(void) { return own.counts; }

static u64 words_of(const struct response_ask *ask, u64 answer_count)
{
    return ask->field_count + ask->id_count + answer_count;
}

static const u32 *words_at(const struct entry *e)
{
    return (const u32 *)(const void *)arena_extents_addr(own.arena, e->extent);
}

static void hash_of(const struct response_ask *ask, u64 out[2])
{
    struct hash_state state;
    hash_open(&state);
    hash_add(&state, ask->fields, ask->field_count * sizeof *ask->fields);
    hash_add(&state, ask->ids, ask->id_count * sizeof *ask->ids);
    hash_close(&state, out);
}

static bool same(const struct entry *e, const u64 hash[2], const struct response_ask *ask)
{
    if (e->bytes == 0 || e->hash[0] != hash[0] || e->hash[1] != hash[1]) return false;
    if (e->id_count != ask->id_count || e->field_count != ask->field_count) return false;
    const u32 *word = words_at(e);
    return memcmp(word, ask->fields, ask->field_count * sizeof *word) == 0 &&
           memcmp(word + ask->field_count, ask->ids, ask->id_count * sizeof *word) == 0;
}

static u32 find(const struct response_ask *ask)
{
    u64 hash[2];
    hash_of(ask, hash);
    for (u32 at = 0; at < RESPONSE_ENTRIES; at++)
        if (same(&own.row[at], hash, ask)) return at;
    return NONE;
}

u32 response_find(const struct response_ask *ask, struct response_answer *out, u64 now_us)
{
    u32 at = response_on() ? find(ask) : NONE;
    if (at == NONE) {
        own.counts.misses += response_on();
        return NONE;
    }
    struct entry *e = &own.row[at];
    *out = (struct response_answer){
        .ids = words_at(e) + e->field_count + e->id_count, .id_count = e->answer_count,
        .finish = e->finish, .stop_id = e->stop_id, .flags = e->flags };
    e->held++;
    e->hits++;
    e->used_us = now_us;
    own.counts.hits++;
    return at;
}

void response_drop(u32 entry)
{
    ASSERT(entry < RESPONSE_ENTRIES && own.row[entry].held > 0);
    own.row[entry].held--;
}

/* Tokens it spares an equal request, as any record's value: its prompt and its answer. */
static f64 worth(const struct entry *e, u64 now_us)
{
    u64 idle = now_us > e->used_us ? now_us - e->used_us : 0;
    return value_of(e->hits, e->id_count + e->answer_count, idle, own.half_life_us, 1);
}

/* An unused row, or the least valuable that nobody replays, or NONE. */
static u32 place(u64 now_us)
{
    u32 found = NONE;
    f64 least = 0;
    for (u32 at = 0; at < RESPONSE_ENTRIES; at++) {
        const struct entry *e = &own.row[at];
        if (e->bytes == 0) return at;
        f64 here = worth(e, now_us) / (f64)e->bytes;
        if (e->held > 0 || (found != NONE && here >= least)) continue;
        found = at;
        least = here;
    }
    return found;
}

bool response_want(const struct response_ask *ask, u64 answer_count, struct budget_want *out)
{
    if (!response_on() || find(ask) != NONE) return false;
    u64 granule = space_ops(arena_row(own.arena)->space)->granule_bytes;
    u64 bytes = ALIGN_UP(words_of(ask, answer_count) * sizeof(u32), granule);
    if (bytes > MAX(own.graph->node[own.node].cap_bytes / RESPONSE_SHARE, granule) ||
        place(0) == NONE) {
        own.counts.refused++;
        return false;
    }
    *out = (struct budget_want){
        .node = own.node, .arena = own.arena, .min_bytes = bytes, .max_bytes = bytes,
        .unit_bytes = granule, .value = (f64)(ask->id_count + answer_count) / (f64)bytes };
    return true;
}

void response_refused(void) { own.counts.refused++; }

enum err response_save(const struct response_ask *ask, const struct response_answer *answer,
                       u64 now_us)
{
    u64 words = words_of(ask, answer->id_count);
    extent_id extent;
    TRY(arena_extents_take(own.arena, words * sizeof(u32), &extent));
    u32 at = place(now_us), *word = (u32 *)(void *)arena_extents_addr(own.arena, extent);
    ASSERT(at != NONE);
    if (own.row[at].bytes > 0) {
        own.counts.dropped++;
        let_go(at);
    }
    memcpy(word, ask->fields, ask->field_count * sizeof *word);
    memcpy(word + ask->field_count, ask->ids, ask->id_count * sizeof *word);
    memcpy(word + ask->field_count + ask->id_count, answer->ids, answer->id_count * sizeof *word);
    own.row[at] = (struct entry){
        .extent = extent, .bytes = arena_extents_bytes(own.arena, extent), .used_us = now_us,
        .id_count = ask->id_count, .answer_count = answer->id_count,
        .field_count = ask->field_count, .finish = answer->finish, .stop_id = answer->stop_id,
        .flags = answer->flags };
    hash_of(ask, own.row[at].hash);
    own.counts.kept++;
    own.counts.entries++;
    return OK;
}

u32 response_victims(struct budget_record *out, u32 cap, u64 now_us)
{
    u32 count = 0;
    for (u32 at = 0; response_on() && at < RESPONSE_ENTRIES && count < cap; at++) {
        const struct entry *e = &own.row[at];
        if (e->bytes == 0 || e->held > 0) continue;
        out[count++] = (struct budget_record){ .node = own.node, .record = at, .arena = NONE,
                                               .value = worth(e, now_us),
                                               .freed_bytes = e->bytes };
    }
    return count;
}

u32 response_clear(void)
{
    u32 cleared = 0;
    for (u32 at = 0; response_on() && at < RESPONSE_ENTRIES; at++) {
        if (own.row[at].bytes == 0 || own.row[at].held > 0) continue;
        let_go(at);
        own.counts.dropped++;
        cleared++;
    }
    return cleared;
}
