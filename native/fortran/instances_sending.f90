    ! --------------------------------------------------------------------------------------------------------------- sending

    ! Any value, which may also be a message that was received. It stays the program's.
    subroutine send_value(me, port, data, to, timestamp, next_timestamp, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        class(xmml_value), intent(in) :: data
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call send_on(me%pointer, c_string(port), data, to, timestamp, next_timestamp, status, message)
    end subroutine

    ! The same on a port that ends with a 0 byte, as C names it.
    subroutine send_on(instance, port, data, to, timestamp, next_timestamp, status, message)
        type(c_ptr), intent(in) :: instance
        character(kind=c_char), intent(in) :: port(*)
        class(xmml_value), intent(in) :: data
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        real(c_double) :: now, next
        integer(c_int) :: code
        now = c_default_time()
        if (present(timestamp)) now = timestamp
        next = c_default_time()
        if (present(next_timestamp)) next = next_timestamp
        if (present(to)) then
            code = c_send_to_at(instance, port, int(to, c_int), data%handle(), now, next)
        else
            code = c_send_at(instance, port, data%handle(), now, next)
        end if
        call conclude(code, status, message)
    end subroutine

    ! The same of a value that is made for this call. whole: the value is a block of an array with these extents, for a parallel port.
    ! gather: blocks of all ranks, lying to each other as this decomposition says, are put together for an ordinary port.
    subroutine send_and_free(instance, port, value, to, timestamp, next_timestamp, whole, gather, status, message)
        type(c_ptr), intent(in) :: instance
        character(kind=c_char), intent(in) :: port(*)
        type(xmml_value), intent(in) :: value
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer, intent(in), optional :: whole(:)
        character(*), intent(in), optional :: gather
        type(xmml_value) :: made
        made = value
        if (.not. c_associated(made%handle())) then
            call conclude(int(XMML_ERROR_USAGE, c_int), status, message)
        else if (present(whole)) then
            call conclude(c_send_value_block(instance, port, made%handle(), size(whole, kind=c_size_t), &
                                             int(whole, c_size_t)), status, message)
        else if (present(gather)) then
            call conclude(c_send_value_gathered(instance, port, c_string(gather), made%handle()), status, message)
        else
            call send_on(instance, port, made, to, timestamp, next_timestamp, status, message)
        end if
        call made%free()
    end subroutine

    ! A message without data: only its times count.
    subroutine send_nothing(me, port, to, timestamp, next_timestamp, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call send_and_free(me%pointer, c_string(port), xmml_nothing(), &
                           to, timestamp, next_timestamp, status=status, message=message)
    end subroutine

    ! Bytes without a type.
    subroutine send_bytes(me, port, data, to, timestamp, next_timestamp, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer(int8), intent(in), contiguous :: data(:)
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call send_and_free(me%pointer, c_string(port), xmml_bytes(data), &
                           to, timestamp, next_timestamp, status=status, message=message)
    end subroutine

    ! Memory for an array that receivers on this host get without a copy; whether there is some.
    logical function lends(me, dtype, shape, memory, status, message)
        class(xmml_instance), intent(in) :: me
        integer, intent(in) :: dtype
        integer, intent(in) :: shape(:)
        type(c_ptr), intent(out) :: memory
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: code
        code = c_loan(me%pointer, int(dtype, c_int), size(shape, kind=c_size_t), int(shape, c_size_t), memory)
        lends = code == XMML_OK
        call conclude(code, status, message)
    end function
