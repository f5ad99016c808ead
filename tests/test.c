/* tests/test.c - the runner: registered tests through cmocka, one closing line. */
#include "tests/test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEST_CAP = 512 };

static struct CMUnitTest tests[TEST_CAP];
static test_fn *functions[TEST_CAP];
static u32 test_count;
static u32 passed_count;
static u32 skipped_count;
static bool alone;

static void run_one(void **state)
{
    test_fn *fn = *(test_fn **)*state;
    fn();
    passed_count++;
}

void test_add(const char *name, test_fn *fn)
{
    ASSERT(test_count < TEST_CAP);
    functions[test_count] = fn;
    tests[test_count] = (struct CMUnitTest){ .name = name, .test_func = run_one,
                                             .initial_state = &functions[test_count] };
    test_count++;
}

void test_failed(const char *file, int line, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (alone) {
        fprintf(stderr, "%s:%d: %s\n", file, line, text);
        _Exit(1);
    }
    print_error("%s:%d: %s\n", file, line, text);
    _fail(file, line);
}

void test_alone(void) { alone = true; }

void test_skip(const char *why)
{
    printf("[ SKIPPED  ] %s\n", why);
    skipped_count++;
    _skip(__FILE__, __LINE__);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    int failed = _cmocka_run_group_tests(argv[0], tests, test_count, NULL, NULL);
    if (skipped_count > 0)
        printf("%u passed, %d failed, %u skipped\n", passed_count, failed, skipped_count);
    else
        printf("%u passed, %d failed\n", passed_count, failed);
    return failed == 0 && passed_count + skipped_count > 0 ? 0 : 1;
}
