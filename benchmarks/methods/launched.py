"""A stream by tcp, with and without protection, between programs that `xmml-run` starts and binds as for a user."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import coupled
from harness import builds, places, processes

MODEL = """<model id="stream" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="Source">
      <timescale delta="1 s" total="{count} s"/> <ports><out id="stream" operator="Oi"/></ports>
      <implementation path="{program}" run:args="source {size_b} {count}"/>
    </submodel>
    <submodel id="Sink">
      <timescale delta="1 s" total="{count} s"/> <ports><in id="stream" operator="S"/></ports>
      <implementation path="{program}" run:args="sink {count} {report}"/>
    </submodel>
  </definitions>
  <topology>
    <instance id="source" submodel="Source"/> <instance id="sink" submodel="Sink"/>
    <coupling from="source.stream" to="sink.stream" run:methods="tcp" run:protect="{protect}"/>
  </topology>
</model>
"""


def stream(size_b: int, count: int, *, is_protected: bool) -> dict[str, float]:
    """Return what the sink measured: the times from one message to the next, and of all.

    Raises:
        RunFailed: the run failed.
    """
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        folder = Path(name)
        report = folder / "report.json"
        text = MODEL.format(
            program=builds.program(coupled.PROGRAM),
            size_b=size_b,
            count=count,
            report=report,
            protect="yes" if is_protected else "no",
        )
        (folder / "model.xmml").write_text(text)
        command = [places.tool("xmml-run") or "xmml-run", "-q", "-o", folder / "run", "model.xmml"]
        log, environment = folder / "output.txt", places.environment()
        processes.run(command, log=log, environment=environment, timeout_s=coupled.TIMEOUT_S, cwd=folder)
        measured: dict[str, float] = json.loads(report.read_text())
        return measured
