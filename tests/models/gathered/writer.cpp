// The same in C++, with blocks in column-major order.
#include <xmml_mpi.hpp>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    {
        xmml::mpi::Instance me(MPI_COMM_WORLD);
        const std::vector<std::size_t> extent{1 + me.rank() / 2, 2 + me.rank() % 2};
        const std::vector<std::int64_t> block(extent[0] * extent[1], me.rank());
        const auto blocks = me.out("blocks");
        const auto start = me.in("start");
        while (me.reuse()) {
            start.receive();
            for (double t : me.steps()) static_cast<void>(t);
            blocks.send_gathered(xmml::array(block.data(), extent, xmml::Order::column_major), "block(0:2,1:2)");
            me.send("notes", nullptr);
        }
    }
    MPI_Finalize();
}
