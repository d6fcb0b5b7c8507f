// Adds up what it receives in each step, and drops it.
#include <iostream>
#include <xmml.hpp>

int main() {
    xmml::Instance me;
    while (me.reuse()) {
        double sum = 0;
        for ([[maybe_unused]] double t : me.steps()) {
            const auto message = me.receive("in");
            for (double each : message.array<double>(1)) sum += each;
        }
        std::cout << "sum " << sum << '\n';
    }
}
