// Says where the array lies that it has received, and what its memory is made of.
#include <fstream>
#include <iostream>
#include <xmml.hpp>

int main() {
    xmml::Instance me;
    while (me.reuse()) {
        const auto message = me.receive("in");
        const auto view = message.array<double>(1);
        double sum = 0;
        for (double each : view) sum += each;
        std::cout << "sum " << sum << "\naddress " << reinterpret_cast<std::uintptr_t>(view.data()) << '\n'
                  << std::ifstream("/proc/self/maps").rdbuf();
    }
}
