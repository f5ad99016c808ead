/* budget/dump.c - one picture in five forms: nodes, arenas, memory, heap, records, gates. */
#include "budget/dump.h"

#include "arena/base/clock.h"
#include "arena/base/file.h"
#include "arena/heap.h"
#include "budget/dump_pack.h"
#include "budget/measure.h"
#include "budget/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const class_words[] = { "fixed", "live", "aside", "cache", "free" };
static const char *const pool_words[POOL_COUNT] = { "board", "nvme" };
static const char *const kind_words[ARENA_KIND_COUNT] = {
    "blocks", "slots", "extents", "table", "scratch", "heap",
};
static const char *const gate_words[GATE_KIND_COUNT] = { "admit", "grow", "start", "set", "keep" };

static const char *const format_words[DUMP_FORMAT_COUNT] = {
    "tree", "json", "msgpack", "dot", "folded",
};

enum err budget_dump_find(const char *name, enum budget_dump_format *out)
{
    for (u32 i = 0; i < DUMP_FORMAT_COUNT; i++)
        if (strcmp(name, format_words[i]) == 0) {
            *out = (enum budget_dump_format)i;
            return OK;
        }
    return fail(ERR_USAGE, "format \"%.40s\": expected tree, json, msgpack, dot or folded", name);
}

/* ------------------------------------------------------------------ what is dumped */

struct picture {                        /* figures beside the graph's own tables             */
    struct budget_measured memory;
    struct budget_process  process;
    struct heap_stats      heap;
    u64 committed, used, free, commits, decommits, ungated;
    u64 unexplained, limit;             /* what no arena and no mapped weight file explains  */
};

static void picture_take(struct budget_graph *g, struct picture *p)
{
    memset(p, 0, sizeof *p);
    budget_graph_refresh(g);
    budget_measure(g->mapped_bytes, &p->memory);
    budget_measure_process(&p->process);
    arena_heap_stats(&p->heap);
    for (u32 i = 0; i < arena_count(); i++) {
        const struct arena_row *row = arena_row(i);
        p->committed += row->committed_bytes;
        p->used += row->used_bytes;
        p->free += arena_free_bytes(i);
        p->commits += row->commit_count;
        p->decommits += row->decommit_count;
        p->ungated += row->ungated_count;
    }
    p->unexplained = p->process.other_bytes;
    p->limit = MAX(64 * MIB, p->process.rss_bytes / 100);
}

/* ------------------------------------------------------------------ JSON */

static void put_field(struct json_out *out, const char *key, u64 value)
{
    json_put_key(out, key);
    json_put_u64(out, value);
}

static void put_word(struct json_out *out, const char *key, const char *word)
{
    json_put_key(out, key);
    json_put_cstr(out, word);
}

/* UINT64_MAX is "no limit": null. */
static void put_limit(struct json_out *out, const char *key, u64 value)
{
    json_put_key(out, key);
    if (value == UINT64_MAX) json_put_null(out);
    else json_put_u64(out, value);
}

static void json_node(const struct budget_graph *g, const struct budget_node *n,
                      struct json_out *out)
{
    json_put_object(out);
    put_word(out, "name", n->name);
    put_word(out, "parent", n->parent == NONE ? NULL : g->node[n->parent].name);
    put_word(out, "pool", pool_words[n->pool]);
    put_word(out, "class", class_words[n->node_class]);
    put_word(out, "holder", n->used_kind == USED_HOLDER ? holders_word[n->holder] : NULL);
    put_field(out, "used_bytes", n->used_bytes);
    put_limit(out, "cap_bytes", n->cap_bytes);
    put_field(out, "reserve_bytes", n->reserve_bytes);
    put_field(out, "unit_bytes", n->unit_bytes);
    put_field(out, "want_bytes", n->want_bytes);
    put_field(out, "granted_bytes", n->granted_bytes);
    put_field(out, "wants", n->want_count);
    put_field(out, "short", n->short_count);
    put_field(out, "yielded_bytes", n->yielded_bytes);
    put_field(out, "high_water_bytes", n->high_water_bytes);
    json_put_object_end(out);
}

static void json_arena(const struct arena_row *row, u64 free, struct json_out *out)
{
    json_put_object(out);
    put_word(out, "name", row->name);
    put_word(out, "kind", kind_words[row->kind]);
    put_word(out, "space", row->space == SPACE_HOST ? "host" : "device");
    put_field(out, "range_bytes", row->range_bytes);
    put_field(out, "unit_bytes", row->unit_bytes);
    put_field(out, "committed_bytes", row->committed_bytes);
    put_field(out, "used_bytes", row->used_bytes);
    put_field(out, "free_bytes", free);
    put_field(out, "high_water_bytes", row->high_water_bytes);
    put_field(out, "commits", row->commit_count);
    put_field(out, "decommits", row->decommit_count);
    put_field(out, "ungated_commits", row->ungated_count);
    json_put_key(out, "held_bytes");
    json_put_object(out);
    for (u32 i = 0; i < HOLD_COUNT; i++)
        if (row->held.bytes[i] > 0) put_field(out, holders_word[i], row->held.bytes[i]);
    json_put_object_end(out);
    json_put_object_end(out);
}

static void json_memory(const struct budget_graph *g, const struct picture *p,
                        struct json_out *out)
{
    json_put_key(out, "memory");
    json_put_object(out);
    put_limit(out, "free_bytes", p->memory.free_bytes);
    put_limit(out, "available_bytes", p->memory.available_bytes);
    put_limit(out, "group_bytes", p->memory.group_bytes);
    put_limit(out, "total_bytes", p->memory.total_bytes);
    put_field(out, "floor_bytes", g->floor_bytes);
    put_field(out, "mapped_bytes", g->mapped_bytes);
    put_field(out, "committed_bytes", p->committed);
    put_field(out, "used_bytes", p->used);
    put_field(out, "committed_free_bytes", p->free);
    put_field(out, "commits", p->commits);
    put_field(out, "decommits", p->decommits);
    put_field(out, "ungated_commits", p->ungated);
    put_field(out, "rss_bytes", p->process.rss_bytes);
    put_field(out, "rss_arena_bytes", p->process.arena_bytes);
    put_field(out, "rss_weights_bytes", p->process.file_bytes);
    put_field(out, "unexplained_bytes", p->unexplained);
    put_field(out, "unexplained_limit_bytes", p->limit);
    json_put_object_end(out);
    json_put_key(out, "heap");
    json_put_object(out);
    put_field(out, "allocated_bytes", p->heap.allocated_bytes);
    put_field(out, "active_bytes", p->heap.active_bytes);
    put_field(out, "mapped_bytes", p->heap.mapped_bytes);
    put_field(out, "committed_bytes", p->heap.committed_bytes);
    json_put_object_end(out);
}

static void json_gate(const struct budget_graph *g, const struct gate_row *row,
                      struct json_out *out)
{
    json_put_object(out);
    put_field(out, "number", row->number);
    put_word(out, "kind", gate_words[row->kind]);
    put_field(out, "turn", row->turn);
    put_field(out, "at_us", row->at_us);
    put_field(out, "plan_us", row->plan_us);
    put_field(out, "total_us", row->total_us);
    put_field(out, "rounds", row->rounds);
    put_limit(out, "free_before_bytes", row->free_before_bytes);
    put_limit(out, "free_after_bytes", row->free_after_bytes);
    put_field(out, "victims", row->victim_count);
    put_field(out, "freed_bytes", row->freed_bytes);
    put_field(out, "squeezed", row->squeezed_count);
    put_field(out, "recharged_bytes", row->recharged_bytes);
    put_field(out, "trimmed_bytes", row->trimmed_bytes);
    if (row->kind == GATE_SET) {
        put_word(out, "node", g->node[row->cap_node].name);
        put_limit(out, "cap_bytes", row->cap_bytes);
    }
    json_put_key(out, "refused");
    json_put_bool(out, row->refused_want != NONE);
    put_field(out, "short_bytes", row->short_bytes);
    put_field(out, "want_count", row->want_count);
    json_put_key(out, "wants");
    json_put_array(out);
    for (u32 i = 0; i < MIN(row->want_count, (u32)BUDGET_GATE_WANTS); i++) {
        const struct gate_want *w = &row->want[i];
        json_put_object(out);
        put_word(out, "node", g->node[w->node].name);
        json_put_key(out, "must");
        json_put_bool(out, w->must);
        put_field(out, "min_bytes", w->min_bytes);
        put_field(out, "max_bytes", w->max_bytes);
        put_field(out, "granted_bytes", w->granted_bytes);
        put_word(out, "why", w->why == WHY_FULL ? NULL : budget_plan_why(w->why));
        put_word(out, "limit", w->limit < g->node_count ? g->node[w->limit].name : NULL);
        json_put_object_end(out);
    }
    json_put_array_end(out);
    json_put_object_end(out);
}

static void dump_json(const struct budget_graph *g, const struct picture *p, struct json_out *out)
{
    json_put_object(out);
    put_field(out, "version", 1);
    put_word(out, "profile", g->profile);
    json_put_key(out, "at_s");
    json_put_f64(out, clock_wall_s());
    json_memory(g, p, out);
    json_put_key(out, "nodes");
    json_put_array(out);
    for (u32 i = 0; i < g->node_count; i++) json_node(g, &g->node[i], out);
    json_put_array_end(out);
    json_put_key(out, "edges");
    json_put_array(out);
    for (u32 i = 0; i < g->edge_count; i++) {
        json_put_object(out);
        put_word(out, "taker", g->edge[i].taker_name);
        put_word(out, "victim", g->edge[i].victim_name);
        put_field(out, "order", g->edge[i].order);
        json_put_object_end(out);
    }
    json_put_array_end(out);
    json_put_key(out, "records");       /* by class; rows shared by several count for each   */
    json_put_array(out);
    for (u32 i = 0; i < HOLD_COUNT; i++) {
        json_put_object(out);
        put_word(out, "class", holders_word[i]);
        put_field(out, "records", g->kept[i].records);
        put_field(out, "rows", g->kept[i].rows);
        json_put_object_end(out);
    }
    json_put_array_end(out);
    json_put_key(out, "arenas");
    json_put_array(out);
    for (u32 i = 0; i < arena_count(); i++) {
        const struct arena_row *row = arena_row(i);
        json_arena(row, arena_free_bytes(i), out);
    }
    json_put_array_end(out);
    json_put_key(out, "gates");         /* newest first                                      */
    json_put_array(out);
    for (u32 i = 0; i < budget_history_count(&g->history); i++)
        json_gate(g, budget_history_row(&g->history, i), out);
    json_put_array_end(out);
    json_put_object_end(out);
}

/* ------------------------------------------------------------------ tree */

PRINTF_LIKE(2, 3) static void put_f(struct json_out *out, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (bytes > 0) json_put_plain(out, line, MIN((u64)bytes, sizeof line - 1));
}

enum { AMOUNT_BYTES = 24 };
struct amount { char text[AMOUNT_BYTES]; };

/* "1.25 GiB", "300 MiB", "12 KiB", "-" for no limit. */
static struct amount amount(u64 bytes)
{
    struct amount a;
    if (bytes == UINT64_MAX) snprintf(a.text, sizeof a.text, "-");
    else if (bytes >= GIB) snprintf(a.text, sizeof a.text, "%.2f GiB", (f64)bytes / 0x1p30);
    else if (bytes >= MIB) snprintf(a.text, sizeof a.text, "%.1f MiB", (f64)bytes / 0x1p20);
    else if (bytes > 0) snprintf(a.text, sizeof a.text, "%.1f KiB", (f64)bytes / 0x1p10);
    else snprintf(a.text, sizeof a.text, "0");
    return a;
}

/* Nodes below `parent`, children under their parents; as deep as the graph. */
static void tree_nodes(const struct budget_graph *g, u32 parent, int depth, struct json_out *out)
{
    for (u32 i = 0; i < g->node_count; i++) {
        const struct budget_node *n = &g->node[i];
        if (n->parent != parent) continue;
        put_f(out, "%*s%-*s %11s %11s %11s %11s %11s %6llu\n", 2 * depth, "", 22 - 2 * depth,
              n->name, amount(n->used_bytes).text, amount(n->cap_bytes).text,
              amount(n->reserve_bytes).text, amount(n->high_water_bytes).text,
              amount(n->want_bytes).text, (ull)n->short_count);
        if (n->used_kind == USED_CHILDREN) tree_nodes(g, i, depth + 1, out);
    }
}

static void tree_gates(const struct budget_graph *g, struct json_out *out)
{
    u32 count = budget_history_count(&g->history);
    put_f(out, "\ngates: %llu so far%s\n", (ull)g->history.count,
          count > 0 ? ", the last of them:" : "");
    for (u32 i = 0; i < MIN(count, 8u); i++) {
        const struct gate_row *row = budget_history_row(&g->history, i);
        if (row->kind == GATE_SET) {
            put_f(out, "  %llu set %s to %s: %u victims\n", (ull)row->number,
                  g->node[row->cap_node].name, amount(row->cap_bytes).text, row->victim_count);
            continue;
        }
        put_f(out, "  %llu %s turn %llu: %s, %llu us (plan %llu), %u victims, free %s\n",
              (ull)row->number, gate_words[row->kind], (ull)row->turn,
              row->refused_want == NONE ? "granted" : "REFUSED", (ull)row->total_us,
              (ull)row->plan_us, row->victim_count, amount(row->free_after_bytes).text);
        for (u32 k = 0; k < MIN(row->want_count, (u32)BUDGET_GATE_WANTS); k++) {
            const struct gate_want *w = &row->want[k];
            bool capped = w->limit < g->node_count;
            put_f(out, "    %-10s %s %s of %s%s%s%s%s\n", g->node[w->node].name,
                  w->must ? "must" : "may ", amount(w->granted_bytes).text,
                  amount(w->max_bytes).text, w->why == WHY_FULL ? "" : ": ",
                  w->why == WHY_FULL ? "" : budget_plan_why(w->why), capped ? " of " : "",
                  capped ? g->node[w->limit].name : "");
        }
    }
}

static void dump_tree(const struct budget_graph *g, const struct picture *p, struct json_out *out)
{
    put_f(out, "profile %s\n", g->profile[0] != 0 ? g->profile : "-");
    put_f(out, "free %s measured of %s, floor %s, weights mapped %s\n\n",
          amount(p->memory.free_bytes).text, amount(p->memory.total_bytes).text,
          amount(g->floor_bytes).text, amount(g->mapped_bytes).text);
    put_f(out, "%-22s %11s %11s %11s %11s %11s %6s\n", "node", "used", "cap", "reserve",
          "high water", "last want", "short");
    tree_nodes(g, NONE, 0, out);
    put_f(out, "\n%-12s %-8s %11s %11s %11s %11s %9s %9s %8s\n", "arena", "kind", "committed",
          "used", "free", "high water", "commits", "decommits", "ungated");
    for (u32 i = 0; i < arena_count(); i++) {
        const struct arena_row *row = arena_row(i);
        put_f(out, "%-12s %-8s %11s %11s %11s %11s %9llu %9llu %8llu\n", row->name,
              kind_words[row->kind], amount(row->committed_bytes).text,
              amount(row->used_bytes).text, amount(arena_free_bytes(i)).text,
              amount(row->high_water_bytes).text, (ull)row->commit_count,
              (ull)row->decommit_count, (ull)row->ungated_count);
    }
    put_f(out, "\nheap: %s allocated, %s active, %s committed\n",
          amount(p->heap.allocated_bytes).text, amount(p->heap.active_bytes).text,
          amount(p->heap.committed_bytes).text);
    put_f(out, "process: RSS %s = arenas %s + mapped weights %s + unexplained %s (limit %s)\n",
          amount(p->process.rss_bytes).text, amount(p->process.arena_bytes).text,
          amount(p->process.file_bytes).text, amount(p->unexplained).text,
          amount(p->limit).text);
    for (u32 i = 0; i < HOLD_COUNT; i++)
        if (g->kept[i].records > 0)
            put_f(out, "records: %-8s %6llu of %llu rows\n", holders_word[i],
                  (ull)g->kept[i].records, (ull)g->kept[i].rows);
    tree_gates(g, out);
}

/* ------------------------------------------------------------------ dot, folded, msgpack */

static void dump_dot(const struct budget_graph *g, struct json_out *out)
{
    put_f(out, "digraph memory {\n  rankdir=LR;\n  node [shape=box];\n");
    for (u32 i = 0; i < g->node_count; i++) {
        const struct budget_node *n = &g->node[i];
        put_f(out, "  \"%s\" [label=\"%s\\n%s of %s\"];\n", n->name, n->name,
              amount(n->used_bytes).text, amount(n->cap_bytes).text);
        if (n->parent != NONE)
            put_f(out, "  \"%s\" -> \"%s\";\n", g->node[n->parent].name, n->name);
    }
    for (u32 i = 0; i < g->edge_count; i++)         /* who may take from whom                */
        put_f(out, "  \"%s\" -> \"%s\" [style=dashed, constraint=false, label=\"%u\"];\n",
              g->edge[i].taker_name, g->edge[i].victim_name, g->edge[i].order);
    put_f(out, "}\n");
}

/* Names from the root down, as deep as the graph. */
static void put_path(const struct budget_graph *g, u32 node, struct json_out *out)
{
    if (g->node[node].parent != NONE) {
        put_path(g, g->node[node].parent, out);
        put_f(out, ";");
    }
    put_f(out, "%s", g->node[node].name);
}

static void dump_folded(const struct budget_graph *g, struct json_out *out)
{
    for (u32 i = 0; i < g->node_count; i++) {
        const struct budget_node *n = &g->node[i];
        if (n->used_kind == USED_CHILDREN || n->used_bytes == 0) continue;
        put_path(g, i, out);
        put_f(out, " %llu\n", (ull)n->used_bytes);
    }
}

static enum err dump_msgpack(const struct budget_graph *g, const struct picture *p,
                             struct json_out *out)
{
    struct json_out text = { 0 };
    dump_json(g, p, &text);
    enum err e = json_out_check(&text);
    if (e == OK) e = dump_pack(text.text, text.bytes, out);
    json_out_close(&text);
    return e;
}

/* ------------------------------------------------------------------ out */

enum err budget_dump(struct budget_graph *g, enum budget_dump_format format, struct json_out *out)
{
    struct picture p;
    picture_take(g, &p);
    switch (format) {
    case DUMP_JSON:    dump_json(g, &p, out); break;
    case DUMP_MSGPACK: TRY(dump_msgpack(g, &p, out)); break;
    case DUMP_DOT:     dump_dot(g, out); break;
    case DUMP_FOLDED:  dump_folded(g, out); break;
    default:           dump_tree(g, &p, out); break;
    }
    return json_out_check(out);
}

enum err budget_dump_write(struct budget_graph *g, const char *folder, const char *word)
{
    enum { DUMP_FILES_MAX = 100 };
    static u32 number;
    char name[64], path[FILE_PATH_BYTES];
    if (number == DUMP_FILES_MAX) return OK;
    number++;
    snprintf(name, sizeof name, "memory-%u-%.30s.json", number, word);
    TRY(file_make_folder(folder, 0700));
    TRY(file_join(folder, name, path));
    struct json_out out = { 0 };
    enum err e = budget_dump(g, DUMP_JSON, &out);
    if (e == OK) e = file_commit(path, out.text, out.bytes, 0600);
    json_out_close(&out);
    return e;
}
