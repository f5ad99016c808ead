/* http/cli/bench.h - `holdfast bench`: prefill, decode, resume and memory rates of a model here. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "http/options.h"

/* Prints a table, or one JSON object with --json (cli.md).  Errors of the step that failed. */
MUST_USE enum err bench_run(const struct options *o);

#endif
