/* http/cli/client.c - one request over a plain socket: HTTP/1.0, `Connection: close`, so that the
 * answer ends with its length or with the connection and has no chunks. */
#include "http/cli/client.h"

#include "arena/heap.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { CLIENT_HOST_BYTES = 128, CLIENT_PORT_BYTES = 8, CLIENT_WAIT_S = 30 };

struct place { char host[CLIENT_HOST_BYTES]; char port[CLIENT_PORT_BYTES]; bool brackets; };

/* http://HOST[:PORT][/...]; HOST may be [v6]. */
static enum err read_url(const char *url, struct place *out)
{
    const char *at = url, *prefix = "http://";
    memset(out, 0, sizeof *out);
    memcpy(out->port, "80", 3);
    if (strncmp(at, prefix, strlen(prefix)) != 0) goto bad;
    at += strlen(prefix);
    out->brackets = at[0] == '[';
    at += out->brackets;
    size_t host = strcspn(at, out->brackets ? "]" : ":/");
    if (host == 0 || host >= CLIENT_HOST_BYTES) goto bad;
    memcpy(out->host, at, host);
    at += host;
    if (out->brackets && at[0] != ']') goto bad;
    at += out->brackets;
    if (at[0] == ':') {
        size_t digits = strspn(at + 1, "0123456789");
        if (digits == 0 || digits >= 6) goto bad;
        memset(out->port, 0, sizeof out->port);
        memcpy(out->port, at + 1, digits);
        at += 1 + digits;
    }
    if (at[0] == 0 || at[0] == '/') return OK;
bad:
    return fail(ERR_USAGE, "--url: \"%.100s\" is not http://HOST[:PORT]", url);
}

/* The first line of a key file, without blanks at its end; "" without a file. */
enum err client_key(const char *path, char *out)
{
    out[0] = 0;
    if (path[0] == 0) return OK;
    FILE *file = fopen(path, "re");
    if (file == NULL) return fail(ERR_IO, "%s: %s", path, strerror(errno));
    bool read = fgets(out, CLIENT_KEY_BYTES, file) != NULL;
    fclose(file);
    if (!read) return fail(ERR_FORMAT, "%s: no key on its first line", path);
    for (size_t n = strlen(out); n > 0 && strchr(" \t\r\n", out[n - 1]) != NULL; ) out[--n] = 0;
    return OK;
}

static enum err dial(const struct place *place, int *fd_out)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    struct timeval wait = { .tv_sec = CLIENT_WAIT_S };
    int fd = -1, error = 0;
    int rc = getaddrinfo(place->host, place->port, &hints, &list);
    if (rc != 0) return fail(ERR_IO, "%s: %s", place->host, gai_strerror(rc));
    for (struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
        if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) break;
        error = errno;
        close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    if (fd < 0)
        return fail(ERR_IO, "no server at %s port %s (%s): start one, or say --url", place->host,
                    place->port, strerror(error));
    *fd_out = fd;
    return OK;
}

static enum err send_all(int fd, const void *from, u64 bytes)
{
    const u8 *at = from;
    while (bytes > 0) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return fail(ERR_IO, "sending to the server: %s", strerror(errno));
        at += sent;
        bytes -= (u64)sent;
    }
    return OK;
}

struct received { char *text; u64 bytes, cap; };      /* of arena_heap_alloc                    */

/* Everything the server sends until it closes. */
static enum err receive_all(int fd, struct received *a)
{
    for (;;) {
        if (a->bytes + 1 >= a->cap) {
            u64 cap = MAX(a->cap * 2, 64 * KIB);
            char *grown = cap > CLIENT_ANSWER_BYTES ? NULL : arena_heap_grow(a->text, cap);
            if (grown == NULL) return fail(ERR_MEMORY, "an answer of more than %llu bytes",
                                           (ull)a->cap);
            a->text = grown;
            a->cap = cap;
        }
        ssize_t got = recv(fd, a->text + a->bytes, a->cap - a->bytes - 1, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(ERR_IO, "reading from the server: %s", strerror(errno));
        a->text[a->bytes + (u64)got] = 0;
        if (got == 0) return OK;
        a->bytes += (u64)got;
    }
}

static enum err send_request(int fd, const struct place *place, const struct client_ask *ask)
{
    char head[1024];
    int bytes = snprintf(head, sizeof head,
                         "%s %.300s HTTP/1.0\r\nHost: %s%s%s:%s\r\nConnection: close\r\n"
                         "Content-Type: %s\r\nContent-Length: %llu\r\n%s%s%s\r\n",
                         ask->method, ask->path, place->brackets ? "[" : "", place->host,
                         place->brackets ? "]" : "", place->port, ask->type,
                         (ull)ask->body_bytes, ask->key[0] != 0 ? "Authorization: Bearer " : "",
                         ask->key, ask->key[0] != 0 ? "\r\n" : "");
    ASSERT(bytes > 0 && (size_t)bytes < sizeof head);
    TRY(send_all(fd, head, (u64)bytes));
    return send_all(fd, ask->body, ask->body_bytes);
}

/* Splits status and body. */
static enum err read_answer(struct received *a, struct client_answer *out)
{
    const char *body = a->bytes > 0 ? strstr(a->text, "\r\n\r\n") : NULL;
    if (body == NULL || sscanf(a->text, "HTTP/1.%*d %d", &out->status) != 1)
        return fail(ERR_FORMAT, "what answers there is no HTTP server");
    out->body = body + 4;
    out->body_bytes = a->bytes - (u64)(out->body - a->text);
    if (out->status == 401 || out->status == 403)
        return fail(ERR_USAGE, "the server asks for its admin key: say --admin-key-file");
    return OK;
}

enum err client_send(const struct client_ask *ask, struct client_answer *out)
{
    struct place place;
    struct received received = { 0 };
    int fd = -1;
    *out = (struct client_answer){ 0 };
    TRY(read_url(ask->url, &place));
    TRY(dial(&place, &fd));
    enum err err = send_request(fd, &place, ask);
    if (err == OK) err = receive_all(fd, &received);
    if (err == OK) err = read_answer(&received, out);
    close(fd);
    if (err != OK) arena_heap_free(received.text);
    else out->text = received.text;
    return err;
}

void client_close(struct client_answer *answer)
{
    arena_heap_free(answer->text);
    answer->text = NULL;
}
