/* http/serve/auth.h - who may ask: Host names (DNS rebinding), keys, loopback, CORS origins.
 *
 * One table of keys and names, filled by auth_open before the server listens and read-only then.
 * Pure: what is compared is passed in.  No library here; any thread. */
#ifndef SERVE_AUTH_H
#define SERVE_AUTH_H

#include "http/chat/refusal.h"

enum { AUTH_KEY_CAP = 64, AUTH_KEY_BYTES = 256, AUTH_NAME_CAP = 32, AUTH_NAME_BYTES = 256 };

struct auth_setup {
    const char *host;                   /* --host, as written                                    */
    const char *api_key_file;           /* one key a line; "" or NULL: none                      */
    const char *admin_key_file;
    const char *host_names;             /* comma-separated                                       */
    const char *cors_origins;
    bool no_auth;
};

/* Reads the key files.  ERR_USAGE when `host` is not loopback and there is neither a key nor
 * no_auth; ERR_CONFIG (an empty or too long key file), ERR_NOT_FOUND, ERR_IO. */
MUST_USE enum err auth_open(const struct auth_setup *setup);
void auth_close(void);                  /* forgets the keys                                      */

struct auth_request {
    const char *host;                   /* Host header, NULL when missing                        */
    u32         host_count;             /* how many there were                                   */
    const char *local_address;          /* numeric address the connection came in on             */
    const char *authorization, *api_key;    /* headers `Authorization`, `x-api-key` or NULL      */
    bool        loopback;               /* the client's address is                               */
};
enum auth_door { AUTH_OPEN, AUTH_KEY, AUTH_ADMIN };     /* what a route asks for                 */

/* False: refused, with 400 or 403 in *r. */
bool auth_host(const struct auth_request *q, struct refusal *r);
/* False: refused, with 401 or 403. */
bool auth_check(const struct auth_request *q, enum auth_door door, struct refusal *r);
/* True when answers to this Origin may be read by its page. */
bool auth_origin(const char *origin);

#endif
