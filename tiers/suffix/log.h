/* tiers/suffix/log.h - the suffix store: what the engine read and wrote, kept for the lookup.
 *
 * An append-only log of ids in segments (words.h), the newest of which is written to.  A request
 * adds what none of the last four requests already added (recent.h).  Over its cap the log forgets
 * its oldest half, whole segments.  Files are written by the NVMe tiers' writer and come back at
 * the next start; without a cache folder, or when writing fails again and again, the log is memory
 * alone.  Closed segments get their array from the builder.  A cap of 0 is no log; --corpus stands
 * beside it and is neither counted nor forgotten.
 *
 * Nothing here ever fails a turn: what has no memory or no disk is not kept, and counted.  Engine
 * thread. */
#ifndef SUFFIX_LOG_H
#define SUFFIX_LOG_H

#include "tiers/nvme/writer.h"
#include "tiers/suffix/segment.h"

enum { SUFFIX_LOG_LEAST = 4,            /* ids worth a record: a match and what follows       */
       SUFFIX_LOG_CAP_MIN = 4096 };     /* bytes of a cap that is not 0                       */

struct suffix_log_setup {
    u32 table_arena;
    u64 ctx;                            /* ids of a request at most                           */
    u64 cap_bytes;                      /* 4 a word; 0: no log                                */
    u32 vocab;                          /* ids are below                                      */
    u8  tokenizer[16];                  /* what they stand for                                */
    const char *cache_dir;              /* "": memory alone                                   */
    struct budget_graph *graph;
    struct ring_wake *wake;             /* the engine's                                       */
    bool thread;                        /* false: suffix_log_pass sorts (tests)               */
};

struct suffix_log_counts {
    u64 segments, sorted, stored;       /* now; with an array; whose memory was yielded       */
    u64 ids, bytes, file_bytes;         /* in the log; 4 a word; known to be in files         */
    u64 memory_bytes, corpus;           /* of all extents; ids of --corpus                    */
    u64 requests, added, repeated;      /* ids added; not added since a request before did    */
    u64 refused, forgotten, cleared;    /* ids: no memory; over the cap; by hand              */
    u64 yielded, memory_refused;        /* segments; gates                                    */
    u64 builds, build_us, build_us_max, build_failed;
    u64 found, repaired, bad_files, removed;    /* at start: ids, files                       */
    u64 write_failed;
    bool files;                         /* the log is written                                 */
};

/* Node `suffix` (segment.h) and, under `nvme`, `suffix-log`: bytes in files; its cap is the log's,
 * also while running.  ERR_CONFIG. */
MUST_USE enum err suffix_log_declare(struct budget_graph *g, u64 cap_bytes, u64 arena_bytes);
u64  suffix_log_table_bytes(u64 cap_bytes, u64 corpus_bytes, u64 ctx);
/* After nvme_open, whose writer it uses.  ERR_FULL, ERR_MEMORY, ERR_IO: off; nothing is held. */
MUST_USE enum err suffix_log_open(const struct suffix_log_setup *setup);
/* After nvme_close, which carried out what was queued. */
void suffix_log_close(void);

/* A request's ids, prompt and answer.  `session` is the hash of its id. */
void suffix_log_add(const u32 *ids, u64 count, const u64 session[2]);
/* Ids of --corpus, once.  ERR_LIMIT, ERR_MEMORY: none of them is searched. */
MUST_USE enum err suffix_log_corpus(const u32 *ids, u64 count);
/* Arrays that came, the next one; true: something moved. */
bool suffix_log_pass(u64 now_us);
/* An answer of the writer with the log's folder. */
void suffix_log_written(const struct writer_answer *answer);
/* Queues everything that no file has. */
void suffix_log_flush(void);
/* The cap of node `suffix-log` may have changed: what is over it goes.  Under 4,096 bytes nothing
 * is kept. */
void suffix_log_caps(void);
/* Forgets a session's ids, or with NULL the whole log; bytes freed.  Segments whose memory was
 * yielded go whole: nobody knows here whose they are. */
u64  suffix_log_clear(const u64 session[2]);
struct suffix_log_counts suffix_log_counts(void);

#endif
