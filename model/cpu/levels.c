/* model/cpu/levels.c - the table of levels and what CPUID says of each.
 *
 * AMX also needs the system's leave for 8 KiB of tile state a thread: asked for once, before the
 * pool's threads start, which inherit it.  A refusal leaves AVX-512. */
#include "model/cpu/levels.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const struct cpu_level *const levels[] = {
#if defined(__x86_64__)
    &amx_level, &avx512_level, &avx2_level,
#elif defined(__aarch64__)
    &neon_level,
#endif
    &scalar_level,
};

const struct cpu_level *levels_at(u32 i)
{
    return i < COUNT_OF(levels) ? levels[i] : NULL;
}

#if defined(__x86_64__)
/* F16C is asked of leaf 1: clang 14 has no word for it. */
static bool avx2_here(void)
{
    enum { F16C = 1 << 29 };
    u32 a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & F16C) != 0;
}

static bool avx512_here(void)
{
    return avx2_here() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

#ifdef TILE_TWIN
static bool amx_here(void)
{
    return avx512_here();
}

bool levels_amx_int8(void)
{
    return true;
}
#else
/* Leaf 7: AMX-BF16 and AMX-TILE; XCR0: the system saves tile configuration and data. */
static bool amx_here(void)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, OSXSAVE = 1 << 27, XCR0_TILES = 3 << 17,
           ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_TILE_DATA = 18 };
    u32 a, b, c, d, low, high;
    if (!avx512_here() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if ((d & AMX_BF16) == 0 || (d & AMX_TILE) == 0) return false;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & OSXSAVE) == 0) return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & XCR0_TILES) == XCR0_TILES &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILE_DATA) == 0;
}

bool levels_amx_int8(void)
{
    enum { AMX_INT8 = 1 << 25 };        /* leaf 7                                              */
    u32 a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_INT8) != 0;
}
#endif
#else
bool levels_amx_int8(void)
{
    return false;
}
#endif

bool levels_here(const char *name)
{
#if defined(__x86_64__)
    if (strcmp(name, "avx2") == 0) return avx2_here();
    if (strcmp(name, "avx512") == 0) return avx512_here();
    if (strcmp(name, "amx") == 0) return amx_here();
#elif defined(__aarch64__)
    if (strcmp(name, "neon") == 0) return true;
#endif
    return strcmp(name, "scalar") == 0;
}

const struct cpu_level *levels_find(const char *name)
{
    bool best = !name || strcmp(name, "auto") == 0;
    for (u32 i = 0; i < COUNT_OF(levels); i++)
        if ((best || strcmp(levels[i]->name, name) == 0) && levels_here(levels[i]->name))
            return levels[i];
    return NULL;
}
