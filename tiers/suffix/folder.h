/* tiers/suffix/folder.h - the log's files: one folder a tokenizer, one file a segment.
 *
 *   CACHE/ids-<32 hex>/s-<16 hex>    words.h; the name is the segment's number
 *   CACHE/ids-<32 hex>/USED          renewed at each start
 *
 * Ids mean something under their tokenizer alone, whatever the weights: the folder is named by what
 * the ids stand for, so that a model's other quantisations and fine-tunings share a log.  Folders
 * 0700, files 0600.  Folders of other tokenizers are never read and go unused for 7 days. */
#ifndef SUFFIX_FOLDER_H
#define SUFFIX_FOLDER_H

#include "arena/base/file.h"
#include "tiers/suffix/segment.h"

enum { FOLDER_NAME_BYTES = 24, FOLDER_CAP = 256, FOLDER_UNUSED_S = 7 * 86400 };

void suffix_folder_name(u64 number, char out[FOLDER_NAME_BYTES]);

/* Makes the folder of a tokenizer in `cache_dir`, which is there and private, and removes folders
 * of others that are too old.  ERR_IO. */
MUST_USE enum err suffix_folder_open(const char *cache_dir, const u8 tokenizer[16], u64 now_s,
                                     char out[FILE_PATH_BYTES]);

/* Its segments, ascending by number; at most `cap`, the newest.  Everything else in the folder (and
 * older ones) is removed; *removed_out, when not NULL, says how many files. */
struct folder_file { u64 number, bytes; };
MUST_USE enum err suffix_folder_list(const char *folder, struct folder_file *out, u32 cap,
                                     u32 *count_out, u32 *removed_out);

/* Without a server, which the caller makes sure of by the folder's LOCK: forgets a session's ids in
 * every tokenizer's log, or with NULL all logs.  `work`: FOLDER_WORK_BYTES.  Files that are damaged
 * go whole.  ERR_IO: what was done until then is done. */
enum { FOLDER_WORK_BYTES = 4 * SEGMENT_WORDS_MAX };
struct folder_cleared { u64 bytes, ids; };              /* freed; of the session              */
MUST_USE enum err suffix_folder_clear(const char *cache_dir, const u64 session[2], u32 *work,
                                      struct folder_cleared *out);
/* Bytes of all logs there. */
MUST_USE enum err suffix_folder_bytes(const char *cache_dir, u64 *bytes_out);

#endif
