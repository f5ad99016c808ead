/* tests/arena/ring.c - the ring alone, full, wrapped, between threads; the wake word. */
#include "tests/test.h"

#include "arena/base/clock.h"
#include "arena/base/ring.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

TEST(a_ring_gives_back_what_was_pushed_in_order_and_says_full_and_empty)
{
    static struct ring_cell cell[4];
    struct ring ring;
    ring_open(&ring, cell, 4, NULL);
    u32 value = 77;
    CHECK(!ring_pop(&ring, &value));
    CHECK_EQ(value, 77);
    for (u32 round = 0; round < 5; round++) {
        for (u32 i = 0; i < 4; i++) CHECK(ring_push(&ring, 10 * round + i));
        CHECK(!ring_push(&ring, 99));
        CHECK_EQ(ring_count(&ring), 4);
        for (u32 i = 0; i < 4; i++) {
            CHECK(ring_pop(&ring, &value));
            CHECK_EQ(value, 10 * round + i);
        }
        CHECK(!ring_pop(&ring, &value));
        CHECK_EQ(ring_count(&ring), 0);
    }
}

TEST(places_may_wrap_around_32_bits)
{
    static struct ring_cell cell[4];
    struct ring ring;
    ring_open(&ring, cell, 4, NULL);
    u32 start = UINT32_MAX - 1;
    ring.head = start;
    ring.tail = start;
    for (u32 i = 0; i < 4; i++) cell[(start + i) & 3].turn = start + i;
    u32 value;
    for (u32 i = 0; i < 4; i++) CHECK(ring_push(&ring, i));
    CHECK(!ring_push(&ring, 4));
    for (u32 i = 0; i < 4; i++) {
        CHECK(ring_pop(&ring, &value));
        CHECK_EQ(value, i);
    }
    CHECK(!ring_pop(&ring, &value));
}

enum { PUSHERS = 2, POPPERS = 2, EACH = 20000 };

struct crossing {
    struct ring ring;
    struct ring_wake wake;
    struct ring_cell cell[64];
    _Atomic u32 popped;
    _Atomic u8  seen[PUSHERS * EACH];
};
static struct crossing crossing;
static u32 pusher_index[PUSHERS] = { 0, 1 };

static void *pusher(void *arg)
{
    u32 first = *(u32 *)arg * EACH;
    for (u32 i = 0; i < EACH; i++)
        while (!ring_push(&crossing.ring, first + i)) sched_yield();
    return NULL;
}

static void *popper(void *arg)
{
    (void)arg;
    u32 last[PUSHERS] = { 0, 0 };
    for (;;) {
        u32 seen = ring_word(&crossing.wake), value;
        while (ring_pop(&crossing.ring, &value)) {
            u32 from = value / EACH;
            if (value % EACH + 1 <= last[from]) return arg;     /* one pusher's order broke   */
            last[from] = value % EACH + 1;
            atomic_fetch_add(&crossing.seen[value], 1);
            if (atomic_fetch_add(&crossing.popped, 1) + 1 == PUSHERS * EACH)
                ring_wake_ring(&crossing.wake);
        }
        if (atomic_load(&crossing.popped) == PUSHERS * EACH) return NULL;
        ring_wait(&crossing.wake, seen, clock_us() + 5000000);
    }
}

TEST(every_value_crosses_once_between_two_pushers_and_two_poppers)
{
    crossing.wake.event_fd = -1;
    ring_open(&crossing.ring, crossing.cell, 64, &crossing.wake);
    pthread_t thread[PUSHERS + POPPERS];
    static u32 broken;
    for (u32 i = 0; i < PUSHERS; i++)
        CHECK(pthread_create(&thread[i], NULL, pusher, &pusher_index[i]) == 0);
    for (u32 i = 0; i < POPPERS; i++)
        CHECK(pthread_create(&thread[PUSHERS + i], NULL, popper, &broken) == 0);
    for (u32 i = 0; i < PUSHERS + POPPERS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        CHECK(result == NULL);
    }
    for (u32 i = 0; i < PUSHERS * EACH; i++) CHECK_EQ(crossing.seen[i], 1);
}

TEST(a_wait_ends_at_its_deadline_at_a_ring_and_at_once_when_the_word_moved)
{
    struct ring_wake wake = { .event_fd = -1 };
    u32 seen = ring_word(&wake);
    u64 before_us = clock_us();
    CHECK(!ring_wait(&wake, seen, before_us + 20000));
    CHECK(clock_us() - before_us >= 15000);
    CHECK(!ring_wait(&wake, seen, 0));
    ring_wake_ring(&wake);
    CHECK(ring_wait(&wake, seen, UINT64_MAX));
}

TEST(a_ring_writes_to_the_event_fd)
{
    struct ring_wake wake = { .event_fd = eventfd(0, EFD_NONBLOCK) };
    CHECK(wake.event_fd >= 0);
    u64 count = 0;
    CHECK(read(wake.event_fd, &count, sizeof count) < 0);
    ring_wake_ring(&wake);
    ring_wake_ring(&wake);
    CHECK(read(wake.event_fd, &count, sizeof count) == sizeof count);
    CHECK_EQ(count, 2);
    close(wake.event_fd);
}
