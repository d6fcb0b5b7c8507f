"""The checks of resolved models: what they find, where they point, and when they stay silent."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_models import document

from xmml.check import CheckResult, check
from xmml.problems import CODES, Problem

CODES_OF_MODELS = ("E21", "W02", "W04", "W06", "W11", "W12")


@pytest.fixture
def problems(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Check a model in the notation of `small_models`."""

    def run(text: str) -> list[Problem]:
        path = tmp_path / "model.xmml"
        path.write_text(document(text), encoding="utf-8")
        return list(check(path).problems)

    return run


def cases(kind: str) -> list[tuple[str, str]]:
    folder = Path(__file__).parents[2] / "data" / "documents" / "checks"
    return [(code, path.name) for code in CODES_OF_MODELS for path in sorted((folder / code).glob(f"{kind}*.xmml"))]


def checked(documents: Path, code: str, name: str) -> CheckResult:
    return check(documents / "checks" / code / name)


@pytest.mark.parametrize(("code", "name"), cases("wrong"))
def test_a_wrong_document_has_this_problem_and_no_other(documents: Path, code: str, name: str) -> None:
    result = checked(documents, code, name)
    assert {problem.code for problem in result.problems} == {code}
    for problem in result.problems:
        assert problem.quote
        assert problem.mark
        assert problem.help
    assert (result.model is None) == code.startswith("E")


@pytest.mark.parametrize(("code", "name"), cases("right"))
def test_its_right_twin_has_no_problem(documents: Path, code: str, name: str) -> None:
    assert checked(documents, code, name).problems == ()


@pytest.mark.parametrize("code", CODES_OF_MODELS)
def test_every_code_has_a_wrong_and_a_right_document(code: str) -> None:
    assert code in CODES
    assert code in {each for each, _ in cases("wrong")}
    assert code in {each for each, _ in cases("right")}


def test_a_problem_points_at_the_end_of_the_coupling(documents: Path) -> None:
    (problem,) = checked(documents, "E21", "wrong-rates.xmml").problems
    assert str(problem).splitlines()[1:3] == [
        '   16 |     <coupling from="ocean.heat" to="ice.heat"/>',
        "      |                                 ^^",
    ]
    assert "ice.heat takes 480 (480 steps), but gets 240 from ocean.heat (240 steps)" in problem.message
    assert "factor 2" in problem.help


def test_a_model_with_other_errors_is_not_asked_what_it_will_do(problems) -> None:  # type: ignore[no-untyped-def]
    text = "a 1\nb 1\na.Of -> b.finit\nb.Of -> a.finit"
    assert [each.code for each in problems(text)] == ["E21"]
    assert [each.code for each in problems(f"{text}\nb.Of -> b.finit | repeat 0")] != ["E21"]


# --- E21 --------------------------------------------------------------------------------------------------------------


def test_a_deadlock_after_some_steps_is_found_by_following_the_messages(problems) -> None:  # type: ignore[no-untyped-def]
    text = "a 4\nu 1 delta=0.1s\na.Oi -> u.finit | drop 2\nu.Of -> a.S | lineartimeinterpolation 3"
    (problem,) = problems(text)
    assert problem.code == "E21"
    assert problem.message == (
        "deadlock: a.S waits for message 2 of u.Of in step 2; u.finit waits for message 2 of a.Oi to begin run 2"
    )


def test_a_program_that_decides_when_to_stop_gets_no_rate_conflict(problems) -> None:  # type: ignore[no-untyped-def]
    assert problems("a until init\nb 3 init\na.Oi -> b.S\nb.Oi -> a.S") == []


def test_a_source_that_is_a_program_gets_no_rate_conflict(problems) -> None:  # type: ignore[no-untyped-def]
    assert [each for each in problems("s source\nb 3\ns -> b.S") if each.code in CODES_OF_MODELS] == []


def test_a_cause_is_told_once_and_not_again_where_it_shows(problems) -> None:  # type: ignore[no-untyped-def]
    text = "a 1\nb 1\nc 4 init\nd 9\na.Of -> b.finit\nb.Of -> a.finit\nb.Oi -> c.S\nb.Of -> d.finit\nd.Oi -> c.B"
    assert [each.code for each in problems(text) if each.is_error] == ["E21"]


# --- W02 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("m 3 delta=1s\nu 3 delta=1ms\nm.Oi -> u.finit\nu.Of -> m.S", []),
        ("m 3 delta=1s\nu 1000 delta=1ms\nm.Oi -> u.finit\nu.Of -> m.S", []),
        ("m 3 delta=1s\nu 20 delta=0.1s\nm.Oi -> u.finit\nu.Of -> m.S", [0, 1]),
        ("m 3 delta=1s init\nu 3 delta=1ms init\nm.Oi -> u.S\nu.Oi -> m.S", [0, 1]),
        ("m 1 init\nu 1 init\nm.Oi -> u.S\nu.Oi -> m.S", []),
        ("m 3\nu 3\nm.Of -> u.finit", []),
        ("m until\nu 3\nm.Oi -> u.finit\nu.Of -> m.S", []),
    ],
)
def test_couplings_fit_the_time_scales_of_their_ends(problems, text: str, warned: list[int]) -> None:  # type: ignore[no-untyped-def]
    first = len(document(text.partition("\nm.O")[0]).splitlines()) - 1
    found = [each.position.line - first for each in problems(text) if each.code == "W02" and each.position]
    assert found == warned


def test_a_mismatch_behind_a_mapper_is_told_with_the_mapper(problems) -> None:  # type: ignore[no-untyped-def]
    (problem, *_) = [each for each in problems("a 3\nb 3\nm mapper\na.Oi -> m\nm -> b.finit") if each.code == "W02"]
    assert '"a" calls "b" (through m), although they have the same time scale' in problem.message


def test_a_pair_that_is_coupled_many_times_is_told_once(problems) -> None:  # type: ignore[no-untyped-def]
    found = problems("a 3\nb 3\na.Oi -> b.finit\na.Oi -> b.finit\na.Oi -> b.finit")
    assert [each.code for each in found] == ["W02"]


# --- W04, W06, W11, W12 -----------------------------------------------------------------------------------------------


def test_several_receivers_of_a_port_are_one_warning(problems) -> None:  # type: ignore[no-untyped-def]
    text = "a 2\n" + "".join(f"b{k} 2\n" for k in range(9)) + "".join(f"a.Oi.o -> b{k}.S\n" for k in range(9))
    (problem,) = problems(text)
    assert problem.message == "a.o sends to 9 receivers: b0.S, b1.S, b2.S, b3.S and 5 more"


@pytest.mark.parametrize(
    "text",
    [
        "a 3\nb 3\na.Oi -> b.S",  # one way
        "m 3\nu 1\nm.Oi -> u.finit\nu.Of -> m.S",  # only m can begin
        "a 3\na.Oi -> a.S",
        "a 3 init\nb 3 init\na.Oi -> b.S\nb.Oi -> a.S",
    ],
)
def test_a_start_that_is_clear_is_not_warned_of(problems, text: str) -> None:  # type: ignore[no-untyped-def]
    assert [each for each in problems(text) if each.code == "W06"] == []


def test_of_two_that_could_begin_those_that_are_not_marked_are_told(problems) -> None:  # type: ignore[no-untyped-def]
    found = problems("a 3 init\nb 3\na.Oi -> b.S\nb.Oi -> a.S")
    assert [(each.code, each.message.count('"b"') > 0) for each in found] == [("W06", True)]


@pytest.mark.parametrize(
    ("marked", "told"),
    [
        ("", [("a", "b"), ("b", "a"), ("c", "a")]),
        ("b", [("a", "b"), ("c", "b")]),
        ("c", [("a", "c"), ("b", "c")]),
        ("bc", [("a", "b")]),
    ],
)
def test_each_is_told_with_one_that_is_marked_or_else_the_first(problems, marked: str, told: list[object]) -> None:  # type: ignore[no-untyped-def]
    parts = "".join(f"{name} 3{' init' if name in marked else ''}\n" for name in "abc")
    found = [each for each in problems(f"{parts}a.Oi -> b.S\nb.Oi -> c.S\nc.Oi -> a.S") if each.code == "W06"]
    assert [tuple(each.message.split('"')[1:4:2]) for each in found] == told


def test_messages_left_over_are_counted(problems) -> None:  # type: ignore[no-untyped-def]
    (problem,) = [each for each in problems("a 6\nb 2\na.Oi -> b.S") if each.code == "W11"]
    assert problem.message == "4 of 6 messages from a.Oi are never taken: b.S receives only 2"
    assert "factor 3" in problem.help


def test_of_messages_left_over_by_an_instance_without_total_it_is_said_that_this_is_missing(  # type: ignore[no-untyped-def]
    check_text, documents: Path
) -> None:
    text = (documents / "checks" / "W11" / "wrong.xmml").read_text(encoding="utf-8")
    (problem,) = check_text(text.replace('delta="1 hr" total="1 day"', 'delta="1 hr"')).problems
    assert problem.code == "W11"
    assert 'the <timescale> of "river" has delta but no total' in problem.help


def test_a_sink_takes_everything(problems) -> None:  # type: ignore[no-untyped-def]
    assert [each for each in problems("a 6\nt sink\na.Oi -> t") if each.code in CODES_OF_MODELS] == []


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("m 2 domain=x.a\nu 1 domain=x.b delta=1ms\nm.Oi -> u.finit\nu.Of -> m.S", True),
        ("m 2 domain=x.a\nu 1 domain=x.b delta=1ms stateful\nm.Oi -> u.finit\nu.Of -> m.S", False),
        ("m 2 domain=x.a\nu 1 domain=x.a.b delta=1ms\nm.Oi -> u.finit\nu.Of -> m.S", False),
        ("m 2 domain=x.a\nu 1 delta=1ms\nm.Oi -> u.finit\nu.Of -> m.S", False),
        ("m 2 domain=x.a\nu 1 domain=x.b delta=1ms\nm.Oi -> u.finit", False),
        (
            "m 2 domain=x.a\nu 1 domain=x.b delta=1ms\np mapper\nq mapper\n"
            "m.Oi -> p\np -> u.finit\nu.Of -> q\nq -> m.S",
            True,
        ),
        (
            "m 2 domain=x.a\nu 1 domain=x.b delta=1ms\nm.Oi -> u.finit\nu.Of -> m.S\nu.Of.s -> u.finit.t state",
            False,
        ),
    ],
)
def test_a_called_model_of_another_domain_keeps_its_state(problems, text: str, warned: bool) -> None:  # type: ignore[no-untyped-def]
    assert bool([each for each in problems(text) if each.code == "W12"]) == warned
