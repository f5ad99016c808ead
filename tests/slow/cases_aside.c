/* tests/slow/cases_aside.c - the cases of http/cases_aside.c on the bench model at B = 256 and
 * G = 1,024. */
#define CASES_BIG
#define MICRO_IDS_CAP 24576
#include "tests/http/cases_aside.c"
