/* http/turn/off.h - which tiers cannot serve as things stand, and why: told at the start, in the
 * stats, and whenever a cap that was set changes it.
 *
 * Read from caps, folder and backend each time it is asked: nothing is remembered.  Engine
 * thread. */
#ifndef TURN_OFF_H
#define TURN_OFF_H

#include "arena/base/base.h"

struct engine;
struct json_out;                        /* arena/base/json.h                                     */

enum { OFF_TIERS = 8, OFF_WHY_BYTES = 240 };

struct off_row { const char *tier; char why[OFF_WHY_BYTES]; };     /* why[0] == 0: it serves      */

/* Every tier in the order of the lookup (tiers.md 2), the response cache last. */
void off_tiers(const struct engine *e, struct off_row out[OFF_TIERS]);
/* One line: the tiers that serve; then one for each that does not. */
void off_log(const struct engine *e);
/* Key `off` of the stats: tier and why of each that does not serve; empty when all do. */
void off_put(const struct engine *e, struct json_out *out);

#endif
