/* budget/profile.c - the table of keys, values from text, files by inih, sums. */
#include "budget/profile.h"

#include "budget/measure.h"
#include "budget/profile_embedded.h"

#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELD(name) offsetof(struct profile_row, name), sizeof(((struct profile_row *)0)->name)
#define TEXT(key, group, name, value, fallback, help) \
    { key, group, KEY_TEXT, FIELD(name), 0, 0, 0, value, fallback, help }
#define WORD(key, group, name, choices, fallback, help) \
    { key, group, KEY_WORD, FIELD(name), 0, 0, 0, choices, fallback, help }
#define SWITCH(key, group, name, help) \
    { key, group, KEY_SWITCH, FIELD(name), 0, 0, 0, NULL, "off", help }
#define COUNT(kind, key, group, name, lo, hi, fallback, help) \
    { key, group, kind, FIELD(name), 0, lo, hi, NULL, fallback, help }
#define SIZE(key, name, unit, lo, fallback, help) \
    { key, "budget", KEY_BYTES, FIELD(name), unit, lo, 0x1p50, NULL, fallback, help }

static const f64 SECOND = 1e6;
enum { SUFFIX_MIN = 4096 };             /* of a suffix store: some segments of some ids          */

static const struct profile_key keys[] = {
    TEXT("host", "server", host, "ADDRESS", "127.0.0.1", "address to listen on"),
    COUNT(KEY_COUNT32, "port", "server", port, 0, 65535, "8080",
          "port; 0 = any free one, printed"),
    TEXT("api-key-file", "server", api_key_file, "FILE", "", "keys of clients, one a line"),
    TEXT("admin-key-file", "server", admin_key_file, "FILE", "",
         "keys of admin routes; without it: loopback only"),
    SWITCH("no-auth", "server", no_auth, "listen beyond loopback without keys"),
    TEXT("host-names", "server", host_names, "A,B", "",
         "names a Host header may carry, comma-separated"),
    TEXT("cors-origins", "server", cors_origins, "A,B", "",
         "browser origins answered besides localhost, comma-separated"),
    SWITCH("strict-model", "server", strict_model, "404 for another model name than ours"),
    COUNT(KEY_COUNT32, "connections", "server", connections, 1, 65536, "256",
          "open connections at most"),
    { "body-mb", "server", KEY_BYTES, FIELD(body_bytes), MIB, 1024, 0x1p34, NULL, "64",
      "size of a request body; over it 413" },
    COUNT(KEY_COUNT32, "json-depth", "server", json_depth, 4, 1000, "64",
          "nesting of a request body"),
    COUNT(KEY_COUNT32, "stop-strings", "server", stop_strings, 1, 16, "16",
          "stop strings of a request"),
    COUNT(KEY_COUNT32, "tools", "server", tools, 1, 100000, "1024", "tools of a request"),
    { "keepalive-s", "server", KEY_TIME, FIELD(keepalive_us), 1000000, 10000, 3600e6, NULL, "10",
      "a comment at least this often while nothing is generated" },
    { "drain-s", "server", KEY_TIME, FIELD(drain_us), 1000000, 0, 86400e6, NULL, "30",
      "how long running answers may go on after SIGTERM" },
    WORD("log-level", "server", log_level, "off|error|warn|info|debug", "info", "lines on stderr"),
    TEXT("dump-dir", "server", dump_dir, "DIR", "", "folder for memory dumps; none: not written"),

    TEXT("model", "model", model, "DIR|FILE.gguf", "",
         "folder of safetensors, or a GGUF file; none: the embedded default model"),
    COUNT(KEY_COUNT64, "ctx", "model", ctx, 0, 0x1p32, "0",
          "tokens of context; 0 = what the budget pays for, at most the model's"),
    COUNT(KEY_COUNT32, "parallel", "model", parallel, 0, 62, "0",
          "conversations decoded together; 0 = 2, or 4 on boards of 64 GiB and more"),
    COUNT(KEY_COUNT32, "threads", "model", threads, 0, 1024, "0",
          "compute threads; 0 = one a core"),
    WORD("backend", "model", backend, "auto|cpu|cuda", "auto", "what computes"),
    TEXT("arithmetic", "model", arithmetic, "WORD", "auto",
         "int8 or bf16 of GGUF's blocks, or q4_k=int8; auto: int8 of q8_0; f32: reference, slow"),
    SWITCH("pack-cache", "model", pack_cache,
           "keep the packed weights as a file in the cache folder, and map it at the next start"),
    WORD("draft", "model", draft, "off|mtp|lookup|auto", "auto",
         "who proposes ids ahead; the answer is the same with any; auto = what pays"),
    COUNT(KEY_COUNT32, "draft-max", "model", draft_max, 1, 31, "15", "ids proposed at once"),
    TEXT("template", "model", template_name, "NAME", "auto",
         "chat template; auto = by the digest of the model's own"),
    WORD("reasoning-effort", "model", reasoning_effort, "xhigh|medium|low|none", "xhigh",
         "effort of requests that name none"),
    WORD("reasoning-field", "model", reasoning_field, "reasoning_content|reasoning|both",
         "reasoning_content", "key of reasoning text in answers"),
    WORD("late-system", "model", late_system, "inline|refuse", "inline",
         "a system message after the first user message"),
    SWITCH("reference-specials", "model", reference_specials,
           "recognise special tokens inside message text"),
    WORD("end-align", "model", end_align, "off|on", "on",
         "match a client's copy of past answers with the rows that hold them"),
    WORD("end-align-reasoning", "model", end_align_reasoning, "auto|on|off", "auto",
         "reasoning not sent back is taken from the rows; auto = on for template 3.8"),
    TEXT("think-close", "model", think_close, "TEXT", "I have used up the budget for reasoning and "
         "answer now with what I have.", "hidden phrase that closes a think block over its budget"),
    TEXT("think-note", "model", think_note, "TEXT", "",
         "hidden note inside a think block that has used half of its budget; none: not given"),

    COUNT(KEY_COUNT32, "queue", "engine", queue, 0, 65536, "48", "requests waiting; over it 429"),
    COUNT(KEY_COUNT32, "turns", "engine", turns, 1, 65536, "64", "rows of the turn table"),
    COUNT(KEY_COUNT32, "submits", "engine", submits, 1, 65536, "64", "rows of the submit table"),
    COUNT(KEY_COUNT32, "records", "engine", records, 1, 1048576, "4096",
          "rows of the record table"),
    COUNT(KEY_COUNT64, "reserve-tokens", "engine", reserve_tokens, 1, 0x1p32, "2048",
          "rows a turn must get beyond its prompt; it grows from there"),

    SIZE("board-gb", board_bytes, GIB, 0x1p24, "8", "all that this process may commit"),
    SIZE("board-floor-gb", board_floor_bytes, GIB, 0, "1",
         "measured free memory stays above it"),
    SIZE("cache-budget-gb", cache_budget_bytes, GIB, 0, "4", "all caches together"),
    SIZE("resident-gb", resident_bytes, GIB, 0, "1", "anchors of live conversations"),
    SIZE("resident-stash-gb", stash_bytes, GIB, 0, "1", "rows of guests; 0 = no guest slot"),
    SIZE("resident-pin-gb", pin_bytes, GIB, 0, "4", "heads of displaced conversations"),
    SIZE("resident-park-gb", park_bytes, GIB, 0, "4", "displaced conversations"),
    SIZE("store-gb", store_bytes, GIB, 0, "2", "short conversations and heads of prefills"),
    SIZE("store-entry-gb", store_entry_bytes, GIB, 0, "1", "one entry of the store at most"),
    SIZE("response-cache-mb", response_bytes, MIB, 0, "0", "answers of equal greedy requests"),
    SIZE("suffix-store-mb", suffix_store_bytes, MIB, 0, "192",
         "ids read and written, for the lookup drafter, 4 bytes each; 0 = none are kept"),
    TEXT("corpus", "budget", corpus, "FILE", "",
         "a text the lookup drafter reads too; NAME.ids: token ids, parted by blanks"),
    COUNT(KEY_COUNT64, "resident-guest-max", "budget", guest_rows_max, 0, 0x1p32, "8192",
          "tokens of a prompt that may be a guest; 0 = none is"),
    { "value-half-life-s", "budget", KEY_TIME, FIELD(value_half_life_us), 1000000, 1e6, 31536000e6,
      NULL, "3600", "age at which a record is worth half" },
    TEXT("cache-dir", "budget", cache_dir, "DIR|off", "",
         "folder of the tiers on disk, mode 0700; serve: $XDG_CACHE_HOME/holdfast, else "
         "~/.cache/holdfast; off: none"),
    SIZE("disk-gb", disk_bytes, GIB, 0, "50", "prefixes of prompts on disk"),
    SIZE("disk-free-gb", disk_floor_bytes, GIB, 0, "50",
         "the disk tier leaves so much free on its file system"),
    { "disk-unused-s", "budget", KEY_TIME, FIELD(disk_unused_us), 1000000, 1e6, 31536000e6, NULL,
      "604800", "prefixes on disk unused for longer go" },
    COUNT(KEY_COUNT64, "disk-min-tokens", "budget", disk_min_tokens, 0, 0x1p32, "4096",
          "shorter prompts are not written to the disk tier"),
    COUNT(KEY_COUNT32, "disk-admit-after", "budget", disk_admit_after, 1, 1000, "2",
          "a line goes to disk when it was read so often"),
    SIZE("spill-gb", spill_bytes, GIB, 0, "40", "whole conversations on disk"),
    SIZE("spill-free-gb", spill_floor_bytes, GIB, 0, "2",
         "the spill leaves so much free on its file system"),
    COUNT(KEY_COUNT64, "spill-min-tokens", "budget", spill_min_tokens, 0, 0x1p32, "16384",
          "shorter conversations are not written because they are displaced"),
    { "spill-wait-s", "budget", KEY_TIME, FIELD(spill_wait_us), 1000000, 0, 3600e6, NULL, "5",
      "a request waits so long for memory that a displaced conversation's writes hold" },
    { "journal-idle-s", "budget", KEY_TIME, FIELD(journal_idle_us), 1000000, 0, 86400e6, NULL, "5",
      "idle for so long, conversations are written to disk" },
    { "journal-every-s", "budget", KEY_TIME, FIELD(journal_every_us), 1000000, 0, 86400e6, NULL,
      "60", "while busy, a finished turn is written after so long" },
    COUNT(KEY_COUNT64, "journal-tokens", "budget", journal_rows, 1, 0x1p32, "4096",
          "while busy, so many new rows are written at once"),
    SIZE("nvme-write-gb-day", nvme_day_bytes, GIB, 0, "200",
         "bytes a day; over it only drain and displacement write"),
    SIZE("nvme-read-mb-s", nvme_read_bytes_s, MIB, 0, "0",
         "cache files are read so fast, until measured; 0 = probed at start"),
    SIZE("nvme-write-mb-s", nvme_write_bytes_s, MIB, 0, "0",
         "cache files are written so fast, until measured; 0 = probed at start"),
    { "prefill-s-token", "budget", KEY_REAL, FIELD(prefill_s_token), 0, 0, 100, NULL, "0",
      "forwarding a prompt's token takes so long, until measured; 0 = unknown" },
    { "restore-wait-s", "server", KEY_TIME, FIELD(restore_wait_us), 1000000, 0, 3600e6, NULL, "20",
      "at start the conversation used last is read from disk for so long" },
    { "drain-write-s", "server", KEY_TIME, FIELD(drain_write_us), 1000000, 0, 86400e6, NULL, "60",
      "how long conversations are written to disk after SIGTERM" },
    SIZE("heap-reserve-mb", heap_reserve_bytes, MIB, 0, "8", "heap committed at start"),
    SIZE("heap-cap-mb", heap_cap_bytes, MIB, 0x1p22, "256", "heap of HTTP, JSON, tokenizer"),
    SIZE("scratch-cap-mb", scratch_cap_bytes, MIB, 0x1p20, "1024",
         "activations of a chunk; committed at start"),
    SIZE("tables-cap-mb", tables_cap_bytes, MIB, 0x1p20, "256", "flat tables"),

    SWITCH("test-hooks", "hooks", test_hooks, "the switches of this group, for tests"),
    TEXT("force-file", "hooks", force_file, "FILE", "", "forced answers, JSON lines"),
    COUNT(KEY_COUNT32, "grid", "hooks", grid, 0, 0x1p20, "0", "prefill line length, tokens"),
    COUNT(KEY_COUNT32, "block", "hooks", block, 0, 0x1p16, "0", "tokens a block"),
    COUNT(KEY_COUNT64, "gate-seed", "hooks", gate_seed, 0, 0x1p53, "0",
          "seeded commit failures and cap changes before some gates; 0 = none"),
    COUNT(KEY_COUNT64, "draft-seed", "hooks", draft_seed, 0, 0x1p53, "0",
          "a drafter that is wrong on purpose instead of --draft's; 0 = none"),
    { "guest-fraction", "hooks", KEY_REAL, FIELD(guest_fraction), 1, 0, 1, NULL, "0.25",
      "a guest is under this part of the resident rows" },
    COUNT(KEY_COUNT64, "park-rows", "hooks", park_rows, 0, 0x1p32, "0",
          "cap of the park in rows, 0 = by bytes"),
    COUNT(KEY_COUNT64, "pin-rows", "hooks", pin_rows, 0, 0x1p32, "0",
          "cap of the pins in rows, 0 = by bytes"),
    TEXT("level", "hooks", level, "LEVEL", "", "CPU level: amx avx512 avx2 scalar neon"),
};
static_assert(COUNT_OF(keys) <= PROFILE_KEY_CAP, "profile_row.line holds every key");

static const char *const sections[] = { "server", "model", "engine", "budget", "hooks", "yield" };

const struct profile_key *profile_keys(u32 *count_out)
{
    *count_out = COUNT_OF(keys);
    return keys;
}

/* ------------------------------------------------------------------ names */

enum { NEAREST_BYTES = 48 };

/* Levenshtein distance of two names, cut at NEAREST_BYTES. */
static u32 distance(const char *a, const char *b)
{
    u32 row[NEAREST_BYTES + 1];
    u32 a_bytes = (u32)strnlen(a, NEAREST_BYTES), b_bytes = (u32)strnlen(b, NEAREST_BYTES);
    for (u32 j = 0; j <= b_bytes; j++) row[j] = j;
    for (u32 i = 1; i <= a_bytes; i++) {
        u32 corner = row[0];
        row[0] = i;
        for (u32 j = 1; j <= b_bytes; j++) {
            u32 change = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
            corner = row[j];
            u32 shift = MIN(row[j], row[j - 1]) + 1;
            row[j] = MIN(change, shift);
        }
    }
    return row[b_bytes];
}

const char *profile_nearest(const char *name, const char *const *names, u32 count)
{
    ASSERT(count > 0);
    u32 best = 0, best_distance = NONE;
    for (u32 i = 0; i < count; i++) {
        u32 d = distance(name, names[i]);
        if (d < best_distance) {
            best = i;
            best_distance = d;
        }
    }
    return names[best];
}

/* ------------------------------------------------------------------ values */

struct unit { const char *name; f64 factor; };
static const struct unit size_units[] = {
    { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 },
    { "KB", 1e3 }, { "MB", 1e6 }, { "GB", 1e9 },
};
static const struct unit time_units[] = {
    { "ms", 1e3 }, { "s", 1e6 }, { "h", 3600e6 }, { "d", 86400e6 },
};

/* Digits with at most one point, no sign, no exponent; *end_out is what follows. */
static bool read_number(const char *text, f64 *value_out, const char **end_out)
{
    size_t digits = strspn(text, "0123456789");
    size_t bytes = digits;
    if (text[bytes] == '.') {
        size_t more = strspn(text + bytes + 1, "0123456789");
        if (more == 0) return false;
        bytes += 1 + more;
    }
    if (digits == 0 || bytes > 20) return false;
    char copy[24];
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    *value_out = strtod(copy, NULL);
    *end_out = text + bytes;
    return true;
}

static bool read_united(const char *text, u64 bare, const struct unit *units, u32 unit_count,
                        f64 *value_out)
{
    f64 number;
    const char *rest;
    if (!read_number(text, &number, &rest)) return false;
    rest += strspn(rest, " ");
    if (rest[0] == 0) {
        *value_out = number * (f64)bare;
        return true;
    }
    for (u32 i = 0; i < unit_count; i++)
        if (strcmp(rest, units[i].name) == 0) {
            *value_out = number * units[i].factor;
            return true;
        }
    return false;
}

/* "1.5 GiB", "30 s", "48": a bound or default in the words of the help. */
static void print_amount(const struct profile_key *key, f64 value, char *out, size_t cap)
{
    if (key->kind == KEY_BYTES && value >= 0x1p30) snprintf(out, cap, "%.4g GiB", value / 0x1p30);
    else if (key->kind == KEY_BYTES) snprintf(out, cap, "%.4g MiB", value / 0x1p20);
    else if (key->kind == KEY_TIME) snprintf(out, cap, "%.4g s", value / SECOND);
    else snprintf(out, cap, "%.10g", value);
}

static enum err check_bounds(const struct profile_key *key, f64 value, const char *text,
                             const char *where)
{
    char lo[32], hi[32];
    if (value >= key->lo && value <= key->hi) return OK;
    print_amount(key, key->lo, lo, sizeof lo);
    print_amount(key, key->hi, hi, sizeof hi);
    return fail(ERR_CONFIG, "%s%s: \"%.60s\" is out of bounds: from %s to %s", where, key->name,
                text, lo, hi);
}

static enum err set_word(const struct profile_key *key, u32 *field, const char *text,
                         const char *where)
{
    size_t bytes = strlen(text);
    const char *choice = key->choices;
    for (u32 i = 0; ; i++) {
        size_t choice_bytes = strcspn(choice, "|");
        if (choice_bytes == bytes && memcmp(choice, text, bytes) == 0) {
            *field = i;
            return OK;
        }
        if (choice[choice_bytes] == 0) break;
        choice += choice_bytes + 1;
    }
    return fail(ERR_CONFIG, "%s%s: \"%.60s\" is none of %s", where, key->name, text, key->choices);
}

static enum err set_switch(const struct profile_key *key, bool *field, const char *text,
                           const char *where)
{
    static const char *const yes[] = { "on", "true", "1" }, *const no[] = { "off", "false", "0" };
    for (u32 i = 0; i < COUNT_OF(yes); i++) {
        if (strcmp(text, yes[i]) != 0 && strcmp(text, no[i]) != 0) continue;
        *field = strcmp(text, yes[i]) == 0;
        return OK;
    }
    return fail(ERR_CONFIG, "%s%s: \"%.60s\" is neither on nor off", where, key->name, text);
}

static enum err set_count(const struct profile_key *key, void *field, const char *text,
                          const char *where)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] != 0 || digits > 19)
        return fail(ERR_CONFIG, "%s%s: \"%.60s\" is not a whole number", where, key->name, text);
    u64 value = (u64)strtoull(text, NULL, 10);
    TRY(check_bounds(key, (f64)value, text, where));
    if (key->kind == KEY_COUNT32) *(u32 *)field = (u32)value;
    else *(u64 *)field = value;
    return OK;
}

static enum err set_amount(const struct profile_key *key, u64 *field, const char *text,
                           const char *where)
{
    f64 value;
    bool size = key->kind == KEY_BYTES;
    bool read = size
        ? read_united(text, key->unit, size_units, COUNT_OF(size_units), &value)
        : read_united(text, key->unit, time_units, COUNT_OF(time_units), &value);
    if (!read && size)
        return fail(ERR_CONFIG, "%s%s: \"%.60s\" is not a size; expected a number with KiB, MiB, "
                    "GiB, KB, MB or GB, a bare one counts %s", where, key->name, text,
                    key->unit == GIB ? "GiB" : key->unit == MIB ? "MiB" : "bytes");
    if (!read)
        return fail(ERR_CONFIG, "%s%s: \"%.60s\" is not a time; expected a number with ms, s, h or "
                    "d, a bare one counts seconds", where, key->name, text);
    TRY(check_bounds(key, value, text, where));
    *field = (u64)value;
    return OK;
}

static enum err set_real(const struct profile_key *key, f64 *field, const char *text,
                         const char *where)
{
    f64 value;
    const char *rest;
    bool minus = text[0] == '-';
    if (!read_number(text + minus, &value, &rest) || rest[0] != 0)
        return fail(ERR_CONFIG, "%s%s: \"%.60s\" is not a number", where, key->name, text);
    if (minus) value = -value;
    TRY(check_bounds(key, value, text, where));
    *field = value;
    return OK;
}

enum err profile_set(const struct profile_key *key, void *row, const char *value,
                     const char *where)
{
    u8 *field = (u8 *)row + key->offset;
    switch (key->kind) {
    case KEY_WORD:    return set_word(key, (u32 *)(void *)field, value, where);
    case KEY_SWITCH:  return set_switch(key, (bool *)(void *)field, value, where);
    case KEY_COUNT32:
    case KEY_COUNT64: return set_count(key, field, value, where);
    case KEY_BYTES:
    case KEY_TIME:    return set_amount(key, (u64 *)(void *)field, value, where);
    case KEY_REAL:    return set_real(key, (f64 *)(void *)field, value, where);
    case KEY_TEXT:    break;
    }
    size_t bytes = strlen(value);
    if (bytes >= key->size)
        return fail(ERR_CONFIG, "%s%s: %zu bytes of text, at most %u", where, key->name, bytes,
                    key->size - 1);
    memset(field, 0, key->size);
    memcpy(field, value, bytes);
    return OK;
}

void profile_defaults(struct profile_row *row)
{
    memset(row, 0, sizeof *row);
    for (u32 i = 0; i < COUNT_OF(keys); i++) {
        enum err e = profile_set(&keys[i], row, keys[i].fallback, "default: ");
        ASSERT(e == OK);
    }
}

/* ------------------------------------------------------------------ files */

struct source {                         /* a profile being read                              */
    struct profile_row *row;
    const char *path;                   /* as errors name it                                 */
    FILE       *file;                   /* or NULL: text                                     */
    const char *text, *text_end;
    u32  line;                          /* of the line last handed to inih                   */
    bool whole;                         /* that line ended in a newline                      */
    enum err error;                     /* the first one; its note stands                    */
};

/* fgets for inih, from the file or the embedded text; counts lines. */
static char *next_line(char *to, int cap, void *from)
{
    struct source *s = from;
    if (s->error != OK) return NULL;
    if (s->line > 0 && !s->whole) {     /* the last piece filled inih's buffer               */
        s->error = fail(ERR_CONFIG, "%s:%u: a line of more than 197 bytes", s->path, s->line);
        return NULL;
    }
    if (s->file != NULL) {
        if (fgets(to, cap, s->file) == NULL) return NULL;
    } else {
        u64 left = (u64)(s->text_end - s->text), bytes = 0;
        while (bytes < left && bytes + 1 < (u64)cap && s->text[bytes] != '\n') bytes++;
        if (bytes < left && bytes + 1 < (u64)cap) bytes++;
        if (bytes == 0) return NULL;
        memcpy(to, s->text, bytes);
        to[bytes] = 0;
        s->text += bytes;
    }
    size_t bytes = strlen(to);
    s->line++;
    s->whole = bytes + 1 < (size_t)cap || (bytes > 0 && to[bytes - 1] == '\n');
    return to;
}

/* `taker = victim, victim`: rows of the yield table in their order. */
static enum err add_yields(struct source *s, const char *taker, const char *victims)
{
    struct profile_row *row = s->row;
    for (u32 i = 0; i < row->yield_count; i++)
        if (strcmp(row->yield[i].taker, taker) == 0)
            return fail(ERR_CONFIG, "%s:%u: yield order of %s was given on line %u", s->path,
                        s->line, taker, row->yield[i].line);
    u32 order = 0;
    for (const char *at = victims; ; at++) {
        at += strspn(at, " \t");
        size_t bytes = strcspn(at, ", \t");
        if (bytes == 0 || bytes >= PROFILE_NODE_BYTES || strlen(taker) >= PROFILE_NODE_BYTES)
            return fail(ERR_CONFIG, "%s:%u: expected `taker = victim, victim` with names of 1 to "
                        "%d bytes", s->path, s->line, PROFILE_NODE_BYTES - 1);
        if (row->yield_count == PROFILE_YIELD_CAP)
            return fail(ERR_CONFIG, "%s:%u: more than %d yield edges", s->path, s->line,
                        PROFILE_YIELD_CAP);
        struct profile_yield *y = &row->yield[row->yield_count++];
        *y = (struct profile_yield){ .order = ++order, .line = s->line };
        memcpy(y->taker, taker, strlen(taker));
        memcpy(y->victim, at, bytes);
        at += bytes;
        at += strspn(at, " \t");
        if (at[0] == 0) return OK;
        if (at[0] != ',')
            return fail(ERR_CONFIG, "%s:%u: expected a comma before \"%.40s\"", s->path, s->line,
                        at);
    }
}

static enum err check_section(const struct source *s, const char *section)
{
    for (u32 i = 0; i < COUNT_OF(sections); i++)
        if (strcmp(sections[i], section) == 0) return OK;
    return fail(ERR_CONFIG, "%s:%u: no section [%s]; the nearest is [%s]", s->path, s->line,
                section, profile_nearest(section, sections, COUNT_OF(sections)));
}

static enum err set_line(struct source *s, const char *section, const char *name,
                         const char *value)
{
    TRY(check_section(s, section));
    if (strcmp(section, "yield") == 0) return add_yields(s, name, value);
    char where[PROFILE_PATH_BYTES + 16];
    snprintf(where, sizeof where, "%s:%u: ", s->path, s->line);
    const char *names[COUNT_OF(keys)];
    for (u32 i = 0; i < COUNT_OF(keys); i++) {
        names[i] = keys[i].name;
        if (strcmp(name, keys[i].name) != 0) continue;
        if (s->row->line[i] != 0)
            return fail(ERR_CONFIG, "%s%s was set on line %u", where, name, s->row->line[i]);
        TRY(profile_set(&keys[i], s->row, value, where));
        s->row->line[i] = s->line;
        return OK;
    }
    return fail(ERR_CONFIG, "%sno key \"%.60s\"; the nearest is \"%s\"", where, name,
                profile_nearest(name, names, COUNT_OF(keys)));
}

static int take_line(void *user, const char *section, const char *name, const char *value)
{
    struct source *s = user;
    if (s->error != OK) return 0;
    s->error = set_line(s, section, name, value);
    return s->error == OK;
}

static enum err read_source(struct source *s)
{
    int line = ini_parse_stream(next_line, s, take_line, s);
    if (s->error != OK && (line <= 0 || (u32)line >= s->line)) return s->error;
    if (line != 0)                      /* an earlier line that inih itself could not read   */
        return fail(ERR_CONFIG, "%s:%d: expected [section], `key = value` or a comment", s->path,
                    line);
    return OK;
}

static enum err read_file(const char *path, struct profile_row *row)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) return fail(ERR_NOT_FOUND, "%s: no such profile, or it can't be read", path);
    struct source s = { .row = row, .path = path, .file = file };
    enum err e = read_source(&s);
    if (e == OK && ferror(file)) e = fail(ERR_IO, "%s: it can't be read; is it a folder?", path);
    fclose(file);
    return e;
}

/* ROOT/profiles/NAME.conf when the binary lies in ROOT/build or below; false when it doesn't. */
static bool find_beside(const char *name, char *out, size_t cap)
{
    char self[PROFILE_PATH_BYTES];
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    if (bytes <= 0) return false;
    self[bytes] = 0;
    for (u32 up = 0; up < 4; up++) {
        char *slash = strrchr(self, '/');
        if (slash == NULL) return false;
        *slash = 0;
        int written = snprintf(out, cap, "%s/build.sh", self);
        if (written < 0 || (size_t)written >= cap || access(out, R_OK) != 0) continue;
        written = snprintf(out, cap, "%s/profiles/%s.conf", self, name);
        return written > 0 && (size_t)written < cap && access(out, R_OK) == 0;
    }
    return false;
}

static const char *choose(void)
{
    struct budget_measured m;
    budget_measure(0, &m);
    return m.free_bytes >= 14 * GIB ? "cpu-24g" : "cpu-8g";
}

enum err profile_load(const char *name, struct profile_row *row)
{
    char path[PROFILE_PATH_BYTES];
    profile_defaults(row);
    if (strcmp(name, "auto") == 0) name = choose();
    size_t bytes = strlen(name);
    if (bytes == 0 || bytes >= sizeof row->profile)
        return fail(ERR_CONFIG, "profile: expected auto, a name or a path under %zu bytes",
                    sizeof row->profile);
    memcpy(row->profile, name, bytes + 1);
    if (strchr(name, '/') != NULL || (bytes > 5 && strcmp(name + bytes - 5, ".conf") == 0))
        return read_file(row->profile, row);
    if (find_beside(name, path, sizeof path)) {
        memcpy(row->profile, path, sizeof path);
        return read_file(row->profile, row);
    }
    struct profile_embedded e;
    if (!profile_embedded_find(name, &e))
        return fail(ERR_NOT_FOUND, "profile: no \"%s\" is shipped; the nearest is \"%s\"", name,
                    profile_nearest(name, profile_embedded_names, PROFILE_EMBEDDED_COUNT));
    struct source s = { .row = row, .path = row->profile, .text = e.text,
                        .text_end = e.text + e.bytes };
    return read_source(&s);
}

/* ------------------------------------------------------------------ sums */

/* "FILE:LINE: " or "--flag: " of the key among `names` (comma-separated, known ones) that was set
 * last: a flag wins over the file; nothing for defaults. */
static const char *blame(const struct profile_row *row, const char *names, char *out, size_t cap)
{
    u32 best = NONE;
    for (u32 i = 0; i < COUNT_OF(keys); i++) {
        const char *at = strstr(names, keys[i].name);
        size_t bytes = strlen(keys[i].name);
        if (at == NULL || (at != names && at[-1] != ',')) continue;
        if (at[bytes] != 0 && at[bytes] != ',') continue;
        if (row->line[i] > 0 && (best == NONE || row->line[i] > row->line[best])) best = i;
    }
    out[0] = 0;
    if (best != NONE && row->line[best] == PROFILE_LINE_FLAG)
        snprintf(out, cap, "--%s: ", keys[best].name);
    else if (best != NONE)
        snprintf(out, cap, "%s:%u: ", row->profile, row->line[best]);
    return out;
}

/* One rule: `bad` is refused in the name of the keys it adds up. */
#define REFUSE(bad, names, ...) \
    do { \
        char where_[PROFILE_PATH_BYTES + 16], text_[256]; \
        if (bad) { \
            snprintf(text_, sizeof text_, __VA_ARGS__); \
            return fail(ERR_CONFIG, "%s%s", blame(row, names, where_, sizeof where_), text_); \
        } \
    } while (0)

static f64 gib(u64 bytes)
{
    return (f64)bytes / 0x1p30;
}

static enum err check_bytes(const struct profile_row *row)
{
    REFUSE(row->heap_reserve_bytes > row->heap_cap_bytes, "heap-reserve-mb,heap-cap-mb",
           "heap-reserve-mb is over heap-cap-mb");
    REFUSE(row->cache_budget_bytes > row->board_bytes, "cache-budget-gb,board-gb",
           "cache-budget-gb (%.3g GiB) is over board-gb (%.3g GiB)",
           gib(row->cache_budget_bytes), gib(row->board_bytes));
    REFUSE(row->resident_bytes > row->board_bytes, "resident-gb,board-gb",
           "resident-gb (%.3g GiB) is over board-gb (%.3g GiB)", gib(row->resident_bytes),
           gib(row->board_bytes));
    REFUSE(row->heap_reserve_bytes >= row->board_bytes, "heap-reserve-mb,board-gb",
           "heap-reserve-mb leaves nothing of board-gb (%.3g GiB)", gib(row->board_bytes));
    return OK;
}

static bool is_loopback(const char *host)
{
    return strcmp(host, "127.0.0.1") == 0 || strcmp(host, "localhost") == 0 ||
           strcmp(host, "::1") == 0 || strcmp(host, "[::1]") == 0;
}

static enum err check_hooks(const struct profile_row *row)
{
    bool loopback = is_loopback(row->host);
    REFUSE(row->test_hooks && !loopback, "test-hooks,host",
           "test-hooks need a loopback address, not \"%.80s\"", row->host);
    for (u32 i = 0; i < COUNT_OF(keys); i++)
        REFUSE(!row->test_hooks && strcmp(keys[i].group, "hooks") == 0 && row->line[i] > 0 &&
               strcmp(keys[i].name, "test-hooks") != 0, keys[i].name,
               "%s is for tests only and needs --test-hooks", keys[i].name);
    REFUSE(row->block > 0 && (row->block < 4 || (row->block & (row->block - 1)) != 0), "block",
           "block %u is no power of two from 4 on", row->block);
    REFUSE(row->grid > 0 && row->block > 0 && row->grid % row->block != 0, "grid,block",
           "grid %u is no multiple of block %u", row->grid, row->block);
    REFUSE(!loopback && row->api_key_file[0] == 0 && !row->no_auth, "host",
           "listening on %.80s needs --api-key-file, or --no-auth said explicitly", row->host);
    return OK;
}

enum err profile_check(struct profile_row *row)
{
    TRY(check_bytes(row));
    TRY(check_hooks(row));
    u32 parallel = row->parallel > 0 ? row->parallel : row->board_bytes >= 64 * GIB ? 4 : 2;
    REFUSE(row->turns < parallel, "turns,parallel", "turns (%u) are fewer than parallel (%u)",
           row->turns, parallel);
    REFUSE(row->submits < parallel, "submits,parallel",
           "submits (%u) are fewer than parallel (%u)", row->submits, parallel);
    REFUSE(row->suffix_store_bytes > 0 && row->suffix_store_bytes < SUFFIX_MIN, "suffix-store-mb",
           "suffix-store-mb (%llu bytes) is neither 0 nor at least %d bytes",
           (ull)row->suffix_store_bytes, SUFFIX_MIN);
    row->parallel = parallel;
    return OK;
}
