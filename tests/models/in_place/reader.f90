! Says where the array lies that it has received, and what its memory is made of.
program reader
    use, intrinsic :: iso_c_binding, only: c_loc, c_intptr_t
    use, intrinsic :: iso_fortran_env, only: real64
    use xmml
    implicit none
    type(xmml_instance) :: me
    type(xmml_message) :: message
    real(real64), pointer :: field(:)
    character(1000) :: line
    integer :: maps, status

    call me%join()
    do while (me%reuse())
        call me%receive("in", message)
        call message%view(field)
        print "(a, f0.1)", "sum ", sum(field)
        print "(a, i0)", "address ", transfer(c_loc(field(1)), 0_c_intptr_t)
        open(newunit=maps, file="/proc/self/maps", action="read")
        do
            read(maps, "(a)", iostat=status) line
            if (status /= 0) exit
            print "(a)", trim(line)
        end do
        close(maps)
    end do
    call message%free()
    call me%leave()
end program
