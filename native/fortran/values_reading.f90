    ! --------------------------------------------------------------------------------------------------------------- reading

    ! Of whom errors speak.
    function value_context(self) result(text)
        class(xmml_value), intent(in) :: self
        character(:), allocatable :: text
        text = ""
        if (.false.) print *, self%is_owned ! every procedure of a type has the object as an argument
    end function

    ! The value itself, or the element under a key or at a place of it. Null after an error.
    function value_part(self, key, item, status, message) result(part)
        class(xmml_value), intent(in) :: self
        character(*), intent(in), optional :: key
        integer, intent(in), optional :: item
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: part
        character(:), allocatable :: what
        character(20) :: digits
        if (present(key)) then
            part = c_map_get(self%pointer, c_string(key))
            what = 'key "' // trim(key) // '"'
        else if (present(item)) then
            if (self%kind() == XMML_KIND_LIST) then
                part = c_list_get(self%pointer, int(item - 1, c_size_t))
            else
                part = c_map_value(self%pointer, int(item - 1, c_size_t))
            end if
            write(digits, "(i0)") item
            what = "element " // trim(digits)
        else
            part = self%pointer
            what = ""
        end if
        if (c_associated(part) .or. what == "") then
            call conclude(int(XMML_OK, c_int), status, message)
        else
            call conclude(int(XMML_ERROR_TYPE, c_int), status, message, &
                          self%context() // self%describe() // " has no " // what)
        end if
    end function

    ! Whether the value is an array of this type and rank; where it lies then, in column-major order.
    logical function value_opened(self, dtype, extents_wanted, array, key, item, unsigned, status, message) result(opened)
        class(xmml_value), intent(in) :: self
        integer, intent(in) :: dtype
        integer(c_size_t), intent(in) :: extents_wanted(:) ! -1: any
        type(c_array), intent(out) :: array
        character(*), intent(in), optional :: key
        integer, intent(in), optional :: item
        logical, intent(in), optional :: unsigned
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: part
        integer(c_int) :: code
        integer(c_size_t), allocatable :: found(:)
        opened = .false.
        part = self%part(key, item, status, message)
        if (is_missing(part, key, item)) return
        code = c_read_array(part, int(signedness(dtype, unsigned), c_int), size(extents_wanted, kind=c_size_t), &
                            int(XMML_COLUMN_MAJOR, c_int), array)
        if (.not. succeeded(self, code, status, message)) return
        found = extents_of(array, int(array%rank))
        if (any(extents_wanted >= 0 .and. extents_wanted /= found)) then
            call conclude(int(XMML_ERROR_TYPE, c_int), status, message, &
                          self%context() // "expected " // shape_text(extents_wanted) // &
                          ", the shape of the array to receive into, but found " // c_text(c_describe(part)))
            return
        end if
        opened = .true.
    end function

    ! Integers without sign have, bit for bit, the numbers of the type of the same size with sign.
    pure integer function signedness(dtype, unsigned)
        integer, intent(in) :: dtype
        logical, intent(in), optional :: unsigned
        signedness = dtype
        if (present(unsigned)) then
            if (unsigned) signedness = dtype + XMML_U8 - XMML_I8
        end if
    end function

    function extents_of(array, rank) result(extents)
        type(c_array), intent(in) :: array
        integer, intent(in) :: rank ! of the array, which the caller has checked
        integer(c_size_t) :: extents(rank)
        integer(c_size_t), pointer :: there(:)
        if (rank == 0) return
        call c_f_pointer(array%shape, there, [array%rank])
        extents = there
    end function

    ! (3, 4), as the library writes it.
    function shape_text(extents) result(text)
        integer(c_size_t), intent(in) :: extents(:)
        character(:), allocatable :: text
        character(20) :: digits
        integer :: i
        text = "("
        do i = 1, size(extents)
            write(digits, "(i0)") extents(i)
            text = text // trim(digits)
            if (i < size(extents) .or. i == 1) text = text // ","
            if (i < size(extents)) text = text // " "
        end do
        text = text // ")"
    end function

    subroutine value_get_bytes(self, data, key, item, status, message)
        class(xmml_value), intent(in) :: self
        integer(int8), allocatable, intent(inout) :: data(:)
        character(*), intent(in), optional :: key
        integer, intent(in), optional :: item
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: part, bytes
        integer(int8), pointer :: there(:)
        integer(c_size_t) :: size
        part = self%part(key, item, status, message)
        if (is_missing(part, key, item)) return
        if (.not. succeeded(self, c_read_bytes(part, bytes, size), status, message)) return
        call c_f_pointer(bytes, there, [size])
        data = there
    end subroutine

    ! A whole number that fits into so many bits.
    logical function whole_number(self, bits, number, key, item, status, message) result(is_one)
        class(xmml_value), intent(in) :: self
        integer, intent(in) :: bits
        integer(int64), intent(out) :: number
        character(*), intent(in), optional :: key
        integer, intent(in), optional :: item
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: part
        character(20) :: digits, size
        is_one = .false.
        part = self%part(key, item, status, message)
        if (is_missing(part, key, item)) return
        if (.not. succeeded(self, c_read_int(part, number), status, message)) return
        is_one = number >= -2_int64**(bits - 2) * 2 .and. number <= (2_int64**(bits - 2) - 1) * 2 + 1
        if (is_one) return
        write(digits, "(i0)") number
        write(size, "(i0)") bits
        call conclude(int(XMML_ERROR_TYPE, c_int), status, message, self%context() // trim(digits) // &
                      " does not fit into an integer of " // trim(size) // " bits")
    end function

    logical function real_number(self, number, key, item, status, message) result(is_one)
        class(xmml_value), intent(in) :: self
        real(real64), intent(out) :: number
        character(*), intent(in), optional :: key
        integer, intent(in), optional :: item
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: part
        is_one = .false.
        part = self%part(key, item, status, message)
        if (is_missing(part, key, item)) return
        is_one = succeeded(self, c_read_double(part, number), status, message)
    end function

    logical function complex_number(self, number, key, item, status, message) result(is_one)
        class(xmml_value), intent(in) :: self
        complex(real64), intent(out) :: number
        character(*), intent(in), optional :: key
        integer, intent(in), optional :: item
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: part
        real(real64) :: real_part, imaginary_part
        is_one = .false.
        part = self%part(key, item, status, message)
        if (is_missing(part, key, item)) return
        is_one = succeeded(self, c_read_complex(part, real_part, imaginary_part), status, message)
        if (is_one) number = cmplx(real_part, imaginary_part, real64)
    end function

    logical function truth_value(self, truth, key, item, status, message) result(is_one)
        class(xmml_value), intent(in) :: self
        logical, intent(out) :: truth
        character(*), intent(in), optional :: key
        integer, intent(in), optional :: item
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: part
        integer(c_int) :: yes
        is_one = .false.
        part = self%part(key, item, status, message)
        if (is_missing(part, key, item)) return
        is_one = succeeded(self, c_read_bool(part, yes), status, message)
        if (is_one) truth = yes /= 0
    end function

    ! A text; its length is that of the text.
    subroutine get_text(self, data, key, item, status, message)
        class(xmml_value), intent(in) :: self
        character(:), allocatable, intent(inout) :: data
        character(*), intent(in), optional :: key
        integer, intent(in), optional :: item
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: part, text
        integer(c_size_t) :: length
        part = self%part(key, item, status, message)
        if (is_missing(part, key, item)) return
        if (succeeded(self, c_read_text(part, text, length), status, message)) data = c_text(text, length)
    end subroutine

    ! A text into one of fixed length, with blanks behind it.
    subroutine copy_text(self, data, key, item, status, message)
        class(xmml_value), intent(in) :: self
        character(*), intent(inout) :: data
        character(*), intent(in), optional :: key
        integer, intent(in), optional :: item
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        character(20) :: found, room
        type(c_ptr) :: part, text
        integer(c_size_t) :: length
        part = self%part(key, item, status, message)
        if (is_missing(part, key, item)) return
        if (.not. succeeded(self, c_read_text(part, text, length), status, message)) return
        if (length > len(data)) then
            write(found, "(i0)") length
            write(room, "(i0)") len(data)
            call conclude(int(XMML_ERROR_TYPE, c_int), status, message, self%context() // "expected at most " // &
                          trim(room) // " bytes of text, but found " // trim(found))
        else
            data = c_text(text, length)
        end if
    end subroutine

    ! Whether part() has reported that there is no such element.
    logical function is_missing(part, key, item)
        type(c_ptr), intent(in) :: part
        character(*), intent(in), optional :: key
        integer, intent(in), optional :: item
        is_missing = .not. c_associated(part) .and. (present(key) .or. present(item))
    end function

    ! Concludes a read of the C API, naming where the value comes from if it failed.
    logical function succeeded(self, code, status, message)
        class(xmml_value), intent(in) :: self
        integer(c_int), intent(in) :: code
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        succeeded = code == XMML_OK
        if (succeeded) then
            call conclude(code, status, message)
        else
            call conclude(code, status, message, self%context() // last_error())
        end if
    end function

    ! A shape of this rank whose extents may be anything.
    pure function spread_any(rank) result(extents)
        integer, intent(in) :: rank
        integer(c_size_t) :: extents(rank)
        extents = -1
    end function

@value_procedures@
