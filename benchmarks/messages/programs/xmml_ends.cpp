// An end of the benchmark as an xMML submodel: xmml_ends ping|pong|sender|receiver [lent]
#include "ends.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <xmml.hpp>

struct Port {
    xmml::Instance& me;
    const char* out;
    const char* in;
    bool steps;  // an iteration begins with a send (ping, sender) or a receive (receiver); if not, a run with a receive (pong)
    std::optional<xmml::Message> message{};
};

void send(void* context, const double* data, std::size_t bytes) {
    Port& port = *static_cast<Port*>(context);
    if (port.steps) port.me.next_step();
    if (bytes == 0) port.me.send(port.out, nullptr);
    else port.me.send(port.out, xmml::array(data, {bytes / sizeof(double)}));
}

// Memory that the message is written into and handed over with; the send knows it again.
double* lend(void* context, std::size_t bytes) {
    Port& port = *static_cast<Port*>(context);
    const std::size_t n = bytes / sizeof(double);
    void* memory = nullptr;
    if (n > 0 && xmml_loan(port.me.get(), XMML_F64, 1, &n, &memory) < 0) throw std::runtime_error(xmml_error());
    return static_cast<double*>(memory);
}

const double* receive(void* context, double*, std::size_t bytes) {
    Port& port = *static_cast<Port*>(context);
    port.message.reset();
    if (!port.steps) port.me.reuse();
    else if (port.out == nullptr) port.me.next_step();
    port.message = port.me.receive(port.in);
    return bytes == 0 ? nullptr : port.message->array<double>().data();
}

int main(int argc, char** argv) {
    const std::string end = argv[1];
    const bool first = end == "ping" || end == "sender";
    bench_pin(first ? 0 : 1);
    xmml::Instance me;
    Port port{me, end == "receiver" ? nullptr : end == "pong" ? "answer" : "call", end == "ping" ? "answer" : "call", end != "pong"};
    const bench_link link{&port, send, receive, argc > 2 ? lend : nullptr};
    if (end == "pong") bench_run("pong", link);
    while (me.reuse()) bench_run(end.c_str(), link);
}
