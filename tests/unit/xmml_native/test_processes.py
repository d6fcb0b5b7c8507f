"""Instances as processes of a run: waiting, ending, failing."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest
from waiting import LIMIT_S
from xmml_native import Instance

SILENT = """
import sys
from xmml_native import Instance
with Instance() as me:
    sys.stdin.read()
"""

RECEIVER = """
from xmml_native import Instance
with Instance() as me:
    print(me.receive("in").data)
"""


def test_a_message_goes_from_process_to_process(run: Any) -> None:
    run.couple_two()
    run.start("a", "from xmml_native import Instance\nwith Instance() as me: assert me.send('out', 'hello')\n")
    run.start("b", RECEIVER)
    done = run.finish()
    assert done["b"].stdout == "hello\n"
    assert run.wait_for("left", "a")["conduits"][0]["sent"] == 1
    assert run.wait_for("left", "b")["conduits"][0]["received"] == 1


def test_other_threads_run_while_one_waits(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run.couple_two()
    for name, value in run.environment("b").items():
        monkeypatch.setenv(name, value)

    def release() -> None:
        run.wait_for("waiting", "b")
        run.start("a", "from xmml_native import Instance\nwith Instance() as me: me.send('out', 'at last')\n")

    thread = threading.Thread(target=release)
    with Instance() as me:
        thread.start()
        assert me.receive("in", timeout=LIMIT_S).data == "at last"
        thread.join()


def test_ctrl_c_ends_a_receive_that_waits(run: Any) -> None:
    run.couple_two()
    process = run.start("b", RECEIVER)
    run.wait_for("waiting", "b")
    process.send_signal(signal.SIGINT)
    done = run.finish()["b"]
    assert done.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in done.stderr
    assert run.wait_for("failed", "b")["text"].startswith("KeyboardInterrupt")


def test_a_signal_handler_may_return_while_a_receive_waits(run: Any) -> None:
    run.couple_two()
    handled = "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True))\n"
    process = run.start("b", handled + RECEIVER.lstrip())
    run.wait_for("waiting", "b")
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "handled\n"
    run.start("a", "from xmml_native import Instance\nwith Instance() as me: me.send('out', 1)\n")
    assert run.finish("b")["b"].stdout == "1\n"


def test_an_exception_in_the_program_is_reported_with_its_place(run: Any) -> None:
    run.couple_two()
    run.start("b", "from xmml_native import Instance\nwith Instance() as me:\n    depth = 1 / 0\n")
    done = run.finish()["b"]
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert run.wait_for("failed", "b")["text"] == f"ZeroDivisionError: division by zero at {run.folder}/b.py:3"


def test_a_program_that_exits_with_0_has_left(run: Any) -> None:
    run.couple_two()
    run.start("b", "import sys\nfrom xmml_native import Instance\nwith Instance() as me: sys.exit()\n")
    assert run.finish()["b"].returncode == 0
    run.wait_for("left", "b")


def test_a_program_that_exits_with_3_has_failed(run: Any) -> None:
    run.couple_two()
    run.start("b", "import sys\nfrom xmml_native import Instance\nwith Instance() as me: sys.exit(3)\n")
    assert run.finish()["b"].returncode == 3
    assert run.wait_for("failed", "b")["text"].startswith("exit with status 3")


def test_when_the_run_is_stopped_an_instance_ends_quietly(run: Any) -> None:
    run.couple_two()
    run.start("b", RECEIVER)
    run.wait_for("waiting", "b")
    run.coordinator.abort("a failed")
    done = run.finish()["b"]
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["b: the run was stopped: a failed"]


def test_send_tells_that_the_receiver_has_left(run: Any) -> None:
    run.couple_two()
    run.start("b", "from xmml_native import Instance\nwith Instance() as me: me.receive('in')\n")
    run.start(
        "a",
        """
        import time
        from xmml_native import Instance
        with Instance() as me:
            while me.send("out", 1):
                time.sleep(0.01)
        """,
    )
    done = run.finish()
    assert (done["a"].returncode, done["b"].returncode) == (0, 0)


# --- hosted -----------------------------------------------------------------------------------------------------------


def collector(run: Any, name: str, port: str) -> None:
    """Start an instance that prints every message that arrives."""
    run.start(
        name,
        f"""
        from xmml_native import Instance
        with Instance() as me:
            while (message := me.receive_or_end("{port}")) is not None:
                print(message.timestamp, message.data)
        """,
    )


def test_inline_code_is_hosted(run: Any) -> None:
    run.declare("a", {"out": "Oi"}, steps=3)
    run.declare("b", {"in": "S"}, check_order=False)
    run.couple("a.out", "b.in")
    run.define()
    run.host("a", {"code": [{"part": "Oi", "text": "out = step ** 2", "line": 7, "file": "model.xml"}]})
    collector(run, "b", "in")
    assert run.finish()["b"].stdout == "0.0 0\n1.0 1\n2.0 4\n"


def test_an_error_in_inline_code_names_the_line_of_the_model(run: Any) -> None:
    run.couple_two()
    run.host("a", {"code": [{"part": "Oi", "text": "out = level", "line": 7, "file": "/models/model.xml"}]})
    done = run.finish()["a"]
    assert done.returncode == 1
    assert 'File "/models/model.xml", line 7' in done.stderr
    assert "xmml_native" not in done.stderr
    assert run.wait_for("failed", "a")["text"] == "NameError: name 'level' is not defined at /models/model.xml:7"


def test_a_class_is_hosted(run: Any) -> None:
    run.couple_two()
    (run.folder / "ramp.py").write_text(
        "from xmml_native import Submodel\n"
        "class Ramp(Submodel):\n"
        "    def __init__(self): self.factor = self.me.param('factor', float)\n"
        "    def O_i(self): self.me.send('out', self.factor * 2)\n"
    )
    run.specs["a"]["params"]["factor"] = "1.5"
    run.define()
    run.host("a", {"class": "ramp:Ramp", "path": [str(run.folder)]})
    collector(run, "b", "in")
    assert run.finish()["b"].stdout == "0.0 3.0\n"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("absent:Ramp", "there is no module absent"),
        ("ramp:Rump", "has no Rump; it has Ramp"),
        ("ramp", "module:Name"),
        ("broken:Ramp", "No module named 'nowhere'"),
    ],
)
def test_a_class_that_cannot_be_had_is_named(run: Any, name: str, problem: str) -> None:
    run.couple_two()
    (run.folder / "ramp.py").write_text("class Ramp: pass\n")
    (run.folder / "broken.py").write_text("import nowhere\n")
    run.host("a", {"class": name, "path": [str(run.folder)]})
    assert run.finish()["a"].returncode == 1
    assert problem in run.wait_for("failed", "a")["text"]


def chain(run: Any, middle: dict[str, str]) -> None:
    """``a.out -> m.in``, ``m.out -> b.in``."""
    run.declare("a", {"out": "Oi"}, steps=4)
    run.declare("m", middle, kind="mapper", check_order=False)
    run.declare("b", {"in": "S"}, check_order=False)
    run.couple("a.out", "m.in")
    run.couple("m.out", "b.in")
    run.define()
    run.host("a", {"code": [{"part": "Oi", "text": "out = step", "line": 1, "file": "model.xml"}]})
    collector(run, "b", "in")


def test_a_filter_function_is_hosted(run: Any) -> None:
    (run.folder / "filters.py").write_text("def halve(message): return message.data / 2\n")
    chain(run, {"in": "in", "out": "out"})
    run.host("m", {"filter": "filters:halve", "path": [str(run.folder)]})
    assert run.finish()["b"].stdout == "0.0 0.0\n1.0 0.5\n2.0 1.0\n3.0 1.5\n"


def test_a_filter_may_drop_messages_or_send_several(run: Any) -> None:
    (run.folder / "filters.py").write_text(
        "def twice(message): return None if message.data % 2 else [message, message]\n"
    )
    chain(run, {"in": "in", "out": "out"})
    run.host("m", {"filter": "filters:twice", "path": [str(run.folder)]})
    assert run.finish()["b"].stdout == "0.0 0\n0.0 0\n2.0 2\n2.0 2\n"


def test_a_filter_that_yields_may_drop_messages(run: Any) -> None:
    (run.folder / "filters.py").write_text("def odd(message):\n    if message.data % 2: yield message\n")
    chain(run, {"in": "in", "out": "out"})
    run.host("m", {"filter": "filters:odd", "path": [str(run.folder)]})
    assert run.finish()["b"].stdout == "1.0 1\n3.0 3\n"


def test_a_mapper_scatters_to_copies_and_another_gathers_from_them(run: Any) -> None:
    run.declare("a", {"out": "Oi"})
    run.declare("split", {"in": "in", "out": "out"}, kind="mapper")
    run.declare("join", {"in": "in", "out": "out"}, kind="mapper")
    run.declare("b", {"in": "S"}, check_order=False)
    run.couple("a.out", "split.in")
    for copy in range(3):
        run.declare(f"c[{copy}]", {"part": "finit", "sum": "Of"}, index=copy, count=3)
        run.couple("split.out", f"c[{copy}].part", receiver_copy=copy)
        run.couple(f"c[{copy}].sum", "join.in", sender_copy=copy)
    run.couple("join.out", "b.in")
    run.define()
    header = "import numpy"
    run.host(
        "a",
        {
            "code": [
                {"part": "header", "text": header, "line": 1, "file": "model.xml"},
                {"part": "Oi", "text": "out = numpy.arange(7)", "line": 2, "file": "model.xml"},
            ]
        },
    )
    run.host("split", {"mapper": "scatter"})
    run.host("join", {"mapper": "gather"})
    for copy in range(3):
        text = "sum = float(part.sum())"
        run.host(f"c[{copy}]", {"code": [{"part": "Of", "text": text, "line": 3, "file": "model.xml"}]})
    collector(run, "b", "in")
    done = run.finish()
    assert {name: process.stderr for name, process in done.items() if process.returncode} == {}
    assert done["b"].stdout.split(" ", 1)[1] == "[ 3.  7. 11.]\n"
