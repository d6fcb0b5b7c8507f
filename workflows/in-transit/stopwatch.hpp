// How long the solver took, by the clock and in processor time, said in one line.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <ctime>

class Stopwatch {
public:
    explicit Stopwatch(MPI_Comm comm) : comm_(comm) {}

    /// Says what has passed since the stopwatch was made. All ranks call it; rank 0 says it for all.
    void report(long steps) const {
        const double elapsed = MPI_Wtime() - began_;
        double processor = double(std::clock() - processor_began_) / CLOCKS_PER_SEC, total = 0;
        MPI_Reduce(&processor, &total, 1, MPI_DOUBLE, MPI_SUM, 0, comm_);
        int rank;
        MPI_Comm_rank(comm_, &rank);
        if (rank == 0) std::printf("%ld time steps in %.3f s, processor time %.3f s\n", steps, elapsed, total);
    }

private:
    MPI_Comm comm_;
    double began_ = MPI_Wtime();
    std::clock_t processor_began_ = std::clock();
};
