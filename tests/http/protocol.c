/* tests/http/protocol.c - admin messages: both sides agree, and broken bytes are refused. */
#include "http/admin/protocol.h"
#include "arena/base/rng.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

static bool says(const char *part)
{
    if (strstr(err_last()->text, part) != NULL) return true;
    printf("not in \"%s\": %s\n", err_last()->text, part);
    return false;
}

TEST(every_op_round_trips)
{
    for (u32 i = 0; i < PROTOCOL_SET; i++) {
        struct pack_out out = { 0 };
        enum protocol_op op = PROTOCOL_OP_COUNT;
        const char *text;
        u32 bytes;
        protocol_put_request(&out, (enum protocol_op)i);
        CHECK_OK(pack_out_check(&out));
        CHECK_OK(protocol_read(out.bytes, out.count, &op));
        CHECK_EQ(op, i);
        pack_out_clear(&out);
        protocol_put_ok(&out, op, "{\"a\":1}", 7);
        CHECK_OK(pack_out_check(&out));
        CHECK_OK(protocol_read_answer(out.bytes, out.count, &text, &bytes));
        CHECK(bytes == 7 && memcmp(text, "{\"a\":1}", 7) == 0);
        pack_out_close(&out);
    }
}

TEST(a_cap_crosses_with_its_node_or_is_refused_by_name)
{
    struct pack_out out = { 0 };
    struct protocol_set set;
    enum protocol_op op;
    const u64 caps[] = { 0, 1, 1ull << 40, UINT64_MAX };
    for (u32 i = 0; i < COUNT_OF(caps); i++) {
        pack_out_clear(&out);
        protocol_put_set(&out, "anchors", caps[i]);
        CHECK_OK(pack_out_check(&out));
        CHECK_OK(protocol_read(out.bytes, out.count, &op));
        CHECK_EQ(op, PROTOCOL_SET);
        CHECK_OK(protocol_read_set(out.bytes, out.count, &set));
        CHECK_STR(set.node, "anchors");
        CHECK(set.cap_bytes == caps[i]);
    }
    pack_out_clear(&out);
    protocol_put_set(&out, "a_node_of_a_name_longer_than_any_node_has", 1);
    CHECK_EQ(protocol_read_set(out.bytes, out.count, &set), ERR_FORMAT);
    pack_out_clear(&out);
    protocol_put_request(&out, PROTOCOL_STATS);
    CHECK_EQ(protocol_read_set(out.bytes, out.count, &set), ERR_FORMAT);
    pack_out_close(&out);
}

TEST(an_error_crosses_with_its_code_and_text)
{
    struct pack_out out = { 0 };
    const char *text;
    u32 bytes;
    protocol_put_err(&out, ERR_MEMORY, "the heap is full");
    CHECK_EQ(protocol_read_answer(out.bytes, out.count, &text, &bytes), ERR_MEMORY);
    CHECK_STR(err_last()->text, "the heap is full");
    pack_out_close(&out);
}

static enum err ask(u64 version, const char *op, const char *format)
{
    struct pack_out out = { 0 };
    enum protocol_op got;
    pack_map(&out, format != NULL ? 4 : 3);
    pack_cstr(&out, "unknown");
    pack_array(&out, 1);
    pack_nil(&out);
    pack_cstr(&out, "v");
    pack_u64(&out, version);
    pack_cstr(&out, "op");
    pack_cstr(&out, op);
    if (format != NULL) {
        pack_cstr(&out, "args");
        pack_map(&out, 1);
        pack_cstr(&out, "format");
        pack_cstr(&out, format);
    }
    CHECK_OK(pack_out_check(&out));
    enum err e = protocol_read(out.bytes, out.count, &got);
    pack_out_close(&out);
    if (e == OK && format == NULL && strcmp(op, "memory") == 0) CHECK_EQ(got, PROTOCOL_MEMORY_TREE);
    return e;
}

TEST(what_is_not_served_is_refused_by_name)
{
    CHECK_OK(ask(1, "memory", NULL));
    CHECK_OK(ask(1, "stats", NULL));
    CHECK_OK(ask(1, "memory", "json"));
    CHECK_EQ(ask(2, "memory", NULL), ERR_UNSUPPORTED);
    CHECK(says("version 2"));
    CHECK_EQ(ask(1, "reboot", NULL), ERR_UNSUPPORTED);
    CHECK(says("\"reboot\""));
    CHECK_EQ(ask(1, "memory", "svg"), ERR_UNSUPPORTED);
    CHECK(says("\"svg\" is not served for memory"));
}

TEST(broken_bytes_are_refused_and_never_read_past)
{
    struct pack_out out = { 0 };
    enum protocol_op op;
    const char *text;
    u32 bytes;
    protocol_put_request(&out, PROTOCOL_MEMORY_JSON);
    for (u64 cut = 0; cut < out.count; cut++)
        CHECK(protocol_read(out.bytes, cut, &op) != OK);
    for (u64 n = 0; n < 20000; n++) {
        u8 broken[64];
        memcpy(broken, out.bytes, out.count);
        for (u64 k = 0; k <= n % 3; k++)
            broken[rng_u64(n, 2 * k) % out.count] = (u8)rng_u64(n, 2 * k + 1);
        (void)!protocol_read(broken, out.count, &op);
        (void)!protocol_read_answer(broken, out.count, &text, &bytes);
    }
    CHECK_EQ(protocol_read("\x01", 1, &op), ERR_FORMAT);
    pack_out_close(&out);
}
