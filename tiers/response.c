/* tiers/response.c - a ring of questions and their answers. */
#include "tiers/response.h"

#include "arena/base/hash.h"
#include "arena/table.h"

#include <string.h>

enum { RESPONSE_ENTRIES = 1024, RESPONSE_SHARE = 4 };

struct entry {
    u64 hash[2];                    /* of what was asked                                      */
    u64 lo, hi;                     /* words of the ring; 0, 0: row unused                    */
    u64 id_count, answer_count;
    u32 field_count, held;
    u32 finish, stop_id, flags, reserved;
};

static struct {
    struct entry *row;              /* [RESPONSE_ENTRIES] a ring too: oldest first            */
    u32 *word;                      /* [word_cap]                                             */
    u64 word_cap, first, count;     /* oldest row, rows in use                                */
    u64 at;                         /* where the next entry begins                            */
    struct response_counts counts;
} own;

u64 response_arena_bytes(u64 cap_bytes)
{
    return cap_bytes == 0 ? 0 : cap_bytes + RESPONSE_ENTRIES * sizeof(struct entry) + 2 * 64;
}

enum err response_declare(struct budget_graph *g, u64 cap_bytes)
{
    if (cap_bytes == 0) return OK;
    return budget_graph_declare(g, &(struct budget_decl){
        .name = "response", .parent = "caches", .pool = POOL_BOARD, .node_class = CLASS_CACHE,
        .used = USED_ARENA, .arena = "responses", .cap_bytes = UINT64_MAX }, NULL);
}

enum err response_open(u64 cap_bytes)
{
    memset(&own, 0, sizeof own);
    if (cap_bytes == 0) return OK;
    u32 arena = arena_find("responses");
    if (arena == NONE) return fail(ERR_NOT_FOUND, "responses: no arena of that name");
    TRY(arena_table_take(arena, "responses", sizeof *own.row, RESPONSE_ENTRIES, &own.row));
    TRY(arena_table_take(arena, "response ids", sizeof *own.word, cap_bytes / sizeof *own.word,
                         &own.word));
    own.word_cap = cap_bytes / sizeof *own.word;
    return OK;
}

void response_close(void) { memset(&own, 0, sizeof own); }
bool response_on(void) { return own.word_cap > 0; }
struct response_counts response_counts(void)
{
    own.counts.entries = own.count;
    return own.counts;
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
    if (e->hash[0] != hash[0] || e->hash[1] != hash[1]) return false;
    if (e->id_count != ask->id_count || e->field_count != ask->field_count) return false;
    const u32 *word = own.word + e->lo;
    return memcmp(word, ask->fields, ask->field_count * sizeof *word) == 0 &&
           memcmp(word + ask->field_count, ask->ids, ask->id_count * sizeof *word) == 0;
}

static u32 find(const u64 hash[2], const struct response_ask *ask)
{
    for (u64 i = 0; i < own.count; i++) {
        u32 at = (u32)((own.first + i) % RESPONSE_ENTRIES);
        if (own.row[at].hi > 0 && same(&own.row[at], hash, ask)) return at;
    }
    return NONE;
}

u32 response_find(const struct response_ask *ask, struct response_answer *out)
{
    u64 hash[2];
    if (!response_on()) return NONE;
    hash_of(ask, hash);
    u32 at = find(hash, ask);
    if (at == NONE) {
        own.counts.misses++;
        return NONE;
    }
    struct entry *e = &own.row[at];
    *out = (struct response_answer){
        .ids = own.word + e->lo + e->field_count + e->id_count, .id_count = e->answer_count,
        .finish = e->finish, .stop_id = e->stop_id, .flags = e->flags };
    e->held++;
    own.counts.hits++;
    return at;
}

void response_drop(u32 entry)
{
    ASSERT(entry < RESPONSE_ENTRIES && own.row[entry].held > 0);
    own.row[entry].held--;
}

static void drop_oldest(void)
{
    memset(&own.row[own.first], 0, sizeof own.row[0]);
    own.first = (own.first + 1) % RESPONSE_ENTRIES;
    own.count--;
    own.counts.dropped++;
}

/* Room for `words` at own.at, the oldest entries gone; false when one that is held is in the way.
 * Each round drops an entry or ends. */
static bool make_room(u64 words)
{
    if (own.at + words > own.word_cap) {            /* the rest of the ring stays empty       */
        while (own.count > 0 && own.row[own.first].lo >= own.at) {
            if (own.row[own.first].held > 0) return false;
            drop_oldest();
        }
        own.at = 0;
    }
    while (own.count > 0) {
        const struct entry *e = &own.row[own.first];
        bool apart = e->lo >= own.at + words || e->hi <= own.at;
        if (apart && own.count < RESPONSE_ENTRIES) return true;
        if (e->held > 0) return false;
        drop_oldest();
    }
    return true;
}

void response_save(const struct response_ask *ask, const struct response_answer *answer)
{
    u64 hash[2], words = ask->field_count + ask->id_count + answer->id_count;
    if (!response_on()) return;
    hash_of(ask, hash);
    if (find(hash, ask) != NONE) return;
    if (words > own.word_cap / RESPONSE_SHARE || !make_room(words)) {
        own.counts.refused++;
        return;
    }
    u32 *word = own.word + own.at;
    memcpy(word, ask->fields, ask->field_count * sizeof *word);
    memcpy(word + ask->field_count, ask->ids, ask->id_count * sizeof *word);
    memcpy(word + ask->field_count + ask->id_count, answer->ids, answer->id_count * sizeof *word);
    own.row[(own.first + own.count++) % RESPONSE_ENTRIES] = (struct entry){
        .hash = { hash[0], hash[1] }, .lo = own.at, .hi = own.at + words,
        .id_count = ask->id_count, .answer_count = answer->id_count,
        .field_count = ask->field_count, .finish = answer->finish, .stop_id = answer->stop_id,
        .flags = answer->flags };
    own.at += words;
    own.counts.kept++;
}

u32 response_clear(void)
{
    u32 cleared = 0;
    while (own.count > 0 && own.row[own.first].held == 0) {
        drop_oldest();
        cleared++;
    }
    return cleared;
}
