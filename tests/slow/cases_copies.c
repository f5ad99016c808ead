/* tests/slow/cases_copies.c - the cases of http/cases_copies.c on the bench model at B = 256 and
 * G = 1,024, behind a system text of more than one line. */
#define CASES_BIG
#include "tests/http/cases_copies.c"
