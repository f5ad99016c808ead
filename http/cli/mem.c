/* http/cli/mem.c - POST /admin over a plain socket: one request a connection, answer by length or
 * to the end of the connection (the request says `Connection: close`, HTTP/1.0: no chunks). */
#include "http/cli/mem.h"

#include "arena/heap.h"
#include "http/admin/protocol.h"
#include "http/cli/memdiff.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MEM_HOST_BYTES = 128, MEM_PORT_BYTES = 8, MEM_WAIT_S = 30, MEM_KEY_BYTES = 256 };

struct place { char host[MEM_HOST_BYTES]; char port[MEM_PORT_BYTES]; bool brackets; };

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
    if (host == 0 || host >= MEM_HOST_BYTES) goto bad;
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
static enum err read_key(const char *path, char *out)
{
    out[0] = 0;
    if (path[0] == 0) return OK;
    FILE *file = fopen(path, "re");
    if (file == NULL) return fail(ERR_IO, "%s: %s", path, strerror(errno));
    bool read = fgets(out, MEM_KEY_BYTES, file) != NULL;
    fclose(file);
    if (!read) return fail(ERR_FORMAT, "%s: no key on its first line", path);
    for (size_t n = strlen(out); n > 0 && strchr(" \t\r\n", out[n - 1]) != NULL; ) out[--n] = 0;
    return OK;
}

static enum err dial(const struct place *place, int *fd_out)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    struct timeval wait = { .tv_sec = MEM_WAIT_S };
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

struct answer { char *text; u64 bytes, cap; };      /* of arena_heap_alloc                    */

/* Everything the server sends until it closes. */
static enum err receive_all(int fd, struct answer *a)
{
    for (;;) {
        if (a->bytes + 1 >= a->cap) {
            u64 cap = MAX(a->cap * 2, 64 * KIB);
            char *grown = cap > PROTOCOL_ANSWER_BYTES ? NULL : arena_heap_grow(a->text, cap);
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

/* Splits status and body; a status other than 200 without a msgpack body is the error. */
static enum err print_answer(const struct options *o, const struct answer *a)
{
    int status = 0;
    const char *body = a->bytes > 0 ? strstr(a->text, "\r\n\r\n") : NULL;
    const char *text;
    u32 text_bytes;
    if (body == NULL || sscanf(a->text, "HTTP/1.%*d %d", &status) != 1)
        return fail(ERR_FORMAT, "what answers there is no HTTP server");
    body += 4;
    u64 body_bytes = a->bytes - (u64)(body - a->text);
    if (status == 401 || status == 403)
        return fail(ERR_USAGE, "the server asks for its admin key: say --admin-key-file");
    if (status == 404) return fail(ERR_UNSUPPORTED, "the server there has no /admin");
    enum err e = protocol_read_answer(body, body_bytes, &text, &text_bytes);
    if (e != OK && status != 200) return fail(e, "status %d: %s", status, err_last()->text);
    TRY(e);
    fwrite(text, 1, text_bytes, stdout);
    bool lines = o->action == MEM_SET || o->format != MEM_MSGPACK;
    if (lines && (text_bytes == 0 || text[text_bytes - 1] != '\n')) fputc('\n', stdout);
    return fflush(stdout) == 0 ? OK : fail(ERR_IO, "writing to stdout: %s", strerror(errno));
}

static enum err send_request(int fd, const struct place *place, const char *key,
                             const struct pack_out *body)
{
    char head[1024];
    int bytes = snprintf(head, sizeof head,
                         "POST /admin HTTP/1.0\r\nHost: %s%s%s:%s\r\nConnection: close\r\n"
                         "Content-Type: application/msgpack\r\nContent-Length: %llu\r\n%s%s%s\r\n",
                         place->brackets ? "[" : "", place->host, place->brackets ? "]" : "",
                         place->port, (ull)body->count, key[0] != 0 ? "Authorization: Bearer " : "",
                         key, key[0] != 0 ? "\r\n" : "");
    ASSERT(bytes > 0 && (size_t)bytes < sizeof head);
    TRY(send_all(fd, head, (u64)bytes));
    return send_all(fd, body->bytes, body->count);
}

enum err mem_run(const struct options *o)
{
    static const enum protocol_op asked[] = {
        [MEM_TREE] = PROTOCOL_MEMORY_TREE, [MEM_JSON] = PROTOCOL_MEMORY_JSON,
        [MEM_MSGPACK] = PROTOCOL_MEMORY_MSGPACK, [MEM_DOT] = PROTOCOL_MEMORY_DOT,
        [MEM_FOLDED] = PROTOCOL_MEMORY_FOLDED,
    };
    struct place place;
    struct pack_out request = { 0 };
    struct answer answer = { 0 };
    char key[MEM_KEY_BYTES];
    int fd = -1;
    bool admin = o->profile.admin_key_file[0] != 0;
    if (o->action == MEM_DIFF) return memdiff_run(o->path[0], o->path[1]);
    TRY(read_url(o->url, &place));
    TRY(read_key(admin ? o->profile.admin_key_file : o->profile.api_key_file, key));
    TRY(dial(&place, &fd));
    if (o->action == MEM_SET) protocol_put_set(&request, o->path[0], o->cap_bytes);
    else protocol_put_request(&request, asked[o->format]);
    enum err e = pack_out_check(&request);
    if (e == OK) e = send_request(fd, &place, key, &request);
    if (e == OK) e = receive_all(fd, &answer);
    if (e == OK) e = print_answer(o, &answer);
    close(fd);
    pack_out_close(&request);
    arena_heap_free(answer.text);
    return e;
}
