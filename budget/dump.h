/* budget/dump.h - the graph, its arenas, the gates and the kernel's view, as text.
 *
 * Engine thread (or one that may read the tables).  The text grows in the caller's json_out, from
 * its thread's heap.
 *
 *   tree     lines for a terminal            json     one object: everything
 *   msgpack  the same object, as bytes       dot      nodes, containment and yield edges (Graphviz)
 *   folded   `board;caches;anchors BYTES` a leaf that uses any: flame graphs */
#ifndef BUDGET_DUMP_H
#define BUDGET_DUMP_H

#include "arena/base/json.h"
#include "budget/graph.h"

enum budget_dump_format {
    DUMP_TREE, DUMP_JSON, DUMP_MSGPACK, DUMP_DOT, DUMP_FOLDED, DUMP_FORMAT_COUNT
};

/* A format by its name, or ERR_USAGE that lists them. */
MUST_USE enum err budget_dump_find(const char *name, enum budget_dump_format *out);

/* Refreshes the graph, reads /proc (milliseconds for a large process), appends the text (or
 * bytes).  ERR_MEMORY. */
MUST_USE enum err budget_dump(struct budget_graph *g, enum budget_dump_format format,
                              struct json_out *out);

/* Writes the JSON dump to FOLDER/memory-NUMBER-WORD.json (mode 0600), NUMBER counted up from 1 in
 * this process: SIGUSR1, a refused must.  At most 100 a process: then nothing is written and OK.
 * ERR_IO, ERR_MEMORY. */
MUST_USE enum err budget_dump_write(struct budget_graph *g, const char *folder, const char *word);

#endif
