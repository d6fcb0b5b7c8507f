"""The Fortran API: each behaviour of values.f90, alone.f90 and ports.f90, and every type and rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import SANITIZED, run
from fortran import TYPES, behaviours, compiled
from needs import needs

pytestmark = needs("gfortran")

HERE = Path(__file__).parent
BEHAVIOUR, VALUES, ALONE, PORTS = (HERE / f"{name}.f90" for name in ("behaviour", "values", "alone", "ports"))


@pytest.mark.parametrize("behaviour", behaviours(VALUES))
def test_of_values(behaviour: str) -> None:
    assert "held" in run(compiled(BEHAVIOUR, VALUES), behaviour)


@pytest.mark.parametrize("behaviour", behaviours(ALONE))
def test_of_an_instance_by_itself(behaviour: str) -> None:
    assert "held" in run(compiled(BEHAVIOUR, ALONE), behaviour)


@pytest.mark.parametrize("behaviour", behaviours(PORTS))
def test_of_a_bound_port(behaviour: str) -> None:
    assert "held" in run(compiled(BEHAVIOUR, PORTS), behaviour)


@pytest.mark.parametrize("source", [VALUES, ALONE, PORTS], ids=lambda source: source.stem)
def test_no_behaviour_leaks_or_touches_what_it_must_not(source: Path) -> None:
    program = compiled(BEHAVIOUR, source, options=SANITIZED)
    for behaviour in behaviours(source):
        run(program, behaviour)


def test_the_static_library_behaves_alike() -> None:
    program = compiled(BEHAVIOUR, VALUES, static=True)
    for behaviour in behaviours(VALUES):
        run(program, behaviour)


def round_trip(declared: str, elements: str, rank: int) -> str:
    """A subroutine that sends and receives an array of a type and rank in every way there is."""
    extents = [2, 3, 1, 2, 1, 2, 2][:rank]
    colons = ",".join(":" * rank)
    equal = ".eqv." if declared.startswith("logical") else "=="
    size = 1
    for extent in extents:
        size *= extent
    # A default logical is not laid out as in a message.
    has_view = declared != "logical"
    loan = """call me%loan(memory, shape(sent))
        memory = sent
        call me%send("o2", memory)"""
    view = f"""call message%view(there)
        call check(logical(all(there {equal} sent)), "a view")"""
    return f"""
    subroutine trip()
        {declared}, allocatable :: sent({colons}), got({colons})
        {declared} :: into({",".join(map(str, extents))})
        {f"{declared}, pointer, contiguous :: memory({colons})" if has_view else ""}
        {f"{declared}, pointer :: there({colons})" if has_view else ""}
        integer :: places({size}), i
        type(xmml_out_port) :: out
        type(xmml_in_port) :: in
        type(xmml_message) :: message
        places = [(i, i = 1, {size})]
        sent = reshape({elements}, [{",".join(map(str, extents))}])
        call plan%input("i1", 0.0_real64, xmml_value(sent))
        call plan%input("i2", 0.0_real64, xmml_value(sent))
        call plan%input("i3", 0.0_real64, xmml_value(sent))
        call plan%input("i4", 0.0_real64, xmml_value(sent))
        call plan%input("i5", 0.0_real64, xmml_value(sent))
        call plan%join(me)
        call check(me%reuse() .and. me%step(), "a step")
        call me%send("o1", sent)
        {loan if has_view else 'call me%send("o2", sent)'}
        call check(me%output("o1", 1, message), "an output")
        call message%get(got)
        call check(all(shape(got) == shape(sent)), "its shape")
        call check(logical(all(got {equal} sent)), "what was sent")
        call check(me%output("o2", 1, message), "another output")
        call message%get(got)
        call check(logical(all(got {equal} sent)), "a loan")
        out = me%out("o3")
        call out%send(sent)
        call check(out%output(1, message), "an output of a bound port")
        call message%get(got)
        call check(logical(all(got {equal} sent)), "what was sent on a bound port")
        deallocate(got)
        call me%receive("i1", got)
        call check(logical(all(got {equal} sent)), "received")
        call me%receive_into("i2", into)
        call check(logical(all(into {equal} sent)), "received into")
        in = me%in("i4")
        call in%receive(got)
        call check(logical(all(got {equal} sent)), "received on a bound port")
        into = sent(ubound(sent, 1):1:-1{", :" * (rank - 1)})
        in = me%in("i5")
        call in%receive_into(into)
        call check(logical(all(into {equal} sent)), "received on a bound port into")
        call me%receive("i3", message)
        into = sent(ubound(sent, 1):1:-1{", :" * (rank - 1)})
        call message%copy_to(into)
        call check(logical(all(into {equal} sent)), "copied")
        {view if has_view else ""}
        call message%free()
    end subroutine
    """


def scalar_round_trip(declared: str, elements: str) -> str:
    equal = ".eqv." if declared.startswith("logical") else "=="
    return f"""
    subroutine trip()
        {declared} :: sent, got
        integer :: places
        type(xmml_out_port) :: out
        type(xmml_in_port) :: in
        type(xmml_message) :: message
        places = 3
        sent = {elements}
        call plan%input("i1", 0.0_real64, xmml_value(sent))
        call plan%input("i2", 0.0_real64, xmml_value(sent, array=.true.))
        call plan%input("i3", 0.0_real64, xmml_value(sent))
        call plan%join(me)
        call check(me%reuse() .and. me%step(), "a step")
        call me%send("o1", sent)
        call me%send("o2", sent, array=.true.)
        out = me%out("o3")
        call out%send(sent)
        call check(out%output(1, message), "an output of a bound port")
        call message%get(got)
        call check(logical(got {equal} sent), "what was sent on a bound port")
        call check(me%output("o1", 1, message), "an output")
        call message%get(got)
        call check(logical(got {equal} sent), "what was sent")
        call check(me%output("o2", 1, message), "another output")
        call check(message%kind() == XMML_KIND_ARRAY, "of rank 0")
        call message%get(got)
        call check(logical(got {equal} sent), "what was sent as an array")
        call me%receive("i1", got)
        call check(logical(got {equal} sent), "received")
        call me%receive("i2", got)
        call check(logical(got {equal} sent), "received as an array")
        in = me%in("i3")
        call in%receive(got)
        call check(logical(got {equal} sent), "received on a bound port")
        call message%free()
    end subroutine
    """


def round_trips(declared: str, elements: str) -> str:
    """A program that makes the round trip of a type at every rank."""
    trips = [scalar_round_trip(declared, elements)] + [round_trip(declared, elements, rank) for rank in range(1, 8)]
    calls = "\n".join(f"    call begin()\n    call trip_{rank}()\n    call me%free()" for rank in range(8))
    procedures = "\n".join(trip.replace("trip()", f"trip_{rank}()") for rank, trip in enumerate(trips))
    return f"""
program trips
    use, intrinsic :: iso_c_binding, only: c_bool
    use, intrinsic :: iso_fortran_env
    use behaviour
    use xmml
    implicit none
    type(xmml_alone) :: plan
    type(xmml_instance) :: me
{calls}
    print "(a)", "held"
contains
    subroutine begin()
        integer :: i
        call plan%new("traveller")
        call plan%steps(1, 1.0_real64)
        do i = 1, 5
            call plan%port("i" // char(48 + i), "S")
            if (i < 4) call plan%port("o" // char(48 + i), "Oi")
        end do
    end subroutine
{procedures}
end program
"""


@pytest.mark.parametrize("declared", TYPES)
def test_every_rank_of_a_type_travels_in_every_way(declared: str, tmp_path: Path) -> None:
    source = tmp_path / "trips.f90"
    source.write_text(round_trips(declared, TYPES[declared]))
    options = (
        "-Wno-unused-parameter",
        "-Wno-conversion",
        "-Wno-unused-variable",
        "-Wno-unused-dummy-argument",
        "-Wno-unused-function",
    )
    assert "held" in run(compiled(BEHAVIOUR, source, options=options))
