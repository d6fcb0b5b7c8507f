! Values by themselves: making, reading, nesting.
program values
    use, intrinsic :: iso_c_binding, only: c_bool
    use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
    use behaviour
    use xmml
    implicit none

    select case (asked_for())
    case ("a_number_is_read_back")
        call a_number_is_read_back()
    case ("a_number_that_does_not_fit_is_an_error")
        call a_number_that_does_not_fit_is_an_error()
    case ("a_real_number_is_never_read_as_an_integer")
        call a_real_number_is_never_read_as_an_integer()
    case ("a_scalar_keeps_its_type_as_an_array_of_rank_0")
        call a_scalar_keeps_its_type_as_an_array_of_rank_0()
    case ("a_text_keeps_its_blanks_and_its_length")
        call a_text_keeps_its_blanks_and_its_length()
    case ("a_text_fills_one_of_fixed_length_up_with_blanks")
        call a_text_fills_one_of_fixed_length_up_with_blanks()
    case ("bytes_are_no_integers")
        call bytes_are_no_integers()
    case ("an_array_is_allocated_to_fit")
        call an_array_is_allocated_to_fit()
    case ("another_shape_is_an_error_that_names_both")
        call another_shape_is_an_error_that_names_both()
    case ("another_rank_or_type_is_an_error_that_names_both")
        call another_rank_or_type_is_an_error_that_names_both()
    case ("lower_bounds_are_those_of_the_program")
        call lower_bounds_are_those_of_the_program()
    case ("a_slice_is_taken_and_filled")
        call a_slice_is_taken_and_filled()
    case ("an_empty_array_has_its_shape")
        call an_empty_array_has_its_shape()
    case ("integers_without_sign_are_asked_for")
        call integers_without_sign_are_asked_for()
    case ("logicals_of_both_kinds_are_the_same_bytes")
        call logicals_of_both_kinds_are_the_same_bytes()
    case ("nested_values_are_read_by_key_and_place")
        call nested_values_are_read_by_key_and_place()
    case ("what_a_map_has_not_is_an_error_that_names_it")
        call what_a_map_has_not_is_an_error_that_names_it()
    case ("a_view_lies_where_the_value_does")
        call a_view_lies_where_the_value_does()
    case ("a_list_takes_a_copy_of_what_belongs_to_another")
        call a_list_takes_a_copy_of_what_belongs_to_another()
    case default
        error stop 2
    end select
    print "(a)", "held"

contains

    subroutine a_number_is_read_back()
        type(xmml_value) :: value
        real(real64) :: wide
        real(real32) :: narrow
        complex(real32) :: pair
        integer :: whole
        value = xmml_value(2.5_real32)
        call check(value%kind() == XMML_KIND_DOUBLE, "a double")
        call value%get(wide)
        call value%get(narrow)
        call value%get(pair)
        call check(wide == 2.5 .and. narrow == 2.5 .and. pair == (2.5, 0.0), "2.5")
        call value%free()
        value = xmml_value(-7_int16)
        call value%get(whole)
        call value%get(wide)
        call check(whole == -7 .and. wide == -7, "-7")
        call value%free()
        value = xmml_value((1.0, -2.0))
        call value%get(pair)
        call check(pair == (1.0, -2.0), "1 - 2i")
        call value%free()
    end subroutine

    subroutine a_number_that_does_not_fit_is_an_error()
        type(xmml_value) :: value
        integer(int8) :: small
        integer(int64) :: large
        integer :: status
        character(200) :: message
        small = 1
        value = xmml_value(-128)
        call value%get(small)
        call check(small == -128, "the least")
        call value%free()
        value = xmml_value(128)
        call value%get(small, status=status, message=message)
        call check(status == XMML_ERROR_TYPE .and. small == -128, "one too many")
        call check_says(message, "128 does not fit into an integer of 8 bits")
        call value%free()
        value = xmml_value(huge(large))
        call value%get(large, status=status)
        call check(status == XMML_OK .and. large == huge(large), "the greatest of all")
        call value%free()
    end subroutine

    subroutine a_real_number_is_never_read_as_an_integer()
        type(xmml_value) :: value
        integer :: status, whole
        character(200) :: message
        whole = 42
        value = xmml_value(3.0)
        call value%get(whole, status=status, message=message)
        call check(status == XMML_ERROR_TYPE .and. whole == 42, "left alone")
        call check_says(message, "expected an integer, but found a real number")
        call value%free()
    end subroutine

    subroutine a_scalar_keeps_its_type_as_an_array_of_rank_0()
        type(xmml_value) :: value
        real(real32) :: number
        value = xmml_value(1.5_real32, array=.true.)
        call check(value%dtype() == XMML_F32 .and. size(value%shape()) == 0, "float32 of rank 0")
        call value%get(number)
        call check(number == 1.5, "1.5")
        call value%free()
    end subroutine

    subroutine a_text_keeps_its_blanks_and_its_length()
        type(xmml_value) :: value
        character(:), allocatable :: text
        value = xmml_value(" Gr" // char(195) // char(182) // "  ")
        call value%get(text)
        call check(len(text) == 7 .and. text == " Gr" // char(195) // char(182) // "  ", "the text")
        call value%free()
        value = xmml_value("")
        call value%get(text)
        call check(len(text) == 0, "no text")
        call value%free()
    end subroutine

    subroutine a_text_fills_one_of_fixed_length_up_with_blanks()
        type(xmml_value) :: value
        character(6) :: room
        character(3) :: narrow
        integer :: status
        character(200) :: message
        value = xmml_value("abcd")
        call value%copy_to(room)
        call check(room == "abcd  ", "with blanks")
        call value%copy_to(narrow, status=status, message=message)
        call check(status == XMML_ERROR_TYPE, "too long")
        call check_says(message, "expected at most 3 bytes of text, but found 4")
        call value%free()
    end subroutine

    subroutine bytes_are_no_integers()
        type(xmml_value) :: value
        integer(int8), allocatable :: bytes(:)
        integer :: status
        value = xmml_bytes([1_int8, 0_int8, -1_int8])
        call check(value%kind() == XMML_KIND_BYTES, "bytes")
        call value%get_bytes(bytes)
        call check(all(bytes == [1, 0, -1]), "the bytes")
        call value%get(bytes, status=status)
        call check(status == XMML_ERROR_TYPE, "no array")
        call value%free()
    end subroutine

    subroutine an_array_is_allocated_to_fit()
        type(xmml_value) :: value
        integer, allocatable :: data(:, :)
        allocate(data(5, 5), source=0)
        value = xmml_value(reshape([1, 2, 3, 4, 5, 6], [2, 3]))
        call value%get(data)
        call check(all(shape(data) == [2, 3]), "two by three")
        call check(all(data == reshape([1, 2, 3, 4, 5, 6], [2, 3])), "the elements")
        call value%free()
    end subroutine

    subroutine another_shape_is_an_error_that_names_both()
        type(xmml_value) :: value
        real(real64) :: data(3, 2)
        integer :: status
        character(200) :: message
        data = 9
        value = xmml_value(reshape([real(real64) :: 1, 2, 3, 4, 5, 6], [2, 3]))
        call value%copy_to(data, status=status, message=message)
        call check(status == XMML_ERROR_TYPE .and. all(data == 9), "left alone")
        call check_says(message, "expected (3, 2)")
        call check_says(message, "but found a float64 array of shape (2, 3)")
        call value%free()
    end subroutine

    subroutine another_rank_or_type_is_an_error_that_names_both()
        type(xmml_value) :: value
        real(real64), allocatable :: wide(:, :)
        real(real32), allocatable :: flat(:)
        integer :: status
        character(200) :: message
        value = xmml_value(reshape([1.0, 2.0], [2, 1]))
        call value%get(wide, status=status, message=message)
        call check(status == XMML_ERROR_TYPE .and. .not. allocated(wide), "another type")
        call check_says(message, "expected an array of float64 of rank 2, but found a float32 array of shape (2, 1)")
        call value%get(flat, status=status)
        call check(status == XMML_ERROR_TYPE .and. .not. allocated(flat), "another rank")
        call value%free()
    end subroutine

    subroutine lower_bounds_are_those_of_the_program()
        type(xmml_value) :: value
        integer :: from(0:1, -1:1), to(-5:-4, 10:12)
        from = reshape([1, 2, 3, 4, 5, 6], [2, 3])
        value = xmml_value(from)
        call value%copy_to(to)
        call check(to(-5, 10) == 1 .and. to(-4, 12) == 6, "first and last")
        call value%free()
    end subroutine

    subroutine a_slice_is_taken_and_filled()
        type(xmml_value) :: value
        integer :: from(4, 6), to(6, 4), i
        from = reshape([(i, i = 1, 24)], [4, 6])
        to = 0
        value = xmml_value(from(4:1:-2, 2::3))
        call value%copy_to(to(1:4:3, 2:3))
        call check(all(to(1:4:3, 2:3) == from(4:1:-2, 2::3)), "the elements")
        call check(count(to /= 0) == 4, "and nothing else")
        call value%free()
    end subroutine

    subroutine an_empty_array_has_its_shape()
        type(xmml_value) :: value
        integer(int64) :: nothing(3, 0, 2)
        integer(int64), allocatable :: read(:, :, :)
        value = xmml_value(nothing)
        call check(all(value%shape() == [3, 0, 2]), "its shape")
        call value%get(read)
        call check(all(shape(read) == [3, 0, 2]), "the shape that was read")
        call value%copy_to(nothing)
        call value%free()
    end subroutine

    subroutine integers_without_sign_are_asked_for()
        type(xmml_value) :: value
        integer(int16), allocatable :: bits(:)
        integer :: status
        value = xmml_value([1_int16, -1_int16], unsigned=.true.)
        call check(value%dtype() == XMML_U16, "uint16")
        call value%get(bits, status=status)
        call check(status == XMML_ERROR_TYPE, "never by accident")
        call value%get(bits, unsigned=.true.)
        call check(all(bits == [1, -1]), "the bits of 1 and 65535")
        call value%free()
    end subroutine

    subroutine logicals_of_both_kinds_are_the_same_bytes()
        type(xmml_value) :: value
        logical, allocatable :: wide(:)
        logical(c_bool), allocatable :: narrow(:)
        logical(c_bool), pointer :: where_it_lies(:)
        logical :: both(2), one
        value = xmml_value([.true., .false.])
        call check(value%dtype() == XMML_BOOL, "bool")
        call value%get(wide)
        call value%get(narrow)
        call value%copy_to(both)
        call value%view(where_it_lies)
        call check(wide(1) .and. .not. wide(2) .and. narrow(1) .and. .not. narrow(2), "true, false")
        call check(both(1) .and. .not. both(2) .and. where_it_lies(1) .and. .not. where_it_lies(2), "true, false again")
        call value%free()
        value = xmml_value(.true._c_bool)
        call value%get(one)
        call check(one .and. value%kind() == XMML_KIND_BOOL, "a truth value")
        call value%free()
    end subroutine

    function nested() result(map)
        type(xmml_value) :: map, list
        list = xmml_list()
        call list%add(xmml_value("two"))
        call list%add(xmml_nothing())
        call list%add(xmml_value([1.0, 2.0]))
        map = xmml_map()
        call map%set("list", list)
        call map%set("number", xmml_value(1))
        call map%set("number", xmml_value(2))
    end function

    subroutine nested_values_are_read_by_key_and_place()
        type(xmml_value) :: map, list
        character(:), allocatable :: text
        integer :: number
        real, allocatable :: data(:)
        map = nested()
        call check(map%kind() == XMML_KIND_MAP .and. map%size() == 2, "a map of two")
        call check(map%key(1) == "list" .and. map%has("number") .and. .not. map%has("x"), "its keys")
        call map%get(number, key="number")
        call check(number == 2, "the last one set")
        list = map%at("list")
        call check(list%kind() == XMML_KIND_LIST .and. list%size() == 3, "a list of three")
        call list%get(text, item=1)
        call list%get(data, item=3)
        call check(text == "two" .and. all(data == [1.0, 2.0]), "its elements")
        list = list%item(2)
        call check(list%kind() == XMML_KIND_NOTHING .and. list%describe() == "nothing", "nothing")
        call map%free()
    end subroutine

    subroutine what_a_map_has_not_is_an_error_that_names_it()
        type(xmml_value) :: map, element
        integer :: number, status
        character(200) :: message
        map = nested()
        call map%get(number, key="missing", status=status, message=message)
        call check(status == XMML_ERROR_TYPE, "no such key")
        call check_says(message, 'a map with the keys [list, number] has no key "missing"')
        element = map%item(3, status=status, message=message)
        call check(status == XMML_ERROR_TYPE, "no such element")
        call check_says(message, "has no element 3")
        call map%free()
    end subroutine

    subroutine a_view_lies_where_the_value_does()
        type(xmml_value) :: value
        real(real64), pointer :: first(:, :), second(:, :)
        value = xmml_value(reshape([real(real64) :: 1, 2, 3, 4], [2, 2]))
        call value%view(first)
        call value%view(second)
        call check(associated(first, second) .and. first(2, 1) == 2, "one array")
        call value%free()
    end subroutine

    subroutine a_list_takes_a_copy_of_what_belongs_to_another()
        type(xmml_value) :: map, list, element
        character(:), allocatable :: text
        map = nested()
        list = xmml_list()
        call list%add(map%at("list"))
        call map%free()
        element = list%item(1)
        call element%get(text, item=1)
        call check(text == "two", "still there")
        call list%free()
    end subroutine
end program
