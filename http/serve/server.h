/* http/serve/server.h - the listening socket, libmicrohttpd's threads, and the pump thread.
 *
 * Order of a process: server_open (answers 503 `loading`), server_ready, ... server_drain (refuses
 * new turns; from a signal handler too), engine_run returns, server_close.  HTTP threads draw on
 * the heap arena; nothing blocks in a callback: what waits is suspended, and the pump thread, which
 * sleeps on one epoll set (wake, suspended sockets), resumes it, cancels turns of closed clients,
 * and sends comments while nothing is generated (http.md 3). */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "http/serve/auth.h"
#include "http/serve/phase.h"

struct server_setup {
    struct auth_setup auth;             /* auth.host is the address to listen on                 */
    u32  port;                          /* 0: any                                                */
    u32  connections;                   /* open sockets at most                                  */
    u64  body_bytes;                    /* of a request body; over it 413                        */
    u64  keepalive_us;                  /* comment at least this often; headers are held as long */
    u64  idle_us;                       /* a connection without progress is closed; 0: 120 s     */
};

/* Listens and serves.  ERR_USAGE (address needs a key), ERR_CONFIG, ERR_IO (address in use), and
 * ERR_MEMORY; nothing runs then. */
MUST_USE enum err server_open(const struct server_setup *setup);
u32  server_port(void);                                 /* bound port                            */
void server_set_loading(enum phase phase, u64 done, u64 total);
/* Handed over for the server's life; turn_open and command_open were called before. */
void server_ready(const struct chat_model *model);
void server_drain(void);                                /* async-signal-safe                     */
/* Ends what is still open within `wait_us`, then stops the threads.  After the engine's end: rows
 * it still holds are given up.  Safe when not open. */
void server_close(u64 wait_us);

#endif
