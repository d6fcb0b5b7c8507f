    ! ----------------------------------------------------------------------------------------------------------------- pools

    ! Offers any value to the readers of a pool; it stays the program's. attributes: NAME=VALUE with blanks between, checked against the
    ! datatype of the port. readers: how many choose it. Waits while one that does holds as much as its limit (run:limit) allows.
    subroutine put_value(me, port, data, attributes, readers, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        class(xmml_value), intent(in) :: data
        character(*), intent(in), optional :: attributes
        integer, intent(out), optional :: readers
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call put_on(me%pointer, c_string(port), data%handle(), attributes, readers, status, message)
    end subroutine

    ! The same on a port that ends with a 0 byte, as C names it. A null value: the object has attributes only.
    subroutine put_on(instance, port, value, attributes, readers, status, message)
        type(c_ptr), intent(in) :: instance
        character(kind=c_char), intent(in) :: port(*)
        type(c_ptr), intent(in) :: value
        character(*), intent(in), optional :: attributes
        integer, intent(out), optional :: readers
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int64_t) :: chosen
        integer(c_int) :: code
        chosen = 0
        code = c_put(instance, port, value, described_by(attributes), chosen)
        if (present(readers)) readers = int(chosen)
        call conclude(code, status, message)
    end subroutine

    ! The same of a value that is made for this call. whole: the value is a block of an array with these extents, for a parallel port.
    subroutine put_and_free(instance, port, value, attributes, readers, whole, status, message)
        type(c_ptr), intent(in) :: instance
        character(kind=c_char), intent(in) :: port(*)
        type(xmml_value), intent(in) :: value
        character(*), intent(in), optional :: attributes
        integer, intent(out), optional :: readers
        integer, intent(in), optional :: whole(:)
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_value) :: made
        integer(c_int64_t) :: chosen
        integer(c_int) :: code
        made = value
        if (c_associated(made%handle()) .and. present(whole)) then
            chosen = 0
            code = c_put_value_block(instance, port, made%handle(), size(whole, kind=c_size_t), int(whole, c_size_t), &
                                     described_by(attributes), chosen)
            if (present(readers)) readers = int(chosen)
            call conclude(code, status, message)
        else if (c_associated(made%handle())) then
            call put_on(instance, port, made%handle(), attributes, readers, status, message)
        else
            if (present(readers)) readers = 0
            call conclude(int(XMML_ERROR_USAGE, c_int), status, message)
        end if
        call made%free()
    end subroutine

    ! Attributes as C reads them.
    function described_by(attributes) result(text)
        character(*), intent(in), optional :: attributes
        character(len=:, kind=c_char), allocatable :: text
        text = c_null_char
        if (present(attributes)) text = c_string(attributes)
    end function

    ! An object that has attributes only.
    subroutine put_nothing(me, port, attributes, readers, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(*), intent(in), optional :: attributes
        integer, intent(out), optional :: readers
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call put_on(me%pointer, c_string(port), c_null_ptr, attributes, readers, status, message)
    end subroutine

    ! Bytes without a type.
    subroutine put_bytes(me, port, data, attributes, readers, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer(int8), intent(in), contiguous :: data(:)
        character(*), intent(in), optional :: attributes
        integer, intent(out), optional :: readers
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call put_and_free(me%pointer, c_string(port), xmml_bytes(data), attributes, readers, status=status, message=message)
    end subroutine

    ! A text, with its trailing blanks.
    subroutine put_text(me, port, data, attributes, readers, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(*), intent(in) :: data
        character(*), intent(in), optional :: attributes
        integer, intent(out), optional :: readers
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call put_and_free(me%pointer, c_string(port), xmml_value(data), attributes, readers, status=status, message=message)
    end subroutine

    ! How many readers would choose an object with these attributes, and have not left: where nobody would, it need not be computed. Nothing is
    ! put.
    integer function wanted(me, port, attributes, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(*), intent(in), optional :: attributes
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int64_t) :: readers
        integer(c_int) :: code
        readers = 0
        code = c_wanted(me%pointer, c_string(port), described_by(attributes), readers)
        wanted = int(readers)
        call conclude(code, status, message)
    end function

    ! Begins a group: objects that are put on this port from now on become visible together, when it ends; until then no put waits. They have
    ! these attributes, unless a put gives others.
    subroutine group_begin(me, port, attributes, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(*), intent(in), optional :: attributes
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_group_begin(me%pointer, c_string(port), described_by(attributes)), status, message)
    end subroutine

    ! Ends it: each reader gets those objects that it chooses, all at once. readers: how many get some. Waits until each of them has room for
    ! what it gets, or holds nothing.
    subroutine group_end(me, port, readers, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(out), optional :: readers
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int64_t) :: reached
        integer(c_int) :: code
        reached = 0
        code = c_group_end(me%pointer, c_string(port), reached)
        if (present(readers)) readers = int(reached)
        call conclude(code, status, message)
    end subroutine

    ! Forgets it and its objects, which nobody has seen.
    subroutine group_abandon(me, port, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_group_abandon(me%pointer, c_string(port)), status, message)
    end subroutine

    ! Says that nothing more is put on this port, for a program that goes on. A reader sees the end when all its writers have said so, or have
    ! left. Does not wait; what waits for readers is still given to them.
    subroutine port_end(me, port, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_end(me%pointer, c_string(port)), status, message)
    end subroutine

    ! Waits for the next object that the selector of the port chooses; false: all writers have ended. Free the object when it is not needed
    ! any more; taking into it again does so too.
    !
    ! timeout: wait at most this many seconds; if no object came, the result is false, timed_out is true and nothing was taken.
    logical function take(me, port, object, timeout, timed_out, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        type(xmml_message), intent(inout) :: object
        real(real64), intent(in), optional :: timeout
        logical, intent(out), optional :: timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        take = taken_from(me%pointer, c_string(port), me%place(port), object, timeout, timed_out, status, message)
    end function

    ! The same on a port that ends with a 0 byte, as C names it. place: how errors name the port.
    logical function taken_from(instance, port, place, object, timeout, timed_out, status, message)
        type(c_ptr), intent(in) :: instance
        character(kind=c_char), intent(in) :: port(*)
        character(*), intent(in) :: place
        type(xmml_message), intent(inout) :: object
        real(real64), intent(in), optional :: timeout
        logical, intent(out), optional :: timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: found
        integer(c_int) :: code
        flush(output_unit)
        call object%free()
        if (present(timeout)) then
            code = c_take_timeout(instance, port, timeout, found)
        else
            code = c_take(instance, port, found)
        end if
        taken_from = code == XMML_OK
        if (taken_from) call message_of(found, place, object)
        call conclude_wait(code, timed_out, status, message)
    end function
