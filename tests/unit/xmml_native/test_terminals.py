"""The built-in terminals: files to messages and messages to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xmml_native import Error, Instance, Message, terminals


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMML_MODEL_DIR", str(tmp_path))


def sourced(form: str, **params: str) -> list[Message]:
    me = Instance.alone(name="source", ports={"out": "out"}, params=params)
    terminals.run(me, form)
    return me.outputs["out"]


def sink(form: str, messages: list[Any], **params: str) -> None:
    me = Instance.alone(name="sink", ports={"in": "in"}, inputs={"in": messages}, params=params)
    terminals.run(me, form)


def test_an_npy_file_is_one_message() -> None:
    np.save("wave.npy", np.arange(6).reshape(2, 3))
    (message,) = sourced("npy", file="wave.npy")
    assert message.data.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (message.timestamp, message.next_timestamp) == (0.0, None)


def test_rows_are_messages_one_after_the_other_in_time() -> None:
    np.save("wave.npy", np.arange(6).reshape(2, 3))
    one, two = sourced("npy", file="wave.npy", messages="rows", start="1 min", delta="10 s")
    assert (one.data.tolist(), one.timestamp, one.next_timestamp) == ([0, 1, 2], 60.0, 70.0)
    assert (two.data.tolist(), two.timestamp, two.next_timestamp) == ([3, 4, 5], 70.0, None)


def test_a_pattern_sends_files_in_the_order_of_their_numbers() -> None:
    for number in (10, 9):
        np.save(f"wave.{number}.npy", np.array(number))
    assert [int(m.data) for m in sourced("npy", file="wave.*.npy")] == [9, 10]


def test_a_line_of_numbers_is_an_array_of_rank_1() -> None:
    Path("x.txt").write_text("0.6 0.1 -2 -3 -8 1\n")
    (message,) = sourced("text", file="x.txt")
    assert message.data.tolist() == [0.6, 0.1, -2.0, -3.0, -8.0, 1.0]


def test_text_may_be_sent_as_it_is() -> None:
    Path("x.txt").write_text("north\nsouth\n")
    assert [m.data for m in sourced("text", file="x.txt", content="text")] == ["north\nsouth\n"]
    assert [m.data for m in sourced("text", file="x.txt", content="text", messages="rows")] == ["north", "south"]


def test_a_csv_file_is_a_table_with_header_lines_left_out() -> None:
    Path("x.csv").write_text("t,h\n0,1.5\n1,2.5\n")
    (message,) = sourced("csv", file="x.csv", skip="1")
    assert message.data.tolist() == [[0.0, 1.5], [1.0, 2.5]]


def test_a_missing_file_is_named_with_what_to_do() -> None:
    with pytest.raises(Error, match=r'cannot read .*wave\.npy: No such file.*check the parameter "file"'):
        sourced("npy", file="wave.npy")


def test_a_source_without_a_file_is_told_what_to_do() -> None:
    with pytest.raises(Error, match=r'add <param id="file"'):
        sourced("npy")


def test_a_file_that_is_not_what_the_class_says_is_named() -> None:
    Path("x.csv").write_text("a,b\n")
    with pytest.raises(Error, match=r'x\.csv does not hold what class="csv" expects'):
        sourced("csv", file="x.csv")


def test_a_sink_writes_a_file_for_each_message() -> None:
    sink("npy", [np.arange(3), np.arange(4)], file="out/wave.npy")
    assert np.load("out/wave.0.npy").tolist() == [0, 1, 2]
    assert np.load("out/wave.1.npy").tolist() == [0, 1, 2, 3]


def test_a_sink_without_a_file_name_takes_that_of_the_instance() -> None:
    sink("csv", [np.eye(2)])
    assert Path("sink.0.csv").read_text() == "1.0,0.0\n0.0,1.0\n"


def test_masks_are_written_as_digits() -> None:
    sink("text", [np.array([True, True, False])], file="mask.dat")
    assert Path("mask.0.dat").read_text() == "110\n"


def test_messages_may_be_appended_to_one_file() -> None:
    Path("log.txt").write_text("from an earlier run\n")
    sink("text", ["a", 1.5, [1, 2]], file="log.txt", append="yes")
    assert Path("log.txt").read_text() == "a\n1.5\n1 2\n"


def test_numbers_survive_the_way_through_a_text_file() -> None:
    values = np.array([0.1, 1e300, -1 / 3])
    sink("text", [values], file="x.txt")
    (message,) = sourced("text", file="x.0.txt")
    assert (message.data == values).all()


def test_a_sink_that_cannot_write_names_the_file() -> None:
    Path("out").write_text("a file, no folder")
    with pytest.raises(Error, match=r"cannot write .*out/x\.0\.csv"):
        sink("csv", [1.0], file="out/x.csv")


def test_an_unknown_terminal_is_refused_with_the_list() -> None:
    with pytest.raises(Error, match="npy, csv, text"):
        sourced("hdf5", file="x")


def test_a_repeating_source_stops_when_the_receiver_has_left(run: Any) -> None:
    Path("x.txt").write_text("1 2 3\n")
    run.declare("source", {"out": "out"}, kind="terminal", params={"file": "x.txt", "repeat": "yes"})
    run.declare("b", {"in": "S"}, check_order=False)
    run.couple("source.out", "b.in")
    run.define()
    run.host("source", {"terminal": "text"})
    run.start(
        "b",
        """
        from xmml_native import Instance
        with Instance() as me:
            for _ in range(20):
                assert me.receive("in").data.tolist() == [1, 2, 3]
        """,
    )
    done = run.finish()
    assert (done["source"].returncode, done["b"].returncode) == (0, 0)
