"""Objects of pools at an instance without a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xmml_native
from xmml_native import Error, Instance, Object

ATTRIBUTES = "step:int[0..]! name:enum(p,u) share:real=0.5"


def alone(inputs: list[object] | None = None) -> Instance:
    """Return an instance that takes and puts, with an ordinary port beside."""
    return Instance.alone(
        ports={"fields": "in", "halves": "out", "state": "Oi"},
        attributes={"fields": ATTRIBUTES, "halves": ATTRIBUTES},
        inputs=None if inputs is None else {"fields": inputs},
        steps=2,
    )


def test_what_is_put_is_an_output_with_its_attributes() -> None:
    with alone([]) as me:
        while me.reuse():
            for t in me.steps():
                me.put("halves", np.full(3, t), step=int(t), name="u")
                me.send("state", t)
    first, second = me.outputs["halves"]
    assert (first["step"], second["step"], second["name"], second["share"]) == (0, 1, "u", 0.5)
    assert second.data.tolist() == [1.0, 1.0, 1.0]
    assert (second["sys.seq"], second["sys.t"], second["sys.port"], second["sys.type"]) == (1, 1.0, "halves", "float64")
    assert [message.data for message in me.outputs["state"]] == [0.0, 1.0]


def test_inputs_are_objects_that_are_taken_in_order() -> None:
    me = alone([Object(np.arange(2), step=3, name="p"), Object(step=4, share=1, name=None)])
    with me:
        first, second = me.objects("fields")
        assert me.take("fields") is None
    assert (first["step"], first["name"], first["share"], first.data.tolist()) == (3, "p", 0.5, [0, 1])
    assert (second["step"], second.get("name"), second["share"], second.data) == (4, None, 1.0, None)
    assert "name" not in second


def test_inputs_are_checked_like_what_is_put() -> None:
    with pytest.raises(Error, match=r"inputs of fields: step is missing"):
        alone([Object(1)])
    with pytest.raises(Error, match=r"inputs of fields: step = -1 is not allowed: it is int\[0\.\.\]"):
        alone([Object(1, step=-1)])
    with alone([]) as me, pytest.raises(Error, match=r"alone\.halves: there is no attribute 'stp'; did you mean step"):
        me.put("halves", stp=1)


def test_without_attributes_there_is_no_pool() -> None:
    with Instance.alone(ports={"out": "Oi"}) as me, pytest.raises(Error, match="only if its attributes are given"):
        me.put("out", 1)


def test_a_model_says_which_ports_are_of_pools(tmp_path: Path) -> None:
    model = tmp_path / "model.xmml"
    model.write_text(
        '<model id="pools" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
        f'<definitions><datatype id="field" run:attributes="{ATTRIBUTES}"/>'
        '<submodel id="W"><timescale delta="1 s" total="2 s"/><ports><out id="fields" datatype="field"/></ports>'
        '</submodel><submodel id="R"><timescale delta="1 s" total="2 s"/><ports>'
        '<in id="fields" datatype="field"/></ports></submodel>'
        '</definitions><topology><instance id="w" submodel="W"/><instance id="r" submodel="R"/>'
        '<coupling from="w.fields" to="r.fields" run:kind="pool"/></topology></model>'
    )
    with Instance.alone(model, "w") as w:
        assert w.put("fields", 7, step=1) == 1
    with Instance.alone(model, "r", inputs={"fields": w.outputs["fields"]}) as r:
        (taken,) = r.objects("fields")
    assert (taken.data, taken["step"]) == (7, 1)


def test_an_object_says_what_it_is() -> None:
    assert repr(Object(7, step=1, name="p")) == "Object(7, step=1, name='p')"
    assert xmml_native.Object is Object


def test_a_group_takes_objects_only_between_its_begin_and_its_end() -> None:
    with Instance.alone(ports={"fields": "out"}, attributes={"fields": "step:int param:str"}) as me:
        record = me.group("fields", step=3)
        with pytest.raises(Error):
            record.put(1, param="t")
        with record:
            record.put(2, param="t")
        with pytest.raises(Error):
            record.put(3, param="t")


@pytest.mark.parametrize("attributes", ["step:int=0", "step:int!"])
def test_what_is_sent_in_a_group_has_the_attributes_of_the_group(attributes: str) -> None:
    with Instance.alone(ports={"fields": "out"}, attributes={"fields": attributes}) as me:
        with me.group("fields", step=3) as record:
            record.put(1)
            me.send("fields", 2)
        assert [each["step"] for each in me.outputs["fields"]] == [3, 3]
