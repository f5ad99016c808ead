/* arena/base/crc32.c - ISA-L's reflected gzip polynomial (45 GB/s against zlib's 1.5). */
#include "arena/base/crc32.h"

#include <isa-l/crc.h>

u32 crc32_of(const void *bytes, u64 count)
{
    return crc32_gzip_refl(0, bytes, count);
}

u32 crc32_more(u32 crc, const void *bytes, u64 count)
{
    return crc32_gzip_refl(crc, bytes, count);
}
