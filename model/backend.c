/* model/backend.c - one backend a process; this version has the CPU's. */
#include "model/backend.h"

#include <string.h>
#include <unistd.h>

#include "model/cpu/cpu.h"

enum err backend_open(const struct backend_choice *choice, struct ops *out)
{
    const char *name = choice->name == NULL ? "auto" : choice->name;
    if (strcmp(name, "auto") != 0 && strcmp(name, "cpu") != 0)
        return fail(ERR_UNSUPPORTED, "backend: \"%.40s\" is not in this build; auto or cpu is "
                    "expected", name);
    long present = sysconf(_SC_NPROCESSORS_ONLN);
    u32 threads = choice->threads;
    if (threads == 0) threads = (u32)MIN(MAX(present, 1), BACKEND_THREADS_MAX);
    return cpu_open(out, threads, choice->level, choice->arithmetic);
}

void backend_close(void) { cpu_close(); }
