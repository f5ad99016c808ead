/* model/embedded.h - the files of the default model, linked into the binary.
 *
 * `profiles/default-model/` as it stood at build time: a tiny trained qwen3_5 checkpoint, so that
 * `serve` answers on a fresh machine without a download.  Read-only data of the program itself. */
#ifndef MODEL_EMBEDDED_H
#define MODEL_EMBEDDED_H

#include "arena/base/base.h"

struct embedded_file {
    const char *name;           /* "config.json", ...; no folder                              */
    const u8   *data;
    u64         bytes;
};

/* Row `index` of the embedded files, or NULL past the last. */
const struct embedded_file *embedded_at(u32 index);

#endif
