/* budget/profile_embedded.c - profiles/NAME.conf by .incbin; build.sh rebuilds it with them. */
#include "budget/profile_embedded.h"

#include <string.h>

#define EMBED(symbol, path) \
    __asm__(".section .rodata\n" #symbol "_lo:\n.incbin \"" path "\"\n" #symbol "_hi:\n" \
            ".byte 0\n.previous\n"); \
    extern const char symbol##_lo[], symbol##_hi[]

EMBED(profile_cpu_8g, "profiles/cpu-8g.conf");
EMBED(profile_cpu_24g, "profiles/cpu-24g.conf");

const char *const profile_embedded_names[PROFILE_EMBEDDED_COUNT] = { "cpu-8g", "cpu-24g" };

bool profile_embedded_find(const char *name, struct profile_embedded *out)
{
    const char *const lo[] = { profile_cpu_8g_lo, profile_cpu_24g_lo };
    const char *const hi[] = { profile_cpu_8g_hi, profile_cpu_24g_hi };
    for (u32 i = 0; i < PROFILE_EMBEDDED_COUNT; i++) {
        if (strcmp(name, profile_embedded_names[i]) != 0) continue;
        *out = (struct profile_embedded){ .text = lo[i], .bytes = (u64)(hi[i] - lo[i]) };
        return true;
    }
    return false;
}
