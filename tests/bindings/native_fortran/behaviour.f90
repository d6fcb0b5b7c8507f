! Behaviours: a test program runs the one that its argument names.
module behaviour
    use, intrinsic :: iso_fortran_env, only: error_unit
    implicit none

contains

    subroutine check(condition, what)
        logical, intent(in) :: condition
        character(*), intent(in) :: what
        if (condition) return
        write(error_unit, "(2a)") "not so: ", what
        error stop 1
    end subroutine

    subroutine check_says(message, part)
        character(*), intent(in) :: message, part
        if (index(message, part) > 0) return
        write(error_unit, "(5a)") """", part, """ is not in """, message, """"
        error stop 1
    end subroutine

    function asked_for() result(name)
        character(:), allocatable :: name
        character(200) :: argument
        call get_command_argument(1, argument)
        name = trim(argument)
    end function
end module
