! What messages carry: reading it, and making it.
module xmml_values
    use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
    use xmml_c
    use xmml_errors
    implicit none
    private
    public :: xmml_value, xmml_message, xmml_list, xmml_map, xmml_nothing, xmml_bytes
    public :: taken_over, owned, lent, message_of, signedness

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

    ! A value that errors name by where it comes from.
    type, extends(xmml_value) :: placed_value
        character(:), allocatable, private :: origin
    contains
        procedure, private :: context => placed_context
    end type

    ! A message that was received, or an object that was taken from a pool: its data, as a value, its times, and the attributes of an
    ! object. Free it when its data is not needed any more; receiving into it again does so too. Do not copy it by assignment.
    type, extends(placed_value) :: xmml_message
        type(c_ptr), private :: message = c_null_ptr
    contains
        procedure :: timestamp => message_timestamp
        procedure :: next_timestamp => message_next_timestamp
        procedure :: has_next => message_has_next
        procedure :: attribute_count
        procedure :: attribute_name
        procedure :: attribute_bytes
        procedure :: free => message_free
@attribute_bindings@
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

@values_reading@

@values_making@

@values_attributes@

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

    function placed_context(self) result(text)
        class(placed_value), intent(in) :: self
        character(:), allocatable :: text
        text = ""
        if (allocated(self%origin)) text = self%origin // ": "
    end function
end module
