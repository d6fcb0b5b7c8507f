! Prints the numbers that it sees, and polls once before. See ../test_latest.py.
program newest
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use xmml
    implicit none

    type(xmml_instance) :: me
    integer(int64) :: number
    logical :: ended, timed_out

    call me%join()
    do while (me%reuse())
        call me%receive("fields", number, timeout=0.0_real64, timed_out=timed_out)
        if (.not. timed_out) error stop
        call me%send("ready", 1)
        do
            call me%receive("fields", number, ended=ended)
            if (ended) exit
            print "(i0)", number
        end do
    end do
    call me%leave()
end program
