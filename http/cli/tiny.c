/* http/cli/tiny.c - flags of `tiny` to a choice of model/tiny. */
#include "http/cli/tiny.h"

#include <stdio.h>

#include "model/tiny.h"

enum err tiny_run(const struct options *o)
{
    struct tiny_choice choice = {
        .family = o->family[0] == 0 ? NULL : o->family, .layers = o->layers,
        .hidden = o->hidden, .seed = o->tiny_seed, .mtp = o->tiny_mtp,
    };
    TRY(tiny_write(o->path[0], &choice));
    printf("%s: a random qwen3_5 checkpoint, seed %llu\n", o->path[0], (ull)o->tiny_seed);
    return OK;
}
