/* http/chat/refusal.c - the error object of http.md 2 and the mapping of notes to statuses. */
#include "http/chat/refusal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void put(struct refusal *r, u32 status, const char *code, const char *param)
{
    r->status = status;
    r->code = code;
    r->retry_after_s = 0;
    snprintf(r->param, sizeof r->param, "%s", param == NULL ? "" : param);
}

void refusal_set(struct refusal *r, u32 status, const char *code, const char *param,
                 const char *format, ...)
{
    put(r, status, code, param);
    va_list args;
    va_start(args, format);
    vsnprintf(r->message, sizeof r->message, format, args);
    va_end(args);
}

bool refusal_bad(struct refusal *r, const char *param, const char *format, ...)
{
    put(r, 400, NULL, param);
    va_list args;
    va_start(args, format);
    vsnprintf(r->message, sizeof r->message, format, args);
    va_end(args);
    return false;
}

bool refusal_note(struct refusal *r, enum err code, const char *param)
{
    u32 status = 500;
    switch (code) {
    case ERR_FORMAT: case ERR_UNSUPPORTED: case ERR_LIMIT: case ERR_CONFIG: status = 400; break;
    case ERR_MEMORY: case ERR_FULL: case ERR_CANCELLED: status = 503; break;
    default: break;
    }
    put(r, status, NULL, param);
    if (status == 503) r->retry_after_s = 1;
    snprintf(r->message, sizeof r->message, "%s", err_last()->text);
    return false;
}

const char *refusal_type(u32 status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 503: return "unavailable_error";
    default:  return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

void refusal_json(const struct refusal *r, struct json_out *out)
{
    json_put_object(out);
    json_put_key(out, "error");
    json_put_object(out);
    json_put_key(out, "message");
    json_put_str(out, r->message, strlen(r->message));
    json_put_key(out, "type");
    json_put_cstr(out, refusal_type(r->status));
    json_put_key(out, "param");
    json_put_cstr(out, r->param[0] == 0 ? NULL : r->param);
    json_put_key(out, "code");
    json_put_cstr(out, r->code);
    json_put_object_end(out);
    json_put_object_end(out);
}
