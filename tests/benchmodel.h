/* tests/benchmodel.h - the bench model (tests/scenarios/make_model.py --size bench, 245 million
 * parameters, 12 delta layers and 4 attention layers), made when it isn't there or the script is
 * newer: about 20 s and 480 MB in build/models/bench, used again by every later test. */
#ifndef TESTS_BENCHMODEL_H
#define TESTS_BENCHMODEL_H

#include "tests/test.h"

#include <stdlib.h>

enum { BENCHMODEL_THREADS = 2 };

#define BENCHMODEL_DIR "build/models/bench"
#define BENCHMODEL_MAKE "tests/scenarios/make_model.py"

/* Folder of the model; CASES_MODEL names another one.  A half written one never stands under its
 * name. */
static const char *benchmodel_dir(void)
{
    static const char make[] =
        "[ " BENCHMODEL_DIR "/hf/model.safetensors -nt " BENCHMODEL_MAKE " ] || { "
        "rm -rf " BENCHMODEL_DIR " " BENCHMODEL_DIR ".new && OPENBLAS_NUM_THREADS=1 "
        "/usr/bin/python3 " BENCHMODEL_MAKE " " BENCHMODEL_DIR ".new --size bench --only hf && "
        "mv " BENCHMODEL_DIR ".new " BENCHMODEL_DIR "; }";
    if (getenv("CASES_MODEL") != NULL) return getenv("CASES_MODEL");
    CHECK_EQ(system(make), 0);
    return BENCHMODEL_DIR "/hf";
}

#endif
