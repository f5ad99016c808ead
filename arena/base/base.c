/* arena/base/base.c - what a failed ASSERT does: one line on stderr, then abort. */
#include "arena/base/base.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void base_assert_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "holdfast: %s:%d: assertion failed: %s\n", file, line, what);
    fflush(stderr);
    abort();
}
