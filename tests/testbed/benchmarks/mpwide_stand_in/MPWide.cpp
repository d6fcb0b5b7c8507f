// A stand-in for MPWide: a connection at a port of its own for each stream, a thread for each in every exchange, equal parts.
#include "MPWide.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace {

std::vector<int> streams;

void exchange(int stream, const char* out, long long send, char* in, long long receive) {
    while (send > 0) {
        const ssize_t sent = write(stream, out, static_cast<size_t>(send));
        if (sent <= 0) return;
        out += sent;
        send -= sent;
    }
    while (receive > 0) {
        const ssize_t got = read(stream, in, static_cast<size_t>(receive));
        if (got <= 0) return;
        in += got;
        receive -= got;
    }
}

}  // namespace

int MPW_CreatePath(std::string host, int server_side_base_port, int num_streams) {
    const bool serves = host == "0.0.0.0";
    for (int each = 0; each < num_streams; each++) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(server_side_base_port + each));
        inet_pton(AF_INET, host.c_str(), &address.sin_addr);
        const int made = socket(AF_INET, SOCK_STREAM, 0);
        const int yes = 1;
        setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        const auto* where = reinterpret_cast<const sockaddr*>(&address);
        if (serves && (bind(made, where, sizeof address) != 0 || listen(made, 1) != 0)) return -1;
        if (!serves && connect(made, where, sizeof address) != 0) return -1;
        streams.push_back(made);
    }
    for (int& each : streams) {
        if (!serves) continue;
        const int accepted = accept(each, nullptr, nullptr);
        close(each);
        each = accepted;
    }
    return 0;
}

int MPW_SendRecv(char* sendbuf, long long sendsize, char* recvbuf, long long recvsize, int) {
    const auto count = static_cast<long long>(streams.size());
    const auto part = [count](long long size, long long number) { return size / count + (number < size % count ? 1 : 0); };
    std::vector<std::thread> threads;
    for (long long each = 0; each < count; each++) {
        const long long send = part(sendsize, each), receive = part(recvsize, each);
        threads.emplace_back(exchange, streams[static_cast<size_t>(each)], sendbuf, send, recvbuf, receive);
        sendbuf += send;
        recvbuf += receive;
    }
    for (auto& each : threads) each.join();
    return 0;
}

int MPW_Finalize() {
    for (const int each : streams) close(each);
    return 0;
}
