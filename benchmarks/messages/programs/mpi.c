/* Two MPI ranks. */
#include "ends.h"

#include <mpi.h>

static void send_to_peer(void* peer, const double* data, size_t bytes) {
    MPI_Send(data, (int)bytes, MPI_BYTE, *(int*)peer, 0, MPI_COMM_WORLD);
}

static const double* receive_from_peer(void* peer, double* room, size_t bytes) {
    MPI_Recv(room, (int)bytes, MPI_BYTE, *(int*)peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return room;
}

int main(int argc, char** argv) {
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    bench_pin(rank);
    int peer = 1 - rank;
    bench_run(bench_end(rank), (struct bench_link){&peer, send_to_peer, receive_from_peer, NULL});
    MPI_Finalize();
    return 0;
}
