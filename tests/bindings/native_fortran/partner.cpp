// Doubles a matrix that a Fortran program sends, element by element with C++'s indices, and answers in row-major order.
#include <xmml.hpp>

int main() {
    xmml::Instance me;
    while (me.reuse()) {
        const auto a = me.receive("in").array<std::int32_t>(2);
        const std::size_t rows = a.extent(0), columns = a.extent(1);
        std::vector<std::int32_t> answer(rows * columns);
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j) {
                if (a(i, j) != static_cast<int>(10 * (i + 1) + j + 1)) throw std::runtime_error("transposed");
                answer[i * columns + j] = 2 * a(i, j);
            }
        for ([[maybe_unused]] double t : me.steps()) {
        }
        me.send("out", xmml::array(answer.data(), {rows, columns}));
    }
}
