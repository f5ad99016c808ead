/* http/admin/protocol.h - msgpack over POST /admin: bytes in, bytes out, no state.
 *
 * Request   {v: 1, op: STR, args: {...}}          at most 64 KiB
 * Answer    {v: 1, ok: {...}}  or  {v: 1, err: {code: STR, text: STR}}
 * Ops       stats                                 ok: {format: "json", text: STR}
 *           memory  args {format: "tree"|"json"|"msgpack"|"dot"|"folded"}
 *                   ok: {format, text: STR}, for msgpack {format, bin: BIN}; tree when left out
 *           set     args {node: STR, cap_bytes: UINT, or nil: no cap}   ok: {format: "text", text}
 * Unknown keys of the request and of args are ignored; another version, an unknown op or a format
 * not served is an err answer.  Content type: application/msgpack.
 *
 * The server's side reads a request, asks the engine (http/turn/command) and writes the answer; the
 * client's side (http/cli/mem) writes a request and reads the answer. */
#ifndef ADMIN_PROTOCOL_H
#define ADMIN_PROTOCOL_H

#include "arena/base/pack.h"

enum { PROTOCOL_VERSION = 1, PROTOCOL_REQUEST_BYTES = 64 * 1024 };
#define PROTOCOL_ANSWER_BYTES (256 * MIB)       /* a client takes no longer answer            */

enum protocol_op {
    PROTOCOL_STATS, PROTOCOL_MEMORY_TREE, PROTOCOL_MEMORY_JSON, PROTOCOL_MEMORY_MSGPACK,
    PROTOCOL_MEMORY_DOT, PROTOCOL_MEMORY_FOLDED, PROTOCOL_SET, PROTOCOL_OP_COUNT
};
struct protocol_set { char node[32]; u64 cap_bytes; };      /* UINT64_MAX: no cap              */

/* Server: which question a body asks.  ERR_FORMAT, ERR_LIMIT (no valid request), ERR_UNSUPPORTED
 * (version, op, format: named); answer it with protocol_put_err. */
MUST_USE enum err protocol_read(const void *body, u64 bytes, enum protocol_op *out);

/* Server: the args of PROTOCOL_SET.  ERR_FORMAT names what is missing. */
MUST_USE enum err protocol_read_set(const void *body, u64 bytes, struct protocol_set *out);

/* Server: the engine's text for a question / the last error of this thread.  Appends to `out`. */
void protocol_put_ok(struct pack_out *out, enum protocol_op op, const char *text, u64 bytes);
void protocol_put_err(struct pack_out *out, enum err code, const char *text);

/* Client: the request; of PROTOCOL_SET. */
void protocol_put_request(struct pack_out *out, enum protocol_op op);
void protocol_put_set(struct pack_out *out, const char *node, u64 cap_bytes);
/* Client: the text (or msgpack bytes) of an ok answer, inside `body`.  An err answer comes back as
 * its code with its text in the note; ERR_FORMAT for anything else. */
MUST_USE enum err protocol_read_answer(const void *body, u64 bytes, const char **text_out,
                                       u32 *text_bytes_out);

#endif
