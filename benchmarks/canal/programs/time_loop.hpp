// What both programs of the benchmark do: half of a cubic cavity, stepped with the clock running, and a report.
//
// The environment says what to do:
//   BENCH_CELLS     cells along each edge of the cube
//   BENCH_STEPS     steps with the clock running
//   BENCH_WARM_UP   steps before
//   BENCH_CPUS      "0,1": the CPU of each half; empty: wherever the kernel likes
//   BENCH_OUT       folder for west.json or east.json
#ifndef TIME_LOOP_HPP
#define TIME_LOOP_HPP

#include <sched.h>
#include <time.h>

#include <cavity.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace bench {

inline std::string setting(const char* name) {
    const char* text = std::getenv(name);
    if (text == nullptr) throw std::runtime_error(std::string(name) + " is not set; start this through benchmarks/canal/run.py");
    return text;
}

inline long number(const char* name) { return std::stol(setting(name)); }

inline double now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

// Puts this process (and what it starts from now on) on the CPU of its half.
inline void pin(int half) {
    std::istringstream cpus(setting("BENCH_CPUS"));
    std::string cpu;
    for (int i = 0; i <= half; ++i)
        if (!std::getline(cpus, cpu, ',')) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(std::stoi(cpu), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) throw std::runtime_error("cannot move to CPU " + cpu);
}

// Half 0 is the west: layers 0 to n/2; half 1 the east. The Reynolds number is 100.
inline cavity::Slab half_of_cube(int half) {
    const auto n = std::size_t(number("BENCH_CELLS"));
    const cavity::Box box = cavity::Box::of(n, n, n, 0.1, 0.1 * double(n) / 100);
    return half == 0 ? cavity::Slab(box, 0, n / 2) : cavity::Slab(box, n / 2, n - n / 2);
}

// Steps the half. `Exchange` has begin(slab): packs what leaves and hands it over; finish(slab): waits for what comes, and unpacks it.
template <class Exchange>
void run(int half, cavity::Slab& slab, Exchange& exchange) {
    const long steps = number("BENCH_STEPS"), warm_up = number("BENCH_WARM_UP");
    double begin = 0, sending = 0, receiving = 0;
    const double mass = slab.mass();
    for (long i = -warm_up; i < steps; ++i) {
        const double start = now();
        if (i == 0) begin = start, sending = receiving = 0;
        exchange.begin(slab);
        const double sent = now();
        slab.walls();
        const double ready = now();
        exchange.finish(slab);
        const double received = now();
        slab.step();
        sending += sent - start;
        receiving += received - ready;
    }
    const double loop = now() - begin;

    const std::string path = setting("BENCH_OUT") + (half == 0 ? "/west.json" : "/east.json");
    std::FILE* report = std::fopen(path.c_str(), "w");
    if (report == nullptr) throw std::runtime_error("cannot write " + path);
    std::fprintf(report,
                 "{\"loop_s\": %.9g, \"sending_s\": %.9g, \"receiving_s\": %.9g, \"begin\": %.9f, \"mass_before\": %.17g, "
                 "\"mass_after\": %.17g, \"fingerprint\": \"%016" PRIx64 "\"}\n",
                 loop, sending, receiving, begin, mass, slab.mass(), slab.fingerprint());
    std::fclose(report);
}

}  // namespace bench

#endif
