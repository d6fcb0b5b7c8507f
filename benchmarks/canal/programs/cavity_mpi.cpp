// The cavity as one MPI program on two ranks.
#include <mpi.h>

#include <vector>

#include "time_loop.hpp"

namespace {

struct Halo {
    cavity::Side side;
    int neighbour;
    std::vector<double> out, in;
    MPI_Request requests[2]{};

    void begin(const cavity::Slab& slab) {
        const int count = int(out.size());
        MPI_Irecv(in.data(), count, MPI_DOUBLE, neighbour, 0, MPI_COMM_WORLD, &requests[0]);
        slab.leaving(side, out.data());
        MPI_Isend(out.data(), count, MPI_DOUBLE, neighbour, 0, MPI_COMM_WORLD, &requests[1]);
    }

    void finish(cavity::Slab& slab) {
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        slab.entering(side, in.data());
    }
};

}  // namespace

int main(int argc, char** argv) {
    int rank = 0, ranks = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        std::fprintf(stderr, "this is for two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bench::pin(rank);
    cavity::Slab slab = bench::half_of_cube(rank);
    Halo halo{rank == 0 ? cavity::Side::high : cavity::Side::low, 1 - rank, std::vector<double>(slab.crossing()),
              std::vector<double>(slab.crossing())};
    bench::run(rank, slab, halo);
    MPI_Finalize();
}
