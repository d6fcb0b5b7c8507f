/* The same in C: each rank its block, rank 0 alone the notes. */
#include <mpi.h>
#include <stdio.h>
#include <xmml_mpi.h>

static void check(xmml_status status)
{
    if (status >= 0) return;
    fprintf(stderr, "%s\n", xmml_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    xmml_instance *me;
    check(xmml_join_mpi(MPI_COMM_WORLD, &me));
    const unsigned rank = xmml_rank(me);
    const size_t extent[] = {1 + rank / 2, 2 + rank % 2};
    int64_t block[2 * 3];
    for (size_t i = 0; i < extent[0] * extent[1]; ++i) block[i] = rank;

    int again;
    while (check(xmml_reuse(me, &again)), again) {
        double t;
        xmml_message *start;
        check(xmml_receive(me, "start", &start));
        xmml_message_free(start);
        while (xmml_step(me, &t) == XMML_OK) continue;
        check(xmml_send_gathered(me, "blocks", "block(0:2,1:2)", XMML_I64, XMML_ROW_MAJOR, 2, extent, block));
        check(xmml_send_nothing(me, "notes"));
    }
    check(xmml_leave(&me));
    MPI_Finalize();
    return 0;
}
