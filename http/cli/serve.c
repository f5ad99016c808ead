/* http/cli/serve.c - start and stop of the server, in order (layout: options, model's files,
 * arenas and graph, HTTP threads that answer 503 `loading`, weights, engine, ready).
 *
 * Each step needs only what stands before it.  SIGTERM and SIGINT drain; a second one ends running
 * turns at once; SIGUSR1 writes a memory dump. */
#include "http/cli/serve.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "http/chat/force.h"
#include "http/cli/start.h"
#include "http/serve/server.h"
#include "http/turn/engine.h"
#include "model/model.h"
#include "model/weights.h"

enum { PROGRESS_US = 250 * 1000, PROGRESS_LINE_US = 5 * 1000 * 1000, CLOSE_WAIT_US = 5000000 };

static struct chat_model chat;
static struct { pthread_t thread; struct ring_wake wake; _Atomic u32 over; bool runs; } progress;

/* ---------------------------------------------------------------- signals */

static void on_stop(int number)
{
    (void)number;
    server_drain();
    engine_stop();
}

static void on_dump(int number)
{
    (void)number;
    engine_dump();
}

/* While loading there is nothing to drain or dump: SIGTERM ends it, SIGUSR1 changes nothing. */
static void signals_loading(void)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigaction(SIGUSR1, &ignore, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

static void signals(void)
{
    struct sigaction stop = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
    struct sigaction dump = { .sa_handler = on_dump, .sa_flags = SA_RESTART };
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGUSR1, &dump, NULL);
}

/* ---------------------------------------------------------------- loading */

/* Tells HTTP threads and the log how far the weights are, until `over`. */
static void *watch_progress(void *unused)
{
    (void)unused;
    const struct weights_progress *p = weights_progress();
    u64 line_us = clock_us() + PROGRESS_LINE_US;
    while (atomic_load(&progress.over) == 0) {
        u64 done = p->done_bytes, total = p->total_bytes;
        server_set_loading(PHASE_WEIGHTS, done, total);
        if (clock_us() >= line_us) {
            log_line(LOG_LEVEL_INFO, "loading weights: %llu of %llu MiB", (ull)(done / MIB),
                     (ull)(total / MIB));
            line_us += PROGRESS_LINE_US;
        }
        ring_wait(&progress.wake, 0, clock_us() + PROGRESS_US);
    }
    return NULL;
}

static void progress_start(void)
{
    progress.wake.event_fd = -1;
    progress.runs = pthread_create(&progress.thread, NULL, watch_progress, NULL) == 0;
}

static void progress_stop(void)
{
    if (!progress.runs) return;
    atomic_store(&progress.over, 1);
    ring_wake_ring(&progress.wake);
    pthread_join(progress.thread, NULL);
    progress.runs = false;
}

static enum err listen_on(const struct profile_row *p)
{
    return server_open(&(struct server_setup){
        .auth = { .host = p->host, .api_key_file = p->api_key_file,
                  .admin_key_file = p->admin_key_file, .host_names = p->host_names,
                  .cors_origins = p->cors_origins, .no_auth = p->no_auth },
        .port = p->port, .connections = p->connections, .body_bytes = p->body_bytes,
        .keepalive_us = p->keepalive_us,
    });
}

/* ---------------------------------------------------------------- the word */

static enum err serve(const struct profile_row *p)
{
    signals_loading();
    TRY(start_plan(p));
    TRY(start_arenas());
    TRY(listen_on(p));
    progress_start();
    enum err err = start_load();
    progress_stop();
    if (err != OK) return err;
    TRY(start_engine());
    server_set_loading(PHASE_RESTORE, 0, 0);
    engine_restore();
    start_chat(&chat);
    if (p->force_file[0] != 0) TRY(force_open(p->force_file));
    signals();
    server_ready(&chat);
    bool six = strchr(p->host, ':') != NULL;    /* an address of IPv6 stands in brackets      */
    printf("holdfast: listening on http://%s%s%s:%u (model %s, ctx %llu, backend %s)\n",
           six ? "[" : "", p->host, six ? "]" : "", server_port(), model_name(),
           (ull)start_ctx(), model_ops()->name);
    fflush(stdout);
    if (p->test_hooks) log_line(LOG_LEVEL_WARN, "test hooks are on");
    engine_run();
    log_line(LOG_LEVEL_INFO, "drained: no turn is left%s", p->cache_dir[0] != 0 ? ""
             : "; conversations end here (--cache-dir is off)");
    return OK;
}

enum err serve_run(const struct options *o)
{
    log_level_set((enum log_level)o->profile.log_level);
    enum err err = serve(&o->profile);
    server_drain();
    server_close(CLOSE_WAIT_US);
    start_close();
    return err;
}
