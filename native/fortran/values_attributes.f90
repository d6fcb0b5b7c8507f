    ! ------------------------------------------------------------------------------------------------------------ attributes

    ! How many attributes the object has: those of its datatype, and sys.*; 0 for a message that is no object.
    integer function attribute_count(self)
        class(xmml_message), intent(in) :: self
        attribute_count = int(c_attribute_count(self%message))
    end function

    ! The name of attribute number i, from 1; empty if there is no such.
    function attribute_name(self, i) result(name)
        class(xmml_message), intent(in) :: self
        integer, intent(in) :: i
        character(:), allocatable :: name
        name = c_text(c_attribute_name(self%message, int(i - 1, c_size_t)))
    end function

    ! Whether the object has the attribute; its value then. An object that does not have it is an error for a program that does not ask
    ! `found`; a name that its datatype does not declare always is one.
    logical function attribute_found(self, name, value, found, status, message)
        class(xmml_message), intent(in) :: self
        character(*), intent(in) :: name
        type(placed_value), intent(inout) :: value
        logical, intent(out), optional :: found
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: code
        value%pointer = c_null_ptr
        code = c_attribute(self%message, c_string(name), value%pointer)
        attribute_found = code == XMML_OK .and. c_associated(value%pointer)
        if (present(found)) found = attribute_found
        if (attribute_found) then
            value%origin = self%context() // trim(name)
        else if (code /= XMML_OK .or. present(found)) then
            call conclude(code, status, message)
        else
            call conclude(int(XMML_ERROR_TYPE, c_int), status, message, self%context() // "this object has no " // trim(name))
        end if
    end function

    ! A text, a member of an enumeration, or a time as a text; its length is that of the text.
    subroutine attribute_text(self, name, data, found, status, message)
        class(xmml_message), intent(in) :: self
        character(*), intent(in) :: name
        character(:), allocatable, intent(inout) :: data
        logical, intent(out), optional :: found
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(placed_value) :: value
        if (attribute_found(self, name, value, found, status, message)) call value%get(data, status=status, message=message)
    end subroutine

    subroutine attribute_bytes(self, name, data, found, status, message)
        class(xmml_message), intent(in) :: self
        character(*), intent(in) :: name
        integer(int8), allocatable, intent(inout) :: data(:)
        logical, intent(out), optional :: found
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(placed_value) :: value
        if (attribute_found(self, name, value, found, status, message)) call value%get_bytes(data, status=status, message=message)
    end subroutine
