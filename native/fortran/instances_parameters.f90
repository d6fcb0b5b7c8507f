    ! ------------------------------------------------------------------------------------------------------------ parameters

    logical function has_param(me, name)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        has_param = c_has_param(me%pointer, c_string(name)) /= 0
    end function

    ! Whether a parameter takes the default, because there is one and the model does not set it.
    logical function takes_default(me, name, has_default)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        logical, intent(in) :: has_default
        takes_default = has_default
        if (has_default) takes_default = .not. me%has_param(name)
    end function

    subroutine param_real64(me, name, value, unit, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        real(real64), intent(inout) :: value
        character(*), intent(in), optional :: unit
        real(real64), intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        if (present(default)) value = default
        if (takes_default(me, name, present(default))) then
            call conclude(int(XMML_OK, c_int), status, message)
        else if (present(unit)) then
            call with_unit(c_string(unit))
        else
            call conclude(c_param_double(me%pointer, c_string(name), c_null_ptr, value), status, message)
        end if
    contains
        subroutine with_unit(text)
            character(*), intent(in), target :: text
            call conclude(c_param_double(me%pointer, c_string(name), c_loc(text), value), status, message)
        end subroutine
    end subroutine

    subroutine param_real32(me, name, value, unit, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        real(real32), intent(inout) :: value
        character(*), intent(in), optional :: unit
        real(real32), intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        real(real64) :: wide
        wide = value
        if (present(default)) then
            call me%param(name, wide, unit, real(default, real64), status, message)
        else
            call me%param(name, wide, unit, status=status, message=message)
        end if
        value = real(wide, real32)
    end subroutine

    subroutine param_int64(me, name, value, unit, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        integer(int64), intent(inout) :: value
        character(*), intent(in), optional :: unit
        integer(int64), intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        if (present(default)) value = default
        if (takes_default(me, name, present(default))) then
            call conclude(int(XMML_OK, c_int), status, message)
        else if (present(unit)) then
            call with_unit(c_string(unit))
        else
            call conclude(c_param_int(me%pointer, c_string(name), c_null_ptr, value), status, message)
        end if
    contains
        subroutine with_unit(text)
            character(*), intent(in), target :: text
            call conclude(c_param_int(me%pointer, c_string(name), c_loc(text), value), status, message)
        end subroutine
    end subroutine

    subroutine param_int32(me, name, value, unit, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        integer(int32), intent(inout) :: value
        character(*), intent(in), optional :: unit
        integer(int32), intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(int64) :: wide
        character(20) :: digits
        wide = value
        if (present(default)) then
            call me%param(name, wide, unit, int(default, int64), status, message)
        else
            call me%param(name, wide, unit, status=status, message=message)
        end if
        if (abs(wide) > huge(value)) then
            write(digits, "(i0)") wide
            call conclude(int(XMML_ERROR_PARAMETER, c_int), status, message, me%name() // ': parameter "' // trim(name) // &
                          '": ' // trim(digits) // " does not fit into an integer of 32 bits; use an integer(int64)")
        else
            value = int(wide, int32)
        end if
    end subroutine

    subroutine param_logical(me, name, value, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        logical, intent(inout) :: value
        logical, intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: truth, code
        if (present(default)) value = default
        if (takes_default(me, name, present(default))) then
            code = XMML_OK
        else
            code = c_param_bool(me%pointer, c_string(name), truth)
            if (code == XMML_OK) value = truth /= 0
        end if
        call conclude(code, status, message)
    end subroutine

    subroutine param_text(me, name, value, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        character(:), allocatable, intent(inout) :: value
        character(*), intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: code
        type(c_ptr) :: text
        if (takes_default(me, name, present(default))) then
            value = default
            code = XMML_OK
        else
            code = c_param_text(me%pointer, c_string(name), text)
            if (code == XMML_OK) value = c_text(text)
        end if
        call conclude(code, status, message)
    end subroutine
