"""Programs in images of Apptainer are coupled like others. Where Apptainer is not installed, what stands in for it
shows them nothing but the image and what it is told to (tests/support/stand_in_apptainer.py)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from commands import BIN
from images import write_container_program, write_image
from model_runs import Run, run_document
from needs import needs, needs_root
from rings import facts_of, write_ring


@pytest.fixture
def with_apptainer(tmp_path: Path) -> dict[str, str]:
    """The environment in which Apptainer is found, and shows nothing of home folders and /tmp by itself."""
    program = write_container_program(tmp_path / "bin")
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "APPTAINER_NO_MOUNT": "home,tmp"}


def methods(run: Run) -> dict[str, str]:
    told = subprocess.run([BIN / "xmml", "status", "--json", run.folder], capture_output=True, text=True, check=True)
    return {each["name"]: each["method"] for each in json.loads(told.stdout)["conduits"]}


def test_a_program_in_an_image_is_coupled_to_one_outside_through_shared_memory(
    tmp_path: Path, with_apptainer: dict[str, str]
) -> None:
    model = write_ring(tmp_path / "ring", {"inside": 'run:image="ring.sif"', "outside": ""})
    write_image(model.parent / "ring.sif")
    run = run_document(model, "--hosts", "1", env=with_apptainer)
    assert set(methods(run).values()) == {"shm"}


@needs_root
def test_a_program_in_an_image_sees_the_run_and_the_model_and_nothing_else_outside(
    tmp_path: Path, with_apptainer: dict[str, str]
) -> None:
    (tmp_path / "elsewhere").write_text("")
    model = write_ring(tmp_path / "ring", {"inside": 'run:image="ring.sif"', "outside": ""})
    (model.parent / "plain.py").write_text(
        "import os\n"
        "model, run = os.environ['XMML_MODEL_DIR'], os.environ['XMML_RUN_DIR']\n"
        f"if os.environ['XMML_INSTANCE'] == 'inside': assert not os.path.exists({str(tmp_path / 'elsewhere')!r})\n"
        "assert os.path.exists(model + '/model.xmml') and os.getcwd().startswith(run)\n"
        "open('written', 'w').close()\n" + (model.parent / "plain.py").read_text()
    )
    write_image(model.parent / "ring.sif")
    run = run_document(model, env=with_apptainer)
    assert (run.folder / "instances/inside/work/written").exists()


@needs_root
@pytest.mark.parametrize("option", ["--userns", "--pid", "--ipc", "--contain", "--contain --pid --ipc"])
def test_namespaces_of_users_processes_and_ipc_do_not_matter_to_messages(
    tmp_path: Path, with_apptainer: dict[str, str], option: str
) -> None:
    model = write_ring(tmp_path / "ring", {"inside": 'run:image="ring.sif"', "outside": ""})
    write_image(model.parent / "ring.sif")
    sites = tmp_path / "sites.toml"
    sites.write_text(f'[site.here]\ncontainer = "apptainer exec {option} {{image}}"\n')
    run = run_document(model, "--sites", str(sites), env=with_apptainer)
    assert set(methods(run).values()) == {"shm"}


@needs_root
def test_folders_may_have_names_that_mean_something_to_apptainer(
    tmp_path: Path, with_apptainer: dict[str, str]
) -> None:
    model = write_ring(tmp_path / 'my, "ring": 1 ', {"inside": 'run:image="ring.sif"', "outside": ""})
    write_image(model.parent / "ring.sif")
    run_document(model, env=with_apptainer)


@needs("mpirun")
def test_each_rank_of_an_mpi_program_runs_in_the_image(tmp_path: Path, with_apptainer: dict[str, str]) -> None:
    model = write_ring(tmp_path / "ring", {"wide": 'run:image="ring.sif" run:mpi="2"', "outside": ""})
    program = model.parent / "ranks.py"
    check = "import os; assert 'APPTAINER_CONTAINER' in os.environ\n"
    program.write_text(check + program.read_text())
    write_image(model.parent / "ring.sif")
    run = run_document(model, env=with_apptainer)
    assert [each["rank"] for each in facts_of(run.folder)["wide"]] == [0, 1]


def test_a_program_in_an_image_is_ended_when_another_one_fails(tmp_path: Path, with_apptainer: dict[str, str]) -> None:
    model = write_ring(tmp_path / "ring", {"inside": 'run:image="ring.sif"', "fails": ""}, pause=60.0)
    (model.parent / "plain.py").write_text(
        "import os, sys\n"
        "if os.environ['XMML_INSTANCE'] == 'fails': sys.exit(3)\n" + (model.parent / "plain.py").read_text()
    )
    write_image(model.parent / "ring.sif")
    run_document(model, env=with_apptainer, status=4)
