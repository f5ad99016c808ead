/* tests/budget/plan.c - budget_plan on random graphs against its rules written down a second time,
 * and against exhaustive search where greedy must be the optimum. */
#include "budget/plan.h"
#include "arena/base/rng.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

enum { GRAPHS = 1000, WANTS = 6, RECORDS = 12 };

static struct budget_graph g;
static struct budget_tables t;
static struct budget_want wants[WANTS];
static struct budget_record records[RECORDS];
static u32 want_count, record_count;
static struct budget_plan plan;
static struct budget_scratch scratch;
static u64 seed, drawn;

static u64 roll(u64 below)
{
    return rng_u64(seed, drawn++) % below;
}

static u64 yield_nothing(void *owner, const u32 *list, u32 count)
{
    (void)owner; (void)list; (void)count;
    return 0;
}

static void declare(const char *name, const char *parent, enum budget_class class,
                    enum budget_used used, u64 cap, u64 reserve)
{
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = name, .parent = parent, .node_class = class, .used = used, .cap_bytes = cap,
        .reserve_bytes = reserve, .unit_bytes = 1,
        .yield = class > CLASS_LIVE && used == USED_COUNT ? yield_nothing : NULL,
    }, NULL));
}

static bool under(u32 node, u32 top)
{
    while (node != NONE && node != top) node = g.node[node].parent;
    return node == top;
}

/* ------------------------------------------------------------------ the rules, second text */

struct state {
    u64 used[BUDGET_NODE_CAP], unfilled[BUDGET_NODE_CAP];
    u64 commit, spare;
    bool in_range;
};

/* Sums after these grants and victims, from nothing. */
static struct state state_of(const u64 *grants, const bool *victim)
{
    struct state s;
    memset(&s, 0, sizeof s);
    s.in_range = true;
    u64 leaf[BUDGET_NODE_CAP] = { 0 }, taken[4] = { 0 }, freed[4] = { 0 };
    for (u32 i = 0; i < g.node_count; i++)
        if (g.node[i].used_kind != USED_CHILDREN) leaf[i] = g.node[i].used_bytes;
    for (u32 i = 0; i < want_count; i++) {
        leaf[wants[i].node] += grants[i];
        if (wants[i].arena == NONE) s.commit += grants[i];
        else taken[wants[i].arena] += grants[i];
    }
    for (u32 i = 0; i < record_count; i++) {
        if (!victim[i]) continue;
        leaf[records[i].node] -= records[i].freed_bytes;
        if (records[i].arena == NONE) s.spare += records[i].freed_bytes;
        else freed[records[i].arena] += records[i].freed_bytes;
    }
    for (u32 a = 0; a < t.arena_count; a++) {
        const struct budget_arena_view *v = &t.arena[a];
        u64 ready = v->ready_bytes + freed[a];
        s.in_range = s.in_range && taken[a] <= v->range_bytes + freed[a];
        u64 beyond = taken[a] > ready ? taken[a] - ready : 0;
        u64 whole = t.trimmed ? freed[a] : ready, inside = MIN(taken[a], ready);
        while (beyond > 0) {                            /* a cell after the other            */
            beyond -= MIN(beyond, v->cell_units_bytes);
            s.commit += v->cell_bytes;
        }
        for (whole -= MIN(whole, inside); whole >= v->cell_units_bytes; s.spare += v->cell_bytes)
            whole -= v->cell_units_bytes;
    }
    for (u32 i = 0; i < g.node_count; i++) {
        if (g.node[i].used_kind == USED_CHILDREN) continue;
        u64 reserve = g.node[i].reserve_bytes;
        for (u32 n = i; n != NONE; n = g.node[n].parent) {
            s.used[n] += leaf[i];
            s.unfilled[n] += reserve - MIN(reserve, leaf[i]);
        }
    }
    return s;
}

/* Caps with reserves kept, the board in committed bytes, free memory; `keep_reserves`: as for a
 * may-want of `node`, whose own reserve does not count. */
static bool holds(const struct state *s, bool keep_reserves, u32 node)
{
    for (u32 n = 1; n < g.node_count; n++)
        if (s->used[n] + s->unfilled[n] > g.node[n].cap_bytes) return false;
    if (!s->in_range) return false;
    if (s->commit == 0 && s->spare == 0) return s->used[0] + s->unfilled[0] <= g.node[0].cap_bytes;
    if (g.node[0].used_bytes + s->commit + s->unfilled[0] > g.node[0].cap_bytes + s->spare)
        return false;
    u64 others = 0;
    if (keep_reserves) {
        u64 reserve = g.node[node].reserve_bytes;
        others = s->unfilled[0] - (reserve - MIN(reserve, s->used[node]));
    }
    return s->commit == 0 || s->commit + g.floor_bytes + others <= t.free_bytes + s->spare;
}

static bool edge_allows(u32 taker, u32 victim, bool must)
{
    for (u32 i = 0; i < g.edge_count; i++)
        if (under(taker, g.edge[i].taker) && under(victim, g.edge[i].victim) && taker != victim &&
            (must || g.node[victim].node_class > g.node[taker].node_class)) return true;
    return false;
}

/* What a may-want may take besides: in its class over an edge, in `aside`, of its own node, when it
 * is worth less per byte. */
static bool cheaper_allows(const struct budget_want *w, u32 record, u64 freed)
{
    const struct budget_record *r = &records[record];
    bool near = w->node == r->node || (g.node[w->node].node_class == CLASS_ASIDE &&
                                       g.node[r->node].node_class == CLASS_ASIDE);
    for (u32 i = 0; i < g.edge_count; i++)
        near = near || (under(w->node, g.edge[i].taker) && under(r->node, g.edge[i].victim));
    u64 cell = r->arena == NONE ? 1 : t.arena[r->arena].cell_bytes;
    return near && r->value / (f64)MAX(freed, cell) < w->value;
}

/* ------------------------------------------------------------------ random graphs */

static const char *const leaf_names[] = { "kv", "stash", "park", "anchors", "store", "response" };
static const enum budget_class leaf_classes[] = {
    CLASS_LIVE, CLASS_ASIDE, CLASS_ASIDE, CLASS_CACHE, CLASS_CACHE, CLASS_CACHE,
};

/* Arena 0: three units of 2 in a cell of 8; arena 1: a unit fills its cell. */
static u64 unit_of(u32 arena)
{
    return arena == 0 ? 2 : 8;
}

static void make_graph(u64 cap, bool arenas)
{
    memset(&g, 0, sizeof g);
    memset(&t, 0, sizeof t);
    declare("board", NULL, CLASS_FIXED, USED_CHILDREN, 4 * cap, 0);
    declare("live", "board", CLASS_LIVE, USED_CHILDREN, UINT64_MAX, 0);
    declare("caches", "board", CLASS_CACHE, USED_CHILDREN, cap + roll(2 * cap), 0);
    declare("aside", "caches", CLASS_ASIDE, USED_CHILDREN, cap + roll(cap), 0);
    for (u32 i = 0; i < COUNT_OF(leaf_names); i++) {
        const char *parent = i == 0 ? "live" : i < 3 ? "aside" : "caches";
        u64 own = 1 + roll(cap);
        if (i == 0) own *= 3;
        declare(leaf_names[i], parent, leaf_classes[i], USED_COUNT, own, roll(own / 4 + 1));
    }
    CHECK_OK(budget_graph_edge(&g, "live", "store", 1));
    CHECK_OK(budget_graph_edge(&g, "live", "park", 2));
    CHECK_OK(budget_graph_edge(&g, "live", "anchors", 7));
    CHECK_OK(budget_graph_edge(&g, "stash", "store", 1));
    CHECK_OK(budget_graph_edge(&g, "park", "store", 1));
    CHECK_OK(budget_graph_edge(&g, "store", "response", 1));
    t.graph = &g;
    t.arena_count = arenas ? 2 : 0;
    for (u32 a = 0; a < t.arena_count; a++) {
        t.arena[a] = (struct budget_arena_view){
            .cell_bytes = 8, .cell_units_bytes = a == 0 ? 6 : 8, .gives = true,
            .ready_bytes = roll(5) * unit_of(a),
        };
        t.arena[a].range_bytes = t.arena[a].ready_bytes + roll(12) * unit_of(a);
    }
}

/* Records of the leaves that yield, and `used` that they make up; caps hold at the start. */
static void fill_graph(u64 cap, bool arenas, bool even)
{
    record_count = (u32)roll(RECORDS + 1);
    for (u32 i = 0; i < record_count; i++) {
        u32 node = 5 + (u32)roll(5);
        u32 arena = arenas ? (u32)roll(2) : NONE;
        u64 unit = arena == NONE ? 1 : unit_of(arena);
        u64 freed = unit * roll(1 + cap / 8 / unit);
        for (u32 k = 0; even && k < i; k++)             /* lumps of a node are of one size   */
            if (records[k].node == node) {
                arena = records[k].arena;
                freed = records[k].freed_bytes;
            }
        records[i] = (struct budget_record){
            .node = node, .record = i, .arena = arena, .pinned = roll(8) == 0,
            .value = (f64)roll(100), .freed_bytes = freed,
        };
        const struct budget_node *n = &g.node[node];
        if (n->count_bytes + freed > n->cap_bytes) {
            record_count = i;
            break;
        }
        budget_graph_count(&g, node, n->count_bytes + freed);
    }
    budget_graph_refresh(&g);
    for (u32 a = 0; a < t.arena_count; a++) g.node[0].used_bytes += t.arena[a].ready_bytes;
    g.floor_bytes = roll(cap / 4 + 1);
    t.free_bytes = roll(3) == 0 ? UINT64_MAX / 2 : g.floor_bytes + roll(cap);
    t.trimmed = roll(2) == 0;
}

static void make_wants(u64 cap, bool arenas, bool musts, bool mins)
{
    want_count = 1 + (u32)roll(WANTS);
    for (u32 i = 0; i < want_count; i++) {
        bool must = musts && roll(3) == 0;
        u32 node = must ? 4 : 4 + (u32)roll(6);
        u32 arena = arenas ? (u32)roll(2) : NONE;
        u64 unit = arena == NONE ? 1 : unit_of(arena);
        u64 most = unit * roll((must ? cap : cap / 2) / unit + 2);
        u64 min = must ? most : mins && roll(2) == 0 ? unit * (roll(most / unit + 1)) : 0;
        wants[i] = (struct budget_want){
            .node = node, .arena = arena, .must = must, .min_bytes = min, .max_bytes = most,
            .unit_bytes = unit, .value = 1 + (f64)roll(1000),
        };
    }
}

static bool starts_sound(void)
{
    u64 none[WANTS] = { 0 };
    bool no[RECORDS] = { false };
    struct state s = state_of(none, no);
    for (u32 n = 1; n < g.node_count; n++)
        if (s.used[n] + s.unfilled[n] > g.node[n].cap_bytes) return false;
    return g.node[0].used_bytes + s.unfilled[0] <= g.node[0].cap_bytes;
}

static bool make_case(u64 number, bool arenas, bool even, bool musts, bool mins)
{
    u64 cap = 24;
    seed = number;
    drawn = 0;
    make_graph(cap, arenas);
    fill_graph(cap, arenas, even);
    make_wants(cap, arenas, musts, mins);
    return starts_sound();
}

static void run_plan(u64 *grants, bool *victim)
{
    CHECK_OK(budget_graph_check(&g));
    /* The check read the counts anew: free bytes of the made-up arenas are the board's too. */
    for (u32 a = 0; a < t.arena_count; a++) g.node[0].used_bytes += t.arena[a].ready_bytes;
    budget_plan(&t, wants, want_count, records, record_count, NULL, &scratch, &plan);
    for (u32 i = 0; i < want_count; i++) grants[i] = plan.grant[i].bytes;
    memset(victim, 0, RECORDS * sizeof *victim);
    for (u32 i = 0; i < plan.victim_count; i++) victim[plan.victim[i]] = true;
}

/* ------------------------------------------------------------------ what is promised */

static void check_feasible(const u64 *grants, const bool *victim)
{
    struct state s = state_of(grants, victim);
    bool any = false;
    for (u32 i = 0; i < want_count; i++) {
        const struct budget_want *w = &wants[i];
        any = any || grants[i] > 0;
        CHECK(grants[i] <= w->max_bytes);
        CHECK(grants[i] == 0 || grants[i] >= w->min_bytes);
        CHECK(!w->must || plan.refused || grants[i] >= w->min_bytes);
        CHECK((plan.grant[i].why == WHY_FULL) == (grants[i] == w->max_bytes && !plan.refused) ||
              plan.refused);
    }
    if (any) CHECK(holds(&s, false, NONE));
    for (u32 r = 0; r < record_count; r++) {
        if (!victim[r]) continue;
        bool allowed = false;
        for (u32 i = 0; i < want_count; i++)
            allowed = allowed || (grants[i] > 0 &&
                                  (edge_allows(wants[i].node, records[r].node, wants[i].must) ||
                                   cheaper_allows(&wants[i], r, records[r].freed_bytes)));
        CHECK(allowed && !records[r].pinned);
        CHECK(s.used[records[r].node] >= g.node[records[r].node].reserve_bytes);
    }
    if (plan.refused)
        for (u32 i = 0; i < want_count; i++) CHECK(grants[i] == 0);
}

/* Maximal and class-monotone: not one unit more, not even with every victim its edges allow. */
static void check_maximal(const u64 *grants, const bool *victim)
{
    for (u32 i = 0; i < want_count && !plan.refused; i++) {
        const struct budget_want *w = &wants[i];
        if (w->must || grants[i] == w->max_bytes) continue;
        u64 more[WANTS];
        bool taken[RECORDS];
        memcpy(more, grants, sizeof more);
        memcpy(taken, victim, sizeof taken);
        more[i] = grants[i] == 0 && w->min_bytes > 0 ? w->min_bytes
                                                     : MIN(grants[i] + w->unit_bytes, w->max_bytes);
        struct state s = state_of(more, taken);
        CHECK(!holds(&s, true, w->node));
    }
}

TEST(plans_on_random_graphs_are_feasible_maximal_and_repeatable)
{
    u32 sound = 0, refused = 0, with_victims = 0;
    for (u64 n = 0; n < GRAPHS; n++) {
        u64 grants[WANTS] = { 0 };
        bool victim[RECORDS];
        static struct budget_plan first;
        if (!make_case(n, n % 2 == 1, false, n % 3 != 0, n % 5 < 2)) continue;
        sound++;
        run_plan(grants, victim);
        first = plan;
        check_feasible(grants, victim);
        check_maximal(grants, victim);
        refused += plan.refused;
        with_victims += plan.victim_count > 0;
        budget_plan(&t, wants, want_count, records, record_count, NULL, &scratch, &plan);
        CHECK(memcmp(&first, &plan, offsetof(struct budget_plan, victim)) == 0);
        CHECK(memcmp(first.victim, plan.victim, plan.victim_count * sizeof(u32)) == 0);
    }
    printf("%u graphs, %u refused a must, %u took victims\n", sound, refused, with_victims);
    CHECK(sound > GRAPHS / 2 && refused > 10 && with_victims > 10);
}

TEST(no_want_is_short_while_an_edge_would_let_it_take_from_a_lower_class)
{
    u32 looked = 0;
    for (u64 n = 0; n < 2 * GRAPHS; n++) {
        u64 grants[WANTS] = { 0 };
        bool victim[RECORDS];
        if (!make_case(5000 + n, n % 2 == 1, true, false, false)) continue;
        want_count = 1;                                 /* alone: what is free stays free    */
        wants[0].node = 4 + (u32)(n % 3);
        wants[0].max_bytes = wants[0].unit_bytes * (1 + n % 24);
        run_plan(grants, victim);
        if (grants[0] == wants[0].max_bytes) continue;
        looked++;
        u64 more[WANTS] = { grants[0] + wants[0].unit_bytes };
        for (u32 set = 0; set < 1u << record_count; set++) {    /* every set of victims      */
            bool taken[RECORDS];
            bool allowed = true;
            for (u32 r = 0; r < record_count; r++) {
                taken[r] = (set >> r & 1) != 0;
                allowed = allowed && (!taken[r] || (!records[r].pinned &&
                          edge_allows(wants[0].node, records[r].node, false)));
            }
            if (!allowed) continue;
            struct state s = state_of(more, taken);
            for (u32 v = 0; v < g.node_count; v++)
                allowed = allowed && (s.used[v] >= g.node[v].used_bytes ||
                                      s.used[v] >= g.node[v].reserve_bytes);
            CHECK(!allowed || !holds(&s, true, wants[0].node));
        }
    }
    CHECK(looked > 50);
}

TEST(a_must_is_refused_only_when_no_set_of_victims_pays_it)
{
    u32 refused = 0, paid = 0;
    for (u64 n = 0; n < 2 * GRAPHS; n++) {
        u64 grants[WANTS] = { 0 };
        bool victim[RECORDS];
        if (!make_case(9000 + n, false, true, false, false)) continue;
        want_count = 1;
        g.node[4].cap_bytes = 1000;
        u64 bytes = 1 + n % 30;
        wants[0] = (struct budget_want){ .node = 4, .arena = NONE, .must = true,
                                         .min_bytes = bytes, .max_bytes = bytes };
        run_plan(grants, victim);
        paid += !plan.refused && plan.victim_count > 0;
        if (!plan.refused) {                            /* every victim was needed           */
            for (u32 r = 0; r < record_count; r++) {
                if (!victim[r]) continue;
                victim[r] = false;
                struct state s = state_of(grants, victim);
                CHECK(!holds(&s, false, NONE));
                victim[r] = true;
            }
            continue;
        }
        refused++;
        CHECK(plan.refused_want == 0 && plan.short_bytes > 0 && plan.victim_count == 0);
        for (u32 set = 0; set < 1u << record_count; set++) {
            u64 all[WANTS] = { bytes };
            bool taken[RECORDS], allowed = true;
            for (u32 r = 0; r < record_count; r++) {
                taken[r] = (set >> r & 1) != 0;
                allowed = allowed && (!taken[r] || (!records[r].pinned &&
                          edge_allows(4, records[r].node, true)));
            }
            if (!allowed) continue;
            struct state s = state_of(all, taken);
            for (u32 v = 5; v < g.node_count; v++)
                allowed = allowed && (s.used[v] >= g.node[v].used_bytes ||
                                      s.used[v] >= g.node[v].reserve_bytes);
            CHECK(!allowed || !holds(&s, false, NONE));
        }
    }
    printf("%u refused, %u paid by victims\n", refused, paid);
    CHECK(refused > 20 && paid > 20);
}

/* Best total value of divisible wants of one class, by trying every vector of grants. */
static f64 exhaustive(u32 at, u64 *grants)
{
    bool none[RECORDS] = { false };
    if (at == want_count) {
        f64 sum = 0;
        struct state s = state_of(grants, none);
        if (!holds(&s, true, wants[0].node)) return -1;
        for (u32 i = 0; i < want_count; i++) sum += (f64)grants[i] * wants[i].value;
        return sum;
    }
    f64 best = -1;
    for (u64 b = 0; b <= wants[at].max_bytes; b++) {
        grants[at] = b;
        f64 value = exhaustive(at + 1, grants);
        best = MAX(best, value);
    }
    grants[at] = 0;
    return best;
}

static f64 plan_value(const u64 *grants)
{
    f64 sum = 0;
    for (u32 i = 0; i < want_count; i++) sum += (f64)grants[i] * wants[i].value;
    return sum;
}

/* One class, no records, no reserves: where greedy by density must be the optimum. */
static void make_divisible(u64 number)
{
    (void)make_case(number, false, false, false, false);
    record_count = 0;
    for (u32 i = 0; i < g.node_count; i++) {
        g.node[i].reserve_bytes = 0;
        if (g.node[i].used_kind == USED_COUNT) budget_graph_count(&g, i, 0);
    }
    want_count = 3;
    for (u32 i = 0; i < want_count; i++) {
        wants[i].node = 7 + i;
        wants[i].min_bytes = 0;
        wants[i].max_bytes = roll(10);
    }
    for (u32 i = 7; i < 10; i++) g.node[i].cap_bytes = 1 + roll(8);
    g.node[2].cap_bytes = 3 + roll(12);
    g.node[0].cap_bytes = 3 + roll(20);
}

TEST(divisible_wants_without_victims_get_the_optimum)
{
    for (u64 n = 0; n < 200; n++) {
        u64 grants[WANTS] = { 0 }, trial[WANTS] = { 0 };
        bool victim[RECORDS];
        make_divisible(20000 + n);
        g.node[3].cap_bytes = 0;
        budget_graph_refresh(&g);
        run_plan(grants, victim);
        CHECK(plan_value(grants) == exhaustive(0, trial));
    }
}

TEST(lumpy_wants_get_at_least_the_best_single_one)
{
    f64 ratio = 0;
    u32 count = 0;
    for (u64 n = 0; n < 200; n++) {
        u64 grants[WANTS] = { 0 };
        bool victim[RECORDS], none[RECORDS] = { false };
        make_divisible(30000 + n);
        for (u32 i = 0; i < want_count; i++) wants[i].min_bytes = wants[i].max_bytes;
        run_plan(grants, victim);
        f64 best = 0, single = 0;
        for (u32 set = 0; set < 8; set++) {
            u64 trial[WANTS] = { 0 };
            for (u32 i = 0; i < 3; i++) trial[i] = (set >> i & 1) != 0 ? wants[i].max_bytes : 0;
            struct state s = state_of(trial, none);
            if (!holds(&s, true, wants[0].node)) continue;
            best = MAX(best, plan_value(trial));
            if (set == 1 || set == 2 || set == 4) single = MAX(single, plan_value(trial));
        }
        CHECK(plan_value(grants) >= single);
        if (best == 0) continue;
        ratio += plan_value(grants) / best;
        count++;
    }
    printf("mean of value / optimum over %u lumpy graphs: %.4f\n", count, ratio / count);
    CHECK(count > 100 && ratio / count > 0.9);
}

TEST(a_higher_class_is_served_before_a_denser_lower_one)
{
    make_graph(24, false);
    for (u32 i = 0; i < g.node_count; i++) g.node[i].reserve_bytes = 0;
    for (u32 i = 4; i < g.node_count; i++) g.node[i].cap_bytes = 100;
    g.node[2].cap_bytes = 10;
    g.node[3].cap_bytes = 10;
    t.free_bytes = UINT64_MAX;
    record_count = 0;
    want_count = 2;
    wants[0] = (struct budget_want){ .node = 8, .arena = NONE, .max_bytes = 10, .value = 1000 };
    wants[1] = (struct budget_want){ .node = 6, .arena = NONE, .max_bytes = 7, .value = 1 };
    u64 grants[WANTS] = { 0 };
    bool victim[RECORDS];
    run_plan(grants, victim);
    CHECK_EQ(grants[1], 7);
    CHECK_EQ(grants[0], 3);
    CHECK_EQ(plan.grant[0].why, WHY_CAP);
    CHECK_EQ(plan.grant[0].limit, 2);
    CHECK_STR(budget_plan_why(plan.grant[0].why), "cap");
}

TEST(room_is_what_a_must_could_get_at_most)
{
    u32 looked = 0;
    for (u64 n = 0; n < GRAPHS; n++) {
        u64 grants[WANTS] = { 0 };
        bool victim[RECORDS];
        if (!make_case(40000 + n, false, false, false, false)) continue;
        for (u32 i = 0; i < record_count; i++) records[i].pinned = false;
        g.node[4].cap_bytes = 1000;
        want_count = 0;
        run_plan(grants, victim);
        u64 room = budget_plan_room(&t, 4);
        want_count = 1;
        wants[0] = (struct budget_want){ .node = 4, .arena = NONE, .must = true };
        wants[0].min_bytes = wants[0].max_bytes = room + 1 - g.node[4].used_bytes;
        run_plan(grants, victim);
        CHECK(plan.refused);
        looked++;
        if (record_count > 0) continue;                 /* records free in lumps             */
        wants[0].min_bytes = wants[0].max_bytes = room - g.node[4].used_bytes;
        run_plan(grants, victim);
        CHECK(!plan.refused);
    }
    CHECK(looked > 100);
}
