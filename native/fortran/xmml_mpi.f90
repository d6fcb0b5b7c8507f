! xMML for MPI programs in Fortran: all ranks of a communicator join the run together. docs/fortran.md explains it.
module xmml_mpi
    use xmml_c
    use xmml_errors
    use xmml_instances
    implicit none
    private
    public :: xmml_join_mpi

    interface
        ! In xmml_mpi.c.
        function c_join_mpi(comm, me) bind(c, name="xmml_join_mpi_fortran") result(given)
            import
            integer, value :: comm ! an MPI_Fint is a default integer
            type(c_ptr), intent(inout) :: me
            integer(c_int) :: given
        end function
    end interface

contains

    ! Joins the run with all ranks of the communicator; every rank calls this, after MPI_Init. With mpi_f08, give comm%MPI_VAL.
    subroutine xmml_join_mpi(me, comm, status, message)
        type(xmml_instance), intent(inout) :: me
        integer, intent(in) :: comm
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: joined
        integer(c_int) :: code
        joined = c_null_ptr
        code = c_join_mpi(comm, joined)
        if (code == XMML_OK) call me%adopt(joined)
        call conclude(code, status, message)
    end subroutine
end module
