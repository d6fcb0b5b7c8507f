! The C functions, constants and structs of xmml.h, as Fortran calls them.
module xmml_c
    use, intrinsic :: iso_c_binding
    implicit none
    public

@c_constants@
@c_structs@
    ! A port that the model declares: its operator is finit, Oi, S, B or Of, and empty on mappers and terminals.
    type :: xmml_port
        character(:), allocatable :: name
        character(:), allocatable :: operator_name
        logical :: is_out = .false.
    end type

    ! A block of an array: the extents of the whole array, the index of the block's first element there (from 1), its extents.
    type :: xmml_block
        integer, allocatable :: shape(:)
        integer, allocatable :: start(:)
        integer, allocatable :: extent(:)
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
