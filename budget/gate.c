/* budget/gate.c - measure -> plan -> apply, at most three rounds, then one row of history. */
#include "budget/gate.h"

#include "arena/base/clock.h"
#include "arena/base/rng.h"
#include "budget/apply.h"
#include "budget/measure.h"

#include <string.h>

/* Later rounds: records that were taken are gone, and in the last one caches get nothing. */
struct round {
    struct budget_want   wants[BUDGET_WANT_CAP];
    struct budget_record records[BUDGET_RECORD_CAP];
    u32 want_count, record_count;
    struct budget_shares *shares;
};

static struct budget_scratch scratch;

static u64 measure_free(const struct budget_graph *g)
{
    struct budget_measured m;
    budget_measure(g->mapped_bytes, &m);
    return m.free_bytes;
}

static void round_open(const struct budget_ask *ask, struct round *r)
{
    ASSERT(ask->want_count <= BUDGET_WANT_CAP && ask->record_count <= BUDGET_RECORD_CAP);
    r->want_count = ask->want_count;
    r->record_count = ask->record_count;
    r->shares = ask->shares;
    if (ask->want_count > 0) memcpy(r->wants, ask->wants, ask->want_count * sizeof r->wants[0]);
    if (ask->record_count > 0)
        memcpy(r->records, ask->records, ask->record_count * sizeof r->records[0]);
}

/* The record is gone already: nothing more comes free by it. */
static void let_go(struct round *r, u32 record)
{
    r->records[record].pinned = true;
    r->records[record].leaves = false;
    r->records[record].freed_bytes = 0;
    if (r->shares != NULL) budget_shares_drop(r->shares, &r->records[record]);
}

static void round_next(const struct budget_graph *g, struct round *r,
                       const struct budget_plan *plan, bool tried, bool last)
{
    for (u32 i = 0; i < plan->victim_count; i++) let_go(r, plan->victim[i]);
    for (u32 i = 0; tried && i < r->record_count; i++)
        if (r->records[i].leaves) let_go(r, i);
    for (u32 i = 0; last && i < r->want_count; i++) {
        if (r->wants[i].must || g->node[r->wants[i].node].node_class <= CLASS_LIVE) continue;
        r->wants[i].min_bytes = r->wants[i].max_bytes = 0;
    }
}

static void keep_row(struct gate_row *row, const struct budget_ask *ask,
                     const struct budget_plan *plan)
{
    row->want_count = ask->want_count;
    row->refused_want = plan->refused ? plan->refused_want : NONE;
    row->short_bytes = plan->refused ? plan->short_bytes : 0;
    for (u32 i = 0; i < MIN(ask->want_count, (u32)BUDGET_GATE_WANTS); i++)
        row->want[i] = (struct gate_want){
            .min_bytes = ask->wants[i].min_bytes, .max_bytes = ask->wants[i].max_bytes,
            .granted_bytes = plan->grant[i].bytes, .node = (u8)ask->wants[i].node,
            .must = ask->wants[i].must, .why = plan->grant[i].why,
            .limit = (u8)MIN(plan->grant[i].limit, (u32)UINT8_MAX),
        };
}

static void keep_nodes(struct budget_graph *g, const struct budget_ask *ask,
                       const struct budget_plan *plan)
{
    for (u32 i = 0; i < ask->want_count; i++) {
        struct budget_node *n = &g->node[ask->wants[i].node];
        n->want_bytes = n->granted_bytes = 0;
    }
    for (u32 i = 0; i < ask->want_count; i++) {
        struct budget_node *n = &g->node[ask->wants[i].node];
        n->want_bytes += ask->wants[i].max_bytes;
        n->granted_bytes += plan->grant[i].bytes;
        n->want_count++;
        if (plan->grant[i].bytes < ask->wants[i].max_bytes) n->short_count++;
    }
}

static void refuse(struct budget_plan *plan, u32 want)
{
    plan->refused = true;
    plan->refused_want = want;
    for (u32 i = 0; i < plan->want_count; i++)
        if (i != want) plan->grant[i] = (struct budget_grant){ .why = WHY_MUST, .limit = NONE };
}

/* No round could be committed: the must whose commit failed, else the first must, is refused. */
static void give_up(const struct round *r, struct budget_plan *plan)
{
    u32 want = NONE;
    for (u32 i = 0; i < plan->want_count; i++) {
        bool failed = plan->grant[i].why == WHY_COMMIT;
        if (r->wants[i].must && (want == NONE || failed)) want = i;
        plan->grant[i].bytes = 0;
        if (!failed) plan->grant[i].why = WHY_FREE;
    }
    if (want == NONE) return;           /* caches only: they got nothing                     */
    refuse(plan, want);
    plan->short_bytes = plan->commit_bytes;
}

/* The rounds.  A plan that was made but could not be committed three times is a refusal. */
static enum err run_rounds(struct budget_graph *g, struct round *r, struct budget_plan *plan,
                           struct gate_row *row)
{
    struct budget_tables tables;
    struct budget_applied applied = { 0 };
    bool trimmed = false;
    for (u32 i = 0; i < BUDGET_ROUNDS; i++) {
        if (i > 0) round_next(g, r, plan, applied.tried, i + 1 == BUDGET_ROUNDS);
        budget_graph_refresh(g);
        u64 free = measure_free(g);
        if (i == 0) row->free_before_bytes = free;
        row->rounds++;
        budget_plan_tables(g, free, trimmed, &tables);
        u64 started_us = clock_us();
        budget_plan(&tables, r->wants, r->want_count, r->records, r->record_count,
                    r->shares, &scratch, plan);
        row->plan_us += clock_us() - started_us;
        if (plan->refused) return OK;
        TRY(budget_apply(g, &tables, r->wants, r->records, plan, &applied));
        row->victim_count += plan->victim_count;
        row->squeezed_count += plan->squeezed_count;
        row->freed_bytes += plan->freed_bytes;
        for (u32 k = 0; k < plan->recharge_count; k++)
            row->recharged_bytes += plan->recharge[k].bytes;
        row->trimmed_bytes += applied.trimmed_bytes;
        trimmed = trimmed || applied.trimmed_bytes > 0;
        if (!applied.again) return OK;
        trimmed = true;
    }
    give_up(r, plan);
    return OK;
}

/* Test hook --gate-seed: before every fourth gate or so a commit is made to fail, and before as
 * many a cache gets another cap or its first one back. */
static void hook(struct budget_graph *g)
{
    u32 caches[BUDGET_NODE_CAP], count = 0;
    if (g->hook_seed == 0 || g->hook_drawn) return;
    u64 draw = rng_u64(g->hook_seed, g->hook_draws++);
    g->hook_drawn = true;
    if (draw % 4 == 0) space_host_fail_commit(1 + (u32)(draw >> 16 & 3));
    if (draw % 4 != 1) return;
    for (u32 n = 0; n < g->node_count; n++)
        if (g->node[n].node_class > CLASS_LIVE && g->node[n].yield != NULL) caches[count++] = n;
    if (count == 0) return;
    u32 node = caches[(draw >> 24) % count];
    u64 cap = (draw >> 20 & 15) * g->node[node].unit_bytes;
    if ((draw >> 16 & 3) == 0) cap = g->node[node].first_cap_bytes;
    if (budget_graph_cap(g, node, cap) != OK) return;       /* under the reserves below it   */
}

/* The gate of a row of history that has been begun. */
static enum err run_gate(struct budget_graph *g, const struct budget_ask *ask,
                         struct budget_plan *plan, struct gate_row *row)
{
    static struct round r;
    u64 started_us = clock_us();
    row->kind = (u8)ask->kind;
    row->turn = ask->turn;
    row->at_us = started_us;
    hook(g);
    round_open(ask, &r);
    enum err e = run_rounds(g, &r, plan, row);
    if (g->hook_seed != 0) space_host_fail_commit(0);
    g->hook_drawn = false;
    if (e != OK) refuse(plan, NONE);
    if (plan->refused) row->trimmed_bytes += budget_apply_spare(g, measure_free(g));
    keep_row(row, ask, plan);
    keep_nodes(g, ask, plan);
    row->free_after_bytes = measure_free(g);
    row->total_us = clock_us() - started_us;
    if (g->verify) budget_graph_verify(g);
    else budget_graph_refresh(g);
    return e;
}

enum err budget_gate(struct budget_graph *g, const struct budget_ask *ask,
                     struct budget_plan *plan)
{
    ASSERT(g->checked);
    TRY(run_gate(g, ask, plan, budget_history_add(&g->history)));
    if (!plan->refused) return OK;
    const struct budget_grant *grant = &plan->grant[plan->refused_want];
    return fail(ERR_MEMORY, "memory: %s lacks %llu bytes (%s%s%s)",
                g->node[ask->wants[plan->refused_want].node].name, (ull)plan->short_bytes,
                budget_plan_why(grant->why), grant->limit == NONE ? "" : " of ",
                grant->limit == NONE ? "" : g->node[grant->limit].name);
}

enum err budget_gate_set(struct budget_graph *g, u32 node, u64 cap_bytes,
                         const struct budget_ask *ask, struct budget_plan *plan)
{
    ASSERT(g->checked && ask->want_count == 0);
    TRY(budget_graph_cap(g, node, cap_bytes));
    struct gate_row *row = budget_history_add(&g->history);
    struct budget_ask set = *ask;
    set.kind = GATE_SET;
    row->cap_node = (u8)node;
    row->cap_bytes = cap_bytes;
    return run_gate(g, &set, plan, row);
}

bool budget_gate_fits(struct budget_graph *g, const struct budget_want *wants, u32 want_count)
{
    static struct budget_plan plan;
    struct budget_tables tables;
    hook(g);
    budget_graph_refresh(g);
    for (u32 i = 0; i < g->node_count; i++)
        if (g->node[i].over) return false;
    budget_plan_tables(g, measure_free(g), false, &tables);
    budget_plan(&tables, wants, want_count, NULL, 0, NULL, &scratch, &plan);
    for (u32 i = 0; i < want_count; i++)
        if (plan.grant[i].why != WHY_FULL) return false;
    return true;
}

u64 budget_gate_room(struct budget_graph *g, u32 node)
{
    struct budget_tables tables;
    budget_graph_refresh(g);
    budget_plan_tables(g, measure_free(g), false, &tables);
    return budget_plan_room(&tables, node);
}
