/* budget/dump.h - the graph, its arenas, the gates and the kernel's view, as text.
 *
 * Engine thread (or one that may read the tables).  The text grows in the caller's json_out, from
 * its thread's heap.  Formats msgpack, dot and folded come later and are refused by name. */
#ifndef BUDGET_DUMP_H
#define BUDGET_DUMP_H

#include "arena/base/json.h"
#include "budget/graph.h"

enum budget_dump_format { DUMP_TREE, DUMP_JSON };

/* "tree" or "json".  ERR_UNSUPPORTED for msgpack, dot and folded, ERR_USAGE else. */
MUST_USE enum err budget_dump_find(const char *name, enum budget_dump_format *out);

/* Refreshes the graph, reads /proc (milliseconds for a large process), appends the text.  JSON is
 * one object; tree is lines for a terminal.  ERR_MEMORY. */
MUST_USE enum err budget_dump(struct budget_graph *g, enum budget_dump_format format,
                              struct json_out *out);

/* Writes the JSON dump to FOLDER/memory-NUMBER-WORD.json (mode 0600), NUMBER counted up from 1 in
 * this process: SIGUSR1, a refused must.  At most 100 a process: then nothing is written and OK.
 * ERR_IO, ERR_MEMORY. */
MUST_USE enum err budget_dump_write(struct budget_graph *g, const char *folder, const char *word);

#endif
