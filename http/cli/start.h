/* http/cli/start.h - what every serving process does before its first turn: sizes, arenas, graph.
 *
 *   start_plan    model's files and shape read; what the board pays for decides ctx (nothing is
 *                 committed yet)
 *   start_arenas  one range a space, heap, the budget graph with every owner's nodes, checked
 *   start_load    weights packed (minutes for a large model), state, slots, tokenizer
 *   start_engine  tiers and the engine's tables
 *   start_close   all of it, in reverse; safe after any of them failed
 *
 * One a process; on the thread that will run the engine.  A failed step names itself. */
#ifndef CLI_START_H
#define CLI_START_H

#include "budget/graph.h"
#include "budget/profile.h"
#include "http/chat/model.h"
#include "model/model.h"
#include "model/text/template.h"
#include "model/text/tokenizer.h"

/* What a profile says of model and backend; its texts are referred to.  ERR_USAGE: an arithmetic
 * this version does not have. */
MUST_USE enum err start_setup(const struct profile_row *profile, struct model_setup *out);

MUST_USE enum err start_plan(const struct profile_row *profile);
MUST_USE enum err start_arenas(void);
MUST_USE enum err start_load(void);
MUST_USE enum err start_engine(void);
void start_close(void);

/* From start_plan on. */
u64 start_ctx(void);                            /* rows a sequence may have                   */
/* From start_arenas on. */
struct budget_graph *start_graph(void);
/* From start_load on. */
void start_chat(struct chat_model *out);        /* what the text side is told of the model    */
const struct tokenizer *start_tokenizer(void);
enum template_id start_template(void);

#endif
