/*
 * Callbacks: what is to be done with the messages of a port when they arrive. Included by xmml.h.
 *
 * A callback is called in the thread that waits in a call of xMML on this instance (a receive, a send on a full conduit, xmml_reuse,
 * xmml_serve), as soon as a message is there and the order of operators allows its receipt, which the call is. Never two at once, never one
 * within another. A program that computes and does not call xMML is not interrupted.
 */
#ifndef XMML_CALLBACKS_H
#define XMML_CALLBACKS_H

#include <xmml.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The message belongs to the callback, which frees it. It returns 0; anything else means that it failed: the call in which it was called
   returns an error that names the instance and the port, and the run stops. */
typedef int (*xmml_callback)(void *context, xmml_message *message);

/* Has the messages of an in port given to `callback`, with `context` as its first argument; NULL: no longer. A thread that serves
   meanwhile may still be about to call the previous one: keep what its `context` points to until that thread's call has returned. */
xmml_status xmml_on_message(xmml_instance *me, const char *port, xmml_callback callback, void *context);

/* Waits until at least one callback was called; XMML_ENDED if nothing more will come on any port that has one. */
xmml_status xmml_serve(xmml_instance *me);

/* The same for at most so many seconds (0: only what is there); then XMML_TIMED_OUT. */
xmml_status xmml_serve_timeout(xmml_instance *me, double seconds);

#ifdef __cplusplus
}
#endif

#ifndef XMML_NO_CALL_SITES
#define xmml_on_message(...) (xmml_at(__FILE__, __LINE__), xmml_on_message(__VA_ARGS__))
#define xmml_serve(...) (xmml_at(__FILE__, __LINE__), xmml_serve(__VA_ARGS__))
#define xmml_serve_timeout(...) (xmml_at(__FILE__, __LINE__), xmml_serve_timeout(__VA_ARGS__))
#endif

#endif
