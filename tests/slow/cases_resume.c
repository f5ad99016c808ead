/* tests/slow/cases_resume.c - the cases of http/cases_resume.c at B = 256 and G = 1,024. */
#define CASES_BIG
#define MICRO_IDS_CAP 49152
#include "tests/http/cases_resume.c"
