/* budget/graph.h - who may have how much: a tree of nodes over the arenas, and yield edges.
 *
 *   board - fixed   weights, scratch, heap, tables      declared by their owners, as
 *         - live    kv                                  `parent = "fixed"` and so on
 *         - caches  anchors
 *         - free    committed and unused
 *   (board, fixed, live, caches, free and fixed's books: budget_graph_board)
 * Containment is the tree: a node's `used` counts in every ancestor, and each has a cap.  An edge
 * says who may take from whom, in which order; edges form a DAG.  Flat tables of fixed capacity,
 * owned by the engine thread; a graph is plain memory of its owner, no destructor.
 *
 * What a node is charged (`used`):
 *   USED_HOLDER     bytes its holder class is charged in all arenas of blocks and slots
 *   USED_ARENA      used bytes of the arenas named for it
 *   USED_COUNT      a number its owner sets (budget_graph_count)
 *   USED_CHILDREN   an inner node: the sum of its children
 *   USED_FREE       committed and unused bytes of all arenas (one leaf)
 *
 * Start: declare all, edges, arena_open, then budget_graph_check, which resolves arena names. */
#ifndef BUDGET_GRAPH_H
#define BUDGET_GRAPH_H

#include "arena/arena.h"
#include "budget/history.h"
#include "budget/profile.h"

enum {
    BUDGET_NODE_CAP = 64, BUDGET_EDGE_CAP = 256, BUDGET_NAME_BYTES = 16, BUDGET_ARENA_CAP = 4,
};

enum budget_pool  { POOL_BOARD, POOL_NVME, POOL_COUNT };
/* A want of a lower number goes first; yield edges lead to higher numbers or within one. */
enum budget_class { CLASS_FIXED, CLASS_LIVE, CLASS_ASIDE, CLASS_CACHE, CLASS_FREE };
enum budget_used  { USED_HOLDER, USED_ARENA, USED_COUNT, USED_CHILDREN, USED_FREE };

/* Frees what the node holds of these records (its own indices) and returns the bytes whose last
 * reference went.  Called by budget_apply only, inside a gate. */
typedef u64 budget_yield(void *owner, const u32 *records, u32 count);

struct budget_decl {
    const char *name, *parent;          /* parent "" or NULL: a root                             */
    enum budget_pool  pool;
    enum budget_class node_class;
    enum budget_used  used;
    enum holder       holder;           /* USED_HOLDER                                           */
    const char       *arena;            /* USED_ARENA: name of the first one                     */
    u64 reserve_bytes;                  /* kept for it: others may not fill it, no edge takes it */
    u64 cap_bytes;                      /* 0: nothing is held; UINT64_MAX: its parents' caps     */
    u64 unit_bytes;                     /* 0 = 1: default unit of its wants                      */
    budget_yield *yield;                /* NULL: yields nothing                                  */
    void         *owner;                /* of `yield`                                            */
};

struct budget_node {
    char  name[BUDGET_NAME_BYTES];
    char  arena_name[BUDGET_ARENA_CAP][ARENA_NAME_BYTES];
    u32   arena[BUDGET_ARENA_CAP];      /* resolved by budget_graph_check                        */
    u32   arena_count;
    u32   parent;                       /* index or NONE                                         */
    u8    pool, node_class, used_kind, holder;
    bool  over;                         /* its cap was lowered under what it uses: until it fits */
    u64   reserve_bytes, cap_bytes, unit_bytes;
    u64   asked_bytes;                  /* the reserve declared: in force as far as the cap goes */
    u64   first_cap_bytes;              /* the cap declared                                      */
    u64   used_bytes;                   /* as of the last budget_graph_refresh                   */
    u64   count_bytes;                  /* USED_COUNT                                            */
    u64   want_bytes, granted_bytes;    /* of the last gate that named it                        */
    u64   want_count, short_count;      /* wants so far, and those that got less than max        */
    u64   yielded_bytes;                /* taken from it so far                                  */
    u64   high_water_bytes;
    budget_yield *yield;
    void *owner;
};

struct budget_edge {
    char taker_name[BUDGET_NAME_BYTES], victim_name[BUDGET_NAME_BYTES];
    u32  taker, victim;                 /* resolved by budget_graph_check; an inner node stands  */
    u32  order, line;                   /* for its leaves.  line of the profile, or 0            */
};

struct budget_graph {
    struct budget_node node[BUDGET_NODE_CAP];
    u32 node_count;
    struct budget_edge edge[BUDGET_EDGE_CAP];
    u32 edge_count;
    bool checked;                       /* budget_graph_check passed                             */
    bool verify;                        /* gates end with budget_graph_verify                    */
    u64 floor_bytes;                    /* --board-floor-gb                                      */
    u64 mapped_bytes;                   /* mapped weight pages that must stay resident           */
    char profile[PROFILE_PATH_BYTES];   /* for errors of its [yield] lines                       */
    struct profile_yield profile_yield[PROFILE_YIELD_CAP];
    u32 profile_yield_count;
    u64 hook_seed, hook_draws;          /* --gate-seed; 0: off                                   */
    bool hook_drawn;                    /* for the gate to come                                  */
    struct { u64 records, rows; } kept[HOLD_COUNT];     /* for dumps; the engine counts them     */
    struct budget_history history;
};

/* Empty graph, then the inner nodes board (cap: board_bytes, at most the machine's memory), fixed,
 * live, caches (cap: cache_budget_bytes) and the leaves free and books (the arenas' own rows);
 * keeps the profile's floor and [yield] lines.  ~300 KiB: `g` stands in a table or static, never on
 * a stack.  ERR_CONFIG. */
MUST_USE enum err budget_graph_board(struct budget_graph *g, const struct profile_row *profile);

/* Adds a node; *node_out may be NULL.  ERR_CONFIG: name twice or too long, unknown parent (nearest
 * named), reserve over cap, wrong kind for a leaf; ERR_FULL. */
MUST_USE enum err budget_graph_declare(struct budget_graph *g, const struct budget_decl *decl,
                                       u32 *node_out);
/* One more arena whose used bytes are charged to the node (USED_ARENA).  ERR_FULL, ERR_CONFIG. */
MUST_USE enum err budget_graph_charge(struct budget_graph *g, u32 node, const char *arena);
/* `taker` ("live" stands for its leaf "kv") may take from `victim`, lower orders first.  Names are
 * resolved by budget_graph_check.  ERR_FULL, ERR_CONFIG (unknown name, the nearest named). */
MUST_USE enum err budget_graph_edge(struct budget_graph *g, const char *taker, const char *victim,
                                    u32 order);

/* After arena_open.  Applies the profile's [yield] lines, resolves arenas and refuses: an unknown
 * node or arena, a cycle, a victim of a higher class or without yield, an arena charged twice or by
 * nobody, reserves over a node's or the board's cap.  ERR_CONFIG with file:line where the profile
 * said it. */
MUST_USE enum err budget_graph_check(struct budget_graph *g);

/* Index of a node, or NONE; the name nearest to one that is none. */
u32 budget_graph_find(const struct budget_graph *g, const char *name);
const char *budget_graph_nearest(const struct budget_graph *g, const char *name);
/* A USED_COUNT node's bytes. */
void budget_graph_count(struct budget_graph *g, u32 node, u64 bytes);
/* Bytes of mapped weight files that the forward pass reads and that must stay in memory. */
void budget_graph_mapped(struct budget_graph *g, u64 bytes);
/* A node's cap from now on (`mem set`); takes nothing away: the next gate does.  A cache's reserve
 * is the one declared, at most its cap; ERR_CONFIG, nothing changed: a cap under the reserve of a
 * fixed or live node, or under the sum of the reserves below it. */
MUST_USE enum err budget_graph_cap(struct budget_graph *g, u32 node, u64 cap_bytes);

/* Reads the arenas: `used_bytes` of every node. */
void budget_graph_refresh(struct budget_graph *g);
/* Refreshes and asserts: arena_check; committed = sum of used + free for every space; no node over
 * its cap (heap aside: between gates it only grows to its cap). */
void budget_graph_verify(struct budget_graph *g);

#endif
