/* tests/budget/profile.c - profiles: shipped ones, units, and every refusal with file:line. */
#include "budget/measure.h"
#include "budget/profile.h"
#include "budget/profile_embedded.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct profile_row row;
static char path[] = "/tmp/holdfast-profile-XXXXXX.conf";
static bool made;

static enum err load(const char *text)
{
    if (!made) {
        int fd = mkstemps(path, 5);
        CHECK(fd >= 0);
        close(fd);
        made = true;
    }
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
    enum err e = profile_load(path, &row);
    if (e == OK) e = profile_check(&row);
    unlink(path);
    return e;
}

/* The note is `PATH:LINE: ` followed somewhere by `part`. */
static bool says(u32 line, const char *part)
{
    char place[80];
    snprintf(place, sizeof place, "%s:%u: ", path, line);
    const char *text = err_last()->text;
    if (strncmp(text, place, strlen(place)) == 0 && strstr(text, part) != NULL) return true;
    printf("\"%s\" does not begin with \"%s\" or lacks: %s\n", text, place, part);
    return false;
}

TEST(the_shipped_profiles_load_and_their_sums_hold)
{
    for (u32 i = 0; i < PROFILE_EMBEDDED_COUNT; i++) {
        CHECK_OK(profile_load(profile_embedded_names[i], &row));
        CHECK_OK(profile_check(&row));
        CHECK(strstr(row.profile, profile_embedded_names[i]) != NULL);
        CHECK(row.board_bytes > row.cache_budget_bytes && row.parallel == 2);
    }
    CHECK_OK(profile_load("cpu-24g", &row));
    CHECK_EQ(row.heap_cap_bytes, 512 * MIB);
    CHECK_EQ(row.resident_bytes, 5 * GIB / 2);
    CHECK_OK(profile_load("cpu-8g", &row));
    CHECK_EQ(row.heap_cap_bytes, 256 * MIB);
}

TEST(the_embedded_texts_are_the_files)
{
    for (u32 i = 0; i < PROFILE_EMBEDDED_COUNT; i++) {
        char name[64];
        static char text[16384];
        struct profile_embedded e;
        snprintf(name, sizeof name, "profiles/%s.conf", profile_embedded_names[i]);
        FILE *file = fopen(name, "r");
        CHECK(file != NULL);
        size_t bytes = fread(text, 1, sizeof text, file);
        fclose(file);
        CHECK(profile_embedded_find(profile_embedded_names[i], &e));
        CHECK_EQ(e.bytes, bytes);
        CHECK(memcmp(e.text, text, bytes) == 0);
    }
}

TEST(auto_picks_by_free_memory)
{
    budget_measure_fix(20 * GIB, 24 * GIB);
    CHECK_OK(profile_load("auto", &row));
    CHECK(strstr(row.profile, "cpu-24g") != NULL);
    budget_measure_fix(6 * GIB, 8 * GIB);
    CHECK_OK(profile_load("auto", &row));
    CHECK(strstr(row.profile, "cpu-8g") != NULL);
    budget_measure_fix(UINT64_MAX, UINT64_MAX);
}

TEST(units_are_powers_of_1024_bare_and_with_i_and_of_1000_without)
{
    CHECK_OK(load("[budget]\nboard-gb = 10\ncache-budget-gb = 2.5 GiB\nresident-gb = 300MB\n"
                  "heap-cap-mb = 64\nheap-reserve-mb = 2048KiB\nscratch-cap-mb = 1GB\n"
                  "board-floor-gb=0.25\n[server]\ndrain-s = 1.5\nkeepalive-s = 250ms\n"
                  "body-mb = 1000KB\n"));
    CHECK_EQ(row.board_bytes, 10 * GIB);
    CHECK_EQ(row.cache_budget_bytes, 5 * GIB / 2);
    CHECK_EQ(row.resident_bytes, 300000000);
    CHECK_EQ(row.heap_cap_bytes, 64 * MIB);
    CHECK_EQ(row.heap_reserve_bytes, 2 * MIB);
    CHECK_EQ(row.scratch_cap_bytes, 1000000000);
    CHECK_EQ(row.board_floor_bytes, GIB / 4);
    CHECK_EQ(row.drain_us, 1500000);
    CHECK_EQ(row.keepalive_us, 250000);
    CHECK_EQ(row.body_bytes, 1000000);
    CHECK_OK(load("[server]\ndrain-s = 2h\n"));
    CHECK_EQ(row.drain_us, 7200000000);
    CHECK_OK(load("[server]\ndrain-s = 1 d\n"));
    CHECK_EQ(row.drain_us, 86400000000);
}

TEST(every_refusal_names_file_line_and_what_was_expected)
{
    static const struct { const char *text; u32 line; const char *part; } cases[] = {
        { "[budget]\nbord-gb = 4\n", 2, "no key \"bord-gb\"; the nearest is \"board-gb\"" },
        { "[server]\n\n; x\nprot = 4\n", 4, "the nearest is \"port\"" },
        { "[bugdet]\nboard-gb = 4\n", 2, "no section [bugdet]; the nearest is [budget]" },
        { "board-gb = 4\n", 1, "no section []" },
        { "[budget]\nboard-gb = 4 Gib\n", 2, "\"4 Gib\" is not a size" },
        { "[budget]\nboard-gb = 4s\n", 2, "is not a size" },
        { "[budget]\nboard-gb = -4\n", 2, "is not a size" },
        { "[budget]\nboard-gb = 1e3\n", 2, "is not a size" },
        { "[budget]\nboard-gb =\n", 2, "is not a size" },
        { "[budget]\nboard-gb = .5\n", 2, "is not a size" },
        { "[budget]\nboard-gb = 9999999\n", 2, "out of bounds" },
        { "[server]\ndrain-s = 5 GiB\n", 2, "is not a time" },
        { "[server]\nport = 65536\n", 2, "out of bounds: from 0 to 65535" },
        { "[server]\nport = 8k\n", 2, "is not a whole number" },
        { "[server]\nno-auth = yes\n", 2, "neither on nor off" },
        { "[model]\nlate-system = maybe\n", 2, "is none of inline|refuse" },
        { "[server]\nport = 1\nport = 2\n", 3, "port was set on line 2" },
        { "[server]\nport\n", 2, "expected [section]" },
        { "[server\nport = 1\n", 1, "expected [section]" },
        { "[budget]\nboard-gb = 4\ncache-budget-gb = 5\n", 3, "cache-budget-gb (5 GiB) is over" },
        { "[budget]\ncache-budget-gb = 5\nboard-gb = 4\n", 3, "is over board-gb (4 GiB)" },
        { "[budget]\nresident-gb = 9\n", 2, "resident-gb (9 GiB) is over board-gb" },
        { "[budget]\nheap-reserve-mb = 300\n", 2, "heap-reserve-mb is over heap-cap-mb" },
        { "[budget]\nheap-reserve-mb = 64\nboard-gb = 64MiB\ncache-budget-gb = 0\n"
          "resident-gb = 0\n", 3, "leaves nothing of board-gb" },
        { "[engine]\nturns = 1\n", 2, "turns (1) are fewer than parallel (2)" },
        { "[engine]\nsubmits = 1\n", 2, "submits (1)" },
        { "[hooks]\ngrid = 64\n", 2, "needs --test-hooks" },
        { "[hooks]\ntest-hooks = on\nblock = 16\ngrid = 40\n", 4, "no multiple of block 16" },
        { "[yield]\nlive = anchors, \n", 2, "expected `taker = victim" },
        { "[yield]\nlive = a b\n", 2, "expected a comma" },
        { "[yield]\nlive = a\nlive = b\n", 3, "was given on line 2" },
        { "[server]\nhost = 0.0.0.0\n", 2, "needs --api-key-file" },
    };
    for (u32 i = 0; i < COUNT_OF(cases); i++) {
        CHECK_EQ(load(cases[i].text), ERR_CONFIG);
        CHECK(says(cases[i].line, cases[i].part));
    }
    static char text[1024] = "[server]\napi-key-file = ";
    memset(text + strlen(text), 'x', 600);
    CHECK_EQ(load(text), ERR_CONFIG);
    CHECK(says(2, "a line of more than"));
}

TEST(yield_lines_keep_their_order_and_line)
{
    CHECK_OK(load("[yield]\nlive = store, park ,anchors\nstash=store\n"));
    CHECK_EQ(row.yield_count, 4);
    CHECK_STR(row.yield[1].taker, "live");
    CHECK_STR(row.yield[1].victim, "park");
    CHECK(row.yield[0].order == 1 && row.yield[2].order == 3 && row.yield[3].order == 1);
    CHECK(row.yield[2].line == 2 && row.yield[3].line == 3);
}

TEST(a_profile_that_is_not_there_names_the_nearest_or_the_path)
{
    CHECK_EQ(profile_load("cpu-8", &row), ERR_NOT_FOUND);
    CHECK(strstr(err_last()->text, "the nearest is \"cpu-8g\"") != NULL);
    CHECK_EQ(profile_load("/nowhere/x.conf", &row), ERR_NOT_FOUND);
    CHECK(strstr(err_last()->text, "/nowhere/x.conf") != NULL);
    CHECK_EQ(profile_load("/tmp", &row), ERR_IO);
    CHECK_EQ(profile_load("", &row), ERR_CONFIG);
}

TEST(every_key_has_help_and_a_default_that_its_own_parser_takes)
{
    u32 count;
    const struct profile_key *keys = profile_keys(&count);
    profile_defaults(&row);
    CHECK_OK(profile_check(&row));
    for (u32 i = 0; i < count; i++) {
        CHECK(keys[i].help[0] != 0 && strlen(keys[i].name) < 32);
        CHECK(keys[i].offset + keys[i].size <= sizeof row);
        for (u32 k = 0; k < i; k++) CHECK(strcmp(keys[i].name, keys[k].name) != 0);
    }
}
