/* budget/apply.c - the plan's only hands: yield of nodes, arena_trim, commits of wants. */
#include "budget/apply.h"

#include <string.h>

static void yield_victims(struct budget_graph *g, const struct budget_record *records,
                          const struct budget_plan *plan)
{
    u32 list[BUDGET_RECORD_CAP];
    for (u32 n = 0; plan->victim_count > 0 && n < g->node_count; n++) {
        u32 count = 0;
        for (u32 i = 0; i < plan->victim_count; i++)
            if (records[plan->victim[i]].node == n)
                list[count++] = records[plan->victim[i]].record;
        if (count == 0) continue;
        ASSERT(g->node[n].yield != NULL);
        g->node[n].yielded_bytes += g->node[n].yield(g->node[n].owner, list, count);
    }
}

/* Committed bytes of all arenas. */
static u64 committed(void)
{
    u64 bytes = 0;
    for (u32 i = 0; i < arena_count(); i++) bytes += arena_row(i)->committed_bytes;
    return bytes;
}

static bool gives(u32 arena)
{
    enum arena_kind kind = arena_row(arena)->kind;
    return kind == ARENA_BLOCKS || kind == ARENA_SLOTS || kind == ARENA_EXTENTS;
}

/* Gives free granules back, but those that the grants are about to use. */
static u64 trim(const struct budget_want *wants, const struct budget_plan *plan)
{
    u64 keep[ARENA_CAP] = { 0 }, bytes = 0;
    for (u32 i = 0; i < plan->want_count; i++)
        if (wants[i].arena != NONE) keep[wants[i].arena] += plan->grant[i].bytes;
    for (u32 i = 0; i < arena_count(); i++)
        if (gives(i)) bytes += arena_trim(i, keep[i]);
    return bytes;
}

static u64 board_cap(const struct budget_graph *g)
{
    u32 root = 0;
    while (g->node[root].parent != NONE) root = g->node[root].parent;
    return g->node[root].cap_bytes;
}

u64 budget_apply_spare(const struct budget_graph *g, u64 free_bytes)
{
    u64 have = committed(), cap = board_cap(g), bytes = 0;
    u64 over = have - MIN(have, cap);
    over = MAX(over, g->floor_bytes - MIN(g->floor_bytes, free_bytes));
    for (u32 i = 0; bytes < over && i < arena_count(); i++) {
        if (!gives(i)) continue;
        u64 spare = arena_free_bytes(i);
        bytes += arena_trim(i, spare - MIN(spare, over - bytes));
    }
    return bytes;
}

/* Does the plan hold without counting on granules that could not be given back? */
static bool affordable(const struct budget_graph *g, const struct budget_tables *t,
                       const struct budget_plan *plan, u64 trimmed)
{
    u64 cap = board_cap(g);
    if (plan->commit_bytes == 0) return true;
    if (cap != UINT64_MAX && committed() + plan->commit_bytes > cap) return false;
    if (t->free_bytes == UINT64_MAX) return true;
    return plan->commit_bytes + g->floor_bytes <= t->free_bytes + trimmed;
}

/* Commits of one kind; *failed_out is the want that failed, or NONE. */
static enum err commit_wants(const struct budget_want *wants, struct budget_plan *plan, bool musts,
                             u32 *failed_out)
{
    *failed_out = NONE;
    for (u32 i = 0; i < plan->want_count; i++) {
        const struct budget_want *want = &wants[i];
        if (want->must != musts || want->commit == NULL) continue;
        if (!musts && plan->grant[i].bytes == 0) continue;
        enum err e = want->commit(want->owner, plan->grant[i].bytes);
        if (e == OK) continue;
        if (musts || (e != ERR_MEMORY && e != ERR_FULL)) {
            *failed_out = i;
            return e;
        }
        plan->grant[i] = (struct budget_grant){ .why = WHY_COMMIT, .limit = NONE };
    }
    return OK;
}

static void undo_wants(const struct budget_want *wants, const struct budget_plan *plan, u32 failed,
                       bool musts_only)
{
    for (u32 i = plan->want_count; i-- > 0; ) {
        const struct budget_want *want = &wants[i];
        bool done = musts_only ? want->must && i < failed : want->must || i < failed;
        bool taken = want->must || plan->grant[i].bytes > 0;
        if (done && taken && want->undo != NULL && want->commit != NULL)
            want->undo(want->owner, plan->grant[i].bytes);
    }
}

enum err budget_apply(struct budget_graph *g, const struct budget_tables *tables,
                      const struct budget_want *wants, const struct budget_record *records,
                      struct budget_plan *plan, struct budget_applied *out)
{
    ASSERT(!plan->refused);
    *out = (struct budget_applied){ 0 };
    yield_victims(g, records, plan);
    if (!affordable(g, tables, plan, 0)) {
        out->trimmed_bytes = trim(wants, plan);
        out->again = !affordable(g, tables, plan, out->trimmed_bytes);
        if (out->again) return OK;
    } else if (committed() > board_cap(g)) {            /* its cap was lowered: free granules go */
        out->trimmed_bytes = trim(wants, plan);
    }
    u32 failed;
    out->tried = true;
    arena_gate(true);
    enum err e = commit_wants(wants, plan, true, &failed);
    if (e != OK) {
        undo_wants(wants, plan, failed, true);
    } else {
        e = commit_wants(wants, plan, false, &failed);
        if (e != OK) undo_wants(wants, plan, failed, false);
    }
    arena_gate(false);
    if (e == ERR_MEMORY || e == ERR_FULL) {
        out->again = true;
        plan->grant[failed] = (struct budget_grant){ .why = WHY_COMMIT, .limit = NONE };
        return OK;
    }
    return e;
}
