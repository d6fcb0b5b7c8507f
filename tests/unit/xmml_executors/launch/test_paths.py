"""A plan as a site sees it."""

from __future__ import annotations

import sys

import pytest
from xmml_executors.launch.site.paths import SitePaths, mpi_command, replace_folders

PATHS = SitePaths("/home/me/model", "/home/me/model/runs/r1", "/scratch/xmml/runs/r1-ab", "/opt/py/bin/python3", "/bin")


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("/home/me/model", "/scratch/xmml/runs/r1-ab/model"),
        ("/home/me/model/build/solver", "/scratch/xmml/runs/r1-ab/model/build/solver"),
        ("--mesh=/home/me/model/mesh.dat", "--mesh=/scratch/xmml/runs/r1-ab/model/mesh.dat"),
        ('{"path": ["/home/me/model"]}', '{"path": ["/scratch/xmml/runs/r1-ab/model"]}'),
        ("/home/me/model/runs/r1/.secret", "/scratch/xmml/runs/r1-ab/.secret"),
        ("/home/me/model2/x", "/home/me/model2/x"),
        ("/other/home/me/model", "/other/home/me/model"),
        ("/home/me/model.old", "/home/me/model.old"),
        ("nothing of ours", "nothing of ours"),
    ],
)
def test_folders_of_this_machine_become_those_of_the_site_and_similar_names_do_not(text: str, there: str) -> None:
    assert PATHS.text(text) == there


def test_our_interpreter_becomes_that_of_the_site() -> None:
    command = [sys.executable, "/home/me/model/macro.py", "--quiet"]
    assert PATHS.command(command) == ["/opt/py/bin/python3", "/scratch/xmml/runs/r1-ab/model/macro.py", "--quiet"]


def test_an_interpreter_below_the_home_directory_is_named_in_full() -> None:
    paths = SitePaths("/m", "/r", "/there", "/home/a/env/bin/python", "/bin", "srun", "~/env/bin/python", "/home/a")
    assert paths.command(["~/env/bin/python", "-c", "pass"]) == ["/home/a/env/bin/python", "-c", "pass"]
    assert paths.command(["mpirun", "-n", "2", "~/env/bin/python", "/m/x.py"]) == [
        "srun", "-n", "2", "/home/a/env/bin/python", "/there/model/x.py",
    ]  # fmt: skip
    gpus = SitePaths("/m", "/r", "/there", "/home/a/env/bin/python", "/bin", "srun", "/opt/gpu/bin/python", "/home/a")
    assert gpus.command(["/opt/gpu/bin/python", "x.py"])[0] == "/opt/gpu/bin/python"


def test_mpi_programs_are_started_as_the_site_does_it() -> None:
    srun = SitePaths("/m", "/r", "/there", "/py", "/bin", mpi="srun")
    assert srun.command(["/usr/bin/mpirun", "-n", "4", "/m/solver", "-v"]) == [
        "srun", "-n", "4", "/there/model/solver", "-v",
    ]  # fmt: skip
    assert mpi_command("ibrun -np {ranks}", "8") == ["ibrun", "-np", "8"]


def test_the_search_path_is_that_of_the_site_with_our_tools_first() -> None:
    assert PATHS.env({"PATH": "/here/bin", "XMML_MODEL_DIR": "/home/me/model"}) == {
        "PATH": "/opt/py/bin:/bin",
        "XMML_MODEL_DIR": "/scratch/xmml/runs/r1-ab/model",
    }


def test_a_folder_is_replaced_wherever_it_stands() -> None:
    assert replace_folders("/a:/a/b", {"/a": "/x"}) == "/x:/x/b"


def test_a_folder_at_the_site_that_is_called_like_one_here_is_left_as_it_is() -> None:
    paths = SitePaths("/home/u", "/home/u/runs/r1", "/home/u/xmml/runs/r1-ab", "/py", "/bin")
    assert paths.text("/home/u/runs/r1/flow:/home/u/mesh.dat") == (
        "/home/u/xmml/runs/r1-ab/flow:/home/u/xmml/runs/r1-ab/model/mesh.dat"
    )
