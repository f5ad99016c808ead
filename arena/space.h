/* arena/space.h - a space is a physical memory: one reserved range of addresses, committed in
 * granules.
 *
 * The second space (device memory through the driver's virtual memory calls, copies on streams)
 * fills the same table of functions; everything above asks `space_ops(space)` and knows no more.
 * Copies and fills may be asynchronous: they are ordered within one stream, and a fence tells when
 * they are done.  On the host they are done when the call returns. */
#ifndef ARENA_SPACE_H
#define ARENA_SPACE_H

#include "arena/base/err.h"

enum space { SPACE_HOST, SPACE_DEVICE, SPACE_COUNT };

struct space_ops {
    const char *name;
    u64 granule_bytes;                  /* commit unit: 64 KiB host, 2 MiB device, 4 KiB tests  */
    /* Reserves `bytes` of addresses, nothing committed; ERR_MEMORY. */
    enum err (*reserve)(u64 bytes, u8 **base_out);
    void (*release)(u8 *base, u64 bytes);
    /* [at, at + bytes) in whole granules; committed bytes read as zero; ERR_MEMORY when refused. */
    enum err (*commit)(u8 *at, u64 bytes);
    void (*decommit)(u8 *at, u64 bytes);
    /* Queued on stream `stream` (0 = compute, 1 = copy), in order; either end may be the host. */
    enum err (*copy)(void *to, const void *from, u64 bytes, u32 stream);
    enum err (*fill)(void *to, u8 value, u64 bytes, u32 stream);
    /* A fence counts the work queued on `stream` so far; wait returns when it is done. */
    u64 (*fence)(u32 stream);
    enum err (*wait)(u64 fence);
    /* Bytes another process could still take from this memory, as measured now. */
    u64 (*free_bytes)(void);
};

/* The space's functions, or NULL when this build or machine has no such space. */
const struct space_ops *space_ops(enum space space);

/* Spaces whose memory is this board's: SPACE_DEVICE maps to SPACE_HOST on a CPU-only machine, so
 * that declarations may say where bytes belong and need not change with the backend. */
enum space space_real(enum space space);

/* Tests only: granule of the host space (power of two >= 4096) before arena_open, 0 = default;
 * and the commit that fails: the n-th from now (1 = next), 0 = none. */
void space_host_granule(u64 bytes);
void space_host_fail_commit(u32 nth);
/* Commits left before the one that fails; 0 once it has fired (or none is set). */
u32 space_host_fail_left(void);

/* Committed pages (4 KiB each) give their memory back, stay committed, and read as zero. */
void space_host_purge(u8 *at, u64 bytes);

/* Maps a file read-only (private).  `*bytes_out` = its length, 0-length files give a valid pointer.
 * ERR_IO names path and reason.  Unmap with space_host_unmap_file.  `drop` tells the kernel that
 * [at, at + bytes) of a mapping will not be read again (pages are dropped from this process). */
MUST_USE enum err space_host_map_file(const char *path, const u8 **base_out, u64 *bytes_out);
void space_host_unmap_file(const u8 *base, u64 bytes);
void space_host_drop_file(const u8 *at, u64 bytes);

/* Puts `bytes` of the file at `path`, from `offset` on, where committed pages are: read-only, and
 * taken away again by space_host_unplace, which leaves zero pages there.  Offset and address are
 * whole pages; the file must be that long.  ERR_IO names path and reason: the pages stay then. */
MUST_USE enum err space_host_place_file(const char *path, u64 offset, u8 *at, u64 bytes);
void space_host_unplace(u8 *at, u64 bytes);

#endif
