/* http/main.c - the table of words; each is a file of http/cli.
 *
 * Exit code: 0 done, 1 failed, 2 bad usage. */
#include <stdio.h>

#include "http/cli/bench.h"
#include "http/cli/cache.h"
#include "http/cli/mem.h"
#include "http/cli/run.h"
#include "http/cli/serve.h"
#include "http/cli/tiny.h"
#include "http/options.h"

static const struct {
    enum options_word word;
    enum err (*run)(const struct options *o);
} words[] = {
    { WORD_SERVE, serve_run },
    { WORD_MEM, mem_run },
    { WORD_CACHE, cache_run },
    { WORD_RUN, run_run },
    { WORD_BENCH, bench_run },
    { WORD_TINY, tiny_run },
};

static int help(enum options_word word)
{
    static char text[32 * 1024];
    options_help(word, text, sizeof text);
    fputs(text, stdout);
    return 0;
}

int main(int argc, char **argv)
{
    static struct options options;
    if (options_parse(argc, argv, &options) != OK) {
        fprintf(stderr, "holdfast: %s\n", err_last()->text);
        return 2;
    }
    if (argc < 2) return help(WORD_HELP), 2;
    if (options.help) return help(options.word);
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (words[i].word != options.word) continue;
        enum err err = words[i].run(&options);
        if (err == OK) return 0;
        fprintf(stderr, "holdfast %s: %s\n", argv[1], err_last()->text);
        return err == ERR_USAGE ? 2 : 1;
    }
    return help(options.word);
}
