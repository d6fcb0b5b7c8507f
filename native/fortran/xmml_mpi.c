/* The one thing that Fortran cannot do for itself: turning its handle of a communicator into C's. */
#define XMML_NO_CALL_SITES
#include <xmml_mpi.h>

xmml_status xmml_join_mpi_fortran(MPI_Fint comm, xmml_instance **me);

xmml_status xmml_join_mpi_fortran(MPI_Fint comm, xmml_instance **me)
{
    xmml_status status = xmml_join_mpi_as(MPI_Comm_f2c(comm), me, "fortran");
    if (status == XMML_OK) xmml_prefer_order(*me, XMML_COLUMN_MAJOR);
    return status;
}
