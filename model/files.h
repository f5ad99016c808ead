/* model/files.h - the files of a model: a folder's, mapped read-only, or the embedded ones.
 *
 * A file is found by its name inside the folder and stays mapped until files_close.  Names that
 * come from the model's own files (an index naming shards) are untrusted: one with a slash or a
 * leading dot is refused.  A model may also be one FILE.gguf: then the folder is the one it lies
 * in, and only it and its split files are asked for.  Owns the mappings. */
#ifndef MODEL_FILES_H
#define MODEL_FILES_H

#include "arena/base/err.h"

enum { FILES_CAP = 256, FILES_NAME_BYTES = 128, FILES_DIR_BYTES = 1024 };

struct files_row {
    char      name[FILES_NAME_BYTES];
    const u8 *data;
    u64       bytes;
};

struct files {
    char  dir[FILES_DIR_BYTES];         /* as given; "(embedded)" for the default model       */
    char  gguf[FILES_NAME_BYTES];       /* the (first) GGUF file; empty: a folder             */
    bool  embedded;
    u32   count;
    struct files_row row[FILES_CAP];    /* mapped so far                                      */
};

/* `path`: a folder, or a file NAME.gguf; NULL: the embedded default model.  ERR_IO when it cannot
 * be read, ERR_UNSUPPORTED when it is another file, ERR_NOT_FOUND without a config.json. */
MUST_USE enum err files_open(struct files *f, const char *path);
void files_close(struct files *f);

/* The file of that name, mapped: its bytes stay valid until files_close.  ERR_NOT_FOUND names
 * folder and file; ERR_FORMAT for a name that is no plain file name; ERR_IO; ERR_FULL. */
MUST_USE enum err files_get(struct files *f, const char *name, const struct files_row **out);

/* As files_get, but a missing file gives OK and NULL. */
MUST_USE enum err files_try(struct files *f, const char *name, const struct files_row **out);

/* Pages of [at, at + bytes) of a mapped file won't be read again.  Embedded: nothing. */
void files_drop(const struct files *f, const u8 *at, u64 bytes);

#endif
