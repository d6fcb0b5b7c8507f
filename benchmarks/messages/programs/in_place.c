/* A floor for arrays on loan: two processes and one piece of shared memory (a memfd, as xMML uses). Each message is written where it is
 * read: to and fro always in the same place, in a stream in two places in turn, of which one is written while the other is read. A number
 * in memory hands it over; both ends look at that until it changes, and nobody sleeps. */
#include "ends.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const size_t PLACE = (size_t)1 << 26;

struct counter {
    _Alignas(128) _Atomic uint64_t count;
};

struct end {
    struct counter sent, freed;
};

struct channel {
    struct end *here, *there;
    char *out, *in;
    uint64_t places, sent, taken;
};

static void reach(_Atomic uint64_t* count, uint64_t wanted) {
    while (atomic_load_explicit(count, memory_order_acquire) < wanted) __builtin_ia32_pause();
}

static double* lend(void* context, size_t bytes) {
    struct channel* channel = (struct channel*)context;
    bench_check(bytes <= PLACE, "a message of more than 64 MiB");
    if (channel->sent >= channel->places) reach(&channel->there->freed.count, channel->sent - channel->places + 1);
    return (double*)(channel->out + channel->sent % channel->places * PLACE);
}

static void put(void* context, const double* data, size_t bytes) {
    struct channel* channel = (struct channel*)context;
    (void)data;
    (void)bytes;
    atomic_store_explicit(&channel->here->sent.count, ++channel->sent, memory_order_release);
}

/* Frees what was taken before. */
static const double* take(void* context, double* room, size_t bytes) {
    struct channel* channel = (struct channel*)context;
    (void)room;
    (void)bytes;
    atomic_store_explicit(&channel->here->freed.count, channel->taken, memory_order_release);
    reach(&channel->there->sent.count, ++channel->taken);
    return (const double*)(channel->in + (channel->taken - 1) % channel->places * PLACE);
}

int main(void) {
    int status = 0;
    const uint64_t places = strcmp(bench_setting("BENCH_PATTERN"), "stream") == 0 ? 2 : 1;
    const size_t length = 4096 + 2 * places * PLACE;
    const int file = memfd_create("bench", MFD_CLOEXEC);
    bench_check(file >= 0 && ftruncate(file, (off_t)length) == 0, "memfd_create");
    char* memory = (char*)mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    bench_check(memory != MAP_FAILED, "mmap");
    const pid_t child = fork();
    bench_check(child >= 0, "fork");
    const int number = child == 0;
    struct end* ends = (struct end*)memory;
    char* areas[2] = {memory + 4096, memory + 4096 + places * PLACE};
    struct channel channel = {&ends[number], &ends[1 - number], areas[number], areas[1 - number], places, 0, 0};
    bench_pin(number);
    bench_run(bench_end(number), (struct bench_link){&channel, put, take, lend});
    if (child == 0) return 0;
    bench_check(waitpid(child, &status, 0) == child, "waitpid");
    return status != 0;
}
