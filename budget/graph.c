/* budget/graph.c - node and edge tables: declared by owners, checked once, read at each gate. */
#include "budget/graph.h"

#include "budget/measure.h"

#include <string.h>

u32 budget_graph_find(const struct budget_graph *g, const char *name)
{
    for (u32 i = 0; i < g->node_count; i++)
        if (strcmp(g->node[i].name, name) == 0) return i;
    return NONE;
}

/* "" in an empty graph. */
const char *budget_graph_nearest(const struct budget_graph *g, const char *name)
{
    const char *names[BUDGET_NODE_CAP];
    for (u32 i = 0; i < g->node_count; i++) names[i] = g->node[i].name;
    return g->node_count > 0 ? profile_nearest(name, names, g->node_count) : "";
}

static bool is_leaf(const struct budget_graph *g, u32 node)
{
    return g->node[node].used_kind != USED_CHILDREN;
}

/* `node` is `top` or stands below it. */
static bool is_under(const struct budget_graph *g, u32 node, u32 top)
{
    while (node != NONE && node != top) node = g->node[node].parent;
    return node == top;
}

/* ------------------------------------------------------------------ declare */

static enum err check_decl(const struct budget_graph *g, const struct budget_decl *d, u32 parent)
{
    size_t bytes = strlen(d->name);
    if (bytes == 0 || bytes >= BUDGET_NAME_BYTES)
        return fail(ERR_CONFIG, "node \"%.40s\": a name has 1 to %d bytes", d->name,
                    BUDGET_NAME_BYTES - 1);
    if (budget_graph_find(g, d->name) != NONE)
        return fail(ERR_CONFIG, "node %s is declared twice", d->name);
    if (d->parent != NULL && d->parent[0] != 0 && parent == NONE)
        return fail(ERR_CONFIG, "node %s: no parent \"%.40s\"; the nearest is \"%s\"", d->name,
                    d->parent, budget_graph_nearest(g, d->parent));
    if (parent != NONE && is_leaf(g, parent))
        return fail(ERR_CONFIG, "node %s: its parent %s is a leaf", d->name, d->parent);
    if (parent != NONE && g->node[parent].pool != (u8)d->pool)
        return fail(ERR_CONFIG, "node %s: another pool than its parent %s", d->name, d->parent);
    if (d->reserve_bytes > d->cap_bytes)
        return fail(ERR_CONFIG, "node %s: reserve %llu is over its cap %llu", d->name,
                    (ull)d->reserve_bytes, (ull)d->cap_bytes);
    if (d->used == USED_CHILDREN && (d->reserve_bytes > 0 || d->yield != NULL))
        return fail(ERR_CONFIG, "node %s: an inner node has neither reserve nor yield", d->name);
    if ((d->used == USED_ARENA) != (d->arena != NULL))
        return fail(ERR_CONFIG, "node %s: USED_ARENA and the name of an arena go together",
                    d->name);
    if (g->node_count == BUDGET_NODE_CAP)
        return fail(ERR_FULL, "node %s: the graph holds %d nodes", d->name, BUDGET_NODE_CAP);
    return OK;
}

enum err budget_graph_declare(struct budget_graph *g, const struct budget_decl *decl,
                              u32 *node_out)
{
    u32 parent = decl->parent == NULL ? NONE : budget_graph_find(g, decl->parent);
    TRY(check_decl(g, decl, parent));
    u32 index = g->node_count;
    struct budget_node *node = &g->node[index];
    *node = (struct budget_node){
        .parent = parent, .pool = (u8)decl->pool, .node_class = (u8)decl->node_class,
        .used_kind = (u8)decl->used, .holder = (u8)decl->holder,
        .reserve_bytes = decl->reserve_bytes, .asked_bytes = decl->reserve_bytes,
        .cap_bytes = decl->cap_bytes, .first_cap_bytes = decl->cap_bytes,
        .unit_bytes = MAX(decl->unit_bytes, 1), .yield = decl->yield, .owner = decl->owner,
    };
    memcpy(node->name, decl->name, strlen(decl->name));
    g->node_count++;
    g->checked = false;
    if (decl->arena != NULL) {
        enum err e = budget_graph_charge(g, index, decl->arena);
        if (e != OK) {
            g->node_count--;
            return e;
        }
    }
    if (node_out != NULL) *node_out = index;
    return OK;
}

enum err budget_graph_charge(struct budget_graph *g, u32 node, const char *arena)
{
    struct budget_node *n = &g->node[node];
    if (n->used_kind != USED_ARENA)
        return fail(ERR_CONFIG, "node %s is not charged by arenas", n->name);
    if (strlen(arena) >= ARENA_NAME_BYTES)
        return fail(ERR_CONFIG, "node %s: no arena has so long a name", n->name);
    if (n->arena_count == BUDGET_ARENA_CAP)
        return fail(ERR_FULL, "node %s: more than %d arenas", n->name, BUDGET_ARENA_CAP);
    memset(n->arena_name[n->arena_count], 0, ARENA_NAME_BYTES);
    memcpy(n->arena_name[n->arena_count], arena, strlen(arena));
    n->arena[n->arena_count++] = NONE;
    g->checked = false;
    return OK;
}

static enum err add_edge(struct budget_graph *g, const char *taker, const char *victim, u32 order,
                         u32 line)
{
    if (strlen(taker) >= BUDGET_NAME_BYTES || strlen(victim) >= BUDGET_NAME_BYTES)
        return fail(ERR_CONFIG, "edge %.40s <- %.40s: names have at most %d bytes", taker, victim,
                    BUDGET_NAME_BYTES - 1);
    if (g->edge_count == BUDGET_EDGE_CAP)
        return fail(ERR_FULL, "edge %s <- %s: the graph holds %d edges", taker, victim,
                    BUDGET_EDGE_CAP);
    struct budget_edge *edge = &g->edge[g->edge_count++];
    *edge = (struct budget_edge){ .taker = NONE, .victim = NONE, .order = order, .line = line };
    memcpy(edge->taker_name, taker, strlen(taker));
    memcpy(edge->victim_name, victim, strlen(victim));
    g->checked = false;
    return OK;
}

enum err budget_graph_edge(struct budget_graph *g, const char *taker, const char *victim,
                           u32 order)
{
    return add_edge(g, taker, victim, order, 0);
}

enum err budget_graph_board(struct budget_graph *g, const struct profile_row *profile)
{
    static const char *const inner[] = { "fixed", "live", "caches" };
    static const enum budget_class class[] = { CLASS_FIXED, CLASS_LIVE, CLASS_CACHE };
    struct budget_measured m;
    memset(g, 0, sizeof *g);
    budget_measure(0, &m);
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "board", .used = USED_CHILDREN, .node_class = CLASS_FIXED,
        .cap_bytes = MIN(profile->board_bytes, m.total_bytes),
    }, NULL));
    for (u32 i = 0; i < COUNT_OF(inner); i++)
        TRY(budget_graph_declare(g, &(struct budget_decl){
            .name = inner[i], .parent = "board", .used = USED_CHILDREN, .node_class = class[i],
            .cap_bytes = class[i] == CLASS_CACHE ? profile->cache_budget_bytes : UINT64_MAX,
        }, NULL));
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "free", .parent = "board", .used = USED_FREE, .node_class = CLASS_FREE,
        .cap_bytes = UINT64_MAX,
    }, NULL));
    TRY(budget_graph_declare(g, &(struct budget_decl){  /* rows and labels of all arenas     */
        .name = "books", .parent = "fixed", .node_class = CLASS_FIXED, .used = USED_ARENA,
        .arena = "books", .cap_bytes = UINT64_MAX,
    }, NULL));
    g->floor_bytes = profile->board_floor_bytes;
    g->hook_seed = profile->gate_seed;
    memcpy(g->profile, profile->profile, sizeof g->profile);
    memcpy(g->profile_yield, profile->yield, sizeof g->profile_yield);
    g->profile_yield_count = profile->yield_count;
    return OK;
}

/* ------------------------------------------------------------------ check */

/* The profile's lines replace every edge of the takers they name. */
static enum err apply_profile(struct budget_graph *g)
{
    for (u32 i = 0; i < g->profile_yield_count; i++) {
        const struct profile_yield *y = &g->profile_yield[i];
        u32 kept = 0;
        for (u32 j = 0; j < g->edge_count; j++)
            if (g->edge[j].line == y->line || strcmp(g->edge[j].taker_name, y->taker) != 0)
                g->edge[kept++] = g->edge[j];
        g->edge_count = kept;
        TRY(add_edge(g, y->taker, y->victim, y->order, y->line));
    }
    g->profile_yield_count = 0;         /* a second check must not add them again            */
    return OK;
}

/* Fails with the place of an edge: the profile's line, or the edge itself. */
static enum err fail_edge(const struct budget_graph *g, const struct budget_edge *e,
                          const char *text, const char *more)
{
    if (e->line > 0)
        return fail(ERR_CONFIG, "%s:%u: %s <- %s: %s%s", g->profile, e->line, e->taker_name,
                    e->victim_name, text, more);
    return fail(ERR_CONFIG, "edge %s <- %s: %s%s", e->taker_name, e->victim_name, text, more);
}

static enum err resolve_edges(struct budget_graph *g)
{
    for (u32 i = 0; i < g->edge_count; i++) {
        struct budget_edge *e = &g->edge[i];
        e->taker = budget_graph_find(g, e->taker_name);
        e->victim = budget_graph_find(g, e->victim_name);
        if (e->taker == NONE)
            return fail_edge(g, e, "no such taker; the nearest is ",
                             budget_graph_nearest(g, e->taker_name));
        if (e->victim == NONE)
            return fail_edge(g, e, "no such victim; the nearest is ",
                             budget_graph_nearest(g, e->victim_name));
        const struct budget_node *taker = &g->node[e->taker], *victim = &g->node[e->victim];
        if (victim->node_class < taker->node_class)
            return fail_edge(g, e, "the victim is of a higher class", "");
        if (is_leaf(g, e->victim) && victim->yield == NULL)
            return fail_edge(g, e, "the victim yields nothing", "");
    }
    return OK;
}

/* Depth first over leaves; an inner node of an edge stands for the leaves below it.  `mark`: 1 on
 * the way, 2 done.  The depth is bounded by the node count. */
static enum err walk(const struct budget_graph *g, u32 taker, u8 *mark)
{
    mark[taker] = 1;
    for (u32 i = 0; i < g->edge_count; i++) {
        const struct budget_edge *e = &g->edge[i];
        if (!is_under(g, taker, e->taker)) continue;
        for (u32 v = 0; v < g->node_count; v++) {
            if (!is_leaf(g, v) || !is_under(g, v, e->victim) || mark[v] == 2) continue;
            if (mark[v] == 1) return fail_edge(g, e, "closes a cycle of yields", "");
            TRY(walk(g, v, mark));
        }
    }
    mark[taker] = 2;
    return OK;
}

static enum err check_cycles(const struct budget_graph *g)
{
    u8 mark[BUDGET_NODE_CAP] = { 0 };
    for (u32 i = 0; i < g->node_count; i++)
        if (is_leaf(g, i) && mark[i] == 0) TRY(walk(g, i, mark));
    return OK;
}

static enum err resolve_arenas(struct budget_graph *g)
{
    u32 owner[ARENA_CAP];
    u32 holder[HOLD_COUNT];
    for (u32 i = 0; i < ARENA_CAP; i++) owner[i] = NONE;
    for (u32 i = 0; i < HOLD_COUNT; i++) holder[i] = NONE;
    for (u32 i = 0; i < g->node_count; i++) {
        struct budget_node *n = &g->node[i];
        if (n->used_kind == USED_HOLDER && n->pool == POOL_BOARD) {
            if (n->holder >= HOLD_COUNT || holder[n->holder] != NONE)
                return fail(ERR_CONFIG, "node %s: holder class %u is %s", n->name, n->holder,
                            n->holder >= HOLD_COUNT ? "unknown" : "another node's");
            holder[n->holder] = i;
        }
        for (u32 j = 0; j < n->arena_count; j++) {
            u32 arena = arena_find(n->arena_name[j]);
            if (arena == NONE && arena_count() == 0) continue;      /* a graph without them  */
            if (arena == NONE)
                return fail(ERR_CONFIG, "node %s: no arena %s", n->name, n->arena_name[j]);
            enum arena_kind kind = arena_row(arena)->kind;
            if (kind == ARENA_BLOCKS || kind == ARENA_SLOTS)
                return fail(ERR_CONFIG, "node %s: arena %s is charged by holder class", n->name,
                            n->arena_name[j]);
            if (owner[arena] != NONE)
                return fail(ERR_CONFIG, "node %s: arena %s is charged to %s", n->name,
                            n->arena_name[j], g->node[owner[arena]].name);
            owner[arena] = i;
            n->arena[j] = arena;
        }
    }
    for (u32 i = 0; i < arena_count(); i++) {
        enum arena_kind kind = arena_row(i)->kind;
        if (kind != ARENA_BLOCKS && kind != ARENA_SLOTS && owner[i] == NONE)
            return fail(ERR_CONFIG, "arena %s is charged to no node", arena_row(i)->name);
    }
    return OK;
}

static enum err check_reserves(const struct budget_graph *g)
{
    for (u32 top = 0; top < g->node_count; top++) {
        u64 sum = 0;
        for (u32 i = 0; i < g->node_count; i++)
            if (is_leaf(g, i) && is_under(g, i, top)) sum += g->node[i].reserve_bytes;
        if (sum > g->node[top].cap_bytes)
            return fail(ERR_CONFIG, "reserves below %s sum up to %llu bytes, over its cap %llu",
                        g->node[top].name, (ull)sum, (ull)g->node[top].cap_bytes);
    }
    return OK;
}

enum err budget_graph_check(struct budget_graph *g)
{
    TRY(apply_profile(g));
    TRY(resolve_edges(g));
    TRY(check_cycles(g));
    TRY(resolve_arenas(g));
    TRY(check_reserves(g));
    g->checked = true;
    budget_graph_refresh(g);
    return OK;
}

/* ------------------------------------------------------------------ used */

void budget_graph_count(struct budget_graph *g, u32 node, u64 bytes)
{
    ASSERT(node < g->node_count && g->node[node].used_kind == USED_COUNT);
    g->node[node].count_bytes = bytes;
}

void budget_graph_mapped(struct budget_graph *g, u64 bytes)
{
    g->mapped_bytes = bytes;
}

enum err budget_graph_cap(struct budget_graph *g, u32 node, u64 cap_bytes)
{
    ASSERT(node < g->node_count);
    struct budget_node *n = &g->node[node], kept = *n;
    if (n->node_class <= CLASS_LIVE && is_leaf(g, node) && cap_bytes < n->asked_bytes)
        return fail(ERR_CONFIG, "%s: a cap of %llu bytes is under its reserve of %llu", n->name,
                    (ull)cap_bytes, (ull)n->asked_bytes);
    n->cap_bytes = cap_bytes;
    if (is_leaf(g, node)) n->reserve_bytes = MIN(n->asked_bytes, cap_bytes);
    enum err e = check_reserves(g);
    if (e != OK) *n = kept;
    budget_graph_refresh(g);
    n->over = n->used_bytes > n->cap_bytes;
    return e;
}

static u64 leaf_used(const struct budget_node *n)
{
    u64 bytes = n->used_kind == USED_COUNT ? n->count_bytes : 0;
    if (n->used_kind == USED_ARENA)
        for (u32 j = 0; j < n->arena_count; j++)
            if (n->arena[j] != NONE) bytes += arena_row(n->arena[j])->used_bytes;
    if (n->used_kind == USED_HOLDER && n->pool == POOL_BOARD)
        for (u32 i = 0; i < arena_count(); i++) bytes += arena_row(i)->held.bytes[n->holder];
    if (n->used_kind == USED_FREE)
        for (u32 i = 0; i < arena_count(); i++) bytes += arena_free_bytes(i);
    return bytes;
}

void budget_graph_refresh(struct budget_graph *g)
{
    for (u32 i = 0; i < g->node_count; i++) g->node[i].used_bytes = 0;
    for (u32 i = 0; i < g->node_count; i++) {
        if (!is_leaf(g, i)) continue;
        u64 bytes = leaf_used(&g->node[i]);
        for (u32 n = i; n != NONE; n = g->node[n].parent) g->node[n].used_bytes += bytes;
    }
    for (u32 i = 0; i < g->node_count; i++) {
        struct budget_node *n = &g->node[i];
        n->high_water_bytes = MAX(n->high_water_bytes, n->used_bytes);
        if (n->used_bytes <= n->cap_bytes) n->over = false;
    }
}

/* The heap arena grows under other threads' hands, so its figures are arena_check's to hold. */
static bool is_heap(const struct budget_node *n)
{
    return n->arena_count > 0 && n->arena[0] != NONE && arena_row(n->arena[0])->kind == ARENA_HEAP;
}

void budget_graph_verify(struct budget_graph *g)
{
    arena_check();
    budget_graph_refresh(g);
    u64 charged = 0, held = 0, committed = 0, free = 0;
    u64 between = 0;                                    /* what may grow outside of gates, and
                                                         * what a file call holds: it can't go
                                                         * before its answer                 */
    for (u32 i = 0; i < arena_count(); i++) {
        const struct arena_row *row = arena_row(i);
        if (strcmp(row->name, "books") == 0) between += row->committed_bytes;
        if (row->kind == ARENA_HEAP) {
            between += row->range_bytes;
            continue;
        }
        held += row->used_bytes;
        committed += row->committed_bytes;
        free += arena_free_bytes(i);
    }
    for (u32 i = 0; i < g->node_count; i++)
        if (is_leaf(g, i) && g->node[i].used_kind == USED_HOLDER &&
            g->node[i].holder == HOLD_WRITING) between += g->node[i].used_bytes;
    for (u32 i = 0; i < g->node_count; i++) {
        const struct budget_node *n = &g->node[i];
        bool arenas = n->used_kind == USED_HOLDER || n->used_kind == USED_ARENA;
        if (n->pool == POOL_BOARD && arenas && !is_heap(n)) charged += n->used_bytes;
        if (n->pool == POOL_NVME) continue;             /* kept by its owner, once answered  */
        bool grows = !is_leaf(g, i) || is_heap(n);
        ASSERT(n->over || n->used_bytes <= n->cap_bytes ||
               (grows && n->used_bytes <= n->cap_bytes + between));
    }
    ASSERT(charged == held);                            /* nobody pays twice, nobody for free */
    ASSERT(committed == charged + free);
}
