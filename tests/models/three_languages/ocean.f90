! Calls the ice model with a matrix in every step, takes its answer, and gives the atlas all there is at the end.
program ocean
    use, intrinsic :: iso_fortran_env, only: int16, real64
    use xmml
    implicit none
    type(xmml_instance) :: me
    type(xmml_value) :: state, layers
    real(real64) :: heat(3, 2), depth
    real(real64), allocatable :: ice(:, :)
    integer :: i, j

    call me%join()
    call me%param("depth", depth, unit="m")
    do while (me%reuse())
        heat = reshape([((10 * i + j, i = 1, 3), j = 1, 2)], [3, 2])
        do while (me%step())
            call me%send("heat", heat)
            call me%receive("ice", ice)
            heat = heat + ice
            print "(a, 6f6.1)", "heat", (heat(i, :), i = 1, 3)
        end do
        layers = xmml_list()
        call layers%add(xmml_value(heat(:, 1)))
        call layers%add(xmml_value([1_int16, -1_int16]))
        state = xmml_map()
        call state%set("depth", xmml_value(depth))
        call state%set("wet", xmml_value([.true., .false.]))
        call state%set("name", xmml_value("deep"))
        call state%set("layers", layers)
        call me%send("final", state)
        call state%free()
    end do
    call me%leave()
end program
