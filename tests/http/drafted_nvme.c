/* tests/http/drafted_nvme.c - the tests of nvme_turns.c with drafts that are wrong on purpose:
 * starts, rows read and what the slots hold are the same. */
#define MICRO_DRAFT_SEED 11
#include "tests/http/nvme_turns.c"
