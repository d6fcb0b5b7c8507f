/*
 * Handles of ports: how an instance lets others send to it with which nothing is coupled in the model. Included by xmml.h.
 *
 * An in port that is open (run:open="yes" in the model) gives handles away: values of kind bytes, which are sent like any other, alone or
 * in lists and maps. Whoever has one opens it by an open out port of its own; what it sends there goes to the in port from then on.
 */
#ifndef XMML_HANDLES_H
#define XMML_HANDLES_H

#include <xmml.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of an open in port, to be freed as any value. `holders` may open it (0: any number); the port ends when they have closed it or
   left. `methods`: by which it is reached, in this order, separated by commas ("shm,tcp"); NULL or "": what is fastest for the holder. */
xmml_status xmml_handle(xmml_instance *me, const char *port, uint32_t holders, const char *methods, xmml_value **handle);

/* From now on what is sent on this open out port goes to the port that the handle stands for. `number`, which may be NULL, addresses it alone
   in the sends that have a `to`; the others go to every handle that is open at the port. */
xmml_status xmml_open(xmml_instance *me, const char *port, const xmml_value *handle, uint32_t *number);

/* Ends what xmml_open began, at all handles that are open at the port or at one. What was sent before arrives. */
xmml_status xmml_close(xmml_instance *me, const char *port);
xmml_status xmml_close_number(xmml_instance *me, const char *port, uint32_t number);

/* Lets nobody open this handle of a port of this instance any more. Conduits that it has made go on. */
xmml_status xmml_revoke(xmml_instance *me, const xmml_value *handle);

/* What a handle says, for people. Valid until this thread's next call of it. */
xmml_status xmml_handle_text(const xmml_value *handle, const char **text);

#ifdef __cplusplus
}
#endif

#ifndef XMML_NO_CALL_SITES
#define xmml_handle(...) (xmml_at(__FILE__, __LINE__), xmml_handle(__VA_ARGS__))
#define xmml_open(...) (xmml_at(__FILE__, __LINE__), xmml_open(__VA_ARGS__))
#define xmml_close(...) (xmml_at(__FILE__, __LINE__), xmml_close(__VA_ARGS__))
#define xmml_close_number(...) (xmml_at(__FILE__, __LINE__), xmml_close_number(__VA_ARGS__))
#define xmml_revoke(...) (xmml_at(__FILE__, __LINE__), xmml_revoke(__VA_ARGS__))
#define xmml_handle_text(...) (xmml_at(__FILE__, __LINE__), xmml_handle_text(__VA_ARGS__))
#endif

#endif
