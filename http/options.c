/* http/options.c - flags of all words: profile_keys, and the few that belong to a word alone. */
#include "http/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(struct options, name), sizeof(((struct options *)0)->name)

/* Flags that are no profile keys: `group` names the words that have them, comma-separated. */
static const struct profile_key flags[] = {
    { "prompt", "run", KEY_TEXT, FIELD(prompt), 0, 0, 0, NULL, "", "without it: stdin" },
    { "system", "run", KEY_TEXT, FIELD(system), 0, 0, 0, NULL, "", "system message" },
    { "think", "run", KEY_SWITCH, FIELD(think), 0, 0, 0, NULL, "off", "reason before answering" },
    { "no-think", "run", KEY_SWITCH, FIELD(no_think), 0, 0, 0, NULL, "off", "answer at once" },
    { "temperature", "run", KEY_REAL, FIELD(temperature), 0, 0, 100, NULL, "",
      "0 = greedy; default: the model's" },
    { "top-k", "run", KEY_COUNT32, FIELD(top_k), 0, 0, 1e9, NULL, "", "0 = off" },
    { "top-p", "run", KEY_REAL, FIELD(top_p), 0, 0, 1, NULL, "", "1 = off" },
    { "min-p", "run", KEY_REAL, FIELD(min_p), 0, 0, 1, NULL, "", "0 = off" },
    { "repetition-penalty", "run", KEY_REAL, FIELD(repetition_penalty), 0, 0.01, 10, NULL, "",
      "1 = off" },
    { "presence-penalty", "run", KEY_REAL, FIELD(presence_penalty), 0, -2, 2, NULL, "",
      "0 = off" },
    { "frequency-penalty", "run", KEY_REAL, FIELD(frequency_penalty), 0, -2, 2, NULL, "",
      "0 = off" },
    { "seed", "run", KEY_COUNT64, FIELD(seed), 0, 0, 0x1p62, NULL, "", "default: a fresh one" },
    { "max-tokens", "run", KEY_COUNT64, FIELD(max_tokens), 0, 0, 0x1p32, NULL, "0",
      "0 = to the context's end" },
    { "json", "run,bench,cache", KEY_SWITCH, FIELD(json), 0, 0, 0, NULL, "off", "one JSON object" },
    { "quick", "bench", KEY_SWITCH, FIELD(quick), 0, 0, 0, NULL, "off", "fewer repetitions" },
    { "family", "tiny", KEY_TEXT, FIELD(family), 0, 0, 0, NULL, "qwen3_5", "model type" },
    { "layers", "tiny", KEY_COUNT32, FIELD(layers), 0, 0, 1024, NULL, "0", "0 = tiny's own" },
    { "hidden", "tiny", KEY_COUNT32, FIELD(hidden), 0, 0, 65536, NULL, "0", "0 = tiny's own" },
    { "seed", "tiny", KEY_COUNT64, FIELD(tiny_seed), 0, 0, 0x1p62, NULL, "1", "of the weights" },
    { "mtp", "tiny", KEY_SWITCH, FIELD(tiny_mtp), 0, 0, 0, NULL, "off", "with a draft head" },
    { "url", "mem", KEY_TEXT, FIELD(url), 0, 0, 0, NULL, "http://127.0.0.1:8080",
      "the server asked" },
    { "url", "cache", KEY_TEXT, FIELD(server), 0, 0, 0, NULL, "",
      "the cache folder of this server; without it: --cache-dir" },
    { "session", "cache", KEY_TEXT, FIELD(session), 0, 0, 0, NULL, "",
      "clear: this chat alone, by the id its client sends or the id that ls prints" },
    { "tier", "cache", KEY_TEXT, FIELD(tier), 0, 0, 0, NULL, "all",
      "clear: disk, spill, suffix or all; of a server any of its tiers" },
    { "yes", "cache", KEY_SWITCH, FIELD(yes), 0, 0, 0, NULL, "off", "clear: do not ask" },
    { "format", "mem", KEY_WORD, FIELD(format), 0, 0, 0,
      "tree|json|msgpack|dot|folded", "tree", "what is printed" },
};
static const char version[] = "0.1.0";
enum { FLAG_COUNT = COUNT_OF(flags), NAME_CAP = PROFILE_KEY_CAP + FLAG_COUNT + 4 };

struct word {
    const char *name;
    const char *purpose;
    const char *groups;                 /* of profile keys it takes, comma-separated         */
    const char *keys;                   /* single profile keys it takes, comma-separated     */
    const char *usage;                  /* behind the word                                   */
    const char *examples;
};

static const struct word words[WORD_COUNT] = {
    [WORD_SERVE] = { "serve", "serves a model over HTTP until SIGTERM",
        "server,model,engine,budget,hooks", "", "[flags]",
        "  holdfast serve                         the embedded default model on 127.0.0.1:8080\n"
        "  holdfast serve -m ~/models/Qwen3.5-9B --ctx 32768 --port 8090\n" },
    [WORD_RUN] = { "run", "answers one prompt, or chats in the terminal",
        "model,budget,hooks", "log-level,reserve-tokens", "[-p TEXT] [flags]",
        "  holdfast run                    a chat: arrows edit, \\ goes on, ^C cancels, ^D ends\n"
        "  git diff | holdfast run -m ~/models/Qwen3.5-9B --system 'Review this.' --no-think\n" },
    [WORD_BENCH] = { "bench", "measures prefill, decode and resume of a model here",
        "hooks", "log-level,model,threads,backend,arithmetic", "[flags]",
        "  holdfast bench --quick\n"
        "  holdfast bench -m ~/models/Qwen3.5-9B --threads 2 --json\n" },
    [WORD_TINY] = { "tiny", "writes a seeded random checkpoint for tests", "", "", "DIR [flags]",
        "  holdfast tiny /tmp/tiny\n"
        "  holdfast tiny /tmp/tiny --layers 8 --hidden 64 --seed 7\n" },
    [WORD_MEM] = { "mem", "prints the memory graph of a running server, changes a cap, or compares",
        "", "admin-key-file,api-key-file", "[set NODE CAP | diff A B] [flags]",
        "  holdfast mem --url http://127.0.0.1:8090 --format json\n"
        "  holdfast mem set anchors 512MiB       or none; of the disk also disk-unused-s 3d, "
        "disk-free-gb, spill-free-gb, nvme-write-gb-day\n" },
    [WORD_CACHE] = { "cache", "what lies in a cache folder: lists, shows, checks or clears it",
        "", "cache-dir,admin-key-file,api-key-file",
        "ls | show ID | verify | clear [flags]",
        "  holdfast cache ls\n"
        "  holdfast cache clear --session my-chat --url http://127.0.0.1:8080\n" },
    [WORD_HELP] = { "help", "", "", "", "", "" },
    [WORD_VERSION] = { "version", "", "", "", "", "" },
};

/* `item` is one of the comma-separated `list`. */
static bool has_item(const char *list, const char *item)
{
    size_t bytes = strlen(item);
    for (const char *at = list; at[0] != 0; ) {
        size_t here = strcspn(at, ",");
        if (here == bytes && memcmp(at, item, bytes) == 0) return true;
        at += here;
        at += at[0] == ',';
    }
    return false;
}

static bool takes_key(const struct word *w, const struct profile_key *key)
{
    return has_item(w->groups, key->group) || has_item(w->keys, key->name);
}

static bool takes_profile(const struct word *w)
{
    return w->groups[0] != 0;
}

/* ------------------------------------------------------------------ help */

struct help { char *out; u32 cap, bytes; };

PRINTF_LIKE(2, 3) static void help_f(struct help *h, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(h->out + h->bytes, h->cap - h->bytes, format, args);
    va_end(args);
    if (bytes > 0) h->bytes = MIN(h->bytes + (u32)bytes, h->cap - 1);
}

static const char *value_word(const struct profile_key *key)
{
    switch (key->kind) {
    case KEY_TEXT:    return key->choices != NULL ? key->choices : "TEXT";
    case KEY_WORD:    return key->choices;
    case KEY_SWITCH:  return "";
    case KEY_COUNT32:
    case KEY_COUNT64: return "N";
    case KEY_BYTES:   return key->unit == GIB ? "GiB" : "MiB";
    case KEY_TIME:    return "S";
    case KEY_REAL:    return "X";
    }
    return "";
}

static void help_flag(struct help *h, const struct profile_key *key)
{
    char left[96];
    const char *value = value_word(key);
    snprintf(left, sizeof left, "%s--%s%s%.60s", strcmp(key->name, "model") == 0 ? "-m, " :
             strcmp(key->name, "prompt") == 0 ? "-p, " : "", key->name, value[0] != 0 ? " " : "",
             value);
    help_f(h, strlen(left) > 28 ? "  %s\n%31s" : "  %-28s ", left, "");
    help_f(h, "%s", key->help);
    if (key->kind != KEY_SWITCH && key->fallback[0] != 0) help_f(h, " (%s)", key->fallback);
    help_f(h, "\n");
}

static void help_words(struct help *h)
{
    help_f(h, "holdfast - a model served with exact prefix caching\n\n"
           "usage: holdfast WORD [flags]\n\n");
    for (u32 i = 0; i < WORD_HELP; i++) help_f(h, "  %-8s %s\n", words[i].name, words[i].purpose);
    help_f(h, "\nholdfast WORD --help tells the flags of a word; holdfast --version the version.\n"
           "\nexamples:\n%s  holdfast mem\n", words[WORD_SERVE].examples);
}

u32 options_help(enum options_word word, char *out, u32 cap)
{
    ASSERT(cap > 0 && word < WORD_COUNT);
    struct help h = { .out = out, .cap = cap };
    out[0] = 0;
    if (word == WORD_VERSION) {
        help_f(&h, "holdfast %s\n", version);
        return h.bytes;
    }
    if (word == WORD_HELP) {
        help_words(&h);
        return h.bytes;
    }
    const struct word *w = &words[word];
    u32 count;
    const struct profile_key *keys = profile_keys(&count);
    help_f(&h, "holdfast %s - %s\n\nusage: holdfast %s %s\n\n", w->name, w->purpose, w->name,
           w->usage);
    for (u32 i = 0; i < FLAG_COUNT; i++)
        if (has_item(flags[i].group, w->name)) help_flag(&h, &flags[i]);
    if (takes_profile(w))
        help_f(&h, "  %-28s %s\n", "--profile NAME|FILE",
               "settings of a board; flags go over it (auto)");
    const char *group = "";
    for (u32 i = 0; i < count; i++) {
        if (!takes_key(w, &keys[i]) || strcmp(keys[i].group, "hooks") == 0) continue;
        if (strcmp(group, keys[i].group) != 0 && takes_profile(w))
            help_f(&h, "\n%s\n", keys[i].group);
        group = keys[i].group;
        help_flag(&h, &keys[i]);
    }
    if (takes_profile(w))
        help_f(&h, "\nSizes take KiB MiB GiB (powers of 1024), KB MB GB (of 1000); times ms s h d."
               "\nEvery flag of a group may stand in a profile under the same name; the defaults in"
               "\nbrackets hold where the profile says nothing.\n");
    help_f(&h, "\nexamples:\n%s", w->examples);
    return h.bytes;
}

/* ------------------------------------------------------------------ parse */

/* The key of a flag for this word; NULL when it has none.  *own_out: a field of struct options. */
static const struct profile_key *find_flag(const struct word *w, const char *name, size_t bytes,
                                           bool *own_out)
{
    u32 count;
    const struct profile_key *keys = profile_keys(&count);
    for (u32 i = 0; i < FLAG_COUNT; i++) {
        *own_out = true;
        if (strlen(flags[i].name) == bytes && memcmp(flags[i].name, name, bytes) == 0 &&
            has_item(flags[i].group, w->name)) return &flags[i];
    }
    for (u32 i = 0; i < count; i++) {
        *own_out = false;
        if (strlen(keys[i].name) == bytes && memcmp(keys[i].name, name, bytes) == 0 &&
            takes_key(w, &keys[i])) return &keys[i];
    }
    return NULL;
}

static enum err fail_flag(const struct word *w, const char *argument)
{
    const char *names[NAME_CAP];
    u32 named = 0, count;
    const struct profile_key *keys = profile_keys(&count);
    char name[64];
    size_t bytes = strcspn(argument, "=");
    for (u32 i = 0; i < FLAG_COUNT; i++)
        if (has_item(flags[i].group, w->name)) names[named++] = flags[i].name;
    for (u32 i = 0; i < count; i++)
        if (takes_key(w, &keys[i]) && strcmp(keys[i].group, "hooks") != 0)
            names[named++] = keys[i].name;
    if (takes_profile(w)) names[named++] = "profile";
    names[named++] = "help";
    snprintf(name, sizeof name, "%.*s", (int)MIN(bytes, sizeof name - 1), argument);
    const char *bare = name + strspn(name, "-");
    return fail(ERR_USAGE, "%s has no flag %s; the nearest is --%s (holdfast %s --help tells all)",
                w->name, name, profile_nearest(bare, names, named), w->name);
}

/* One argument taken apart: --name, --name=value, or a short one. */
struct argument { const char *name; size_t name_bytes; const char *value; };

static bool read_argument(const char *text, struct argument *out)
{
    static const struct { const char *letter, *name; } short_flags[] = {
        { "-m", "model" }, { "-p", "prompt" }, { "-h", "help" },
    };
    for (u32 i = 0; i < COUNT_OF(short_flags); i++)
        if (strcmp(text, short_flags[i].letter) == 0) {
            *out = (struct argument){ short_flags[i].name, strlen(short_flags[i].name), NULL };
            return true;
        }
    if (text[0] != '-' || text[1] != '-' || text[2] == 0) return false;
    out->name = text + 2;
    out->name_bytes = strcspn(out->name, "=");
    out->value = out->name[out->name_bytes] == '=' ? out->name + out->name_bytes + 1 : NULL;
    return true;
}

static bool is_named(const struct argument *a, const char *name)
{
    return strlen(name) == a->name_bytes && memcmp(a->name, name, a->name_bytes) == 0;
}

static enum err set_flag(struct options *o, const struct profile_key *key, bool own,
                         const char *value)
{
    char where[80];
    u32 count;
    snprintf(where, sizeof where, "--");
    void *row = own ? (void *)o : (void *)&o->profile;
    if (profile_set(key, row, value, where) != OK) return fail(ERR_USAGE, "%s", err_last()->text);
    if (!own) o->profile.line[(u32)(key - profile_keys(&count))] = PROFILE_LINE_FLAG;
    if (own && key->offset == offsetof(struct options, prompt)) o->prompt_given = true;
    return OK;
}

/* Value of an argument: behind '=', "on" for a bare switch, else the next word of the line. */
static enum err flag_value(int argc, char **argv, int *at, const struct argument *a, bool is_switch,
                           const char **out)
{
    *out = a->value != NULL ? a->value : is_switch ? "on" : NULL;
    if (*out != NULL) return OK;
    if (*at + 1 >= argc)
        return fail(ERR_USAGE, "--%.*s needs a value", (int)a->name_bytes, a->name);
    *out = argv[++*at];
    return OK;
}

static enum err take_path(struct options *o, const struct word *w, const char *text)
{
    if (o->word != WORD_TINY && o->word != WORD_MEM && o->word != WORD_CACHE)
        return fail(ERR_USAGE, "%s takes flags only, not \"%.80s\"", w->name, text);
    if (o->word == WORD_MEM && o->path_count == 3)
        return fail(ERR_USAGE, "mem takes `set NODE CAP` or `diff A B`; \"%.80s\" is one too many",
                    text);
    if (o->word == WORD_CACHE && o->path_count == 2)
        return fail(ERR_USAGE, "cache takes one action; \"%.80s\" is one too many", text);
    if (o->word == WORD_TINY && o->path_count == 1)
        return fail(ERR_USAGE, "tiny takes one folder; \"%.80s\" is one too many", text);
    if (strlen(text) >= PROFILE_PATH_BYTES)
        return fail(ERR_USAGE, "a path of more than %d bytes", PROFILE_PATH_BYTES - 1);
    memcpy(o->path[o->path_count++], text, strlen(text) + 1);
    return OK;
}

/* One pass over the line.  `apply` false: only --help, --profile and unknown flags are looked at,
 * so that the profile's file comes before every flag. */
static enum err walk(int argc, char **argv, struct options *o, const char **profile, bool apply)
{
    const struct word *w = &words[o->word];
    for (int i = 2; i < argc; i++) {
        struct argument a;
        const char *value;
        bool own = false;
        if (!read_argument(argv[i], &a)) {
            if (argv[i][0] == '-' && argv[i][1] != 0) return fail_flag(w, argv[i]);
            if (apply) TRY(take_path(o, w, argv[i]));
            continue;
        }
        if (is_named(&a, "help")) {
            o->help = true;
            continue;
        }
        bool is_profile = takes_profile(w) && is_named(&a, "profile");
        const struct profile_key *key = find_flag(w, a.name, a.name_bytes, &own);
        if (key == NULL && !is_profile) return fail_flag(w, argv[i]);
        TRY(flag_value(argc, argv, &i, &a, !is_profile && key->kind == KEY_SWITCH, &value));
        if (is_profile) *profile = value;
        else if (apply) TRY(set_flag(o, key, own, value));
    }
    return OK;
}

static void defaults(struct options *o)
{
    for (u32 i = 0; i < FLAG_COUNT; i++) {
        if (flags[i].fallback[0] == 0) continue;
        enum err e = profile_set(&flags[i], o, flags[i].fallback, "default: ");
        ASSERT(e == OK);
    }
    o->temperature = o->top_p = o->min_p = -1;
    o->repetition_penalty = o->presence_penalty = o->frequency_penalty = -3;
    o->top_k = NONE;
    o->seed = UINT64_MAX;
}

static enum err find_word(const char *text, enum options_word *out)
{
    const char *names[WORD_COUNT];
    for (u32 i = 0; i < WORD_COUNT; i++) {
        names[i] = words[i].name;
        if (strcmp(text, names[i]) != 0) continue;
        *out = (enum options_word)i;
        return OK;
    }
    return fail(ERR_USAGE, "no word \"%.40s\"; the nearest is %s (holdfast --help tells all)", text,
                profile_nearest(text, names, WORD_COUNT));
}

/* `set NODE CAP`, `diff A B` or nothing; afterwards path[] is what stands behind the action. */
static enum err read_mem(struct options *o)
{
    static const char *const actions[] = { "set", "diff" };
    const struct profile_key cap = { "CAP", "mem", KEY_BYTES, offsetof(struct options, cap_bytes),
                                     sizeof o->cap_bytes, 1, 0, 0x1p60, NULL, "", "" };
    const char *first = o->path[0];
    if (o->path_count == 0) return OK;
    if (strcmp(first, "set") == 0) o->action = MEM_SET;
    else if (strcmp(first, "diff") == 0) o->action = MEM_DIFF;
    else return fail(ERR_USAGE, "mem: no action \"%.40s\"; the nearest is %s", first,
                     profile_nearest(first, actions, COUNT_OF(actions)));
    if (o->path_count != 3)
        return fail(ERR_USAGE, "mem %s needs %s", first, o->action == MEM_SET ? "NODE CAP" : "A B");
    memmove(o->path[0], o->path[1], 2 * sizeof o->path[0]);
    o->path_count = 2;
    if (o->action == MEM_DIFF) return OK;
    o->cap_bytes = UINT64_MAX;
    if (strcmp(o->path[1], "none") == 0) return OK;
    u32 count;
    const struct profile_key *keys = profile_keys(&count);
    for (u32 i = 0; i < count; i++) {           /* a flag's name: its value is read like there */
        struct profile_key knob = keys[i];
        knob.offset = cap.offset;
        knob.size = cap.size;
        bool amount = knob.kind == KEY_BYTES || knob.kind == KEY_TIME;
        if (!amount || strcmp(knob.name, o->path[0]) != 0) continue;
        if (profile_set(&knob, o, o->path[1], "mem set: ") == OK) return OK;
        return fail(ERR_USAGE, "%s", err_last()->text);
    }
    if (profile_set(&cap, o, o->path[1], "mem set: ") == OK) return OK;
    return fail(ERR_USAGE, "%s", err_last()->text);
}

/* `ls`, `show ID`, `verify` or `clear`; afterwards path[0] is the id. */
static enum err read_cache(struct options *o)
{
    static const char *const actions[] = { "ls", "show", "verify", "clear" };
    static const char *const later[] = { "export", "import" };
    u32 at = 0;
    if (o->path_count == 0) return fail(ERR_USAGE, "cache needs ls, show ID, verify or clear");
    for (u32 i = 0; i < COUNT_OF(later); i++)
        if (strcmp(o->path[0], later[i]) == 0)
            return fail(ERR_USAGE, "cache %s is not part of this version", later[i]);
    while (at < COUNT_OF(actions) && strcmp(o->path[0], actions[at]) != 0) at++;
    if (at == COUNT_OF(actions))
        return fail(ERR_USAGE, "cache: no action \"%.40s\"; the nearest is %s", o->path[0],
                    profile_nearest(o->path[0], actions, COUNT_OF(actions)));
    o->cache_action = (enum cache_action)at;
    if ((at == CACHE_SHOW) != (o->path_count == 2))
        return fail(ERR_USAGE, at == CACHE_SHOW ? "cache show needs an ID that ls prints"
                                                : "cache %s takes flags only", actions[at]);
    bool clears = o->session[0] != 0 || strcmp(o->tier, "all") != 0 || o->yes;
    if (clears && at != CACHE_CLEAR)
        return fail(ERR_USAGE, "--session, --tier and --yes belong to cache clear");
    memmove(o->path[0], o->path[1], sizeof o->path[0]);
    return OK;
}

/* The user's cache folder where neither a flag nor the profile names one; "" without a home. */
static void default_folder(struct options *o)
{
    char *out = o->profile.cache_dir;
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int bytes = 0;
    if (cache != NULL && cache[0] == '/')       /* a relative one is to be ignored            */
        bytes = snprintf(out, PROFILE_PATH_BYTES, "%s/holdfast", cache);
    else if (home != NULL && home[0] == '/')
        bytes = snprintf(out, PROFILE_PATH_BYTES, "%s/.cache/holdfast", home);
    if (bytes <= 0 || bytes >= PROFILE_PATH_BYTES) out[0] = 0;
}

static void choose_folder(struct options *o)
{
    u32 count, at = 0;
    const struct profile_key *keys = profile_keys(&count);
    while (keys[at].offset != offsetof(struct profile_row, cache_dir)) at++;
    if (strcmp(o->profile.cache_dir, "off") == 0) o->profile.cache_dir[0] = 0;
    else if (o->profile.line[at] == 0 &&
             (o->word == WORD_SERVE || o->word == WORD_CACHE)) default_folder(o);
}

enum err options_parse(int argc, char **argv, struct options *o)
{
    const char *profile = "auto";
    memset(o, 0, sizeof *o);
    defaults(o);
    profile_defaults(&o->profile);
    const char *first = argc > 1 ? argv[1] : "--help";
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) first = "help";
    if (strcmp(first, "--version") == 0) first = "version";
    TRY(find_word(first, &o->word));
    if (o->word >= WORD_HELP) return OK;
    TRY(walk(argc, argv, o, &profile, false));
    if (o->help) return OK;
    if (takes_profile(&words[o->word])) TRY(profile_load(profile, &o->profile));
    TRY(walk(argc, argv, o, &profile, true));
    if (takes_profile(&words[o->word])) TRY(profile_check(&o->profile));
    choose_folder(o);
    if (o->think && o->no_think)
        return fail(ERR_USAGE, "--think and --no-think exclude each other");
    if (o->word == WORD_MEM) TRY(read_mem(o));
    if (o->word == WORD_CACHE) TRY(read_cache(o));
    if (o->word == WORD_TINY && o->path_count == 0)
        return fail(ERR_USAGE, "tiny needs a folder: holdfast tiny DIR");
    return OK;
}
