// Describes every array it receives, as long as there are any.
#include <xmml.hpp>

#include <algorithm>
#include <cstdio>

int main() {
    xmml::Instance me;
    while (const auto message = me.receive_or_end("data")) {
        const auto numbers = message->array<double>();
        const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
        std::printf("Length: %zu; min: %f; max: %f\n", numbers.size(), *least, *most);
    }
}
