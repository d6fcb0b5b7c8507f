    ! ---------------------------------------------------------------------------------------------------------------- making

    ! The C value to be put into a list or map, or given away otherwise: the value itself if it is the program's, else a copy.
    function taken_over(value) result(pointer)
        class(xmml_value), intent(in) :: value
        type(c_ptr) :: pointer
        if (value%is_owned) then
            pointer = value%pointer
        else
            pointer = c_value_copy(value%pointer)
        end if
    end function

    function owned(pointer) result(value)
        type(c_ptr), intent(in) :: pointer
        type(xmml_value) :: value
        if (.not. c_associated(pointer)) call conclude(int(XMML_ERROR_USAGE, c_int))
        value%pointer = pointer
        value%is_owned = .true.
    end function

    ! An array as a value without a copy, which must be freed before the array changes: for sending it.
    function lent(dtype, extents, data, unsigned) result(value)
        integer, intent(in) :: dtype
        integer(c_size_t), intent(in) :: extents(:)
        type(c_ptr), intent(in) :: data
        logical, intent(in), optional :: unsigned
        type(xmml_value) :: value
        value%pointer = c_value_lent_array(int(signedness(dtype, unsigned), c_int), int(XMML_COLUMN_MAJOR, c_int), &
                                           size(extents, kind=c_size_t), extents, data)
        value%is_owned = .true.
    end function

    function copied(dtype, extents, data, unsigned) result(value)
        integer, intent(in) :: dtype
        integer(c_size_t), intent(in) :: extents(:)
        type(c_ptr), intent(in) :: data
        logical, intent(in), optional :: unsigned
        type(xmml_value) :: value
        value = owned(c_value_array_order(int(signedness(dtype, unsigned), c_int), int(XMML_COLUMN_MAJOR, c_int), &
                                          size(extents, kind=c_size_t), extents, data))
    end function

    ! A text, with its trailing blanks.
    type(xmml_value) function of_text(data) result(value)
        character(*), intent(in) :: data
        value = owned(c_value_text_of(data // c_null_char, len(data, c_size_t)))
    end function

    ! An empty list.
    type(xmml_value) function xmml_list() result(value)
        value = owned(c_list_new())
    end function

    ! An empty map.
    type(xmml_value) function xmml_map() result(value)
        value = owned(c_map_new())
    end function

    type(xmml_value) function xmml_nothing() result(value)
        value = owned(c_value_nothing())
    end function

    ! Bytes without a type; an array of int8 is something else.
    type(xmml_value) function xmml_bytes(bytes) result(value)
        integer(int8), intent(in), contiguous, target :: bytes(:)
        value = owned(c_value_bytes(c_loc(bytes), size(bytes, kind=c_size_t)))
    end function

    ! Appends to a list; takes the element over.
    subroutine value_add(self, element, status, message)
        class(xmml_value), intent(in) :: self
        class(xmml_value), intent(in) :: element
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_list_add(self%pointer, taken_over(element)), status, message)
    end subroutine

    ! Puts into a map, in place of what the key had; takes the value over.
    subroutine value_set(self, key, value, status, message)
        class(xmml_value), intent(in) :: self
        character(*), intent(in) :: key
        class(xmml_value), intent(in) :: value
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_map_set(self%pointer, c_string(key), taken_over(value)), status, message)
    end subroutine

    ! Frees what belongs to the program; nothing else, and not twice.
    subroutine value_free(self)
        class(xmml_value), intent(inout) :: self
        if (self%is_owned) call c_value_free(self%pointer)
        self%pointer = c_null_ptr
        self%is_owned = .false.
    end subroutine
