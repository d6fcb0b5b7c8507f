/* A floor: two processes and two pipes, a length in front of each message, nothing else. */
#include "ends.h"

#include <errno.h>
#include <stdint.h>
#include <sys/uio.h>
#include <sys/wait.h>

struct pipes {
    int out, in;
};

static void send_all(void* context, const double* data, size_t bytes) {
    const struct pipes* pipes = (const struct pipes*)context;
    uint64_t head = bytes;
    struct iovec parts[2] = {{&head, sizeof head}, {(void*)data, bytes}};
    ssize_t step = writev(pipes->out, parts, 2);
    bench_check(step >= (ssize_t)sizeof head, "writev"); /* a pipe takes a few bytes whole or not at all */
    for (size_t sent = (size_t)step - sizeof head; sent < bytes; sent += (size_t)step) {
        step = write(pipes->out, (const char*)data + sent, bytes - sent);
        bench_check(step > 0, "write");
    }
}

static void receive_exactly(int in, void* into, size_t bytes) {
    for (size_t received = 0; received < bytes;) {
        const ssize_t step = read(in, (char*)into + received, bytes - received);
        bench_check(step > 0, "read");
        received += (size_t)step;
    }
}

static const double* receive_all(void* context, double* room, size_t bytes) {
    const struct pipes* pipes = (const struct pipes*)context;
    uint64_t head = 0;
    receive_exactly(pipes->in, &head, sizeof head);
    bench_check(head == bytes, "length of a message");
    receive_exactly(pipes->in, room, bytes);
    return room;
}

int main(void) {
    int there[2], back[2], status = 0;
    bench_check(pipe(there) == 0 && pipe(back) == 0, "pipe");
    fcntl(there[1], F_SETPIPE_SZ, 1 << 20); /* as much as anybody may have; if not, what it has */
    fcntl(back[1], F_SETPIPE_SZ, 1 << 20);
    const pid_t child = fork();
    bench_check(child >= 0, "fork");
    const int number = child == 0;
    struct pipes pipes = number == 0 ? (struct pipes){there[1], back[0]} : (struct pipes){back[1], there[0]};
    close(number == 0 ? there[0] : there[1]);
    close(number == 0 ? back[1] : back[0]);
    bench_pin(number);
    bench_run(bench_end(number), (struct bench_link){&pipes, send_all, receive_all, NULL});
    if (child == 0) return 0;
    bench_check(waitpid(child, &status, 0) == child, "waitpid");
    return status != 0;
}
