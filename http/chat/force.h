/* http/chat/force.h - --test-hooks only: entries of the force file -> forced ids (cli.md).
 *
 * The file is read once; an entry is parsed when a request names it.  `{"ids":[...]}`, or
 * `{"reasoning","content","tool_calls":[{id?,name,arguments}]}` written as the template writes an
 * assistant's answer and tokenised with its end; `"cut": k|true` ends it early. */
#ifndef CHAT_FORCE_H
#define CHAT_FORCE_H

#include "http/chat/request.h"

enum { FORCE_ENTRY_CAP = 65536, FORCE_FILE_BYTES = 64 << 20 };

/* Reads the file (NULL or "": none).  ERR_NOT_FOUND, ERR_IO, ERR_LIMIT; ERR_FORMAT has the line. */
MUST_USE enum err force_open(const char *path);
void force_close(void);

/* Fills the request's forced columns from entry `number` (decimal text).  False: a 400 in *r. */
MUST_USE bool force_fill(const struct chat_model *model, const char *number, struct request *q,
                         struct refusal *r);

#endif
