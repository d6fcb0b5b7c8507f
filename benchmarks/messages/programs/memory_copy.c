/* Floors: one process that copies the message once and reads the copy; or, with `same` as argument, reads it where it was written. */
#include "ends.h"

static const double* sent;

static void keep(void* context, const double* data, size_t bytes) {
    (void)context;
    (void)bytes;
    sent = data;
}

static const double* copy(void* context, double* room, size_t bytes) {
    (void)context;
    if (bytes > 0) memcpy(room, sent, bytes);
    return room;
}

static const double* same(void* context, double* room, size_t bytes) {
    (void)context;
    (void)room;
    (void)bytes;
    return sent;
}

int main(int argc, char** argv) {
    const int in_place = argc > 1 && strcmp(argv[1], "same") == 0;
    bench_pin(0);
    bench_run("copy", (struct bench_link){NULL, keep, in_place ? same : copy, NULL});
    return 0;
}
