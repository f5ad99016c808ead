/* model/backend.h - picks the backend that fills `struct ops`, by name and level. */
#ifndef MODEL_BACKEND_H
#define MODEL_BACKEND_H

#include "model/ops.h"

struct backend_choice {
    const char *name;           /* NULL, "auto" or "cpu"                                      */
    const char *level;          /* NULL, "auto", or one of model/cpu/levels.c                 */
    u32         threads;        /* 0: one a processor, at most BACKEND_THREADS_MAX            */
    enum ops_arithmetic arithmetic;     /* --arithmetic                                       */
};

enum { BACKEND_THREADS_MAX = 64 };

/* ERR_UNSUPPORTED names a backend or level that isn't here; ERR_LIMIT, ERR_MEMORY (threads). */
MUST_USE enum err backend_open(const struct backend_choice *choice, struct ops *out);
void backend_close(void);

#endif
