/* tests/http/loop.h - an in-process server over loopback: a fake engine thread behind the submit
 * and command rows, raw sockets in front.  Included by one .c of a test binary each. */
#ifndef HTTP_LOOP_H
#define HTTP_LOOP_H

#pragma GCC diagnostic ignored "-Wunused-function"

#include "arena/base/clock.h"
#include "arena/base/file.h"
#include "arena/base/log.h"
#include "arena/base/ring.h"
#include "arena/heap.h"
#include "http/chat/force.h"
#include "http/serve/server.h"
#include "http/turn/command.h"
#include "http/turn/stop.h"
#include "http/turn/turn.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ------------------------------------------------------------------ the engine's side */

enum { FAKE_ROWS = 8, FAKE_ANSWER = 4096 };

const char *const turn_source_word[SOURCE_COUNT] = { "cold", "grid", "turn", "end" };
const char *const turn_reason_word[REASON_COUNT] = { NULL, "parted", "short", "never_seen",
                                                     "memory", "off", "context", "slow_read",
                                                     "failed_check" };
const char *const turn_served_word[SERVED_COUNT] = { "sent", "aligned" };
const char *const turn_drafter_word[DRAFTER_COUNT] = { "mtp", "lookup", "hostile" };

static struct {
    struct submit_row row[FAKE_ROWS];
    u64 given[FAKE_ROWS];               /* ids pushed of each                                    */
    struct command_row command[2];
    _Atomic u32 queue_cap;              /* rows in flight at most                                */
    _Atomic bool admit, prefill, decode;    /* which steps the thread may take                   */
    _Atomic bool stop, draining;
    _Atomic u32 cancelled, done;        /* turns that ended so                                   */
    u32  answer[FAKE_ANSWER];           /* what a turn without forced ids generates              */
    u32  answer_count;
    enum err error;                     /* refuse instead of admitting                           */
    u64  part_pos;
    pthread_t thread;
    pthread_mutex_t lock;               /* take and release only                                 */
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

u32 submit_take(void)
{
    u32 taken = NONE;
    pthread_mutex_lock(&fake.lock);
    for (u32 i = 0; i < FAKE_ROWS && taken == NONE; i++)
        if (fake.row[i].state == SUBMIT_FREE) {
            memset(&fake.row[i], 0, sizeof fake.row[i]);
            fake.row[i].state = SUBMIT_TAKEN;
            fake.given[i] = 0;
            taken = i;
        }
    pthread_mutex_unlock(&fake.lock);
    return taken;
}

struct submit_row *submit_at(u32 submit) { ASSERT(submit < FAKE_ROWS); return &fake.row[submit]; }

u32 submit_queued(void)
{
    u32 count = 0;
    pthread_mutex_lock(&fake.lock);
    for (u32 i = 0; i < FAKE_ROWS; i++) count += fake.row[i].state == SUBMIT_QUEUED;
    pthread_mutex_unlock(&fake.lock);
    return count;
}

/* State of the first row, which is the one taken when all are free. */
static u32 fake_state(void)
{
    pthread_mutex_lock(&fake.lock);
    u32 state = fake.row[0].state;
    pthread_mutex_unlock(&fake.lock);
    return state;
}

enum err submit_push(u32 submit)
{
    struct submit_row *row = submit_at(submit);
    u32 flying = 0;
    if (fake.draining) return fail(ERR_CANCELLED, "draining");
    pthread_mutex_lock(&fake.lock);
    for (u32 i = 0; i < FAKE_ROWS; i++)
        flying += fake.row[i].state >= SUBMIT_QUEUED && fake.row[i].state < SUBMIT_DONE;
    pthread_mutex_unlock(&fake.lock);
    if (flying >= fake.queue_cap) return fail(ERR_FULL, "queue");
    ring_open(&row->out, row->out_ids, TURN_OUT_IDS, row->wake);
    row->queue_place = submit_queued() + 1;
    row->result.part_pos = UINT64_MAX;
    row->state = SUBMIT_QUEUED;
    return OK;
}

void submit_cancel(u32 submit) { submit_at(submit)->cancelled = 1; }

void submit_release(u32 submit)
{
    pthread_mutex_lock(&fake.lock);
    ASSERT(fake.row[submit].state == SUBMIT_TAKEN || fake.row[submit].state == SUBMIT_DONE);
    fake.row[submit].state = SUBMIT_FREE;
    pthread_mutex_unlock(&fake.lock);
}

void submit_memo(u32 submit) { submit_release(submit); }

bool submit_draining(void) { return fake.draining; }
void submit_drained(void) {}

u32 command_take(void)
{
    u32 taken = NONE;
    pthread_mutex_lock(&fake.lock);
    for (u32 i = 0; i < 2 && taken == NONE; i++)
        if (fake.command[i].state == COMMAND_FREE) {
            memset(&fake.command[i], 0, sizeof fake.command[i]);
            fake.command[i].state = COMMAND_TAKEN;
            taken = i;
        }
    pthread_mutex_unlock(&fake.lock);
    return taken;
}
struct command_row *command_at(u32 command) { return &fake.command[command]; }
void command_push(u32 command) { fake.command[command].state = COMMAND_PUSHED; }
void command_release(u32 command)
{
    ASSERT(fake.command[command].state == COMMAND_DONE);
    arena_heap_free(fake.command[command].answer);
    fake.command[command].state = COMMAND_FREE;
}

static void fake_end(struct submit_row *row, enum turn_finish finish)
{
    struct ring_wake *wake = row->wake;
    row->result.finish = finish;
    if (finish == FINISH_CANCELLED) fake.cancelled++;
    fake.done++;
    row->state = SUBMIT_DONE;
    if (wake != NULL) ring_wake_ring(wake);
}

static void fake_admit(struct submit_row *row)
{
    row->queue_place = 0;
    if (fake.error != OK) {
        row->result.error = fake.error;
        snprintf(row->result.error_text, sizeof row->result.error_text, "the gate said no");
        fake_end(row, FINISH_ERROR);
        return;
    }
    row->source = row->result.source = SOURCE_TURN;
    row->result.cached = row->id_count / 2;
    row->result.forwarded = row->id_count - row->id_count / 2;
    row->result.reason = REASON_PARTED;
    row->result.part_pos = fake.part_pos;
    row->result.stop_id = NONE;
    row->progress = row->result.cached;
    row->state = SUBMIT_PREFILL;
    if (row->wake != NULL) ring_wake_ring(row->wake);
}

/* One id of a decoding row, or its end. */
static void fake_decode(u32 i)
{
    static struct stop_state stop[FAKE_ROWS];
    struct submit_row *row = &fake.row[i];
    const u32 *ids = row->forced != NULL ? row->forced : fake.answer;
    u64 count = row->forced != NULL ? row->forced_count : fake.answer_count;
    u64 at = fake.given[i];
    if (at == 0) stop_start(&stop[i], row);
    row->result.generated = at;
    if (at >= row->forced_cut && row->forced != NULL) { fake_end(row, FINISH_CANCELLED); return; }
    if (at == count) { fake_end(row, FINISH_STOP); return; }
    if (row->max_tokens != 0 && at == row->max_tokens) { fake_end(row, FINISH_LENGTH); return; }
    if (row->forced != NULL && at + 1 == count && row->forced_cut == UINT64_MAX) {
        row->result.generated = count;      /* the last forced id is the turn's end: not pushed  */
        fake_end(row, FINISH_STOP);
        return;
    }
    if (row->logprobs) {
        if (at - row->logprobs_read >= TURN_LOGPROBS) return;
        struct logprob_row *lp = &row->logprob[at % TURN_LOGPROBS];
        *lp = (struct logprob_row){ .chosen = -0.25f * (f32)(at + 1),
                                    .top_count = row->top_logprobs };
        for (u32 k = 0; k < lp->top_count; k++) {
            lp->top_id[k] = ids[at] + k;
            lp->top[k] = lp->chosen - (f32)k;
        }
    }
    if (!ring_push(&row->out, ids[at])) return;         /* full: the client is slow              */
    fake.given[i]++;
    u32 cut, back;
    if (stop_feed(&stop[i], row, ids[at], &cut, &back)) {
        row->result.generated = fake.given[i];
        row->result.by_stop_string = true;
        fake_end(row, FINISH_STOP);
    }
}

static void fake_command(struct command_row *row)
{
    char text[512];
    if (row->op == COMMAND_CLEAR && strcmp(row->session, "unknown") == 0) {
        row->error = ERR_NOT_FOUND;
        snprintf(row->error_text, sizeof row->error_text, "nothing is known of %.32s",
                 row->session);
    } else {
        int bytes = snprintf(text, sizeof text, "{\"op\":%d,\"tier\":\"%s\",\"session\":\"%s\"}",
                             (int)row->op, row->tier, row->session);
        row->answer = arena_heap_alloc((u64)bytes + 1);
        memcpy(row->answer, text, (u64)bytes + 1);
        row->answer_bytes = (u64)bytes;
    }
    row->state = COMMAND_DONE;
    if (row->wake != NULL) ring_wake_ring(row->wake);
}

static void *fake_run(void *unused)
{
    while (!fake.stop) {
        for (u32 i = 0; i < FAKE_ROWS; i++) {
            struct submit_row *row = &fake.row[i];
            pthread_mutex_lock(&fake.lock);             /* a row being taken is zeroed under it  */
            u32 state = row->state;
            pthread_mutex_unlock(&fake.lock);
            if (state < SUBMIT_QUEUED || state == SUBMIT_DONE) continue;
            if (row->cancelled) fake_end(row, FINISH_CANCELLED);
            else if (state == SUBMIT_QUEUED && fake.admit) fake_admit(row);
            else if (state == SUBMIT_PREFILL && fake.prefill) {
                row->progress = row->id_count;
                row->state = SUBMIT_DECODE;
            } else if (state == SUBMIT_DECODE && fake.decode) fake_decode(i);
        }
        for (u32 i = 0; i < 2; i++) {
            pthread_mutex_lock(&fake.lock);
            bool pushed = fake.command[i].state == COMMAND_PUSHED;
            pthread_mutex_unlock(&fake.lock);
            if (pushed) fake_command(&fake.command[i]);
        }
        usleep(200);
    }
    return unused;
}

/* ------------------------------------------------------------------ the server */

static struct tokenizer *loop_tokenizer;
static struct chat_model loop_model;

static void loop_tokenizer_open(void)
{
    static char json[1 << 20], config[1 << 16];
    u64 bytes, config_bytes;
    if (loop_tokenizer != NULL) return;
    CHECK_OK(file_read("profiles/default-model/tokenizer.json", json, sizeof json, &bytes));
    CHECK_OK(file_read("profiles/default-model/tokenizer_config.json", config, sizeof config,
                       &config_bytes));
    struct tokenizer_source source = { .tokenizer_json = { json, bytes },
                                       .tokenizer_config = { config, config_bytes } };
    CHECK_OK(tokenizer_open(&source, &loop_tokenizer));
    stop_vocab(tokenizer_vocab(loop_tokenizer));
}

/* What a turn without forced ids will generate. */
static void loop_answer(const char *text)
{
    struct tokenizer_ids ids = {0};
    struct tokenizer_text in = { .bytes = text, .len = strlen(text) };
    CHECK_OK(tokenizer_encode(loop_tokenizer, &in, &ids));
    CHECK(ids.count <= FAKE_ANSWER);
    memcpy(fake.answer, ids.id, ids.count * sizeof ids.id[0]);
    fake.answer_count = (u32)ids.count;
    tokenizer_ids_close(&ids);
}

static struct server_setup loop_setup(void)
{
    return (struct server_setup){ .auth = { .host = "127.0.0.1" }, .connections = 64,
        .body_bytes = 64 << 10, .keepalive_us = 300 * 1000 };
}

static bool loop_opened;
static void loop_close(void);

static void loop_open_loading(const struct server_setup *setup)
{
    if (loop_opened) loop_close();      /* a test before this one failed half-way               */
    loop_opened = true;
    log_level_set(LOG_LEVEL_WARN);
    loop_tokenizer_open();
    fake.queue_cap = FAKE_ROWS;
    fake.admit = fake.prefill = fake.decode = true;
    fake.stop = fake.draining = false;
    fake.cancelled = fake.done = 0;
    fake.error = OK;
    fake.part_pos = UINT64_MAX;
    CHECK(pthread_create(&fake.thread, NULL, fake_run, NULL) == 0);
    CHECK_OK(server_open(setup));
}

static void loop_open(const struct server_setup *setup)
{
    loop_open_loading(setup);
    loop_model = (struct chat_model){
        .name = "tiny", .tokenizer = loop_tokenizer, .template_id = TEMPLATE_38, .ctx = 2048,
        .created_s = 1700000000, .json_depth = 64, .stop_cap = 4, .tools_cap = 8, .slots = 1,
        .sampling = { .temperature = 0.5f, .top_p = 0.9f, .top_k = 20, .repetition_penalty = 1 },
        .test_hooks = true,
    };
    server_ready(&loop_model);
}

static void loop_close(void)
{
    server_close(2000 * 1000);
    fake.stop = true;
    pthread_join(fake.thread, NULL);
    for (u32 i = 0; i < FAKE_ROWS; i++) fake.row[i].state = SUBMIT_FREE;
    loop_opened = false;
}

/* Waits up to 5 s for `value` at `at`; asserts it came. */
static bool loop_wait(_Atomic u32 *at, u32 value)
{
    for (u32 i = 0; i < 5000 && atomic_load(at) != value; i++) usleep(1000);
    return atomic_load(at) == value;
}

/* ------------------------------------------------------------------ the client's side */

enum { LOOP_BYTES = 1 << 20 };

struct answer {
    int  status;
    char raw[LOOP_BYTES];               /* as read, headers first                                */
    u64  raw_bytes;
    char body[LOOP_BYTES];              /* dechunked                                             */
    u64  body_bytes;
    bool complete;                      /* the body came to its announced end                    */
};
static struct answer got;

static int loop_connect(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((u16)server_port()),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

static void loop_send(int fd, const char *bytes, u64 count)
{
    for (u64 at = 0; at < count;) {
        ssize_t n = send(fd, bytes + at, count - at, MSG_NOSIGNAL);
        if (n <= 0) return;
        at += (u64)n;
    }
}

/* Reads until the peer closes, `until` occurs in what came, or `ms` passed without a byte. */
static u64 loop_read(int fd, char *out, u64 cap, const char *until, int ms)
{
    u64 at = 0;
    while (at + 1 < cap) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (poll(&p, 1, ms) <= 0) break;
        ssize_t n = recv(fd, out + at, cap - 1 - at, 0);
        if (n <= 0) break;
        at += (u64)n;
        out[at] = 0;
        if (until != NULL && strstr(out, until) != NULL) break;
    }
    out[at] = 0;
    return at;
}

static const char *loop_header(const char *name)
{
    static char value[512];
    char key[128];
    snprintf(key, sizeof key, "\r\n%s:", name);
    const char *end = strstr(got.raw, "\r\n\r\n"), *at = strcasestr(got.raw, key);
    if (at == NULL || end == NULL || at > end) return NULL;
    at += strlen(key);
    at += strspn(at, " ");
    u64 len = MIN((u64)strcspn(at, "\r"), sizeof value - 1);
    memcpy(value, at, len);
    value[len] = 0;
    return value;
}

/* raw -> status, body. */
static void loop_parse(void)
{
    got.status = 0;
    got.body_bytes = 0;
    got.body[0] = 0;
    got.complete = false;
    if (sscanf(got.raw, "HTTP/1.1 %d", &got.status) != 1) return;
    const char *at = strstr(got.raw, "\r\n\r\n");
    if (at == NULL) return;
    at += 4;
    const char *end = got.raw + got.raw_bytes;
    const char *coding = loop_header("Transfer-Encoding");
    if (coding == NULL || strcasecmp(coding, "chunked") != 0) {
        got.body_bytes = (u64)(end - at);
        memcpy(got.body, at, got.body_bytes);
        const char *length = loop_header("Content-Length");
        got.complete = length != NULL && strtoull(length, NULL, 10) == got.body_bytes;
    } else {
        while (at < end) {
            char *rest;
            u64 len = strtoull(at, &rest, 16);
            if (rest == at || rest + 2 > end) break;
            at = rest + 2;
            if (len == 0) { got.complete = true; break; }
            if (at + len + 2 > end) break;
            memcpy(got.body + got.body_bytes, at, len);
            got.body_bytes += len;
            at += len + 2;
        }
    }
    got.body[got.body_bytes] = 0;
}

/* Writes a request; `headers` are whole lines with CRLF, NULL: a Host line. */
static void loop_ask(int fd, const char *method, const char *path, const char *headers,
                     const char *body)
{
    char head[8192];
    u64 bytes = body == NULL ? 0 : strlen(body);
    int n = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\n%s", method, path,
                     headers == NULL ? "Host: localhost\r\n" : headers);
    if (body != NULL)
        n += snprintf(head + n, sizeof head - (u64)n, "Content-Length: %llu\r\n", (ull)bytes);
    n += snprintf(head + n, sizeof head - (u64)n, "\r\n");
    loop_send(fd, head, (u64)n);
    if (body != NULL) loop_send(fd, body, bytes);
}

/* One request on its own connection, read to its end. */
static int loop_do(const char *method, const char *path, const char *headers, const char *body)
{
    char lines[4096];
    int fd = loop_connect();
    snprintf(lines, sizeof lines, "%sConnection: close\r\n",
             headers == NULL ? "Host: localhost\r\n" : headers);
    loop_ask(fd, method, path, lines, body);
    got.raw_bytes = loop_read(fd, got.raw, sizeof got.raw, NULL, 10000);
    close(fd);
    loop_parse();
    return got.status;
}

static bool loop_has(const char *text) { return strstr(got.body, text) != NULL; }

#endif
