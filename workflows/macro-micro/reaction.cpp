// Fast reaction of two substances in every cell of a grid, called with the concentrations and released with new ones:
//
//     u + 2v -> 3v        u is fed, v is removed          (Gray and Scott)
//
//     ./reaction --alone      one well-stirred vessel: prints a table, needs no run
#include <xmml.hpp>

#include <cstdio>
#include <cstring>
#include <vector>

struct Rates {
    double feed, kill;  // 1/s
};

void react(double& u, double& v, const Rates& rates, double dt) {
    const double turnover = u * v * v;
    u += dt * (rates.feed * (1.0 - u) - turnover);
    v += dt * (turnover - (rates.feed + rates.kill) * v);
}

int alone() {
    double u = 0.5, v = 0.25;
    std::puts("   t [s]        u        v");
    for (int step = 0; step <= 500; ++step) {
        if (step % 50 == 0) std::printf("%8.1f %8.4f %8.4f\n", 0.2 * step, u, v);
        react(u, v, {0.035, 0.06}, 0.2);
    }
    return 0;
}

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "--alone") == 0) return alone();

    xmml::Instance me;
    const Rates rates{me.param<double>("feed"), me.param<double>("kill")};
    while (me.reuse()) {
        const auto start = me.receive("start").array<double>(3);  // of shape (2, ny, nx): all u, then all v
        const std::size_t cells = start.size() / 2;
        std::vector<double> state = start.to_vector();
        for ([[maybe_unused]] double t : me.steps())
            for (std::size_t i = 0; i < cells; ++i) react(state[i], state[cells + i], rates, me.delta());
        me.send("end", xmml::array(state.data(), {2, start.extent(1), start.extent(2)}));
    }
}
