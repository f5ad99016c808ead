/* arena/base/ring.c - cells with a turn number; a futex for the wake word. */
#include "arena/base/ring.h"

#include "arena/base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A cell at place p (p counts up without end, cell p & mask) is free for the push of place p when
 * its turn is p, and full for the pop of place p when its turn is p + 1; a pop leaves p + cap. */
void ring_open(struct ring *ring, struct ring_cell *cell, u32 cap, struct ring_wake *wake)
{
    ASSERT(cap >= 2 && (cap & (cap - 1)) == 0);
    ring->cell = cell;
    ring->wake = wake;
    ring->mask = cap - 1;
    for (u32 i = 0; i < cap; i++) {
        atomic_init(&cell[i].turn, i);
        cell[i].value = 0;
    }
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
}

bool ring_push(struct ring *ring, u32 value)
{
    u32 place = atomic_load_explicit(&ring->head, memory_order_relaxed);
    for (;;) {                          /* ends: another thread got the place, or it is full  */
        struct ring_cell *cell = &ring->cell[place & ring->mask];
        u32 turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        i32 apart = (i32)(turn - place);
        if (apart < 0) return false;
        if (apart > 0) {
            place = atomic_load_explicit(&ring->head, memory_order_relaxed);
            continue;
        }
        if (!atomic_compare_exchange_weak_explicit(&ring->head, &place, place + 1,
                                                   memory_order_relaxed, memory_order_relaxed))
            continue;
        cell->value = value;
        atomic_store_explicit(&cell->turn, place + 1, memory_order_release);
        if (ring->wake != NULL) ring_wake_ring(ring->wake);
        return true;
    }
}

bool ring_pop(struct ring *ring, u32 *out)
{
    u32 place = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    for (;;) {                          /* ends as in ring_push                               */
        struct ring_cell *cell = &ring->cell[place & ring->mask];
        u32 turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        i32 apart = (i32)(turn - (place + 1));
        if (apart < 0) return false;
        if (apart > 0) {
            place = atomic_load_explicit(&ring->tail, memory_order_relaxed);
            continue;
        }
        if (!atomic_compare_exchange_weak_explicit(&ring->tail, &place, place + 1,
                                                   memory_order_relaxed, memory_order_relaxed))
            continue;
        *out = cell->value;
        atomic_store_explicit(&cell->turn, place + ring->mask + 1, memory_order_release);
        return true;
    }
}

u32 ring_count(const struct ring *ring)
{
    u32 tail = atomic_load(&ring->tail), head = atomic_load(&ring->head);
    return MIN(head - tail, ring->mask + 1);
}

void ring_wake_ring(struct ring_wake *wake)
{
    i32 saved = errno;                  /* signal handlers call this                          */
    atomic_fetch_add_explicit(&wake->word, 1, memory_order_release);
    syscall(SYS_futex, &wake->word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    if (wake->event_fd >= 0) {
        u64 one = 1;                    /* fails only when full, and then it is readable      */
        if (write(wake->event_fd, &one, sizeof one) < 0) errno = saved;
    }
    errno = saved;
}

u32 ring_word(const struct ring_wake *wake)
{
    return atomic_load_explicit(&wake->word, memory_order_acquire);
}

bool ring_wait(struct ring_wake *wake, u32 seen, u64 deadline_us)
{
    if (ring_word(wake) != seen) return true;
    struct timespec left, *limit = NULL;
    if (deadline_us != UINT64_MAX) {
        u64 now_us = clock_us();
        if (now_us >= deadline_us) return false;
        u64 left_us = deadline_us - now_us;
        left.tv_sec = (time_t)(left_us / 1000000u);
        left.tv_nsec = (long)(left_us % 1000000u) * 1000;
        limit = &left;
    }
    syscall(SYS_futex, &wake->word, FUTEX_WAIT_PRIVATE, seen, limit, NULL, 0);
    return ring_word(wake) != seen;
}
