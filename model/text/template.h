/* model/text/template.h - messages -> prompt text -> ids: the four chat templates of chat.md 4, 5.
 *
 * Which one is chosen by the digest of the model's own template text, by `holdfast_chat_template`
 * of tokenizer_config.json, or by name.  A rendering is one text with segments (template, message)
 * and marks.  Owns nothing: inputs are spans of the caller's bytes, the prompt's memory is from
 * arena/heap and goes with template_prompt_close.  Any thread. */
#ifndef TEXT_TEMPLATE_H
#define TEXT_TEMPLATE_H

#include "arena/base/jsontext.h"
#include "model/text/tokenizer.h"

enum template_id { TEMPLATE_38 = 0, TEMPLATE_36, TEMPLATE_35, TEMPLATE_35_SMALL, TEMPLATE_COUNT };

/* What names a template: any may be empty. */
struct template_source {
    const char *name;                   /* the flag --template, or NULL                          */
    struct text_span jinja;             /* chat_template.jinja                                   */
    struct text_span tokenizer_config;  /* tokenizer_config.json                                 */
};
/* name, else holdfast_chat_template, else the digest.  ERR_UNSUPPORTED names the flag. */
MUST_USE enum err template_choose(const struct template_source *source, enum template_id *out);
const char *template_name(enum template_id id);             /* "3.8", "3.6", "3.5", "3.5-small"  */

enum template_role {
    TEMPLATE_SYSTEM = 0, TEMPLATE_USER, TEMPLATE_ASSISTANT, TEMPLATE_TOOL,
    TEMPLATE_LATE_SYSTEM,               /* written in place (chat.md 2.2)                        */
    TEMPLATE_ROLE_OTHER,                /* refused by the template                               */
};
enum template_part_kind {
    TEMPLATE_PART_TEXT = 0, TEMPLATE_PART_IMAGE, TEMPLATE_PART_VIDEO,
    TEMPLATE_PART_OTHER,                /* "Unexpected item type in content."                    */
    TEMPLATE_CONTENT_OTHER,             /* content is no text: "Unexpected content type."        */
};
struct template_part {
    u8 kind;
    struct text_span text;              /* text; of an image or video its URL or data            */
};
struct template_call {
    struct text_span id, name;
    struct jsontext_row *arguments;     /* in order, no duplicates                               */
    u32 argument_count;
};
struct template_message {
    u8 role;                            /* enum template_role                                    */
    u32 index;                          /* in the request, for errors                            */
    bool has_reasoning;                 /* reasoning_content is a string                         */
    struct text_span reasoning;
    struct template_part *parts;
    u32 part_count;
    struct template_call *calls;
    u32 call_count;
};

enum template_switch { TEMPLATE_UNSET = 0, TEMPLATE_OFF, TEMPLATE_ON };
enum template_effort {
    TEMPLATE_EFFORT_UNSET = 0, TEMPLATE_EFFORT_XHIGH, TEMPLATE_EFFORT_MEDIUM, TEMPLATE_EFFORT_LOW,
    TEMPLATE_EFFORT_OTHER,              /* refused while thinking is on; its text is effort_text */
};
struct template_input {
    struct template_message *messages;
    u32 message_count;
    struct jsontext *tools;             /* each printed by json(x); none: no tools               */
    u32 tool_count;
    u8 thinking, preserve;              /* enum template_switch                                  */
    u8 effort;                          /* enum template_effort                                  */
    struct text_span effort_text;
    bool no_generation_prompt;
    bool vision_ids;                    /* add_vision_id                                         */
    bool continue_final;                /* the last message, an assistant's, is continued (2.9)  */
};

enum template_mark_kind {
    TEMPLATE_MARK_HEAD = 0,             /* end of the system and tools turn                      */
    TEMPLATE_MARK_USER,                 /* start of one of the last three user messages          */
    TEMPLATE_MARK_RESULT,               /* start of the last tool result                         */
    TEMPLATE_MARK_LAST,                 /* n - 1 of n tokens: a retry forwards one               */
};
enum { TEMPLATE_MARKS_MAX = 6 };
struct template_mark {
    u64 byte;                           /* in text; of MARK_LAST the text's length               */
    u64 token;                          /* after template_encode: first token at or after it     */
    u8 kind;
};

/* Where a past call stands, <tool_call> to </tool_call>; tokens after template_encode. */
struct template_span {
    const struct template_call *call;   /* of the input                                          */
    u64 byte_lo, byte_hi, token_lo, token_hi;
};

struct template_prompt {                /* {0}, then template_render                             */
    struct text text;
    struct tokenizer_segment *segments;
    u32 *owners;                        /* of each segment: its message's index in the request   */
    u32 segment_count, segment_cap;
    struct template_mark marks[TEMPLATE_MARKS_MAX];     /* by position                           */
    u32 mark_count;
    struct template_span *calls;        /* in order                                              */
    u32 call_count, call_cap;
    u32 image_count, video_count;       /* placeholders written                                  */
    bool think_open;                    /* generation starts inside a think block                */
};

/* Renders into *out.  ERR_FORMAT with the template's own text for what it refuses (chat.md 4);
 * ERR_MEMORY.  On error too, template_prompt_close gives everything back. */
MUST_USE enum err template_render(enum template_id id, const struct template_input *in,
                                  struct template_prompt *out);
void template_prompt_close(struct template_prompt *p);

/* Appends the prompt's ids and sets marks[].token; the mark n - 1 is added.  ERR_FORMAT naming the
 * message: with `reference_specials`, one whose text spells an image's or video's placeholder. */
MUST_USE enum err template_encode(const struct tokenizer *t, struct template_prompt *p,
                                  bool reference_specials, struct tokenizer_ids *ids);

#endif
