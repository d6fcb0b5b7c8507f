/* Four ranks: in every step each contributes rank + step, and rank 0, which alone talks to the run, sends them all. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <xmml.h>

static void check(xmml_status status)
{
    if (status == XMML_OK) return;
    fprintf(stderr, "%s\n", xmml_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    xmml_instance *me = NULL;
    int rank, ranks, going = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double *all = malloc(ranks * sizeof *all);

    if (rank == 0) {
        check(xmml_join(&me));
        check(xmml_reuse(me, &going));
    }
    for (int step = 0;; ++step) {
        double t, mine = rank + step;
        if (rank == 0) going = xmml_step(me, &t) == XMML_OK;
        MPI_Bcast(&going, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!going) break;
        MPI_Gather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            size_t shape[] = {ranks};
            check(xmml_send_array(me, "data", XMML_F64, 1, shape, all));
        }
    }
    if (rank == 0) check(xmml_leave(&me));
    free(all);
    MPI_Finalize();
    return 0;
}
