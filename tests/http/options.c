/* tests/http/options.c - the command line: words, flags over a profile, errors with a way out. */
#include "http/options.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct options o;

static enum err parse(const char *line)
{
    static char copy[1024];
    char *argv[32];
    int argc = 0;
    snprintf(copy, sizeof copy, "holdfast %s", line);
    for (char *at = strtok(copy, " "); at != NULL && argc < 32; at = strtok(NULL, " "))
        argv[argc++] = at;
    return options_parse(argc, argv, &o);
}

static bool says(const char *part)
{
    if (strstr(err_last()->text, part) != NULL) return true;
    printf("not in \"%s\": %s\n", err_last()->text, part);
    return false;
}

TEST(flags_of_serve_fill_the_profile_row)
{
    CHECK_OK(parse("serve -m /models/x --ctx 8192 --port=0 --parallel 3 --drain-s 500ms "
                   "--cache-budget-gb 1.5 --resident-gb 512MiB --no-auth --log-level debug "
                   "--profile cpu-8g --reasoning-field both"));
    CHECK_EQ(o.word, WORD_SERVE);
    CHECK_STR(o.profile.model, "/models/x");
    CHECK_EQ(o.profile.ctx, 8192);
    CHECK_EQ(o.profile.port, 0);
    CHECK_EQ(o.profile.parallel, 3);
    CHECK_EQ(o.profile.drain_us, 500000);
    CHECK_EQ(o.profile.cache_budget_bytes, 3 * GIB / 2);
    CHECK_EQ(o.profile.resident_bytes, 512 * MIB);
    CHECK(o.profile.no_auth);
    CHECK_EQ(o.profile.log_level, 4);
    CHECK_EQ(o.profile.reasoning_field, REASONING_BOTH);
    CHECK_EQ(o.profile.board_bytes, 6 * GIB);           /* of the file                       */
}

TEST(a_flag_wins_over_the_profile_whatever_their_order)
{
    CHECK_OK(parse("serve --queue 7 --profile cpu-8g"));
    CHECK_EQ(o.profile.queue, 7);
    CHECK_OK(parse("serve --profile cpu-8g --queue 7"));
    CHECK_EQ(o.profile.queue, 7);
}

TEST(without_a_word_serve_keeps_its_cache_in_the_users_cache_folder)
{
    char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), kept[2][512];
    snprintf(kept[0], sizeof kept[0], "%s", cache == NULL ? "" : cache);
    snprintf(kept[1], sizeof kept[1], "%s", home == NULL ? "" : home);
    setenv("XDG_CACHE_HOME", "/somewhere", 1);
    CHECK_OK(parse("serve"));
    CHECK_STR(o.profile.cache_dir, "/somewhere/holdfast");
    CHECK_OK(parse("serve --cache-dir /x"));
    CHECK_STR(o.profile.cache_dir, "/x");
    CHECK_OK(parse("serve --cache-dir off"));
    CHECK_STR(o.profile.cache_dir, "");
    CHECK_OK(parse("serve --cache-dir="));
    CHECK_STR(o.profile.cache_dir, "");
    CHECK_OK(parse("run -p x"));                        /* one answer: nothing is kept       */
    CHECK_STR(o.profile.cache_dir, "");
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    setenv("HOME", "/home/me", 1);
    CHECK_OK(parse("serve"));
    CHECK_STR(o.profile.cache_dir, "/home/me/.cache/holdfast");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    CHECK_OK(parse("serve"));
    CHECK_STR(o.profile.cache_dir, "");
    if (cache != NULL) setenv("XDG_CACHE_HOME", kept[0], 1);
    if (home != NULL) setenv("HOME", kept[1], 1);
}

TEST(defaults_hold_without_flags)
{
    CHECK_OK(parse("serve"));
    CHECK_STR(o.profile.host, "127.0.0.1");
    CHECK_EQ(o.profile.port, 8080);
    CHECK_EQ(o.profile.parallel, 2);
    CHECK_EQ(o.profile.reserve_tokens, 2048);
    CHECK_EQ(o.profile.body_bytes, 64 * MIB);
    CHECK_EQ(o.profile.drain_us, 30000000);
    CHECK_EQ(o.profile.keepalive_us, 10000000);
    CHECK(o.profile.model[0] == 0 && !o.profile.test_hooks && !o.help);
}

TEST(an_unknown_flag_is_bad_usage_and_names_the_nearest)
{
    static const struct { const char *line, *nearest; } cases[] = {
        { "serve --contex 5", "--ctx" },
        { "serve --prot 80", "--port" },
        { "serve --reserve-token 80", "--reserve-tokens" },
        { "serve --board-floor 2", "--board-floor-gb" },
        { "run --promt x", "--prompt" },
        { "bench --quik", "--quick" },
        { "tiny /tmp/x --layer 2", "--layers" },
        { "mem --fromat json", "--format" },
        { "mem --port 80", "--format" },
        { "serve -x", "--ctx" },
    };
    for (u32 i = 0; i < COUNT_OF(cases); i++) {
        CHECK_EQ(parse(cases[i].line), ERR_USAGE);
        CHECK(says("has no flag") && says("the nearest is"));
        if (i < 8) CHECK(says(cases[i].nearest));
    }
    CHECK_EQ(parse("sevre"), ERR_USAGE);
    CHECK(says("the nearest is serve"));
}

TEST(bad_values_are_bad_usage_and_name_flag_and_form)
{
    CHECK_EQ(parse("serve --port many"), ERR_USAGE);
    CHECK(says("--port: \"many\" is not a whole number"));
    CHECK_EQ(parse("serve --port 70000"), ERR_USAGE);
    CHECK(says("--port: \"70000\" is out of bounds: from 0 to 65535"));
    CHECK_EQ(parse("serve --resident-gb 2Gb"), ERR_USAGE);
    CHECK(says("--resident-gb: \"2Gb\" is not a size") && says("GiB"));
    CHECK_EQ(parse("serve --drain-s soon"), ERR_USAGE);
    CHECK(says("--drain-s: \"soon\" is not a time"));
    CHECK_EQ(parse("serve --late-system never"), ERR_USAGE);
    CHECK(says("inline|refuse"));
    CHECK_EQ(parse("serve --ctx"), ERR_USAGE);
    CHECK(says("--ctx needs a value"));
    CHECK_EQ(parse("serve here"), ERR_USAGE);
    CHECK(says("flags only"));
    CHECK_EQ(parse("mem --format svg"), ERR_USAGE);
    CHECK(says("tree|json|msgpack|dot|folded"));
    CHECK_EQ(parse("tiny"), ERR_USAGE);
    CHECK_EQ(parse("tiny a b"), ERR_USAGE);
    CHECK_EQ(parse("run --think --no-think"), ERR_USAGE);
    CHECK_EQ(parse("serve --profile nowhere"), ERR_NOT_FOUND);
    CHECK(says("the nearest is"));
}

TEST(test_hooks_need_their_switch_and_loopback)
{
    CHECK(parse("serve --force-file /tmp/f") != OK);
    CHECK(says("--force-file") && says("needs --test-hooks"));
    CHECK(parse("serve --grid 64 --block 16") != OK);
    CHECK_OK(parse("serve --test-hooks --grid 64 --block 16 --force-file /tmp/f --level scalar"));
    CHECK(o.profile.test_hooks && o.profile.grid == 64 && o.profile.block == 16);
    CHECK(parse("serve --test-hooks --grid 60 --block 16") != OK);
    CHECK(says("grid 60 is no multiple of block 16"));
    CHECK(parse("serve --test-hooks --block 12") != OK);
    CHECK(parse("serve --test-hooks --host 0.0.0.0 --no-auth") != OK);
    CHECK(says("loopback"));
}

TEST(an_open_address_needs_keys_or_an_explicit_no_auth)
{
    CHECK(parse("serve --host 0.0.0.0") != OK);
    CHECK(says("--host: ") && says("--api-key-file"));
    CHECK_OK(parse("serve --host 0.0.0.0 --api-key-file /etc/keys"));
    CHECK_OK(parse("serve --host 0.0.0.0 --no-auth"));
}

TEST(help_lists_flags_with_units_defaults_and_two_examples_but_no_hooks)
{
    static char text[16384];
    static const char *const words[] = { "serve", "run", "bench", "tiny", "mem", "cache" };
    for (u32 i = 0; i < COUNT_OF(words); i++) {
        char line[32], example[32];
        snprintf(line, sizeof line, "%s --help", words[i]);
        CHECK_OK(parse(line));
        CHECK(o.help);
        u32 bytes = options_help(o.word, text, sizeof text);
        CHECK(bytes == strlen(text) && bytes + 1 < sizeof text);
        snprintf(example, sizeof example, "  holdfast %s", words[i]);
        char *examples = strstr(text, "\nexamples:\n");
        CHECK(examples != NULL && strstr(examples, words[i]) != NULL);
        u32 lines = 0;
        for (char *at = examples + 1; *at != 0; at++) lines += *at == '\n';
        CHECK(lines >= 3 && lines <= 4);
        CHECK(strstr(text, "test-hooks") == NULL && strstr(text, "--grid") == NULL);
    }
    options_help(WORD_SERVE, text, sizeof text);
    CHECK(strstr(text, "--port N") != NULL && strstr(text, "(8080)") != NULL);
    CHECK(strstr(text, "--board-floor-gb GiB") != NULL);
    CHECK_OK(parse("--help"));
    CHECK_EQ(o.word, WORD_HELP);
    CHECK_EQ(options_help(WORD_HELP, text, 10), 9);     /* cut, still terminated             */
    CHECK_EQ(strlen(text), 9);
    CHECK_OK(parse("--version"));
    options_help(o.word, text, sizeof text);
    CHECK(strncmp(text, "holdfast ", 9) == 0 && strchr(text, '\n') == text + strlen(text) - 1);
}

TEST(run_and_tiny_take_their_own_flags)
{
    CHECK_OK(parse("run -p hello --temperature 0.7 --top-k 20 --seed 9 --max-tokens 5 --json"));
    CHECK_STR(o.prompt, "hello");
    CHECK(o.prompt_given && o.json && o.temperature == 0.7 && o.top_p < 0);
    CHECK_EQ(o.top_k, 20);
    CHECK_EQ(o.seed, 9);
    CHECK_OK(parse("run"));
    CHECK(!o.prompt_given && o.seed == UINT64_MAX && o.top_k == NONE);
    CHECK_OK(parse("tiny /tmp/t --layers 4 --seed 3 --mtp"));
    CHECK_STR(o.path[0], "/tmp/t");
    CHECK_EQ(o.layers, 4);
    CHECK_EQ(o.tiny_seed, 3);
    CHECK(o.tiny_mtp);
    CHECK_STR(o.family, "qwen3_5");
    CHECK_OK(parse("bench --quick --threads 2 --arithmetic f32"));
    CHECK_EQ(parse("bench --ctx 4096"), ERR_USAGE);     /* it measures at sizes of its own */
    CHECK_OK(parse("mem --url http://127.0.0.1:9 --format json"));
    CHECK_EQ(o.format, MEM_JSON);
    CHECK_EQ(o.action, MEM_SHOW);
}

TEST(mem_sets_a_cap_and_compares_two_dumps)
{
    CHECK_OK(parse("mem set anchors 1.5GiB --url http://127.0.0.1:9"));
    CHECK(o.action == MEM_SET && o.cap_bytes == 3 * GIB / 2);
    CHECK_STR(o.path[0], "anchors");
    CHECK_OK(parse("mem set store 4096"));
    CHECK_EQ(o.cap_bytes, 4096);
    CHECK_OK(parse("mem set park 0"));
    CHECK_EQ(o.cap_bytes, 0);
    CHECK_OK(parse("mem set caches none"));
    CHECK(o.cap_bytes == UINT64_MAX);
    CHECK_OK(parse("mem set disk-unused-s 3d"));
    CHECK_EQ(o.cap_bytes, 3ull * 86400 * 1000000);
    CHECK_OK(parse("mem set disk-free-gb 10"));
    CHECK_EQ(o.cap_bytes, 10 * GIB);
    CHECK_EQ(parse("mem set disk-unused-s long"), ERR_USAGE);
    CHECK(says("not a time"));
    CHECK_OK(parse("mem diff a.json b.json"));
    CHECK_EQ(o.action, MEM_DIFF);
    CHECK_STR(o.path[0], "a.json");
    CHECK_STR(o.path[1], "b.json");
    CHECK_EQ(parse("mem set anchors"), ERR_USAGE);
    CHECK(says("mem set needs NODE CAP"));
    CHECK_EQ(parse("mem set anchors lots"), ERR_USAGE);
    CHECK(says("\"lots\""));
    CHECK_EQ(parse("mem diff a.json"), ERR_USAGE);
    CHECK_EQ(parse("mem put a b"), ERR_USAGE);
    CHECK(says("nearest"));
    CHECK_EQ(parse("mem set a 1 more"), ERR_USAGE);
}
