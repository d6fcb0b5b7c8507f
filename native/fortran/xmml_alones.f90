! An instance by itself, for tests.
module xmml_alones
    use, intrinsic :: iso_fortran_env, only: real64
    use xmml_c
    use xmml_errors
    use xmml_values
    use xmml_instances
    implicit none
    private
    public :: xmml_alone

    ! What an instance without a run is made of, for tests: its ports, parameters, steps and the messages that it will receive.
    type :: xmml_alone
        type(c_ptr), private :: pointer = c_null_ptr
    contains
        procedure :: new => alone_new
        procedure :: port => alone_port
        procedure :: param => alone_param
        procedure :: steps => alone_steps
        procedure :: scale => alone_scale
        procedure :: input => alone_input
        procedure :: join => alone_join
        procedure :: free => alone_free
    end type

contains

    subroutine alone_new(self, name, status, message)
        class(xmml_alone), intent(inout) :: self
        character(*), intent(in) :: name
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call self%free()
        self%pointer = c_alone_new(c_string(name))
        call conclude(merge(int(XMML_OK, c_int), int(XMML_ERROR_USAGE, c_int), c_associated(self%pointer)), status, message)
    end subroutine

    ! A port on the operator "finit", "Oi", "S", "B" or "Of"; or "in", "out" for a mapper. Ports not given are not in the model.
    subroutine alone_port(self, port, operator_or_direction, status, message)
        class(xmml_alone), intent(in) :: self
        character(*), intent(in) :: port, operator_or_direction
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_alone_port(self%pointer, c_string(port), c_string(operator_or_direction)), status, message)
    end subroutine

    subroutine alone_param(self, name, text, status, message)
        class(xmml_alone), intent(in) :: self
        character(*), intent(in) :: name, text
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_alone_param(self%pointer, c_string(name), c_string(text)), status, message)
    end subroutine

    subroutine alone_steps(self, steps, delta, status, message)
        class(xmml_alone), intent(in) :: self
        integer, intent(in) :: steps
        real(real64), intent(in) :: delta
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_alone_steps(self%pointer, int(steps, c_int64_t), delta), status, message)
    end subroutine

    ! A scale in space or another dimension, in base units.
    subroutine alone_scale(self, name, delta, total, status, message)
        class(xmml_alone), intent(in) :: self
        character(*), intent(in) :: name
        real(real64), intent(in) :: delta, total
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_alone_scale(self%pointer, c_string(name), delta, total), status, message)
    end subroutine

    ! The next message that the port will deliver; after the last one it has ended. An in port without any is not coupled. Takes the
    ! value over.
    subroutine alone_input(self, port, timestamp, value, status, message)
        class(xmml_alone), intent(in) :: self
        character(*), intent(in) :: port
        real(real64), intent(in) :: timestamp
        class(xmml_value), intent(in) :: value
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: pointer
        pointer = taken_over(value)
        call conclude(c_alone_input(self%pointer, c_string(port), timestamp, pointer), status, message)
        call c_value_free(pointer)
    end subroutine

    ! Makes the instance; what it was made of is gone then.
    subroutine alone_join(self, me, status, message)
        class(xmml_alone), intent(inout) :: self
        type(xmml_instance), intent(inout) :: me
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: joined
        integer(c_int) :: code
        code = c_alone_join(self%pointer, joined)
        if (code == XMML_OK) call me%adopt(joined)
        call conclude(code, status, message)
    end subroutine

    subroutine alone_free(self)
        class(xmml_alone), intent(inout) :: self
        if (c_associated(self%pointer)) call c_alone_free(self%pointer)
        self%pointer = c_null_ptr
    end subroutine
end module
