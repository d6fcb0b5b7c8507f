"""Which files of a model's folder are brought to a site."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from xmml_executors.launch.run_site import program_files
from xmml_executors.launch.staging import describe, files_of, stage
from xmml_sites.ssh.local import LocalTransport


def test_the_whole_folder_of_a_model_is_without_the_folders_of_runs_that_were_put_there(tmp_path: Path) -> None:
    for name in ("model.xmml", "mesh/plan.json", "out/plan.json", "out/events.jsonl", "out/instances/a/stdout"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = [str(path.relative_to(tmp_path)) for path in files_of(tmp_path, ["."])]
    assert found == ["model.xmml", "mesh/plan.json"]


def test_what_a_build_has_made_is_not_staged_unless_it_is_named(tmp_path: Path) -> None:
    for name in ("flow.c", "flow", "parts/flow.o"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    made = {"flow", "parts/flow.o"}
    assert [path.name for path in files_of(tmp_path, ["."], made)] == ["flow.c"]
    assert [path.name for path in files_of(tmp_path, [".", "flow"], made)] == ["flow.c", "flow"]


class WhileItIsWritten(LocalTransport):
    """On whose way a file grows: between the moment at which it is looked at and that at which it is sent."""

    log: Path

    async def put_many(self, files: Iterable[tuple[Path, str]]) -> None:
        with self.log.open("a") as file:
            file.write("more\n")
        await super().put_many(files)


def test_files_keep_their_times_and_one_that_grows_meanwhile_arrives_as_it_was_at_some_moment(tmp_path: Path) -> None:
    model, run = tmp_path / "model", tmp_path / "work/runs/r"
    for folder in (model, run):
        folder.mkdir(parents=True)
    for name, text in program_files().items():
        (run / name).write_text(text)
    (model / "run.log").write_text("begun\n")
    (model / "program").write_text("print(1)\n")
    os.utime(model / "program", ns=(1, 1_234_567_890_123_456_789))

    async def staged() -> Mapping[str, int]:
        transport = WhileItIsWritten("alpha")
        transport.log = model / "run.log"
        agent = shlex.join([sys.executable, "-I", "-S", str(run / "agent.py")])
        try:
            return await stage(transport, str(tmp_path / "work"), str(run), agent, await describe(model, ["."]))
        finally:
            await transport.close()

    assert asyncio.run(staged())["files"] == 2
    assert (run / "model/program").read_text() == "print(1)\n"
    assert (run / "model/program").stat().st_mtime_ns == 1_234_567_890_123_456_789
    assert (run / "model/run.log").read_text().startswith("begun\nmore\n")
