! What messages carry: reading it, and making it.
module xmml_values
    use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
    use xmml_c
    use xmml_errors
    implicit none
    private
    public :: xmml_value, xmml_message, xmml_list, xmml_map, xmml_nothing, xmml_bytes
    public :: taken_over, lent, message_of, signedness

    ! Something that a message can carry: a number, a text, an array, or a list or map of such.
    !
    ! What xmml_value(...), xmml_list(), xmml_map(), ... return belongs to the program, until it is put into a list or map, given to
    ! xmml_alone%input, or freed. What at() and item() return belongs to the list or map.
    type :: xmml_value
        type(c_ptr), private :: pointer = c_null_ptr
        logical, private :: is_owned = .false.
    contains
        procedure :: kind => value_kind
        procedure :: describe => value_describe
        procedure :: size => value_size
        procedure :: has => value_has
        procedure :: key => value_key
        procedure :: at => value_at
        procedure :: item => value_item
        procedure :: dtype => value_dtype
        procedure :: order => value_order
        procedure :: shape => value_shape
        procedure :: add => value_add
        procedure :: set => value_set
        procedure :: free => value_free
        procedure :: handle => value_handle
        procedure :: get_bytes => value_get_bytes
        procedure, private :: context => value_context
        procedure, private :: part => value_part
        procedure, private :: opened => value_opened
@value_bindings@
    end type

    ! A message that was received: its data, as a value, and its times. Free it when its data is not needed any more; receiving into it
    ! again does so too. Do not copy it by assignment.
    type, extends(xmml_value) :: xmml_message
        type(c_ptr), private :: message = c_null_ptr
        character(:), allocatable, private :: origin
    contains
        procedure :: timestamp => message_timestamp
        procedure :: next_timestamp => message_next_timestamp
        procedure :: has_next => message_has_next
        procedure :: free => message_free
        procedure, private :: context => message_context
    end type

    ! xmml_value(data): a number, a text or an array of any rank as a value.
    interface xmml_value
@value_makers@
    end interface

contains

    ! ------------------------------------------------------------------------------------------------------------ what it is

    ! One of XMML_KIND_NOTHING, ..., XMML_KIND_MAP.
    integer function value_kind(self) result(kind)
        class(xmml_value), intent(in) :: self
        kind = c_value_kind(self%pointer)
    end function

    ! For people: "a float64 array of shape (3, 4)".
    function value_describe(self) result(text)
        class(xmml_value), intent(in) :: self
        character(:), allocatable :: text
        text = c_text(c_describe(self%pointer))
    end function

    ! How many elements a list or map has; 0 for anything else.
    integer function value_size(self) result(size)
        class(xmml_value), intent(in) :: self
        size = int(c_list_size(self%pointer) + c_map_size(self%pointer))
    end function

    logical function value_has(self, key) result(has)
        class(xmml_value), intent(in) :: self
        character(*), intent(in) :: key
        has = c_associated(c_map_get(self%pointer, c_string(key)))
    end function

    ! Key number i of a map, from 1; empty if it has no such.
    function value_key(self, i) result(key)
        class(xmml_value), intent(in) :: self
        integer, intent(in) :: i
        character(:), allocatable :: key
        key = c_text(c_map_key(self%pointer, int(i - 1, c_size_t)))
    end function

    ! What a map holds under a key.
    function value_at(self, key, status, message) result(value)
        class(xmml_value), intent(in) :: self
        character(*), intent(in) :: key
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_value) :: value
        value%pointer = self%part(key=key, status=status, message=message)
    end function

    ! Element number i of a list or map, from 1.
    function value_item(self, i, status, message) result(value)
        class(xmml_value), intent(in) :: self
        integer, intent(in) :: i
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_value) :: value
        value%pointer = self%part(item=i, status=status, message=message)
    end function

    ! Element type of an array: XMML_BOOL, ..., XMML_C128; -1 for anything else.
    integer function value_dtype(self) result(dtype)
        class(xmml_value), intent(in) :: self
        type(c_array) :: array
        dtype = -1
        if (self%kind() /= XMML_KIND_ARRAY) return
        if (c_read_any_array(self%pointer, XMML_ANY_ORDER, array) == XMML_OK) dtype = array%dtype
    end function

    ! The order in which the sender's array lies in memory: XMML_ROW_MAJOR or XMML_COLUMN_MAJOR; -1 for anything but an array.
    integer function value_order(self) result(order)
        class(xmml_value), intent(in) :: self
        type(c_array) :: array
        order = -1
        if (self%kind() /= XMML_KIND_ARRAY) return
        if (c_read_any_array(self%pointer, XMML_ANY_ORDER, array) == XMML_OK) order = array%order
    end function

    ! The extents of an array, as many as its rank; none for anything else.
    function value_shape(self) result(extents)
        class(xmml_value), intent(in) :: self
        integer(int64), allocatable :: extents(:)
        type(c_array) :: array
        allocate(extents(0))
        if (self%kind() /= XMML_KIND_ARRAY) return
        if (c_read_any_array(self%pointer, XMML_ANY_ORDER, array) == XMML_OK) extents = extents_of(array, int(array%rank))
    end function

    ! The xmml_value of the C API.
    type(c_ptr) function value_handle(self) result(handle)
        class(xmml_value), intent(in) :: self
        handle = self%pointer
    end function

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
        if (index(data, c_null_char) > 0) then
            call conclude(int(XMML_ERROR_USAGE, c_int), text="a text to be sent has a 0 byte in it; send bytes instead")
        end if
        value = owned(c_value_text(data // c_null_char))
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

    ! -------------------------------------------------------------------------------------------------------------- messages

    ! Fills `message` with what the C API gave.
    subroutine message_of(pointer, origin, message)
        type(c_ptr), intent(in) :: pointer
        character(*), intent(in) :: origin
        type(xmml_message), intent(inout) :: message
        call message%free()
        message%message = pointer
        message%origin = origin
        message%pointer = c_message_data(pointer)
    end subroutine

    ! When it was observed.
    real(real64) function message_timestamp(self) result(time)
        class(xmml_message), intent(in) :: self
        time = c_message_timestamp(self%message)
    end function

    ! When the next one will be; NaN if this is the last or it is not known.
    real(real64) function message_next_timestamp(self) result(time)
        class(xmml_message), intent(in) :: self
        time = c_message_next_timestamp(self%message)
    end function

    logical function message_has_next(self) result(has)
        class(xmml_message), intent(in) :: self
        has = c_message_has_next(self%message) /= 0
    end function

    ! Frees the message and everything that was read from it by view, at and item.
    subroutine message_free(self)
        class(xmml_message), intent(inout) :: self
        if (c_associated(self%message)) call c_message_free(self%message)
        self%message = c_null_ptr
        self%pointer = c_null_ptr
        if (allocated(self%origin)) deallocate(self%origin)
    end subroutine

    function message_context(self) result(text)
        class(xmml_message), intent(in) :: self
        character(:), allocatable :: text
        text = ""
        if (allocated(self%origin)) text = self%origin // ": "
    end function
end module
