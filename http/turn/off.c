/* http/turn/off.c - the tiers, and what keeps one from serving. */
#include "http/turn/off.h"

#include "arena/base/json.h"
#include "arena/base/log.h"
#include "http/turn/pass.h"
#include "model/forward.h"
#include "model/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { OFF_RESIDENT, OFF_STASH, OFF_PIN, OFF_PARK, OFF_STORE, OFF_SPILL, OFF_DISK, OFF_RESPONSE };
static_assert(OFF_RESPONSE + 1 == OFF_TIERS, "one row a tier");

/* Nodes whose caps bound the tiers, and the flags that set them. */
static const struct { const char *node, *flag; } flag_of[] = {
    { "anchors", "resident-gb" }, { "stash", "resident-stash-gb" }, { "pin", "resident-pin-gb" },
    { "park", "resident-park-gb" }, { "store", "store-gb" }, { "caches", "cache-budget-gb" },
    { "disk", "disk-gb" }, { "spill", "spill-gb" },
};

static void why(struct off_row *row, const char *format, ...) PRINTF_LIKE(2, 3);

static void why(struct off_row *row, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(row->why, sizeof row->why, format, args);
    va_end(args);
}

/* The lowest cap on the way up from the node (the highest of equals) must pay for the least that
 * the tier can hold. */
static void capped(const struct budget_graph *g, u32 node, u64 least, const char *what,
                   struct off_row *row)
{
    u32 tight = node;
    for (u32 n = node; n != NONE; n = g->node[n].parent)
        if (g->node[n].cap_bytes <= g->node[tight].cap_bytes) tight = n;
    u64 cap = node == NONE ? 0 : g->node[tight].cap_bytes;
    if (cap >= least) return;
    const char *name = node == NONE ? row->tier : g->node[tight].name, *flag = NULL;
    for (u32 i = 0; i < COUNT_OF(flag_of); i++)
        if (strcmp(flag_of[i].node, name) == 0) flag = flag_of[i].flag;
    char by[40] = "";
    if (flag != NULL) snprintf(by, sizeof by, " (--%s)", flag);
    why(row, "node %s%s has a cap of %llu bytes, %s needs %llu", name, by, (ull)cap, what,
        (ull)least);
}

/* What reads files: a folder, a backend whose rows are the same in every run, and a cap. */
static void filed(const struct engine *e, struct off_row *row)
{
    const struct budget_graph *g = e->set.graph;
    const char *folder = e->set.cache_dir;
    if (folder == NULL || folder[0] == 0) why(row, "no folder: --cache-dir is off");
    else if (!forward_row_invariant())
        why(row, "backend %s is not row-invariant: its files would not be exact", e->set.backend);
    else if (!nvme_on()) why(row, "%s", nvme_why());
    else capped(g, budget_graph_find(g, row->tier), 1, "a file", row);
}

void off_tiers(const struct engine *e, struct off_row out[OFF_TIERS])
{
    static const char *const name[OFF_TIERS] = { "resident", "stash", "pin", "park", "store",
                                                 "spill", "disk", "response" };
    const struct budget_graph *g = e->set.graph;
    u64 sections = arena_row(state_sections_arena())->unit_bytes;
    u64 least = sections + arena_row(state_blocks_arena())->unit_bytes;
    memset(out, 0, OFF_TIERS * sizeof *out);
    for (u32 i = 0; i < OFF_TIERS; i++) out[i].tier = name[i];
    capped(g, resident_node(), sections, "an anchor", &out[OFF_RESIDENT]);
    capped(g, aside_node(HOLD_STASH), least, "a guest", &out[OFF_STASH]);
    if (e->set.guest_slots == 0 && out[OFF_STASH].why[0] == 0)
        why(&out[OFF_STASH], "no guest slot was made: --resident-stash-gb or --resident-guest-max "
            "was 0 at the start");
    capped(g, aside_node(HOLD_PIN), least, "a head", &out[OFF_PIN]);
    capped(g, aside_node(HOLD_PARK), least, "a conversation", &out[OFF_PARK]);
    capped(g, aside_node(HOLD_STORE), least, "an entry", &out[OFF_STORE]);
    if (aside_entry_cap() < least && out[OFF_STORE].why[0] == 0)
        why(&out[OFF_STORE], "--store-entry-gb allows %llu bytes, an entry needs %llu",
            (ull)aside_entry_cap(), (ull)least);
    filed(e, &out[OFF_SPILL]);
    filed(e, &out[OFF_DISK]);
    if (!response_on()) why(&out[OFF_RESPONSE], "--response-cache-mb is 0");
    else capped(g, budget_graph_find(g, "response"), 1, "an answer", &out[OFF_RESPONSE]);
}

void off_log(const struct engine *e)
{
    struct off_row row[OFF_TIERS];
    char serve[128] = "";
    off_tiers(e, row);
    for (u32 i = 0; i < OFF_TIERS; i++)
        if (row[i].why[0] == 0)
            snprintf(serve + strlen(serve), sizeof serve - strlen(serve), " %s", row[i].tier);
    log_line(LOG_LEVEL_INFO, "tiers that serve:%s", serve[0] == 0 ? " none" : serve);
    for (u32 i = 0; i < OFF_TIERS; i++)
        if (row[i].why[0] != 0)
            log_line(LOG_LEVEL_INFO, "tier %s is off: %s", row[i].tier, row[i].why);
}

void off_put(const struct engine *e, struct json_out *out)
{
    struct off_row row[OFF_TIERS];
    off_tiers(e, row);
    json_put_key(out, "off");
    json_put_array(out);
    for (u32 i = 0; i < OFF_TIERS; i++) {
        if (row[i].why[0] == 0) continue;
        json_put_object(out);
        json_put_key(out, "tier");
        json_put_cstr(out, row[i].tier);
        json_put_key(out, "why");
        json_put_cstr(out, row[i].why);
        json_put_object_end(out);
    }
    json_put_array_end(out);
}
