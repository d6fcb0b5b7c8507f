/* The two ends of a benchmark, for programs in C and C++: what is sent, how often, what is measured and where it is written.
 * ends.py is the same for Python. The environment says what to do:
 *
 *   BENCH_PATTERN   pingpong | stream
 *   BENCH_PLAN      "size:count,size:count,...": segments, sizes in bytes
 *   BENCH_OUT       folder for <end>.jsonl, one line per segment, and for the FIFO "barrier"
 *   BENCH_CPUS      "0,1": the CPU of each end; empty: wherever the kernel likes
 *   BENCH_TOUCH     read   the receiver reads what it gets: all of it from 4 KiB on, the first and last value below
 *                   write  and the sender writes it before, as much
 *                   none   nobody does
 *
 * A way of sending is two functions, or three if the memory of a message is lent by it. */
#ifndef BENCH_ENDS_H
#define BENCH_ENDS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct bench_link {
    void* context;
    void (*send)(void* context, const double* data, size_t bytes);
    /* Returns where the message lies: in `room`, which has `bytes` bytes and is not resident before it is used, or elsewhere. */
    const double* (*receive)(void* context, double* room, size_t bytes);
    /* NULL, or where the next message is to be written, instead of always the same memory. */
    double* (*lend)(void* context, size_t bytes);
};

static volatile double bench_sink; /* so that no compiler leaves out the reading */

static inline void bench_check(int good, const char* what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static inline const char* bench_setting(const char* name) {
    const char* text = getenv(name);
    if (text == NULL) {
        fprintf(stderr, "%s is not set; start this through benchmarks/messages/run.py\n", name);
        exit(2);
    }
    return text;
}

static inline double bench_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void bench_touch(const double* data, size_t bytes) {
    const size_t n = bytes / sizeof(double);
    double sums[8] = {0};
    size_t i = 0;
    if (n == 0) return;
    if (bytes < 4096) {
        bench_sink = data[0] + data[n - 1];
        return;
    }
    for (; i + 8 <= n; i += 8)
        for (int lane = 0; lane < 8; ++lane) sums[lane] += data[i + (size_t)lane];
    for (; i < n; ++i) sums[0] += data[i];
    bench_sink = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

static inline void bench_fill(double* data, size_t bytes, double value) {
    const size_t n = bytes / sizeof(double);
    if (n == 0) return;
    if (bytes < 4096) {
        data[0] = data[n - 1] = value;
        return;
    }
    for (size_t i = 0; i < n; ++i) data[i] = value;
}

/* Puts this process (and what it starts from now on) on the CPU of the end with this number. */
static inline void bench_pin(int end) {
    const char* cpus = bench_setting("BENCH_CPUS");
    cpu_set_t set;
    for (; end > 0 && *cpus != '\0'; --end) {
        cpus += strcspn(cpus, ",");
        cpus += *cpus == ',';
    }
    if (*cpus == '\0') return;
    CPU_ZERO(&set);
    CPU_SET(atoi(cpus), &set);
    bench_check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

/* A line of /proc/self/status in KiB: "VmRSS:" or "VmHWM:". */
static inline long bench_memory_kib(const char* line_name) {
    char line[256];
    long kib = -1;
    FILE* status = fopen("/proc/self/status", "r");
    bench_check(status != NULL, "/proc/self/status");
    while (kib < 0 && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, line_name, strlen(line_name)) == 0) kib = atol(line + strlen(line_name));
    fclose(status);
    return kib;
}

/* Proportional resident memory in KiB: a page that two processes share is half a page of each. */
static inline long bench_proportional_kib(void) {
    char line[256];
    long kib = 0;
    FILE* map = fopen("/proc/self/smaps_rollup", "r");
    if (map == NULL) return 0;
    while (fgets(line, sizeof line, map) != NULL)
        if (strncmp(line, "Pss:", 4) == 0) kib = atol(line + 4);
    fclose(map);
    return kib;
}

/* From now on VmHWM counts afresh. */
static inline void bench_forget_peak(void) {
    const int file = open("/proc/self/clear_refs", O_WRONLY);
    if (file < 0 || write(file, "5", 1) != 1) fprintf(stderr, "the peak of resident memory cannot be reset here\n");
    if (file >= 0) close(file);
}

static inline double* bench_memory(size_t bytes, int fill) {
    double* memory = (double*)aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);
    bench_check(memory != NULL, "memory for a message");
    if (fill)
        for (size_t i = 0; i < bytes / sizeof(double); ++i) memory[i] = 1.0;
    return memory;
}

/* The FIFO between the two ends, beside what is measured. */
static inline int bench_barrier(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/barrier", bench_setting("BENCH_OUT"));
    const int barrier = open(path, O_RDWR | O_CLOEXEC);
    bench_check(barrier >= 0, path);
    return barrier;
}

static inline void bench_tell(int barrier, double when) {
    bench_check(write(barrier, &when, sizeof when) == sizeof when, "write to the barrier");
}

static inline double bench_wait(int barrier) {
    double when = 0;
    bench_check(read(barrier, &when, sizeof when) == sizeof when, "read from the barrier");
    return when;
}

/* Sends one message: in memory that is lent for it, or in `own`. */
static inline void bench_send(struct bench_link link, double* own, size_t bytes, double value, int touches, int writes) {
    double* data = link.lend == NULL ? own : link.lend(link.context, bytes);
    if (writes) bench_fill(data, bytes, value);
    else if (touches && bytes >= sizeof(double)) data[0] = value;
    link.send(link.context, data, bytes);
}

/* Plays one end ("ping", "pong", "sender", "receiver", or "copy", which is its own peer) of every segment of the plan. */
static inline void bench_run(const char* end, struct bench_link link) {
    char path[4096];
    const char* plan = bench_setting("BENCH_PLAN");
    const int pong = strcmp(end, "pong") == 0, sender = strcmp(end, "sender") == 0, receiver = strcmp(end, "receiver") == 0;
    const double messages_per_turn = strcmp(end, "ping") == 0 ? 2.0 : 1.0;
    const char* touch = bench_setting("BENCH_TOUCH");
    const int reads = strcmp(touch, "none") != 0, writes = strcmp(touch, "write") == 0;
    const int barrier = bench_barrier();
    snprintf(path, sizeof path, "%s/%s.jsonl", bench_setting("BENCH_OUT"), end);
    FILE* report = fopen(path, "w");
    bench_check(report != NULL, path);

    while (*plan != '\0') {
        char* next = NULL;
        const size_t bytes = strtoul(plan, &next, 10);
        const long count = strtol(next + 1, &next, 10);
        const long warm_up = count / 10 < 1 ? 1 : count / 10 > 200 ? 200 : count / 10;
        plan = *next == ',' ? next + 1 : next;

        const long before_kib = bench_memory_kib("VmRSS:"), share_before_kib = bench_proportional_kib();
        bench_forget_peak();
        double* own = link.lend == NULL ? bench_memory(bytes, !receiver) : NULL;
        double* room = bench_memory(bytes, 0);
        double start = 0;
        for (long i = -warm_up; i < count; ++i) {
            if (i == 0) {
                if (receiver) bench_tell(barrier, 0.0);
                if (sender) bench_wait(barrier);
                start = bench_now();
            }
            if (!pong && !receiver) bench_send(link, own, bytes, (double)i, reads, writes);
            if (!sender) {
                const double* received = link.receive(link.context, room, bytes);
                if (reads) bench_touch(received, bytes);
            }
            if (pong) bench_send(link, own, bytes, 1.0, reads, writes);
        }
        double end_of_last = bench_now();
        if (receiver) bench_tell(barrier, end_of_last);
        if (sender) end_of_last = bench_wait(barrier);
        const double seconds = (end_of_last - start) / ((double)count * messages_per_turn);
        fprintf(report,
                "{\"bytes\": %zu, \"count\": %ld, \"seconds\": %.9g, \"before_kib\": %ld, \"peak_kib\": %ld, "
                "\"share_before_kib\": %ld, \"share_kib\": %ld}\n",
                bytes, count, seconds, before_kib, bench_memory_kib("VmHWM:"), share_before_kib, bench_proportional_kib());
        fflush(report);
        free(own);
        free(room);
    }
    fclose(report);
    close(barrier);
}

/* The end that a process with this number (0 or 1) plays in the pattern. */
static inline const char* bench_end(int number) {
    const int stream = strcmp(bench_setting("BENCH_PATTERN"), "stream") == 0;
    if (stream) return number == 0 ? "sender" : "receiver";
    return number == 0 ? "ping" : "pong";
}

#endif
