"""A model of programs that exchange messages in a ring, each of which says where it runs and what it has there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Notes where it runs and what it has; its first rank is the instance.
PROGRAM = """
import json, os, socket, time
of_step = os.environ.get("SLURM_PROCID", "0") if "SLURM_LAUNCH_NODE_IPADDR" in os.environ and MPI else 0
rank = int(os.environ.get("PMIX_RANK", of_step))
kept = ("OMP_NUM_THREADS", "OMP_PLACES", "SLURM_CPUS_PER_TASK", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID")
facts = {name: os.environ.get(name) for name in kept}
facts |= {"rank": rank, "host": socket.gethostname(), "parent": os.getppid()}
facts["cpus"] = sorted(os.sched_getaffinity(0))
os.write(1, (json.dumps(facts) + "\\n").encode())  # at once: ranks share a stream
if rank == 0:
    import xmml
    with xmml.Instance() as me:
        while me.reuse():
            for step in range(20):
                me.send("o", step)
                me.receive("i")
                time.sleep(PAUSE)
"""

DEFINITION = """<submodel id="P-{name}" init="yes"><timescale delta="1 s" total="20 s"/>
  <ports><out id="o" operator="Oi"/><in id="i" operator="S"/></ports>
  <implementation path="{program}.py" language="python" runtime="10 s" {attributes}/></submodel>"""


def write_ring(folder: Path, programs: Mapping[str, str], pause: float = 0.0) -> Path:
    """Write a model of programs that exchange messages in a ring, by their names and the attributes of their
    implementations."""
    folder.mkdir()
    for program, is_mpi in (("plain", False), ("ranks", True)):
        text = PROGRAM.replace("MPI", str(is_mpi)).replace("PAUSE", str(pause))
        (folder / f"{program}.py").write_text(text)
    definitions = "".join(
        DEFINITION.format(name=name, attributes=each, program="ranks" if "run:mpi" in each else "plain")
        for name, each in programs.items()
    )
    instances = "".join(f'<instance id="{name}" submodel="P-{name}"/>' for name in programs)
    names = list(programs)
    couplings = "".join(
        f'<coupling from="{one}.o" to="{other}.i"/>' for one, other in zip(names, [*names[1:], names[0]], strict=True)
    )
    model = folder / "model.xmml"
    model.write_text(
        '<model id="ring" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
        f"<definitions>{definitions}</definitions><topology>{instances}{couplings}</topology></model>"
    )
    return model


def facts_of(run: Path) -> dict[str, list[dict[str, Any]]]:
    """What the ranks of each instance have said, in the order of the ranks."""
    found = {}
    for file in run.glob("instances/*/stdout"):
        facts = [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")]
        found[file.parent.name] = sorted(facts, key=lambda each: each["rank"])
    return found


def planned_hosts(run: Path, job_nodes: list[str]) -> dict[str, list[str]]:
    """The host of each rank by the plan of a run."""
    plan = json.loads((run / "plan.json").read_text())
    return {
        each["name"]: [job_nodes[share["node"]] for share in each["shares"] for _ in range(share.get("ranks", 1))]
        for each in plan["instances"]
    }


def hosts(run: Path) -> dict[str, list[str]]:
    """The host on which each rank of a run was."""
    return {name: [each["host"] for each in facts] for name, facts in facts_of(run).items()}
