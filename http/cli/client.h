/* http/cli/client.h - the words that speak to a running server: one request, one answer. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "arena/base/err.h"

enum { CLIENT_KEY_BYTES = 256 };
#define CLIENT_ANSWER_BYTES (256 * MIB)         /* no longer answer is taken                  */

struct client_ask {
    const char *url, *key;                      /* http://HOST[:PORT]; key "": none           */
    const char *method, *path, *type;           /* "POST", "/admin", content type             */
    const void *body;
    u64 body_bytes;
};
struct client_answer {
    int  status;
    char *text;                                 /* all of it, of the heap                     */
    const char *body;                           /* in it, NUL behind it                       */
    u64  body_bytes;
};

/* The first line of a key file, without blanks at its end; "" without a file.  ERR_IO,
 * ERR_FORMAT. */
MUST_USE enum err client_key(const char *path, char *out);
/* ERR_USAGE: a bad --url, or the server wants a key; ERR_IO, ERR_FORMAT, ERR_MEMORY. */
MUST_USE enum err client_send(const struct client_ask *ask, struct client_answer *out);
void client_close(struct client_answer *answer);

#endif
