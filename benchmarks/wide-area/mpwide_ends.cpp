// The two ends of a measurement over MPWide: a path as its manual opens one, with everything as the library has it by itself.
//
//   mpwide_ends serve PORT STREAMS BYTES COUNT         takes messages and answers each with one byte when it has come whole
//   mpwide_ends dial HOST PORT STREAMS BYTES COUNT     one line for each message: bulk, bytes, seconds until the answer
//
// MPWide tells nobody how long a message is, so both ends must be told the same.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <MPWide.h>

int main(int argc, char** argv) {
    const bool serves = argc == 6 && std::string(argv[1]) == "serve";
    if (!serves && !(argc == 7 && std::string(argv[1]) == "dial")) {
        std::fprintf(stderr, "mpwide_ends serve PORT STREAMS BYTES COUNT; dial HOST PORT STREAMS BYTES COUNT\n");
        return 2;
    }
    // Whoever gives this address as that of the other end waits for it.
    const std::string host = serves ? "0.0.0.0" : argv[2];
    char** numbers = argv + (serves ? 2 : 3);
    const int path = MPW_CreatePath(host, std::atoi(numbers[0]), std::atoi(numbers[1]));
    if (path < 0) {
        std::fprintf(stderr, "MPWide opens no path\n");
        return 1;
    }
    std::vector<char> message(std::strtoull(numbers[2], nullptr, 10), 7);
    const long long bytes = static_cast<long long>(message.size());
    char answer = '!';
    for (int left = std::atoi(numbers[3]); left > 0; left--) {
        if (serves) {
            MPW_SendRecv(nullptr, 0, message.data(), bytes, path);
            MPW_SendRecv(&answer, 1, nullptr, 0, path);
            continue;
        }
        const auto begin = std::chrono::steady_clock::now();
        MPW_SendRecv(message.data(), bytes, &answer, 1, path);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        std::printf("bulk %lld %.9f\n", bytes, took.count());
    }
    MPW_Finalize();
    return 0;
}
