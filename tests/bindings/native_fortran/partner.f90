! Instances of small models; the argument says which.
program partner
    use, intrinsic :: iso_fortran_env, only: int32, int64, real64
    use behaviour
    use xmml
    implicit none
    type(xmml_instance) :: me
    real(real64) :: t

    select case (asked_for())
    case ("sends_a_matrix_and_checks_the_answer")
        call sends_a_matrix_and_checks_the_answer()
    case ("doubles_a_matrix")
        call doubles_a_matrix()
    case ("sends_questions")
        call sends_questions()
    case ("asks")
        call asks()
    case ("doubles")
        call doubles()
    case ("asks_every_copy")
        call asks_every_copy()
    case ("multiplies_by_ten")
        call multiplies_by_ten()
    case ("sends_on_an_unknown_port")
        call sends_on_an_unknown_port()
    case ("only_receives")
        call only_receives()
    case ("expects_another_type")
        call expects_another_type()
    case ("sends_text")
        call sends_text()
    case ("stops_without_leaving")
        call stops_without_leaving()
    case ("gives_up")
        call gives_up()
    case ("sends_until_the_receiver_is_gone")
        call sends_until_the_receiver_is_gone()
    case ("leaves_at_once")
        call leaves_at_once()
    case ("waits_only_a_moment")
        call waits_only_a_moment()
    case ("sends_later")
        call sends_later()
    case ("lends_an_array_in_each_step")
        call lends_an_array_in_each_step()
    case ("views_an_array_in_each_step")
        call views_an_array_in_each_step()
    case ("goes_on_until_the_end")
        call goes_on_until_the_end()
    case default
        error stop 2
    end select

contains

    ! a(i, j) is 10 i + j here, whatever the order at the other end, which answers with 2 a.
    subroutine sends_a_matrix_and_checks_the_answer()
        integer(int32) :: a(2, 3), i, j
        integer(int32), allocatable :: answer(:, :)
        integer(int32), pointer :: view(:, :)
        type(xmml_message) :: message
        do j = 1, 3
            do i = 1, 2
                a(i, j) = 10 * i + j
            end do
        end do
        call me%join()
        do while (me%reuse())
            do while (me%step())
                call me%send("out", a)
                if (mod(nint(me%time()), 2) == 0) then
                    call me%receive("in", answer)
                else
                    call me%receive("in", message)
                    call message%view(view)
                    answer = view
                    call message%free()
                end if
                call check(all(shape(answer) == [2, 3]), "two by three")
                call check(all(answer == 2 * a), "twice as much")
            end do
        end do
        call me%leave()
    end subroutine

    subroutine doubles_a_matrix()
        integer(int32) :: a(0:1, 0:2)
        call me%join()
        do while (me%reuse())
            call me%receive_into("in", a)
            call check(a(1, 2) == 23 .and. a(0, 1) == 12, "as the sender has it")
            do while (me%step())
            end do
            call me%send("out", 2 * a)
        end do
        call me%leave()
    end subroutine

    subroutine sends_questions()
        call me%join()
        do while (me%reuse())
            do while (me%step())
                call me%send("question", 1)
            end do
        end do
        call me%leave()
    end subroutine

    subroutine asks()
        real(real64) :: answer
        call me%join()
        do while (me%reuse())
            do while (me%step(t))
                call me%send("question", t)
                call me%receive("answer", answer)
                call check(answer == 2 * t, "twice as much")
            end do
        end do
        call me%leave()
    end subroutine

    subroutine doubles()
        real(real64) :: number, timestamp
        integer :: runs
        runs = 0
        call me%join()
        do while (me%reuse())
            call me%receive("question", number, timestamp=timestamp)
            call check(timestamp == me%origin(), "asked at the beginning")
            do while (me%step())
            end do
            call me%send("answer", 2 * number)
            runs = runs + 1
        end do
        print "(i0, a)", runs, " runs"
        call me%leave()
    end subroutine

    subroutine asks_every_copy()
        integer :: i, answer
        call me%join()
        do while (me%reuse())
            do while (me%step())
                do i = 0, me%copies("to") - 1
                    call me%send("to", i + 1, to=i)
                end do
                do i = me%copies("from") - 1, 0, -1
                    call me%receive("from", answer, of=i)
                    call check(answer == 10 * (i + 1), "ten times as much")
                end do
            end do
        end do
        print "(i0, a)", me%copies("to"), " copies"
        call me%leave()
    end subroutine

    subroutine multiplies_by_ten()
        integer :: number
        call me%join()
        do while (me%reuse())
            call me%receive("in", number)
            call check(number == me%index() + 1, "my number")
            call me%send("out", 10 * number)
        end do
        call me%leave()
    end subroutine

    subroutine sends_on_an_unknown_port()
        call me%join()
        call check(me%reuse() .and. me%step(), "a step")
        call me%send("powr", 1)
        print "(a)", "never reached"
    end subroutine

    subroutine only_receives()
        integer :: number
        call me%join()
        call check(me%reuse() .and. me%step(), "a step")
        call me%receive("in", number)
        call me%leave()
    end subroutine

    subroutine expects_another_type()
        real(real64), allocatable :: field(:, :)
        call me%join()
        call check(me%reuse() .and. me%step(), "a step")
        call me%receive("in", field)
        call me%leave()
    end subroutine

    subroutine sends_text()
        call me%join()
        do while (me%reuse())
            do while (me%step())
                call me%send("out", "a text")
            end do
        end do
        call me%leave()
    end subroutine

    subroutine stops_without_leaving()
        call me%join()
        error stop "negative depth in cell 7"
    end subroutine

    subroutine gives_up()
        call me%join()
        call me%fail("negative depth in cell 7")
        error stop 3
    end subroutine

    subroutine sends_until_the_receiver_is_gone()
        integer :: status
        call me%join()
        status = XMML_OK
        call check(me%reuse(), "a run")
        do while (me%step())
            call me%send("out", 1, status=status)
            if (status == XMML_RECEIVER_GONE) exit
        end do
        call check(status == XMML_RECEIVER_GONE, "gone")
        do while (me%step())
            call me%send("out", 1) ! no error for a program that does not ask
        end do
        call me%leave()
    end subroutine

    subroutine leaves_at_once()
        call me%join()
        call me%leave()
    end subroutine

    subroutine waits_only_a_moment()
        integer :: number, status
        logical :: late
        character(200) :: message
        number = 0
        call me%join()
        call check(me%reuse() .and. me%step(), "a step")
        call me%receive("in", number, timeout=0.05_real64, timed_out=late)
        call check(late .and. number == 0, "nothing yet")
        call me%receive("in", number, timeout=0.01_real64, status=status, message=message)
        call check(status == XMML_TIMED_OUT, "nothing yet again")
        call check_says(message, "nothing came within 0.01 s")
        call me%send("looked", 2)
        call me%receive("in", number)
        call check(number == 7, "at last")
        call me%leave()
    end subroutine

    ! Sends when the other one has looked and found nothing.
    subroutine sends_later()
        integer :: looked
        call me%join()
        call check(me%reuse() .and. me%step(), "a step")
        call me%receive("looked", looked)
        call me%send("out", 7)
        call me%leave()
    end subroutine

    subroutine lends_an_array_in_each_step()
        real(real64), pointer, contiguous :: field(:, :)
        call me%join()
        do while (me%reuse())
            do while (me%step(t))
                call me%loan(field, [300, 200])
                field = t
                field(2, 1) = -1
                call me%send("out", field)
            end do
        end do
        call me%leave()
    end subroutine

    subroutine views_an_array_in_each_step()
        type(xmml_message) :: message
        real(real64), pointer :: field(:, :)
        call me%join()
        do while (me%reuse())
            do while (me%step(t))
                call me%receive("in", message) ! frees the one before
                call message%view(field)
                call check(all(shape(field) == [300, 200]) .and. field(2, 1) == -1, "the field")
                call check(count(field == t) == 300 * 200 - 1, "of this step")
            end do
        end do
        call message%free()
        call me%leave()
    end subroutine

    subroutine goes_on_until_the_end()
        integer :: number, received
        logical :: ended
        received = 0
        call me%join()
        call check(me%reuse(), "a run")
        do while (me%step())
            call me%receive("in", number, ended=ended)
            if (ended) exit
            received = received + 1
        end do
        print "(i0, a)", received, " received"
        call me%leave()
    end subroutine
end program
