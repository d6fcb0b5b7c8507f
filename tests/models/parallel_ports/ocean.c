/* Every rank sends its block of f(x, y, t), and checks the block of the wind and the level that all ranks receive. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <xmml_mpi.h>

static void check(xmml_status status)
{
    if (status == XMML_OK) return;
    fprintf(stderr, "%s\n", xmml_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void expect(int truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "not as expected: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    xmml_instance *me;
    xmml_message *message;
    xmml_array wind;
    xmml_block block;
    double t, factor, level;
    int again, messages = 0, all = 0;

    MPI_Init(&argc, &argv);
    check(xmml_join_mpi(MPI_COMM_WORLD, &me));
    check(xmml_param_double(me, "factor", NULL, &factor));
    check(xmml_block_of(me, "surface", 0, NULL, &block));
    const size_t size = block.extent[0] * block.extent[1];
    double *surface = malloc(size * sizeof *surface);

    while (xmml_reuse(me, &again) == XMML_OK && again) {
        while (xmml_step(me, &t) == XMML_OK) {
            for (size_t i = 0; i < block.extent[0]; ++i)
                for (size_t j = 0; j < block.extent[1]; ++j)
                    surface[i * block.extent[1] + j] =
                        factor * (double)(block.start[0] + i) + (double)(block.start[1] + j) + 1000.0 * t;
            check(xmml_send_array(me, "surface", XMML_F64, 2, block.extent, surface));

            check(xmml_receive(me, "wind", &message));
            check(xmml_message_array(message, XMML_F64, 2, &wind));
            expect(wind.shape[0] == block.extent[0] && wind.shape[1] == block.extent[1], "the shape of the wind");
            for (size_t i = 0; i < block.extent[0]; ++i)
                for (size_t j = 0; j < block.extent[1]; ++j) {
                    double expected = (double)(block.start[0] + i) - 100.0 * (double)(block.start[1] + j) + t;
                    expect(((const double *)wind.data)[i * block.extent[1] + j] == expected, "the wind");
                }
            xmml_message_free(message);

            check(xmml_receive(me, "level", &message));
            check(xmml_message_double(message, &level));
            expect(level == t / 2, "the level");
            xmml_message_free(message);
            ++messages;
        }
    }
    MPI_Reduce(&messages, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (xmml_rank(me) == 0) printf("%u ranks received %d blocks of wind\n", xmml_ranks(me), all);
    free(surface);
    check(xmml_leave(&me));
    MPI_Finalize();
    return 0;
}
