! What happens when a call does not succeed.
module xmml_errors
    use, intrinsic :: iso_fortran_env, only: error_unit, output_unit
    use xmml_c
    implicit none
    private
    public :: conclude, last_error, note_joined, note_left

    ! The instance that is told why the program ends.
    type(c_ptr), save :: joined = c_null_ptr

contains

    ! The last step of every procedure. A program that asked for `status` or `message` gets them and decides; for another one an error
    ! is the end, and outcomes that are no errors are nothing special. (The message has the length that the program chose, as in Fortran's
    ! own iomsg: gfortran 12 loses the length of an optional character(:), allocatable that is handed on.)
    subroutine conclude(code, status, message, text)
        integer(c_int), intent(in) :: code
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        character(*), intent(in), optional :: text ! default: what the library says
        character(:), allocatable :: said
        if (present(status)) status = int(code)
        if (code == XMML_OK) then
            if (present(message)) message = ""
            return
        end if
        if (present(text)) then
            said = text
        else
            said = last_error()
        end if
        if (present(message)) then
            message = said
        else if (code < 0 .and. .not. present(status)) then
            call give_up(code, said)
        end if
    end subroutine

    ! What the library has to say about this thread's last call that did not succeed.
    function last_error() result(text)
        character(:), allocatable :: text
        text = c_text(c_error())
    end function

    ! Tells the run why this instance failed, unless the run knows more than we do; tells people; ends the program.
    subroutine give_up(code, text)
        integer(c_int), intent(in) :: code
        character(*), intent(in) :: text
        integer(c_int) :: ignored
        if (c_associated(joined) .and. code /= XMML_ERROR_ABORTED) ignored = c_fail(joined, c_string(text))
        flush(output_unit)
        write(error_unit, "(a)") text
        flush(error_unit)
        call c_exit(1_c_int)
    end subroutine

    subroutine note_joined(me)
        type(c_ptr), intent(in) :: me
        joined = me
    end subroutine

    subroutine note_left(me)
        type(c_ptr), intent(in) :: me
        if (c_associated(joined, me)) joined = c_null_ptr
    end subroutine
end module
