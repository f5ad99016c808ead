/* budget/profile_embedded.h - the shipped profiles, as texts inside the binary: it stands alone. */
#ifndef BUDGET_PROFILE_EMBEDDED_H
#define BUDGET_PROFILE_EMBEDDED_H

#include "arena/base/base.h"

enum { PROFILE_EMBEDDED_COUNT = 2 };
extern const char *const profile_embedded_names[PROFILE_EMBEDDED_COUNT];

struct profile_embedded { const char *text; u64 bytes; };

/* The text of profiles/NAME.conf as it was at build time; false when none is shipped. */
bool profile_embedded_find(const char *name, struct profile_embedded *out);

#endif
