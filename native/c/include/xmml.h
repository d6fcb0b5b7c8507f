/*
 * xMML for C: what a submodel written in C needs to take part in a coupled model.
 *
 *     xmml_instance *me;
 *     if (xmml_join(&me) != XMML_OK) { fprintf(stderr, "%s\n", xmml_error()); return 1; }
 *     while (xmml_reuse(me, &again) == XMML_OK && again) {          once for each pass
 *         xmml_receive(me, "initial", &message);                    f_init
 *         while (xmml_step(me, &t) == XMML_OK) {                    exactly the steps of the model
 *             xmml_send_array(me, "boundary_out", XMML_F64, 1, &n, edge);      O_i
 *             xmml_receive(me, "boundary_in", &message);                       S
 *         }
 *         xmml_send_double(me, "final", sum);                       O_f
 *     }
 *     return xmml_leave(&me) == XMML_OK ? 0 : 1;
 *
 * Ports, steps and parameters are declared in the model, not here. Compile with
 *     cc -o program program.c $(xmml-config --cflags --libs)
 *
 * Rules that hold for every function
 *  - It returns a status. XMML_OK is 0; an outcome that is no error but not the usual one is positive; an error is negative, and
 *    xmml_error() then says what happened, where, and what to do. No function ends the program or prints anything. But a program that
 *    has never asked xmml_error() why a call failed, and exits with another status than 0, prints the reason at its end.
 *  - Names and texts are UTF-8 and end with a 0 byte. Times are model times in seconds.
 *  - What a function gives through a `const` pointer belongs to the object that it came from and lives as long as that object.
 *    What it gives through a pointer that is not const belongs to the caller, who frees it (messages, values) or leaves (instances).
 *  - On anything but XMML_OK, pointers that would be given out are NULL and numbers are untouched.
 *  - An instance may be used by several threads (then the run cannot notice a deadlock of it); a message or value by one at a time. Not
 *    in a child after fork().
 *  - Of an MPI program all ranks join together with xmml_mpi.h; or only rank 0 calls xmml_join, and the others do not call xMML.
 */
#ifndef XMML_H
#define XMML_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------- status */

typedef enum xmml_status {
    XMML_OK = 0,

    /* Outcomes that are not errors. */
    XMML_DONE = 1,          /* xmml_step: the last step of this pass is behind us */
    XMML_ENDED = 2,         /* xmml_receive_or_end: the sender has ended, and all it sent has been received */
    XMML_TIMED_OUT = 3,     /* xmml_receive_timeout: no message came in time; nothing was taken */
    XMML_RECEIVER_GONE = 4, /* sends: every receiver has left; the message was dropped and counted */

    /* Errors. */
    XMML_ERROR_USAGE = -1,         /* a null pointer, a shape that does not fit, text that is not UTF-8, ... */
    XMML_ERROR_NOT_IN_A_RUN = -2,  /* the program was not started by xmml-run */
    XMML_ERROR_PORT = -3,          /* no such port in the model, or it is of the other direction */
    XMML_ERROR_NOT_CONNECTED = -4, /* receives: the port is declared but not coupled (now); ask xmml_connected first */
    XMML_ERROR_ORDER = -5,         /* the call is out of the order f_init, (O_i, S or B)*, O_f */
    XMML_ERROR_ENDED = -6,         /* xmml_receive: the sender has ended */
    XMML_ERROR_TYPE = -7,          /* the value has another type or shape than was asked for */
    XMML_ERROR_PARAMETER = -8,     /* the parameter is missing or cannot be converted */
    XMML_ERROR_ABORTED = -9,       /* the run was stopped: another instance failed, or somebody interrupted it */
    XMML_ERROR_CONNECTION = -10,   /* the operating system or the other side of a connection */
    XMML_ERROR_INTERNAL = -11      /* a defect of xMML; please report it with the text of xmml_error() */
} xmml_status;

/* What the last call of this thread that did not return XMML_OK has to say; empty before the first. Valid until the next such
   call of this thread. Never NULL. */
const char *xmml_error(void);

/* The version of the library, for example "0.1.0". */
const char *xmml_version(void);

/* -------------------------------------------------------------------------------------------------------- instances */

/* A program's membership of a run. */
typedef struct xmml_instance xmml_instance;

/* Joins the run that this process was started for. Unless it is a terminal or has no buffer, stdout is line-buffered from now on, so that
   the run shows each line when it is printed. */
xmml_status xmml_join(xmml_instance **me);

/* For language APIs over this one: the language of the program ("c++", "fortran", "java"), for reports. */
xmml_status xmml_join_as(xmml_instance **me, const char *language);

/* Ends normally: everything sent is still delivered, then the partners learn that no more comes. Frees the instance and sets *me
   to NULL, whatever it returns. A program that ends without leaving counts as failed. */
xmml_status xmml_leave(xmml_instance **me);

/* Tells the run that this instance failed, and why; the run stops. The instance stays; usually the program exits now. */
xmml_status xmml_fail(xmml_instance *me, const char *text);

/* Frees an instance without leaving, which is a failure of the instance unless xmml_leave or xmml_fail came first. */
void xmml_instance_free(xmml_instance **me);

/* Tells people something, through the run's log and display. */
xmml_status xmml_warn(xmml_instance *me, const char *text);

/* Whether there is another pass to do: 1 or 0. Waits until every coupled f_init port has a message or has ended. */
xmml_status xmml_reuse(xmml_instance *me, int *again);

/* Begins the next iteration and gives its model time; XMML_DONE after the last. */
xmml_status xmml_step(xmml_instance *me, double *time);

/* The instance's name in the model (copies: "c[3]"), its number among the copies from 0, and how many copies there are. */
const char *xmml_name(const xmml_instance *me);
uint32_t xmml_index(const xmml_instance *me);
uint32_t xmml_count(const xmml_instance *me);

/* Model time: of the current iteration, and of the beginning of this pass; the length of a step and of a pass (0 if the model gives
   none), all in seconds; and the number of steps of a pass (0: the program decides). */
double xmml_time(const xmml_instance *me);
double xmml_origin(const xmml_instance *me);
double xmml_delta(const xmml_instance *me);
double xmml_total(const xmml_instance *me);
uint64_t xmml_steps(const xmml_instance *me);

/* How finely the instance resolves a dimension and how much of it it covers, in base units (m, s, ...), and how many steps make the
   whole; 0 for what the model does not give. */
typedef struct xmml_scale {
    double delta;
    double total;
    uint64_t steps;
} xmml_scale;

/* A scale of the model by its id: of time ("t" unless it has another id), space ("x", "y", ...), or another dimension. */
xmml_status xmml_scale_of(const xmml_instance *me, const char *name, xmml_scale *scale);

/* ------------------------------------------------------------------------------------------------------- parameters */

/* The value of a parameter as the model, a parameter file or the command line says. Numbers may be written with a unit: it is
   converted to `unit` (for example "m/s"). With NULL the value is given as it is written if it has no unit, else in SI units. */
xmml_status xmml_param_double(const xmml_instance *me, const char *name, const char *unit, double *value);
xmml_status xmml_param_int(const xmml_instance *me, const char *name, const char *unit, int64_t *value);
xmml_status xmml_param_bool(const xmml_instance *me, const char *name, int *value);
xmml_status xmml_param_text(const xmml_instance *me, const char *name, const char **value);

/* Whether the parameter is set: 1 or 0. */
int xmml_has_param(const xmml_instance *me, const char *name);

/* How many parameters are set, and the name of number i, in the order of the alphabet; NULL if there are not so many. */
size_t xmml_param_count(const xmml_instance *me);
const char *xmml_param_name(const xmml_instance *me, size_t i);

/* ------------------------------------------------------------------------------------------------------------ ports */

/* A port that the model declares. Its texts live as long as the instance; its name is bound (see xmml_bind_out). */
typedef struct xmml_port {
    const char *name;
    const char *operator_name; /* "finit", "Oi", "S", "B" or "Of"; empty on mappers and terminals */
    int is_out;                /* 1: it sends; 0: it receives */
} xmml_port;

/* How many ports the model declares, and number i in its order; XMML_DONE if there are not so many. */
size_t xmml_port_count(const xmml_instance *me);
xmml_status xmml_port_at(const xmml_instance *me, size_t i, xmml_port *port);

/* Looks a port up once: a name that is misspelt, or of the other direction, is an error here. *bound is the name as the instance keeps it,
   until it leaves or is freed. Every call of this instance that takes a port takes it, and knows it by its address: nothing of the text is
   read or compared. */
xmml_status xmml_bind_out(const xmml_instance *me, const char *port, const char **bound);
xmml_status xmml_bind_in(const xmml_instance *me, const char *port, const char **bound);

/* Whether the port is coupled in this model: 1 or 0. One that brings the state of the previous pass is not, during the first. */
xmml_status xmml_connected(const xmml_instance *me, const char *port, int *yes);

/* How many copies are at the other end of the port; 0 if it is not a multiplied instance. */
xmml_status xmml_copies(const xmml_instance *me, const char *port, uint32_t *copies);

/* By which method each conduit of the port travels, why the others were refused, and what has passed; one line per conduit. Valid
   until this thread's next call of xmml_methods. */
xmml_status xmml_methods(const xmml_instance *me, const char *port, const char **text);

/* Allows these methods on every conduit of the port from now on, separated by commas, in this order ("shm,tcp"; NULL or "": all,
   fastest first). Also while messages pass: none is lost, doubled or reordered. If none of them leads to the receiver, the conduit
   goes on as before, and this is an error that says why. */
xmml_status xmml_set_methods(xmml_instance *me, const char *port, const char *methods);

/* Declares that nothing is sent on this out port in this iteration (O_i) or pass (O_f). */
xmml_status xmml_skip(xmml_instance *me, const char *port);

/* ------------------------------------------------------------------------------------------------------- data types */

/* The element type of an array. */
typedef enum xmml_dtype {
    XMML_BOOL = 0, /* one byte, 0 or 1 */
    XMML_I8 = 1,
    XMML_I16 = 2,
    XMML_I32 = 3,
    XMML_I64 = 4,
    XMML_U8 = 5,
    XMML_U16 = 6,
    XMML_U32 = 7,
    XMML_U64 = 8,
    XMML_F32 = 9,
    XMML_F64 = 10,
    XMML_C64 = 11, /* two float: real part, imaginary part; C's float complex */
    XMML_C128 = 12 /* two double; C's double complex */
} xmml_dtype;

/* How the elements of an array follow each other in memory. */
typedef enum xmml_order {
    XMML_ROW_MAJOR = 0,    /* last index fastest, as in C */
    XMML_COLUMN_MAJOR = 1, /* first index fastest, as in Fortran */
    XMML_ANY_ORDER = 2     /* only when reading: whatever the sender used */
} xmml_order;

/* When reading: an array of any rank. */
#define XMML_ANY_RANK ((size_t)-1)

/* What a value is. */
typedef enum xmml_kind {
    XMML_KIND_NOTHING = 0,
    XMML_KIND_BOOL = 1,
    XMML_KIND_INT = 2,
    XMML_KIND_DOUBLE = 3,
    XMML_KIND_COMPLEX = 4,
    XMML_KIND_TEXT = 5,
    XMML_KIND_BYTES = 6,
    XMML_KIND_ARRAY = 7,
    XMML_KIND_LIST = 8,
    XMML_KIND_MAP = 9
} xmml_kind;

/* Size of one element in bytes, and the name of the type as numpy spells it ("float64"); 0 and "unknown" for anything else. */
size_t xmml_dtype_size(xmml_dtype dtype);
const char *xmml_dtype_name(xmml_dtype dtype);

/* -------------------------------------------------------------------------------------------------- sending, simple */
/*
 * A send takes its own copy of the data and returns; it waits while the conduit is full. On a port that is declared but not coupled it
 * does nothing and returns XMML_OK. The time stamp is the model time of the iteration, the next time stamp that of the next one.
 */

/* An array in row-major order (_order: in the order given) of rank dimensions. */
xmml_status xmml_send_array(xmml_instance *me, const char *port, xmml_dtype dtype, size_t rank, const size_t *shape,
                            const void *data);
xmml_status xmml_send_array_order(xmml_instance *me, const char *port, xmml_dtype dtype, xmml_order order, size_t rank,
                                  const size_t *shape, const void *data);

/* The same with an explicit time stamp, and with an explicit next one (see xmml_send_at). */
xmml_status xmml_send_array_at(xmml_instance *me, const char *port, xmml_dtype dtype, size_t rank, const size_t *shape,
                               const void *data, double timestamp, double next_timestamp);

/* The same to copy number `to` of the multiplied instance at the other end. */
xmml_status xmml_send_array_to(xmml_instance *me, const char *port, uint32_t to, xmml_dtype dtype, size_t rank,
                               const size_t *shape, const void *data);

xmml_status xmml_send_nothing(xmml_instance *me, const char *port); /* only the time stamps count */
xmml_status xmml_send_bool(xmml_instance *me, const char *port, int value);
xmml_status xmml_send_int(xmml_instance *me, const char *port, int64_t value);
xmml_status xmml_send_double(xmml_instance *me, const char *port, double value);
xmml_status xmml_send_complex(xmml_instance *me, const char *port, double real, double imaginary);
xmml_status xmml_send_text(xmml_instance *me, const char *port, const char *text);
xmml_status xmml_send_bytes(xmml_instance *me, const char *port, const void *bytes, size_t size);

/* ---------------------------------------------------------------------------------------------- sending without a copy */

/*
 * Memory for an array of this type and shape, to be filled and then sent with any of the calls that send arrays: receivers on this host get
 * the very memory and no copy of it. Its contents are unspecified at first. Once it is sent it belongs to the receiver: the program must not
 * touch it any more, and asks for another one (which costs next to nothing: memory that receivers are done with is used again).
 */
xmml_status xmml_loan(xmml_instance *me, xmml_dtype dtype, size_t rank, const size_t *shape, void **memory);

/* Gives memory back that is not going to be sent. Null does nothing. */
xmml_status xmml_give_back(xmml_instance *me, void *memory);

/* ------------------------------------------------------------------------------------------------ sending any value */

/* Something that a message can carry: a number, a text, an array, or a list or map of such. */
typedef struct xmml_value xmml_value;

/* The functions below do not consume `value`; it may be sent again, and it may be one that was received. */
xmml_status xmml_send(xmml_instance *me, const char *port, const xmml_value *value);

/* To copy number `to` of the multiplied instance at the other end. Without `to` every copy gets the message. */
xmml_status xmml_send_to(xmml_instance *me, const char *port, uint32_t to, const xmml_value *value);

/* With explicit time stamps: XMML_DEFAULT_TIME takes that of the loop; XMML_NO_TIME as the next one says that this is the last. */
#define XMML_DEFAULT_TIME (xmml_default_time())
#define XMML_NO_TIME (xmml_no_time())
double xmml_default_time(void);
double xmml_no_time(void);
xmml_status xmml_send_at(xmml_instance *me, const char *port, const xmml_value *value, double timestamp, double next_timestamp);
xmml_status xmml_send_to_at(xmml_instance *me, const char *port, uint32_t to, const xmml_value *value, double timestamp,
                            double next_timestamp);

/* ------------------------------------------------------------------------------------------------------- receiving */

/* A message that was received; free it with xmml_message_free. */
typedef struct xmml_message xmml_message;

/* Waits for the next message on the port. That the sender has ended is an error here (XMML_ERROR_ENDED). */
xmml_status xmml_receive(xmml_instance *me, const char *port, xmml_message **message);

/* From copy number `of` of the multiplied instance at the other end. */
xmml_status xmml_receive_of(xmml_instance *me, const char *port, uint32_t of, xmml_message **message);

/* That the sender has ended is an outcome here (XMML_ENDED). */
xmml_status xmml_receive_or_end(xmml_instance *me, const char *port, xmml_message **message);
xmml_status xmml_receive_or_end_of(xmml_instance *me, const char *port, uint32_t of, xmml_message **message);

/* Waits at most this many seconds: XMML_TIMED_OUT then, and nothing was taken. */
xmml_status xmml_receive_timeout(xmml_instance *me, const char *port, double seconds, xmml_message **message);
xmml_status xmml_receive_timeout_of(xmml_instance *me, const char *port, uint32_t of, double seconds, xmml_message **message);

/* Whether a message waits, so that a receive returns at once: 1 or 0. */
xmml_status xmml_has_message(xmml_instance *me, const char *port, int *yes);
xmml_status xmml_has_message_of(xmml_instance *me, const char *port, uint32_t of, int *yes);

/* When the message was observed, and when the next one will be (NaN if this is the last or it is not known). */
double xmml_message_timestamp(const xmml_message *message);
double xmml_message_next_timestamp(const xmml_message *message);
int xmml_message_has_next(const xmml_message *message);

/* What it carries; lives as long as the message. */
const xmml_value *xmml_message_data(const xmml_message *message);

/* Frees the message and everything that was read from it. NULL is allowed. */
void xmml_message_free(xmml_message *message);

/* ---------------------------------------------------------------------------------------------------- reading values */
/*
 * Types are checked, never reinterpreted: reading another type than is there is XMML_ERROR_TYPE, and xmml_error() names both. Two
 * things are the same: a number and an array of rank 0; and a whole number may be read as a double if that is exact.
 */

/* An array, where it lies: no copy is made. */
typedef struct xmml_array {
    xmml_dtype dtype;
    xmml_order order;
    size_t rank;
    const size_t *shape; /* rank extents, as the sender indexes the array */
    size_t size;         /* number of elements */
    const void *data;    /* aligned for its type */
} xmml_array;

/* The kind of the value; XMML_KIND_NOTHING for NULL. */
xmml_kind xmml_value_kind(const xmml_value *value);

/* Describes the value for people, for example "float64 array of shape (3, 4)". Valid until this thread's next call. */
const char *xmml_describe(const xmml_value *value);

xmml_status xmml_read_bool(const xmml_value *value, int *out);
xmml_status xmml_read_int(const xmml_value *value, int64_t *out);
xmml_status xmml_read_double(const xmml_value *value, double *out);
xmml_status xmml_read_complex(const xmml_value *value, double *real, double *imaginary);
xmml_status xmml_read_text(const xmml_value *value, const char **text, size_t *length); /* length may be NULL */
xmml_status xmml_read_bytes(const xmml_value *value, const void **bytes, size_t *size);

/* An array of this type and rank (or XMML_ANY_RANK). If it was sent in another order than asked for, a converted copy is made once and
   kept with the value; with XMML_ANY_ORDER never. */
xmml_status xmml_read_array(const xmml_value *value, xmml_dtype dtype, size_t rank, xmml_order order, xmml_array *array);

/* The array whatever its type, for programs that look at array->dtype. */
xmml_status xmml_read_any_array(const xmml_value *value, xmml_order order, xmml_array *array);

/* Copies an array of exactly this type and shape, in row-major order, into memory of the caller. */
xmml_status xmml_copy_array(const xmml_value *value, xmml_dtype dtype, size_t rank, const size_t *shape, void *data);

/* The same of a message's data. */
xmml_status xmml_message_bool(const xmml_message *message, int *out);
xmml_status xmml_message_int(const xmml_message *message, int64_t *out);
xmml_status xmml_message_double(const xmml_message *message, double *out);
xmml_status xmml_message_complex(const xmml_message *message, double *real, double *imaginary);
xmml_status xmml_message_text(const xmml_message *message, const char **text, size_t *length);
xmml_status xmml_message_bytes(const xmml_message *message, const void **bytes, size_t *size);
xmml_status xmml_message_array(const xmml_message *message, xmml_dtype dtype, size_t rank, xmml_array *array);
xmml_status xmml_message_copy(const xmml_message *message, xmml_dtype dtype, size_t rank, const size_t *shape, void *data);

/* Lists and maps. Size is 0, and an element NULL, for anything that is not there or not a list or map. */
size_t xmml_list_size(const xmml_value *list);
const xmml_value *xmml_list_get(const xmml_value *list, size_t i);
size_t xmml_map_size(const xmml_value *map);
const char *xmml_map_key(const xmml_value *map, size_t i);
const xmml_value *xmml_map_value(const xmml_value *map, size_t i);
const xmml_value *xmml_map_get(const xmml_value *map, const char *key);

/* ---------------------------------------------------------------------------------------------------- making values */
/*
 * Each returns a new value, or NULL (see xmml_error()). Lists and maps take over the values put into them, also when that fails, and a
 * NULL put into one is an error: so a nested value can be written as one expression per entry, with one check per entry.
 */
xmml_value *xmml_value_nothing(void);
xmml_value *xmml_value_bool(int value);
xmml_value *xmml_value_int(int64_t value);
xmml_value *xmml_value_double(double value);
xmml_value *xmml_value_complex(double real, double imaginary);
xmml_value *xmml_value_text(const char *text);
xmml_value *xmml_value_text_of(const char *text, size_t length); /* of this many bytes, which may be 0 bytes too */
xmml_value *xmml_value_bytes(const void *bytes, size_t size);
xmml_value *xmml_value_array(xmml_dtype dtype, size_t rank, const size_t *shape, const void *data);
xmml_value *xmml_value_array_order(xmml_dtype dtype, xmml_order order, size_t rank, const size_t *shape, const void *data);
/* The array where it lies, without a copy: for sending it. The memory must stay as it is until the value, and every copy of it, is freed. */
xmml_value *xmml_value_lent_array(xmml_dtype dtype, xmml_order order, size_t rank, const size_t *shape, const void *data);
xmml_value *xmml_value_copy(const xmml_value *value); /* shares array data with the original */
xmml_value *xmml_list_new(void);
xmml_status xmml_list_add(xmml_value *list, xmml_value *element);
xmml_value *xmml_map_new(void);
xmml_status xmml_map_set(xmml_value *map, const char *key, xmml_value *value); /* replaces what the key had */
void xmml_value_free(xmml_value *value); /* NULL is allowed; not for values inside a message, a list or a map */

/* ------------------------------------------------------------------------------------------- an instance by itself */
/*
 * For tests: an instance without a run, with its inputs given and its outputs kept.
 *
 *     xmml_alone *plan = xmml_alone_new("heater");
 *     xmml_alone_port(plan, "temperature", "S");
 *     xmml_alone_port(plan, "power", "Oi");
 *     xmml_alone_steps(plan, 2, 60.0);
 *     xmml_alone_input(plan, "temperature", 0.0, value);
 *     xmml_alone_join(&plan, &me);
 */
typedef struct xmml_alone xmml_alone;

xmml_alone *xmml_alone_new(const char *name);

/* A port on the operator "finit", "Oi", "S", "B" or "Of"; or "in", "out" for a mapper. Ports that are not given are not in the model. "S*3":
   with three copies of an instance at the other end; inputs and outputs of a copy are those of "port[0]", ... */
xmml_status xmml_alone_port(xmml_alone *alone, const char *port, const char *operator_or_direction);
xmml_status xmml_alone_param(xmml_alone *alone, const char *name, const char *text);
xmml_status xmml_alone_steps(xmml_alone *alone, uint64_t steps, double delta_s);

/* A scale in space or another dimension, in base units. */
xmml_status xmml_alone_scale(xmml_alone *alone, const char *name, double delta, double total);

/* The next message that the port will deliver; after the last one it has ended. An in port without any is not coupled. Does not
   consume the value. */
xmml_status xmml_alone_input(xmml_alone *alone, const char *port, double timestamp, const xmml_value *value);

/* Makes the instance; frees *alone and sets it to NULL, whatever it returns. */
xmml_status xmml_alone_join(xmml_alone **alone, xmml_instance **me);
void xmml_alone_free(xmml_alone *alone);

/* Message number i that was sent on the port so far, as a message of its own to be freed; XMML_DONE if there are not so many. */
xmml_status xmml_output(const xmml_instance *me, const char *port, size_t i, xmml_message **message);

/* ---------------------------------------------------------------------------------------------------- where a call is */

/* Notes for the error texts of this thread's next call where in the program it stands. `file` must live on. The macros below do it for
   every call; define XMML_NO_CALL_SITES before including this header to do without them. */
void xmml_at(const char *file, int line);

#ifdef __cplusplus
}
#endif

/* clang-format off */
#include "xmml_handles.h"
#include "xmml_callbacks.h"
#include "xmml_pools.h"
/* clang-format on */

#ifndef XMML_NO_CALL_SITES
#define xmml_join(...) (xmml_at(__FILE__, __LINE__), xmml_join(__VA_ARGS__))
#define xmml_join_as(...) (xmml_at(__FILE__, __LINE__), xmml_join_as(__VA_ARGS__))
#define xmml_leave(...) (xmml_at(__FILE__, __LINE__), xmml_leave(__VA_ARGS__))
#define xmml_fail(...) (xmml_at(__FILE__, __LINE__), xmml_fail(__VA_ARGS__))
#define xmml_warn(...) (xmml_at(__FILE__, __LINE__), xmml_warn(__VA_ARGS__))
#define xmml_reuse(...) (xmml_at(__FILE__, __LINE__), xmml_reuse(__VA_ARGS__))
#define xmml_step(...) (xmml_at(__FILE__, __LINE__), xmml_step(__VA_ARGS__))
#define xmml_param_double(...) (xmml_at(__FILE__, __LINE__), xmml_param_double(__VA_ARGS__))
#define xmml_param_int(...) (xmml_at(__FILE__, __LINE__), xmml_param_int(__VA_ARGS__))
#define xmml_param_bool(...) (xmml_at(__FILE__, __LINE__), xmml_param_bool(__VA_ARGS__))
#define xmml_param_text(...) (xmml_at(__FILE__, __LINE__), xmml_param_text(__VA_ARGS__))
#define xmml_scale_of(...) (xmml_at(__FILE__, __LINE__), xmml_scale_of(__VA_ARGS__))
#define xmml_port_at(...) (xmml_at(__FILE__, __LINE__), xmml_port_at(__VA_ARGS__))
#define xmml_bind_out(...) (xmml_at(__FILE__, __LINE__), xmml_bind_out(__VA_ARGS__))
#define xmml_bind_in(...) (xmml_at(__FILE__, __LINE__), xmml_bind_in(__VA_ARGS__))
#define xmml_connected(...) (xmml_at(__FILE__, __LINE__), xmml_connected(__VA_ARGS__))
#define xmml_copies(...) (xmml_at(__FILE__, __LINE__), xmml_copies(__VA_ARGS__))
#define xmml_methods(...) (xmml_at(__FILE__, __LINE__), xmml_methods(__VA_ARGS__))
#define xmml_set_methods(...) (xmml_at(__FILE__, __LINE__), xmml_set_methods(__VA_ARGS__))
#define xmml_skip(...) (xmml_at(__FILE__, __LINE__), xmml_skip(__VA_ARGS__))
#define xmml_send_array(...) (xmml_at(__FILE__, __LINE__), xmml_send_array(__VA_ARGS__))
#define xmml_send_array_order(...) (xmml_at(__FILE__, __LINE__), xmml_send_array_order(__VA_ARGS__))
#define xmml_send_array_at(...) (xmml_at(__FILE__, __LINE__), xmml_send_array_at(__VA_ARGS__))
#define xmml_send_array_to(...) (xmml_at(__FILE__, __LINE__), xmml_send_array_to(__VA_ARGS__))
#define xmml_loan(...) (xmml_at(__FILE__, __LINE__), xmml_loan(__VA_ARGS__))
#define xmml_give_back(...) (xmml_at(__FILE__, __LINE__), xmml_give_back(__VA_ARGS__))
#define xmml_send_nothing(...) (xmml_at(__FILE__, __LINE__), xmml_send_nothing(__VA_ARGS__))
#define xmml_send_bool(...) (xmml_at(__FILE__, __LINE__), xmml_send_bool(__VA_ARGS__))
#define xmml_send_int(...) (xmml_at(__FILE__, __LINE__), xmml_send_int(__VA_ARGS__))
#define xmml_send_double(...) (xmml_at(__FILE__, __LINE__), xmml_send_double(__VA_ARGS__))
#define xmml_send_complex(...) (xmml_at(__FILE__, __LINE__), xmml_send_complex(__VA_ARGS__))
#define xmml_send_text(...) (xmml_at(__FILE__, __LINE__), xmml_send_text(__VA_ARGS__))
#define xmml_send_bytes(...) (xmml_at(__FILE__, __LINE__), xmml_send_bytes(__VA_ARGS__))
#define xmml_send(...) (xmml_at(__FILE__, __LINE__), xmml_send(__VA_ARGS__))
#define xmml_send_to(...) (xmml_at(__FILE__, __LINE__), xmml_send_to(__VA_ARGS__))
#define xmml_send_at(...) (xmml_at(__FILE__, __LINE__), xmml_send_at(__VA_ARGS__))
#define xmml_send_to_at(...) (xmml_at(__FILE__, __LINE__), xmml_send_to_at(__VA_ARGS__))
#define xmml_receive(...) (xmml_at(__FILE__, __LINE__), xmml_receive(__VA_ARGS__))
#define xmml_receive_of(...) (xmml_at(__FILE__, __LINE__), xmml_receive_of(__VA_ARGS__))
#define xmml_receive_or_end(...) (xmml_at(__FILE__, __LINE__), xmml_receive_or_end(__VA_ARGS__))
#define xmml_receive_or_end_of(...) (xmml_at(__FILE__, __LINE__), xmml_receive_or_end_of(__VA_ARGS__))
#define xmml_receive_timeout(...) (xmml_at(__FILE__, __LINE__), xmml_receive_timeout(__VA_ARGS__))
#define xmml_receive_timeout_of(...) (xmml_at(__FILE__, __LINE__), xmml_receive_timeout_of(__VA_ARGS__))
#define xmml_has_message(...) (xmml_at(__FILE__, __LINE__), xmml_has_message(__VA_ARGS__))
#define xmml_has_message_of(...) (xmml_at(__FILE__, __LINE__), xmml_has_message_of(__VA_ARGS__))
#define xmml_read_bool(...) (xmml_at(__FILE__, __LINE__), xmml_read_bool(__VA_ARGS__))
#define xmml_read_int(...) (xmml_at(__FILE__, __LINE__), xmml_read_int(__VA_ARGS__))
#define xmml_read_double(...) (xmml_at(__FILE__, __LINE__), xmml_read_double(__VA_ARGS__))
#define xmml_read_complex(...) (xmml_at(__FILE__, __LINE__), xmml_read_complex(__VA_ARGS__))
#define xmml_read_text(...) (xmml_at(__FILE__, __LINE__), xmml_read_text(__VA_ARGS__))
#define xmml_read_bytes(...) (xmml_at(__FILE__, __LINE__), xmml_read_bytes(__VA_ARGS__))
#define xmml_read_array(...) (xmml_at(__FILE__, __LINE__), xmml_read_array(__VA_ARGS__))
#define xmml_read_any_array(...) (xmml_at(__FILE__, __LINE__), xmml_read_any_array(__VA_ARGS__))
#define xmml_copy_array(...) (xmml_at(__FILE__, __LINE__), xmml_copy_array(__VA_ARGS__))
#define xmml_message_bool(...) (xmml_at(__FILE__, __LINE__), xmml_message_bool(__VA_ARGS__))
#define xmml_message_int(...) (xmml_at(__FILE__, __LINE__), xmml_message_int(__VA_ARGS__))
#define xmml_message_double(...) (xmml_at(__FILE__, __LINE__), xmml_message_double(__VA_ARGS__))
#define xmml_message_complex(...) (xmml_at(__FILE__, __LINE__), xmml_message_complex(__VA_ARGS__))
#define xmml_message_text(...) (xmml_at(__FILE__, __LINE__), xmml_message_text(__VA_ARGS__))
#define xmml_message_bytes(...) (xmml_at(__FILE__, __LINE__), xmml_message_bytes(__VA_ARGS__))
#define xmml_message_array(...) (xmml_at(__FILE__, __LINE__), xmml_message_array(__VA_ARGS__))
#define xmml_message_copy(...) (xmml_at(__FILE__, __LINE__), xmml_message_copy(__VA_ARGS__))
#define xmml_value_text(...) (xmml_at(__FILE__, __LINE__), xmml_value_text(__VA_ARGS__))
#define xmml_value_text_of(...) (xmml_at(__FILE__, __LINE__), xmml_value_text_of(__VA_ARGS__))
#define xmml_value_bytes(...) (xmml_at(__FILE__, __LINE__), xmml_value_bytes(__VA_ARGS__))
#define xmml_value_array(...) (xmml_at(__FILE__, __LINE__), xmml_value_array(__VA_ARGS__))
#define xmml_value_array_order(...) (xmml_at(__FILE__, __LINE__), xmml_value_array_order(__VA_ARGS__))
#define xmml_value_lent_array(...) (xmml_at(__FILE__, __LINE__), xmml_value_lent_array(__VA_ARGS__))
#define xmml_value_copy(...) (xmml_at(__FILE__, __LINE__), xmml_value_copy(__VA_ARGS__))
#define xmml_list_add(...) (xmml_at(__FILE__, __LINE__), xmml_list_add(__VA_ARGS__))
#define xmml_map_set(...) (xmml_at(__FILE__, __LINE__), xmml_map_set(__VA_ARGS__))
#define xmml_alone_new(...) (xmml_at(__FILE__, __LINE__), xmml_alone_new(__VA_ARGS__))
#define xmml_alone_port(...) (xmml_at(__FILE__, __LINE__), xmml_alone_port(__VA_ARGS__))
#define xmml_alone_param(...) (xmml_at(__FILE__, __LINE__), xmml_alone_param(__VA_ARGS__))
#define xmml_alone_steps(...) (xmml_at(__FILE__, __LINE__), xmml_alone_steps(__VA_ARGS__))
#define xmml_alone_scale(...) (xmml_at(__FILE__, __LINE__), xmml_alone_scale(__VA_ARGS__))
#define xmml_alone_input(...) (xmml_at(__FILE__, __LINE__), xmml_alone_input(__VA_ARGS__))
#define xmml_alone_join(...) (xmml_at(__FILE__, __LINE__), xmml_alone_join(__VA_ARGS__))
#define xmml_output(...) (xmml_at(__FILE__, __LINE__), xmml_output(__VA_ARGS__))
#endif

#endif
