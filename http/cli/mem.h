/* http/cli/mem.h - `holdfast mem`: asks a server for its memory graph and prints it. */
#ifndef CLI_MEM_H
#define CLI_MEM_H

#include "http/options.h"

/* Prints the tree or JSON of the server at o->url on stdout.  ERR_USAGE: a url that is not
 * http://HOST[:PORT]; ERR_IO: nobody answers there; ERR_UNSUPPORTED, ...: what the server said. */
MUST_USE enum err mem_run(const struct options *o);

#endif
