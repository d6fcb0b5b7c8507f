/*
 * Pools: objects with attributes, of which each reader gets those that its selector chooses. Included by xmml.h.
 *
 *     snprintf(text, sizeof text, "step=%d param=%d level='pl'", step, param);
 *     xmml_put_array(me, "fields", XMML_F64, 2, shape, field, text, NULL);
 *
 *     while (xmml_take(me, "fields", &object) == XMML_OK) {
 *         xmml_attribute(object, "step", &value);
 *         xmml_read_int(value, &step);
 *         xmml_message_array(object, XMML_F64, 2, &field);
 *         xmml_message_free(object);
 *     }
 *
 * An object is put and taken at any time, any number of times. `attributes` are NAME=VALUE with white space between: numbers, true and
 * false, texts (in quotes if they hold white space), times such as 2026-11-27T12:00Z, lists such as [1,2,3]. They are checked against the
 * datatype of the port. NULL: none.
 */
#ifndef XMML_POOLS_H
#define XMML_POOLS_H

#include <xmml.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Offers an array in row-major order (_order: in the order given) to the readers. It may be changed when this returns; memory from
   xmml_loan belongs to the readers then. `readers`, unless it is NULL, is set to how many of them choose it. Waits while one that does
   holds as much as its limit (run:limit) allows. */
xmml_status xmml_put_array(xmml_instance *me, const char *port, xmml_dtype dtype, size_t rank, const size_t *shape,
                           const void *data, const char *attributes, uint64_t *readers);
xmml_status xmml_put_array_order(xmml_instance *me, const char *port, xmml_dtype dtype, xmml_order order, size_t rank,
                                 const size_t *shape, const void *data, const char *attributes, uint64_t *readers);

/* The same with any value, which it does not consume. NULL: the object has attributes only. */
xmml_status xmml_put(xmml_instance *me, const char *port, const xmml_value *value, const char *attributes,
                     uint64_t *readers);

/* How many readers would choose an object with these attributes, and have not left: where nobody would, it need not be computed. Nothing is
   put. Selectors that ask for the payload ("sys.size", "sys.type", "sys.shape") see none. */
xmml_status xmml_wanted(xmml_instance *me, const char *port, const char *attributes, uint64_t *readers);

/* Begins a group: objects that are put on this port from now on become visible together, when it ends; until then no put waits. They have
   these attributes, unless a put gives others. Each has "sys.group", the number of the group, and "sys.follow", how many objects of the
   group follow at its reader. */
xmml_status xmml_group_begin(xmml_instance *me, const char *port, const char *attributes);

/* Ends it. Each reader gets those objects that it chooses, all at once; `readers`, unless it is NULL, is set to how many readers get some.
   A group that is larger than the limit of a reader waits until that holds nothing. */
xmml_status xmml_group_end(xmml_instance *me, const char *port, uint64_t *readers);

/* Forgets it and its objects, which nobody has seen. */
xmml_status xmml_group_abandon(xmml_instance *me, const char *port);

/* Says that nothing more is put on this port, for a program that goes on: it takes what its readers put, for instance. A reader sees the end
   when all its writers have said so, or have left. Does not wait; what waits for readers is still given to them. */
xmml_status xmml_end(xmml_instance *me, const char *port);

/* The next object that the selector of this port chooses, as a message to be freed; XMML_ENDED when all writers have ended. */
xmml_status xmml_take(xmml_instance *me, const char *port, xmml_message **object);

/* The same within so many seconds; then XMML_TIMED_OUT. */
xmml_status xmml_take_timeout(xmml_instance *me, const char *port, double seconds, xmml_message **object);

/* The value of an attribute, which lives as long as the object: numbers and truth values as such, texts and times as texts, lists as arrays
   of one dimension. NULL if the object does not have it; XMML_USAGE if there is no such attribute. Every object has "sys.t", "sys.seq",
   "sys.instance" and the others of docs/pools.md. */
xmml_status xmml_attribute(xmml_message *object, const char *name, const xmml_value **value);

/* How many attributes the object has, and the name of number i, from 0: those of its datatype, then sys.*. 0 and NULL for a message that is no
   object, and NULL behind the last one. A name lives as long as the object. */
size_t xmml_attribute_count(const xmml_message *object);
const char *xmml_attribute_name(const xmml_message *object, size_t i);

#ifdef __cplusplus
}
#endif

#ifndef XMML_NO_CALL_SITES
#define xmml_put_array(...) (xmml_at(__FILE__, __LINE__), xmml_put_array(__VA_ARGS__))
#define xmml_put_array_order(...) (xmml_at(__FILE__, __LINE__), xmml_put_array_order(__VA_ARGS__))
#define xmml_put(...) (xmml_at(__FILE__, __LINE__), xmml_put(__VA_ARGS__))
#define xmml_wanted(...) (xmml_at(__FILE__, __LINE__), xmml_wanted(__VA_ARGS__))
#define xmml_group_begin(...) (xmml_at(__FILE__, __LINE__), xmml_group_begin(__VA_ARGS__))
#define xmml_group_end(...) (xmml_at(__FILE__, __LINE__), xmml_group_end(__VA_ARGS__))
#define xmml_group_abandon(...) (xmml_at(__FILE__, __LINE__), xmml_group_abandon(__VA_ARGS__))
#define xmml_end(...) (xmml_at(__FILE__, __LINE__), xmml_end(__VA_ARGS__))
#define xmml_take(...) (xmml_at(__FILE__, __LINE__), xmml_take(__VA_ARGS__))
#define xmml_take_timeout(...) (xmml_at(__FILE__, __LINE__), xmml_take_timeout(__VA_ARGS__))
#define xmml_attribute(...) (xmml_at(__FILE__, __LINE__), xmml_attribute(__VA_ARGS__))
#endif

#endif
