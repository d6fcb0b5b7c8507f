    ! A handle of an open in port (run:open="yes"): a value to be sent to others, alone or in lists and maps, who can open it and then send to
    ! this port. `holders` may (default 1; 0: any number); the port ends when they have closed it or left. Reached by `methods` in this order
    ! ("shm,tcp"), if they are given.
    function port_handle(me, port, holders, methods, status, message) result(handle)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(in), optional :: holders
        character(*), intent(in), optional :: methods
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_value) :: handle
        type(c_ptr) :: made
        integer(c_int) :: count, code
        count = 1
        if (present(holders)) count = int(holders, c_int)
        made = c_null_ptr
        if (present(methods)) then
            code = c_handle(me%pointer, c_string(port), count, c_string(methods), made)
        else
            code = c_handle(me%pointer, c_string(port), count, c_string(""), made)
        end if
        call conclude(code, status, message)
        if (code == XMML_OK) handle = owned(made)
    end function

    ! From now on what is sent on this open out port goes to the port that the handle stands for. `number` addresses it alone in the sends
    ! that have a `to`; the others go to every handle that is open at the port.
    subroutine open_handle(me, port, handle, number, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        class(xmml_value), intent(in) :: handle
        integer, intent(inout), optional :: number
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: opened
        integer(c_int) :: code
        opened = 0
        code = c_open(me%pointer, c_string(port), handle%handle(), opened)
        if (present(number) .and. code == XMML_OK) number = opened
        call conclude(code, status, message)
    end subroutine

    ! Ends what open began: at the handle with this number, or all that are open at the port. What was sent before arrives.
    subroutine close_handles(me, port, number, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(in), optional :: number
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        if (present(number)) then
            call conclude(c_close_number(me%pointer, c_string(port), int(number, c_int)), status, message)
        else
            call conclude(c_close(me%pointer, c_string(port)), status, message)
        end if
    end subroutine

    ! Lets nobody open this handle of an own port any more. Conduits that it has made go on.
    subroutine revoke(me, handle, status, message)
        class(xmml_instance), intent(in) :: me
        class(xmml_value), intent(in) :: handle
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_revoke(me%pointer, handle%handle()), status, message)
    end subroutine
