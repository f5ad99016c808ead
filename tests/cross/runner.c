/* tests/cross/runner.c - tests/test.h without cmocka, for a build that links libc alone: all tests
 * of a binary in file order, the first failed CHECK ends it. */
#include "tests/test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEST_CAP = 64 };
static struct { const char *name; test_fn *fn; } tests[TEST_CAP];
static u32 test_count;

void test_add(const char *name, test_fn *fn)
{
    ASSERT(test_count < TEST_CAP);
    tests[test_count].name = name;
    tests[test_count++].fn = fn;
}

void test_failed(const char *file, int line, const char *format, ...)
{
    va_list args;
    printf("%s:%d: ", file, line);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n0 passed, 1 failed\n");
    exit(1);
}

void test_alone(void) {}

void test_skip(const char *why)
{
    printf("[ SKIPPED  ] %s\n", why);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (u32 i = 0; i < test_count; i++) {
        tests[i].fn();
        printf("[       OK ] %s\n", tests[i].name);
    }
    printf("%u passed, 0 failed\n", test_count);
    return 0;
}
