"""A run on this machine starts fast because it loads nothing that only other runs need; while it goes on it keeps
nothing that is not needed any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import greeting

#: For models on several sites, for pictures, for workflows, for large data; with everything in them.
OTHERS = [
    "asyncio",
    "asyncssh",
    "cryptography",
    "ortools",
    "pulp",
    "numpy",
    "networkx",
    "matplotlib",
    "snakemake",
    "yaml",
    "jsonschema",
    "xmml.graphs.views",
    "xmml.convert",
    "xmml.notebook",
    "xmml_planner.placement",
    "xmml_planner.several_sites",
    "xmml_planner.sites.reading",
    "xmml_sites.batch",
    "xmml_sites.ssh",
    "xmml_sites.transfer",
    "xmml_executors.coallocation",
    "xmml_sites.check",
    "xmml_executors.launch.launcher",
    "xmml_executors.launch.multi_site_executor",
    "snakemake_executor_plugin_xmml",
]

CODE = """
import sys
from xmml_run.main import xmml_run
status = xmml_run(["--quiet", "-o", "run", "model.xmml"])
print(status, *sorted(sys.modules))
"""

LOOKING = """
import weakref
from xmml_executors.execution import _Execution
from xmml_run import run_command
from xmml_run.main import xmml_run

models, kept = [], []
read_and_plan, wait = run_command.read_and_plan, _Execution.wait

def remembering(*arguments, **options):
    planned = read_and_plan(*arguments, **options)
    models.append(weakref.ref(planned.model))
    return planned

def looking(self, deadline):
    kept.append((models[0]() is not None, "text" in vars(self.plan)))
    wait(self, deadline)

run_command.read_and_plan, _Execution.wait = remembering, looking
status = xmml_run(["--quiet", "-o", "run", "model.xmml"])
print(status, kept[-1])
"""


def test_a_run_on_this_machine_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    done = run(CODE, tmp_path)
    status, *loaded = done.stdout.split() or ["nothing"]
    assert status == "0", done.stderr
    assert "xmml_executors.execution" in loaded
    assert [name for name in loaded if any(name == each or name.startswith(f"{each}.") for each in OTHERS)] == []


def test_a_run_keeps_neither_the_model_nor_the_text_of_its_plan(tmp_path: Path) -> None:
    done = run(LOOKING, tmp_path)
    assert done.stdout == "0 (False, False)\n", done.stderr
    assert (tmp_path / "run" / "model.xmml").exists()


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in a folder that holds the model."""
    (folder / "model.xmml").write_text(greeting.model())
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=folder,
        capture_output=True,
        text=True,
    )
