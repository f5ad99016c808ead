/* tests/fuzz/base.c - seeded mutations of msgpack messages and JSON against base's readers.
 *
 * Each input lies in a buffer of its exact size, so that asan sees a read past its end.  What is
 * accepted is walked wholly: counts and lengths must lie inside, and JSON written again must read
 * back to the same text. */
#include "tests/test.h"

#include "arena/base/json.h"
#include "arena/base/pack.h"
#include "arena/base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 30000 };

/* `seed` with a few bytes changed, dropped, doubled or cut, in a buffer of its exact size. */
static u8 *mutated(const u8 *seed, u64 seed_count, u64 round, u64 *count_out)
{
    u8 wide[1024];
    u64 count = seed_count, r = rng_u64(1, round);
    ASSERT(seed_count <= sizeof wide / 2);
    memcpy(wide, seed, count);
    for (u64 edit = 0; edit <= r % 4; edit++) {
        u64 e = rng_u64(round, edit), at = e % (count + 1), n = MIN(1 + (e >> 8) % 8, count - at);
        switch ((e >> 16) % 5) {
        case 0: if (at < count) wide[at] = (u8)(e >> 24); break;
        case 1: if (at < count) wide[at] = (u8)(0xC0 | (e >> 24)); break;
        case 2: memmove(wide + at, wide + at + n, count - at - n); count -= n; break;
        case 3: memmove(wide + at + n, wide + at, count - at); count += n; break;
        default: if ((e >> 24) % 4 == 0) count = at;
        }
    }
    u8 *exact = malloc(MAX(count, 1));
    memcpy(exact, wide, count);
    *count_out = count;
    return exact;
}

TEST(mutated_messages_are_refused_or_walked_to_their_end)
{
    struct pack_out out = { 0 };
    pack_map(&out, 5);
    pack_cstr(&out, "v");
    pack_u64(&out, 1);
    pack_cstr(&out, "op");
    pack_cstr(&out, "memory");
    pack_cstr(&out, "args");
    pack_map(&out, 2);
    pack_cstr(&out, "tree");
    pack_bool(&out, true);
    pack_cstr(&out, "rows");
    pack_array(&out, 4);
    for (u32 i = 0; i < 4; i++) pack_f64(&out, 0.5 * i);
    pack_cstr(&out, "low");
    pack_i64(&out, -70000);
    pack_cstr(&out, "raw");
    pack_bin(&out, "\0\1\2", 3);
    u32 good = 0;
    for (u64 round = 0; round < ROUNDS; round++) {
        u64 count;
        u8 *bytes = mutated(out.bytes, out.count, round, &count);
        struct pack_at map, at;
        if (pack_open(bytes, count, 4096, &map) == OK) {
            struct pack_item item;
            u64 n;
            const char *text;
            u32 text_bytes, values = 0;
            for (at = map; pack_next(&at, &item); values++)
                if (item.bytes != NULL) CHECK(item.bytes + item.count <= bytes + count);
            CHECK(at.at == at.end && values <= count);
            at = map;
            pack_skip(&at);
            CHECK(at.at == bytes + count);
            if (pack_get_u64(map, "v", &n) == OK && pack_get_str(map, "op", &text, &text_bytes) ==
                OK) CHECK((const u8 *)text + text_bytes <= bytes + count);
            good++;
        }
        free(bytes);
    }
    CHECK(good > ROUNDS / 20 && good < ROUNDS);
    pack_out_close(&out);
}

TEST(mutated_json_is_refused_or_written_again_to_what_reads_back)
{
    const char *seed = "{\"model\": \"m\", \"n\": [1, -2, 3.5e3, true, null], \"messages\": "
                       "[{\"role\": \"user\", \"content\": \"\\u00e9\\ud83d\\ude00 \xc3\xa9\"}]}";
    const struct json_limits limits = { .bytes_max = 4096, .depth_max = 16 };
    u32 good = 0;
    for (u64 round = 0; round < ROUNDS; round++) {
        u64 count;
        char *text = (char *)mutated((const u8 *)seed, strlen(seed), round, &count);
        struct json_doc doc = { 0 };
        struct json_at root;
        if (json_open(text, count, limits, "body", &doc, &root) == OK) {
            struct json_out once = { 0 }, twice = { 0 };
            json_put_value(&once, &root);
            CHECK_OK(json_out_check(&once));
            json_close(&doc);
            CHECK_OK(json_open(once.text, once.bytes, limits, NULL, &doc, &root));
            json_put_value(&twice, &root);
            CHECK(once.bytes == twice.bytes && memcmp(once.text, twice.text, once.bytes) == 0);
            json_close(&doc);
            json_out_close(&once);
            json_out_close(&twice);
            good++;
        }
        free(text);
    }
    CHECK(good > ROUNDS / 20 && good < ROUNDS);
}
