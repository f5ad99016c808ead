/* model/files.c - a model's files by name: mapped on first use, remembered in a flat table. */
#include "model/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena/space.h"
#include "model/embedded.h"

/* The path of a file: folder and name apart, the file mapped. */
static enum err open_gguf(struct files *f)
{
    char *slash = strrchr(f->dir, '/'), *name = slash == NULL ? f->dir : slash + 1;
    const struct files_row *row;
    u64 length = strlen(name);
    if (length < 6 || strcmp(name + length - 5, ".gguf") != 0)
        return fail(ERR_UNSUPPORTED, "%s is a file; a folder with config.json and *.safetensors, "
                    "or a file NAME.gguf, is expected", f->dir);
    if (length >= FILES_NAME_BYTES)
        return fail(ERR_LIMIT, "%s: a file name of at most %d bytes is expected", f->dir,
                    FILES_NAME_BYTES - 1);
    memcpy(f->gguf, name, length);
    if (slash == NULL) strcpy(f->dir, ".");
    else if (slash == f->dir) f->dir[1] = 0;
    else *slash = 0;
    return files_get(f, f->gguf, &row);
}

enum err files_open(struct files *f, const char *path)
{
    memset(f, 0, sizeof *f);
    if (path == NULL) {
        f->embedded = true;
        strcpy(f->dir, "(embedded)");
        return OK;
    }
    u64 length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    if (length == 0 || length + 1 + FILES_NAME_BYTES >= FILES_DIR_BYTES)
        return fail(ERR_LIMIT, "model folder: a path of 1 to %d bytes is expected, got %llu",
                    FILES_DIR_BYTES - FILES_NAME_BYTES - 2, (ull)length);
    memcpy(f->dir, path, length);
    struct stat st;
    if (stat(f->dir, &st) != 0)
        return fail(ERR_IO, "model folder %s: %s", f->dir, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return open_gguf(f);
    const struct files_row *config;
    return files_get(f, "config.json", &config);
}

void files_close(struct files *f)
{
    for (u32 i = 0; i < f->count && !f->embedded; i++)
        space_host_unmap_file(f->row[i].data, f->row[i].bytes);
    f->count = 0;
}

static enum err name_check(const struct files *f, const char *name)
{
    u64 length = strlen(name);
    if (length == 0 || length >= FILES_NAME_BYTES || name[0] == '.' || strchr(name, '/') != NULL)
        return fail(ERR_FORMAT, "%s: \"%.80s\" is not a plain file name of 1 to %d bytes", f->dir,
                    name, FILES_NAME_BYTES - 1);
    return OK;
}

static const struct embedded_file *embedded_find(const char *name)
{
    const struct embedded_file *e;
    for (u32 i = 0; (e = embedded_at(i)) != NULL; i++)
        if (strcmp(e->name, name) == 0) return e;
    return NULL;
}

enum err files_try(struct files *f, const char *name, const struct files_row **out)
{
    TRY(name_check(f, name));
    for (u32 i = 0; i < f->count; i++)
        if (strcmp(f->row[i].name, name) == 0) {
            *out = &f->row[i];
            return OK;
        }
    struct files_row row = { .data = NULL };
    memcpy(row.name, name, strlen(name));
    if (f->embedded) {
        const struct embedded_file *e = embedded_find(name);
        if (e != NULL) { row.data = e->data; row.bytes = e->bytes; }
    } else {
        char path[FILES_DIR_BYTES + FILES_NAME_BYTES + 2];
        snprintf(path, sizeof path, "%s/%s", f->dir, name);
        if (access(path, F_OK) == 0) TRY(space_host_map_file(path, &row.data, &row.bytes));
    }
    if (row.data == NULL) {
        *out = NULL;
        return OK;
    }
    if (f->count == FILES_CAP) {
        if (!f->embedded) space_host_unmap_file(row.data, row.bytes);
        return fail(ERR_FULL, "%s: more than %d files are asked for", f->dir, FILES_CAP);
    }
    f->row[f->count] = row;
    *out = &f->row[f->count++];
    return OK;
}

enum err files_get(struct files *f, const char *name, const struct files_row **out)
{
    const struct files_row *row;
    TRY(files_try(f, name, &row));
    if (row == NULL)
        return fail(ERR_NOT_FOUND, "%s: there is no file %s", f->dir, name);
    *out = row;
    return OK;
}

void files_drop(const struct files *f, const u8 *at, u64 bytes)
{
    if (!f->embedded) space_host_drop_file(at, bytes);
}
