/* http/chat/refusal.h - why a request is not served: status, type, code, the field at fault, words.
 *
 * Filled where the cause is known, written once as the error object of http.md 2.  No state. */
#ifndef CHAT_REFUSAL_H
#define CHAT_REFUSAL_H

#include "arena/base/err.h"
#include "arena/base/json.h"

enum { REFUSAL_PARAM_BYTES = 128, REFUSAL_MESSAGE_BYTES = 640 };

struct refusal {                        /* status 0: nothing was refused                         */
    u32  status;                        /* HTTP status                                           */
    u32  retry_after_s;                 /* 0: no header                                          */
    const char *code;                   /* static text, or NULL                                  */
    char param[REFUSAL_PARAM_BYTES];    /* "": null                                              */
    char message[REFUSAL_MESSAGE_BYTES];
};

/* Sets every column; `code` and `param` may be NULL. */
void refusal_set(struct refusal *r, u32 status, const char *code, const char *param,
                 const char *format, ...) PRINTF_LIKE(5, 6);

/* A 400 that names `param`; returns false, so that a parser may return it. */
bool refusal_bad(struct refusal *r, const char *param, const char *format, ...) PRINTF_LIKE(3, 4);

/* From this thread's last note: format, unsupported, limit are 400; memory and full 503; the rest
 * 500.  Returns false. */
bool refusal_note(struct refusal *r, enum err code, const char *param);

/* `error.type` of a status. */
const char *refusal_type(u32 status);

/* {"error":{"message","type","param","code"}} */
void refusal_json(const struct refusal *r, struct json_out *out);

#endif
