"""Several runs that begin at once in a folder in which nothing is built."""

from __future__ import annotations

from faulty_models import RECEIVE, SEND, Models
from waiting import wait_until

#: Makes a program, which is half made for a while. Like make, it does nothing if the program is there.
BUILD = "test -e a.py || { echo made >> builds; echo raise > a.py; sleep 0.3; cp source.py a.py; }"
IMPLEMENTATION = f'<implementation language="python" path="a.py" run:build="{BUILD.replace(">", "&gt;")}"/>'


def test_no_run_starts_a_program_that_another_one_has_half_made(models: Models) -> None:
    (models.folder / "source.py").write_text(SEND)
    model = models.write({"b": RECEIVE}, implementations={"a": IMPLEMENTATION})
    going = [models.start(model, folder=models.folder / f"run{number}") for number in range(4)]
    for run in going:
        ended = run.end()
        assert ended.status == 0, ended.err
    assert (models.folder / "builds").read_text() == "made\n"


def test_a_run_that_waits_for_the_builds_of_another_one_says_so(models: Models) -> None:
    gate = models.folder / "gate"
    slow = IMPLEMENTATION.replace("sleep 0.3", f"while ! test -e {gate}; do sleep 0.05; done")
    (models.folder / "source.py").write_text(SEND)
    model = models.write({"b": RECEIVE}, implementations={"a": slow})
    first, second = (models.start(model, folder=models.folder / name) for name in ("first", "second"))
    runs = {"first": first, "second": second}
    name = wait_until(
        lambda: next((name for name in runs if runs[name].events_with("waiting to build")), None), "none waits"
    )
    gate.touch()
    ended = {name: run.end() for name, run in runs.items()}
    assert f"another run builds programs in {models.folder}: waiting until it has finished" in ended[name].err
    assert {each.status for each in ended.values()} == {0}
