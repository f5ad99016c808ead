/* tests/http/drafted_aside.c - the tests of cases_aside.c with drafts that are wrong on purpose:
 * starts, rows read and what the slots hold are the same. */
#define MICRO_DRAFT_SEED 11
#include "tests/http/cases_aside.c"
