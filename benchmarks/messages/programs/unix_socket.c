/* A floor: two processes and a Unix stream socket, a length in front of each message, nothing else. `spin` as argument: never sleep. */
#include "ends.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

struct channel {
    int socket;
    int flags;
};

static void send_all(void* context, const double* data, size_t bytes) {
    const struct channel* channel = (const struct channel*)context;
    uint64_t head = bytes;
    struct iovec parts[2] = {{&head, sizeof head}, {(void*)data, bytes}};
    struct msghdr message = {0};
    size_t sent = 0;
    while (sent < sizeof head + bytes) {
        const size_t of_head = sent < sizeof head ? sent : sizeof head;
        parts[0] = (struct iovec){(char*)&head + of_head, sizeof head - of_head};
        parts[1] = (struct iovec){(char*)data + (sent - of_head), bytes - (sent - of_head)};
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        const ssize_t step = sendmsg(channel->socket, &message, channel->flags);
        bench_check(step > 0 || errno == EAGAIN, "sendmsg");
        if (step > 0) sent += (size_t)step;
    }
}

static void receive_exactly(const struct channel* channel, void* into, size_t bytes) {
    size_t received = 0;
    while (received < bytes) {
        const ssize_t step = recv(channel->socket, (char*)into + received, bytes - received, channel->flags);
        bench_check(step > 0 || (step < 0 && errno == EAGAIN), "recv");
        if (step > 0) received += (size_t)step;
    }
}

static const double* receive_all(void* context, double* room, size_t bytes) {
    uint64_t head = 0;
    receive_exactly((const struct channel*)context, &head, sizeof head);
    bench_check(head == bytes, "length of a message");
    receive_exactly((const struct channel*)context, room, bytes);
    return room;
}

int main(int argc, char** argv) {
    const int flags = argc > 1 && strcmp(argv[1], "spin") == 0 ? MSG_DONTWAIT : 0;
    int pair[2], status = 0;
    bench_check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    const pid_t child = fork();
    bench_check(child >= 0, "fork");
    const int number = child == 0;
    struct channel channel = {pair[number], flags};
    close(pair[1 - number]);
    bench_pin(number);
    bench_run(bench_end(number), (struct bench_link){&channel, send_all, receive_all, NULL});
    if (child == 0) return 0;
    bench_check(waitpid(child, &status, 0) == child, "waitpid");
    return status != 0;
}
