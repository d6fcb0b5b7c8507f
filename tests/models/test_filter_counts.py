"""Filters for real, over several runs of the sender: as many messages arrive as the analysis counts in advance."""

from __future__ import annotations

from pathlib import Path

from model_runs import run_document

from xmml.analysis.filter_counts import filter_counts
from xmml.check import check

RUNS, STEPS = 5, 3
CHAINS = (
    "",
    "drop 2",
    "sum 2",
    "repeat 2",
    "lineartimeinterpolation 3",
    "last",
    "sum 2|last",
    "sum 4|last",
    "sum 4|repeat 3|last",
    "last|sum 2",
    "last|repeat 2|sum 3",
    "sum 2|last|drop 2|last|repeat 2",
)
#: Takes what comes until nothing more comes.
READER = """
import xmml

with xmml.Instance() as me:
    me.reuse()
    number = 0
    while me.receive_or_end("i") is not None:
        number += 1
    print(number)
"""


def document() -> str:
    """A caller starts a sender RUNS times; each chain of filters lies on the way to a reader of its own."""
    names = sorted({name for chain in CHAINS for name in chain.replace("|", " ").split() if name.isalpha()})
    filters = "".join(f'<filter id="{name}" type="converter"/>' for name in names)
    readers, couplings = [], []
    for number, chain in enumerate(CHAINS):
        applied = ""
        for name, _, factor in (part.partition(" ") for part in chain.split("|") if part):
            applied += f'<apply filter="{name}"' + (f' factor="{factor}"/>' if factor else "/>")
        readers.append(f'<instance id="r{number}" submodel="Reader" run:steps="until" run:order="free"/>\n')
        couplings.append(f'<coupling from="sender.o" to="r{number}.i">{applied}</coupling>\n')
    return f"""<model id="counts" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml"
       xmlns:run="urn:xmml:run:1">
<definitions>{filters}
<submodel id="Caller"><timescale delta="1 s" total="{RUNS} s"/><ports><out id="o" operator="Oi"/></ports>
<implementation><code language="python" part="Oi">o = t</code></implementation></submodel>
<submodel id="Sender"><timescale delta="1 s" total="{STEPS} s"/>
<ports><in id="i" operator="finit"/><out id="o" operator="Oi"/></ports>
<implementation><code language="python" part="Oi">o = t</code></implementation></submodel>
<submodel id="Reader"><timescale delta="1 s" total="1 s"/><ports><in id="i" operator="S"/></ports>
<implementation language="python" path="reader.py"/></submodel>
</definitions>
<topology><instance id="caller" submodel="Caller"/><instance id="sender" submodel="Sender"/>
{"".join(readers)}<coupling from="caller.o" to="sender.i"/>
{"".join(couplings)}</topology></model>
"""


def test_as_many_messages_arrive_as_are_counted_in_advance(tmp_path: Path) -> None:
    path = tmp_path / "model.xmml"
    path.write_text(document())
    (tmp_path / "reader.py").write_text(READER)
    model = check(path).model_or_raise()
    expected = {
        coupling.receiver.instance: filter_counts(coupling.filters, per_run=STEPS).outputs(RUNS * STEPS, RUNS)
        for coupling in model.couplings
        if coupling.sender.instance == "sender"
    }
    run = run_document(path)
    assert {name: int(run.output(name)) for name in expected} == expected
    assert run.report["instances"]["sender"]["runs"] == RUNS
    for chain, what in (("sum 2", "the last"), ("sum 4|last", "the last 3")):
        name = f"r{CHAINS.index(chain)}"
        assert run.stderr.count(f"-> {name}.i: filter sum: {what} of {RUNS * STEPS} messages") == 1, run.stderr
