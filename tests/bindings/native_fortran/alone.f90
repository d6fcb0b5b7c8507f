! An instance by itself: the loop, sending, receiving, parameters.
program alone
    use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
    use behaviour
    use xmml
    implicit none

    select case (asked_for())
    case ("the_loop_runs_the_steps_of_the_model")
        call the_loop_runs_the_steps_of_the_model()
    case ("what_is_sent_bears_the_times_of_the_loop")
        call what_is_sent_bears_the_times_of_the_loop()
    case ("times_can_be_given")
        call times_can_be_given()
    case ("parameters_are_converted_to_the_unit")
        call parameters_are_converted_to_the_unit()
    case ("a_parameter_that_is_absent_takes_the_default")
        call a_parameter_that_is_absent_takes_the_default()
    case ("a_parameter_that_does_not_fit_is_an_error")
        call a_parameter_that_does_not_fit_is_an_error()
    case ("the_end_of_the_sender_is_an_outcome_or_an_error")
        call the_end_of_the_sender_is_an_outcome_or_an_error()
    case ("what_is_asked_about_the_model_is_told")
        call what_is_asked_about_the_model_is_told()
    case ("an_error_names_the_port_of_the_message")
        call an_error_names_the_port_of_the_message()
    case ("a_message_is_sent_on_as_it_is")
        call a_message_is_sent_on_as_it_is()
    case ("a_call_out_of_order_is_an_error")
        call a_call_out_of_order_is_an_error()
    case ("an_unknown_port_is_an_error_that_names_the_known")
        call an_unknown_port_is_an_error_that_names_the_known()
    case ("a_loan_is_filled_and_sent")
        call a_loan_is_filled_and_sent()
    case ("a_loan_goes_back")
        call a_loan_goes_back()
    case ("bytes_and_nothing_are_sent")
        call bytes_and_nothing_are_sent()
    case ("a_copy_that_is_not_there_is_an_error")
        call a_copy_that_is_not_there_is_an_error()
    case ("leaving_twice_is_an_error")
        call leaving_twice_is_an_error()
    case default
        error stop 2
    end select
    print "(a)", "held"

contains

    ! in: start (f_init), in (S); out: out (O_i), final (O_f). Two steps of 0.5 s.
    function described() result(plan)
        type(xmml_alone) :: plan
        call plan%new("cell")
        call plan%port("start", "finit")
        call plan%port("out", "Oi")
        call plan%port("in", "S")
        call plan%port("final", "Of")
        call plan%steps(2, 0.5_real64)
        call plan%scale("x", 0.1_real64, 4.0_real64)
        call plan%param("length", "2 km")
        call plan%param("cells", "40")
        call plan%param("large", "5000000000")
        call plan%param("closed", "yes")
        call plan%param("scheme", "hll")
    end function

    ! In the first step of its run, with f_init received.
    function stepping() result(me)
        type(xmml_instance) :: me
        type(xmml_alone) :: plan
        real(real64) :: start
        plan = described()
        call plan%input("start", 10.0_real64, xmml_value(1.0))
        call plan%input("in", 10.0_real64, xmml_value([2.0_real64, 3.0_real64]))
        call plan%input("in", 10.5_real64, xmml_value("text"))
        call plan%join(me)
        call check(me%reuse(), "a run")
        call me%receive("start", start)
        call check(me%step(), "a step")
    end function

    subroutine the_loop_runs_the_steps_of_the_model()
        type(xmml_alone) :: plan
        type(xmml_instance) :: me
        real(real64) :: t, start, sum
        integer :: steps
        plan = described()
        call plan%input("start", 10.0_real64, xmml_value(1.0))
        call plan%input("in", 10.0_real64, xmml_value(2))
        call plan%input("in", 10.5_real64, xmml_value(3))
        call plan%join(me)
        steps = 0
        sum = 0
        do while (me%reuse())
            call me%receive("start", start)
            call check(me%origin() == 10, "the origin")
            do while (me%step(t))
                call check(t == 10 + steps * 0.5 .and. t == me%time(), "the time")
                call me%send("out", start)
                call me%receive("in", start)
                sum = sum + start
                steps = steps + 1
            end do
            call me%send("final", sum)
        end do
        call check(steps == 2 .and. sum == 5, "two steps")
        call me%leave()
    end subroutine

    subroutine what_is_sent_bears_the_times_of_the_loop()
        type(xmml_instance) :: me
        type(xmml_message) :: sent
        real(real32), allocatable :: read(:, :)
        me = stepping()
        call me%send("out", reshape([1.0, 2.0, 3.0, 4.0], [2, 2]))
        call check(me%output("out", 1, sent), "one message")
        call check(sent%timestamp() == 10 .and. sent%has_next() .and. sent%next_timestamp() == 10.5, "its times")
        call check(sent%order() == XMML_COLUMN_MAJOR, "as it lies in Fortran")
        call sent%get(read)
        call check(read(2, 1) == 2, "its elements")
        call check(.not. me%output("out", 2, sent), "and no other")
        call me%free()
    end subroutine

    subroutine times_can_be_given()
        type(xmml_instance) :: me
        type(xmml_message) :: sent
        me = stepping()
        call me%send("out", 1, timestamp=11.0_real64, next_timestamp=xmml_no_time())
        call check(me%output("out", 1, sent), "one message")
        call check(sent%timestamp() == 11 .and. .not. sent%has_next(), "its times")
        call sent%free()
        call me%free()
    end subroutine

    subroutine parameters_are_converted_to_the_unit()
        type(xmml_instance) :: me
        real(real64) :: length
        real(real32) :: short
        integer :: cells
        integer(int64) :: large
        logical :: closed
        character(:), allocatable :: scheme
        me = stepping()
        call me%param("length", length, unit="m")
        call me%param("length", short, "km")
        call me%param("cells", cells)
        call me%param("large", large)
        call me%param("closed", closed)
        call me%param("scheme", scheme)
        call check(length == 2000 .and. short == 2 .and. cells == 40 .and. closed .and. scheme == "hll", "the parameters")
        call check(large == 5000000000_int64, "the large one")
        call me%free()
    end subroutine

    subroutine a_parameter_that_is_absent_takes_the_default()
        type(xmml_instance) :: me
        real(real64) :: length, other
        integer :: cells
        logical :: open
        character(:), allocatable :: scheme
        me = stepping()
        call me%param("length", length, unit="m", default=1.0_real64)
        call me%param("width", other, unit="m", default=1.5_real64)
        call me%param("rows", cells, default=7)
        call me%param("open", open, default=.true.)
        call me%param("solver", scheme, default="roe")
        call check(length == 2000 .and. other == 1.5 .and. cells == 7 .and. open .and. scheme == "roe", "defaults")
        call check(me%has_param("length") .and. .not. me%has_param("width"), "what is set")
        call me%free()
    end subroutine

    subroutine a_parameter_that_does_not_fit_is_an_error()
        type(xmml_instance) :: me
        integer :: number, status
        character(200) :: message
        me = stepping()
        number = 1
        call me%param("large", number, status=status, message=message)
        call check(status == XMML_ERROR_PARAMETER .and. number == 1, "too large")
        call check_says(message, "5000000000 does not fit into an integer of 32 bits")
        call me%param("missing", number, status=status, message=message)
        call check(status == XMML_ERROR_PARAMETER, "missing")
        call check_says(message, "missing")
        call me%param("scheme", number, status=status)
        call check(status == XMML_ERROR_PARAMETER, "no number")
        call me%free()
    end subroutine

    subroutine the_end_of_the_sender_is_an_outcome_or_an_error()
        type(xmml_alone) :: plan
        type(xmml_instance) :: me
        integer :: number, status
        logical :: ended, late
        character(200) :: message
        call plan%new("reader")
        call plan%port("in", "S")
        call plan%steps(4, 1.0_real64)
        call plan%input("in", 0.0_real64, xmml_value(1))
        call plan%join(me)
        number = 0
        call check(me%reuse() .and. me%step(), "a step")
        call me%receive("in", number, ended=ended)
        call check(number == 1 .and. .not. ended, "the only one")
        call check(me%step(), "a second step")
        call me%receive("in", number, ended=ended, status=status)
        call check(ended .and. status == XMML_ENDED .and. number == 1, "the end")
        call me%receive("in", number, timeout=0.0_real64, ended=ended, timed_out=late)
        call check(ended .and. .not. late, "the end with a time-out")
        call me%receive("in", number, status=status, message=message)
        call check(status == XMML_ERROR_ENDED .and. message /= "", "the end as an error")
        call me%leave()
    end subroutine

    subroutine what_is_asked_about_the_model_is_told()
        type(xmml_instance) :: me
        type(xmml_scale) :: scale
        type(xmml_port) :: port
        integer :: status
        me = stepping()
        port = me%port(2)
        call check(me%port_count() == 4 .and. port%name == "out" .and. port%operator_name == "Oi" .and. port%is_out, "a port")
        port = me%port(5)
        call check(port%name == "" .and. .not. port%is_out, "and no fifth")
        call check(me%param_count() == 5 .and. me%param_name(1) == "cells" .and. me%param_name(6) == "", "parameters")
        call check(me%name() == "cell" .and. me%index() == 0 .and. me%count() == 1, "who it is")
        call check(me%delta() == 0.5 .and. me%total() == 1 .and. me%steps() == 2, "its steps")
        scale = me%scale("x")
        call check(scale%delta == 0.1_real64 .and. scale%total == 4 .and. scale%steps == 40, "its scale")
        call check(me%connected("in") .and. me%copies("in") == 0, "its ports")
        call check(me%has_message("in"), "a message")
        scale = me%scale("y", status=status)
        call check(status < 0, "no such scale")
        call check(xmml_dtype_name(XMML_F64) == "float64" .and. len(xmml_version()) >= 5, "names")
        call me%warn("nothing of importance")
        call me%free()
    end subroutine

    subroutine an_error_names_the_port_of_the_message()
        type(xmml_instance) :: me
        real(real32), allocatable :: data(:)
        integer :: status
        character(200) :: message
        me = stepping()
        call me%skip("out")
        call me%receive("in", data, status=status, message=message)
        call check(status == XMML_ERROR_TYPE .and. .not. allocated(data), "another type")
        call check_says(message, "cell.in: expected an array of float32 of rank 1, but found a float64 array of shape (2,)")
        call me%free()
    end subroutine

    subroutine a_message_is_sent_on_as_it_is()
        type(xmml_instance) :: me
        type(xmml_message) :: message, sent
        real(real64), pointer :: data(:)
        real(real64) :: t
        me = stepping()
        call me%skip("out")
        call me%receive("in", message)
        call check(message%timestamp() == 10, "its time")
        call check(me%step(t), "the second step")
        call me%send("out", message)
        call message%view(data)
        data(1) = 7
        call message%free()
        call check(me%output("out", 1, sent), "sent on")
        call check(sent%describe() == "a float64 array of shape (2,)", sent%describe())
        call sent%free()
        call me%free()
    end subroutine

    subroutine a_call_out_of_order_is_an_error()
        type(xmml_instance) :: me
        integer :: status
        character(200) :: message
        me = stepping()
        call me%send("final", 1, status=status, message=message)
        call check(status == XMML_ERROR_ORDER, "not now")
        call check_says(message, "out")
        call me%free()
    end subroutine

    subroutine an_unknown_port_is_an_error_that_names_the_known()
        type(xmml_instance) :: me
        integer :: status
        character(200) :: message
        me = stepping()
        call me%send("ouf", [1, 2], status=status, message=message)
        call check(status == XMML_ERROR_PORT, "no such port")
        call check_says(message, "out")
        call me%free()
    end subroutine

    subroutine a_loan_is_filled_and_sent()
        type(xmml_instance) :: me
        type(xmml_message) :: sent
        real(real64), pointer, contiguous :: field(:, :)
        real(real64), pointer :: read(:, :)
        me = stepping()
        call me%loan(field, [2, 3])
        call check(all(shape(field) == [2, 3]), "its shape")
        field = 1
        field(2, 3) = 5
        call me%send("out", field)
        call check(me%output("out", 1, sent), "sent")
        call sent%view(read)
        call check(read(2, 3) == 5 .and. sum(read) == 10, "its elements")
        call sent%free()
        call me%free()
    end subroutine

    subroutine a_loan_goes_back()
        type(xmml_instance) :: me
        integer(int32), pointer, contiguous :: counts(:)
        me = stepping()
        call me%loan(counts, [1000], unsigned=.true.)
        call me%give_back(counts)
        call check(.not. associated(counts), "gone")
        call me%free()
    end subroutine

    subroutine bytes_and_nothing_are_sent()
        type(xmml_instance) :: me
        type(xmml_message) :: sent
        integer(int8), allocatable :: bytes(:)
        real(real64) :: t
        me = stepping()
        call me%send_bytes("out", [1_int8, -1_int8])
        call check(me%output("out", 1, sent), "bytes")
        call sent%get_bytes(bytes)
        call check(all(bytes == [1, -1]), "two bytes")
        call me%receive("in", sent)
        call check(me%step(t), "the second step")
        call me%send_nothing("out")
        call check(me%output("out", 2, sent), "a message")
        call check(sent%kind() == XMML_KIND_NOTHING .and. sent%timestamp() == 10.5, "with nothing in it")
        call sent%free()
        call me%free()
    end subroutine

    subroutine a_copy_that_is_not_there_is_an_error()
        type(xmml_instance) :: me
        integer :: status
        me = stepping()
        call me%send("out", 1, to=3, status=status)
        call check(status < 0, "no copy 3")
        call me%free()
    end subroutine

    subroutine leaving_twice_is_an_error()
        type(xmml_alone) :: plan
        type(xmml_instance) :: me
        integer :: status
        call plan%new("idle")
        call plan%join(me)
        call me%leave()
        call me%leave(status)
        call check(status == XMML_ERROR_USAGE, "has left already")
    end subroutine
end program
