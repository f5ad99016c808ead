/* http/serve/server.c - libmicrohttpd's callbacks.  Rules and pitfalls: dependencies.md 2.
 *
 * A request is refused only after its body came in (and was dropped), so that a client that is
 * still writing reads the answer instead of a reset; a body announced far over the cap is refused
 * at once.  Its threads poll: with its edge-triggered epoll a close that arrives together with the
 * last bytes is not seen, and the connection stays for the idle time. */
#include "http/serve/server.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "arena/heap.h"
#include "http/admin/stats.h"
#include "http/serve/pump.h"
#include "http/serve/routes.h"
#include "http/serve/sse.h"
#include "http/turn/command.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { SERVER_THREADS = 2, SERVER_HEADER_BYTES = 32 << 10, SERVER_IDLE_S = 120,
       SERVER_BACKLOG = 128, SERVER_BLOCK_BYTES = 16 << 10, SERVER_DROP_TIMES = 4 };

static struct MHD_Daemon *daemon_at;
static u32 bound_port;
static u64 body_cap;
static struct ring_wake completed = { .event_fd = -1 };
static bool opened;

/* ------------------------------------------------------------------ answers */

static void put_headers(struct exchange *x, struct MHD_Response *response)
{
    char text[32];
    const char *origin = exchange_header(x, "Origin");
    MHD_add_response_header(response, "x-request-id", x->request_id);
    if (x->cache_source != NULL)
        MHD_add_response_header(response, "x-cache-source", x->cache_source);
    if (x->last) MHD_add_response_header(response, "Connection", "close");
    if (x->allow != NULL) MHD_add_response_header(response, "Allow", x->allow);
    if (x->refusal.retry_after_s > 0) {
        snprintf(text, sizeof text, "%u", x->refusal.retry_after_s);
        MHD_add_response_header(response, "Retry-After", text);
    }
    if (origin != NULL && auth_origin(origin)) {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
        MHD_add_response_header(response, "Vary", "Origin");
        if (strcmp(x->method, "OPTIONS") == 0) {
            MHD_add_response_header(response, "Access-Control-Allow-Methods",
                                    "GET, POST, DELETE, OPTIONS");
            MHD_add_response_header(response, "Access-Control-Allow-Headers", "*");
            MHD_add_response_header(response, "Access-Control-Max-Age", "600");
        }
    }
}

static enum MHD_Result send_answer(struct exchange *x)
{
    if (json_out_check(&x->answer) != OK) {
        json_out_close(&x->answer);
        exchange_text(x, 503, "text/plain; charset=utf-8", "no memory for the answer\n");
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        x->answer.bytes, x->answer.text, MHD_RESPMEM_PERSISTENT);
    if (response == NULL) return MHD_NO;
    if (x->content_type != NULL)
        MHD_add_response_header(response, "Content-Type", x->content_type);
    put_headers(x, response);
    enum MHD_Result queued = MHD_queue_response(x->connection, x->status, response);
    MHD_destroy_response(response);
    stats_status(x->status);
    return queued;
}

/* Bytes of the reply, or the end; when there are none yet the connection is suspended. */
static ssize_t read_stream(void *owner, uint64_t pos, char *out, size_t cap)
{
    struct exchange *x = owner;
    struct exchange_turn *t = x->turn;
    (void)pos;
    for (;;) {                                          /* each round moves on or suspends       */
        u64 now = clock_us();
        u64 left = t->reply.out.len - t->sent;
        if (left > 0) {
            u64 len = MIN(left, (u64)cap);
            memcpy(out, t->reply.out.data + t->sent, len);
            t->sent += len;
            if (t->sent == t->reply.out.len) {
                text_clear(&t->reply.out);
                t->sent = 0;
            }
            sse_rearm(x, now);
            return (ssize_t)len;
        }
        if (x->stream == EXCHANGE_STREAM_ENDED) return MHD_CONTENT_READER_END_OF_STREAM;
        if (x->stream == EXCHANGE_STREAM_CUT || atomic_load(&x->gone))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (sse_take(x) || pump_closing()) {
            if (!t->done)
                refusal_set(&x->refusal, 503, NULL, NULL, "the server is shutting down");
            if (x->refusal.status != 0) reply_error(&t->reply, &x->refusal);
            if (x->stream != EXCHANGE_STREAM_CUT) x->stream = EXCHANGE_STREAM_ENDED;
            continue;
        }
        if (t->reply.out.len > 0) continue;
        if (now >= atomic_load(&x->due_us)) { sse_comment(x, now); continue; }
        pthread_mutex_lock(&x->lock);
        bool ready = exchange_ready(x, now);
        if (!ready) {
            x->suspended = true;
            MHD_suspend_connection(x->connection);
        }
        pthread_mutex_unlock(&x->lock);
        if (!ready) return 0;
    }
}

static enum MHD_Result send_stream(struct exchange *x)
{
    struct exchange_turn *t = x->turn;
    if (!t->done && t->seen_state >= SUBMIT_PREFILL)
        x->cache_source = turn_source_word[atomic_load(&submit_at(x->submit)->source)];
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, SERVER_BLOCK_BYTES, read_stream, x, NULL);
    if (response == NULL) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "text/event-stream; charset=utf-8");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no");
    put_headers(x, response);
    if (x->stream == EXCHANGE_STREAM_NONE)
        x->stream = t->done ? EXCHANGE_STREAM_ENDED : EXCHANGE_STREAM_OPEN;
    sse_rearm(x, clock_us());
    if (!t->done && t->seen_state < SUBMIT_PREFILL) sse_comment(x, clock_us());
    enum MHD_Result queued = MHD_queue_response(x->connection, 200, response);
    MHD_destroy_response(response);
    stats_status(200);
    return queued;
}

/* The whole answer of a turn that was not streamed, or the refusal of one that never began. */
static void answer_turn(struct exchange *x)
{
    struct exchange_turn *t = x->turn;
    if (x->refusal.status != 0) { exchange_refuse(x); return; }
    json_put_plain(&x->answer, t->reply.out.data, t->reply.out.len);
    text_close(&t->reply.out);
    exchange_json(x, 200);
}

static void answer_command(struct exchange *x)
{
    struct command_row *row = command_at(x->command);
    if (x->route->done != NULL) {
        x->route->done(x);
    } else if (row->error != OK) {
        u32 status = row->error == ERR_NOT_FOUND ? 404 : 0;
        fail(row->error, "%s", row->error_text);
        refusal_note(&x->refusal, row->error, NULL);
        if (status != 0) x->refusal.status = status;
        exchange_refuse(x);
    } else {
        json_put_plain(&x->answer, row->answer == NULL ? "{}" : row->answer,
                       row->answer == NULL ? 2 : row->answer_bytes);
        exchange_json(x, 200);
    }
    command_release(x->command);
    x->command = NONE;
    atomic_store(&x->wait, EXCHANGE_WAIT_NONE);
}

/* ------------------------------------------------------------------ the request */

static enum MHD_Result count_host(void *owner, enum MHD_ValueKind kind, const char *key,
                                  const char *value)
{
    struct auth_request *q = owner;
    (void)kind;
    if (strcasecmp(key, "Host") == 0) {
        q->host = value;
        q->host_count++;
    }
    return MHD_YES;
}

static enum MHD_Result count_length(void *owner, enum MHD_ValueKind kind, const char *key,
                                    const char *value)
{
    u32 *count = owner;
    (void)kind;
    (void)value;
    if (strcasecmp(key, "Content-Length") == 0) (*count)++;
    return MHD_YES;
}

static bool address_text(const struct sockaddr *at, char out[INET6_ADDRSTRLEN])
{
    const void *from = at->sa_family == AF_INET6
        ? (const void *)&((const struct sockaddr_in6 *)(const void *)at)->sin6_addr
        : (const void *)&((const struct sockaddr_in *)(const void *)at)->sin_addr;
    return inet_ntop(at->sa_family, from, out, INET6_ADDRSTRLEN) != NULL;
}

static bool is_loopback(const struct sockaddr *at)
{
    if (at->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
    }
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)at;
    return (ntohl(four->sin_addr.s_addr) >> 24) == 127;
}

static struct auth_request auth_of(struct exchange *x, char local[INET6_ADDRSTRLEN])
{
    struct auth_request q = {0};
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, count_host, &q);
    q.authorization = exchange_header(x, "Authorization");
    q.api_key = exchange_header(x, "x-api-key");
    if (getsockname(x->fd, (struct sockaddr *)&at, &bytes) == 0 &&
        address_text((const struct sockaddr *)&at, local)) q.local_address = local;
    bytes = sizeof at;
    if (getpeername(x->fd, (struct sockaddr *)&at, &bytes) == 0)
        q.loopback = is_loopback((const struct sockaddr *)&at);
    return q;
}

/* Host, method, route, key, readiness: everything the first line and the headers decide. */
static void check_head(struct exchange *x, const char *method, const char *path)
{
    char local[INET6_ADDRSTRLEN];
    struct auth_request q = auth_of(x, local);
    snprintf(x->method, sizeof x->method, "%s", method);
    u64 len = strlen(path);
    memcpy(x->path, path, MIN(len, sizeof x->path - 1));
    x->path[MIN(len, sizeof x->path - 1)] = 0;
    if (!auth_host(&q, &x->refusal)) return;
    u32 lengths = 0;
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, count_length, &lengths);
    if (lengths > 1) {                  /* where the body ends is not known (RFC 9112, 6.3)      */
        x->last = true;
        refusal_set(&x->refusal, 400, NULL, NULL, "the request has two Content-Length headers");
        return;
    }
    if (len >= sizeof x->path) {
        refusal_set(&x->refusal, 404, "model_not_found", NULL, "a path of %llu bytes", (ull)len);
        return;
    }
    if (strcmp(method, "OPTIONS") == 0) { x->status = 204; return; }
    x->route = routes_find(x, method, path);
    struct refusal unknown = x->refusal;
    if (!auth_check(&q, x->route == NULL ? AUTH_KEY : x->route->door, &x->refusal)) return;
    x->refusal = unknown;
    if (x->route != NULL && !x->route->early && !phase_check(&x->refusal)) return;
    const char *length = exchange_header(x, "Content-Length");
    if (length != NULL && strtoull(length, NULL, 10) > body_cap)
        refusal_set(&x->refusal, 413, NULL, NULL, "the body has %.20s bytes, at most %llu are "
                    "read", length, (ull)body_cap);
}

/* Appends a piece of the body, or drops it; false ends the connection. */
static bool take_body(struct exchange *x, const char *bytes, u64 count)
{
    bool keep = x->refusal.status == 0 && x->route != NULL && x->route->body;
    if (keep && x->body_bytes + count > body_cap) {
        refusal_set(&x->refusal, 413, NULL, NULL, "the body has more than %llu bytes",
                    (ull)body_cap);
        keep = false;
    }
    if (keep && x->body_bytes + count > x->body_cap) {
        u64 cap = MAX(x->body_cap * 2, (u64)16 << 10);
        while (cap < x->body_bytes + count) cap *= 2;
        char *grown = arena_heap_grow(x->body, cap);
        if (grown == NULL) {
            refusal_set(&x->refusal, 503, NULL, NULL, "no memory for the body");
            x->refusal.retry_after_s = 1;
            keep = false;
        } else {
            x->body = grown;
            x->body_cap = cap;
        }
    }
    if (keep) {
        memcpy(x->body + x->body_bytes, bytes, count);
        x->body_bytes += count;
        return true;
    }
    x->dropped_bytes += count;
    return x->dropped_bytes <= SERVER_DROP_TIMES * body_cap;
}

/* Moves the exchange on until it is answered or suspended. */
static enum MHD_Result go(struct exchange *x)
{
    for (;;) {                                          /* each round moves on or suspends       */
        u64 now = clock_us();
        if (atomic_load(&x->gone)) return MHD_NO;
        u32 wait = atomic_load(&x->wait);
        if (wait == EXCHANGE_WAIT_COMMAND &&
            atomic_load(&command_at(x->command)->state) == COMMAND_DONE) answer_command(x);
        if (x->turn != NULL && x->status == 0) {
            bool streams = x->turn->request.stream, done = sse_take(x);
            if (x->stream == EXCHANGE_STREAM_CUT && !streams) return MHD_NO;
            if (done && (!streams || x->refusal.status != 0)) answer_turn(x);
            else if (streams && sse_may_open(x, now)) return send_stream(x);
        }
        if (x->status == 0 && pump_closing()) {
            refusal_set(&x->refusal, 503, NULL, NULL, "the server is shutting down");
            exchange_refuse(x);
        }
        if (x->status != 0) return send_answer(x);
        pthread_mutex_lock(&x->lock);
        bool ready = exchange_ready(x, now);
        if (!ready) {
            x->suspended = true;
            MHD_suspend_connection(x->connection);
        }
        pthread_mutex_unlock(&x->lock);
        if (!ready) return MHD_YES;
    }
}

static void bind_thread(void)
{
    static _Thread_local bool bound;
    if (bound) return;
    bound = true;
    arena_heap_bind();
}

static enum MHD_Result answer(void *owner, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **row)
{
    (void)owner;
    (void)version;
    struct exchange *x = *row;
    if (x == NULL) {
        x = exchange_take();
        if (x == NULL) return MHD_NO;
        *row = x;
        x->connection = connection;
        x->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        check_head(x, method, path);
        const char *length = exchange_header(x, "Content-Length");
        bool far_over = x->refusal.status == 413 &&
                        strtoull(length, NULL, 10) > SERVER_DROP_TIMES * body_cap;
        bool asks = x->refusal.status != 0 && exchange_header(x, "Expect") != NULL;
        if (!far_over && !asks) return MHD_YES;
        exchange_refuse(x);
        return send_answer(x);
    }
    if (*upload_bytes > 0) {
        bool kept = take_body(x, upload, *upload_bytes);
        *upload_bytes = 0;
        return kept ? MHD_YES : MHD_NO;
    }
    if (!x->routed) {
        x->routed = true;
        if (x->refusal.status != 0) exchange_refuse(x);
        else if (x->status == 0) x->route->run(x);
    }
    return go(x);
}

static void request_over(void *owner, struct MHD_Connection *connection, void **row,
                         enum MHD_RequestTerminationCode code)
{
    (void)owner;
    (void)connection;
    (void)code;
    struct exchange *x = *row;
    if (x == NULL) return;
    *row = NULL;
    exchange_finish(x);
    ring_wake_ring(&completed);
}

static void connection_event(void *owner, struct MHD_Connection *connection, void **socket_row,
                             enum MHD_ConnectionNotificationCode code)
{
    (void)owner;
    (void)connection;
    (void)socket_row;
    (void)code;
    bind_thread();
}

static void library_log(void *owner, const char *format, va_list args)
{
    char text[256];
    (void)owner;
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = 0;
    log_line(LOG_LEVEL_DEBUG, "libmicrohttpd: %s", text);
}

/* ------------------------------------------------------------------ open and close */

static enum err listen_on(const char *host, u32 port, int *fd_out)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    char service[16];
    int fd = -1, on = 1;
    snprintf(service, sizeof service, "%u", port);
    int failed = getaddrinfo(host, service, &hints, &found);
    if (failed != 0) return fail(ERR_CONFIG, "--host %s: %s", host, gai_strerror(failed));
    enum err code = fail(ERR_IO, "--host %s has no address", host);
    for (struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
            bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SERVER_BACKLOG) == 0) {
            struct sockaddr_storage bound;
            socklen_t bytes = sizeof bound;
            getsockname(fd, (struct sockaddr *)&bound, &bytes);
            bound_port = ntohs(bound.ss_family == AF_INET6
                ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
                : ((struct sockaddr_in *)(void *)&bound)->sin_port);
            code = OK;
            break;
        }
        code = fail(ERR_IO, "cannot listen on %s port %u: %s", host, port, strerror(errno));
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    if (code == OK) *fd_out = fd;
    return code;
}

static enum err start_library(int fd, const struct server_setup *setup)
{
    u32 idle_s = setup->idle_us == 0 ? SERVER_IDLE_S : (u32)((setup->idle_us + 999999) / 1000000);
    daemon_at = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_ALLOW_SUSPEND_RESUME |
            MHD_USE_ERROR_LOG, 0, NULL, NULL, answer, NULL,
        MHD_OPTION_EXTERNAL_LOGGER, library_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)SERVER_THREADS,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX(setup->connections, (u32)SERVER_THREADS),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVER_HEADER_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)idle_s,
        MHD_OPTION_NOTIFY_COMPLETED, request_over, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, connection_event, NULL, MHD_OPTION_END);
    if (daemon_at != NULL) return OK;
    close(fd);
    return fail(ERR_IO, "the HTTP library did not start");
}

enum err server_open(const struct server_setup *setup)
{
    int fd = -1;
    ASSERT(!opened);
    phase_open();
    stats_reset();
    body_cap = setup->body_bytes;
    sse_keepalive(setup->keepalive_us);
    TRY(auth_open(&setup->auth));
    TRY(listen_on(setup->auth.host, setup->port, &fd));
    enum err code = exchange_open(setup->connections + TURN_OUT_IDS / 4);
    if (code == OK) {
        code = pump_open();
        if (code == OK) {
            code = start_library(fd, setup);
            if (code == OK) { opened = true; return OK; }
            pump_stop();
            fd = -1;
        }
        exchange_close();
    }
    if (fd >= 0) close(fd);
    return code;
}

u32 server_port(void) { return bound_port; }

void server_set_loading(enum phase phase, u64 done, u64 total)
{
    phase_loading(phase, done, total);
}

void server_ready(const struct chat_model *model) { phase_ready(model); }
void server_drain(void) { phase_drain(); }

void server_close(u64 wait_us)
{
    if (!opened) return;
    phase_drain();
    int fd = MHD_quiesce_daemon(daemon_at);
    u64 deadline = clock_us() + wait_us;
    /* first what ends by itself, then what is told to, half of the time each at most */
    for (u32 half = 0; half < 2; half++) {
        if (half == 1) pump_end();
        u64 until = deadline - wait_us / 2 * (1 - half);
        while (exchange_used() > 0 && clock_us() < until) {
            u32 seen = ring_word(&completed);
            if (exchange_used() > 0) ring_wait(&completed, seen, until);
        }
    }
    pump_settle();
    MHD_stop_daemon(daemon_at);
    pump_stop();
    for (u32 i = 0; i < exchange_cap(); i++) exchange_reap(exchange_at(i), true);
    exchange_close();
    if (fd != MHD_INVALID_SOCKET) close(fd);
    auth_close();
    daemon_at = NULL;
    opened = false;
}
