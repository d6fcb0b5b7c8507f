// The same in C++, with blocks in column-major order.
#include <xmml_mpi.hpp>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    {
        xmml::mpi::Instance me(MPI_COMM_WORLD);
        const std::vector<std::size_t> extent{2, 2}, whole{2, 4};
        const std::int64_t first = 2 * me.rank();
        const std::vector<std::int64_t> columns{first, first + 10, first + 1, first + 11};
        const auto block = xmml::array(columns.data(), extent, xmml::Order::column_major);
        while (me.reuse()) {
            me.put_block("fields", block, whole, "step=1");
            me.out("fields").put_block(block, whole, "step=2");
            auto group = me.group("fields", "step=3");
            me.put_block("fields", block, whole);
            group.end();
        }
    }
    MPI_Finalize();
}
