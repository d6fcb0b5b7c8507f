// Sends a matrix of bytes to itself and prints two corners of what comes back; and its parameters and its folder.
#include <xmml.hpp>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

int main() {
    xmml::Instance me;
    std::printf("greeting: %s\n", me.param<std::string>("greeting").c_str());
    std::printf("folder: %s\n", std::filesystem::current_path().c_str());
    const auto size = std::size_t(me.param<int>("size"));
    std::vector<std::uint8_t> matrix(size * size);
    matrix.front() = 65;
    matrix.back() = 77;
    while (me.reuse())
        for (double t : me.steps()) {
            std::printf("t: %g\n", t);
            me.send("writer", xmml::array(matrix.data(), {size, size}));
            const auto back = me.receive("reader").array<std::uint8_t>();
            std::printf("data in c++ : %d %d\n", back(0, 0), back(size - 1, size - 1));
        }
}
