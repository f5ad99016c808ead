/* tests/fuzz/profile.c - mutated profiles and command lines: refused in words, or loaded sound. */
#include "arena/base/rng.h"
#include "budget/profile_embedded.h"
#include "http/options.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 1500, TEXT_CAP = 8192 };

static u64 seed = 1, drawn;

static u64 roll(u64 below)
{
    return rng_u64(seed, drawn++) % below;
}

/* Bytes changed, cut, doubled, or a piece of another key's line put in. */
static u64 mutate(char *text, u64 bytes)
{
    static const char *const pieces[] = {
        "\n[yield]\nlive = ", "=", "\n", " GiB", "\0x", "999999999999999999999", "-1", "[", "]",
        "\xff\xfe", "board-gb = 1\n", ";", "1.", ".", "e5", "\n ", ",", "anchors", "%s%n",
    };
    for (u64 n = 1 + roll(6); n > 0 && bytes > 0; n--) {
        u64 at = roll(bytes);
        const char *piece = pieces[roll(COUNT_OF(pieces))];
        switch (roll(4)) {
        case 0: text[at] = (char)roll(256); break;
        case 1: bytes = roll(8) == 0 ? at : bytes; break;
        case 2:
            memmove(text + at, text + at + 1, bytes - at - 1);
            bytes--;
            break;
        default:
            if (bytes + strlen(piece) >= TEXT_CAP) break;
            memmove(text + at + strlen(piece), text + at, bytes - at);
            memcpy(text + at, piece, strlen(piece));
            bytes += strlen(piece);
        }
    }
    return bytes;
}

TEST(a_mutated_profile_is_refused_with_file_and_line_or_loads_sound)
{
    static struct profile_row row;
    static char text[TEXT_CAP];
    char path[] = "/tmp/holdfast-fuzz-XXXXXX.conf", place[64];
    u32 refused = 0;
    close(mkstemps(path, 5));
    snprintf(place, sizeof place, "%s:", path);
    for (u32 i = 0; i < ROUNDS; i++) {
        struct profile_embedded e;
        seed = i;
        drawn = 0;
        CHECK(profile_embedded_find(profile_embedded_names[i % PROFILE_EMBEDDED_COUNT], &e));
        memcpy(text, e.text, e.bytes);
        u64 bytes = mutate(text, e.bytes);
        FILE *file = fopen(path, "w");
        CHECK(file != NULL && fwrite(text, 1, bytes, file) == bytes);
        fclose(file);
        enum err got = profile_load(path, &row);
        if (got == OK) got = profile_check(&row);
        if (got != OK) {
            refused++;
            CHECK_EQ(got, ERR_CONFIG);
            CHECK(strncmp(err_last()->text, place, strlen(place)) == 0);
            continue;
        }
        CHECK(row.heap_reserve_bytes <= row.heap_cap_bytes && row.parallel > 0);
        CHECK(row.cache_budget_bytes <= row.board_bytes && row.yield_count <= PROFILE_YIELD_CAP);
        CHECK(memchr(row.host, 0, sizeof row.host) != NULL);
    }
    unlink(path);
    printf("%u of %u refused\n", refused, ROUNDS);
    CHECK(refused > ROUNDS / 10 && refused < ROUNDS);
}

TEST(random_command_lines_are_refused_with_a_text_or_parse)
{
    static struct options o;
    static const char *const words[] = {
        "serve", "run", "bench", "tiny", "mem", "--ctx", "--port=", "--port", "80", "-p", "", "-",
        "--", "--=", "--help", "-m", "x", "--no-auth", "--no-auth=off", "--test-hooks", "--grid",
        "16", "--seed", "--json", "--url", "http://", "--profile", "cpu-8g", "--profile=cpu-24g",
        "1GiB", "--resident-gb", "9999999999999999999", "--reasoning-effort", "low", "%n%s",
    };
    u32 parsed = 0;
    for (u32 i = 0; i < ROUNDS; i++) {
        char copy[10][32], *argv[10];
        int argc = 1 + (int)(rng_u64(7, i) % 9);
        seed = 100000 + i;
        drawn = 0;
        for (int k = 0; k < argc; k++) {
            u64 pick = k == 1 ? roll(5) : roll(COUNT_OF(words));
            snprintf(copy[k], sizeof copy[k], "%s", words[pick]);
            if (roll(10) == 0 && copy[k][0] != 0) copy[k][roll(strlen(copy[k]))] = (char)roll(256);
            argv[k] = copy[k];
        }
        enum err got = options_parse(argc, argv, &o);
        if (got == OK) parsed++;
        else CHECK(err_last()->text[0] != 0);
    }
    CHECK(parsed > 20 && parsed < ROUNDS);
}
