/* tiers/nvme/fingerprint.h - which files are ours: one folder a model, arithmetic and machine.
 *
 *   CACHE/LOCK              flock: one process a cache folder; holds its number as text
 *   CACHE/<32 hex>/ABOUT    struct fingerprint_about, renewed at open and close
 *   CACHE/<32 hex>/...      pieces, anchors, manifests, counts
 *
 * The fingerprint hashes the weights' hash, sections and views with their types, B, G, the
 * arithmetic id, the backend's kind and the CPU's architecture; not the build: an upgrade keeps
 * caches.  Folders of another fingerprint are never read. */
#ifndef NVME_FINGERPRINT_H
#define NVME_FINGERPRINT_H

#include "arena/base/file.h"
#include "model/state.h"

struct fingerprint_source {
    u64 weights[2];
    u32 arithmetic_id;
    u32 arithmetic_least;               /* the build has this one and none below: not hashed  */
    const char *backend;                /* "cpu", "skew", ...                                 */
    const char *cpu;                    /* NULL: of this build                                */
};

struct fingerprint_about {              /* the file ABOUT                                     */
    char magic[8];                      /* "HFABOUT"                                          */
    u32  version, arithmetic_id;
    u8   fingerprint[16];
    u64  weights[2];
    u64  used_s;                        /* wall seconds of the last open or close             */
    u32  reserved, crc;                 /* of what stands before                              */
};
static_assert(sizeof(struct fingerprint_about) == 64, "files depend on it");

struct fingerprint {
    u8   id[16];
    char root[FILE_PATH_BYTES];         /* the cache folder                                   */
    char folder[FILE_PATH_BYTES];       /* this fingerprint's                                 */
    struct fingerprint_about about;
    u32  arithmetic_least;
    int  lock_fd;
    bool direct;                        /* the file system takes O_DIRECT                     */
};

void fingerprint_make(const struct state_shape *shape, const struct fingerprint_source *source,
                      u8 out[16]);

/* Makes and locks the cache folder (0700, owner checked), makes this fingerprint's folder, says in
 * the log when direct I/O is refused.  ERR_FULL: another process holds it, which is named; ERR_IO.
 * Nothing is held then. */
MUST_USE enum err fingerprint_open(const char *cache_dir, const struct state_shape *shape,
                                   const struct fingerprint_source *source, u64 now_s,
                                   struct fingerprint *out);
void fingerprint_close(struct fingerprint *f, u64 now_s);
/* Takes the lock of a cache folder that is there, for somebody without a model.  ERR_FULL names the
 * process that holds it; ERR_IO, ERR_NOT_FOUND. */
MUST_USE enum err fingerprint_lock(const char *cache_dir, int *fd_out);

/* A folder of another fingerprint, as found. */
struct fingerprint_other {
    char name[40];
    u64  weights[2];
    u64  used_s, bytes;
    u32  arithmetic_id;
    bool known;                         /* its ABOUT could be read                            */
};
enum { FINGERPRINT_UNUSED_S = 7 * 86400, FINGERPRINT_OTHERS = 64 };

/* Pure: it goes at once when it holds these weights under an arithmetic id that only older builds
 * had, after 7 days unused, or when `need_bytes` are short (the caller passes the oldest first).
 * Another word of --arithmetic finds its folder again. */
bool fingerprint_goes(const struct fingerprint_other *other, const struct fingerprint *f,
                      u64 now_s, u64 need_bytes);

/* One folder of a cache folder, by its name.  ERR_IO. */
MUST_USE enum err fingerprint_look(const char *root, const char *name,
                                   struct fingerprint_other *out);

struct fingerprint_swept {
    u32 folders, count;                 /* removed; kept: other [count], unused longest first */
    u64 bytes, kept_bytes;
    struct fingerprint_other other[FINGERPRINT_OTHERS];
};

/* Looks at the other folders, oldest first, and removes those that go; `need_bytes` is what the
 * budget lacks.  A folder that can't be removed is logged and left. */
MUST_USE enum err fingerprint_sweep(const struct fingerprint *f, u64 now_s, u64 need_bytes,
                                    struct fingerprint_swept *out);

#endif
