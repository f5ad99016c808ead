/* tiers/match.c - hashes of a prompt against those of all records; ids decide. */
#include "tiers/match.h"

#include "arena/base/hash.h"
#include "arena/table.h"
#include "model/state.h"
#include "tiers/key.h"

#include <string.h>

enum { MATCH_FIRST = 512 };

static struct {
    u64 (*hash)[2];             /* [ctx_blocks] of the prompt's whole blocks                  */
    u64 cap, ready;             /* rows; made so far                                          */
    bool by_ids;                /* hashes have failed in this scan                            */
    u32 first_count;            /* first blocks compared by ids in this scan                  */
    u64 false_count;
} own;

u64 match_table_bytes(u64 ctx_blocks) { return (ctx_blocks + 1) * sizeof *own.hash + 64; }

enum err match_open(u32 table_arena, u64 ctx_blocks)
{
    memset(&own, 0, sizeof own);
    own.cap = ctx_blocks + 1;
    return arena_table_take(table_arena, "prompt hashes", sizeof *own.hash, own.cap, &own.hash);
}

u64 match_false(void) { return own.false_count; }

static u64 block_rows(void) { return state_shape()->block_rows; }

/* Hashes of the prompt's blocks up to `index`. */
static void make_hashes(u64 index, const struct tier_prompt *prompt)
{
    const u64 none[2] = { 0, 0 };
    for (; own.ready <= index; own.ready++)
        hash_chain(own.ready == 0 ? none : own.hash[own.ready - 1],
                   prompt->keys + own.ready * block_rows(), block_rows(), own.hash[own.ready]);
}

/* Block `index` of the list is whole and holds the prompt's ids, as do all before it. */
static bool same_block(const block_id *list, u64 index, const struct tier_prompt *prompt)
{
    const u64 *hash = arena_blocks_row(state_blocks_arena(), list[index])->hash;
    make_hashes(index, prompt);
    return hash[0] == own.hash[index][0] && hash[1] == own.hash[index][1];
}

/* Whole blocks in common, at least `lo`: most often all of them, or just those known already, else
 * up to somewhere. */
static u64 same_blocks(const block_id *list, u64 lo, u64 most, const struct tier_prompt *prompt)
{
    if (most == lo || !same_block(list, lo, prompt)) return lo;
    if (same_block(list, most - 1, prompt)) return most;
    u64 hi = most - 1;
    lo++;
    while (lo < hi) {
        u64 middle = lo + (hi - lo) / 2;
        if (same_block(list, middle, prompt)) lo = middle + 1;
        else hi = middle;
    }
    return lo;
}

/* Can ids [at, end) of a block that parts change what was found?  Only where they are the longest
 * in common so far, or a start lies among them. */
static bool matters(u32 record, u64 at, u64 end, u64 rows, u64 longest)
{
    struct anchor_list list = record_anchors(record);
    u32 best = end > longest || rows < end ? 0 : anchors_best(&list, end - 1);
    return end > longest || rows < end || (best != NONE && list.row[best].pos > at);
}

/* Common prefix with a record; what is under `least`, or short of `longest` with no start in
 * between, need not be exact. */
static u64 common_of(u32 record, const struct tier_prompt *prompt, u64 least, u64 longest)
{
    u32 count, arena = state_blocks_arena(), b = state_shape()->block_rows;
    u64 rows;
    const block_id *list = record_blocks(record, &count, &rows);
    u64 limit = MIN(rows, prompt->count);
    if (own.by_ids || limit / b > own.cap)
        return key_common(arena, b, list, rows, prompt->keys, prompt->count);
    if (limit < least) return 0;
    u64 known = least / b;
    if (known > 0 && !same_block(list, known - 1, prompt)) return 0;
    u64 whole = same_blocks(list, known, limit / b, prompt), at = whole * b;
    if (at == limit || !matters(record, at, at + b, rows, longest)) return at;
    return at + key_common(arena, b, list + whole, MIN(rows - at, b), prompt->keys + at,
                           MIN(prompt->count - at, b));
}

u64 match_common(u32 record, const struct tier_prompt *prompt)
{
    return common_of(record, prompt, 0, 0);
}

/* Where this record lets a prompt with `limit` ids in common start. */
static struct match_row row_of(u32 record, u64 limit)
{
    const struct record_row *r = record_at(record);
    struct anchor_list list = record_anchors(record);
    struct match_row out = { .record = NONE, .unit = { NONE, 0 } };
    u64 rows = record_rows(record);
    u32 best = anchors_best(&list, limit);
    bool at_end = best != NONE && list.row[best].pos == rows;
    if (best != NONE) {
        out.record = record;
        out.way = MATCH_ANCHOR;
        out.start = list.row[best].pos;
        out.kind = (enum anchor_kind)list.row[best].kind;
        out.unit = list.row[best].unit;
    }
    /* An idle slot stands at its end, with or without an anchor; aside the anchor is needed. */
    bool whole = rows > 0 && rows <= limit && !r->busy && !r->prefix && r->class != HOLD_PIN;
    if (!whole || (r->slot == NONE && !at_end)) return out;
    out.record = record;
    out.way = MATCH_END;
    out.start = rows;
    if (!at_end) {
        out.kind = ANCHOR_END;
        out.unit = (unit_id){ NONE, 0 };
    }
    return out;
}

/* Later start first; then what costs nothing, the caller's own session, the newest. */
static bool better(const struct match_row *a, const struct match_row *b,
                   const struct tier_prompt *prompt)
{
    if (b->record == NONE || a->start != b->start) return b->record == NONE || a->start > b->start;
    if ((a->way == MATCH_END) != (b->way == MATCH_END)) return a->way == MATCH_END;
    bool mine = record_session(a->record, prompt->session);
    bool other = record_session(b->record, prompt->session);
    if (mine != other) return mine;
    return record_at(a->record)->used_us > record_at(b->record)->used_us;
}

/* Nothing that starts under it can be chosen: classes of higher rank win ties. */
static u64 least_start(const struct match *m, enum holder class)
{
    u64 least = 1;
    for (u32 c = 0; c <= (u32)class; c++)
        if (m->best[c].record != NONE) least = MAX(least, m->best[c].start);
    return least;
}

/* A record that is all in common says that nothing parted; the head of one (a pin, a prefix entry)
 * does not. */
static void note_common(struct match *m, u32 record, u64 common, bool parts)
{
    const struct record_row *r = record_at(record);
    if (common == 0 || common < m->common) return;
    if (common > m->common) {
        m->common = common;
        m->part_pos = UINT64_MAX;
        m->whole = false;
    }
    if (parts && !m->whole) m->part_pos = common;
    if (parts || r->prefix || r->class == HOLD_PIN) return;
    m->part_pos = UINT64_MAX;
    m->whole = true;
}

/* A record aside that parts inside its first block, and nothing more can come of it.  At most
 * MATCH_FIRST of them are compared by ids: what lies there is a few hundred rows at best. */
static bool parts_at_once(const struct record_row *r, const struct tier_prompt *prompt,
                          const struct match *m)
{
    if (own.by_ids || r->slot != NONE) return false;
    if (r->first_key != prompt->keys[0]) return true;
    if (r->first_hash == 0 || prompt->count < block_rows()) return false;
    if (r->first_hash == own.hash[0][0]) return false;
    return m->common >= block_rows() || own.first_count++ >= MATCH_FIRST;
}

static void look_at(u32 record, const struct tier_prompt *prompt, struct match *m)
{
    const struct record_row *r = record_at(record);
    if (parts_at_once(r, prompt, m)) return;
    u64 limit = prompt->count - 1, rows = record_rows(record), least = least_start(m, r->class);
    bool later = MIN(rows, limit) >= least;
    bool longer = MIN(rows, prompt->count) >= MAX(m->common, 1u);
    if (!later && !longer) return;
    u64 common = common_of(record, prompt, MIN(later ? least : UINT64_MAX,
                                               longer ? m->common : UINT64_MAX), m->common);
    note_common(m, record, common, common < MIN(rows, prompt->count));
    if (!later) return;
    struct match_row here = row_of(record, MIN(common, limit));
    if (here.record != NONE && here.start > 0 && better(&here, &m->best[r->class], prompt))
        m->best[r->class] = here;
}

/* Every id of every start that was found. */
static bool ids_agree(const struct tier_prompt *prompt, const struct match *m)
{
    u64 most = 0;
    u32 record = NONE;
    for (u32 c = 0; c < HOLD_COUNT; c++) {      /* the one that is chosen: latest, first class */
        if (m->best[c].record == NONE || m->best[c].start <= most) continue;
        most = m->best[c].start;
        record = m->best[c].record;
    }
    if (record == NONE) return true;
    u32 count;
    u64 rows;
    const block_id *list = record_blocks(record, &count, &rows);
    return key_common(state_blocks_arena(), state_shape()->block_rows, list, most, prompt->keys,
                      most) == most;
}

static void scan(const struct tier_prompt *prompt, struct match *out)
{
    *out = (struct match){ .part_pos = UINT64_MAX };
    for (u32 c = 0; c < HOLD_COUNT; c++) out->best[c].record = NONE;
    own.first_count = 0;
    if (prompt->count >= block_rows()) make_hashes(0, prompt);
    for (u32 r = record_next(0); r != NONE; r = record_next(r + 1)) look_at(r, prompt, out);
}

void match_scan(const struct tier_prompt *prompt, struct match *out)
{
    own.ready = 0;
    own.by_ids = false;
    scan(prompt, out);
    if (ids_agree(prompt, out)) return;
    own.false_count++;
    own.by_ids = true;
    scan(prompt, out);
    own.by_ids = false;
}
