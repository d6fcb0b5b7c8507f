! A program's membership of a run.
module xmml_instances
    use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64, output_unit
    use xmml_c
    use xmml_errors
    use xmml_values
    implicit none
    private
    public :: xmml_instance, xmml_out_port, xmml_in_port, xmml_version, xmml_error, xmml_no_time, xmml_dtype_name

    ! An instance that has joined; null once it has left. Ports that are bound share it and may outlive the instance, so it stays.
    type :: membership
        type(c_ptr) :: instance = c_null_ptr
        type(membership), pointer :: earlier => null()
    end type

    type(membership), pointer, save :: memberships => null()

    ! What an instance that has not joined points to, and a port that is not bound.
    type(c_ptr), target, save :: nobody = c_null_ptr
    character(kind=c_char), target, save :: no_name(1) = c_null_char

    ! A program's membership of a run.
    type :: xmml_instance
        type(c_ptr), private, pointer :: pointer => nobody
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
        procedure :: param_count
        procedure :: param_name
        procedure :: port_count
        procedure :: port => instance_port
        procedure :: out => bind_out
        procedure :: in => bind_in
        procedure :: connected
        procedure :: copies
        procedure :: methods
        procedure :: set_methods
        procedure :: port_handle
        procedure :: open => open_handle
        procedure :: close => close_handles
        procedure :: revoke
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
        procedure :: put_nothing
        procedure :: put_bytes
        procedure :: wanted
        procedure :: group_begin
        procedure :: group_end
        procedure :: group_abandon
        procedure :: end => port_end
        procedure :: take
        procedure :: free => instance_free
        procedure :: handle => instance_handle
        procedure, private :: send_value
        procedure, private :: receive_message
        procedure, private :: put_value
        procedure, private :: place
        procedure, private :: param_int32
        procedure, private :: param_int64
        procedure, private :: param_real32
        procedure, private :: param_real64
        procedure, private :: param_logical
        procedure, private :: param_text
        generic :: param => param_int32, param_int64, param_real32, param_real64, param_logical, param_text
        generic :: send => send_value
        generic :: receive => receive_message
        generic :: put => put_value
@instance_bindings@
    end type

    ! A port that was looked up once.
    type :: bound_port
        type(c_ptr), private, pointer :: pointer => nobody
        character(kind=c_char), private, pointer, contiguous :: bound(:) => no_name
        character(:), private, allocatable :: place ! how errors name it
    contains
        procedure :: name => bound_name
        procedure :: connected => bound_connected
        procedure :: copies => bound_copies
        procedure :: methods => bound_methods
        procedure :: set_methods => bound_set_methods
        procedure :: block => bound_instance_block
        procedure, private :: bind_to
    end type

    ! An out port that was looked up once, by me%out: its calls are those of the instance, without the name.
    type, extends(bound_port) :: xmml_out_port
    contains
        procedure :: skip => bound_skip
        procedure :: open => bound_open_handle
        procedure :: close => bound_close_handles
        procedure :: output => bound_output
        procedure :: send_nothing => bound_send_nothing
        procedure :: send_bytes => bound_send_bytes
        procedure :: put_nothing => bound_put_nothing
        procedure :: put_bytes => bound_put_bytes
        procedure :: wanted => bound_wanted
        procedure :: group_begin => bound_group_begin
        procedure :: group_end => bound_group_end
        procedure :: group_abandon => bound_group_abandon
        procedure :: end => bound_port_end
        procedure, private :: bound_send_value
        procedure, private :: bound_put_value
        generic :: send => bound_send_value
        generic :: put => bound_put_value
@out_port_bindings@
    end type

    ! An in port that was looked up once, by me%in.
    type, extends(bound_port) :: xmml_in_port
    contains
        procedure :: has_message => bound_has_message
        procedure :: handle => bound_port_handle
        procedure :: receive_bytes => bound_receive_bytes
        procedure :: take => bound_take
        procedure, private :: bound_receive_message
        generic :: receive => bound_receive_message
@in_port_bindings@
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
        type(c_ptr) :: joined
        integer(c_int) :: code
        joined = c_null_ptr
        code = c_join_as(joined, c_string("fortran"))
        if (code == XMML_OK) call me%adopt(joined)
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

    ! Whether there is another pass to do; waits until that is known.
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

    ! Model time of the beginning of this pass, in seconds.
    real(real64) function instance_origin(me) result(time)
        class(xmml_instance), intent(in) :: me
        time = c_origin(me%pointer)
    end function

    ! Length of a step in seconds; 0 if the model gives none.
    real(real64) function instance_delta(me) result(length)
        class(xmml_instance), intent(in) :: me
        length = c_delta(me%pointer)
    end function

    ! Length of a pass in seconds; 0 if the model gives none.
    real(real64) function instance_total(me) result(length)
        class(xmml_instance), intent(in) :: me
        length = c_total(me%pointer)
    end function

    ! Number of steps of a pass; 0: the program decides.
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
        type(membership), pointer :: joined
        allocate(joined)
        joined%instance = handle
        joined%earlier => memberships
        memberships => joined
        me%pointer => joined%instance
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

@instances_parameters@

    ! ----------------------------------------------------------------------------------------------------------------- ports

    ! How many parameters are set.
    integer function param_count(me)
        class(xmml_instance), intent(in) :: me
        param_count = int(c_param_count(me%pointer))
    end function

    ! The name of number i, from 1, in the order of the alphabet; empty if there are not so many.
    function param_name(me, i) result(name)
        class(xmml_instance), intent(in) :: me
        integer, intent(in) :: i
        character(:), allocatable :: name
        name = c_text(c_param_name(me%pointer, int(i - 1, c_size_t)))
    end function

    ! How many ports the model declares.
    integer function port_count(me)
        class(xmml_instance), intent(in) :: me
        port_count = int(c_port_count(me%pointer))
    end function

    ! Port number i, from 1, in the order of the model; its texts are empty if there are not so many.
    function instance_port(me, i) result(port)
        class(xmml_instance), intent(in) :: me
        integer, intent(in) :: i
        type(xmml_port) :: port
        type(c_port) :: found
        integer(c_int) :: code
        code = c_port_at(me%pointer, int(i - 1, c_size_t), found)
        if (code /= XMML_OK) found = c_port()
        port%name = c_text(found%name)
        port%operator_name = c_text(found%operator_name)
        port%is_out = found%is_out /= 0
    end function

    ! Looks an out port up once: a name that is misspelt, or that of an in port, is an error here. Good until the instance leaves.
    function bind_out(me, port, status, message) result(bound)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_out_port) :: bound
        type(c_ptr) :: name
        integer(c_int) :: code
        code = c_bind_out(me%pointer, c_string(port), name)
        if (code == XMML_OK) call bound%bind_to(me, name)
        call conclude(code, status, message)
    end function

    ! Looks an in port up once.
    function bind_in(me, port, status, message) result(bound)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        type(xmml_in_port) :: bound
        type(c_ptr) :: name
        integer(c_int) :: code
        code = c_bind_in(me%pointer, c_string(port), name)
        if (code == XMML_OK) call bound%bind_to(me, name)
        call conclude(code, status, message)
    end function

    ! Makes this the port of an instance that has this name there.
    subroutine bind_to(self, me, name)
        class(bound_port), intent(inout) :: self
        class(xmml_instance), intent(in) :: me
        type(c_ptr), intent(in) :: name
        self%pointer => me%pointer
        call c_f_pointer(name, self%bound, [c_strlen(name) + 1])
        self%place = me%place(c_text(name))
    end subroutine

    ! The name in the model; empty for a port that is not bound.
    function bound_name(self) result(name)
        class(bound_port), intent(in) :: self
        character(:), allocatable :: name
        name = ""
        if (allocated(self%place)) name = self%place(len(self%place) - size(self%bound) + 2:)
    end function

    ! How errors name a port.
    function place(me, port)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port
        character(:), allocatable :: place
        place = me%name() // "." // trim(port)
    end function

    ! Whether the port is coupled in this model. One that brings the state of the previous pass is not, during the first.
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

    ! Allows these methods on every conduit of the port from now on, separated by commas, in this order ("shm,tcp"; "": all, fastest
    ! first), also while messages pass.
    subroutine set_methods(me, port, methods, status, message)
        class(xmml_instance), intent(in) :: me
        character(*), intent(in) :: port, methods
        integer, intent(out), optional :: status
        character(*), intent(inout), optional :: message
        call conclude(c_set_methods(me%pointer, c_string(port), c_string(methods)), status, message)
    end subroutine

@instances_handles@

    ! Declares that nothing is sent on this out port in this iteration (O_i) or pass (O_f).
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

@instances_sending@

@instances_receiving@

@instances_pools@

@bound_procedures@

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
        if (output) call message_of(found, me%place(port), data)
        if (code == XMML_DONE) code = XMML_OK ! the result says so
        call conclude(code, status, message)
    end function
end module
