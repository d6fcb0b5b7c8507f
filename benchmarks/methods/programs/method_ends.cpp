// The instances of the benchmark of methods: method_ends ping BYTES COUNT REPORT, pong BYTES COUNT, idle COUNT,
// source BYTES COUNT, sink COUNT REPORT
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include <xmml.hpp>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void write_report(const char* file, std::vector<double> times, double total) {
    std::sort(times.begin(), times.end());
    std::ofstream(file) << "{\"median_s\": " << times[times.size() / 2]
                        << ", \"p99_s\": " << times[times.size() * 99 / 100] << ", \"longest_s\": " << times.back()
                        << ", \"total_s\": " << total << "}\n";
}

// There and back, again and again, while idle conduits are attached; writes the times of the round trips.
void ping(std::size_t bytes, std::size_t count, const char* report) {
    xmml::Instance me;
    const std::vector<std::uint8_t> payload(bytes, 1);
    me.reuse();
    // A message from each idle partner: from here on their connections stand, and nothing comes on them.
    for (std::uint32_t copy = 0; copy < me.copies("idle"); ++copy) me.receive_of("idle", copy);
    std::vector<double> trips(count);
    const auto begin = Clock::now();
    for (auto& trip : trips) {
        const auto sent = Clock::now();
        me.send("call", xmml::array(payload.data(), {bytes}));
        me.receive("answer");
        trip = seconds_since(sent);
    }
    write_report(report, std::move(trips), seconds_since(begin));
    me.leave();
}

void pong(std::size_t bytes, std::size_t count) {
    xmml::Instance me;
    const std::vector<std::uint8_t> payload(bytes, 2);
    me.reuse();
    for (std::size_t turn = 0; turn < count; ++turn) {
        me.receive("call");
        me.send("answer", xmml::array(payload.data(), {bytes}));
    }
    me.leave();
}

// Messages as fast as they go.
void source(std::size_t bytes, std::size_t count) {
    xmml::Instance me;
    const std::vector<std::uint8_t> payload(bytes, 3);
    me.reuse();
    for (std::size_t turn = 0; turn < count; ++turn) me.send("stream", xmml::array(payload.data(), {bytes}));
    me.leave();
}

// Takes them; writes the times from one to the next.
void sink(std::size_t count, const char* report) {
    xmml::Instance me;
    me.reuse();
    me.receive("stream");
    std::vector<double> times(count - 1);
    const auto begin = Clock::now();
    auto before = begin;
    for (auto& time : times) {
        me.receive("stream");
        const auto now = Clock::now();
        time = std::chrono::duration<double>(now - before).count();
        before = now;
    }
    write_report(report, std::move(times), seconds_since(begin));
    me.leave();
}

// Instances that say one word and then wait for the end, all in this process.
void idle(std::size_t count) {
    std::vector<std::unique_ptr<xmml::Instance>> all;
    for (std::size_t copy = 0; copy < count; ++copy) {
        setenv("XMML_INSTANCE", ("idle[" + std::to_string(copy) + "]").c_str(), 1);
        all.push_back(std::make_unique<xmml::Instance>());
        all.back()->reuse();
        all.back()->send("word", nullptr);
    }
    for (auto& me : all) {
        while (me->receive_or_end("end")) {
        }
        me->leave();
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string role = argc > 1 ? argv[1] : "";
    const auto number = [&](int at) { return static_cast<std::size_t>(std::atoll(argv[at])); };
    if (role == "ping" && argc == 5) ping(number(2), number(3), argv[4]);
    else if (role == "pong" && argc == 4) pong(number(2), number(3));
    else if (role == "idle" && argc == 3) idle(number(2));
    else if (role == "source" && argc == 4) source(number(2), number(3));
    else if (role == "sink" && argc == 4) sink(number(2), argv[3]);
    else return 2;
    return 0;
}
