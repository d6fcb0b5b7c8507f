// Sends the numbers 0 to 65535 in every step.
#include <xmml.hpp>

#include <numeric>
#include <vector>

int main() {
    xmml::Instance me;
    std::vector<double> numbers(65536);
    std::iota(numbers.begin(), numbers.end(), 0.0);
    while (me.reuse())
        for ([[maybe_unused]] double t : me.steps()) me.send("data", numbers);
}
