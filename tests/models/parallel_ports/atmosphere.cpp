// Blocks in column-major order, as a Fortran program has them.
#include <cstdio>
#include <stdexcept>
#include <xmml_mpi.hpp>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    {
        xmml::mpi::Instance me(MPI_COMM_WORLD);
        me.prefer_order(xmml::Order::column_major);
        const auto out = me.out("wind");
        const auto in = me.in("surface");
        const auto block = out.block();
        const std::size_t rows = block.extent[0];
        std::vector<double> wind(block.size());
        int messages = 0;
        while (me.reuse()) {
            for (double t : me.steps()) {
                for (std::size_t j = 0; j < block.extent[1]; ++j)
                    for (std::size_t i = 0; i < rows; ++i)
                        wind[j * rows + i] = double(block.start[0] + i) - 100.0 * double(block.start[1] + j) + t;
                out.send(xmml::array(wind.data(), block.extent, xmml::Order::column_major));

                const auto surface = in.receive().array<double>(2, xmml::Order::column_major);
                for (std::size_t j = 0; j < block.extent[1]; ++j)
                    for (std::size_t i = 0; i < rows; ++i)
                        if (surface.data()[j * rows + i] !=
                            10.0 * double(block.start[0] + i) + double(block.start[1] + j) + 1000.0 * t)
                            throw std::runtime_error("not the surface that was sent");
                ++messages;
            }
        }
        if (me.rank() == 0) std::printf("%u ranks, %d steps\n", me.ranks(), messages);
    }
    MPI_Finalize();
}
