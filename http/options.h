/* http/options.h - the command line: words, flags <-> profile keys, help from one table.
 *
 * A flag is either a profile key (`--ctx 8192` and `ctx = 8192` of a .conf file are the same row of
 * profile_keys) or belongs to a word alone (`run -p`).  `--flag value`, `--flag=value`, `-m`, `-p`;
 * a switch needs no value (`--no-auth`; `--no-auth=off` is possible).  The profile file comes first
 * (--profile, default auto), flags override it whatever their order.  A flag the word doesn't have
 * is ERR_USAGE and names the nearest one.  Where nothing is said of the cache folder, serve and
 * cache take $XDG_CACHE_HOME/holdfast, else $HOME/.cache/holdfast; `off` or "" is none. */
#ifndef HTTP_OPTIONS_H
#define HTTP_OPTIONS_H

#include "budget/profile.h"

enum options_word {
    WORD_SERVE, WORD_RUN, WORD_BENCH, WORD_TINY, WORD_MEM, WORD_CACHE, WORD_HELP, WORD_VERSION,
    WORD_COUNT
};
enum mem_format { MEM_TREE, MEM_JSON, MEM_MSGPACK, MEM_DOT, MEM_FOLDED };
enum mem_action { MEM_SHOW, MEM_SET, MEM_DIFF };
enum cache_action { CACHE_LS, CACHE_SHOW, CACHE_VERIFY, CACHE_CLEAR };
enum { OPTIONS_PATH_CAP = 4 };

struct options {
    enum options_word word;
    bool help;                          /* --help: print options_help(word), exit 0              */
    struct profile_row profile;         /* serve, run, bench; the key files of mem               */

    /* run */
    char prompt[65536];                 /* -p; prompt_given false: read stdin                    */
    bool prompt_given;
    char system[16384];
    bool think, no_think;               /* neither: the model's default                          */
    f64  temperature, top_p, min_p;     /* < 0: the model's default                              */
    f64  repetition_penalty, presence_penalty, frequency_penalty;   /* < -2: the default         */
    u32  top_k;                         /* NONE: the default; 0: off                             */
    u64  seed;                          /* UINT64_MAX: a fresh one                               */
    u64  max_tokens;                    /* 0: to the context's end                               */

    bool json;                          /* run, bench                                            */
    bool quick;                         /* bench                                                 */

    /* tiny */
    char family[PROFILE_WORD_BYTES];
    u32  layers, hidden;                /* 0: the tiny model's own                               */
    u64  tiny_seed;
    bool tiny_mtp;
    char path[OPTIONS_PATH_CAP][PROFILE_PATH_BYTES];    /* words without dashes: tiny DIR        */
    u32  path_count;

    /* mem */
    char url[PROFILE_TEXT_BYTES];       /* http://127.0.0.1:8080                                 */
    u32  format;                        /* enum mem_format                                       */
    enum mem_action action;             /* set: path[0] = node, cap_bytes; diff: path[0], [1]    */
    u64  cap_bytes;                     /* UINT64_MAX: none                                      */

    /* cache */
    enum cache_action cache_action;     /* show: path[0] = the id                                */
    char server[PROFILE_TEXT_BYTES];    /* --url; "": the folder itself                          */
    char session[PROFILE_TEXT_BYTES];   /* clear: "" = all                                       */
    char tier[PROFILE_WORD_BYTES];
    bool yes;
};

/* argv[1] is the word (none or --help: WORD_HELP; --version).  Loads the profile, applies flags,
 * profile_check for words that use a profile.  `o` is ~90 KiB: static.  ERR_USAGE (exit 2): unknown
 * word or flag, missing or bad value, each naming flag and what was expected; ERR_CONFIG,
 * ERR_NOT_FOUND, ERR_IO for the profile (exit 2 too: bad usage). */
MUST_USE enum err options_parse(int argc, char **argv, struct options *o);

/* Help of a word (WORD_HELP: the list of words; WORD_VERSION: the version's line) into `out`,
 * NUL-terminated, cut at `cap`; returns its length.  Flags with units and defaults,
 * two examples; test hooks are not listed. */
u32 options_help(enum options_word word, char *out, u32 cap);

#endif
