! Adds up what it receives in each step; the message that takes the next one frees it.
program many_taken
    use, intrinsic :: iso_fortran_env, only: real64
    use xmml
    implicit none
    type(xmml_instance) :: me
    type(xmml_message) :: message
    real(real64), pointer :: field(:)
    real(real64) :: t, total

    call me%join()
    do while (me%reuse())
        total = 0
        do while (me%step(t))
            call me%receive("in", message)
            call message%view(field)
            total = total + sum(field)
        end do
        print "(a, f0.1)", "sum ", total
    end do
    call message%free()
    call me%leave()
end program
