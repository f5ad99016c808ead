/* http/chat/model.h - what the text side knows of the loaded model: one read-only row.
 *
 * Filled by main when the model rooms are open, handed over by server_ready, read by any thread. */
#ifndef CHAT_MODEL_H
#define CHAT_MODEL_H

#include "http/chat/normal.h"
#include "model/sample.h"
#include "model/text/template.h"

enum chat_reasoning_field { CHAT_REASONING_CONTENT, CHAT_REASONING_PLAIN, CHAT_REASONING_BOTH };

struct chat_model {
    const char *name;                   /* id in /v1/models; echoed when a request names none     */
    const struct tokenizer *tokenizer;
    enum template_id template_id;
    u64 ctx;                            /* tokens a sequence may have                            */
    u64 created_s;                      /* of /v1/models                                         */
    struct sample_settings sampling;    /* defaults: generation_config.json                      */
    struct normal_options normal;
    bool reference_specials;
    bool strict_model;                  /* another name is 404                                   */
    const u32 *close_ids;               /* closes a think block over its budget: a hidden phrase */
    u32  close_count, close_hidden;     /* of `close_hidden` ids, </think>, blanks; 0: no id for */
                                        /* </think>, budgets are ignored                         */
    const u32 *note_ids;                /* hidden, inside the block once half of its budget is   */
    u32  note_count;                    /* used; 0: none                                         */
    bool test_hooks;                    /* x-holdfast-force counts (chat/force)                  */
    enum chat_reasoning_field reasoning_field;
    u32  json_depth;                    /* nesting of a body                                     */
    u32  stop_cap;                      /* stop strings of a request, <= TURN_STOP_CAP           */
    u32  tools_cap;                     /* tools of a request                                    */
    u32  slots;                         /* turns that run at once, for estimates                 */
};

/* Pools and growing text of requests take their bytes here: arena/heap. */
extern const struct text_source chat_model_heap;

#endif
