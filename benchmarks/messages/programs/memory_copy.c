/* A floor: one process that copies the message once and reads the copy. */
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

int main(void) {
    bench_pin(0);
    bench_run("copy", (struct bench_link){NULL, keep, copy});
    return 0;
}
