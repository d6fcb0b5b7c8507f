! Bound ports: looked up once, then used without their names.
program ports
    use, intrinsic :: iso_fortran_env, only: int8, real64
    use behaviour
    use xmml
    implicit none

    select case (asked_for())
    case ("a_misspelt_port_is_the_error_of_a_call_when_it_is_bound")
        call a_misspelt_port_is_the_error_of_a_call_when_it_is_bound()
    case ("a_port_of_the_other_direction_is_the_error_of_a_call")
        call a_port_of_the_other_direction_is_the_error_of_a_call()
    case ("a_bound_port_sends_and_receives")
        call a_bound_port_sends_and_receives()
    case ("a_bound_port_addresses_one_copy")
        call a_bound_port_addresses_one_copy()
    case ("a_bound_port_takes_times_and_time_outs")
        call a_bound_port_takes_times_and_time_outs()
    case ("a_bound_port_receives_into_what_is_there")
        call a_bound_port_receives_into_what_is_there()
    case ("texts_bytes_and_nothing_are_sent_on_a_bound_port")
        call texts_bytes_and_nothing_are_sent_on_a_bound_port()
    case ("an_error_names_the_bound_port_of_the_message")
        call an_error_names_the_bound_port_of_the_message()
    case ("a_port_that_is_not_bound_is_an_error")
        call a_port_that_is_not_bound_is_an_error()
    case ("a_bound_port_of_an_instance_that_has_left_is_the_usual_error")
        call a_bound_port_of_an_instance_that_has_left_is_the_usual_error()
    case ("a_bound_port_stays_with_the_instance_that_was_joined_first")
        call a_bound_port_stays_with_the_instance_that_was_joined_first()
    case ("a_port_of_messages_refuses_objects")
        call a_port_of_messages_refuses_objects()
    case ("a_message_has_no_attributes")
        call a_message_has_no_attributes()
    case default
        error stop 2
    end select
    print "(a)", "held"

contains

    ! In its first step. In: in (S), from (S, two copies); out: out (O_i), to (O_i, three copies).
    function started() result(me)
        type(xmml_instance) :: me
        type(xmml_alone) :: plan
        call plan%new("cell")
        call plan%port("out", "Oi")
        call plan%port("to", "Oi*3")
        call plan%port("in", "S")
        call plan%port("from", "S*2")
        call plan%steps(2, 1.0_real64)
        call plan%input("in", 1.5_real64, xmml_value([2.0_real64, 3.0_real64]))
        call plan%input("in", 2.5_real64, xmml_value("text"))
        call plan%input("from[0]", 2.5_real64, xmml_value(5))
        call plan%input("from[1]", 3.5_real64, xmml_value(6))
        call plan%join(me)
        call check(me%reuse() .and. me%step(), "a step")
    end function

    subroutine a_misspelt_port_is_the_error_of_a_call_when_it_is_bound()
        type(xmml_instance) :: me
        type(xmml_out_port) :: out
        type(xmml_in_port) :: in
        character(300) :: by_name, bound
        integer :: status
        me = started()
        call me%send("powr", 1, status=status, message=by_name)
        call check(status == XMML_ERROR_PORT, "no such port")
        out = me%out("powr", status, bound)
        call check(status == XMML_ERROR_PORT .and. bound == by_name, "the same of an out port")
        in = me%in("powr", status, bound)
        call check(status == XMML_ERROR_PORT .and. bound == by_name, "the same of an in port")
        call me%free()
    end subroutine

    subroutine a_port_of_the_other_direction_is_the_error_of_a_call()
        type(xmml_instance) :: me
        type(xmml_out_port) :: out
        type(xmml_in_port) :: in
        type(xmml_message) :: data
        character(300) :: by_name, bound
        integer :: status
        me = started()
        call me%send("in", 1, status=status, message=by_name)
        out = me%out("in", status, bound)
        call check(status == XMML_ERROR_PORT .and. bound == by_name, "it receives")
        call me%receive("out", data, status=status, message=by_name)
        in = me%in("out", status, bound)
        call check(status == XMML_ERROR_PORT .and. bound == by_name, "it sends")
        call me%free()
    end subroutine

    subroutine a_bound_port_sends_and_receives()
        type(xmml_instance) :: me
        type(xmml_out_port) :: out, to
        type(xmml_in_port) :: in
        type(xmml_message) :: sent
        real(real64), allocatable :: numbers(:)
        me = started()
        out = me%out("out")
        to = me%out("to  ")
        in = me%in("in")
        call check(out%name() == "out" .and. to%name() == "to" .and. in%name() == "in", "their names")
        call check(out%connected() .and. out%copies() == 0 .and. len(out%methods()) > 0, "what is asked about a port")
        call out%send([1.5_real64, 2.5_real64])
        call to%skip()
        call check(in%has_message(), "a message")
        call in%receive(numbers)
        call check(all(numbers == [2, 3]), "what was sent to it")
        call check(out%output(1, sent), "an output")
        call sent%get(numbers)
        call check(all(numbers == [1.5, 2.5]), "what it has sent")
        call sent%free()
        call me%free()
    end subroutine

    subroutine a_bound_port_addresses_one_copy()
        type(xmml_instance) :: me
        type(xmml_out_port) :: out, to
        type(xmml_in_port) :: from
        type(xmml_message) :: sent
        integer :: i, number, status
        me = started()
        out = me%out("out")
        to = me%out("to")
        from = me%in("from")
        call out%skip()
        do i = 0, to%copies() - 1
            call to%send(i, to=i)
        end do
        call check(me%output("to[2]", 1, sent), "an output")
        call sent%get(number)
        call check(number == 2, "of that copy")
        call to%send(1, to=3, status=status)
        call check(status < 0, "no copy 3")
        call check(from%has_message(1), "a message of copy 1")
        call from%receive(number, of=1)
        call check(number == 6, "its message")
        call sent%free()
        call me%free()
    end subroutine

    subroutine a_bound_port_takes_times_and_time_outs()
        type(xmml_instance) :: me
        type(xmml_out_port) :: out
        type(xmml_in_port) :: in
        type(xmml_message) :: data
        real(real64) :: time
        logical :: timed_out
        me = started()
        out = me%out("out")
        in = me%in("in")
        call out%send(1, timestamp=20.0_real64, next_timestamp=xmml_no_time())
        call check(out%output(1, data), "an output")
        call check(data%timestamp() == 20 .and. .not. data%has_next(), "its times")
        call me%skip("to")
        call in%receive(data, timeout=1.0_real64, timestamp=time, timed_out=timed_out)
        call check(time == 1.5 .and. .not. timed_out, "in time")
        call data%free()
        call me%free()
    end subroutine

    subroutine a_bound_port_receives_into_what_is_there()
        type(xmml_instance) :: me
        type(xmml_in_port) :: in
        real(real64) :: numbers(2)
        me = started()
        in = me%in("in")
        call me%skip("out")
        call me%skip("to")
        call in%receive_into(numbers)
        call check(all(numbers == [2, 3]), "what was sent to it")
        call me%free()
    end subroutine

    subroutine texts_bytes_and_nothing_are_sent_on_a_bound_port()
        type(xmml_alone) :: plan
        type(xmml_instance) :: me
        type(xmml_out_port) :: text, bytes, nothing
        type(xmml_in_port) :: in
        type(xmml_message) :: sent
        character(:), allocatable :: read
        call plan%new("cell")
        call plan%port("text", "Oi")
        call plan%port("bytes", "Oi")
        call plan%port("nothing", "Oi")
        call plan%port("in", "S")
        call plan%input("in", 0.0_real64, xmml_value("read"))
        call plan%join(me)
        call check(me%reuse() .and. me%step(), "a step")
        text = me%out("text")
        bytes = me%out("bytes")
        nothing = me%out("nothing")
        in = me%in("in")
        call text%send("said")
        call bytes%send_bytes([1_int8, -1_int8])
        call nothing%send_nothing()
        call in%receive(read)
        call check(read == "read", "a text")
        call check(nothing%output(1, sent), "a message")
        call check(sent%kind() == XMML_KIND_NOTHING, "with nothing in it")
        call sent%free()
        call me%free()
    end subroutine

    subroutine an_error_names_the_bound_port_of_the_message()
        type(xmml_instance) :: me
        type(xmml_in_port) :: in
        integer :: number, status
        character(300) :: message
        me = started()
        in = me%in("in")
        call me%skip("out")
        call me%skip("to")
        call in%receive(number, status=status, message=message)
        call check(status == XMML_ERROR_TYPE, "no number")
        call check_says(message, "cell.in")
        call me%free()
    end subroutine

    subroutine a_port_of_messages_refuses_objects()
        type(xmml_instance) :: me
        type(xmml_out_port) :: out
        type(xmml_in_port) :: in
        type(xmml_message) :: object
        integer :: status, readers
        character(300) :: message
        me = started()
        out = me%out("out")
        in = me%in("in")
        call me%put("out", [2.0_real64, 3.0_real64], "step=1", readers, status=status, message=message)
        call check(status == XMML_ERROR_USAGE .and. readers == 0, "by name")
        call check_says(message, "cell.out: objects cannot be put here")
        call out%put("text", status=status)
        call check(status == XMML_ERROR_USAGE, "a text")
        call out%put_bytes([1_int8], status=status)
        call check(status == XMML_ERROR_USAGE, "bytes")
        call check(.not. in%take(object, status=status, message=message), "an object")
        call check(status == XMML_ERROR_USAGE, "to be taken")
        call check_says(message, "cell.in: objects cannot be taken here")
        call check(.not. me%take("in", object, timeout=-1.0_real64, status=status, message=message), "in no time")
        call check_says(message, "cell.in: a time-out of -1 s")
        call me%free()
    end subroutine

    subroutine a_message_has_no_attributes()
        type(xmml_instance) :: me
        type(xmml_message) :: data
        integer :: status, step
        logical :: found
        character(300) :: message
        me = started()
        call me%skip("out")
        call me%skip("to")
        call me%receive("in", data)
        call data%attribute("step", step, found=found, status=status, message=message)
        call check(status == XMML_ERROR_USAGE .and. .not. found, "an attribute")
        call check_says(message, "has no attributes")
        call check(data%attribute_count() == 0 .and. data%attribute_name(1) == "", "names")
        call data%free()
        call me%free()
    end subroutine

    subroutine a_port_that_is_not_bound_is_an_error()
        type(xmml_out_port) :: out
        integer :: status
        call out%send(1, status=status)
        call check(status == XMML_ERROR_USAGE .and. out%name() == "", "not bound")
    end subroutine

    subroutine a_bound_port_of_an_instance_that_has_left_is_the_usual_error()
        type(xmml_alone) :: plan
        type(xmml_instance) :: me
        type(xmml_out_port) :: out
        type(xmml_in_port) :: in
        type(xmml_message) :: data
        integer :: status
        character(300) :: message
        call plan%new("cell")
        call plan%port("out", "Oi")
        call plan%port("in", "S")
        call plan%join(me)
        out = me%out("out")
        in = me%in("in")
        call me%leave()
        call out%send(1, status=status, message=message)
        call check(status == XMML_ERROR_USAGE, "it has left")
        call check_says(message, "me is a null pointer")
        call in%receive(data, status=status)
        call check(status == XMML_ERROR_USAGE .and. in%name() == "in", "it has left")
    end subroutine

    subroutine a_bound_port_stays_with_the_instance_that_was_joined_first()
        type(xmml_instance) :: me
        type(xmml_out_port) :: first, second
        integer :: status
        me = started()
        first = me%out("out")
        call me%free()
        me = started()
        second = me%out("out")
        call first%send(1, status=status)
        call check(status == XMML_ERROR_USAGE, "the first has gone")
        call second%send(1)
        call me%free()
    end subroutine
end program
