! A program's membership of a run.
module xmml_instances
    use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64, output_unit
    use xmml_c
    use xmml_errors
    use xmml_values
    implicit none
    private
    public :: xmml_instance, xmml_alone, xmml_version, xmml_error, xmml_no_time, xmml_dtype_name

    ! A program's membership of a run.
    type :: xmml_instance
        type(c_ptr), private :: pointer = c_null_ptr
    contains
        procedure :: join
        procedure :: leave
        procedure :: fail
        procedure :: warn
        procedure :: reuse
        procedure :: step
        procedure :: name => instance_name
        procedure :: index => instance_index
        procedure :: count => instance_count
        procedure :: time => instance_time
        procedure :: origin => instance_origin
        procedure :: delta => instance_delta
        procedure :: total => instance_total
        procedure :: steps => instance_steps
        procedure :: scale => instance_scale
        procedure :: has_param
        procedure :: connected
        procedure :: copies
        procedure :: methods
        procedure :: skip
        procedure :: has_message
        procedure :: output
        procedure :: rank => instance_rank
        procedure :: ranks => instance_ranks
        procedure :: block => instance_block
        procedure :: adopt
        procedure :: send_nothing
        procedure :: send_bytes
        procedure :: receive_bytes
        procedure :: free => instance_free
        procedure :: handle => instance_handle
        procedure, private :: send_value
        procedure, private :: receive_message
        procedure, private :: arrived
        procedure, private :: param_int32
        procedure, private :: param_int64
        procedure, private :: param_real32
        procedure, private :: param_real64
        procedure, private :: param_logical
        procedure, private :: param_text
        generic :: param => param_int32, param_int64, param_real32, param_real64, param_logical, param_text
        generic :: send => send_value
        generic :: receive => receive_message
@instance_bindings@
    end type

    ! What an instance without a run is made of, for tests: its ports, parameters, steps and the messages that it will receive.
    type :: xmml_alone
        type(c_ptr), private :: pointer = c_null_ptr
    contains
        procedure :: new => alone_new
        procedure :: port => alone_port
        procedure :: param => alone_param
        procedure :: steps => alone_steps
        procedure :: scale => alone_scale
        procedure :: input => alone_input
        procedure :: join => alone_join
        procedure :: free => alone_free
    end type

contains

    ! The version of the library: "0.1.0".
    function xmml_version() result(version)
        character(:), allocatable :: version
        version = c_text(c_version())
    end function

    ! What the library has to say about this thread's last call that did not succeed, in full length.
    function xmml_error() result(text)
        character(:), allocatable :: text
        text = last_error()
    end function

    ! As the next time stamp of a send: this is the last message.
    real(real64) function xmml_no_time() result(time)
        time = c_no_time()
    end function

    ! An element type as numpy spells it: "float64".
    function xmml_dtype_name(dtype) result(name)
        integer, intent(in) :: dtype
        character(:), allocatable :: name
        name = c_text(c_dtype_name(int(dtype, c_int)))
    end function

    ! -------------------------------------------------------------------------------------------------------------- the loop

    ! Joins the run that this process was started for.
    subroutine join(me, status, message)
        class(xmml_instance), intent(inout) :: me
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: code
        code = c_join_as(me%pointer, c_string("fortran"))
        if (code == XMML_OK) call note_joined(me%pointer)
        call conclude(code, status, message)
    end subroutine

    ! Ends normally: everything sent is still delivered, then the partners learn that no more comes. A program that ends without
    ! leaving counts as failed.
    subroutine leave(me, status, message)
        class(xmml_instance), intent(inout) :: me
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        flush(output_unit)
        call note_left(me%pointer)
        call conclude(c_leave(me%pointer), status, message)
    end subroutine

    ! Tells the run that this instance failed, and why; the run stops. Usually `error stop` is next.
    subroutine fail(me, text, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: text
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_fail(me%pointer, c_string(text)), status, message)
    end subroutine

    ! Tells people something, through the run's log and display.
    subroutine warn(me, text, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: text
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_warn(me%pointer, c_string(text)), status, message)
    end subroutine

    ! Frees an instance without leaving, which is a failure of the instance unless fail came first.
    subroutine instance_free(me)
        class(xmml_instance), intent(inout) :: me
        call note_left(me%pointer)
        call c_instance_free(me%pointer)
    end subroutine

    ! Whether there is another run to do; waits until that is known.
    logical function reuse(me, status, message)
        class(xmml_instance), intent(in) :: me
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: again
        again = 0
        flush(output_unit) ! a run reads what its programs print through pipes; people want to see each line now
        call conclude(c_reuse(me%pointer, again), status, message)
        reuse = again /= 0
    end function

    ! Begins the next iteration and gives its model time in seconds; false after the last.
    logical function step(me, time, status, message)
        class(xmml_instance), intent(in) :: me
        real(real64), intent(inout), optional :: time
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        real(c_double) :: now
        integer(c_int) :: code
        flush(output_unit)
        code = c_step(me%pointer, now)
        step = code == XMML_OK
        if (step .and. present(time)) time = now
        if (code == XMML_DONE) code = XMML_OK ! the result says so
        call conclude(code, status, message)
    end function

    ! -------------------------------------------------------------------------------------------------------- about the model

    ! The instance's name in the model; of a copy, with its number: "c[3]".
    function instance_name(me) result(name)
        class(xmml_instance), intent(in) :: me
        character(:), allocatable :: name
        name = c_text(c_name(me%pointer))
    end function

    ! The number among the copies, from 0 as in the name.
    integer function instance_index(me) result(index)
        class(xmml_instance), intent(in) :: me
        index = c_index(me%pointer)
    end function

    ! How many copies there are.
    integer function instance_count(me) result(count)
        class(xmml_instance), intent(in) :: me
        count = c_count(me%pointer)
    end function

    ! Model time of the current iteration, in seconds.
    real(real64) function instance_time(me) result(time)
        class(xmml_instance), intent(in) :: me
        time = c_time(me%pointer)
    end function

    ! Model time of the beginning of this run, in seconds.
    real(real64) function instance_origin(me) result(time)
        class(xmml_instance), intent(in) :: me
        time = c_origin(me%pointer)
    end function

    ! Length of a step in seconds; 0 if the model gives none.
    real(real64) function instance_delta(me) result(length)
        class(xmml_instance), intent(in) :: me
        length = c_delta(me%pointer)
    end function

    ! Length of a run in seconds; 0 if the model gives none.
    real(real64) function instance_total(me) result(length)
        class(xmml_instance), intent(in) :: me
        length = c_total(me%pointer)
    end function

    ! Number of steps of a run; 0: the program decides.
    integer(int64) function instance_steps(me) result(steps)
        class(xmml_instance), intent(in) :: me
        steps = c_steps(me%pointer)
    end function

    ! A scale of the model by its id: of time ("t" unless it has another id), space ("x", "y", ...), or another dimension.
    function instance_scale(me, name, status, message) result(scale)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_scale) :: scale
        call conclude(c_scale_of(me%pointer, c_string(name), scale), status, message)
    end function

    ! The xmml_instance of the C API.
    type(c_ptr) function instance_handle(me) result(handle)
        class(xmml_instance), intent(in) :: me
        handle = me%pointer
    end function

    ! Makes this the xmml_instance of the C API that other code has joined with.
    subroutine adopt(me, handle)
        class(xmml_instance), intent(inout) :: me
        type(c_ptr), intent(in) :: handle
        me%pointer = handle
        call note_joined(handle)
    end subroutine

    ! Which rank of an MPI program this is, from 0.
    integer function instance_rank(me) result(rank)
        class(xmml_instance), intent(in) :: me
        rank = c_rank(me%pointer)
    end function

    ! How many ranks there are.
    integer function instance_ranks(me) result(ranks)
        class(xmml_instance), intent(in) :: me
        ranks = c_ranks(me%pointer)
    end function

    ! The block of this rank in the array of a port. The extents of the whole array are `shape`; without it those of the last message
    ! on that port, or else those that the spacescales of the model give.
    function instance_block(me, port, shape, status, message) result(block)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(in), optional :: shape(:)
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_block) :: block
        type(c_block) :: found
        integer(c_size_t), allocatable, target :: extents(:)
        integer(c_int) :: code
        if (present(shape)) then
            allocate(extents(size(shape)))
            extents(:) = shape
            code = c_block_of(me%pointer, c_string(port), size(shape, kind=c_size_t), c_loc(extents), found)
        else
            code = c_block_of(me%pointer, c_string(port), 0_c_size_t, c_null_ptr, found)
        end if
        call conclude(code, status, message)
        allocate(block%shape(found%rank), block%start(found%rank), block%extent(found%rank))
        block%shape(:) = int(found%shape(:found%rank))
        block%start(:) = int(found%start(:found%rank)) + 1
        block%extent(:) = int(found%extent(:found%rank))
    end function

    ! ------------------------------------------------------------------------------------------------------------ parameters

    logical function has_param(me, name)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        has_param = c_has_param(me%pointer, c_string(name)) /= 0
    end function

    ! Whether a parameter takes the default, because there is one and the model does not set it.
    logical function takes_default(me, name, has_default)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        logical, intent(in) :: has_default
        takes_default = has_default
        if (has_default) takes_default = .not. me%has_param(name)
    end function

    subroutine param_real64(me, name, value, unit, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        real(real64), intent(inout) :: value
        character(*), intent(in), optional :: unit
        real(real64), intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        if (present(default)) value = default
        if (takes_default(me, name, present(default))) then
            call conclude(int(XMML_OK, c_int), status, message)
        else if (present(unit)) then
            call with_unit(c_string(unit))
        else
            call conclude(c_param_double(me%pointer, c_string(name), c_null_ptr, value), status, message)
        end if
    contains
        subroutine with_unit(text)
            character(*), intent(in), target :: text
            call conclude(c_param_double(me%pointer, c_string(name), c_loc(text), value), status, message)
        end subroutine
    end subroutine

    subroutine param_real32(me, name, value, unit, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        real(real32), intent(inout) :: value
        character(*), intent(in), optional :: unit
        real(real32), intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        real(real64) :: wide
        wide = value
        if (present(default)) then
            call me%param(name, wide, unit, real(default, real64), status, message)
        else
            call me%param(name, wide, unit, status=status, message=message)
        end if
        value = real(wide, real32)
    end subroutine

    subroutine param_int64(me, name, value, unit, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        integer(int64), intent(inout) :: value
        character(*), intent(in), optional :: unit
        integer(int64), intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        if (present(default)) value = default
        if (takes_default(me, name, present(default))) then
            call conclude(int(XMML_OK, c_int), status, message)
        else if (present(unit)) then
            call with_unit(c_string(unit))
        else
            call conclude(c_param_int(me%pointer, c_string(name), c_null_ptr, value), status, message)
        end if
    contains
        subroutine with_unit(text)
            character(*), intent(in), target :: text
            call conclude(c_param_int(me%pointer, c_string(name), c_loc(text), value), status, message)
        end subroutine
    end subroutine

    subroutine param_int32(me, name, value, unit, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        integer(int32), intent(inout) :: value
        character(*), intent(in), optional :: unit
        integer(int32), intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(int64) :: wide
        character(20) :: digits
        wide = value
        if (present(default)) then
            call me%param(name, wide, unit, int(default, int64), status, message)
        else
            call me%param(name, wide, unit, status=status, message=message)
        end if
        if (abs(wide) > huge(value)) then
            write(digits, "(i0)") wide
            call conclude(int(XMML_ERROR_PARAMETER, c_int), status, message, me%name() // ': parameter "' // trim(name) // &
                          '": ' // trim(digits) // " does not fit into an integer of 32 bits; use an integer(int64)")
        else
            value = int(wide, int32)
        end if
    end subroutine

    subroutine param_logical(me, name, value, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        logical, intent(inout) :: value
        logical, intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: truth, code
        if (present(default)) value = default
        if (takes_default(me, name, present(default))) then
            code = XMML_OK
        else
            code = c_param_bool(me%pointer, c_string(name), truth)
            if (code == XMML_OK) value = truth /= 0
        end if
        call conclude(code, status, message)
    end subroutine

    subroutine param_text(me, name, value, default, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: name
        character(:), allocatable, intent(inout) :: value
        character(*), intent(in), optional :: default
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: code
        type(c_ptr) :: text
        if (takes_default(me, name, present(default))) then
            value = default
            code = XMML_OK
        else
            code = c_param_text(me%pointer, c_string(name), text)
            if (code == XMML_OK) value = c_text(text)
        end if
        call conclude(code, status, message)
    end subroutine

    ! ----------------------------------------------------------------------------------------------------------------- ports

    ! Whether the port is coupled in this model. One that brings the state of the previous run is not, during the first.
    logical function connected(me, port, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: yes
        yes = 0
        call conclude(c_connected(me%pointer, c_string(port), yes), status, message)
        connected = yes /= 0
    end function

    ! How many copies are at the other end of the port; 0 if it is not a multiplied instance.
    integer function copies(me, port, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: number
        number = 0
        call conclude(c_copies(me%pointer, c_string(port), number), status, message)
        copies = number
    end function

    ! By which method each conduit of the port travels, and why the others were refused; one line per conduit.
    function methods(me, port, status, message) result(text)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        character(:), allocatable :: text
        type(c_ptr) :: there
        call conclude(c_methods(me%pointer, c_string(port), there), status, message)
        text = c_text(there)
    end function

    ! Declares that nothing is sent on this out port in this iteration (O_i) or run (O_f).
    subroutine skip(me, port, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_skip(me%pointer, c_string(port)), status, message)
    end subroutine

    ! Whether a message waits, so that a receive returns at once.
    logical function has_message(me, port, of, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(in), optional :: of
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: yes
        yes = 0
        if (present(of)) then
            call conclude(c_has_message_of(me%pointer, c_string(port), int(of, c_int), yes), status, message)
        else
            call conclude(c_has_message(me%pointer, c_string(port), yes), status, message)
        end if
        has_message = yes /= 0
    end function

    ! --------------------------------------------------------------------------------------------------------------- sending

    ! Any value, which may also be a message that was received. It stays the program's.
    subroutine send_value(me, port, data, to, timestamp, next_timestamp, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        class(xmml_value), intent(in) :: data
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        real(c_double) :: now, next
        integer(c_int) :: code
        now = c_default_time()
        if (present(timestamp)) now = timestamp
        next = c_default_time()
        if (present(next_timestamp)) next = next_timestamp
        if (present(to)) then
            code = c_send_to_at(me%pointer, c_string(port), int(to, c_int), data%handle(), now, next)
        else
            code = c_send_at(me%pointer, c_string(port), data%handle(), now, next)
        end if
        call conclude(code, status, message)
    end subroutine

    ! The same of a value that is made for this call. whole: the value is a block of an array with these extents, for a parallel port.
    ! gather: blocks of all ranks, lying to each other as this decomposition says, are put together for an ordinary port.
    subroutine send_and_free(me, port, value, to, timestamp, next_timestamp, whole, gather, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        type(xmml_value), intent(in) :: value
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer, intent(in), optional :: whole(:)
        character(*), intent(in), optional :: gather
        type(xmml_value) :: made
        made = value
        if (.not. c_associated(made%handle())) then
            call conclude(int(XMML_ERROR_USAGE, c_int), status, message)
        else if (present(whole)) then
            call conclude(c_send_value_block(me%pointer, c_string(port), made%handle(), size(whole, kind=c_size_t), &
                                             int(whole, c_size_t)), status, message)
        else if (present(gather)) then
            call conclude(c_send_value_gathered(me%pointer, c_string(port), c_string(gather), made%handle()), status, message)
        else
            call me%send_value(port, made, to, timestamp, next_timestamp, status, message)
        end if
        call made%free()
    end subroutine

    ! A message without data: only its times count.
    subroutine send_nothing(me, port, to, timestamp, next_timestamp, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call send_and_free(me, port, xmml_nothing(), to, timestamp, next_timestamp, status=status, message=message)
    end subroutine

    ! Bytes without a type.
    subroutine send_bytes(me, port, data, to, timestamp, next_timestamp, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer(int8), intent(in), contiguous :: data(:)
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call send_and_free(me, port, xmml_bytes(data), to, timestamp, next_timestamp, status=status, message=message)
    end subroutine

    ! Memory for an array that receivers on this host get without a copy; whether there is some.
    logical function lends(me, dtype, shape, memory, status, message)
        class(xmml_instance), intent(in) :: me
        integer, intent(in) :: dtype
        integer, intent(in) :: shape(:)
        type(c_ptr), intent(out) :: memory
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: code
        code = c_loan(me%pointer, int(dtype, c_int), size(shape, kind=c_size_t), int(shape, c_size_t), memory)
        lends = code == XMML_OK
        call conclude(code, status, message)
    end function

    ! ------------------------------------------------------------------------------------------------------------- receiving

    ! Waits for the next message on the port; free it when its data is not needed any more.
    !
    ! of: from this copy of the multiplied instance at the other end, from 0. timeout: wait at most this many seconds; if no message
    ! came, timed_out is true and nothing was taken. ended: true if the sender has ended, which is an error without it.
    subroutine receive_message(me, port, data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        type(xmml_message), intent(inout) :: data
        integer, intent(in), optional :: of
        real(real64), intent(in), optional :: timeout
        real(real64), intent(inout), optional :: timestamp, next_timestamp
        logical, intent(out), optional :: ended, timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        logical :: ignored
        ignored = me%arrived(port, data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
    end subroutine

    ! The same, and whether there is a message.
    logical function arrived(me, port, data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        type(xmml_message), intent(inout) :: data
        integer, intent(in), optional :: of
        real(real64), intent(in), optional :: timeout
        real(real64), intent(inout), optional :: timestamp, next_timestamp
        logical, intent(out), optional :: ended, timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: taken
        integer(c_int) :: code
        flush(output_unit)
        call data%free()
        if (present(timeout)) then
            if (present(of)) then
                code = c_receive_timeout_of(me%pointer, c_string(port), int(of, c_int), timeout, taken)
            else
                code = c_receive_timeout(me%pointer, c_string(port), timeout, taken)
            end if
        else if (present(ended)) then
            if (present(of)) then
                code = c_receive_or_end_of(me%pointer, c_string(port), int(of, c_int), taken)
            else
                code = c_receive_or_end(me%pointer, c_string(port), taken)
            end if
        else if (present(of)) then
            code = c_receive_of(me%pointer, c_string(port), int(of, c_int), taken)
        else
            code = c_receive(me%pointer, c_string(port), taken)
        end if
        arrived = code == XMML_OK
        if (arrived) then
            call message_of(taken, me%name() // "." // trim(port), data)
            if (present(timestamp)) timestamp = data%timestamp()
            if (present(next_timestamp)) next_timestamp = data%next_timestamp()
        end if
        if (present(ended)) then
            if (code == XMML_ERROR_ENDED) code = XMML_ENDED ! with a time-out as well
            ended = code == XMML_ENDED
        end if
        if (present(timed_out)) then
            timed_out = code == XMML_TIMED_OUT
        else if (code == XMML_TIMED_OUT .and. .not. (present(status) .or. present(message))) then
            call conclude(int(XMML_ERROR_USAGE, c_int), text=last_error() // " (and the program asks neither timed_out nor status)")
        end if
        call conclude(code, status, message)
    end function

    ! Bytes without a type; `data` is allocated to fit.
    subroutine receive_bytes(me, port, data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer(int8), allocatable, intent(inout) :: data(:)
        integer, intent(in), optional :: of
        real(real64), intent(in), optional :: timeout
        real(real64), intent(inout), optional :: timestamp, next_timestamp
        logical, intent(out), optional :: ended, timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_message) :: taken
        if (.not. me%arrived(port, taken, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)) return
        call taken%get_bytes(data, status=status, message=message)
        call taken%free()
    end subroutine

    ! A text, with its trailing blanks.
    subroutine send_text(me, port, data, to, timestamp, next_timestamp, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(*), intent(in) :: data
        integer, intent(in), optional :: to
        real(real64), intent(in), optional :: timestamp, next_timestamp
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call send_and_free(me, port, xmml_value(data), to, timestamp, next_timestamp, status=status, message=message)
    end subroutine

    ! A text; its length is that of the text.
    subroutine receive_text(me, port, data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(:), allocatable, intent(inout) :: data
        integer, intent(in), optional :: of
        real(real64), intent(in), optional :: timeout
        real(real64), intent(inout), optional :: timestamp, next_timestamp
        logical, intent(out), optional :: ended, timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_message) :: taken
        if (.not. me%arrived(port, taken, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)) return
        call taken%get(data, status=status, message=message)
        call taken%free()
    end subroutine

    ! A text into one of fixed length, with blanks behind it.
    subroutine into_text(me, port, data, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(*), intent(inout) :: data
        integer, intent(in), optional :: of
        real(real64), intent(in), optional :: timeout
        real(real64), intent(inout), optional :: timestamp, next_timestamp
        logical, intent(out), optional :: ended, timed_out
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_message) :: taken
        if (.not. me%arrived(port, taken, of, timeout, timestamp, next_timestamp, ended, timed_out, status, message)) return
        call taken%copy_to(data, status=status, message=message)
        call taken%free()
    end subroutine

@instance_procedures@

    ! ---------------------------------------------------------------------------------------------------- an instance by itself

    subroutine alone_new(self, name, status, message)
        class(xmml_alone), intent(inout) :: self
        character(*), intent(in) :: name
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call self%free()
        self%pointer = c_alone_new(c_string(name))
        call conclude(merge(int(XMML_OK, c_int), int(XMML_ERROR_USAGE, c_int), c_associated(self%pointer)), status, message)
    end subroutine

    ! A port on the operator "finit", "Oi", "S", "B" or "Of"; or "in", "out" for a mapper. Ports not given are not in the model.
    subroutine alone_port(self, port, operator_or_direction, status, message)
        class(xmml_alone), intent(in) :: self
        character(*), intent(in) :: port, operator_or_direction
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_alone_port(self%pointer, c_string(port), c_string(operator_or_direction)), status, message)
    end subroutine

    subroutine alone_param(self, name, text, status, message)
        class(xmml_alone), intent(in) :: self
        character(*), intent(in) :: name, text
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_alone_param(self%pointer, c_string(name), c_string(text)), status, message)
    end subroutine

    subroutine alone_steps(self, steps, delta, status, message)
        class(xmml_alone), intent(in) :: self
        integer, intent(in) :: steps
        real(real64), intent(in) :: delta
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_alone_steps(self%pointer, int(steps, c_int64_t), delta), status, message)
    end subroutine

    ! A scale in space or another dimension, in base units.
    subroutine alone_scale(self, name, delta, total, status, message)
        class(xmml_alone), intent(in) :: self
        character(*), intent(in) :: name
        real(real64), intent(in) :: delta, total
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_alone_scale(self%pointer, c_string(name), delta, total), status, message)
    end subroutine

    ! The next message that the port will deliver; after the last one it has ended. An in port without any is not coupled. Takes the
    ! value over.
    subroutine alone_input(self, port, timestamp, value, status, message)
        class(xmml_alone), intent(in) :: self
        character(*), intent(in) :: port
        real(real64), intent(in) :: timestamp
        class(xmml_value), intent(in) :: value
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: pointer
        pointer = taken_over(value)
        call conclude(c_alone_input(self%pointer, c_string(port), timestamp, pointer), status, message)
        call c_value_free(pointer)
    end subroutine

    ! Makes the instance; what it was made of is gone then.
    subroutine alone_join(self, me, status, message)
        class(xmml_alone), intent(inout) :: self
        type(xmml_instance), intent(inout) :: me
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        integer(c_int) :: code
        code = c_alone_join(self%pointer, me%pointer)
        if (code == XMML_OK) call note_joined(me%pointer)
        call conclude(code, status, message)
    end subroutine

    subroutine alone_free(self)
        class(xmml_alone), intent(inout) :: self
        if (c_associated(self%pointer)) call c_alone_free(self%pointer)
        self%pointer = c_null_ptr
    end subroutine

    ! Message number i, from 1, that an instance by itself sent on the port so far; false if there are not so many.
    logical function output(me, port, i, data, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(in) :: i
        type(xmml_message), intent(inout) :: data
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(c_ptr) :: found
        integer(c_int) :: code
        call data%free()
        code = c_output(me%pointer, c_string(port), int(i - 1, c_size_t), found)
        output = code == XMML_OK
        if (output) call message_of(found, me%name() // "." // trim(port), data)
        if (code == XMML_DONE) code = XMML_OK ! the result says so
        call conclude(code, status, message)
    end function
end module
