/* http/serve/routes.h - the table of {method, path, function, door}.
 *
 * A function answers at once (exchange_json, exchange_text, exchange_refuse) or starts a wait
 * (exchange_submit, exchange_command).  A path under /v1 answers without it too where users put
 * either into base URLs (http.md 1). */
#ifndef SERVE_ROUTES_H
#define SERVE_ROUTES_H

#include "http/serve/exchange.h"

struct route {
    const char *method, *path;          /* a path ending in '*' is a prefix                      */
    enum auth_door door;
    bool early;                         /* answers while loading and draining                    */
    bool body;                          /* reads one                                             */
    void (*run)(struct exchange *x);
    void (*done)(struct exchange *x);   /* a command row was answered; NULL: pass its text on    */
};

/* The route, or NULL with a 404 or 405 (x->allow set) in x->refusal. */
const struct route *routes_find(struct exchange *x, const char *method, const char *path);

#endif
