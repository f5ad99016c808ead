/* tiers/nvme/pool.c - nodes, caps and other folders. */
#include "tiers/nvme/pool.h"

#include "arena/base/log.h"

#include <string.h>

enum { POOL_DISK, POOL_SPILL, POOL_OTHERS, POOL_NODES };
static const char *const names[POOL_NODES] = { "disk", "spill", "others" };

static struct {
    struct budget_graph *graph;         /* NULL: closed                                       */
    u32 node[POOL_NODES];
    struct disk_knobs knobs;
    u64 spill_floor_bytes;
    u32 anchors;                        /* on lines, when it was last looked at               */
    struct fingerprint_swept others;    /* other [0, count), the one unused longest first     */
    bool gone[FINGERPRINT_OTHERS];      /* handed to the writer                               */
    struct pool_counts counts;
} own;

enum err pool_declare(struct budget_graph *g, u64 disk_bytes, u64 spill_bytes)
{
    const u64 caps[POOL_NODES] = { disk_bytes, spill_bytes, UINT64_MAX };
    TRY(budget_graph_declare(g, &(struct budget_decl){
        .name = "nvme", .pool = POOL_NVME, .node_class = CLASS_CACHE, .used = USED_CHILDREN,
        .cap_bytes = UINT64_MAX }, NULL));
    for (u32 i = 0; i < POOL_NODES; i++)
        TRY(budget_graph_declare(g, &(struct budget_decl){
            .name = names[i], .parent = "nvme", .pool = POOL_NVME, .node_class = CLASS_CACHE,
            .used = USED_COUNT, .cap_bytes = caps[i] }, NULL));
    return OK;
}

bool pool_is_sum(const char *name) { return strcmp(name, "nvme") == 0; }

static u64 cap_of(u32 node) { return own.graph->node[own.node[node]].cap_bytes; }

/* What others may have: their cap, and what own files leave of disk's and spill's. */
static u64 others_cap(void)
{
    struct pieces_counts p = pieces_counts();
    u64 disk = cap_of(POOL_DISK), spill = cap_of(POOL_SPILL), used = p.disk_bytes + p.spill_bytes;
    u64 both = disk > UINT64_MAX - spill ? UINT64_MAX : disk + spill;
    return MIN(cap_of(POOL_OTHERS), both - MIN(both, used));
}

/* ------------------------------------------------------------------ open and close */

enum err pool_open(struct budget_graph *g, const struct fingerprint *place,
                   const struct disk_knobs *knobs, u64 now_s)
{
    memset(&own, 0, sizeof own);
    for (u32 i = 0; i < POOL_NODES; i++) {
        own.node[i] = budget_graph_find(g, names[i]);
        if (own.node[i] == NONE)
            return fail(ERR_NOT_FOUND, "nvme: node %s is not declared", names[i]);
    }
    own.knobs = *knobs;
    TRY(fingerprint_sweep(place, now_s, 0, &own.others));
    u32 removed = own.others.folders;
    own.graph = g;
    u64 room = others_cap(), kept = own.others.kept_bytes;
    enum err err = kept <= room ? OK : fingerprint_sweep(place, now_s, kept - room, &own.others);
    own.counts.others_removed = removed + (kept > room ? own.others.folders : 0);
    if (err != OK) {
        own.graph = NULL;
        return err;
    }
    pool_settle(now_s, true);
    return OK;
}

void pool_close(void)
{
    if (own.graph == NULL) return;
    for (u32 i = 0; i < POOL_NODES; i++) budget_graph_count(own.graph, own.node[i], 0);
    own.graph = NULL;
}

/* ------------------------------------------------------------------ other folders */

static u64 others_bytes(void)
{
    u64 bytes = 0;
    for (u32 i = 0; i < own.others.count; i++)
        if (!own.gone[i]) bytes += own.others.other[i].bytes;
    return bytes;
}

/* The folder unused longest is handed to the writer; false: there is none, or no room there. */
static bool remove_oldest(void)
{
    u32 at = 0;
    while (at < own.others.count && own.gone[at]) at++;
    if (at == own.others.count) return false;
    struct writer_ask ask = { .kind = WRITER_FOLDER, .owner = at, .always = true };
    memcpy(ask.name, own.others.other[at].name, sizeof ask.name);
    own.gone[at] = writer_submit(&ask);
    return own.gone[at];
}

void pool_answer(u32 owner, enum err err)
{
    ASSERT(owner < own.others.count);
    if (err != OK) own.others.other[owner].bytes = 0;   /* logged; the next start looks again */
    else own.counts.others_removed++;
}

/* ------------------------------------------------------------------ settle */

void pool_settle(u64 now_s, bool aged)
{
    if (own.graph == NULL) return;
    own.knobs.cap_bytes = cap_of(POOL_DISK);
    disk_knobs_set(&own.knobs);
    spill_cap(cap_of(POOL_SPILL), own.spill_floor_bytes);
    if (aged || pieces_counts().disk_bytes > own.knobs.cap_bytes) disk_trim(now_s);
    if (pieces_counts().anchors < own.anchors) spill_check();
    own.anchors = pieces_counts().anchors;
    if (pieces_counts().spill_bytes > cap_of(POOL_SPILL)) spill_evict(0, now_s);
    if (disk_lacks_space()) remove_oldest();
    while (others_bytes() > others_cap() && remove_oldest()) continue;  /* ends: fewer each round */
    struct pieces_counts p = pieces_counts();
    const u64 bytes[POOL_NODES] = { p.disk_bytes, p.spill_bytes, others_bytes() };
    for (u32 i = 0; i < POOL_NODES; i++) budget_graph_count(own.graph, own.node[i], bytes[i]);
}

bool pool_set(const char *name, u64 value)
{
    if (own.graph == NULL) return false;
    if (strcmp(name, "disk-free-gb") == 0) own.knobs.floor_bytes = value;
    else if (strcmp(name, "disk-unused-s") == 0) own.knobs.unused_s = value / 1000000u;
    else if (strcmp(name, "spill-free-gb") == 0) own.spill_floor_bytes = value;
    else if (strcmp(name, "nvme-write-gb-day") == 0) writer_day_cap(value);
    else return false;
    return true;
}

struct pool_counts pool_counts(void)
{
    own.counts.others_bytes = others_bytes();
    own.counts.others = 0;
    for (u32 i = 0; i < own.others.count; i++) own.counts.others += !own.gone[i];
    return own.counts;
}
