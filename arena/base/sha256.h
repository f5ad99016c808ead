/* arena/base/sha256.h - SHA-256 of bytes in memory (FIPS 180-4): which chat template is this. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include "arena/base/base.h"

/* The digest of bytes[0, len) as 64 lower-case hex digits and a 0. */
void sha256_hex(const void *bytes, u64 len, char out[65]);

#endif
