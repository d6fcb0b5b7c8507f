// What the ends of all peers in C and C++ have in common: what is written and read, when it begins, what is reported.
// The same as ends.py for Python. The environment says what the case is; cases.py and peers.py explain it.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace bench {

inline void check(bool is_good, const char* what) {
    if (is_good) return;
    std::perror(what);
    std::_Exit(1);
}

inline std::string text(const char* name) {
    const char* value = std::getenv(name);
    check(value != nullptr, name);
    return value;
}

inline long setting(const char* name) { return std::atol(text(name).c_str()); }

inline double seconds(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double now() { return seconds(CLOCK_MONOTONIC); }
inline double processor() { return seconds(CLOCK_PROCESS_CPUTIME_ID); }

const long COUNT = setting("BENCH_COUNT"), SIZE_B = setting("BENCH_SIZE_B"), PAIRS = setting("BENCH_PAIRS");
const long PARAMS = setting("BENCH_PARAMS"), WANTED = setting("BENCH_WANTED");
const bool IS_FLUSHED = setting("BENCH_FLUSHED") != 0, IS_COPIED = setting("BENCH_COPIED") != 0;
const std::size_t ELEMENTS = static_cast<std::size_t>(SIZE_B) / sizeof(double);
constexpr int PASSES = 2;
// How many objects of a writer its reader wants.
const long EXPECTED = COUNT / PARAMS * WANTED + (COUNT % PARAMS < WANTED ? COUNT % PARAMS : WANTED);

// With eight sums at once, as numpy has them: one alone would wait for each addition.
inline double sum(const double* values, std::size_t count) {
    double sums[8] = {};
    std::size_t at = 0;
    for (; at + 8 <= count; at += 8)
        for (int lane = 0; lane < 8; lane++) sums[lane] += values[at + static_cast<std::size_t>(lane)];
    for (; at < count; at++) sums[0] += values[at];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// The line to the benchmark, which lets all ends begin a pass together.
class End {
public:
    End() : line(socket(AF_UNIX, SOCK_STREAM, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, text("BENCH_CONDUCTOR").c_str(), sizeof address.sun_path - 1);
        check(connect(line, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "conductor");
    }

    double meet() {
        say("\n");
        return now();
    }

    void say(const std::string& words) {
        char go = 0;
        check(::write(line, words.data(), words.size()) == static_cast<ssize_t>(words.size()), "conductor");
        check(::read(line, &go, 1) == 1, "conductor");
    }

private:
    int line;
};

// Writes the objects of each pass. `put` has the index of the object and its payload; `flush` sends what waits.
template <typename Put, typename Flush>
void write(Put put, Flush flush) {
    const std::vector<double> field(ELEMENTS, 1.0);
    End end;
    double begin = 0, used = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        begin = end.meet();
        used = processor();
        for (long index = 0; index < COUNT; index++) put(index, field.data());
        flush();
        used = processor() - used;
    }
    char words[200];
    std::snprintf(words, sizeof words, "{\"begin\": %.9f, \"end\": %.9f, \"processor_s\": %.9f}\n", begin, now(), used);
    end.say(words);
}

// Reads the objects of each pass. `take` calls what it is given with the step and the payload of the next one.
template <typename Take>
void read(Take take) {
    std::vector<double> own(ELEMENTS);
    End end;
    double total = 0, finished = 0, used = 0;
    long count = 0, steps = 0;
    const auto look = [&](long step, const double* field) {
        count += 1;
        steps += step;
        if (IS_COPIED) {
            std::memcpy(own.data(), field, ELEMENTS * sizeof *field);
            total += own[ELEMENTS - 1];
        } else {
            total += sum(field, ELEMENTS);
        }
    };
    for (int pass = 0; pass < PASSES; pass++) {
        total = 0;
        count = steps = 0;
        end.meet();
        used = processor();
        while (count < EXPECTED) take(look);
        finished = now();
        used = processor() - used;
    }
    char words[200];
    std::snprintf(words, sizeof words,
                  "{\"end\": %.9f, \"processor_s\": %.9f, \"count\": %ld, \"steps\": %ld, \"total\": %.1f}\n", finished,
                  used, count, steps, total);
    end.say(words);
}

}  // namespace bench
