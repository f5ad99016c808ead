/* tests/budget/victims.c - records that share units: what comes free, what is recharged, whose caps
 * it lifts; on random graphs against every set of records. */
#include "budget/plan.h"
#include "arena/base/rng.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

enum { GRAPHS = 1000, RECORDS = 9, UNITS = 7, CLASSES = 4 };

static const enum holder classes[CLASSES] = { HOLD_LIVE, HOLD_PIN, HOLD_PARK, HOLD_STORE };

static struct budget_graph g;
static struct budget_tables t;
static struct budget_shares shares;
static struct budget_scratch scratch;
static struct budget_record records[BUDGET_RECORD_CAP];
static struct budget_want want;
static struct budget_plan plan, second;
static u32 record_count;
static u64 seed, drawn;

/* Units as the test draws them: who holds each, beside `other` holders that no record is. */
static struct { u64 bytes; u32 holders; u8 other[HOLD_COUNT]; } unit[UNITS + RECORDS];
static u32 unit_count;

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
                    enum holder holder, bool leaf)
{
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = name, .parent = parent, .node_class = class, .cap_bytes = UINT64_MAX,
        .used = leaf ? USED_HOLDER : USED_CHILDREN, .holder = holder, .unit_bytes = 1,
        .yield = leaf && class > CLASS_LIVE ? yield_nothing : NULL,
    }, NULL));
}

static u32 node_of(enum holder class)
{
    return t.class_node[class];
}

static void open_graph(void)
{
    memset(&g, 0, sizeof g);
    memset(&want, 0, sizeof want);
    record_count = unit_count = 0;
    declare("board", NULL, CLASS_FIXED, 0, false);
    declare("live", "board", CLASS_LIVE, 0, false);
    declare("caches", "board", CLASS_CACHE, 0, false);
    declare("aside", "caches", CLASS_ASIDE, 0, false);
    declare("kv", "live", CLASS_LIVE, HOLD_LIVE, true);
    declare("pin", "aside", CLASS_ASIDE, HOLD_PIN, true);
    declare("park", "aside", CLASS_ASIDE, HOLD_PARK, true);
    declare("store", "caches", CLASS_CACHE, HOLD_STORE, true);
    declare("staging", "caches", CLASS_CACHE, HOLD_WRITING, true);
    const char *const victims[] = { "store", "park", "pin" };
    for (u32 i = 0; i < COUNT_OF(victims); i++)
        CHECK_OK(budget_graph_edge(&g, "live", victims[i], i + 1));
    CHECK_OK(budget_graph_edge(&g, "pin", "store", 1));
    CHECK_OK(budget_graph_edge(&g, "park", "store", 1));
    CHECK_OK(budget_graph_check(&g));
    budget_plan_tables(&g, UINT64_MAX, true, &t);
    t.arena_count = 1;
    t.arena[0] = (struct budget_arena_view){ .cell_bytes = 1, .cell_units_bytes = 1,
                                             .gives = true };
}

static u32 add_unit(u64 bytes, u32 holders)
{
    memset(&unit[unit_count], 0, sizeof unit[0]);
    unit[unit_count].bytes = bytes;
    unit[unit_count].holders = holders;
    return unit_count++;
}

static u32 add_record(enum holder class, f64 value, u64 own_bytes)
{
    records[record_count] = (struct budget_record){
        .node = node_of(class), .record = record_count, .holder = (u8)class, .value = value,
    };
    if (own_bytes > 0) (void)add_unit(own_bytes, 1u << record_count);
    return record_count++;
}

/* ------------------------------------------------------------------ the rules, second text */

struct state { u64 used[HOLD_COUNT], free; };

static struct holders holders_of(u32 u, u32 gone)
{
    struct holders h = { .reserved = 0 };
    for (u32 class = 0; class < HOLD_COUNT; class++) h.count[class] = unit[u].other[class];
    for (u32 r = 0; r < record_count; r++)
        if ((unit[u].holders >> r & 1) != 0 && (gone >> r & 1) == 0) h.count[records[r].holder]++;
    return h;
}

/* Charges once the records of the set `gone` let go. */
static struct state state_of(u32 gone)
{
    struct state s = { .free = 0 };
    for (u32 u = 0; u < unit_count; u++) {
        struct holders h = holders_of(u, gone);
        u32 class = 0;
        while (class < HOLD_COUNT && h.count[class] == 0) class++;
        if (class == HOLD_COUNT) s.free += unit[u].bytes;
        else s.used[class] += unit[u].bytes;
    }
    return s;
}

static bool caps_hold(const struct state *s)
{
    u64 aside = s->used[HOLD_PIN] + s->used[HOLD_PARK];
    u64 caches = aside + s->used[HOLD_STORE] + s->used[HOLD_WRITING];
    for (u32 class = HOLD_PIN; class < HOLD_COUNT; class++)
        if (s->used[class] > g.node[node_of((enum holder)class)].cap_bytes) return false;
    return aside <= g.node[3].cap_bytes && caches <= g.node[2].cap_bytes;
}

/* The want is one of the arena: ready bytes and what comes free. */
static bool pays(const struct state *s, u64 bytes)
{
    return bytes <= t.arena[0].range_bytes + s->free;
}

static f64 value_of(u32 gone)
{
    f64 sum = 0;
    for (u32 r = 0; r < record_count; r++)
        if ((gone >> r & 1) != 0) sum += records[r].value;
    return sum;
}

/* Used bytes, units and lists as the engine would list them. */
static void fill_tables(void)
{
    struct state s = state_of(0);
    for (u32 n = 0; n < g.node_count; n++) g.node[n].used_bytes = 0;
    for (u32 class = 0; class < HOLD_COUNT; class++)
        for (u32 n = node_of((enum holder)class); n != NONE; n = g.node[n].parent)
            g.node[n].used_bytes += s.used[class];
    budget_shares_open(&shares);
    for (u32 r = 0; r < record_count; r++) {
        budget_shares_begin(&shares);
        for (u32 u = 0; u < unit_count; u++) {
            struct holders h = holders_of(u, 0);
            if ((unit[u].holders >> r & 1) != 0)
                budget_shares_add(&shares, 0, u, unit[u].bytes, &h);
        }
        CHECK(budget_shares_end(&shares, &records[r]));
    }
}

static u32 run_plan(u32 want_count)
{
    u32 gone = 0;
    budget_plan(&t, &want, want_count, records, record_count, &shares, &scratch, &plan);
    budget_plan(&t, &want, want_count, records, record_count, &shares, &scratch, &second);
    CHECK(memcmp(&plan, &second, offsetof(struct budget_plan, victim)) == 0);
    CHECK(memcmp(plan.victim, second.victim, plan.victim_count * sizeof(u32)) == 0);
    for (u32 i = 0; i < plan.victim_count; i++) {
        CHECK((gone >> plan.victim[i] & 1) == 0 && !records[plan.victim[i]].pinned);
        gone |= 1u << plan.victim[i];
    }
    return gone;
}

/* What the plan says of bytes is what the sets say. */
static void check_sums(u32 gone)
{
    struct state before = state_of(0), after = state_of(gone);
    i64 moved[HOLD_COUNT] = { 0 };
    CHECK_EQ(plan.freed_bytes, after.free);
    for (u32 u = 0; u < unit_count; u++) {
        struct holders x = holders_of(u, 0), y = holders_of(u, gone);
        enum holder a = holders_charged(&x), b = holders_charged(&y);
        if (a == b || b == HOLD_COUNT) continue;
        moved[a] -= (i64)unit[u].bytes;
        moved[b] += (i64)unit[u].bytes;
    }
    for (u32 i = 0; i < plan.recharge_count; i++) {
        const struct budget_recharge *m = &plan.recharge[i];
        CHECK(m->bytes > 0);
        for (u32 class = 0; class < HOLD_COUNT; class++) {
            if (node_of((enum holder)class) == m->from) moved[class] += (i64)m->bytes;
            if (node_of((enum holder)class) == m->to) moved[class] -= (i64)m->bytes;
        }
    }
    for (u32 class = 0; class < HOLD_COUNT; class++) CHECK_EQ(moved[class], 0);
    CHECK(before.free == 0);
}

/* ------------------------------------------------------------------ random graphs */

/* Caps are what is used, times up to two, so that recharges reach some of them. */
static void make_case(u64 number, bool live, bool writing)
{
    seed = number;
    drawn = 0;
    open_graph();
    record_count = 2 + (u32)roll(RECORDS - 1);
    u32 count = record_count;
    record_count = 0;
    for (u32 r = 0; r < count; r++)
        (void)add_record(classes[1 + roll(CLASSES - 1)], (f64)(1 + roll(60)), roll(6));
    u32 shared = 1 + (u32)roll(UNITS);
    for (u32 u = 0; u < shared; u++) {
        u32 holders = 0, many = 2 + (u32)roll(3);
        for (u32 k = 0; k < many; k++) holders |= 1u << roll(record_count);
        u32 at = add_unit(1 + roll(9), holders);
        if (live && roll(5) == 0) unit[at].other[HOLD_LIVE] = 1;
        if (writing && roll(4) == 0) unit[at].other[HOLD_WRITING] = 1;
    }
    fill_tables();
    for (u32 n = 2; n < g.node_count; n++) {
        if (n == node_of(HOLD_LIVE) || n == node_of(HOLD_WRITING)) continue;
        u64 used = g.node[n].used_bytes;
        g.node[n].cap_bytes = roll(3) == 0 ? UINT64_MAX : used + roll(used + 4);
    }
}

static void want_rows(u64 bytes)
{
    want = (struct budget_want){ .node = node_of(HOLD_LIVE), .arena = 0, .must = true,
                                 .min_bytes = bytes, .max_bytes = bytes, .unit_bytes = 1 };
}

TEST(a_must_over_shared_units_is_paid_if_any_set_of_records_pays_it)
{
    u32 refused = 0, paid = 0, recharged = 0;
    f64 ratio = 0;
    for (u64 n = 0; n < GRAPHS; n++) {
        make_case(n, n % 3 == 0, n % 4 == 0);
        t.arena[0].range_bytes = t.arena[0].ready_bytes = roll(4);
        want_rows(1 + roll(40));
        u32 gone = run_plan(1);
        f64 best = -1;
        for (u32 set = 0; set < 1u << record_count; set++) {
            struct state s = state_of(set);
            if (!caps_hold(&s) || !pays(&s, want.min_bytes)) continue;
            if (best < 0 || value_of(set) < best) best = value_of(set);
        }
        CHECK_EQ(plan.refused, best < 0);
        if (plan.refused) {
            refused++;
            CHECK_EQ(plan.victim_count, 0);
            continue;
        }
        struct state s = state_of(gone);
        CHECK(caps_hold(&s) && pays(&s, want.min_bytes));
        check_sums(gone);
        for (u32 r = 0; r < record_count; r++) {        /* each victim is needed             */
            if ((gone >> r & 1) == 0) continue;
            s = state_of(gone & ~(1u << r));
            CHECK(!caps_hold(&s) || !pays(&s, want.min_bytes));
        }
        recharged += plan.recharge_count > 0;
        if (gone == 0) continue;
        paid++;
        ratio += best / value_of(gone);
    }
    printf("%u graphs: %u refused, %u paid by victims, %u with recharges; least value that pays / "
           "value taken: %.4f\n", GRAPHS, refused, paid, recharged, ratio / paid);
    CHECK(refused > 100 && paid > 300 && recharged > 100 && ratio / paid > 0.8);
}

TEST(reserves_are_kept_whatever_is_shared)
{
    u32 paid = 0, bound = 0;
    for (u64 n = 0; n < GRAPHS; n++) {
        make_case(60000 + n, n % 3 == 0, n % 4 == 0);
        u64 asked[HOLD_COUNT] = { 0 };
        for (u32 c = 1; c < CLASSES; c++) {
            struct budget_node *node = &g.node[node_of(classes[c])];
            node->reserve_bytes = asked[classes[c]] = roll(node->used_bytes + 1);
        }
        t.arena[0].range_bytes = t.arena[0].ready_bytes = roll(4);
        want_rows(1 + roll(30));
        u32 gone = run_plan(1);
        struct state s = state_of(gone);
        if (plan.refused || gone == 0) continue;
        paid++;
        CHECK(caps_hold(&s) && pays(&s, want.min_bytes));
        for (u32 c = 1; c < CLASSES; c++) {
            CHECK(s.used[classes[c]] >= asked[classes[c]]);
            bound += s.used[classes[c]] < asked[classes[c]] + 4;
        }
        check_sums(gone);
    }
    printf("%u paid, %u reserves all but reached\n", paid, bound);
    CHECK(paid > 100 && bound > 30);
}

TEST(a_may_want_takes_less_value_than_it_gets)
{
    u32 replaced = 0, lower = 0;
    for (u64 n = 0; n < GRAPHS; n++) {
        make_case(20000 + n, false, false);
        t.arena[0].range_bytes = t.arena[0].ready_bytes = 64;
        enum holder class = classes[1 + n % 3];
        want = (struct budget_want){ .node = node_of(class), .arena = 0, .unit_bytes = 1,
                                     .max_bytes = 1 + roll(12), .value = (f64)(1 + roll(40)) };
        u32 gone = run_plan(1);
        u64 granted = plan.grant[0].bytes;
        f64 lost = 0;
        struct state s = state_of(gone);
        s.used[class] += granted;
        CHECK(caps_hold(&s) && pays(&s, granted));
        for (u32 r = 0; r < record_count; r++) {
            if ((gone >> r & 1) == 0) continue;
            bool below = g.node[records[r].node].node_class > g.node[want.node].node_class;
            CHECK(below || records[r].node == want.node ||
                  (g.node[records[r].node].node_class == CLASS_ASIDE &&
                   g.node[want.node].node_class == CLASS_ASIDE));
            if (below) lower++;
            else lost += records[r].value;
        }
        replaced += lost > 0;
        CHECK(lost == 0 || lost < (f64)granted * want.value);
        if (granted == want.max_bytes) continue;
        s.used[class]++;                                /* not one unit more                 */
        CHECK(!caps_hold(&s) || !pays(&s, granted + 1));
    }
    printf("%u replaced what was worth less, %u victims of lower classes\n", replaced, lower);
    CHECK(replaced > 50 && lower > 50);
}

TEST(caps_squeezed_to_nothing_one_entry_or_anything_hold_after_the_next_plan)
{
    u32 squeezed = 0, freed = 0;
    for (u64 n = 0; n < GRAPHS; n++) {
        make_case(40000 + n, n % 3 == 0, n % 5 == 0);
        for (u32 times = 1 + (u32)roll(3); times > 0; times--) {
            u32 node = 2 + (u32)roll(6);
            if (node == node_of(HOLD_LIVE)) continue;
            u64 used = g.node[node].used_bytes;
            g.node[node].cap_bytes = n % 3 == 0 ? 0 : n % 3 == 1 ? MIN(used, 5) : roll(used + 1);
            if (node == 2 && g.node[8].used_bytes > 0) g.node[2].cap_bytes = used;
        }
        u32 gone = run_plan(0);
        struct state s = state_of(gone), least = state_of((1u << record_count) - 1);
        CHECK(caps_hold(&s) || !caps_hold(&least));
        if (!caps_hold(&s)) continue;
        check_sums(gone);
        CHECK_EQ(plan.squeezed_count, plan.victim_count);
        for (u32 r = 0; r < record_count; r++) {
            if ((gone >> r & 1) == 0) continue;
            s = state_of(gone & ~(1u << r));
            CHECK(!caps_hold(&s));
        }
        squeezed += gone != 0;
        freed += plan.freed_bytes > 0;
    }
    printf("%u of %u graphs gave records up for a cap, %u freed bytes\n", squeezed, GRAPHS, freed);
    CHECK(squeezed > 400 && freed > 200);
}

/* ------------------------------------------------------------------ by hand */

TEST(k_entries_that_share_one_head_all_go_for_a_must_of_its_size)
{
    for (u32 k = 2; k <= 5; k++) {
        open_graph();
        u32 all = 0;
        for (u32 i = 0; i < k; i++) all |= 1u << add_record(HOLD_STORE, 10 + i, 1);
        (void)add_unit(100, all);
        fill_tables();
        t.arena[0].range_bytes = t.arena[0].ready_bytes = 0;
        want_rows(100);
        CHECK_EQ(run_plan(1), all);
        CHECK(!plan.refused && plan.victim_count == k);
        CHECK_EQ(plan.freed_bytes, 100 + k);
        want_rows(k);                                   /* the tails pay: still all of them  */
        CHECK_EQ(run_plan(1), all);
        want_rows(k - 1);                               /* the last one in rank stays        */
        CHECK_EQ(run_plan(1), all & ~(1u << (k - 1)));
        CHECK_EQ(plan.freed_bytes, k - 1);
        records[0].pinned = true;                       /* the one that matched              */
        want_rows(100);
        (void)run_plan(1);
        CHECK(plan.refused);
        records[0].pinned = false;
        (void)add_record(HOLD_STORE, 1, 0);             /* a cheap one beside, of the size   */
        (void)add_unit(100, 1u << k);
        fill_tables();
        CHECK_EQ(run_plan(1), 1u << k);
    }
}

TEST(the_last_holder_is_ranked_by_what_it_frees_now)
{
    open_graph();
    u32 a = add_record(HOLD_STORE, 10, 0), b = add_record(HOLD_STORE, 200, 2);
    u32 c = add_record(HOLD_STORE, 40, 4);
    (void)add_unit(50, 1u << a | 1u << b);
    fill_tables();
    t.arena[0].range_bytes = t.arena[0].ready_bytes = 0;
    want_rows(4);                               /* c: 10 a byte, b: 100, a frees nothing     */
    CHECK_EQ(run_plan(1), 1u << c);
    want_rows(30);                              /* with a gone b frees 52: a and b suffice   */
    CHECK_EQ(run_plan(1), 1u << a | 1u << b);
    CHECK_EQ(plan.freed_bytes, 52);
}

TEST(a_recharge_cascades_through_every_class_below)
{
    open_graph();
    u32 pin = add_record(HOLD_PIN, 1, 3), park = add_record(HOLD_PARK, 50, 2);
    u32 store = add_record(HOLD_STORE, 90, 2), other = add_record(HOLD_STORE, 99, 5);
    u32 head = add_unit(100, 1u << pin | 1u << park | 1u << store);
    CHECK_OK(budget_graph_edge(&g, "staging", "store", 1));     /* an edge nobody uses here  */
    fill_tables();
    CHECK_EQ(g.node[node_of(HOLD_PIN)].used_bytes, 103);
    g.node[node_of(HOLD_PARK)].cap_bytes = 60;          /* neither holds the head            */
    g.node[node_of(HOLD_STORE)].cap_bytes = 60;
    g.node[node_of(HOLD_PIN)].cap_bytes = 50;
    CHECK_EQ(run_plan(0), 1u << pin | 1u << park | 1u << store);
    CHECK_EQ(plan.freed_bytes, 107);
    CHECK_EQ(plan.recharge_count, 0);                   /* nobody holds it in the end        */
    g.node[node_of(HOLD_STORE)].cap_bytes = 200;        /* the store pays for it             */
    CHECK_EQ(run_plan(0), 1u << pin | 1u << park);
    CHECK_EQ(plan.freed_bytes, 5);
    CHECK(plan.recharge_count == 1 && plan.recharge[0].bytes == 100);
    CHECK_EQ(plan.recharge[0].from, node_of(HOLD_PIN));
    CHECK_EQ(plan.recharge[0].to, node_of(HOLD_STORE));
    g.node[node_of(HOLD_STORE)].cap_bytes = 60;
    unit[head].other[HOLD_WRITING] = 1;                 /* a write in flight keeps it        */
    fill_tables();
    CHECK_EQ(run_plan(0), 1u << pin | 1u << park | 1u << store);
    CHECK_EQ(plan.freed_bytes, 7);
    CHECK(plan.recharge_count == 1 && plan.recharge[0].to == node_of(HOLD_WRITING));
    (void)other;
}

TEST(a_record_that_leaves_its_slot_recharges_what_others_hold)
{
    open_graph();
    u32 live = add_record(HOLD_LIVE, 0, 20), park = add_record(HOLD_PARK, 5, 1);
    u32 cheap = add_record(HOLD_PARK, 2, 30);
    (void)add_unit(40, 1u << live | 1u << park);
    records[live].leaves = true;
    fill_tables();
    g.node[node_of(HOLD_PARK)].cap_bytes = 45;          /* 31 now, 71 once the slot lets go  */
    t.arena[0].range_bytes = t.arena[0].ready_bytes = 0;
    want_rows(50);
    CHECK_EQ(run_plan(1), 1u << cheap);
    CHECK(!plan.refused && plan.squeezed_count == 1);
    CHECK_EQ(plan.freed_bytes, 50);                     /* 20 of the slot, 30 of the victim  */
    CHECK(plan.recharge_count == 1 && plan.recharge[0].bytes == 40);
    want_rows(51);
    CHECK_EQ(run_plan(1), 1u << cheap | 1u << park);
}

TEST(a_record_whose_recharge_nobody_can_pay_stays)
{
    open_graph();
    u32 pin = add_record(HOLD_PIN, 1, 10), park = add_record(HOLD_PARK, 5, 1);
    u32 store = add_record(HOLD_STORE, 50, 10);
    (void)add_unit(40, 1u << pin | 1u << park);
    records[park].pinned = true;                        /* it matched                        */
    fill_tables();
    g.node[node_of(HOLD_PARK)].cap_bytes = 20;
    t.arena[0].range_bytes = t.arena[0].ready_bytes = 0;
    want_rows(10);
    CHECK_EQ(run_plan(1), 1u << store);
    want_rows(11);
    (void)run_plan(1);
    CHECK(plan.refused);
    (void)pin;
}

TEST(units_of_one_record_alone_cost_no_rows_and_full_tables_pin)
{
    struct holders one = { .count = { [HOLD_STORE] = 1 } }, two = { .count = { [HOLD_STORE] = 2 } };
    struct budget_record r = { .holder = HOLD_STORE };
    budget_shares_open(&shares);
    budget_shares_begin(&shares);
    for (u32 i = 0; i < 100; i++) budget_shares_add(&shares, 3, i, 4096, &one);
    CHECK(budget_shares_end(&shares, &r));
    CHECK(r.arena == 3 && r.freed_bytes == 409600 && r.list_lo == r.list_hi);
    CHECK_EQ(shares.unit_count, 0);
    budget_shares_begin(&shares);
    for (u32 i = 0; i < 10; i++) budget_shares_add(&shares, 3 + i % 2, i, 10, &one);
    budget_shares_add(&shares, 3, 7, 10, &two);
    CHECK(budget_shares_end(&shares, &r));
    CHECK(r.freed_bytes == 50 && r.list_hi - r.list_lo == 2);
    CHECK(shares.unit[shares.list[r.list_hi - 1]].bytes == 50);
    budget_shares_begin(&shares);
    for (u32 i = 0; i <= BUDGET_UNIT_CAP; i++) budget_shares_add(&shares, 3, 100 + i, 1, &two);
    CHECK(!budget_shares_end(&shares, &r));
    CHECK(r.pinned && r.freed_bytes == 0 && r.list_lo == r.list_hi);
}
