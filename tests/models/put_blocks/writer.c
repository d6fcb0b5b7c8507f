/* The same in C: an array, and a value. */
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
    const size_t extent[] = {2, 2}, whole[] = {2, 4};
    int64_t block[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) block[i][j] = 10 * i + 2 * (int)xmml_rank(me) + j;

    int again;
    while (check(xmml_reuse(me, &again)), again) {
        uint64_t readers = 0;
        check(xmml_put_block(me, "fields", XMML_I64, XMML_ROW_MAJOR, 2, extent, whole, block, "step=1", &readers));
        if (readers != 1) fprintf(stderr, "%u readers\n", (unsigned)readers);
        xmml_value *value = xmml_value_array(XMML_I64, 2, extent, block);
        check(xmml_put_value_block(me, "fields", value, 2, whole, "step=2", NULL));
        check(xmml_group_begin(me, "fields", "step=3"));
        check(xmml_put_value_block(me, "fields", value, 2, whole, NULL, NULL));
        check(xmml_group_end(me, "fields", NULL));
        xmml_value_free(value);
    }
    check(xmml_leave(&me));
    MPI_Finalize();
    return 0;
}
