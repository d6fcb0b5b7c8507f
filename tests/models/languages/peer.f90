! The peer of the cross-language suite in Fortran: sends every case on every out port, or describes what arrives. See README.md.
! fortran_peer.py puts in, at the signs, what differs by type and rank.
program peer
    use, intrinsic :: ieee_arithmetic, only: ieee_value, ieee_quiet_nan, ieee_positive_inf, ieee_negative_inf
    use, intrinsic :: iso_c_binding, only: c_bool
    use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
    use xmml
    implicit none

    type(xmml_instance) :: me
    character(:), allocatable :: cases, languages, file, name
    integer :: position = 1, number = 0, arrays = 0
    logical :: writes
    real(real64) :: t

    call me%join()
    call me%param("languages", languages)
    call me%param("cases", file)
    name = me%name()
    writes = name(1:1) == "w"
    if (writes) cases = contents(file)
    do while (me%reuse())
        do while (me%step(t))
            call for_each_language()
            number = number + 1
        end do
    end do
    call me%leave()

contains

    subroutine for_each_language()
        type(xmml_value) :: value
        character(:), allocatable :: time, next, words, language
        integer :: blank
        type(xmml_out_port) :: out
        real(real64) :: following
        time = ""
        next = ""
        if (writes) then
            if (whole(token()) /= number) error stop "number of the case"
            time = token()
            next = token()
            arrays = 0
            value = value_of(token())
        end if
        words = languages // " "
        do while (len_trim(words) > 0)
            blank = index(words, " ")
            language = words(:blank - 1)
            words = words(blank + 1:)
            if (.not. writes) then
                call read_case("from_" // language)
            else if (next == "-") then
                call me%send("to_" // language, value, timestamp=double(time))
            else
                following = xmml_no_time()
                if (next /= "none") following = double(next)
                if (mod(number, 2) == 1) then
                    out = me%out("to_" // language)
                    call out%send(value, timestamp=double(time), next_timestamp=following)
                else
                    call me%send("to_" // language, value, timestamp=double(time), next_timestamp=following)
                end if
            end if
        end do
        if (writes) call value%free()
    end subroutine

    ! -------------------------------------------------------------------------------------------------------------- elements

    ! Bits of element number n, counted with the last index fastest, of array number seed: as many bytes as it has, little-endian.
    function element(dtype, n, seed) result(bytes)
        character(*), intent(in) :: dtype
        integer(int64), intent(in) :: n
        integer, intent(in) :: seed
        integer(int8), allocatable :: bytes(:)
        integer(int64) :: m, other, signed
        m = modulo(modulo(n, 8191_int64) * 131 + int(seed, int64) * 29, 8191_int64)
        other = modulo(m * 7 + 3, 8191_int64)
        allocate(bytes(0))
        select case (dtype)
        case ("bool")
            bytes = [int(modulo(m, 2_int64), int8)]
        case ("int8", "uint8")
            signed = modulo(m, 256_int64) - 128
            bytes = flipped(transfer(int(signed, int8), bytes), dtype)
        case ("int16", "uint16")
            bytes = flipped(transfer(int(m * 8 - 32768, int16), bytes), dtype)
        case ("int32", "uint32")
            bytes = flipped(transfer(int(m * 524288 + m - 2147483648_int64, int32), bytes), dtype)
        case ("int64", "uint64")
            bytes = flipped(transfer((m - 4096) * 2251799813685248_int64 + m, bytes), dtype)
        case ("float32")
            bytes = transfer(single(m), bytes)
        case ("float64")
            bytes = transfer(twofold(m), bytes)
        case ("complex64")
            bytes = transfer([single(m), single(other)], bytes)
        case ("complex128")
            bytes = transfer([twofold(m), twofold(other)], bytes)
        end select
    end function

    ! Of an unsigned type: the number with sign, with its highest bit the other way round.
    function flipped(bytes, dtype) result(turned)
        integer(int8), intent(in) :: bytes(:)
        character(*), intent(in) :: dtype
        integer(int8) :: turned(size(bytes))
        turned = bytes
        if (dtype(1:1) == "u") turned(size(turned)) = ieor(turned(size(turned)), not(huge(1_int8)))
    end function

    real(real32) function single(m)
        integer(int64), intent(in) :: m
        select case (m)
        case (0)
            single = -0.0_real32
        case (1)
            single = ieee_value(single, ieee_positive_inf)
        case (2)
            single = ieee_value(single, ieee_negative_inf)
        case (3)
            single = ieee_value(single, ieee_quiet_nan)
        case (4)
            single = transfer(1_int32, single)
        case (5)
            single = huge(single)
        case default
            single = (real(m, real32) - 4096) / 64
        end select
    end function

    real(real64) function twofold(m)
        integer(int64), intent(in) :: m
        select case (m)
        case (0)
            twofold = -0.0_real64
        case (1)
            twofold = ieee_value(twofold, ieee_positive_inf)
        case (2)
            twofold = ieee_value(twofold, ieee_negative_inf)
        case (3)
            twofold = ieee_value(twofold, ieee_quiet_nan)
        case (4)
            twofold = transfer(1_int64, twofold)
        case (5)
            twofold = huge(twofold)
        case default
            twofold = (real(m, real64) - 4096) / 64 + real(m, real64) * 2.0_real64**(-40)
        end select
    end function

    ! All elements of an array as Fortran lays them out, the first index fastest.
    function elements(dtype, extents, seed) result(bytes)
        character(*), intent(in) :: dtype
        integer(int64), intent(in) :: extents(:)
        integer, intent(in) :: seed
        integer(int8), allocatable :: bytes(:)
        integer(int8), allocatable :: known(:, :) ! the element is the same again after 8191
        integer(int64) :: index(size(extents)), place, n
        integer :: width, d
        width = size(element(dtype, 0_int64, seed))
        allocate(bytes(product(extents) * width), known(width, 0:8190))
        do n = 0, min(8190_int64, product(extents) - 1)
            known(:, n) = element(dtype, n, seed)
        end do
        index = 0
        do place = 0, product(extents) - 1
            n = 0
            do d = 1, size(extents)
                n = n * extents(d) + index(d)
            end do
            bytes(place * width + 1:(place + 1) * width) = known(:, modulo(n, 8191_int64))
            do d = 1, size(extents)
                index(d) = index(d) + 1
                if (index(d) < extents(d)) exit
                index(d) = 0
            end do
        end do
    end function

@typed@

    ! --------------------------------------------------------------------------------------------------------------- writing

    function contents(path) result(text)
        character(*), intent(in) :: path
        character(:), allocatable :: text
        integer :: unit, length
        open(newunit=unit, file=path, access="stream", form="unformatted", status="old", action="read")
        inquire(unit, size=length)
        allocate(character(length) :: text)
        read(unit) text
        close(unit)
    end function

    function token() result(word)
        character(:), allocatable :: word
        integer :: first
        do while (is_blank(cases(position:position)))
            position = position + 1
        end do
        first = position
        do while (.not. is_blank(cases(position:position)))
            position = position + 1
        end do
        word = cases(first:position - 1)
    end function

    logical function is_blank(character)
        character(1), intent(in) :: character
        is_blank = character == " " .or. character == char(10)
    end function

    integer(int64) function whole(word)
        character(*), intent(in) :: word
        read(word, *) whole
    end function

    real(real64) function double(bits)
        character(*), intent(in) :: bits
        integer(int64) :: pattern
        read(bits, "(z16)") pattern
        double = transfer(pattern, double)
    end function

    ! "x4142" to bytes.
    function unhex(word) result(bytes)
        character(*), intent(in) :: word
        integer(int8), allocatable :: bytes(:)
        integer :: i, code
        allocate(bytes(len(word) / 2))
        do i = 1, size(bytes)
            read(word(2 * i:2 * i + 1), "(z2)") code
            bytes(i) = transfer(code, 0_int8)
        end do
    end function

    function text_of(bytes) result(text)
        integer(int8), intent(in) :: bytes(:)
        character(size(bytes)) :: text
        text = transfer(bytes, text)
    end function

    recursive function value_of(kind) result(value)
        character(*), intent(in) :: kind
        type(xmml_value) :: value
        character(:), allocatable :: word
        real(real64) :: part
        select case (kind)
        case ("nothing")
            value = xmml_nothing()
        case ("bool")
            value = xmml_value(token() == "1")
        case ("int")
            value = xmml_value(whole(token()))
        case ("double")
            value = xmml_value(double(token()))
        case ("complex")
            part = double(token())
            value = xmml_value(pair(part, double(token())))
        case ("text")
            value = xmml_value(text_of(unhex(token())))
        case ("bytes")
            value = xmml_bytes(unhex(token()))
        case ("array")
            value = array_value()
        case ("[")
            value = xmml_list()
            word = token()
            do while (word /= "]")
                call value%add(value_of(word))
                word = token()
            end do
        case ("{")
            value = xmml_map()
            word = token()
            do while (word /= "}")
                call value%set(text_of(unhex(word)), value_of(token()))
                word = token()
            end do
        case default
            error stop "no such kind"
        end select
    end function

    complex(real64) function pair(real_part, imaginary_part)
        real(real64), intent(in) :: real_part, imaginary_part
        pair = cmplx(real_part, imaginary_part, real64)
    end function

    function array_value() result(value)
        type(xmml_value) :: value
        character(:), allocatable :: dtype, order
        integer(int64), allocatable :: shape(:)
        integer(int8), allocatable :: bytes(:)
        integer :: i, seed
        dtype = token()
        order = token() ! Fortran's arrays are column-major
        allocate(shape(whole(token())))
        do i = 1, size(shape)
            shape(i) = whole(token())
        end do
        seed = number + 100 * arrays
        arrays = arrays + 1
        bytes = elements(dtype, shape, seed)
        select case (dtype)
@made@
        end select
    end function

    ! --------------------------------------------------------------------------------------------------------------- reading

    subroutine read_case(port)
        character(*), intent(in) :: port
        type(xmml_message) :: message
        type(xmml_in_port) :: in
        integer :: unit
        character(20) :: digits
        arrays = 0
        if (mod(number, 2) == 1) then
            in = me%in(port)
            call in%receive(message)
        else
            call me%receive(port, message)
        end if
        write(digits, "(i0)") number
        open(newunit=unit, file=port, position="append", action="write", access="stream", form="formatted")
        write(unit, "(a)", advance="no") trim(digits) // bits(message%timestamp())
        if (message%has_next()) then
            write(unit, "(a)", advance="no") bits(message%next_timestamp())
        else
            write(unit, "(a)", advance="no") " none"
        end if
        write(unit, "(a)") described(message)
        close(unit)
        call message%free()
    end subroutine

    function bits(number) result(text)
        real(real64), intent(in) :: number
        character(17) :: text
        character(16), parameter :: digits = "0123456789abcdef"
        integer(int64) :: pattern
        integer :: i, digit
        pattern = transfer(number, pattern)
        text = ""
        do i = 1, 16
            digit = int(iand(ishft(pattern, -4 * (16 - i)), 15_int64))
            text(i + 1:i + 1) = digits(digit + 1:digit + 1)
        end do
    end function

    function hex(bytes) result(text)
        integer(int8), intent(in) :: bytes(:)
        character(:), allocatable :: text
        character(16), parameter :: digits = "0123456789abcdef"
        integer :: i, byte
        allocate(character(2 + 2 * size(bytes)) :: text)
        text(1:2) = " x"
        do i = 1, size(bytes)
            byte = iand(int(bytes(i)), 255)
            text(2 * i + 1:2 * i + 1) = digits(byte / 16 + 1:byte / 16 + 1)
            text(2 * i + 2:2 * i + 2) = digits(modulo(byte, 16) + 1:modulo(byte, 16) + 1)
        end do
    end function

    recursive function described(value) result(text)
        class(xmml_value), intent(in) :: value
        character(:), allocatable :: text, found
        logical :: truth
        integer(int64) :: whole_number
        real(real64) :: real_number
        complex(real64) :: complex_number
        integer(int8), allocatable :: bytes(:)
        character(30) :: digits
        integer :: i
        text = ""
        select case (value%kind())
        case (XMML_KIND_NOTHING)
            text = " nothing"
        case (XMML_KIND_BOOL)
            call value%get(truth)
            text = " bool " // merge("1", "0", truth)
        case (XMML_KIND_INT)
            call value%get(whole_number)
            write(digits, "(i0)") whole_number
            text = " int " // trim(digits)
        case (XMML_KIND_DOUBLE)
            call value%get(real_number)
            text = " double" // bits(real_number)
        case (XMML_KIND_COMPLEX)
            call value%get(complex_number)
            text = " complex" // bits(real(complex_number)) // bits(aimag(complex_number))
        case (XMML_KIND_TEXT)
            call value%get(found)
            text = " text" // hex(transfer(found, [0_int8]))
        case (XMML_KIND_BYTES)
            allocate(bytes(0))
            call value%get_bytes(bytes)
            text = " bytes" // hex(bytes)
        case (XMML_KIND_ARRAY)
            text = described_array(value)
        case (XMML_KIND_LIST)
            text = " ["
            do i = 1, value%size()
                text = text // described(value%item(i))
            end do
            text = text // " ]"
        case (XMML_KIND_MAP)
            text = " {"
            do i = 1, value%size()
                found = value%key(i)
                text = text // hex(transfer(found, [0_int8]))
                text = text // described(value%item(i))
            end do
            text = text // " }"
        end select
    end function

    function described_array(value) result(text)
        class(xmml_value), intent(in) :: value
        character(:), allocatable :: text, dtype
        character(10), parameter :: dtypes(0:12) = [character(10) :: "bool", "int8", "int16", "int32", "int64", "uint8", &
            "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128"]
        integer(int64), allocatable :: shape(:)
        integer(int8), allocatable :: bytes(:)
        character(30) :: digits
        integer :: i, seed
        dtype = trim(dtypes(value%dtype()))
        shape = value%shape()
        allocate(bytes(0))
        select case (dtype)
@taken@
        end select
        text = " array " // dtype // merge(" row   ", " column", value%order() == XMML_ROW_MAJOR)
        text = trim(text) // " column"
        write(digits, "(i0)") size(shape)
        text = text // " " // trim(digits)
        do i = 1, size(shape)
            write(digits, "(i0)") shape(i)
            text = text // " " // trim(digits)
        end do
        text = text // adler(bytes)
        seed = number + 100 * arrays
        arrays = arrays + 1
        if (any(bytes /= elements(dtype, shape, seed))) text = text // " wrong"
    end function

    function adler(bytes) result(text)
        integer(int8), intent(in) :: bytes(:)
        character(9) :: text
        character(17) :: digits
        integer(int64) :: a, b, i
        a = 1
        b = 0
        do i = 1, size(bytes, kind=int64)
            a = a + iand(int(bytes(i), int64), 255_int64)
            b = b + a
            if (modulo(i, 4096_int64) == 0) then
                a = modulo(a, 65521_int64)
                b = modulo(b, 65521_int64)
            end if
        end do
        a = modulo(a, 65521_int64)
        b = modulo(b, 65521_int64)
        digits = bits(transfer(ior(ishft(b, 16), a), 0.0_real64))
        text = " " // digits(10:17)
    end function
end program
