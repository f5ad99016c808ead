/* budget/profile.h - one board's settings: profiles/NAME.conf and flags over it -> profile_row.
 *
 * One table of keys (profile_keys) names every setting once: a key of a .conf file and the flag
 * `--key` are the same row, with the same unit, bounds and text.  http/options reads flags by it.
 *
 * Units.  Sizes take KiB MiB GiB (powers of 1024) or KB MB GB (powers of 1000), times s ms h d; a
 * bare number has the unit in the key's name, where -gb is 2^30 and -mb 2^20 bytes and -s seconds.
 * Fractions are fine ("2.5"); what is not a whole number of bytes or microseconds is rounded down.
 *
 * A file is INI by inih: sections only group keys, except [yield], whose lines are
 * `taker = victim, victim` and replace that taker's yield order (budget/graph).  Unknown keys and
 * sections, bad units and values, and impossible sums are ERR_CONFIG with `FILE:LINE:` and, for
 * names, the nearest valid one. */
#ifndef BUDGET_PROFILE_H
#define BUDGET_PROFILE_H

#include "arena/base/err.h"

enum {
    PROFILE_PATH_BYTES = 512, PROFILE_TEXT_BYTES = 256, PROFILE_WORD_BYTES = 64,
    PROFILE_KEY_CAP = 96, PROFILE_YIELD_CAP = 64, PROFILE_NODE_BYTES = 16,
};

/* Values of the word keys, in the order of their choices. */
enum profile_backend   { BACKEND_AUTO, BACKEND_CPU, BACKEND_CUDA };
enum profile_effort    { EFFORT_XHIGH, EFFORT_MEDIUM, EFFORT_LOW, EFFORT_NONE };
enum profile_reasoning { REASONING_CONTENT, REASONING_PLAIN, REASONING_BOTH };
enum profile_late      { LATE_INLINE, LATE_REFUSE };
enum profile_align     { ALIGN_AUTO, ALIGN_ON, ALIGN_OFF };
enum profile_draft     { DRAFT_OFF, DRAFT_MTP, DRAFT_LOOKUP, DRAFT_AUTO };

struct profile_yield {
    char taker[PROFILE_NODE_BYTES], victim[PROFILE_NODE_BYTES];
    u32  order, line;
};

struct profile_row {
    /* server */
    char host[PROFILE_TEXT_BYTES];              /* 127.0.0.1                                     */
    u32  port;                                  /* 8080; 0 = any free one                        */
    char api_key_file[PROFILE_PATH_BYTES];      /* "" = none                                     */
    char admin_key_file[PROFILE_PATH_BYTES];
    bool no_auth;
    char host_names[PROFILE_TEXT_BYTES];        /* comma-separated                               */
    char cors_origins[PROFILE_TEXT_BYTES];      /* comma-separated                               */
    bool strict_model;
    u32  connections;                           /* open sockets at most                          */
    u64  body_bytes;                            /* of a request body; over it 413                */
    u32  json_depth;                            /* nesting of a body                             */
    u32  stop_strings;                          /* of a request                                  */
    u32  tools;                                 /* of a request                                  */
    u64  keepalive_us;                          /* comment at least this often; also how long    */
                                                /* a stream's headers are held                   */
    u64  drain_us;                              /* after SIGTERM running turns have this long    */
    u32  log_level;                             /* enum log_level of base/log                    */

    /* model */
    char model[PROFILE_PATH_BYTES];             /* "" = the embedded default model               */
    u64  ctx;                                   /* tokens; 0 = what the budget pays for          */
    u32  parallel;                              /* slots; never 0 after profile_load             */
    u32  threads;                               /* compute threads; 0 = one a core               */
    u32  backend;                               /* enum profile_backend                          */
    char arithmetic[PROFILE_WORD_BYTES];        /* auto, f32, bf16 or FORMAT=WORD,...            */
    bool pack_cache;
    char template_name[PROFILE_WORD_BYTES];     /* auto = by the template file's digest          */
    u32  draft;                                 /* enum profile_draft                            */
    u32  draft_max;                             /* ids proposed at once                          */
    u32  reasoning_effort;                      /* enum profile_effort: default of requests      */
    u32  reasoning_field;                       /* enum profile_reasoning                        */
    u32  late_system;                           /* enum profile_late                             */
    bool reference_specials;
    u32  end_align;                             /* 1: client copies are matched with the rows */
    u32  end_align_reasoning;                   /* enum profile_align; auto = by the template    */
    char think_close[PROFILE_TEXT_BYTES];       /* closes a think block over its budget          */
    char think_note[PROFILE_TEXT_BYTES];        /* inside one at half of its budget              */

    /* engine: capacities of tables */
    u32  queue;                                 /* requests waiting; over it 429                 */
    u32  turns, submits, records;               /* rows                                          */
    u64  reserve_tokens;                        /* rows a turn must get beyond its prompt        */

    /* budget */
    u64  board_bytes;                           /* pool `board`: all this process may commit     */
    u64  board_floor_bytes;                     /* measured free memory stays above it           */
    u64  cache_budget_bytes;                    /* node `caches`                                 */
    u64  resident_bytes;                        /* node `anchors`                                */
    u64  stash_bytes, pin_bytes, park_bytes;    /* nodes `stash`, `pin`, `park`                  */
    u64  store_bytes, store_entry_bytes;        /* node `store`; one record of it                */
    u64  response_bytes;                        /* node `response`                               */
    u64  suffix_store_bytes;                    /* the log of ids; node `suffix` holds more      */
    char corpus[PROFILE_PATH_BYTES];            /* a text the lookup drafter reads too; "" = none */
    u64  corpus_bytes;                          /* no key: of that file, set at start            */
    u64  guest_rows_max;                        /* of a prompt that may be a guest               */
    u64  value_half_life_us;                    /* of a record's value                           */
    char cache_dir[PROFILE_PATH_BYTES];         /* of the NVMe tiers; "" = off                   */
    u64  disk_bytes, disk_floor_bytes;          /* node `disk`; free on the file system at least */
    u64  disk_unused_us;
    u64  disk_min_tokens;
    u32  disk_admit_after;
    u64  spill_bytes, spill_floor_bytes;        /* node `spill`; free on the file system at least */
    u64  spill_min_tokens, spill_wait_us;
    u64  journal_idle_us, journal_every_us, journal_rows;
    u64  nvme_day_bytes;
    u64  nvme_read_bytes_s, nvme_write_bytes_s; /* 0 = probed at start                           */
    f64  prefill_s_token;                       /* 0 = measured                                  */
    u64  drain_write_us, restore_wait_us;
    u64  heap_reserve_bytes, heap_cap_bytes;
    u64  scratch_cap_bytes;
    u64  tables_cap_bytes;
    char dump_dir[PROFILE_PATH_BYTES];          /* "" = dumps of refused musts are not written   */
    struct profile_yield yield[PROFILE_YIELD_CAP];
    u32  yield_count;

    /* test hooks: refused without test_hooks */
    bool test_hooks;
    char force_file[PROFILE_PATH_BYTES];
    u32  grid, block;                           /* 0 = the model's own                           */
    u64  gate_seed;                             /* failing commits, changed caps; 0 = none       */
    u64  draft_seed;                            /* of a hostile drafter; 0 = the real ones       */
    f64  guest_fraction;                        /* of the resident rows                          */
    u64  park_rows, pin_rows;                   /* caps in rows instead of bytes; 0 = bytes      */
    char level[PROFILE_WORD_BYTES];             /* "" = best present                             */

    /* where from */
    char profile[PROFILE_PATH_BYTES];           /* name or path as asked for ("auto" resolved)   */
    u32  line[PROFILE_KEY_CAP];                 /* by key: line of the file, PROFILE_LINE_FLAG,  */
                                                /* or 0 = the default                            */
};
enum { PROFILE_LINE_FLAG = UINT16_MAX };

enum profile_kind {
    KEY_TEXT,           /* bytes of the field = `size`; longer is refused                        */
    KEY_WORD,           /* u32: place among `choices`, separated by '|'                          */
    KEY_SWITCH,         /* bool: on|off, true|false, 1|0; as a flag without value: on            */
    KEY_COUNT32, KEY_COUNT64,
    KEY_BYTES,          /* u64 bytes; a bare number counts `unit`s                               */
    KEY_TIME,           /* u64 microseconds; a bare number counts `unit`s                        */
    KEY_REAL,           /* f64                                                                   */
};

struct profile_key {
    const char *name;                   /* "board-floor-gb": key of a file, flag `--name`        */
    const char *group;                  /* "server", "model", "engine", "budget", "hooks"        */
    enum profile_kind kind;
    u32  offset, size;                  /* of the field in its row                               */
    u64  unit;                          /* bytes or us of a bare number; 0 or 1: itself          */
    f64  lo, hi;                        /* bounds of the stored value, both allowed              */
    const char *choices;                /* KEY_WORD; KEY_TEXT: what the help calls its value     */
    const char *fallback;               /* default, written as in a file                         */
    const char *help;                   /* one line                                              */
};

/* The table, in the order of the help text. */
const struct profile_key *profile_keys(u32 *count_out);

/* Every field as its fallback says; no file read. */
void profile_defaults(struct profile_row *row);

/* Fills `row` with defaults and the profile's keys.  `name`: "auto" (by free memory: cpu-24g from
 * 14 GiB on, else cpu-8g), a shipped name (profiles/NAME.conf in the source root if it is there,
 * else the text embedded in the binary), or a path (has a '/' or ends in .conf).  Sums are checked
 * by profile_check once flags are in.  ERR_CONFIG as the head says, ERR_NOT_FOUND names what is
 * shipped, ERR_IO. */
MUST_USE enum err profile_load(const char *name, struct profile_row *row);

/* Sets one key from text; `where` ("FILE:12: ", "--port: ") goes before an error's text.  `row` is
 * the struct the key's offset belongs to.  ERR_CONFIG. */
MUST_USE enum err profile_set(const struct profile_key *key, void *row, const char *value,
                              const char *where);

/* Impossible sums: reserves over caps or over the board, a grid that is no multiple of the block,
 * fewer turns than slots, hooks without --test-hooks or off loopback.  ERR_CONFIG names file:line
 * or flag of the key that was set last.  Resolves parallel 0. */
MUST_USE enum err profile_check(struct profile_row *row);

/* The name in `names` with the least edit distance to `name`; never NULL for count > 0. */
const char *profile_nearest(const char *name, const char *const *names, u32 count);

#endif
