/* A floor: two processes, one place in shared memory for each direction, and a futex that wakes the receiver, who always sleeps. `spin` as
 * argument: who never sleeps, without any futex. */
#include "ends.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { ROOM = 1 << 20 };

struct place {
    _Alignas(64) _Atomic uint32_t full; /* 1: a message lies here */
    _Alignas(64) char data[ROOM];
};

struct channel {
    struct place *out, *in;
    int spins;
};

static void await(const struct channel* channel, _Atomic uint32_t* full, uint32_t wanted) {
    while (atomic_load_explicit(full, memory_order_acquire) != wanted)
        if (!channel->spins) syscall(SYS_futex, full, FUTEX_WAIT, 1 - wanted, NULL, NULL, 0);
}

static void become(const struct channel* channel, _Atomic uint32_t* full, uint32_t value) {
    atomic_store_explicit(full, value, memory_order_release);
    if (!channel->spins) syscall(SYS_futex, full, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void put(void* context, const double* data, size_t bytes) {
    const struct channel* channel = (const struct channel*)context;
    bench_check(bytes <= ROOM, "a message of more than 1 MiB");
    await(channel, &channel->out->full, 0);
    if (bytes > 0) memcpy(channel->out->data, data, bytes);
    become(channel, &channel->out->full, 1);
}

static const double* take(void* context, double* room, size_t bytes) {
    const struct channel* channel = (const struct channel*)context;
    await(channel, &channel->in->full, 1);
    if (bytes > 0) memcpy(room, channel->in->data, bytes);
    /* In a ping-pong the sender finds the place free without having slept for it. */
    become(channel, &channel->in->full, 0);
    return room;
}

int main(int argc, char** argv) {
    int status = 0;
    struct place* places = mmap(NULL, 2 * sizeof *places, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bench_check(places != MAP_FAILED, "mmap");
    const pid_t child = fork();
    bench_check(child >= 0, "fork");
    const int number = child == 0;
    struct channel channel = {&places[number], &places[1 - number], argc > 1 && strcmp(argv[1], "spin") == 0};
    bench_pin(number);
    bench_run(bench_end(number), (struct bench_link){&channel, put, take, NULL});
    if (child == 0) return 0;
    bench_check(waitpid(child, &status, 0) == child, "waitpid");
    return status != 0;
}
