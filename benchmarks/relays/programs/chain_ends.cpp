// The two ends of a chain: chain_ends ping SECONDS REPORT BYTES..., pong; source BYTES SECONDS, sink WARM_SECONDS REPORT
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>
#include <xmml.hpp>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t fewest = 20;  // round trips of a size, however long they take
constexpr std::size_t warming = 5;  // before them, to fill what is filled once

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// There and back with messages of each size for some seconds; writes the times of the round trips.
void ping(double seconds, const char* report, const std::vector<std::size_t>& sizes) {
    xmml::Instance me;
    me.reuse();
    std::ofstream out(report);
    out << "{";
    for (std::size_t at = 0; at < sizes.size(); ++at) {
        const std::vector<std::uint8_t> payload(sizes[at], 1);
        std::vector<double> trips;
        const auto once = [&] {
            me.send("call", xmml::array(payload.data(), {payload.size()}));
            me.receive("answer");
        };
        for (std::size_t turn = 0; turn < warming; ++turn) once();
        const auto begin = Clock::now();
        while (trips.size() < fewest || seconds_since(begin) < seconds) {
            const auto sent = Clock::now();
            once();
            trips.push_back(seconds_since(sent));
        }
        std::sort(trips.begin(), trips.end());
        out << (at ? ",\n " : "") << "\"" << sizes[at] << "\": {\"median_s\": " << trips[trips.size() / 2]
            << ", \"p99_s\": " << trips[trips.size() * 99 / 100] << ", \"trips\": " << trips.size() << "}";
    }
    out << "}\n";
    me.leave();
}

// Sends back as many bytes as came.
void pong() {
    xmml::Instance me;
    me.reuse();
    std::vector<std::uint8_t> payload;
    while (const auto message = me.receive_or_end("call")) {
        payload.resize(message->array<std::uint8_t>().size(), 2);
        me.send("answer", xmml::array(payload.data(), {payload.size()}));
    }
    me.leave();
}

void source(std::size_t bytes, double seconds) {
    xmml::Instance me;
    const std::vector<std::uint8_t> payload(bytes, 1);
    me.reuse();
    for (const auto begin = Clock::now(); seconds_since(begin) < seconds;)
        me.send("bulk", xmml::array(payload.data(), {payload.size()}));
    me.leave();
}

// What came, and the longest time without a message, from some seconds behind the first one to the last one.
void sink(double warm, const char* report) {
    xmml::Instance me;
    me.reuse();
    std::size_t bytes = 0;
    double longest = 0, last = 0, from = -1;
    const auto take = [&] { return me.receive_or_end("bulk"); };
    auto message = take();
    const auto begin = Clock::now();
    for (; message; message = take()) {
        const double now = seconds_since(begin);
        const std::size_t size = message->array<std::uint8_t>().size();
        message.reset();  // its memory may serve the next one
        if (from >= 0) {
            bytes += size;
            longest = std::max(longest, now - last);
        } else if (now >= warm) {
            from = now;
        }
        last = now;
    }
    std::ofstream(report) << "{\"bytes\": " << bytes << ", \"seconds\": " << (from < 0 ? 0 : last - from)
                          << ", \"longest_gap_s\": " << longest << "}\n";
    me.leave();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string role = argc > 1 ? argv[1] : "";
    const auto number = [&](int at) { return static_cast<std::size_t>(std::atoll(argv[at])); };
    if (role == "ping" && argc > 4) {
        std::vector<std::size_t> sizes;
        for (int at = 4; at < argc; ++at) sizes.push_back(number(at));
        ping(std::atof(argv[2]), argv[3], sizes);
    } else if (role == "pong" && argc == 2) pong();
    else if (role == "source" && argc == 4) source(number(2), std::atof(argv[3]));
    else if (role == "sink" && argc == 4) sink(std::atof(argv[2]), argv[3]);
    else return 2;
    return 0;
}
