! Puts objects with an attribute of every type, or prints what it takes. See ../test_pools_in_every_language.py.
program every_type
    use, intrinsic :: iso_fortran_env, only: int8, int64, real64
    use xmml
    implicit none

    character(*), parameter :: micro = char(194) // char(181) ! in UTF-8
    character(*), parameter :: of_every_type = &
        "truth=true whole=-3 natural=9007199254740993 number=0.1 text='say """ // micro // """' level=ml " // &
        "moment=2026-11-27T13:30:00.250001+01:00 wholes=[1,-2,9007199254740993] numbers=[0.1,-2.5] raw='raw " // micro // "'"
    type(xmml_instance) :: me

    call me%join()
    do while (me%reuse())
        if (index(me%name(), "writer") == 1) then
            call write_objects()
            call write_groups()
        else
            call read_objects()
        end if
    end do
    call me%leave()

contains

    subroutine print_error(what, status, text)
        character(*), intent(in) :: what, text
        integer, intent(in) :: status
        character(:), allocatable :: kind
        select case (status)
        case (XMML_ERROR_USAGE)
            kind = "usage"
        case (XMML_ERROR_TYPE)
            kind = "type"
        case (XMML_ERROR_NOT_CONNECTED)
            kind = "port"
        case default
            kind = "other"
        end select
        print "(5a)", what, ": ", kind, ": ", trim(text)
    end subroutine

    subroutine write_objects()
        real(real64) :: field(2, 3)
        type(xmml_out_port) :: objects
        integer :: readers, status
        character(300) :: text
        field = reshape([0, 3, 1, 4, 2, 5], [2, 3])
        call me%put("objects", field, of_every_type, readers)
        print "(a, i0)", "readers ", readers
        objects = me%out("objects")
        call objects%put_nothing("whole=4")
        call objects%put_nothing("whloe=4", status=status, message=text)
        call print_error("unknown", status, text)
        call me%put_nothing("objects", "whole=x", status=status, message=text)
        call print_error("mistyped", status, text)
        call me%put("nowhere", 1, readers=readers)
        print "(a, i0)", "nowhere ", readers
        print "(a, i0, 1x, i0)", "wanted ", me%wanted("objects", "whole=4"), objects%wanted("whole=5")
        readers = objects%wanted("whloe=4", status, text)
        call print_error("unwanted", status, text)
    end subroutine

    subroutine write_groups()
        type(xmml_out_port) :: objects
        integer :: readers, status
        character(300) :: text
        objects = me%out("objects")
        call objects%group_begin("whole=5")
        call objects%put_nothing()
        call objects%group_abandon()
        call me%group_begin("objects", "whole=6")
        call objects%group_begin(status=status, message=text)
        call print_error("second", status, text)
        call objects%put_nothing()
        call me%put_nothing("objects", "whole=7")
        call objects%group_end(readers)
        print "(a, i0)", "group ", readers
        call me%group_end("objects", status=status, message=text)
        call print_error("over", status, text)
        call me%group_begin("objects", "whloe=4", status=status, message=text)
        call print_error("common", status, text)
        call me%group_begin("objects", "whole=8")
        call me%put_nothing("objects")
    end subroutine

    subroutine read_objects()
        type(xmml_message) :: object
        type(xmml_in_port) :: objects
        type(xmml_out_port) :: go
        integer :: status, whole
        logical :: taken, late, has_text
        character(300) :: text
        taken = me%take("later", object, timeout=0.01_real64, timed_out=late)
        if (late .and. .not. taken) print "(a)", "timed out"
        go = me%out("go")
        call go%put_nothing()
        call go%end()
        call me%put_nothing("go", status=status, message=text)
        call print_error("late", status, text)
        if (.not. me%take("later", object)) print "(a)", "ended"
        taken = me%take("nowhere", object, status=status, message=text)
        call print_error("nowhere", status, text)
        objects = me%in("objects")
        do while (objects%take(object))
            call print_object(object)
            call object%attribute("truht", whole, status=status, message=text)
            call print_error("unknown", status, text)
            call object%attribute("text", whole, found=has_text, status=status, message=text)
            if (has_text) then
                call print_error("mistyped", status, text)
            else
                call object%attribute("text", whole, status=status, message=text)
                call print_error("absent", status, text)
            end if
        end do
    end subroutine

    subroutine print_object(object)
        type(xmml_message), intent(in) :: object
        logical :: truth, has_truth, is_in_group
        integer :: whole, i, group, follow
        integer(int64) :: natural
        integer(int64), allocatable :: wholes(:)
        real(real64) :: number
        real(real64), allocatable :: numbers(:), field(:, :)
        integer(int8), allocatable :: raw(:)
        character(:), allocatable :: text, level, moment, line
        call object%attribute("sys.instance", line)
        do i = 1, object%attribute_count()
            line = line // merge(" ", ",", i == 1) // object%attribute_name(i)
        end do
        call object%attribute("whole", whole)
        call object%attribute("truth", truth, found=has_truth)
        if (.not. has_truth) then
            call object%attribute("sys.group", group, found=is_in_group)
            if (is_in_group) then
                call object%attribute("sys.follow", follow)
                print "(a, 4(a, i0))", line, " whole ", whole, " kind ", object%kind(), " group ", group, " follow ", follow
            else
                print "(a, 2(a, i0))", line, " whole ", whole, " kind ", object%kind()
            end if
            return
        end if
        call object%attribute("natural", natural)
        call object%attribute("number", number)
        call object%attribute("text", text)
        call object%attribute("level", level)
        call object%attribute("moment", moment)
        call object%attribute("wholes", wholes)
        call object%attribute("numbers", numbers)
        call object%attribute_bytes("raw", raw)
        call object%get(field)
        print "(2a, 2(a, i0), *(a))", line, " truth " // trim(merge("true ", "false", truth)), &
            " whole ", whole, " natural ", natural, " number " // bits(number), &
            " text " // hex(transfer(text, [0_int8])), " level " // level, &
            " moment " // moment, " wholes", (" " // decimal(wholes(i)), i = 1, size(wholes)), &
            " numbers", (" " // bits(numbers(i)), i = 1, size(numbers)), " raw " // hex(raw), &
            " elements " // decimal(int(field(1, 2), int64)) // " " // decimal(int(field(2, 1), int64))
    end subroutine

    function decimal(number) result(text)
        integer(int64), intent(in) :: number
        character(:), allocatable :: text
        character(20) :: written
        write(written, "(i0)") number
        text = trim(written)
    end function

    function bits(number) result(text)
        real(real64), intent(in) :: number
        character(16) :: text
        write(text, "(z16.16)") transfer(number, 0_int64)
    end function

    function hex(bytes) result(text)
        integer(int8), intent(in) :: bytes(:)
        character(2 * size(bytes)) :: text
        write(text, "(*(z2.2))") bytes
    end function
end program
