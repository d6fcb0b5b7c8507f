/* Two processes and a pair of ZeroMQ sockets over ipc. */
#include "ends.h"

#include <sys/wait.h>
#include <zmq.h>

static void send_whole(void* socket, const double* data, size_t bytes) {
    bench_check(zmq_send(socket, data, bytes, 0) == (int)bytes, "zmq_send");
}

/* Reads the message where ZeroMQ has put it; it is freed when the next one is received. */
static zmq_msg_t message;

static const double* receive_whole(void* socket, double* room, size_t bytes) {
    (void)room;
    zmq_msg_close(&message);
    zmq_msg_init(&message);
    bench_check(zmq_msg_recv(&message, socket, 0) == (int)bytes, "zmq_msg_recv");
    return (const double*)zmq_msg_data(&message);
}

static void play(int number) {
    char address[4096];
    bench_pin(number);
    snprintf(address, sizeof address, "ipc://%s/zeromq", bench_setting("BENCH_OUT"));
    void* context = zmq_ctx_new();
    void* socket = zmq_socket(context, ZMQ_PAIR);
    bench_check((number == 0 ? zmq_bind(socket, address) : zmq_connect(socket, address)) == 0, address);
    zmq_msg_init(&message);
    bench_run(bench_end(number), (struct bench_link){socket, send_whole, receive_whole, NULL});
    zmq_msg_close(&message);
    zmq_close(socket);
    zmq_ctx_term(context);
}

int main(void) {
    int status = 0;
    const pid_t child = fork();
    bench_check(child >= 0, "fork");
    if (child == 0) {
        play(1);
        return 0;
    }
    play(0);
    bench_check(waitpid(child, &status, 0) == child, "waitpid");
    return status != 0;
}
