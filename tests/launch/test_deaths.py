"""A worker at a site that dies while the run goes on."""

from __future__ import annotations

import os
import signal

import pytest
from several_sites import Sites

WRITER = """
import xmml
with xmml.Instance() as me:
    while me.reuse():
        for number in range(40):
            me.put("jobs", number, step=number)
"""
WORKER = """
import time, xmml
with xmml.Instance() as me:
    while me.reuse():
        for job in me.objects("jobs"):
            print(job.data, flush=True)
            {work}
"""
MODEL = """<model id="farm" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <datatype id="job" run:attributes="step:int!"/>
    <submodel id="Asks"><timescale delta="1 s" total="1 s"/><ports><out id="jobs" datatype="job"/></ports>
      <implementation language="python" path="asks.py"/></submodel>
    <submodel id="Answers"><timescale delta="1 s" total="1 s"/><ports><in id="jobs" datatype="job"/></ports>
      <implementation language="python" path="answers.py"/></submodel>
  </definitions>
  <topology>
    <instance id="asks" submodel="Asks"/>
    <instance id="answers" submodel="Answers" multiplicity="2" run:on-death="continue"/>
    <coupling from="asks.jobs" to="answers.jobs" run:kind="pool" run:share="queue"/>
  </topology>
</model>
"""


@pytest.mark.parametrize("asks", ["alpha", "beta"])
def test_a_worker_at_a_site_that_is_killed_is_told_by_its_agent_and_not_missed(sites: Sites, asks: str) -> None:
    folder = sites.folder / "model"
    folder.mkdir()
    (folder / "model.xmml").write_text(MODEL)
    (folder / "asks.py").write_text(WRITER)
    # The first worker waits with its object until the other one is dead, which never ends with its own.
    gate = sites.folder / "dead"
    work = f"while not __import__('os').path.exists({str(gate)!r}) or me.index: time.sleep(0.05)"
    (folder / "answers.py").write_text(WORKER.format(work=work))
    sites.cores["beta"] = 3
    going = sites.launch(folder / "model.xmml", asks=asks)
    sites.await_event("joined", 3)
    (pid,) = [event["pid"] for event in sites.events("joined") if event["instance"] == "answers[1]"]
    os.kill(pid, signal.SIGKILL)
    sites.await_event("died")
    gate.touch()
    ended = sites.end(going).check(0)
    assert "answers[1] died: it was killed by SIGKILL (Killed); the run went on without it" in ended.err
    lines = (sites.run_folder / "instances/answers[0]/stdout").read_text().split()
    assert sorted(map(int, lines)) == list(range(40))
