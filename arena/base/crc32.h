/* arena/base/crc32.h - checksums of sections on disk: zlib's crc32, by ISA-L.
 *
 * The only room that includes ISA-L. */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include "arena/base/base.h"

/* CRC-32 of `count` bytes (polynomial 0xEDB88320, as gzip); "123456789" gives cbf43926. */
u32 crc32_of(const void *bytes, u64 count);

/* The checksum of what had `crc` followed by these bytes; start with crc 0. */
u32 crc32_more(u32 crc, const void *bytes, u64 count);

#endif
