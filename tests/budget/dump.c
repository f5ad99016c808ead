/* tests/budget/dump.c - the dump: JSON that parses back to the graph's figures, a tree to read. */
#include "arena/base/file.h"
#include "arena/slots.h"
#include "arena/table.h"
#include "budget/dump.h"
#include "budget/gate.h"
#include "budget/measure.h"
#include "arena/base/pack.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct budget_graph g;
static u32 anchors, sections;
static unit_id unit;

static u64 yield_nothing(void *owner, const u32 *list, u32 count)
{
    (void)owner; (void)list; (void)count;
    return 0;
}

static void open_house(void)
{
    static const struct arena_decl decl[] = {
        { .name = "tables", .kind = ARENA_TABLE, .cap_bytes = 4 * MIB },
        { .name = "sections", .kind = ARENA_SLOTS, .unit_bytes = 65536, .unit_cap = 64 },
    };
    struct profile_row profile;
    u8 *table;
    arena_close();
    CHECK_OK(arena_open(decl, COUNT_OF(decl)));
    CHECK_OK(profile_load("cpu-8g", &profile));
    CHECK_OK(budget_graph_board(&g, &profile));
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "tables", .parent = "fixed", .used = USED_ARENA, .arena = "tables",
        .cap_bytes = UINT64_MAX }, NULL));
    CHECK_OK(budget_graph_declare(&g, &(struct budget_decl){
        .name = "anchors", .parent = "caches", .node_class = CLASS_CACHE, .holder = HOLD_ANCHOR,
        .cap_bytes = 40 * 65536, .reserve_bytes = 65536, .unit_bytes = 65536,
        .yield = yield_nothing }, &anchors));
    CHECK_OK(budget_graph_edge(&g, "live", "anchors", 7));
    CHECK_OK(budget_graph_check(&g));
    CHECK_OK(arena_table_take(arena_find("tables"), "filled", 1, 3 * MIB, &table));
    memset(table, 1, 3 * MIB);
    sections = arena_find("sections");
    CHECK_OK(arena_slots_take(sections, HOLD_ANCHOR, &unit));
    struct budget_want wants[] = {
        { .node = anchors, .arena = sections, .max_bytes = 50 * 65536 },
    };
    struct budget_plan plan;
    CHECK_OK(budget_gate(&g, &(struct budget_ask){ .wants = wants, .want_count = 1 }, &plan));
    CHECK_EQ(plan.grant[0].bytes, 39 * 65536);
}

TEST(the_json_parses_back_to_the_figures_of_graph_arenas_and_gates)
{
    struct json_out out = { 0 };
    struct json_doc doc;
    struct json_at root, list, item, memory;
    u64 value, rss, part, sum = 0;
    const char *text;
    open_house();
    CHECK_OK(budget_dump(&g, DUMP_JSON, &out));
    CHECK_OK(json_open(out.text, out.bytes, (struct json_limits){ 1u << 20, 16 }, NULL, &doc,
                       &root));
    CHECK_OK(json_get(&root, "nodes", &list));
    CHECK_EQ(json_count(&list), g.node_count);
    for (u32 i = 0; i < g.node_count; i++) {
        CHECK_OK(json_item(&list, i, &item));
        CHECK_OK(json_str(&item, "name", &text, NULL));
        CHECK_STR(text, g.node[i].name);
        CHECK_OK(json_u64(&item, "used_bytes", &value));
        CHECK_EQ(value, g.node[i].used_bytes);
        CHECK_OK(json_u64_or(&item, "cap_bytes", UINT64_MAX >> 1, &value));
        CHECK(value == g.node[i].cap_bytes || g.node[i].cap_bytes == UINT64_MAX);
    }
    CHECK_OK(json_get(&root, "arenas", &list));
    CHECK_EQ(json_count(&list), arena_count());
    for (u32 i = 0; i < arena_count(); i++) {
        CHECK_OK(json_item(&list, i, &item));
        CHECK_OK(json_u64(&item, "committed_bytes", &value));
        sum += value;
    }
    CHECK_OK(json_get(&root, "memory", &memory));
    CHECK_OK(json_u64(&memory, "committed_bytes", &value));
    CHECK_EQ(value, sum);
    CHECK_OK(json_u64(&memory, "rss_bytes", &rss));
    CHECK_OK(json_u64(&memory, "rss_arena_bytes", &part));
    CHECK(part >= 3 * MIB && part <= sum);
    CHECK_OK(json_u64(&memory, "unexplained_bytes", &value));
    CHECK(value + part <= rss);
    CHECK_OK(json_get(&root, "gates", &list));
    CHECK_EQ(json_count(&list), 1);
    CHECK_OK(json_item(&list, 0, &item));
    CHECK_OK(json_get(&item, "wants", &list));
    CHECK_OK(json_item(&list, 0, &item));
    CHECK_OK(json_str(&item, "why", &text, NULL));
    CHECK_STR(text, "cap");
    CHECK_OK(json_str(&item, "limit", &text, NULL));
    CHECK_STR(text, "anchors");
    json_close(&doc);
    json_out_close(&out);
    arena_close();
}

TEST(the_tree_shows_every_node_and_arena_and_the_last_gate)
{
    struct json_out out = { 0 };
    open_house();
    CHECK_OK(budget_dump(&g, DUMP_TREE, &out));
    json_put_plain(&out, "", 1);                        /* the NUL                           */
    CHECK_OK(json_out_check(&out));
    for (u32 i = 0; i < g.node_count; i++) CHECK(strstr(out.text, g.node[i].name) != NULL);
    CHECK(strstr(out.text, "    anchors               64.0 KiB     2.5 MiB") != NULL);
    CHECK(strstr(out.text, "gates: 1 so far") != NULL);
    CHECK(strstr(out.text, "may  2.4 MiB of 3.1 MiB: cap of anchors") != NULL);
    CHECK(strstr(out.text, "unexplained") != NULL);
    json_out_close(&out);
    arena_close();
}

TEST(formats_are_found_by_name_and_others_refused)
{
    static const char *const names[] = { "tree", "json", "msgpack", "dot", "folded" };
    enum budget_dump_format format;
    for (u32 i = 0; i < COUNT_OF(names); i++) {
        CHECK_OK(budget_dump_find(names[i], &format));
        CHECK_EQ(format, i);
    }
    CHECK_EQ(budget_dump_find("yaml", &format), ERR_USAGE);
    CHECK(strstr(err_last()->text, "folded") != NULL);
}

TEST(dot_has_every_node_and_edge_and_folded_every_used_leaf)
{
    struct json_out out = { 0 };
    char line[200];
    open_house();
    CHECK_OK(budget_dump(&g, DUMP_DOT, &out));
    json_put_plain(&out, "", 1);
    for (u32 i = 0; i < g.node_count; i++) {
        snprintf(line, sizeof line, "  \"%s\" [label=", g.node[i].name);
        CHECK(strstr(out.text, line) != NULL);
    }
    for (u32 i = 0; i < g.edge_count; i++) {
        snprintf(line, sizeof line, "\"%s\" -> \"%s\" [style=dashed", g.edge[i].taker_name,
                 g.edge[i].victim_name);
        CHECK(strstr(out.text, line) != NULL);
    }
    json_out_clear(&out);
    CHECK_OK(budget_dump(&g, DUMP_FOLDED, &out));
    json_put_plain(&out, "", 1);
    snprintf(line, sizeof line, "board;caches;anchors %llu\n",
             (ull)g.node[budget_graph_find(&g, "anchors")].used_bytes);
    CHECK(strstr(out.text, line) != NULL);
    u64 sum = 0;
    for (const char *at = out.text; (at = strchr(at, ' ')) != NULL; at++)
        sum += strtoull(at + 1, NULL, 10);
    CHECK_EQ(sum, g.node[0].used_bytes);
    json_out_close(&out);
    arena_close();
}

TEST(msgpack_says_what_json_says)
{
    struct json_out out = { 0 };
    struct pack_at root, nodes;
    struct pack_item item;
    u64 version;
    open_house();
    g.kept[HOLD_PARK].records = 3;
    CHECK_OK(budget_dump(&g, DUMP_MSGPACK, &out));
    CHECK_OK(pack_open(out.text, out.bytes, out.bytes, &root));
    CHECK_OK(pack_get_u64(root, "version", &version));
    CHECK_EQ(version, 1);
    CHECK(pack_find(root, "nodes", &nodes) && pack_next(&nodes, &item));
    CHECK(item.kind == PACK_ARRAY && item.count == g.node_count);
    for (u32 i = 0; i < g.node_count; i++) {
        const char *name;
        u32 bytes;
        u64 used;
        CHECK_OK(pack_get_str(nodes, "name", &name, &bytes));
        CHECK(bytes == strlen(g.node[i].name) && memcmp(name, g.node[i].name, bytes) == 0);
        CHECK_OK(pack_get_u64(nodes, "used_bytes", &used));
        CHECK_EQ(used, g.node[i].used_bytes);
        pack_skip(&nodes);
    }
    CHECK(pack_find(root, "records", &nodes) && pack_next(&nodes, &item));
    CHECK(item.kind == PACK_ARRAY && item.count == HOLD_COUNT);
    for (u32 i = 0; i < HOLD_COUNT; i++, pack_skip(&nodes)) {
        CHECK_OK(pack_get_u64(nodes, "records", &version));
        CHECK_EQ(version, i == HOLD_PARK ? 3 : 0);
    }
    json_out_close(&out);
    arena_close();
}

TEST(a_dump_is_written_whole_into_its_folder)
{
    char folder[] = "/tmp/holdfast-dump-XXXXXX", path[128], line[128];
    struct file_stat stat;
    CHECK(mkdtemp(folder) != NULL);
    open_house();
    CHECK_OK(budget_dump_write(&g, folder, "refused"));
    snprintf(path, sizeof path, "%s/memory-1-refused.json", folder);
    CHECK_OK(file_stat(path, &stat));
    CHECK(stat.bytes > 1000 && (stat.mode & 0777) == 0600);
    snprintf(line, sizeof line, "rm -rf %s", folder);
    CHECK(system(line) == 0);
    CHECK(budget_dump_write(&g, "/proc/nowhere", "refused") != OK);
    arena_close();
}
