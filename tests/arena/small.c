/* tests/arena/small.c - the small rooms of base: clock, rng, hash, crc32, log. */
#include "tests/test.h"

#include "arena/base/clock.h"
#include "arena/base/crc32.h"
#include "arena/base/hash.h"
#include "arena/base/log.h"
#include "arena/base/rng.h"

#include <string.h>

TEST(the_clock_runs_and_stops_where_a_test_puts_it)
{
    u64 before_us = clock_us();
    CHECK(clock_us() >= before_us);
    CHECK(clock_wall_s() > 1.6e9);
    clock_set(123, 4.5);
    CHECK_EQ(clock_us(), 123);
    CHECK(clock_wall_s() == 4.5);
    clock_run();
    CHECK(clock_us() >= before_us && clock_wall_s() > 1.6e9);
}

TEST(random_numbers_are_a_pure_function_of_seed_and_index)
{
    CHECK_EQ(rng_u64(1, 2), rng_u64(1, 2));
    CHECK(rng_u64(1, 2) != rng_u64(2, 1));
    CHECK(rng_u64(0, 0) == 0x871b275e2c983e04u);        /* the bits a seed promises           */
    CHECK(rng_u64(42, 7) == 0x8f3a98ea5e2b958du);
    CHECK(rng_u64(UINT64_MAX, UINT64_MAX) == 0x15c29ca3a6e835e8u);
    CHECK(rng_f32(42, 7) == (f32)0x8f3a98 * 0x1p-24f);
    f64 sum = 0;
    u32 bits[64] = { 0 };
    for (u64 i = 0; i < 4096; i++) {
        f32 x = rng_f32(7, i);
        CHECK(x >= 0.0f && x < 1.0f);
        sum += x;
        for (u32 b = 0; b < 64; b++) bits[b] += (u32)(rng_u64(i, 7) >> b) & 1;
    }
    CHECK(sum / 4096 > 0.48 && sum / 4096 < 0.52);
    for (u32 b = 0; b < 64; b++) CHECK(bits[b] > 1850 && bits[b] < 2250);      /* 6 sigma     */
}

TEST(xxh3_gives_its_published_values)
{
    u64 h[2];
    CHECK(hash_64("", 0) == 0x2d06800538d394c2u);
    hash_128("", 0, h);
    CHECK(h[1] == 0x99aa06d3014798d8u && h[0] == 0x6001c324468d497fu);
    u8 canonical[16];
    hash_put(h, canonical);
    CHECK(canonical[0] == 0x99 && canonical[15] == 0x7f);
    u64 back[2];
    hash_get(canonical, back);
    CHECK(memcmp(back, h, sizeof h) == 0);
}

TEST(pieces_hash_like_the_whole)
{
    static u8 bytes[3000];
    for (u32 i = 0; i < sizeof bytes; i++) bytes[i] = (u8)rng_u64(3, i);
    u64 whole[2], pieces[2];
    hash_128(bytes, sizeof bytes, whole);
    struct hash_state state;
    hash_open(&state);
    for (u32 at = 0; at < sizeof bytes; at += 300) hash_add(&state, bytes + at, 300);
    hash_close(&state, pieces);
    CHECK(memcmp(whole, pieces, sizeof whole) == 0);
}

TEST(a_chain_depends_on_every_id_and_on_what_came_before)
{
    u64 ids[256], a[2], b[2], start[2] = { 0, 0 };
    for (u32 i = 0; i < 256; i++) ids[i] = i;
    hash_chain(start, ids, 256, a);
    ids[255]++;
    hash_chain(start, ids, 256, b);
    CHECK(a[0] != b[0] && a[1] != b[1]);
    u64 c[2] = { a[0], a[1] }, d[2];
    hash_chain(c, ids, 256, d);
    hash_chain(c, ids, 256, c);                         /* in place                           */
    CHECK(memcmp(c, d, sizeof c) == 0);
    hash_chain(b, ids, 256, d);
    CHECK(memcmp(c, d, sizeof c) != 0);
}

TEST(crc32_is_the_one_of_gzip)
{
    CHECK_EQ(crc32_of("123456789", 9), 0xcbf43926u);
    CHECK_EQ(crc32_of("", 0), 0);
    CHECK_EQ(crc32_more(crc32_of("1234", 4), "56789", 5), 0xcbf43926u);
}

TEST(the_log_keeps_the_last_lines_and_cleans_what_it_is_given)
{
    enum log_level level = LOG_LEVEL_OFF;
    CHECK(!log_level_find("loud", &level) && level == LOG_LEVEL_OFF);
    CHECK(log_level_find("warn", &level) && level == LOG_LEVEL_WARN);
    log_level_set(LOG_LEVEL_INFO);
    clock_set(0, 86399.5);
    log_line(LOG_LEVEL_INFO, "one\nforged %d", 1);
    log_line(LOG_LEVEL_DEBUG, "not kept");
    clock_run();
    char tail[4 * LOG_LINE_BYTES];
    u64 bytes = log_tail(tail, sizeof tail);
    const char *want = "1970-01-01T23:59:59.500Z info one?forged 1\n";
    CHECK_EQ(bytes, strlen(want));
    CHECK(memcmp(tail, want, bytes) == 0);
    CHECK_EQ(log_tail(tail, 5), 0);

    char text[2 * LOG_LINE_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    log_line(LOG_LEVEL_ERROR, "%s", text);              /* cut, still one line                */
    bytes = log_tail(tail, LOG_LINE_BYTES);
    CHECK(bytes == LOG_LINE_BYTES - 1 && tail[bytes - 1] == '\n');
    for (u32 i = 0; i < LOG_TAIL_LINES; i++) log_line(LOG_LEVEL_WARN, "line %u", i);
    bytes = log_tail(tail, sizeof tail);
    CHECK(bytes <= sizeof tail && tail[bytes - 1] == '\n');
    CHECK(memcmp(tail + bytes - 9, "line 255\n", 9) == 0);
}
