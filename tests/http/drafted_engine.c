/* tests/http/drafted_engine.c - the tests of turn_engine.c with drafts that are wrong on purpose:
 * starts, rows read and what the slots hold are the same. */
#define MICRO_DRAFT_SEED 11
#include "tests/http/turn_engine.c"
