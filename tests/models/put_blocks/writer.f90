! The same in Fortran.
program writer
    use, intrinsic :: iso_fortran_env, only: int64
    use mpi
    use xmml
    use xmml_mpi
    implicit none
    type(xmml_instance) :: me
    type(xmml_out_port) :: fields
    integer(int64) :: block(2, 2)
    integer :: i, j, readers, error

    call MPI_Init(error)
    call xmml_join_mpi(me, MPI_COMM_WORLD)
    fields = me%out("fields")
    do j = 1, 2
        do i = 1, 2
            block(i, j) = 10 * (i - 1) + 2 * me%rank() + j - 1
        end do
    end do
    do while (me%reuse())
        call me%put("fields", block, "step=1", readers=readers, whole=[2, 4])
        if (readers /= 1) error stop "no reader"
        call fields%put(block, "step=2", whole=[2, 4])
        call me%group_begin("fields", "step=3")
        call me%put("fields", block, whole=[2, 4])
        call me%group_end("fields")
    end do
    call me%leave()
    call MPI_Finalize(error)
end program
