"""Instances that are alone: the loop, ports, parameters, errors."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xmml_native import (
    EndedError,
    Error,
    Instance,
    Message,
    NotInARunError,
    OrderError,
    ParameterError,
    PortError,
    Submodel,
)
from xmml_native.errors import describe


def test_outside_a_run_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XMML_COORDINATOR", raising=False)
    monkeypatch.delenv("XMML_INSTANCE", raising=False)
    with pytest.raises(NotInARunError, match=r"xmml-run.*Instance\.alone"):
        Instance()


@pytest.mark.parametrize(
    ("mode", "digits", "problem"),
    [
        (0o644, "0f" * 16, r"others can read this secret \(mode 644\); chmod 600 it"),
        (0o600, "0f" * 15, "the secret has 15 bytes, at least 16 are needed"),
        (0o600, "secret", "hexadecimal digits"),
    ],
)
def test_a_secret_that_is_none_is_refused_before_anything_is_dialled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, digits: str, problem: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(digits)
    secret.chmod(mode)
    monkeypatch.setenv("XMML_SECRET_FILE", str(secret))
    monkeypatch.setenv("XMML_INSTANCE", "a")
    monkeypatch.setenv("XMML_COORDINATOR", "unix:@nobody?run=test")
    with pytest.raises(Error, match=problem):
        Instance()


def test_steps_are_those_of_the_model() -> None:
    with Instance.alone(ports={"state": "Oi"}, delta=0.1, steps=3) as me:
        assert me.reuse()
        for t in me.steps():
            me.send("state", t)
        assert not me.reuse()
    sent = me.outputs["state"]
    assert [m.timestamp for m in sent] == [0.0, 0.1, 0.2]
    assert [m.next_timestamp for m in sent] == [0.1, 0.2, None]


def test_there_is_one_run_for_each_initial_message() -> None:
    starts = [Message("a", 0.0, 10.0), Message("b", 10.0)]
    with Instance.alone(ports={"start": "finit", "end": "Of"}, inputs={"start": starts}) as me:
        while me.reuse():
            state = me.receive("start").data
            for _ in me.steps():
                pass
            me.send("end", (state, me.origin))
    assert [m.data for m in me.outputs["end"]] == [["a", 0.0], ["b", 10.0]]


def test_explicit_time_stamps_win() -> None:
    me = Instance.alone(ports={"out": "Oi"}, check_order=False)
    me.send("out", 1, 7.0, 9.0)
    me.send("out", 2, timestamp=9.0, next_timestamp=None)
    assert [(m.timestamp, m.next_timestamp) for m in me.outputs["out"]] == [(7.0, 9.0), (9.0, None)]


@pytest.mark.parametrize("stamps", [(float("nan"),), (float("inf"),), (0.0, float("nan")), (0.0, -float("inf"))])
def test_a_time_stamp_is_a_finite_number(stamps: tuple[float, ...]) -> None:
    me = Instance.alone(ports={"out": "Oi"}, check_order=False)
    with pytest.raises(Error, match=r"\.out: the time stamp is .*; it must be a finite number"):
        me.send("out", 1, *stamps)
    assert me.outputs["out"] == []


def test_receive_or_end_returns_none_at_the_end() -> None:
    me = Instance.alone(ports={"in": "S"}, inputs={"in": [1]}, check_order=False)
    assert me.has_message("in")
    first = me.receive_or_end("in")
    assert first is not None
    assert first.data == 1
    assert me.receive_or_end("in") is None


def test_a_loop_goes_over_the_messages_of_a_port_until_they_end() -> None:
    me = Instance.alone(ports={"in": "in"}, inputs={"in": [1, 2, 3]})
    assert [message.data for message in me.messages("in")] == [1, 2, 3]


@pytest.mark.parametrize("duplicate", [copy.copy, pickle.dumps])
def test_an_instance_is_neither_copied_nor_pickled(duplicate: Callable[[Any], Any]) -> None:
    me = Instance.alone(name="cell", ports={"in": "in"})
    with pytest.raises(TypeError, match="cell: an instance cannot be copied or pickled"):
        duplicate(me)


def test_a_receive_that_insists_after_the_end_says_where_it_is() -> None:
    me = Instance.alone(ports={"in": "S"}, inputs={"in": []}, check_order=False)
    line = sys._getframe().f_lineno + 2
    with pytest.raises(EndedError) as caught:
        me.receive("in")
    assert f"{Path(__file__).name}:{line}" in str(caught.value)


def test_an_uncoupled_port_takes_the_default() -> None:
    me = Instance.alone(ports={"in": "S"}, check_order=False)
    assert not me.connected("in")
    assert me.receive("in", default=4.5).data == 4.5
    assert me.receive("in", default=None).data is None
    with pytest.raises(PortError, match="default"):
        me.receive("in")


def test_unknown_ports_are_named_with_the_known_ones() -> None:
    me = Instance.alone(ports={"level": "Oi", "flow": "S"})
    with pytest.raises(PortError, match=r'"levle".*level.*called at .*test_instance\.py'):
        me.send("levle", 1)


def test_a_call_out_of_order_says_what_was_expected_and_where() -> None:
    me = Instance.alone(ports={"level": "Oi", "flow": "S"}, inputs={"flow": [1, 2]}, steps=2)
    me.reuse()
    next(iter(me.steps()))
    with pytest.raises(OrderError, match=r"expected.*called at .*test_instance\.py:\d+"):
        me.receive("flow")


def test_receive_all_returns_one_message_per_copy() -> None:
    inputs = {f"in[{copy}]": [copy * 10] for copy in range(3)}
    me = Instance.alone(ports={"in": "in", "out": "out"}, inputs=inputs, copies={"in": 3})
    assert me.reuse()
    assert [m.data for m in me.receive_all("in")] == [0, 10, 20]


def test_sends_to_one_copy_are_recorded_apart() -> None:
    me = Instance.alone(ports={"out": "Oi"}, copies={"out": 2}, check_order=False)
    me.send("out", "first", to=0)
    me.send("out", "both")
    recorded = {port: [m.data for m in messages] for port, messages in me.outputs.items()}
    assert recorded == {"out[0]": ["first", "both"], "out[1]": ["both"]}


def test_inputs_may_be_npy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    np.save(tmp_path / "b.npy", np.arange(4))
    inputs = {"one": tmp_path / "a.npy", "two": [str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]}
    me = Instance.alone(ports={"one": "S", "two": "S"}, inputs=inputs, check_order=False)
    assert me.receive("one").data.tolist() == [0, 1, 2]
    assert [me.receive("two").data.size for _ in range(2)] == [3, 4]


def test_inputs_for_an_unknown_port_are_refused() -> None:
    with pytest.raises(Error, match='no port "flwo"; its ports are flow'):
        Instance.alone(ports={"flow": "S"}, inputs={"flwo": [1]})


def test_inputs_that_are_no_list_are_refused() -> None:
    with pytest.raises(Error, match="must be a list with one item per message"):
        Instance.alone(ports={"flow": "S"}, inputs={"flow": 3.0})


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(Error, match="finit, Oi, S, B, Of"):
        Instance.alone(ports={"flow": "X"})


@pytest.mark.parametrize(
    ("text", "kind", "unit", "value"),
    [
        ("5 km", float, "m", 5000.0),
        ("5 km", float, None, 5000.0),
        ("1e-3", float, "1/s", 1e-3),
        ("10 min", float, "s", 600.0),
        ("12", int, None, 12),
        ("yes", bool, None, True),
        ("false", bool, None, False),
        ("5 km", str, None, "5 km"),
    ],
)
def test_parameters_are_converted(text: str, kind: type, unit: str | None, value: object) -> None:
    me = Instance.alone(ports={}, params={"p": text})
    assert me.param("p", kind, unit) == value
    assert type(me.param("p", kind, unit)) is kind


def test_parameters_may_have_a_default() -> None:
    me = Instance.alone(ports={}, params={"given": 1})
    assert me.param("missing", float, default=2.5) == 2.5
    assert me.params == {"given": "1"}


@pytest.mark.parametrize(("name", "kind"), [("missing", str), ("word", float), ("word", int), ("word", bool)])
def test_parameters_that_cannot_be_had_are_named(name: str, kind: type) -> None:
    me = Instance.alone(ports={}, params={"word": "fast"})
    with pytest.raises(ParameterError, match=f'"{name}"'):
        me.param(name, kind)


def test_a_submodel_class_runs_its_operators_in_order() -> None:
    class Model(Submodel):
        def f_init(self) -> None:
            self.state = [self.t]

        def O_i(self) -> None:
            self.me.send("x", self.state)

        def S(self) -> None:
            self.state.append(self.me.receive("y").data)

        def O_f(self) -> None:
            self.me.send("end", self.state)

    model = Model()
    model.me = Instance.alone(ports={"x": "Oi", "y": "S", "end": "Of"}, inputs={"y": [5, 6]}, steps=2)
    model.run()
    assert model.me.outputs["end"][0].data == [0.0, 5, 6]


def test_an_error_is_told_in_one_line_with_its_place() -> None:
    line = sys._getframe().f_lineno + 2
    with pytest.raises(ValueError, match="negative") as caught:
        raise ValueError("negative\ndepth")
    assert describe(caught.value) == f"ValueError: negative depth at {__file__}:{line}"


MODEL = """<model id="heating" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml">
  <definitions>
    <mapper id="Spread" type="fan-out"> <ports> <in id="whole"/> <out id="part"/> </ports> </mapper>
    <submodel id="Room">
      <timescale delta="1 min" total="3 min"/>
      <param id="outside" value="5.0"/>
      <ports> <out id="temperature" operator="Oi"/> <in id="power" operator="S"/> </ports>
    </submodel>
    <submodel id="Worker">
      <timescale delta="1 min" total="1 min"/>
      <ports> <in id="part" operator="finit"/> </ports>
    </submodel>
  </definitions>
  <topology>
    <instance id="room" submodel="Room"/>
    <instance id="spread" mapper="Spread"/>
    <instance id="worker" submodel="Worker" multiplicity="2"/>
    <coupling from="room.temperature" to="spread.whole"/>
    <coupling from="spread.part" to="worker.part"/>
  </topology>
</model>
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.xml"
    path.write_text(MODEL)
    return path


def test_a_model_says_what_an_instance_alone_is(model: Path) -> None:
    with Instance.alone(model, "room", inputs={"power": [1.0, 2.0, 3.0]}, params={"extra": 2}) as me:
        assert me.reuse()
        for t in me.steps():
            me.send("temperature", me.param("outside", float) + t)
            me.receive("power")
    assert [m.data for m in me.outputs["temperature"]] == [5.0, 65.0, 125.0]
    assert (me.delta, me.total, me.params["extra"]) == (60.0, 180.0, "2")


def test_a_model_says_how_many_copies_a_port_leads_to(model: Path) -> None:
    me = Instance.alone(model, "spread", inputs={"whole": [1]})
    assert me.copies("part") == 2


def test_a_copy_may_be_alone(model: Path) -> None:
    me = Instance.alone(model, "worker[1]", inputs={"part": [1]})
    assert (me.name, me.index, me.count) == ("worker[1]", 1, 2)


def test_an_instance_that_the_model_does_not_have_is_named_with_the_others(model: Path) -> None:
    with pytest.raises(Error, match=r'no instance "rom": room, spread, worker'):
        Instance.alone(model, "rom")
    with pytest.raises(Error, match="give the name of one: room, spread, worker"):
        Instance.alone(model)


def test_alone_an_exception_is_told_by_its_traceback_only(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), Instance.alone(ports={}):
        raise ZeroDivisionError("in the model")
    assert capfd.readouterr().err == ""


SCALED = """<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml"><definitions>
<submodel id="A"><timescale delta="1 min" total="1 hr"/><spacescale id="x" delta="5 mm" total="20 cm"/>
<spacescale id="y" total="1 km"/><ports><out id="o" operator="Oi"/><in id="i" operator="S"/></ports></submodel>
</definitions><topology><instance id="a" submodel="A"/></topology></model>"""


def test_ports_and_scales_are_as_the_model_declares_them(tmp_path: Path) -> None:
    path = tmp_path / "model.xmml"
    path.write_text(SCALED)
    me = Instance.alone(path)
    assert list(me.ports) == ["o", "i"]
    out, into = me.ports["o"], me.ports["i"]
    assert (out.name, out.direction, out.operator, out.connected) == ("o", "out", "Oi", True)
    assert (into.direction, into.operator, into.connected) == ("in", "S", False)
    x, y, t = (me.scale(name) for name in "xyt")
    assert (x.kind, x.delta, x.total, x.steps) == ("space", 0.005, 0.2, 40)
    assert (y.delta, y.total, y.steps) == (0.0, 1000.0, 0)
    assert (t.kind, t.delta, t.steps) == ("time", 60.0, 60)
    assert repr(x) == "Scale(name='x', kind='space', delta=0.005, total=0.2, steps=40)"
    with pytest.raises(Error, match='no scale "z" in the model; it gives t, x, y'):
        me.scale("z")
