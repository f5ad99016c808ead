/* http/serve/pump.c - suspended connections have one watcher: libmicrohttpd sees neither their
 * close nor a timeout (dependencies.md 2.4). */
#include "http/serve/pump.h"

#include "arena/base/clock.h"
#include "arena/base/log.h"
#include "arena/heap.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PUMP_EVENTS = 64, PUMP_BUSY_US = 50 * 1000, PUMP_MAX_MS = 5000 };

static struct ring_wake wake = { .event_fd = -1 };
static int epoll_fd = -1;
static pthread_t thread;
static bool running;
static _Atomic bool ending, stopping;

struct ring_wake *pump_wake(void) { return &wake; }
bool pump_closing(void) { return atomic_load(&ending); }

void pump_end(void)
{
    atomic_store(&ending, true);
    ring_wake_ring(&wake);
}

/* A late event of a row's earlier connection must not hit the next one. */
static u64 key_of(const struct exchange *x) { return (u64)x->generation << 32 | x->index; }

void pump_watch(struct exchange *x)
{
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLET, .data.u64 = key_of(x) };
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, x->fd, &event) != 0 && errno != EEXIST)
        log_line(LOG_LEVEL_WARN, "a waiting connection is not watched: %s", strerror(errno));
    ring_wake_ring(&wake);                              /* its deadline may be the nearest       */
}

void pump_unwatch(struct exchange *x)
{
    struct epoll_event none = {0};
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, x->fd, &none);   /* not in the set: nothing happens       */
}

static void closed(u64 key)
{
    struct exchange *x = exchange_at((u32)key);
    pthread_mutex_lock(&x->lock);
    if (atomic_load(&x->state) == EXCHANGE_USED && key == key_of(x) &&
        atomic_load(&x->wait) != EXCHANGE_WAIT_NONE) {
        atomic_store(&x->gone, true);
        if (x->suspended && x->submit != NONE) submit_cancel(x->submit);
    }
    pthread_mutex_unlock(&x->lock);
}

/* Resumes a row that has something to do; returns when it must be looked at again. */
static u64 visit(struct exchange *x, u64 now)
{
    u32 state = atomic_load(&x->state);
    if (state == EXCHANGE_FREE) return UINT64_MAX;
    if (state == EXCHANGE_ABANDONED) { exchange_reap(x, false); return UINT64_MAX; }
    u64 due = UINT64_MAX;
    pthread_mutex_lock(&x->lock);
    if (x->suspended && exchange_ready(x, now)) {
        x->suspended = false;
        MHD_resume_connection(x->connection);
    } else if (atomic_load(&x->wait) != EXCHANGE_WAIT_NONE) {
        due = atomic_load(&x->due_us);
        if (due <= now) due = now + PUMP_BUSY_US;       /* its thread is at it                   */
    }
    pthread_mutex_unlock(&x->lock);
    return due;
}

static void drain_wake(void)
{
    u64 count;
    while (read(wake.event_fd, &count, sizeof count) == (ssize_t)sizeof count) {}
}

static void *pump_run(void *unused)
{
    struct epoll_event events[PUMP_EVENTS];
    arena_heap_bind();
    while (!atomic_load(&stopping)) {                   /* until pump_stop                       */
        u64 now = clock_us(), due = UINT64_MAX;
        for (u32 i = 0; i < exchange_cap(); i++) due = MIN(due, visit(exchange_at(i), now));
        u64 left = due <= now ? 0 : (due - now + 999) / 1000;
        int count = epoll_wait(epoll_fd, events, PUMP_EVENTS, (int)MIN(left, (u64)PUMP_MAX_MS));
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == UINT64_MAX) drain_wake();
            else closed(events[i].data.u64);
        }
    }
    return unused;
}

void pump_settle(void)
{
    for (u32 i = 0; i < exchange_cap(); i++) (void)visit(exchange_at(i), clock_us());
}

enum err pump_open(void)
{
    atomic_store(&ending, false);
    atomic_store(&stopping, false);
    wake.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = UINT64_MAX };
    if (wake.event_fd < 0 || epoll_fd < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake.event_fd, &event) != 0) {
        enum err code = fail(ERR_IO, "eventfd and epoll: %s", strerror(errno));
        pump_stop();
        return code;
    }
    int failed = pthread_create(&thread, NULL, pump_run, NULL);
    if (failed != 0) {
        enum err code = fail(ERR_IO, "the pump thread did not start: %s", strerror(failed));
        pump_stop();
        return code;
    }
    running = true;
    return OK;
}

void pump_stop(void)
{
    if (running) {
        atomic_store(&stopping, true);
        ring_wake_ring(&wake);
        pthread_join(thread, NULL);
        running = false;
    }
    if (wake.event_fd >= 0) close(wake.event_fd);
    if (epoll_fd >= 0) close(epoll_fd);
    wake.event_fd = -1;
    epoll_fd = -1;
}
