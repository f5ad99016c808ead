/* budget/dump_pack.h - a dump's JSON as msgpack: the same keys in the same order. */
#ifndef BUDGET_DUMP_PACK_H
#define BUDGET_DUMP_PACK_H

#include "arena/base/json.h"

/* Appends the JSON text as msgpack bytes to `out` (json_put_plain).  ERR_FORMAT, ERR_MEMORY. */
MUST_USE enum err dump_pack(const char *text, u64 bytes, struct json_out *out);

#endif
