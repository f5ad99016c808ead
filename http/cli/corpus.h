/* http/cli/corpus.h - the file of --corpus: a text, tokenised at start, or ids, for the lookup
 * drafter (tiers/suffix).
 *
 * NAME.ids holds token ids in decimal, parted by blanks; any other file is UTF-8 text, in which
 * special tokens are plain text.  Read once, on the engine's thread, before the first turn. */
#ifndef CLI_CORPUS_H
#define CLI_CORPUS_H

#include "arena/base/err.h"
#include "model/text/tokenizer.h"

enum { CORPUS_MIB_MAX = 64 };           /* of the file                                        */

/* Bytes of the file; ERR_USAGE names it when it is none, empty or too long. */
MUST_USE enum err corpus_size(const char *path, u64 *bytes_out);
/* Reads, tokenises and hands it to the suffix store.  ERR_FORMAT, ERR_LIMIT, ERR_MEMORY, ERR_IO
 * name file and place. */
MUST_USE enum err corpus_open(const char *path, u64 bytes, const struct tokenizer *tokenizer,
                              u32 vocab);

#endif
