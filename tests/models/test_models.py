"""Acceptance models: small models, each with the output that it must have. All are run as a user runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from model_runs import RunModel
from needs import needs

HERE = Path(__file__).parent


def test_a_filter_halves_what_is_sent(run_model: RunModel) -> None:
    run = run_model(HERE / "simple")
    assert run.lines("r") == ["0.0", "0.5", "1.0", "1.5", "2.0"] * 4


def test_filters_apply_in_order_on_both_sides(run_model: RunModel) -> None:
    run = run_model(HERE / "double_filter")
    assert run.lines("r") == ["0.0", "0.6", "1.2", "1.7999999999999998", "2.4"] * 4


def test_a_native_reader_goes_on_until_the_conduit_ends(run_model: RunModel) -> None:
    run = run_model(HERE / "native_pair")
    assert run.lines("r") == ["Length: 65536; min: 0.000000; max: 65535.000000"] * 2


def test_an_instance_sends_to_itself(run_model: RunModel) -> None:
    run = run_model(HERE / "self_coupled")
    assert run.lines("echo") == ["received: the original data"]


@pytest.mark.parametrize("methods", ["shm", "unix", "tcp"])
def test_the_state_of_each_run_is_carried_to_the_next(
    run_model: RunModel, monkeypatch: pytest.MonkeyPatch, methods: str
) -> None:
    monkeypatch.setenv("XMML_METHODS", methods)
    run = run_model(HERE / "carried_state")
    before = [10.0, 6.5, 4.75, 3.875]
    assert run.lines("micro") == [f"run from {t:.1f} s with {state}, at {t:.1f} s" for t, state in enumerate(before)]
    assert run.lines("macro") == [f"macro {state + 3}" for state in before]
    assert run.lines("native") == [f"{t} {t}" for t in range(4)]
    assert run.lines("inline") == ["0.0 None", "1.0 0.0", "2.0 1.0", "3.0 2.0"]
    assert run.lines("once") == ["run 0 None"]
    assert "not received" not in run.stderr


def test_submodels_written_as_classes(run_model: RunModel) -> None:
    run = run_model(HERE / "classes")
    assert run.lines("r") == ["(2.0\t3.0\t)", "(1.0\t2.0\t)"] * 4


@needs("mpicc")
def test_rank_0_of_an_mpi_program_speaks_for_all(run_model: RunModel) -> None:
    run = run_model(HERE / "mpi")
    halves = [[(rank + step) / 2 for rank in range(4)] for step in range(4)]
    assert run.lines("r") == [" ".join(map(str, row)) for row in halves]


def test_a_micro_model_is_called_and_released_in_every_step(run_model: RunModel) -> None:
    run = run_model(HERE / "macro_micro")
    assert run.lines("macro") == ["3.0", "4.0", "5.0", "6.0"]
    assert run.lines("micro") == [f"run from {t} s" for t in range(4)]
    assert run.report["instances"]["micro"]["runs"] == 4


@pytest.mark.parametrize("model", ["triangle", "free_triangle"])
def test_three_in_a_circle(run_model: RunModel, model: str) -> None:
    run = run_model(HERE / model)
    assert run.lines("one") == ["Got from Three: 3.0"] * 5 * 2


def test_messages_of_many_sizes_go_there_and_back(run_model: RunModel) -> None:
    run = run_model(HERE / "ping_pong")
    assert run.lines("ping") == ["100 messages there and back, 14952057 bytes each way"]
    assert run.lines("pong") == ["100 messages"]


def test_a_source_starts_a_submodel_and_a_sink_writes_its_masks(run_model: RunModel) -> None:
    run = run_model(HERE / "terminals")
    masks = [(run.work("sink") / f"boolMask.{number}.dat").read_text().strip() for number in range(4)]
    assert masks == ["000000", "000000", "110001", "110001"]
    assert len(list(run.work("sink").iterdir())) == 4


def test_every_type_of_data_arrives_unharmed(run_model: RunModel) -> None:
    run = run_model(HERE / "data_integrity")
    assert run.lines("check")[-1] == "tests passed"


def test_a_matrix_of_bytes_and_the_parameters_of_a_program(run_model: RunModel) -> None:
    run = run_model(HERE / "byte_matrix", "-p", "cpp.greeting=hello from the command line")
    greeting, folder, *steps = run.lines("cpp")
    assert greeting == "greeting: hello from the command line"
    assert Path(folder.removeprefix("folder: ")).resolve() == run.work("cpp").resolve()
    assert steps == [line for t in range(3) for line in (f"t: {t}", "data in c++ : 65 77")]


def test_work_is_scattered_to_eight_copies_and_gathered(run_model: RunModel) -> None:
    run = run_model(HERE / "multiplied", "-p", "worker[3].factor=10")
    sums = [[2 * (2 * part + step) + 1 for part in range(8)] for step in range(3)]
    expected = [[float(10 * total if part == 3 else total) for part, total in enumerate(row)] for row in sums]
    assert run.lines("owner") == [str(row) for row in expected]
    assert [run.output(f"worker[{index}]").strip() for index in range(8)] == [f"worker {i} of 8" for i in range(8)]


def test_filters_written_in_python(run_model: RunModel) -> None:
    run = run_model(HERE / "python_filter")
    assert run.lines("printer") == ["[1.0, 1.0, 1.0, 0.0]"] * 3


def test_every_built_in_terminal(run_model: RunModel) -> None:
    run = run_model(HERE / "built_in_terminals")
    assert np.load(run.work("npy_sink") / "copy.0.npy").tolist() == [[1.0, 2.0], [3.0, 4.5]]
    assert (run.work("csv_sink") / "copy.csv").read_text() == "0,1\n2,3\n4,5\n"
    assert (run.work("text_sink") / "copy.0.txt").read_text() == "level: high\n"


def test_every_built_in_mapper(run_model: RunModel) -> None:
    run = run_model(HERE / "built_in_mappers")
    assert run.lines("printer") == ["[[0, 1], [2, 3]] [0, 1, 2, 3]", "[[10, 11], [12, 13]] [10, 11, 12, 13]"]
