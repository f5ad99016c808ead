/* tests/http/mem.c - `holdfast mem` against a server of this test: requests, answers, refusals. */
#include "http/cli/mem.h"
#include "http/admin/protocol.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct options o;
static int listener;
static char request[4096];
static size_t request_bytes;
static const char *status;
static struct pack_out body;

/* One connection: reads the whole request, answers, closes. */
static void *serve_once(void *unused)
{
    char head[256];
    int fd = accept(listener, NULL, NULL);
    (void)unused;
    request_bytes = 0;
    for (;;) {
        ssize_t got = recv(fd, request + request_bytes, sizeof request - 1 - request_bytes, 0);
        if (got <= 0) break;
        request_bytes += (size_t)got;
        request[request_bytes] = 0;
        const char *end = strstr(request, "\r\n\r\n"), *length = strstr(request, "Length: ");
        if (end == NULL || length == NULL) continue;
        if (request_bytes >= (size_t)(end + 4 - request) + (size_t)atoi(length + 8)) break;
    }
    int bytes = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %llu\r\n\r\n", status,
                         (ull)body.count);
    if (send(fd, head, (size_t)bytes, MSG_NOSIGNAL) > 0 && body.count > 0)
        (void)!send(fd, body.bytes, body.count, MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

static void open_server(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof at;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 4) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &bytes) == 0);
    memset(&o, 0, sizeof o);
    snprintf(o.url, sizeof o.url, "http://127.0.0.1:%u", ntohs(at.sin_port));
}

/* Runs mem_run with stdout in a file; what it printed into `out`. */
static enum err run(char *out, size_t cap)
{
    pthread_t thread;
    char path[] = "/tmp/holdfast-mem-XXXXXX";
    int file = mkstemp(path), kept = dup(1);
    CHECK(pthread_create(&thread, NULL, serve_once, NULL) == 0);
    fflush(stdout);
    dup2(file, 1);
    enum err e = mem_run(&o);
    fflush(stdout);
    dup2(kept, 1);
    pthread_join(thread, NULL);
    ssize_t bytes = pread(file, out, cap - 1, 0);
    out[bytes > 0 ? bytes : 0] = 0;
    close(file);
    close(kept);
    unlink(path);
    return e;
}

TEST(the_tree_is_asked_for_and_printed)
{
    char out[256];
    enum protocol_op op;
    open_server();
    status = "200 OK";
    pack_out_clear(&body);
    protocol_put_ok(&body, PROTOCOL_MEMORY_TREE, "board 1 GiB\n", 12);
    CHECK_OK(run(out, sizeof out));
    CHECK_STR(out, "board 1 GiB\n");
    CHECK(strncmp(request, "POST /admin HTTP/1.0\r\nHost: 127.0.0.1:", 38) == 0);
    CHECK(strstr(request, "application/msgpack") != NULL);
    CHECK(strstr(request, "Authorization") == NULL);
    const char *sent = strstr(request, "\r\n\r\n") + 4;
    CHECK_OK(protocol_read(sent, request_bytes - (size_t)(sent - request), &op));
    CHECK_EQ(op, PROTOCOL_MEMORY_TREE);
    o.format = MEM_JSON;
    CHECK_OK(run(out, sizeof out));
    sent = strstr(request, "\r\n\r\n") + 4;
    CHECK_OK(protocol_read(sent, request_bytes - (size_t)(sent - request), &op));
    CHECK_EQ(op, PROTOCOL_MEMORY_JSON);
    close(listener);
}

TEST(a_cap_is_sent_and_msgpack_comes_back_as_its_bytes)
{
    char out[256];
    struct protocol_set set;
    open_server();
    status = "200 OK";
    o.action = MEM_SET;
    o.cap_bytes = 12345;
    snprintf(o.path[0], sizeof o.path[0], "anchors");
    pack_out_clear(&body);
    protocol_put_ok(&body, PROTOCOL_SET, "anchors: cap 12345 bytes\n", 25);
    CHECK_OK(run(out, sizeof out));
    CHECK_STR(out, "anchors: cap 12345 bytes\n");
    const char *sent = strstr(request, "\r\n\r\n") + 4;
    CHECK_OK(protocol_read_set(sent, request_bytes - (size_t)(sent - request), &set));
    CHECK(set.cap_bytes == 12345 && strcmp(set.node, "anchors") == 0);
    pack_out_clear(&body);
    protocol_put_err(&body, ERR_NOT_FOUND, "set: no node \"anchor\"; the nearest is anchors");
    CHECK_EQ(run(out, sizeof out), ERR_NOT_FOUND);
    CHECK(strstr(err_last()->text, "nearest is anchors") != NULL);
    o.action = MEM_SHOW;
    o.format = MEM_MSGPACK;
    pack_out_clear(&body);
    protocol_put_ok(&body, PROTOCOL_MEMORY_MSGPACK, "\x81\xa1v\x01", 4);
    CHECK_OK(run(out, sizeof out));
    CHECK_STR(out, "\x81\xa1v\x01");
    close(listener);
}

/* Writes a dump of two nodes, an arena and no records; `used` of the first node. */
static void write_dump(char *path, u32 used, const char *more)
{
    int fd = mkstemp(path);
    dprintf(fd, "{\"version\":1,\"memory\":{\"rss_bytes\":%u},\"heap\":{},"
            "\"nodes\":[{\"name\":\"kv\",\"used_bytes\":%u,\"cap_bytes\":null}%s],"
            "\"records\":[{\"class\":\"park\",\"records\":%u,\"rows\":9}],\"arenas\":[]}", used,
            used, more, used / 1024);
    close(fd);
}

TEST(a_diff_prints_what_changed_and_only_that)
{
    char a[] = "/tmp/holdfast-diff-XXXXXX", b[] = "/tmp/holdfast-diff-XXXXXX", out[2048];
    char path[] = "/tmp/holdfast-diff-XXXXXX";
    write_dump(a, 2048, "");
    write_dump(b, 5120, ",{\"name\":\"store\",\"used_bytes\":3,\"cap_bytes\":7}");
    memset(&o, 0, sizeof o);
    o.action = MEM_DIFF;
    snprintf(o.path[0], sizeof o.path[0], "%s", a);
    for (u32 same = 0; same < 2; same++) {
        int file = mkstemp(path), kept = dup(1);
        snprintf(o.path[1], sizeof o.path[1], "%s", same ? a : b);
        fflush(stdout);
        dup2(file, 1);
        enum err e = mem_run(&o);
        fflush(stdout);
        dup2(kept, 1);
        CHECK_OK(e);
        ssize_t bytes = pread(file, out, sizeof out - 1, 0);
        out[bytes > 0 ? bytes : 0] = 0;
        close(file);
        close(kept);
        unlink(path);
        memcpy(path, "/tmp/holdfast-diff-XXXXXX", sizeof path);
        if (same) CHECK_STR(out, "nothing differs\n");
        else CHECK(strstr(out, "+3.0 KiB") != NULL && strstr(out, "store") != NULL &&
                   strstr(out, "+3\n") != NULL && strstr(out, "rows") == NULL);
    }
    snprintf(o.path[1], sizeof o.path[1], "/tmp/holdfast-no-such-dump");
    CHECK(mem_run(&o) != OK);
    unlink(a);
    unlink(b);
}

TEST(a_key_file_goes_along_and_refusals_are_said_in_words)
{
    char out[256], path[] = "/tmp/holdfast-key-XXXXXX";
    open_server();
    int fd = mkstemp(path);
    CHECK(write(fd, "secret \n", 8) == 8);
    close(fd);
    snprintf(o.profile.admin_key_file, sizeof o.profile.admin_key_file, "%s", path);
    status = "403 Forbidden";
    pack_out_clear(&body);
    CHECK_EQ(run(out, sizeof out), ERR_USAGE);
    CHECK(strstr(err_last()->text, "--admin-key-file") != NULL);
    CHECK(strstr(request, "Authorization: Bearer secret\r\n") != NULL);
    CHECK_STR(out, "");
    status = "404 Not Found";
    CHECK_EQ(run(out, sizeof out), ERR_UNSUPPORTED);
    status = "503 Service Unavailable";
    protocol_put_err(&body, ERR_FULL, "loading");
    CHECK_EQ(run(out, sizeof out), ERR_FULL);
    CHECK(strstr(err_last()->text, "status 503: loading") != NULL);
    unlink(path);
    CHECK_EQ(mem_run(&o), ERR_IO);                      /* the key file is gone              */
    close(listener);
}

TEST(a_bad_url_and_a_silent_port_are_errors_that_say_what_to_do)
{
    static const char *const bad[] = { "127.0.0.1:1", "https://x", "http://", "http://h:",
                                       "http://h:999999", "http://[::1", "http://h:1x" };
    memset(&o, 0, sizeof o);
    for (u32 i = 0; i < COUNT_OF(bad); i++) {
        snprintf(o.url, sizeof o.url, "%s", bad[i]);
        CHECK_EQ(mem_run(&o), ERR_USAGE);
        CHECK(strstr(err_last()->text, "--url") != NULL);
    }
    open_server();
    close(listener);
    CHECK_EQ(mem_run(&o), ERR_IO);
    CHECK(strstr(err_last()->text, "start one, or say --url") != NULL);
}
