/* tests/slow/cases_memory.c - the cases of http/cases_memory.c at B = 256 and G = 1,024. */
#define CASES_BIG
#define MICRO_IDS_CAP 49152
#include "tests/http/cases_memory.c"
