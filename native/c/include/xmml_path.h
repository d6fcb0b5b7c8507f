/*
 * Paths for C: 1 to 128 TCP streams between two programs that behave as one channel for messages, in both directions at once. For programs
 * that are part of a run, and for any others. docs/wide-area.md explains them; link as for xmml.h.
 *
 *     xmml_path_identity me = {"run", "amsterdam", "secret", NULL, NULL, 0};
 *     xmml_path *path;
 *     if (xmml_path_dial(&path, "tokyo.example:4711", &me, "tokyo", NULL, 30) != XMML_OK) ...
 *     xmml_path_send(path, XMML_PATH_BULK, data, size, -1);
 *     xmml_path_receive(path, XMML_PATH_BULK, &message, -1);
 *     ... xmml_path_message_data(message), xmml_path_message_size(message) ...
 *     xmml_path_message_free(&message);
 *     xmml_path_close(&path, 30);
 *
 * The rules of xmml.h hold. Besides:
 *  - Times to wait are in seconds; a negative one is without end, 0 does not wait. XMML_TIMED_OUT says that the time has passed.
 *  - A path may be used by several threads. A thread of the library keeps it alive while the program computes.
 *  - A message is delivered once and in order, whatever becomes of the connections.
 */
#ifndef XMML_PATH_H
#define XMML_PATH_H

#ifndef XMML_H
#define XMML_NO_CALL_SITES
#endif
#include <xmml.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xmml_path xmml_path;
typedef struct xmml_path_listener xmml_path_listener;
typedef struct xmml_path_message xmml_path_message;

/* Each lane is in order. What is on the control lane never waits behind bulk. */
typedef enum xmml_path_lane { XMML_PATH_CONTROL = 0, XMML_PATH_BULK = 1 } xmml_path_lane;

/* Who an end is, and what it proves that with. `run` and the secret are the same at both ends. The secret file holds hexadecimal digits and is
   readable by its owner only. For an encrypted path: a file that xmml_path_make_credentials wrote, and the fingerprints of the
   certificates that are believed at the other end; else NULL, NULL and 0. */
typedef struct xmml_path_identity {
    const char *run;
    const char *name;
    const char *secret_file;
    const char *credentials_file;
    const char *const *trusted;
    size_t trusted_count;
} xmml_path_identity;

/* Whether streams send without copying into the kernel: where the kernel does not copy all the same; also where it does, which costs more (for
   tests and measurements); never. */
typedef enum xmml_path_zero_copy {
    XMML_PATH_ZERO_COPY_AUTO = 0,
    XMML_PATH_ZERO_COPY_ON = 1,
    XMML_PATH_ZERO_COPY_OFF = 2
} xmml_path_zero_copy;

/* What can be set, most of it also while the path runs. 0 (and NULL) everywhere: as xmml_path_settings_init sets it. */
typedef struct xmml_path_settings {
    uint32_t streams;        /* 1 to 128; 0: as many as pay, found out while it runs */
    uint64_t chunk;          /* bytes of a piece of a message; 0: adapted */
    uint64_t window;         /* bytes that may come ahead of what the program takes; 0: 64 MiB */
    uint64_t queue;          /* bytes that may be queued or under way before a send waits; 0: 64 MiB */
    uint64_t max_message;    /* longest message that is taken; 0: 16 GiB */
    uint64_t socket_buffer;  /* the TCP window of each stream in bytes; 0: the kernel tunes it */
    uint64_t pace;           /* most bytes per second of each stream; 0: no limit */
    const char *congestion;  /* TCP congestion control, as the kernel names it; NULL: its default */
    double patience;         /* seconds that a path without streams waits before it fails; 0: 120 */
    double silence;          /* seconds after which a silent stream is dead; 0: 10 */
    double link_round_trip;  /* what is known of the link, in seconds; 0: nothing */
    double link_bandwidth;   /* bytes per second */
    int zero_copy;           /* an xmml_path_zero_copy; what is posted can go without a copy, what xmml_path_send sends cannot */
    int relays;              /* 1: this program passes on what comes (xmml_path_relay): nothing has arrived, for who sent it, before it
                                has come through or was taken otherwise */
    int workers;             /* threads that carry streams, and encrypt and decrypt, besides the one that drives the path; 0: none, of an
                                encrypted path while much passes as many as there are cores, at most 4; negative: never any */
} xmml_path_settings;

/* How a path is doing. */
typedef struct xmml_path_stats {
    uint64_t streams;        /* streams that carry now */
    uint64_t streams_lost;   /* streams that were lost */
    uint64_t resumed;        /* how often it went on after all streams were lost */
    uint64_t bytes_in;       /* bytes that came */
    uint64_t bytes_out;      /* bytes that went */
    uint64_t retransmitted;  /* segments that TCP sent again */
    double rate;             /* bytes per second that the other end acknowledged, lately */
    double round_trip;       /* seconds; 0: not known yet */
    uint64_t zero_copy_streams; /* streams that send without copying into the kernel what is fit for it */
    uint64_t zero_copy_bytes;   /* bytes that were sent in that way, also those that the kernel copied all the same */
    const char *why_copied;     /* why streams copy, for people; it stays. NULL: none does, or there is none */
} xmml_path_stats;

/* Everything to be found out or to its default. */
void xmml_path_settings_init(xmml_path_settings *settings);

/* Writes a new key and certificate for the end called `name` to a new file that its owner only can read, good for so many seconds; puts 64
   hexadecimal digits and a 0 byte into `fingerprint`, for the other end. */
xmml_status xmml_path_make_credentials(const char *file, const char *name, double seconds, char fingerprint[65]);

/* Opens a path to the program called `peer` that listens at `address` ("host:port"), which may start later. Settings may be NULL. */
xmml_status xmml_path_dial(xmml_path **path, const char *address, const xmml_path_identity *me, const char *peer,
                           const xmml_path_settings *settings, double timeout_s);

/* Listens at `address` ("host:port", port 0: any free one). Settings may be NULL; they become those of the accepted paths. */
xmml_status xmml_path_listen(xmml_path_listener **listener, const char *address, const xmml_path_identity *me,
                             const xmml_path_settings *settings);

/* Where it listens, "host:port". */
const char *xmml_path_listener_address(const xmml_path_listener *listener);

/* Waits for the next path. */
xmml_status xmml_path_accept(xmml_path_listener *listener, xmml_path **path, double timeout_s);

/* Takes no more paths; those that were accepted go on. Sets the pointer to NULL. */
xmml_status xmml_path_listener_close(xmml_path_listener **listener);

/* Sends `size` bytes, which belong to the caller again when it returns. Waits while more is queued than the settings allow. */
xmml_status xmml_path_send(xmml_path *path, xmml_path_lane lane, const void *data, size_t size, double timeout_s);

/* The same from a copy, without waiting. The ticket (which may be NULL) tells later whether it has arrived. */
xmml_status xmml_path_post(xmml_path *path, xmml_path_lane lane, const void *data, size_t size, uint64_t *ticket);

/* Waits until the other end has what was posted, the last one if relays pass it on; a time of 0 asks, also a path that has failed. */
xmml_status xmml_path_wait(xmml_path *path, uint64_t ticket, double timeout_s);

/* Waits until the other end has everything that was sent, the last one if relays pass it on. */
xmml_status xmml_path_flush(xmml_path *path, double timeout_s);

/* Waits for the next message, of whatever size. XMML_ENDED: the other end has finished, and everything was received. */
xmml_status xmml_path_receive(xmml_path *path, xmml_path_lane lane, xmml_path_message **message, double timeout_s);

/* The same into memory of the caller; `size` is set to the size of the message. A message that is longer than `capacity` stays
   (XMML_ERROR_TYPE). */
xmml_status xmml_path_receive_into(xmml_path *path, xmml_path_lane lane, void *data, size_t capacity, size_t *size,
                                   double timeout_s);

/* The bytes of a message; the caller frees it. */
const void *xmml_path_message_data(const xmml_path_message *message);
size_t xmml_path_message_size(const xmml_path_message *message);
void xmml_path_message_free(xmml_path_message **message);

/* Sends one message and receives one, of whatever size; both travel at once. */
xmml_status xmml_path_send_receive(xmml_path *path, xmml_path_lane lane, const void *data, size_t size,
                                   xmml_path_message **message, double timeout_s);

/* Sends on one path and receives from another. */
xmml_status xmml_path_cycle(xmml_path *to, xmml_path *from, xmml_path_lane lane, const void *data, size_t size,
                            xmml_path_message **message, double timeout_s);

/* Waits until both ends have come here; everything sent on the bulk lane before has come then. */
xmml_status xmml_path_barrier(xmml_path *path, double timeout_s);

/* Passes everything on between two paths, in both directions, until both have ended. If one fails, both are given up: the programs at their
   other ends are told, and xmml_error says how much is not known to have come through. Nothing of that has arrived, for those who sent it,
   if both paths were opened with `relays` set. */
xmml_status xmml_path_relay(xmml_path *one, xmml_path *other);

/* Sends each of `count` paths its part, on all of them at once. On none if one has no room in this time. */
xmml_status xmml_path_scatter(xmml_path *const *paths, size_t count, xmml_path_lane lane, const void *const *data,
                              const size_t *sizes, double timeout_s);

/* Receives one message of each of `count` paths, in their order. None is taken before all have come: after an error, also when the time has
   passed, those that came can still be received. */
xmml_status xmml_path_gather(xmml_path *const *paths, size_t count, xmml_path_lane lane, xmml_path_message **messages,
                             double timeout_s);

/* Other settings from now on, all of them: what is 0 or NULL becomes what is usual, whatever it was before. The streams in use go on. */
xmml_status xmml_path_set(xmml_path *path, const xmml_path_settings *settings);

/* How the path is doing. */
xmml_status xmml_path_get_stats(const xmml_path *path, xmml_path_stats *stats);

/* For an event loop: when this descriptor is readable, call xmml_path_drive, which does not wait; then see what has come with a time of 0.
   Wait a moment at most: a thread of the library drives the path as well and may be faster, so that nothing is left to be read. */
int xmml_path_fd(const xmml_path *path);
xmml_status xmml_path_drive(xmml_path *path);

/* This end sends nothing more; messages still come. */
xmml_status xmml_path_finish(xmml_path *path);

/* Finishes, waits until the other end has done so too and everything has arrived, and frees the path (also after an error). Messages that were
   not received are lost; while the other end has more of them than `window` it does not end: receive them first (xmml_path_finish, then
   xmml_path_receive until XMML_ENDED). Sets the pointer to NULL. */
xmml_status xmml_path_close(xmml_path **path, double timeout_s);

/* Gives the path up and frees it: what is under way is lost, and the other end is told. Sets the pointer to NULL. */
void xmml_path_free(xmml_path **path);

#ifdef __cplusplus
}
#endif

#endif
