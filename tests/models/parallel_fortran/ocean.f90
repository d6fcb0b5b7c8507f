! Every rank sends its block of f(x, y, t), and checks the block of the wind and the level that all ranks receive.
program ocean
    use, intrinsic :: iso_fortran_env, only: real64
    use mpi
    use xmml
    use xmml_mpi
    implicit none
    type(xmml_instance) :: me
    type(xmml_out_port) :: depth
    type(xmml_in_port) :: from_air
    type(xmml_block) :: block
    real(real64), allocatable :: surface(:, :), wind(:, :)
    real(real64) :: t, level
    integer :: error, messages, all_messages

    call MPI_Init(error)
    call xmml_join_mpi(me, MPI_COMM_WORLD)
    depth = me%out("depth")
    from_air = me%in("wind")
    block = me%block("surface")
    messages = 0
    do while (me%reuse())
        do while (me%step(t))
            surface = field(block, 10, 1) + 1000 * t
            call me%send("surface", surface)
            call depth%send(-surface, gather="block(x:2,y:2)")
            call from_air%receive(wind)
            call expect(all(shape(wind) == block%extent), "the shape of the wind")
            call expect(all(wind == field(block, 1, -100) + t), "the wind")
            call me%receive("level", level)
            call expect(level == t / 2, "the level")
            messages = messages + 1
        end do
    end do
    call MPI_Reduce(messages, all_messages, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, error)
    if (me%rank() == 0) print "(i0, a, i0, a)", me%ranks(), " ranks received ", all_messages, " blocks of wind"
    call me%leave()
    call MPI_Finalize(error)

contains

    ! a x + b y with x and y from 0, at the places of the block.
    function field(block, a, b)
        type(xmml_block), intent(in) :: block
        integer, intent(in) :: a, b
        real(real64) :: field(block%extent(1), block%extent(2))
        integer :: i, j
        do j = 1, block%extent(2)
            do i = 1, block%extent(1)
                field(i, j) = a * (block%start(1) + i - 2) + b * (block%start(2) + j - 2)
            end do
        end do
    end function

    subroutine expect(truth, what)
        logical, intent(in) :: truth
        character(*), intent(in) :: what
        if (truth) return
        call me%fail("not as expected: " // what)
        error stop
    end subroutine
end program
