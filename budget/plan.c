/* budget/plan.c - the plan: grants and victims from a snapshot, in a tentative copy of its sums.
 *
 * `draft` holds what the snapshot would be after the choices made so far: used and unfilled
 * reserves by node (sums over ancestors kept), bytes taken and freed by arena.  A want fits when
 * each ancestor's cap, the board's committed granules and measured free memory hold; that is
 * monotone in its bytes, so the largest grant is found by halving. */
#include "budget/plan.h"

#include <string.h>

struct draft {
    u64 used[BUDGET_NODE_CAP];
    u64 unfilled[BUDGET_NODE_CAP];      /* reserves not yet used, of the leaves below        */
    u64 taken[ARENA_CAP], freed[ARENA_CAP];
    u64 commit[ARENA_CAP];              /* cells each arena must commit                      */
    u64 spare[ARENA_CAP];               /* whole free cells it could give back               */
    u64 commit_sum, spare_sum;
    u64 counted, uncounted;             /* bytes no arena holds: granted, freed              */
};

/* A record that could be taken for one want, and its rank. */
struct candidate { f64 density; u32 order, record; };

struct job {                            /* one call of budget_plan                           */
    const struct budget_tables *t;
    const struct budget_graph  *g;
    const struct budget_want   *wants;
    const struct budget_record *records;
    u32 want_count, record_count;
    struct budget_plan *out;
    struct draft draft;
    bool gone[BUDGET_RECORD_CAP];       /* victims so far                                    */
    struct candidate heap[BUDGET_RECORD_CAP];
    u32 heap_count;
};

const char *budget_plan_why(u32 why)
{
    static const char *const text[WHY_COUNT] = {
        "granted", "cap", "free memory", "range of the arena", "commit failed",
        "a must was refused",
    };
    return why < WHY_COUNT ? text[why] : "unknown";
}

/* Bytes that next units get from cells that are committed already. */
static u64 ready_units(u32 arena)
{
    const struct arena_row *row = arena_row(arena);
    if (row->unit_bytes == 0) return 0;
    u32 lo = 0, hi = (u32)MIN(arena_free_bytes(arena) / row->unit_bytes, (u64)row->unit_cap);
    while (lo < hi) {                                   /* arena_cost_units is monotone      */
        u32 middle = lo + (hi - lo + 1) / 2;
        if (arena_cost_units(arena, middle) == 0) lo = middle;
        else hi = middle - 1;
    }
    return (u64)lo * row->unit_bytes;
}

static struct budget_arena_view view_of(u32 arena)
{
    const struct arena_row *row = arena_row(arena);
    u64 granule = space_ops(row->space)->granule_bytes;
    struct budget_arena_view v = { .cell_bytes = granule, .cell_units_bytes = granule,
                                   .range_bytes = row->range_bytes - row->used_bytes };
    if (row->kind == ARENA_SCRATCH) v.ready_bytes = arena_free_bytes(arena);
    if (row->kind != ARENA_BLOCKS && row->kind != ARENA_SLOTS) return v;
    u64 unit = MAX(row->unit_bytes, 1);
    v.range_bytes = row->unit_cap * unit - row->used_bytes;
    v.gives = true;
    v.ready_bytes = ready_units(arena);
    v.cell_bytes = MAX(unit, granule);
    v.cell_units_bytes = unit >= granule ? unit : ALIGN_DOWN(granule, unit);
    return v;
}

void budget_plan_tables(const struct budget_graph *g, u64 free_bytes, bool trimmed,
                        struct budget_tables *out)
{
    memset(out, 0, sizeof *out);
    out->graph = g;
    out->free_bytes = free_bytes;
    out->trimmed = trimmed;
    out->arena_count = arena_count();
    for (u32 i = 0; i < out->arena_count; i++) out->arena[i] = view_of(i);
}

/* ------------------------------------------------------------------ the draft */

static bool is_under(const struct budget_graph *g, u32 node, u32 top)
{
    while (node != NONE && node != top) node = g->node[node].parent;
    return node == top;
}

static u64 below(u64 reserve, u64 used)
{
    return reserve - MIN(reserve, used);
}

/* Cells an arena must commit and could give back once `taken` and `freed` are true. */
static void arena_sums(const struct budget_tables *t, u32 arena, u64 taken, u64 freed,
                       u64 *commit_out, u64 *spare_out)
{
    const struct budget_arena_view *v = &t->arena[arena];
    u64 inside = MIN(taken, v->ready_bytes + freed);
    u64 left = (t->trimmed ? freed : v->ready_bytes + freed);
    u64 beyond = taken - inside;
    left -= MIN(left, inside);
    *commit_out = (beyond + v->cell_units_bytes - 1) / v->cell_units_bytes * v->cell_bytes;
    *spare_out = v->gives ? left / v->cell_units_bytes * v->cell_bytes : 0;
}

static void draft_arena(const struct budget_tables *t, struct draft *d, u32 arena)
{
    d->commit_sum -= d->commit[arena];
    d->spare_sum -= d->spare[arena];
    arena_sums(t, arena, d->taken[arena], d->freed[arena], &d->commit[arena], &d->spare[arena]);
    d->commit_sum += d->commit[arena];
    d->spare_sum += d->spare[arena];
}

static void draft_open(const struct budget_tables *t, struct draft *d)
{
    const struct budget_graph *g = t->graph;
    memset(d, 0, sizeof *d);
    for (u32 i = 0; i < g->node_count; i++) d->used[i] = g->node[i].used_bytes;
    for (u32 i = 0; i < g->node_count; i++) {
        u64 lacks = below(g->node[i].reserve_bytes, g->node[i].used_bytes);
        for (u32 n = i; lacks > 0 && n != NONE; n = g->node[n].parent) d->unfilled[n] += lacks;
    }
    for (u32 a = 0; a < t->arena_count; a++) draft_arena(t, d, a);
}

/* A leaf's `used` becomes `used` + add - less, in all its ancestors too. */
static void draft_move(const struct budget_graph *g, struct draft *d, u32 leaf, u64 add, u64 less)
{
    u64 reserve = g->node[leaf].reserve_bytes;
    u64 before = below(reserve, d->used[leaf]);
    u64 after = below(reserve, d->used[leaf] + add - less);
    for (u32 n = leaf; n != NONE; n = g->node[n].parent) {
        d->used[n] += add - less;
        d->unfilled[n] += after - before;
    }
}

static void draft_grant(const struct budget_tables *t, struct draft *d, u32 leaf, u32 arena,
                        u64 bytes)
{
    draft_move(t->graph, d, leaf, bytes, 0);
    if (arena == NONE) {
        if (t->graph->node[leaf].pool == POOL_BOARD) d->counted += bytes;
        return;
    }
    d->taken[arena] += bytes;
    draft_arena(t, d, arena);
}

/* Takes (or gives back) what a record frees. */
static void draft_free(const struct budget_tables *t, struct draft *d,
                       const struct budget_record *r, bool back)
{
    draft_move(t->graph, d, r->node, back ? r->freed_bytes : 0, back ? 0 : r->freed_bytes);
    u64 *sum = &d->uncounted;
    if (r->arena != NONE) sum = &d->freed[r->arena];
    else if (t->graph->node[r->node].pool != POOL_BOARD) return;
    *sum = back ? *sum - r->freed_bytes : *sum + r->freed_bytes;
    if (r->arena != NONE) draft_arena(t, d, r->arena);
}

struct verdict { bool fits; u8 why; u32 limit; u64 short_bytes; };

static struct verdict refuse(u8 why, u32 limit, u64 need, u64 have)
{
    return (struct verdict){ .why = why, .limit = limit, .short_bytes = need - have };
}

/* Would `leaf` fit `bytes` more?  Others' unfilled reserves stay theirs; only a must may fill them
 * from measured free memory: a reserve is a promise about the limits, and measured memory is what
 * other processes left. */
static struct verdict draft_fits(const struct budget_tables *t, const struct draft *d, u32 leaf,
                                 u32 arena, u64 bytes, bool must)
{
    static const struct verdict yes = { .fits = true, .why = WHY_FULL, .limit = NONE };
    const struct budget_graph *g = t->graph;
    u64 own = below(g->node[leaf].reserve_bytes, d->used[leaf]);
    u32 root = leaf;
    if (bytes == 0) return yes;
    bool board = g->node[leaf].pool == POOL_BOARD;
    for (u32 n = leaf; n != NONE; n = g->node[n].parent) {
        root = n;
        if (board && g->node[n].parent == NONE) break;
        u64 need = d->used[n] + bytes + d->unfilled[n] - own, cap = g->node[n].cap_bytes;
        if (need > cap && !FAULT(FAULT_CAP_NOT_APPLIED)) return refuse(WHY_CAP, n, need, cap);
    }
    if (arena != NONE && d->taken[arena] + bytes > t->arena[arena].range_bytes + d->freed[arena])
        return refuse(WHY_RANGE, NONE, d->taken[arena] + bytes,
                      t->arena[arena].range_bytes + d->freed[arena]);
    if (!board) return yes;
    u64 commit = d->commit_sum + d->counted, spare = d->spare_sum + d->uncounted;
    if (arena == NONE) {
        commit += bytes;
    } else {
        u64 c, s;
        arena_sums(t, arena, d->taken[arena] + bytes, d->freed[arena], &c, &s);
        commit += c - d->commit[arena];
        spare += s - d->spare[arena];
    }
    u64 others = d->unfilled[root] - own, cap = g->node[root].cap_bytes;
    u64 need = g->node[root].used_bytes + commit + others;
    if (cap < UINT64_MAX - spare && need > cap + spare)
        return refuse(WHY_CAP, root, need, cap + spare);
    need = commit + g->floor_bytes + (must ? 0 : others);
    bool limited = commit > 0 && t->free_bytes < UINT64_MAX - spare;
    if (limited && need > t->free_bytes + spare)
        return refuse(WHY_FREE, NONE, need, t->free_bytes + spare);
    return yes;
}

/* ------------------------------------------------------------------ victims */

static bool ranks_before(const struct candidate *a, const struct candidate *b)
{
    if (a->order != b->order) return a->order < b->order;
    if (a->density != b->density) return a->density < b->density;
    return a->record < b->record;
}

static void heap_sink(struct job *j, u32 at)
{
    struct candidate moved = j->heap[at];
    for (u32 child = 2 * at + 1; child < j->heap_count; child = 2 * at + 1) {
        if (child + 1 < j->heap_count && ranks_before(&j->heap[child + 1], &j->heap[child]))
            child++;
        if (!ranks_before(&j->heap[child], &moved)) break;
        j->heap[at] = j->heap[child];
        at = child;
    }
    j->heap[at] = moved;
}

/* Order in which `want` may take from each node over its edges, NONE where it may not.  A may-want
 * takes from lower classes only. */
static void edge_orders(const struct job *j, const struct budget_want *want, u32 *order)
{
    const struct budget_graph *g = j->g;
    for (u32 v = 0; v < g->node_count; v++) order[v] = NONE;
    for (u32 i = 0; i < g->edge_count; i++) {
        const struct budget_edge *e = &g->edge[i];
        if (!is_under(g, want->node, e->taker)) continue;
        bool leaf = g->node[e->victim].used_kind != USED_CHILDREN;
        for (u32 v = leaf ? e->victim : 0; v < (leaf ? e->victim + 1 : g->node_count); v++) {
            if (v == want->node || !is_under(g, v, e->victim)) continue;
            if (!want->must && g->node[v].node_class <= g->node[want->node].node_class) continue;
            order[v] = MIN(order[v], e->order);
        }
    }
}

/* Fills the heap with the records whose taking would loosen the limit of `v`. */
static void heap_fill(struct job *j, const u32 *order, u32 arena, struct verdict v)
{
    j->heap_count = 0;
    for (u32 i = 0; i < j->record_count; i++) {
        const struct budget_record *r = &j->records[i];
        if (order[r->node] == NONE || j->gone[i] || r->pinned || r->freed_bytes == 0) continue;
        if (v.why == WHY_CAP && !is_under(j->g, r->node, v.limit)) continue;
        if (v.why == WHY_RANGE && r->arena != arena) continue;
        u64 granule = r->arena == NONE ? 1 : j->t->arena[r->arena].cell_bytes;
        j->heap[j->heap_count++] = (struct candidate){
            .density = r->value / (f64)MAX(r->freed_bytes, granule),
            .order = order[r->node], .record = i,
        };
    }
    for (u32 i = j->heap_count / 2; i-- > 0; ) heap_sink(j, i);
}

/* The best record left that its node's reserve lets go, or NONE. */
static u32 heap_take(struct job *j)
{
    while (j->heap_count > 0) {
        u32 record = j->heap[0].record;
        j->heap[0] = j->heap[--j->heap_count];
        if (j->heap_count > 0) heap_sink(j, 0);
        const struct budget_record *r = &j->records[record];
        u64 used = j->draft.used[r->node], reserve = j->g->node[r->node].reserve_bytes;
        if (used >= r->freed_bytes && used - r->freed_bytes >= reserve) return record;
    }
    return NONE;
}

/* The want fits, or (`past` given) what stops it is another limit than `past`.  Monotone in bytes
 * when `past` is what stops the most: limits are looked at in one order. */
static bool passes(const struct budget_tables *t, const struct draft *d,
                   const struct budget_want *want, u64 bytes, const struct verdict *past)
{
    struct verdict v = draft_fits(t, d, want->node, want->arena, bytes, want->must);
    return v.fits || (past != NULL && (v.why != past->why || v.limit != past->limit));
}

/* Largest lo + k units (or hi) that passes, or UINT64_MAX when lo does not.  Halves at most 50
 * times: grants are under 2^50 bytes. */
static u64 largest(const struct budget_tables *t, const struct draft *d,
                   const struct budget_want *want, u64 lo, u64 hi, const struct verdict *past)
{
    u64 unit = want->unit_bytes > 0 ? want->unit_bytes : t->graph->node[want->node].unit_bytes;
    u64 from = 0, to = (hi - lo + unit - 1) / unit;             /* the last step may be short */
    if (!passes(t, d, want, lo, past)) return UINT64_MAX;
    if (passes(t, d, want, hi, past)) return hi;
    while (from < to) {                 /* lo + from units pass; above `to` nothing does     */
        u64 middle = from + (to - from + 1) / 2;
        if (passes(t, d, want, MIN(lo + middle * unit, hi), past)) from = middle;
        else to = middle - 1;
    }
    return MIN(lo + from * unit, hi);
}

/* What stops `lo` bytes of the want even were every record taken that its edges and the nodes'
 * reserves allow, their bytes free wherever they lie: if that does not fit, no victims do. */
static struct verdict at_best(const struct job *j, const struct budget_want *want,
                              const u32 *order, u64 lo)
{
    struct draft d = j->draft;
    u64 freed[BUDGET_NODE_CAP] = { 0 };
    for (u32 i = 0; i < j->record_count; i++) {
        const struct budget_record *r = &j->records[i];
        if (order[r->node] == NONE || j->gone[i] || r->pinned) continue;
        freed[r->node] += r->freed_bytes;
        if (r->arena != NONE) d.freed[r->arena] += r->freed_bytes;
        else if (j->g->node[r->node].pool == POOL_BOARD) d.uncounted += r->freed_bytes;
    }
    for (u32 a = 0; a < j->t->arena_count; a++) draft_arena(j->t, &d, a);
    for (u32 n = 0; n < j->g->node_count; n++) {
        u64 over = d.used[n] - MIN(d.used[n], j->g->node[n].reserve_bytes);
        if (freed[n] > 0) draft_move(j->g, &d, n, 0, MIN(freed[n], over));
    }
    return draft_fits(j->t, &d, want->node, want->arena, lo, want->must);
}

/* Takes victims until `hi` bytes of the want fit.  Where a limit binds that no victim loosens, hi
 * comes down to where that limit ends (never under lo) and the rest goes on; each step takes one
 * victim, lowers hi or ends.  The verdict on lo with all of them taken comes back. */
static struct verdict take_victims(struct job *j, const struct budget_want *want, u64 lo, u64 hi)
{
    u32 order[BUDGET_NODE_CAP];
    struct verdict v = draft_fits(j->t, &j->draft, want->node, want->arena, hi, want->must);
    if (v.fits || j->record_count == 0)
        return draft_fits(j->t, &j->draft, want->node, want->arena, lo, want->must);
    edge_orders(j, want, order);
    struct verdict best = at_best(j, want, order, lo);
    while (!v.fits && best.fits) {
        struct verdict before = v;
        heap_fill(j, order, want->arena, v);
        while (!v.fits && v.why == before.why && v.limit == before.limit) {
            u32 record = heap_take(j);
            if (record == NONE) {
                hi = largest(j->t, &j->draft, want, lo, hi, &v);
                if (hi == UINT64_MAX)
                    return draft_fits(j->t, &j->draft, want->node, want->arena, lo, want->must);
            } else {
                j->gone[record] = true;
                j->out->victim[j->out->victim_count++] = record;
                draft_free(j->t, &j->draft, &j->records[record], false);
            }
            v = draft_fits(j->t, &j->draft, want->node, want->arena, hi, want->must);
        }
    }
    return best;
}

/* Backwards over the victims from `first` on: those without which `bytes` still fit stay. */
static void give_back(struct job *j, const struct budget_want *want, u64 bytes, u32 first)
{
    struct budget_plan *out = j->out;
    for (u32 i = out->victim_count; i-- > first; ) {
        const struct budget_record *r = &j->records[out->victim[i]];
        draft_free(j->t, &j->draft, r, true);
        bool fits = draft_fits(j->t, &j->draft, want->node, want->arena, bytes, want->must).fits;
        if (!fits) {
            draft_free(j->t, &j->draft, r, false);
            continue;
        }
        j->gone[out->victim[i]] = false;
        memmove(&out->victim[i], &out->victim[i + 1],
                (out->victim_count - i - 1) * sizeof out->victim[0]);
        out->victim_count--;
    }
}

/* ------------------------------------------------------------------ wants */

/* Grants want `i` as much of [lo, hi] more as fits, with victims where edges allow.  False when
 * not even lo fits; then no victim of it stays taken. */
static bool settle(struct job *j, u32 i, u64 lo, u64 hi)
{
    const struct budget_want *want = &j->wants[i];
    struct budget_grant *grant = &j->out->grant[i];
    u32 first = j->out->victim_count;
    struct verdict least = take_victims(j, want, lo, hi);
    struct verdict v = draft_fits(j->t, &j->draft, want->node, want->arena, hi, want->must);
    u64 bytes = largest(j->t, &j->draft, want, lo, hi, NULL);
    if (bytes == UINT64_MAX) v = least;
    grant->why = v.why;
    grant->limit = v.limit;
    if (bytes == UINT64_MAX) {
        if (want->must) j->out->short_bytes = v.short_bytes;    /* with all victims taken    */
        give_back(j, want, 0, first);
        return false;
    }
    give_back(j, want, bytes, first);
    draft_grant(j->t, &j->draft, want->node, want->arena, bytes);
    grant->bytes += bytes;
    return true;
}

/* May-wants in the order they are served: class, value per byte, place. */
static u32 rank_mays(const struct job *j, u32 *rank)
{
    u32 count = 0;
    for (u32 i = 0; i < j->want_count; i++) {
        if (j->wants[i].must) continue;
        u32 at = count++;
        for (; at > 0; at--) {
            const struct budget_want *a = &j->wants[rank[at - 1]], *b = &j->wants[i];
            u8 class_a = j->g->node[a->node].node_class, class_b = j->g->node[b->node].node_class;
            if (class_a < class_b || (class_a == class_b && a->value >= b->value)) break;
            rank[at] = rank[at - 1];
        }
        rank[at] = i;
    }
    return count;
}

/* Greedy by density is poor where mins are lumps: when the one best want of the class alone is
 * worth more than all the greedy choice grants, it goes first.  Returns its place, or `lo`. */
static u32 best_single(const struct job *j, const u32 *rank, u32 lo, u32 hi)
{
    struct draft greedy = j->draft;
    f64 sum = 0, best = 0;
    u32 place = lo;
    bool lumps = false;
    for (u32 k = lo; k < hi; k++) {
        const struct budget_want *want = &j->wants[rank[k]];
        lumps = lumps || want->min_bytes > 0;
    }
    for (u32 k = lo; lumps && k < hi; k++) {
        const struct budget_want *want = &j->wants[rank[k]];
        u64 alone = largest(j->t, &j->draft, want, want->min_bytes, want->max_bytes, NULL);
        u64 after = largest(j->t, &greedy, want, want->min_bytes, want->max_bytes, NULL);
        if (alone != UINT64_MAX && (f64)alone * want->value > best) {
            best = (f64)alone * want->value;
            place = k;
        }
        if (after == UINT64_MAX) continue;
        draft_grant(j->t, &greedy, want->node, want->arena, after);
        sum += (f64)after * want->value;
    }
    return best > sum ? place : lo;
}

static void settle_class(struct job *j, const u32 *rank, u32 lo, u32 hi)
{
    for (u32 k = lo; k < hi; k++) {
        const struct budget_want *want = &j->wants[rank[k]];
        u64 have = j->out->grant[rank[k]].bytes;
        if (have == want->max_bytes) continue;
        (void)settle(j, rank[k], have == 0 ? want->min_bytes : 0, want->max_bytes - have);
    }
}

/* Reserves not yet filled, of all pools. */
static u64 promised(const struct job *j)
{
    u64 bytes = 0;
    for (u32 n = 0; n < j->g->node_count; n++)
        if (j->g->node[n].parent == NONE) bytes += j->draft.unfilled[n];
    return bytes;
}

/* A class after the other.  A grant that fills a reserve takes that promise off everybody's back,
 * so what is short is tried once more while reserves were filled: at most a pass a leaf. */
static void settle_mays(struct job *j)
{
    u32 rank[BUDGET_WANT_CAP];
    u32 count = rank_mays(j, rank);
    u64 unfilled = UINT64_MAX;
    for (bool again = false; promised(j) < unfilled; again = true) {
        unfilled = promised(j);
        for (u32 lo = 0, hi; lo < count; lo = hi) {
            u8 class = j->g->node[j->wants[rank[lo]].node].node_class;
            for (hi = lo; hi < count; hi++)
                if (j->g->node[j->wants[rank[hi]].node].node_class != class) break;
            u32 first = again ? lo : best_single(j, rank, lo, hi);
            u32 moved = rank[first];
            memmove(&rank[lo + 1], &rank[lo], (first - lo) * sizeof rank[0]);
            rank[lo] = moved;
            settle_class(j, rank, lo, hi);
        }
    }
}

/* Mins of all musts, or a refusal that grants nothing; then what more the musts want. */
static bool settle_musts(struct job *j)
{
    struct budget_plan *out = j->out;
    for (u32 i = 0; i < j->want_count; i++) {
        const struct budget_want *want = &j->wants[i];
        if (!want->must || settle(j, i, want->min_bytes, want->min_bytes)) continue;
        struct budget_grant refused = out->grant[i];
        for (u32 k = 0; k < j->want_count; k++)
            out->grant[k] = (struct budget_grant){ .why = WHY_MUST, .limit = NONE };
        refused.bytes = 0;
        out->grant[i] = refused;
        out->refused = true;
        out->refused_want = i;
        out->victim_count = 0;
        return false;
    }
    out->short_bytes = 0;
    for (u32 i = 0; i < j->want_count; i++) {
        const struct budget_want *want = &j->wants[i];
        if (want->must && want->max_bytes > want->min_bytes)
            (void)settle(j, i, 0, want->max_bytes - want->min_bytes);
    }
    return true;
}

void budget_plan(const struct budget_tables *tables, const struct budget_want *wants,
                 u32 want_count, const struct budget_record *records, u32 record_count,
                 struct budget_plan *out)
{
    ASSERT(want_count <= BUDGET_WANT_CAP && record_count <= BUDGET_RECORD_CAP);
    struct job j;
    j.t = tables;
    j.g = tables->graph;
    j.wants = wants;
    j.records = records;
    j.want_count = want_count;
    j.record_count = record_count;
    j.out = out;
    j.heap_count = 0;
    memset(j.gone, 0, record_count * sizeof j.gone[0]);
    draft_open(tables, &j.draft);
    out->refused = false;
    out->refused_want = NONE;
    out->short_bytes = 0;
    out->want_count = want_count;
    out->victim_count = 0;
    out->freed_bytes = 0;
    out->commit_bytes = 0;
    for (u32 i = 0; i < want_count; i++) {
        ASSERT(wants[i].min_bytes <= wants[i].max_bytes && wants[i].node < j.g->node_count);
        out->grant[i] = (struct budget_grant){ .limit = NONE };
    }
    if (settle_musts(&j)) settle_mays(&j);
    for (u32 i = 0; i < out->victim_count; i++)
        out->freed_bytes += records[out->victim[i]].freed_bytes;
    out->commit_bytes = out->refused ? 0 : j.draft.commit_sum + j.draft.counted;
}

u64 budget_plan_room(const struct budget_tables *tables, u32 node)
{
    const struct budget_graph *g = tables->graph;
    struct draft d;
    draft_open(tables, &d);
    for (u32 v = 0; v < g->node_count; v++) {
        const struct budget_node *n = &g->node[v];
        if (v == node || n->yield == NULL || n->used_bytes <= n->reserve_bytes) continue;
        bool edge = false;
        for (u32 i = 0; i < g->edge_count; i++)
            edge = edge || (is_under(g, node, g->edge[i].taker) &&
                            is_under(g, v, g->edge[i].victim));
        if (!edge) continue;
        u64 bytes = n->used_bytes - n->reserve_bytes;
        draft_move(g, &d, v, 0, bytes);
        if (n->pool == POOL_BOARD) d.uncounted += bytes;
    }
    struct budget_want want = { .node = node, .arena = NONE, .must = true, .unit_bytes = 1 };
    u64 most = largest(tables, &d, &want, 0, 1ull << 50, NULL);
    return g->node[node].used_bytes + (most == UINT64_MAX ? 0 : most);
}
