/* http/serve/pump.h - the thread that watches what is suspended.
 *
 * Sleeps on one epoll set: the wake's event_fd (ids, states, new waits) and the sockets of waiting
 * exchanges, for a close only, so pipelined bytes wake nobody.  Then walks the exchange rows. */
#ifndef SERVE_PUMP_H
#define SERVE_PUMP_H

#include "http/serve/exchange.h"

MUST_USE enum err pump_open(void);      /* starts the thread                                     */
void pump_stop(void);                   /* ends it; rows stay                                    */

struct ring_wake *pump_wake(void);      /* of every submit and command row                       */
void pump_watch(struct exchange *x);    /* a wait begins: its socket joins the set               */
void pump_unwatch(struct exchange *x);
void pump_end(void);                    /* from now on every waiting row is ready, to end        */
bool pump_closing(void);
void pump_settle(void);                 /* after pump_end: nothing stays suspended               */

#endif
