! The land surface above the groundwater: rain, and water that plants take up from where the water table is near.
!
! For each day it takes how deep the water table lies, and puts two fluxes: the recharge of the ground, and what evaporates. All of it is
! local to a cell; each rank holds a strip. Compiled with -DDIRECT it is called with messages instead, and gives the recharge back.
program land_surface
    use, intrinsic :: iso_fortran_env, only: real64
    use mpi
    use xmml
    use xmml_mpi
    implicit none
    real(real64), parameter :: pi = acos(-1.0_real64)
    real(real64), parameter :: roots = 0.5_real64    ! [m] above this depth plants take as much as the air asks for
    real(real64), parameter :: reach = 1.0_real64    ! [m] below it that falls by 1/e
    real(real64), parameter :: springs = 1.0e-6_real64  ! [1/s] how fast water leaves where the water table is above the surface
    type(xmml_instance) :: me
    real(real64), allocatable :: depth(:, :), recharge(:, :), evaporation(:, :)
    real(real64) :: rain, demand, seasons
#ifdef DIRECT
    real(real64) :: t
#else
    type(xmml_message) :: message
#endif
    integer :: day, error

    call MPI_Init(error)
    call xmml_join_mpi(me, MPI_COMM_WORLD)
    call me%param("rain", rain, unit="m/s")
    call me%param("evaporation", demand, unit="m/s")
    call me%param("seasons", seasons)

#ifdef DIRECT
    day = 0
    do while (me%reuse())
        call me%receive("depths", depth)
        call exchange(day, depth, recharge, evaporation)
        do while (me%step(t))
        end do
        call me%send("fluxes", recharge)
        day = day + 1
    end do
#else
    do while (me%reuse())
        do while (me%take("depths", message))
            call message%attribute("day", day)
            call message%get(depth)
            call exchange(day, depth, recharge, evaporation)
            call me%put("fluxes", recharge, described("recharge", day))
            call me%put("fluxes", evaporation, described("evaporation", day))
        end do
    end do
#endif
    call me%leave()
    call MPI_Finalize(error)

contains

    ! Recharge and evaporation [m/s] of a day at a depth [m]. Rain falls in winter, and the air asks for water in summer.
    subroutine exchange(day, depth, recharge, evaporation)
        integer, intent(in) :: day
        real(real64), intent(in) :: depth(:, :)
        real(real64), allocatable, intent(inout) :: recharge(:, :), evaporation(:, :)
        real(real64) :: season
        season = seasons * cos(2 * pi * day / 365)
        evaporation = demand * (1 - season) * exp(-max(depth - roots, 0.0_real64) / reach)
        recharge = rain * (1 + season) - evaporation
        where (depth < 0) recharge = springs * depth - evaporation
    end subroutine

    function described(name, day)
        character(*), intent(in) :: name
        integer, intent(in) :: day
        character(len=:), allocatable :: described
        character(len=64) :: text
        write (text, "(3a, i0)") "name=", name, " day=", day
        described = trim(text)
    end function
end program
