/* arena/space_host.c - the host's memory: one PROT_NONE reservation, pages opened by commit and
 * handed back by MADV_DONTNEED.
 *
 * A range stays readable after a decommit in release builds: closing it again would split the
 * kernel's map at every hole, and the map has a limit of 65,530 pieces.  Debug builds close it, so
 * that a stale pointer faults.  Whole 2 MiB inside one commit are advised as huge pages, and the
 * advice is taken back with them: a fault in a part committed later must not fill 2 MiB. */
#include "arena/space.h"

#include "arena/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GRANULE_DEFAULT = 64 * 1024, PAGE_BYTES = 4096 };
#define HUGE_BYTES (2 * MIB)

static enum err host_reserve(u64 bytes, u8 **base_out);
static void host_release(u8 *base, u64 bytes);
static enum err host_commit(u8 *at, u64 bytes);
static void host_decommit(u8 *at, u64 bytes);
static enum err host_copy(void *to, const void *from, u64 bytes, u32 stream);
static enum err host_fill(void *to, u8 value, u64 bytes, u32 stream);
static u64 host_fence(u32 stream);
static enum err host_wait(u64 fence);
static u64 host_free_bytes(void);

static struct space_ops host = {
    .name = "host", .granule_bytes = GRANULE_DEFAULT, .reserve = host_reserve,
    .release = host_release, .commit = host_commit, .decommit = host_decommit, .copy = host_copy,
    .fill = host_fill, .fence = host_fence, .wait = host_wait, .free_bytes = host_free_bytes,
};
static _Atomic u32 fail_left;

const struct space_ops *space_ops(enum space space)
{
    return space_real(space) == SPACE_HOST ? &host : NULL;
}

enum space space_real(enum space space)
{
    ASSERT((u32)space < SPACE_COUNT);
    return SPACE_HOST;
}

void space_host_granule(u64 bytes)
{
    ASSERT(bytes == 0 || (bytes >= PAGE_BYTES && (bytes & (bytes - 1)) == 0));
    host.granule_bytes = bytes == 0 ? GRANULE_DEFAULT : bytes;
}

void space_host_fail_commit(u32 nth)
{
    atomic_store(&fail_left, nth);
}

u32 space_host_fail_left(void)
{
    return atomic_load(&fail_left);
}

/* True when the commit about to be made is the one that fails. */
static bool fault(void)
{
    u32 left = atomic_load(&fail_left);
    while (left > 0)                    /* ends: another thread counted, or we did            */
        if (atomic_compare_exchange_weak(&fail_left, &left, left - 1)) return left == 1;
    return false;
}

static enum err host_reserve(u64 bytes, u8 **base_out)
{
    u64 align = MAX(HUGE_BYTES, host.granule_bytes), whole = bytes + align;
    void *got = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED)
        return fail(ERR_MEMORY, "reserving %llu bytes of addresses: %s", (ull)bytes,
                    strerror(errno));
    u8 *start = got, *base = start + (align - (uintptr_t)start % align) % align;
    u64 head = (u64)(base - start), tail = whole - head - bytes;
    if (head > 0) munmap(start, head);
    if (tail > 0) munmap(base + bytes, tail);
    *base_out = base;
    return OK;
}

static void host_release(u8 *base, u64 bytes)
{
    if (bytes > 0) munmap(base, bytes);
}

/* The whole 2 MiB pieces inside [at, at + bytes); false when there are none. */
static bool huge_part(u8 *at, u64 bytes, u8 **out, u64 *out_bytes)
{
    u64 skip = (HUGE_BYTES - (uintptr_t)at % HUGE_BYTES) % HUGE_BYTES;
    if (bytes < skip + HUGE_BYTES) return false;
    *out = at + skip;
    *out_bytes = ALIGN_DOWN(bytes - skip, HUGE_BYTES);
    return true;
}

static enum err host_commit(u8 *at, u64 bytes)
{
    ASSERT((uintptr_t)at % host.granule_bytes == 0 && bytes % host.granule_bytes == 0);
    if (bytes == 0) return OK;
    if (fault()) return fail(ERR_MEMORY, "commit of %llu bytes refused (injected)", (ull)bytes);
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0)
        return fail(ERR_MEMORY, "commit of %llu bytes: %s", (ull)bytes, strerror(errno));
    u8 *huge;
    u64 huge_bytes;
    if (huge_part(at, bytes, &huge, &huge_bytes)) madvise(huge, huge_bytes, MADV_HUGEPAGE);
    return OK;
}

static void host_decommit(u8 *at, u64 bytes)
{
    ASSERT((uintptr_t)at % host.granule_bytes == 0 && bytes % host.granule_bytes == 0);
    if (bytes == 0) return;
    i32 rc = madvise(at, bytes, MADV_DONTNEED);
    ASSERT(rc == 0);
    u8 *huge;
    u64 huge_bytes;
    if (huge_part(at, bytes, &huge, &huge_bytes)) madvise(huge, huge_bytes, MADV_NOHUGEPAGE);
#ifdef HOLDFAST_DEBUG
    mprotect(at, bytes, PROT_NONE);
#endif
}

void space_host_purge(u8 *at, u64 bytes)
{
    ASSERT((uintptr_t)at % PAGE_BYTES == 0 && bytes % PAGE_BYTES == 0);
    i32 rc = bytes == 0 ? 0 : madvise(at, bytes, MADV_DONTNEED);
    ASSERT(rc == 0);
}

static enum err host_copy(void *to, const void *from, u64 bytes, u32 stream)
{
    (void)stream;
    if (bytes > 0) memmove(to, from, bytes);
    return OK;
}

static enum err host_fill(void *to, u8 value, u64 bytes, u32 stream)
{
    (void)stream;
    if (bytes > 0) memset(to, value, bytes);
    return OK;
}

static u64 host_fence(u32 stream)
{
    (void)stream;
    return 0;
}

static enum err host_wait(u64 fence)
{
    (void)fence;
    return OK;
}

/* MemAvailable of /proc/meminfo in bytes, 0 when it can't be read. */
static u64 host_free_bytes(void)
{
    char text[4096];
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0) return 0;
    text[bytes] = 0;
    const char *line = strstr(text, "MemAvailable:");
    return line == NULL ? 0 : strtoull(line + 13, NULL, 10) * KIB;
}

/* ---------------------------------------------------------------- mapped files */
static const u8 nothing[1];             /* where an empty file lies                           */

enum err space_host_map_file(const char *path, const u8 **base_out, u64 *bytes_out)
{
    int fd = -1;
    struct stat s;
    TRY(file_open(path, FILE_OPEN_READ, 0, &fd));
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
        file_close(fd);
        return fail(ERR_IO, "mapping %s: not a plain file", path);
    }
    u64 bytes = (u64)s.st_size;
    void *at = bytes == 0 ? NULL : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    i32 why = errno;
    file_close(fd);
    if (at == MAP_FAILED) return fail(ERR_IO, "mapping %s: %s", path, strerror(why));
    *base_out = bytes == 0 ? nothing : at;
    *bytes_out = bytes;
    return OK;
}

void space_host_unmap_file(const u8 *base, u64 bytes)
{
    if (bytes > 0) munmap((void *)(uintptr_t)base, bytes);
}

void space_host_drop_file(const u8 *at, u64 bytes)
{
    uintptr_t first = ALIGN_UP((uintptr_t)at, PAGE_BYTES);
    uintptr_t end = ALIGN_DOWN((uintptr_t)at + bytes, PAGE_BYTES);
    if (first < end) madvise((void *)first, end - first, MADV_DONTNEED);
}

enum err space_host_place_file(const char *path, u64 offset, u8 *at, u64 bytes)
{
    int fd = -1;
    struct stat s;
    ASSERT((uintptr_t)at % PAGE_BYTES == 0 && offset % PAGE_BYTES == 0 && bytes > 0);
    TRY(file_open(path, FILE_OPEN_READ, 0, &fd));
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || (u64)s.st_size < offset + bytes) {
        file_close(fd);
        return fail(ERR_IO, "mapping %s: not a plain file of %llu bytes", path,
                    (ull)(offset + bytes));
    }
    void *got = mmap(at, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, (off_t)offset);
    i32 why = errno;
    file_close(fd);
    return got == MAP_FAILED ? fail(ERR_IO, "mapping %s: %s", path, strerror(why)) : OK;
}

void space_host_unplace(u8 *at, u64 bytes)
{
    void *got = mmap(at, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    ASSERT(got == at);
}
