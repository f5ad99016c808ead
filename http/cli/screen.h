/* http/cli/screen.h - a model's text for people: what would act on a terminal is shown instead.
 *
 * To a terminal go, as visible escapes (`\u001b`): control characters but newline and tab, those of
 * U+0080-009F too, and the characters that turn the direction of text (U+061C, 200E, 200F,
 * 202A-202E, 2066-2069); bytes that are no UTF-8 as `\x9b`.  So an answer can neither move the
 * cursor nor title the window nor look like another text than it is.  In JSON the former are the
 * same strings.  To a file or a pipe all bytes go unchanged. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdio.h>

#include "arena/base/base.h"

/* Writes the bytes to a stream, escaped if it is a terminal. */
void screen_put(FILE *to, const char *bytes, u64 len);
/* Writes them escaped, whatever it is. */
void screen_escape(FILE *to, const char *bytes, u64 len);

#endif
