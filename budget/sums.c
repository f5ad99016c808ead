/* budget/sums.c - used and unfilled reserves by node, bytes taken, freed, committed by arena. */
#include "budget/sums.h"

#include <string.h>

bool sums_under(const struct budget_graph *g, u32 node, u32 top)
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

void sums_arena(const struct budget_tables *t, struct sums *d, u32 arena)
{
    d->commit_sum -= d->commit[arena];
    d->spare_sum -= d->spare[arena];
    arena_sums(t, arena, d->taken[arena], d->freed[arena], &d->commit[arena], &d->spare[arena]);
    d->commit_sum += d->commit[arena];
    d->spare_sum += d->spare[arena];
}

void sums_open(const struct budget_tables *t, struct sums *d)
{
    const struct budget_graph *g = t->graph;
    memset(d, 0, sizeof *d);
    for (u32 i = 0; i < g->node_count; i++) d->used[i] = g->node[i].used_bytes;
    for (u32 i = 0; i < g->node_count; i++) {
        u64 lacks = below(g->node[i].reserve_bytes, g->node[i].used_bytes);
        for (u32 n = i; lacks > 0 && n != NONE; n = g->node[n].parent) d->unfilled[n] += lacks;
    }
    for (u32 a = 0; a < t->arena_count; a++) sums_arena(t, d, a);
}

void sums_move(const struct budget_graph *g, struct sums *d, u32 leaf, u64 add, u64 less)
{
    u64 reserve = g->node[leaf].reserve_bytes;
    u64 before = below(reserve, d->used[leaf]);
    u64 after = below(reserve, d->used[leaf] + add - less);
    for (u32 n = leaf; n != NONE; n = g->node[n].parent) {
        d->used[n] += add - less;
        d->unfilled[n] += after - before;
    }
}

void sums_grant(const struct budget_tables *t, struct sums *d, u32 leaf, u32 arena,
                        u64 bytes)
{
    sums_move(t->graph, d, leaf, bytes, 0);
    if (arena == NONE) {
        if (t->graph->node[leaf].pool == POOL_BOARD) d->counted += bytes;
        return;
    }
    d->taken[arena] += bytes;
    sums_arena(t, d, arena);
}

static struct verdict refuse(u8 why, u32 limit, u64 need, u64 have)
{
    return (struct verdict){ .why = why, .limit = limit, .short_bytes = need - have };
}

struct verdict sums_fits(const struct budget_tables *t, const struct sums *d, u32 leaf,
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

bool sums_over(const struct budget_graph *g, const struct sums *d, u32 node)
{
    u64 cap = g->node[node].cap_bytes;
    if (cap == UINT64_MAX) return false;
    if (g->node[node].parent != NONE || g->node[node].pool != POOL_BOARD)
        return d->used[node] + d->unfilled[node] > cap;
    u64 spare = d->spare_sum + d->uncounted, commit = d->commit_sum + d->counted;
    return g->node[node].used_bytes + commit > cap + MIN(spare, UINT64_MAX - cap);
}
