/* tests/budget/dump.c - the dump: JSON that parses back to the graph's figures, a tree to read. */
#include "arena/base/file.h"
#include "arena/slots.h"
#include "arena/table.h"
#include "budget/dump.h"
#include "budget/gate.h"
#include "budget/measure.h"
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

TEST(formats_that_come_later_are_refused_by_name)
{
    enum budget_dump_format format = DUMP_TREE;
    CHECK_OK(budget_dump_find("json", &format));
    CHECK_EQ(format, DUMP_JSON);
    static const char *const later[] = { "msgpack", "dot", "folded" };
    for (u32 i = 0; i < COUNT_OF(later); i++) {
        CHECK_EQ(budget_dump_find(later[i], &format), ERR_UNSUPPORTED);
        CHECK(strstr(err_last()->text, later[i]) != NULL);
    }
    CHECK_EQ(budget_dump_find("yaml", &format), ERR_USAGE);
    CHECK_EQ(format, DUMP_JSON);
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
