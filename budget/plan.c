/* budget/plan.c - the plan: wants in their order over the sums and victims made so far. */
#include "budget/plan.h"

#include "budget/victims.h"

#include <string.h>

struct job {                            /* one call of budget_plan                           */
    const struct budget_tables *t;
    const struct budget_graph  *g;
    const struct budget_want   *wants;
    u32 want_count;
    struct budget_plan *out;
    struct victims v;
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
    for (u32 class = 0; class < HOLD_COUNT; class++) out->class_node[class] = NONE;
    for (u32 n = 0; n < g->node_count; n++)
        if (g->node[n].used_kind == USED_HOLDER && g->node[n].pool == POOL_BOARD)
            out->class_node[g->node[n].holder] = n;
    out->arena_count = arena_count();
    for (u32 i = 0; i < out->arena_count; i++) out->arena[i] = view_of(i);
}

/* ------------------------------------------------------------------ wants */

/* Were `bytes` granted, how much more the want gets for records worth less than itself: taken while
 * that is a gain, else all of them stay. */
static u64 replace(struct job *j, const struct budget_want *want, u64 bytes, u64 lo, u64 hi)
{
    struct budget_plan *out = j->out;
    u32 first = out->victim_count;
    u64 have = bytes == UINT64_MAX ? 0 : bytes;
    (void)victims_take(&j->v, want, VICTIMS_CHEAPER, bytes == UINT64_MAX ? lo : bytes, hi);
    if (out->victim_count == first) return bytes;
    u64 more = victims_largest(j->t, &j->v.sums, want, lo, hi, NULL);
    if (more != UINT64_MAX && more > have) {
        f64 lost = 0;
        victims_give_back(&j->v, want, more, first, false);
        for (u32 i = first; i < out->victim_count; i++)
            lost += j->v.records[out->victim[i]].value;
        if (lost < (f64)(more - have) * want->value) return more;
    }
    victims_give_back(&j->v, want, 0, first, true);
    return bytes;
}

/* Grants want `i` as much of [lo, hi] more as fits, with victims where edges allow.  False when
 * not even lo fits; then no victim of it stays taken. */
static bool settle(struct job *j, u32 i, u64 lo, u64 hi)
{
    const struct budget_want *want = &j->wants[i];
    struct budget_grant *grant = &j->out->grant[i];
    u32 first = j->out->victim_count;
    struct verdict least = victims_take(&j->v, want, VICTIMS_EDGES, lo, hi);
    u64 bytes = victims_largest(j->t, &j->v.sums, want, lo, hi, NULL);
    if (!want->must && bytes != hi) bytes = replace(j, want, bytes, lo, hi);
    struct verdict v = sums_fits(j->t, &j->v.sums, want->node, want->arena, hi, want->must);
    if (bytes == UINT64_MAX) v = least;
    grant->why = v.why;
    grant->limit = v.limit;
    if (bytes == UINT64_MAX) {
        if (want->must) j->out->short_bytes = v.short_bytes;    /* with all victims taken    */
        victims_give_back(&j->v, want, 0, first, false);
        return false;
    }
    victims_give_back(&j->v, want, bytes, first, false);
    sums_grant(j->t, &j->v.sums, want->node, want->arena, bytes);
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
    struct sums greedy = j->v.sums;
    f64 sum = 0, best = 0;
    u32 place = lo;
    bool lumps = false;
    for (u32 k = lo; k < hi; k++) {
        const struct budget_want *want = &j->wants[rank[k]];
        lumps = lumps || want->min_bytes > 0;
    }
    for (u32 k = lo; lumps && k < hi; k++) {
        const struct budget_want *want = &j->wants[rank[k]];
        u64 alone = victims_largest(j->t, &j->v.sums, want, want->min_bytes, want->max_bytes, NULL);
        u64 after = victims_largest(j->t, &greedy, want, want->min_bytes, want->max_bytes, NULL);
        if (alone != UINT64_MAX && (f64)alone * want->value > best) {
            best = (f64)alone * want->value;
            place = k;
        }
        if (after == UINT64_MAX) continue;
        sums_grant(j->t, &greedy, want->node, want->arena, after);
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
        if (j->g->node[n].parent == NONE) bytes += j->v.sums.unfilled[n];
    return bytes;
}

/* A class after the other.  A grant that fills a reserve takes that promise off everybody's back,
 * and a victim may free more than its taker needs: what is short is tried once more while reserves
 * were filled or victims were taken, at most a pass a leaf and a record. */
static void settle_mays(struct job *j)
{
    u32 rank[BUDGET_WANT_CAP];
    u32 count = rank_mays(j, rank), victims = UINT32_MAX;
    u64 unfilled = UINT64_MAX;
    for (bool again = false; promised(j) < unfilled || j->out->victim_count > victims;
         again = true) {
        unfilled = promised(j);
        victims = j->out->victim_count;
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

static void open_plan(struct job *j)
{
    struct budget_plan *out = j->out;
    out->refused = false;
    out->refused_want = NONE;
    out->short_bytes = 0;
    out->want_count = j->want_count;
    out->victim_count = out->squeezed_count = out->recharge_count = 0;
    out->freed_bytes = 0;
    out->commit_bytes = 0;
    for (u32 i = 0; i < j->want_count; i++) {
        const struct budget_want *want = &j->wants[i];
        ASSERT(want->min_bytes <= want->max_bytes && want->node < j->g->node_count);
        out->grant[i] = (struct budget_grant){ .limit = NONE };
    }
}

void budget_plan(const struct budget_tables *tables, const struct budget_want *wants,
                 u32 want_count, const struct budget_record *records, u32 record_count,
                 const struct budget_shares *shares, struct budget_scratch *scratch,
                 struct budget_plan *out)
{
    ASSERT(want_count <= BUDGET_WANT_CAP && record_count <= BUDGET_RECORD_CAP);
    struct job j = {
        .t = tables, .g = tables->graph, .wants = wants, .want_count = want_count, .out = out,
        .v = { .t = tables, .g = tables->graph, .records = records, .record_count = record_count,
               .shares = shares, .scratch = scratch, .out = out },
    };
    open_plan(&j);
    victims_open(&j.v);
    victims_leave(&j.v);
    victims_squeeze(&j.v);
    victims_give_back(&j.v, NULL, 0, 0, false);
    out->squeezed_count = out->victim_count;
    if (settle_musts(&j)) settle_mays(&j);
    if (out->refused) return;
    victims_close(&j.v);
    out->commit_bytes = j.v.sums.commit_sum + j.v.sums.counted;
}

u64 budget_plan_room(const struct budget_tables *tables, u32 node)
{
    const struct budget_graph *g = tables->graph;
    struct sums d;
    sums_open(tables, &d);
    for (u32 v = 0; v < g->node_count; v++) {
        const struct budget_node *n = &g->node[v];
        if (v == node || n->yield == NULL || n->used_bytes <= n->reserve_bytes) continue;
        bool edge = false;
        for (u32 i = 0; i < g->edge_count; i++)
            edge = edge || (sums_under(g, node, g->edge[i].taker) &&
                            sums_under(g, v, g->edge[i].victim));
        if (!edge) continue;
        u64 bytes = n->used_bytes - n->reserve_bytes;
        sums_move(g, &d, v, 0, bytes);
        if (n->pool == POOL_BOARD) d.uncounted += bytes;
    }
    struct budget_want want = { .node = node, .arena = NONE, .must = true, .unit_bytes = 1 };
    u64 most = victims_largest(tables, &d, &want, 0, 1ull << 50, NULL);
    return g->node[node].used_bytes + (most == UINT64_MAX ? 0 : most);
}
