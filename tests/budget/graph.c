/* tests/budget/graph.c - declarations refused, edges, reserves, and what nodes are charged. */
#include "arena/blocks.h"
#include "arena/extents.h"
#include "arena/slots.h"
#include "arena/table.h"
#include "budget/graph.h"
#include "budget/measure.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

static struct budget_graph g;
static struct profile_row profile;

static u64 yield_nothing(void *owner, const u32 *list, u32 count)
{
    (void)owner; (void)list; (void)count;
    return 0;
}

static bool says(const char *part)
{
    if (strstr(err_last()->text, part) != NULL) return true;
    printf("not in \"%s\": %s\n", err_last()->text, part);
    return false;
}

static void open_board(void)
{
    arena_close();
    profile_defaults(&profile);
    profile.board_bytes = 64 * MIB;
    profile.cache_budget_bytes = 16 * MIB;
    CHECK_OK(budget_graph_board(&g, &profile));
}

static enum err leaf(const char *name, const char *parent, enum budget_class class, u64 cap,
                     u64 reserve)
{
    return budget_graph_declare(&g, &(struct budget_decl){
        .name = name, .parent = parent, .node_class = class, .used = USED_COUNT, .cap_bytes = cap,
        .reserve_bytes = reserve, .yield = class > CLASS_LIVE ? yield_nothing : NULL,
    }, NULL);
}

TEST(a_declaration_that_makes_no_sense_is_refused_and_names_the_node)
{
    open_board();
    CHECK_OK(leaf("store", "caches", CLASS_CACHE, 100, 10));
    CHECK_EQ(leaf("store", "caches", CLASS_CACHE, 100, 10), ERR_CONFIG);
    CHECK(says("store is declared twice"));
    CHECK_EQ(leaf("park", "cashes", CLASS_CACHE, 100, 10), ERR_CONFIG);
    CHECK(says("no parent \"cashes\"; the nearest is \"caches\""));
    CHECK_EQ(leaf("park", "store", CLASS_CACHE, 100, 10), ERR_CONFIG);
    CHECK(says("its parent store is a leaf"));
    CHECK_EQ(leaf("park", "caches", CLASS_CACHE, 100, 101), ERR_CONFIG);
    CHECK(says("reserve 101 is over its cap 100"));
    CHECK_EQ(leaf("a-name-of-16-byte", "caches", CLASS_CACHE, 100, 0), ERR_CONFIG);
    CHECK_EQ(leaf("", "caches", CLASS_CACHE, 100, 0), ERR_CONFIG);
    CHECK_EQ(budget_graph_declare(&g, &(struct budget_decl){
        .name = "x", .parent = "caches", .used = USED_ARENA }, NULL), ERR_CONFIG);
    char name[16];
    u32 count = g.node_count;
    for (u32 i = count; i < BUDGET_NODE_CAP; i++) {
        snprintf(name, sizeof name, "n%u", i);
        CHECK_OK(leaf(name, "caches", CLASS_CACHE, 1, 0));
    }
    CHECK_EQ(leaf("last", "caches", CLASS_CACHE, 1, 0), ERR_FULL);
    CHECK_EQ(g.node_count, BUDGET_NODE_CAP);
}

TEST(cycles_unknown_nodes_and_wrong_directions_of_yield_are_refused)
{
    open_board();
    CHECK_OK(leaf("kv", "live", CLASS_LIVE, 100, 0));
    CHECK_OK(leaf("anchors", "caches", CLASS_CACHE, 100, 0));
    CHECK_OK(leaf("store", "caches", CLASS_CACHE, 100, 0));
    CHECK_OK(budget_graph_edge(&g, "live", "anchors", 7));
    CHECK_OK(budget_graph_edge(&g, "live", "store", 1));
    CHECK_OK(budget_graph_edge(&g, "anchors", "store", 1));
    CHECK_OK(budget_graph_check(&g));
    CHECK_OK(budget_graph_edge(&g, "store", "anchors", 1));
    CHECK_EQ(budget_graph_check(&g), ERR_CONFIG);
    CHECK(says("closes a cycle") && !g.checked);
    g.edge_count--;
    CHECK_OK(budget_graph_edge(&g, "caches", "store", 1));      /* stands for store itself   */
    CHECK_EQ(budget_graph_check(&g), ERR_CONFIG);
    CHECK(says("cycle"));
    g.edge_count--;
    CHECK_OK(budget_graph_edge(&g, "kv", "stroe", 1));
    CHECK_EQ(budget_graph_check(&g), ERR_CONFIG);
    CHECK(says("no such victim; the nearest is store"));
    g.edge_count--;
    CHECK_OK(budget_graph_edge(&g, "store", "kv", 1));
    CHECK_EQ(budget_graph_check(&g), ERR_CONFIG);
    CHECK(says("higher class"));
}

TEST(yield_lines_of_a_profile_replace_a_takers_order_and_errors_name_their_line)
{
    open_board();
    profile.yield[0] = (struct profile_yield){ "live", "store", 1, 12 };
    profile.yield[1] = (struct profile_yield){ "live", "anchors", 2, 12 };
    profile.yield[2] = (struct profile_yield){ "store", "anchors", 1, 13 };
    profile.yield_count = 3;
    snprintf(profile.profile, sizeof profile.profile, "my.conf");
    CHECK_OK(budget_graph_board(&g, &profile));
    CHECK_OK(leaf("kv", "live", CLASS_LIVE, 100, 0));
    CHECK_OK(leaf("anchors", "caches", CLASS_CACHE, 100, 0));
    CHECK_OK(leaf("store", "caches", CLASS_CACHE, 100, 0));
    CHECK_OK(budget_graph_edge(&g, "live", "anchors", 7));
    CHECK_OK(budget_graph_check(&g));
    CHECK_EQ(g.edge_count, 3);
    for (u32 i = 0; i < g.edge_count; i++) CHECK(g.edge[i].order < 3 && g.edge[i].line >= 12);
    CHECK_OK(budget_graph_edge(&g, "anchors", "store", 1));
    CHECK_EQ(budget_graph_check(&g), ERR_CONFIG);
    CHECK(says("cycle"));

    profile.yield[2] = (struct profile_yield){ "store", "respons", 1, 13 };
    CHECK_OK(budget_graph_board(&g, &profile));
    CHECK_OK(leaf("kv", "live", CLASS_LIVE, 100, 0));
    CHECK_OK(leaf("anchors", "caches", CLASS_CACHE, 100, 0));
    CHECK_OK(leaf("store", "caches", CLASS_CACHE, 100, 0));
    CHECK_EQ(budget_graph_check(&g), ERR_CONFIG);
    CHECK(says("my.conf:13: store <- respons: no such victim"));
}

TEST(reserves_over_a_cap_above_are_refused)
{
    open_board();
    CHECK_OK(leaf("anchors", "caches", CLASS_CACHE, 12 * MIB, 12 * MIB));
    CHECK_OK(budget_graph_check(&g));
    CHECK_OK(leaf("store", "caches", CLASS_CACHE, 12 * MIB, 5 * MIB));
    CHECK_EQ(budget_graph_check(&g), ERR_CONFIG);
    CHECK(says("reserves below caches"));
    u32 caches = budget_graph_find(&g, "caches");
    CHECK_OK(budget_graph_cap(&g, caches, 17 * MIB));
    CHECK_OK(budget_graph_check(&g));
    CHECK_EQ(budget_graph_cap(&g, caches, 16 * MIB), ERR_CONFIG);
    CHECK_EQ(g.node[caches].cap_bytes, 17 * MIB);
}

/* Arenas of every kind; granule 4 KiB, units of 1,000 bytes (four in a granule) and of 5,000. */
static void open_arenas(void)
{
    static const struct arena_decl decl[] = {
        { .name = "weights", .kind = ARENA_EXTENTS, .cap_bytes = MIB },
        { .name = "lists", .kind = ARENA_EXTENTS, .cap_bytes = MIB },
        { .name = "tables", .kind = ARENA_TABLE, .cap_bytes = MIB },
        { .name = "blocks", .kind = ARENA_BLOCKS, .unit_bytes = 5000, .unit_cap = 200,
          .label_bytes = 64 },
        { .name = "sections", .kind = ARENA_SLOTS, .unit_bytes = 1000, .unit_cap = 500 },
    };
    open_board();
    space_host_granule(4096);
    CHECK_OK(arena_open(decl, COUNT_OF(decl)));
}

static void declare_all(void)
{
    u32 weights;
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "weights", .parent = "fixed", .used = USED_ARENA, .arena = "weights",
        .cap_bytes = UINT64_MAX }, &weights));
    CHECK_OK(budget_graph_charge(&g, weights, "lists"));
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "tables", .parent = "fixed", .used = USED_ARENA, .arena = "tables",
        .cap_bytes = UINT64_MAX }, NULL));
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "kv", .parent = "live", .node_class = CLASS_LIVE, .holder = HOLD_LIVE,
        .cap_bytes = UINT64_MAX }, NULL));
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "anchors", .parent = "caches", .node_class = CLASS_CACHE, .holder = HOLD_ANCHOR,
        .cap_bytes = UINT64_MAX, .yield = yield_nothing }, NULL));
}

static u64 used_of(const char *name)
{
    return g.node[budget_graph_find(&g, name)].used_bytes;
}

TEST(nodes_are_charged_what_their_arenas_and_holder_classes_hold)
{
    extent_id extent, list;
    block_id block;
    unit_id unit;
    void *table;
    open_arenas();
    declare_all();
    CHECK_OK(budget_graph_check(&g));
    CHECK_OK(arena_extents_take(arena_find("weights"), 10000, &extent));
    CHECK_OK(arena_extents_take(arena_find("lists"), 1, &list));
    CHECK_OK(arena_table_take(arena_find("tables"), "t", 8, 100, &table));
    u32 blocks = arena_find("blocks"), sections = arena_find("sections");
    CHECK_OK(arena_blocks_take(blocks, HOLD_LIVE, &block));
    CHECK_OK(arena_slots_take(sections, HOLD_LIVE, &unit));
    arena_slots_hold(sections, unit, HOLD_ANCHOR);      /* charged once: to the highest      */
    budget_graph_verify(&g);
    CHECK_EQ(used_of("weights"), 3 * 4096 + 4096);
    CHECK_EQ(used_of("kv"), 8192 + arena_row(sections)->unit_bytes);
    CHECK_EQ(used_of("anchors"), 0);
    arena_slots_drop(sections, unit, HOLD_LIVE);
    budget_graph_verify(&g);
    CHECK_EQ(used_of("kv"), 8192);
    CHECK_EQ(used_of("anchors"), arena_row(sections)->unit_bytes);
    CHECK_EQ(used_of("caches"), used_of("anchors"));
    arena_blocks_drop(blocks, block, HOLD_LIVE);
    arena_slots_drop(sections, unit, HOLD_ANCHOR);
    budget_graph_verify(&g);
    CHECK_EQ(used_of("live") + used_of("caches"), 0);
    CHECK(used_of("free") >= 8192 + 4096);              /* committed and unused              */
    u64 committed = 0;
    for (u32 i = 0; i < arena_count(); i++) committed += arena_row(i)->committed_bytes;
    CHECK_EQ(used_of("board"), committed);
    CHECK_EQ(g.node[budget_graph_find(&g, "kv")].high_water_bytes,
             8192 + arena_row(sections)->unit_bytes);
    arena_close();
    space_host_granule(0);
}

TEST(an_arena_is_charged_to_exactly_one_node)
{
    open_arenas();
    declare_all();
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "again", .parent = "fixed", .used = USED_ARENA, .arena = "lists",
        .cap_bytes = UINT64_MAX }, NULL));
    CHECK_EQ(budget_graph_check(&g), ERR_CONFIG);
    CHECK(says("arena lists is charged to weights"));
    g.node_count--;
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "twin", .parent = "live", .node_class = CLASS_LIVE, .holder = HOLD_LIVE,
        .cap_bytes = UINT64_MAX }, NULL));
    CHECK_EQ(budget_graph_check(&g), ERR_CONFIG);
    CHECK(says("another node's"));
    g.node_count--;
    g.node[budget_graph_find(&g, "weights")].arena_count = 1;
    CHECK_EQ(budget_graph_check(&g), ERR_CONFIG);
    CHECK(says("arena lists is charged to no node"));
    arena_close();
    space_host_granule(0);
}
