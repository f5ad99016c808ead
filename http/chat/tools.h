/* http/chat/tools.h - chat.md 8: generated pieces -> reasoning, content, tool calls, as they come.
 *
 * One parser a generated message.  Feed each token's bytes with its kind; events come out in order,
 * with everything that is not yet decided held back.  The same pieces in other cuts give the same
 * text.  Memory: growing text from the source given at open, bounded by what was fed. */
#ifndef CHAT_TOOLS_H
#define CHAT_TOOLS_H

#include "arena/base/jsontext.h"
#include "arena/base/vocab.h"

enum tools_event_kind {
    TOOLS_REASONING = 0,    /* text: more reasoning                                              */
    TOOLS_CONTENT,          /* text: more content                                                */
    TOOLS_CALL_BEGIN,       /* text: the call's name; `call` its index; id in tools_call_id      */
    TOOLS_CALL_ARGUMENTS,   /* text: the next piece of the arguments' JSON object                */
    TOOLS_CALL_END,         /* the arguments are complete, valid JSON                            */
    TOOLS_CALL_CUT,         /* the generation ended inside the call; its JSON is left open       */
};

struct tools_event { u8 kind; u32 call; u64 start; u64 len; };  /* text: in events.text          */

/* Filled by feed and finish, emptied by the reader with tools_events_clear. */
struct tools_events {
    struct tools_event *rows;
    u32 count, cap;
    struct text text;
};

enum { TOOLS_CALLS_MAX = 128, TOOLS_ID_BYTES = 32, TOOLS_NAME_MAX = 256, TOOLS_KEY_MAX = 1024 };

struct tools_options {
    const struct jsontext *tools;       /* the request's tools: schemas of values; outlive this  */
    u32  tool_count;
    bool calls;             /* calls are parsed: tools given and tool_choice is not "none"       */
    bool think_open;        /* the prompt ends in an open think block                            */
    bool tags_by_text;      /* the vocabulary has no ids for the think and call tags             */
    const char *id_prefix;  /* "call_", "toolu_"                                                 */
};

struct tools;

/* ERR_MEMORY when the source refuses. */
MUST_USE enum err tools_open(const struct tools_options *options, const struct text_source *source,
                             struct tools **out);
void tools_close(struct tools *p);                              /* NULL is nothing               */

/* One token's bytes (of a tag: its spelling) and kind.  Past TOOLS_CALLS_MAX calls the text is
 * content.  ERR_MEMORY. */
MUST_USE enum err tools_feed(struct tools *p, const char *bytes, u64 len, enum vocab_kind kind,
                             struct tools_events *out);

/* The generation ended: what is held is decided and given. */
MUST_USE enum err tools_finish(struct tools *p, struct tools_events *out);

/* The id of call `call` < calls begun: prefix + 24 of [0-9a-zA-Z], from the system's random. */
const char *tools_call_id(const struct tools *p, u32 call);
u32 tools_call_count(const struct tools *p);                    /* calls begun                   */
u32 tools_complete_count(const struct tools *p);                /* calls ended whole             */
bool tools_in_reasoning(const struct tools *p);                 /* the next text is reasoning    */
bool tools_in_content(const struct tools *p);                   /* the next text is content      */

void tools_events_open(struct tools_events *e, const struct text_source *source);
void tools_events_clear(struct tools_events *e);
void tools_events_close(struct tools_events *e);

#endif
