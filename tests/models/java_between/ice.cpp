// Melts: answers each matrix with one of the same shape, element (i, j) of which is i + 0.5 j, in row-major order.
#include <xmml.hpp>

int main() {
    xmml::Instance me;
    while (me.reuse()) {
        const auto heat = me.receive("heat").array<double>(2);
        if (heat(2, 0) < heat(0, 1)) throw std::runtime_error("the matrix is transposed");
        std::vector<double> melted;
        for (std::size_t i = 0; i < heat.extent(0); ++i)
            for (std::size_t j = 0; j < heat.extent(1); ++j)
                melted.push_back(static_cast<double>(i) + 0.5 * static_cast<double>(j));
        for ([[maybe_unused]] double t : me.steps()) {
        }
        me.send("melted", xmml::array(melted.data(), heat.shape()));
    }
}
