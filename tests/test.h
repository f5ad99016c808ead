/* tests/test.h - TEST and CHECK over cmocka; one binary a test file.
 *
 *   TEST(the_sentence_it_proves) { CHECK(1 + 1 == 2); }
 *
 * A TEST registers itself; tests/test.c runs all of a binary in file order and closes with
 * `N passed, N failed`.  A failed CHECK names file, line and condition and ends that test.  A test
 * file may include the .c it opens up. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include "arena/base/base.h"
#include "arena/base/err.h"

typedef void test_fn(void);
void test_add(const char *name, test_fn *fn);
void test_failed(const char *file, int line, const char *format, ...) PRINTF_LIKE(3, 4);

/* From now on a failed CHECK ends the process with exit 1: for a child that a test forked. */
void test_alone(void);

/* A test that can't run on this machine says why; it is counted as skipped and printed. */
void test_skip(const char *why);

#define TEST(name)                                                             \
    static void test_##name(void);                                             \
    __attribute__((constructor)) static void test_add_##name(void)             \
    { test_add(#name, test_##name); }                                          \
    static void test_##name(void)

#define CHECK(condition)                                                       \
    do { if (!(condition)) test_failed(__FILE__, __LINE__, "CHECK(%s)", #condition); } while (0)

/* OK, else the test ends with the error's own text. */
#define CHECK_OK(call)                                                         \
    do { enum err check_err_ = (call);                                         \
         if (check_err_ != OK)                                                 \
             test_failed(__FILE__, __LINE__, "%s: %s: %s", #call,              \
                         err_word(check_err_), err_last()->text); } while (0)

/* Two integers, both printed when they differ. */
#define CHECK_EQ(a, b)                                                         \
    do { long long check_a_ = (long long)(a), check_b_ = (long long)(b);       \
         if (check_a_ != check_b_)                                             \
             test_failed(__FILE__, __LINE__, "%s == %s: %lld != %lld", #a, #b, \
                         check_a_, check_b_); } while (0)

/* Two strings, both printed when they differ. */
#define CHECK_STR(a, b)                                                        \
    do { const char *check_a_ = (a), *check_b_ = (b);                          \
         if (__builtin_strcmp(check_a_, check_b_) != 0)                        \
             test_failed(__FILE__, __LINE__, "%s == %s:\n  \"%s\"\n  \"%s\"",  \
                         #a, #b, check_a_, check_b_); } while (0)

#endif
