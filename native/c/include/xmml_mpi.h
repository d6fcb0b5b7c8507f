/*
 * xMML for MPI programs in C and C++: all ranks of a communicator join the run together.
 *
 *     MPI_Init(&argc, &argv);
 *     xmml_instance *me;
 *     if (xmml_join_mpi(MPI_COMM_WORLD, &me) != XMML_OK) { fprintf(stderr, "%s\n", xmml_error()); MPI_Abort(MPI_COMM_WORLD, 1); }
 *     while (xmml_reuse(me, &again) == XMML_OK && again) {
 *         while (xmml_step(me, &t) == XMML_OK) {
 *             xmml_send_array(me, "field", XMML_F64, 2, extent, block);      run:decomp: each rank its block
 *             xmml_receive(me, "inlet", &message);                           an ordinary port: every rank has the message
 *         }
 *     }
 *     xmml_leave(&me);
 *     MPI_Finalize();
 *
 * xmml_team.h says what the ranks do together and what each does for itself. libxmml knows nothing of MPI: all of it is here, compiled
 * with the program's own MPI (mpicc program.c $(xmml-config --cflags --libs)). Calls of xMML call MPI in the same thread, so a
 * program whose threads call xMML needs the thread support that MPI asks for that.
 */
#ifndef XMML_MPI_H
#define XMML_MPI_H

/* Not the C++ interface of old versions of MPI, which only makes compilers warn. */
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include <xmml_team.h>

/* The communicator that carries what xMML says, apart from the messages of the program. It is given back by MPI_Finalize: MPI_Comm_free
   concerns all ranks, and one that fails must not wait for the others. */
typedef struct xmml_mpi_context {
    MPI_Comm comm;
    char problem[MPI_MAX_ERROR_STRING + 1];
} xmml_mpi_context;

enum { XMML_MPI_TAG = 1 };

/* MPI counts in int: longer data travel in pieces of 1 GiB. */
#ifndef XMML_MPI_PIECE
#define XMML_MPI_PIECE ((size_t)1 << 30)
#endif

static inline const char *xmml_mpi_answer(xmml_mpi_context *mpi, int code)
{
    int length = 0;
    if (code == MPI_SUCCESS) return NULL;
    if (MPI_Error_string(code, mpi->problem, &length) != MPI_SUCCESS) strcpy(mpi->problem, "MPI failed");
    return mpi->problem;
}

static inline const char *xmml_mpi_broadcast(void *context, void *data, size_t size)
{
    xmml_mpi_context *mpi = (xmml_mpi_context *)context;
    char *bytes = (char *)data;
    int code = MPI_SUCCESS;
    while (size > 0 && code == MPI_SUCCESS) {
        size_t piece = size < XMML_MPI_PIECE ? size : XMML_MPI_PIECE;
        code = MPI_Bcast(bytes, (int)piece, MPI_BYTE, 0, mpi->comm);
        bytes += piece;
        size -= piece;
    }
    return xmml_mpi_answer(mpi, code);
}

/* MPI_Bcast takes a pointer that is not const, but only reads on rank 0. */
static inline const char *xmml_mpi_give(void *context, const void *data, size_t size)
{
    return xmml_mpi_broadcast(context, (void *)data, size);
}

static inline const char *xmml_mpi_deliver(void *context, const void *data, size_t size)
{
    xmml_mpi_context *mpi = (xmml_mpi_context *)context;
    const char *bytes = (const char *)data;
    int code = MPI_SUCCESS;
    while (size > 0 && code == MPI_SUCCESS) {
        size_t piece = size < XMML_MPI_PIECE ? size : XMML_MPI_PIECE;
        code = MPI_Send(bytes, (int)piece, MPI_BYTE, 0, XMML_MPI_TAG, mpi->comm);
        bytes += piece;
        size -= piece;
    }
    return xmml_mpi_answer(mpi, code);
}

static inline const char *xmml_mpi_collect(void *context, uint32_t from, void *data, size_t size)
{
    xmml_mpi_context *mpi = (xmml_mpi_context *)context;
    char *bytes = (char *)data;
    int code = MPI_SUCCESS;
    while (size > 0 && code == MPI_SUCCESS) {
        size_t piece = size < XMML_MPI_PIECE ? size : XMML_MPI_PIECE;
        code = MPI_Recv(bytes, (int)piece, MPI_BYTE, (int)from, XMML_MPI_TAG, mpi->comm, MPI_STATUS_IGNORE);
        bytes += piece;
        size -= piece;
    }
    return xmml_mpi_answer(mpi, code);
}

static inline void xmml_mpi_release(void *context)
{
    free(context);
}

/* For language APIs: xmml_join_mpi with the language of the program. */
static inline xmml_status xmml_join_mpi_as(MPI_Comm comm, xmml_instance **me, const char *language)
{
    xmml_team team;
    int rank = 0, size = 1;
    xmml_mpi_context *mpi = (xmml_mpi_context *)calloc(1, sizeof *mpi);
    if (me == NULL || mpi == NULL || MPI_Comm_dup(comm, &mpi->comm) != MPI_SUCCESS) {
        free(mpi);
        return XMML_ERROR_USAGE;
    }
    MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi->comm, &rank);
    MPI_Comm_size(mpi->comm, &size);
    team.context = mpi;
    team.rank = (uint32_t)rank;
    team.size = (uint32_t)size;
    team.give = xmml_mpi_give;
    team.take = xmml_mpi_broadcast;
    team.deliver = xmml_mpi_deliver;
    team.collect = xmml_mpi_collect;
    team.release = xmml_mpi_release;
    return (xmml_join_team)(me, &team, language);
}

/* Joins the run with all ranks of the communicator; every rank calls this, after MPI_Init. */
static inline xmml_status xmml_join_mpi(MPI_Comm comm, xmml_instance **me)
{
    return xmml_join_mpi_as(comm, me, "c");
}

#endif
