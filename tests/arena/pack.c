/* tests/arena/pack.c - what is packed reads back; what lies is refused before it is used. */
#include "tests/test.h"

#include "arena/base/pack.h"
#include "arena/base/rng.h"

#include <string.h>

TEST(a_message_reads_back_and_equal_records_give_equal_bytes)
{
    struct pack_out out[2] = { { 0 } };
    for (u32 i = 0; i < 2; i++) {
        pack_map(&out[i], 7);
        pack_cstr(&out[i], "v");
        pack_u64(&out[i], 1);
        pack_cstr(&out[i], "op");
        pack_cstr(&out[i], "stats");
        pack_cstr(&out[i], "low");
        pack_i64(&out[i], -70000);
        pack_cstr(&out[i], "x");
        pack_f64(&out[i], 0.25);
        pack_cstr(&out[i], "yes");
        pack_bool(&out[i], true);
        pack_cstr(&out[i], "list");
        pack_array(&out[i], 3);
        pack_nil(&out[i]);
        pack_bin(&out[i], "\0\1", 2);
        pack_u64(&out[i], UINT64_MAX);
        pack_cstr(&out[i], "last");
        pack_cstr(&out[i], NULL);
        CHECK_OK(pack_out_check(&out[i]));
    }
    CHECK(out[0].count == out[1].count && memcmp(out[0].bytes, out[1].bytes, out[0].count) == 0);

    struct pack_at map, at;
    struct pack_item item;
    u64 v = 0;
    i64 low = 0;
    f64 x = 0;
    bool yes = false;
    const char *text = NULL;
    u32 bytes = 0;
    CHECK_OK(pack_open(out[0].bytes, out[0].count, 1024, &map));
    CHECK_OK(pack_get_u64(map, "v", &v));
    CHECK_OK(pack_get_str(map, "op", &text, &bytes));
    CHECK_OK(pack_get_i64(map, "low", &low));
    CHECK_OK(pack_get_f64(map, "x", &x));
    CHECK_OK(pack_get_bool(map, "yes", &yes));
    CHECK(v == 1 && bytes == 5 && memcmp(text, "stats", 5) == 0 && low == -70000 && x == 0.25);
    CHECK(yes);
    CHECK(pack_find(map, "list", &at));
    CHECK(pack_next(&at, &item) && item.kind == PACK_ARRAY && item.count == 3);
    CHECK(pack_next(&at, &item) && item.kind == PACK_NIL);
    CHECK(pack_next(&at, &item) && item.kind == PACK_BIN && item.count == 2);
    CHECK(pack_next(&at, &item) && item.kind == PACK_UINT && item.uint == UINT64_MAX);
    CHECK(pack_find(map, "last", &at) && pack_next(&at, &item) && item.kind == PACK_NIL);
    CHECK(!pack_next(&at, &item));
    CHECK(!pack_find(map, "las", &at));
    CHECK_EQ(pack_get_u64(map, "none", &v), ERR_FORMAT);
    CHECK_STR(err_last()->text, "none: missing");
    CHECK_EQ(pack_get_u64(map, "op", &v), ERR_FORMAT);
    pack_out_close(&out[0]);
    pack_out_close(&out[1]);
}

TEST(integers_of_every_width_read_back)
{
    for (u32 bits = 0; bits < 64; bits++)
        for (i32 near = -1; near <= 1; near++) {
            u64 value = ((u64)1 << bits) + (u64)(i64)near;
            struct pack_out out = { 0 };
            struct pack_at at;
            struct pack_item item;
            pack_u64(&out, value);
            CHECK_OK(pack_open(out.bytes, out.count, 64, &at));
            CHECK(pack_next(&at, &item) && item.kind == PACK_UINT && item.uint == value);
            pack_out_clear(&out);
            i64 negative = value <= INT64_MAX ? -(i64)value : INT64_MIN;
            pack_i64(&out, negative);
            CHECK_OK(pack_open(out.bytes, out.count, 64, &at));
            CHECK(pack_next(&at, &item) && item.sint == negative);
            CHECK(item.kind == (negative < 0 ? PACK_INT : PACK_UINT));
            pack_out_close(&out);
        }
}

static enum err open_bytes(const char *bytes, u32 count)
{
    struct pack_at at;
    return pack_open(bytes, count, 64, &at);
}

TEST(lies_are_refused)
{
    CHECK_EQ(open_bytes("", 0), ERR_FORMAT);
    CHECK_EQ(open_bytes("\xc1", 1), ERR_FORMAT);
    CHECK_EQ(open_bytes("\xdd\xff\xff\xff\xff", 5), ERR_FORMAT);        /* 4 G items          */
    CHECK_EQ(open_bytes("\xdf\xff\xff\xff\xff", 5), ERR_FORMAT);
    CHECK_EQ(open_bytes("\xdb\xff\xff\xff\xff", 5), ERR_FORMAT);        /* 4 GiB of text      */
    CHECK_EQ(open_bytes("\xc9\xff\xff\xff\xff\x01", 6), ERR_FORMAT);    /* ext, sum wraps     */
    CHECK_EQ(open_bytes("\xa3" "ab", 3), ERR_FORMAT);
    CHECK_EQ(open_bytes("\xcf\x01", 2), ERR_FORMAT);
    CHECK_EQ(open_bytes("\x01\x02", 2), ERR_FORMAT);                    /* something after    */
    CHECK_EQ(open_bytes("\x92\x01", 2), ERR_FORMAT);
    CHECK_OK(open_bytes("\x92\x01\xd4\x05\x06", 5));
    char deep[20];
    memset(deep, '\x91', sizeof deep);
    deep[16] = 1;
    CHECK_OK(open_bytes(deep, 17));
    deep[16] = '\x91';
    deep[17] = 1;
    CHECK_EQ(open_bytes(deep, 18), ERR_LIMIT);
    struct pack_at at;
    char zeros[65] = { 0 };
    CHECK_EQ(pack_open(zeros, 65, 64, &at), ERR_LIMIT);
}

TEST(random_bytes_never_run_over_the_end)
{
    u32 good = 0;
    for (u32 round = 0; round < 20000; round++) {
        u8 bytes[24];
        u32 count = 1 + (u32)(rng_u64(1, round) % sizeof bytes);
        for (u32 i = 0; i < count; i++) bytes[i] = (u8)(rng_u64(round, i) | (rng_u64(round, i + 99)
                                                        & 0x80));
        struct pack_at at, found;
        if (pack_open(bytes, count, sizeof bytes, &at) != OK) continue;
        good++;
        pack_find(at, "a", &found);
        pack_skip(&at);
        CHECK(at.at == bytes + count);
    }
    CHECK(good > 20);
}
