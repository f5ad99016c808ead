/* http/chat/normal.h - chat.md 2: a request's raw JSON -> the template's input.
 *
 * Roles, merged and late systems, arguments text -> ordered objects, effort, thinking, parts.
 * Everything made lies in the caller's pool or in the request's bytes: both outlive the input.
 * Unknown fields are ignored.  No state; any thread. */
#ifndef CHAT_NORMAL_H
#define CHAT_NORMAL_H

#include "arena/base/jsontext.h"
#include "model/text/template.h"

enum {
    NORMAL_MESSAGES_MAX = 65536, NORMAL_PARTS_MAX = 65536, NORMAL_CALLS_MAX = 4096,
    NORMAL_TOOLS_MAX = 4096, NORMAL_PARAM_BYTES = 128,
};

struct normal_options {                 /* the server's defaults; {0} is chat.md's               */
    bool late_system_refuse;            /* --late-system refuse                                  */
    u8 thinking;                        /* enum template_switch when the request says nothing   */
    u8 effort;                          /* enum template_effort when the request says nothing    */
    bool images;                        /* image and video parts are accepted, else refused      */
};

/* What a 400 names: `messages[3].tool_calls[0].function.arguments`; "": no field is at fault. */
struct normal_param { char path[NORMAL_PARAM_BYTES]; };

/* Reads messages, tools, template kwargs, continue_final_message of a chat body.
 * ERR_FORMAT: the note is the 400's message and *param the field; ERR_UNSUPPORTED the same for well
 * formed things not served; ERR_LIMIT; ERR_MEMORY when the pool refuses. */
MUST_USE enum err normal_chat(struct jsontext body, const struct normal_options *options,
                              struct text_pool *pool, struct template_input *out,
                              struct normal_param *param);

#endif
