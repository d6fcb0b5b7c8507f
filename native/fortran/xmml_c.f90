! The C functions and constants of xmml.h, as Fortran calls them.
module xmml_c
    use, intrinsic :: iso_c_binding
    implicit none
    public

    ! Status codes: 0, outcomes that are no errors, errors.
    integer, parameter :: XMML_OK = 0
    integer, parameter :: XMML_DONE = 1
    integer, parameter :: XMML_ENDED = 2
    integer, parameter :: XMML_TIMED_OUT = 3
    integer, parameter :: XMML_RECEIVER_GONE = 4
    integer, parameter :: XMML_ERROR_USAGE = -1
    integer, parameter :: XMML_ERROR_NOT_IN_A_RUN = -2
    integer, parameter :: XMML_ERROR_PORT = -3
    integer, parameter :: XMML_ERROR_NOT_CONNECTED = -4
    integer, parameter :: XMML_ERROR_ORDER = -5
    integer, parameter :: XMML_ERROR_ENDED = -6
    integer, parameter :: XMML_ERROR_TYPE = -7
    integer, parameter :: XMML_ERROR_PARAMETER = -8
    integer, parameter :: XMML_ERROR_ABORTED = -9
    integer, parameter :: XMML_ERROR_CONNECTION = -10
    integer, parameter :: XMML_ERROR_INTERNAL = -11

    ! Element types of arrays.
    integer, parameter :: XMML_BOOL = 0
    integer, parameter :: XMML_I8 = 1
    integer, parameter :: XMML_I16 = 2
    integer, parameter :: XMML_I32 = 3
    integer, parameter :: XMML_I64 = 4
    integer, parameter :: XMML_U8 = 5
    integer, parameter :: XMML_U16 = 6
    integer, parameter :: XMML_U32 = 7
    integer, parameter :: XMML_U64 = 8
    integer, parameter :: XMML_F32 = 9
    integer, parameter :: XMML_F64 = 10
    integer, parameter :: XMML_C64 = 11
    integer, parameter :: XMML_C128 = 12

    ! Orders of the elements of an array in memory.
    integer, parameter :: XMML_ROW_MAJOR = 0
    integer, parameter :: XMML_COLUMN_MAJOR = 1
    integer, parameter :: XMML_ANY_ORDER = 2

    ! Kinds of values.
    integer, parameter :: XMML_KIND_NOTHING = 0
    integer, parameter :: XMML_KIND_BOOL = 1
    integer, parameter :: XMML_KIND_INT = 2
    integer, parameter :: XMML_KIND_DOUBLE = 3
    integer, parameter :: XMML_KIND_COMPLEX = 4
    integer, parameter :: XMML_KIND_TEXT = 5
    integer, parameter :: XMML_KIND_BYTES = 6
    integer, parameter :: XMML_KIND_ARRAY = 7
    integer, parameter :: XMML_KIND_LIST = 8
    integer, parameter :: XMML_KIND_MAP = 9

    ! xmml_array of xmml.h.
    type, bind(c) :: c_array
        integer(c_int) :: dtype = 0
        integer(c_int) :: order = 0
        integer(c_size_t) :: rank = 0
        type(c_ptr) :: shape = c_null_ptr
        integer(c_size_t) :: size = 0
        type(c_ptr) :: data = c_null_ptr
    end type

    ! xmml_port of xmml.h.
    type, bind(c) :: c_port
        type(c_ptr) :: name = c_null_ptr
        type(c_ptr) :: operator_name = c_null_ptr
        integer(c_int) :: is_out = 0
    end type

    ! A port that the model declares: its operator is finit, Oi, S, B or Of, and empty on mappers and terminals.
    type :: xmml_port
        character(:), allocatable :: name
        character(:), allocatable :: operator_name
        logical :: is_out = .false.
    end type

    ! xmml_block of xmml_team.h.
    integer, parameter :: c_block_rank = 16
    type, bind(c) :: c_block
        integer(c_size_t) :: rank = 0
        integer(c_size_t) :: shape(c_block_rank) = 0
        integer(c_size_t) :: start(c_block_rank) = 0
        integer(c_size_t) :: extent(c_block_rank) = 0
    end type

    ! A block of an array: the extents of the whole array, the index of the block's first element there (from 1), its extents.
    type :: xmml_block
        integer, allocatable :: shape(:)
        integer, allocatable :: start(:)
        integer, allocatable :: extent(:)
    end type

    ! How finely an instance resolves a dimension and how much of it it covers, in base units (m, s, ...), and how many steps make
    ! the whole; 0 for what the model does not give.
    type, bind(c) :: xmml_scale
        real(c_double) :: delta = 0
        real(c_double) :: total = 0
        integer(c_int64_t) :: steps = 0
    end type

    interface
@c_interfaces@
        subroutine c_exit(status) bind(c, name="exit")
            import
            integer(c_int), value :: status
        end subroutine

        pure function c_strlen(text) bind(c, name="strlen") result(length)
            import
            type(c_ptr), value :: text
            integer(c_size_t) :: length
        end function
    end interface

contains

    ! A Fortran text as C reads it. Names lose their trailing blanks.
    pure function c_string(text) result(string)
        character(*), intent(in) :: text
        character(len=:, kind=c_char), allocatable :: string
        string = trim(text) // c_null_char
    end function

    ! The text at a C pointer, up to its 0 byte or of this length; empty for a null pointer.
    function c_text(pointer, length) result(text)
        type(c_ptr), intent(in) :: pointer
        integer(c_size_t), intent(in), optional :: length
        character(:), allocatable :: text
        character(kind=c_char), pointer :: letters(:)
        integer(c_size_t) :: size, i
        size = 0
        if (c_associated(pointer)) then
            if (present(length)) then
                size = length
            else
                size = c_strlen(pointer)
            end if
        end if
        allocate(character(size) :: text)
        if (size == 0) return
        call c_f_pointer(pointer, letters, [size])
        do i = 1, size
            text(i:i) = letters(i)
        end do
    end function
end module
