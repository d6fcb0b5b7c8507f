    ! ------------------------------------------------------------------------------------------------------------- receiving

    ! Waits for the next message on the port; free it when its data is not needed any more.
    !
    ! of: from this copy of the multiplied instance at the other end, from 0. timeout: wait at most this many seconds; if no message
    ! came, timed_out is true and nothing was taken. ended: true if the sender has ended, which is an error without it.
    subroutine receive_message(me, port, data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        type(xmml_message), intent(inout) :: data
        integer, intent(in), optional :: of
        real(real64), intent(in), optional :: timeout
        real(real64), intent(inout), optional :: timestamp, next_timestamp
        logical, intent(out), optional :: ended, timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        logical :: ignored
        ignored = arrived(me%pointer, c_string(port), me%place(port), &
                          data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
    end subroutine

    ! The same on a port that ends with a 0 byte, as C names it, and whether there is a message. place: how errors name the port.
    logical function arrived(instance, port, place, &
                             data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
        type(c_ptr), intent(in) :: instance
        character(kind=c_char), intent(in) :: port(*)
        character(*), intent(in) :: place
        type(xmml_message), intent(inout) :: data
        integer, intent(in), optional :: of
        real(real64), intent(in), optional :: timeout
        real(real64), intent(inout), optional :: timestamp, next_timestamp
        logical, intent(out), optional :: ended, timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: taken
        integer(c_int) :: code
        flush(output_unit)
        call data%free()
        if (present(timeout)) then
            if (present(of)) then
                code = c_receive_timeout_of(instance, port, int(of, c_int), timeout, taken)
            else
                code = c_receive_timeout(instance, port, timeout, taken)
            end if
        else if (present(ended)) then
            if (present(of)) then
                code = c_receive_or_end_of(instance, port, int(of, c_int), taken)
            else
                code = c_receive_or_end(instance, port, taken)
            end if
        else if (present(of)) then
            code = c_receive_of(instance, port, int(of, c_int), taken)
        else
            code = c_receive(instance, port, taken)
        end if
        arrived = code == XMML_OK
        if (arrived) then
            call message_of(taken, place, data)
            if (present(timestamp)) timestamp = data%timestamp()
            if (present(next_timestamp)) next_timestamp = data%next_timestamp()
        end if
        if (present(ended)) then
            if (code == XMML_ERROR_ENDED) code = XMML_ENDED ! with a time-out as well
            ended = code == XMML_ENDED
        end if
        call conclude_wait(code, timed_out, status, message)
    end function

    ! Concludes a wait that may have had a limit of time. That it passed is an error for a program that cannot see it.
    subroutine conclude_wait(code, timed_out, status, message)
        integer(c_int), intent(in) :: code
        logical, intent(out), optional :: timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        if (present(timed_out)) then
            timed_out = code == XMML_TIMED_OUT
        else if (code == XMML_TIMED_OUT .and. .not. (present(status) .or. present(message))) then
            call conclude(int(XMML_ERROR_USAGE, c_int), text=last_error() // " (and the program asks neither timed_out nor status)")
        end if
        call conclude(code, status, message)
    end subroutine

    ! Bytes without a type; `data` is allocated to fit.
    subroutine receive_bytes(me, port, data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer(int8), allocatable, intent(inout) :: data(:)
        integer, intent(in), optional :: of
        real(real64), intent(in), optional :: timeout
        real(real64), intent(inout), optional :: timestamp, next_timestamp
        logical, intent(out), optional :: ended, timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_message) :: taken
        if (.not. arrived(me%pointer, c_string(port), me%place(port), &
                          taken, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)) return
        call taken%get_bytes(data, status=status, message=message)
        call taken%free()
    end subroutine

    ! A text, with its trailing blanks.
    subroutine send_text(me, port, data, to, timestamp, next_timestamp, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(*), intent(in) :: data
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call send_and_free(me%pointer, c_string(port), xmml_value(data), &
                           to, timestamp, next_timestamp, status=status, message=message)
    end subroutine

    ! A text; its length is that of the text.
    subroutine receive_text(me, port, data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(:), allocatable, intent(inout) :: data
        integer, intent(in), optional :: of
        real(real64), intent(in), optional :: timeout
        real(real64), intent(inout), optional :: timestamp, next_timestamp
        logical, intent(out), optional :: ended, timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_message) :: taken
        if (.not. arrived(me%pointer, c_string(port), me%place(port), &
                          taken, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)) return
        call taken%get(data, status=status, message=message)
        call taken%free()
    end subroutine

    ! A text into one of fixed length, with blanks behind it.
    subroutine into_text(me, port, data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(*), intent(inout) :: data
        integer, intent(in), optional :: of
        real(real64), intent(in), optional :: timeout
        real(real64), intent(inout), optional :: timestamp, next_timestamp
        logical, intent(out), optional :: ended, timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_message) :: taken
        if (.not. arrived(me%pointer, c_string(port), me%place(port), &
                          taken, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)) return
        call taken%copy_to(data, status=status, message=message)
        call taken%free()
    end subroutine

@instance_procedures@
