/* http/cli/cachelist.h - the lines of `holdfast cache ls` and `show`: a catalog as text or JSON. */
#ifndef CLI_CACHELIST_H
#define CLI_CACHELIST_H

#include "arena/base/json.h"
#include "tiers/nvme/catalog.h"

enum { CACHELIST_ID_MIN = 4 };          /* digits of an id at least                           */

struct cachelist_sum { u64 bytes, files; u32 talks, anchors, chunks, models; };

/* Conversations, line anchors and chunks of one model's folder; `json` NULL: text to stdout. */
void cachelist_model(const struct catalog *c, struct json_out *json, struct cachelist_sum *sum);
/* Conversations and anchors whose id begins so: printed, and how many. */
u32  cachelist_show(const struct catalog *c, const char *id, struct json_out *json);

#endif
