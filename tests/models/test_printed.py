"""What docs/submodels.md and docs/pools.md show in several languages, the tutorial and the README, as printed."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import fortran
import printed
import pytest
from commands import BIN
from every_language import java_program, parameters
from model_runs import RunModel, run_document
from needs import java_missing, missing
from pool_models import ATTRIBUTES, model_of, pool

PAGE = "submodels.md"
WARNINGS = "-Wall -Wextra -Werror -pedantic"
#: How each program is declared and compiled; the page says the same without the warnings.
LANGUAGES = {
    "python": 'language="python" path="decay.py"',
    "c": f'language="c" path="decay" run:build="cc {WARNINGS} -o decay decay.c $(xmml-config --cflags --libs)"',
    "c++": f'language="c++" path="decay" run:build="c++ {WARNINGS} -o decay decay.cpp $(xmml-config --cflags --libs)"',
    "fortran": f'language="fortran" path="decay" '
    f'run:build="gfortran {WARNINGS} -o decay decay.f90 $(xmml-config --fflags --flibs)"',
    "java": 'language="java" path="." run:build="javac -cp $(xmml-config --jar) Decay.java"',
}

#: Programs around the group of docs/pools.md.
GROUPS = {
    "python": """\
import numpy as np
import xmml
temperature, wind = np.zeros(3), np.ones(3)
with xmml.Instance() as me:
    while me.reuse():
{group}
""",
    "fortran": """\
program writer
    use, intrinsic :: iso_fortran_env, only: real64
    use xmml
    implicit none
    type(xmml_instance) :: me
    real(real64) :: temperature(3) = 0, wind(3) = 1
    call me%join()
    do while (me%reuse())
{group}
    end do
    call me%leave()
end program
""",
    "java": """\
import java.util.Map;
import org.xmml.Group;
import org.xmml.Instance;

public class Writer {{
    public static void main(String[] arguments) {{
        double[] temperature = new double[3];
        double[] wind = {{1, 1, 1}};
        try (Instance me = Instance.join()) {{
            while (me.reuse()) {{
{group}
            }}
        }}
    }}
}}
""",
}
#: What takes it.
READER = """
import xmml
with xmml.Instance() as me:
    while me.reuse():
        for field in me.objects("fields"):
            print(field["step"], field["param"], field.data.mean(), field["sys.follow"])
"""


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_submodel_runs_in_each_language_as_printed(run_model: RunModel, tmp_path: Path, language: str) -> None:
    if reason := (missing("gfortran") if language == "fortran" else java_missing() if language == "java" else None):
        pytest.skip(reason)
    folder = tmp_path / "printed" / "decaying"
    model = printed.write(PAGE, folder)["model.xmml"]
    assert LANGUAGES["python"] in model
    model = model.replace(LANGUAGES["python"], LANGUAGES[language])
    if language == "java":
        model = model.replace('<submodel id="Decay">', '<submodel id="Decay" class="Decay">')
    (folder / "model.xmml").write_text(model)
    run = run_model(folder)
    told = [line for text in printed.blocks(PAGE, "text") for line in re.findall(r"^(?:report|last) \| .*", text, re.M)]
    assert [f"report | {line}" for line in run.lines("report")] + [
        f"last | {line}" for line in run.lines("last")
    ] == told


@pytest.mark.parametrize("language", parameters(*GROUPS))
def test_the_group_of_the_page_about_pools_is_put_as_printed(tmp_path: Path, language: str) -> None:
    source = tmp_path / {"python": "writer.py", "fortran": "writer.f90", "java": "Writer.java"}[language]
    (group,) = (block for block in printed.blocks("pools.md", language) if "group" in block)
    source.write_text(GROUPS[language].format(group=textwrap.indent(group, " " * 8)))
    writer = {
        "python": lambda: f'language="python" path="{source}"',
        "fortran": lambda: f'path="{fortran.compiled(source)}"',
        "java": lambda: java_program(source),
    }
    model = model_of(
        tmp_path,
        {"Reader": READER},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r"),
        writers={"Writer": writer[language]()},
    )
    model.write_text(model.read_text().replace(ATTRIBUTES, f"{ATTRIBUTES} member:uint"))
    assert run_document(model).lines("r") == ["3 t 0.0 1", "3 u 1.0 0"]


def test_the_readme_prints_what_the_smallest_model_says(run_model: RunModel) -> None:
    page = (printed.DOCS.parent / "README.md").read_text(encoding="utf-8")
    lines = run_model(printed.DOCS.parent / "workflows" / "hello").lines("listener")
    said = "".join(f"listener | {line}\n" for line in lines)
    assert f"$ xmml-run hello.xmml\n{said}hello: 2 instances ran " in page


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    """The folder of the tutorial, with all files that it shows."""
    folder = tmp_path / "printed" / "heating"
    printed.write("tutorial.md", folder)
    return folder


@pytest.fixture
def tutorial_page() -> str:
    return (printed.DOCS / "tutorial.md").read_text(encoding="utf-8")


def test_the_tutorial_runs_as_printed(run_model: RunModel, tutorial: Path, tutorial_page: str) -> None:
    (line,) = run_model(tutorial).lines("room")
    assert f"$ xmml-run model.xmml\nroom    | {line}\nheating: 2 instances ran " in tutorial_page


def test_the_page_about_latest_runs_as_printed(run_model: RunModel, tmp_path: Path) -> None:
    folder = tmp_path / "printed" / "steered"
    printed.write("latest.md", folder)
    run = run_model(folder)
    seen = [re.fullmatch(r"at (\d+) s: ([\d.]+)", line).groups() for line in run.lines("view")]  # type: ignore[union-attr]
    times, levels = ([float(pair[part]) for pair in seen] for part in (0, 1))
    assert times == sorted(set(times))
    assert times[-1] == 199
    growth = [(high - low) / (till - since) for (since, low), (till, high) in pairwise(zip(times, levels, strict=True))]
    assert growth == sorted(growth)  # speeds 1, 2 and 5, each from some step on: when, depends on the machine
    assert all(1 <= rate <= 5 for rate in growth)
    assert times[0] + 1 <= levels[0] <= 5 * (times[0] + 1)
    (told,) = re.findall(r"flow\.field -> view\.field: (\d+) of 200 messages were replaced by newer ones", run.stderr)
    assert int(told) == 200 - len(times)


def test_the_tutorial_prints_what_the_analysis_says(tutorial: Path, tutorial_page: str) -> None:
    words = [str(BIN / "xmml"), "analyse", "model.xmml"]
    said = subprocess.run(words, cwd=tutorial, capture_output=True, text=True, check=True).stdout
    shown = "\n".join(said.splitlines()[:6])
    assert f"$ xmml analyse model.xmml\n{shown}\n...\n" in tutorial_page


def test_the_tutorial_prints_what_the_check_says_of_a_wrong_port(tutorial: Path, tutorial_page: str) -> None:
    model = tutorial / "model.xmml"
    model.write_text(model.read_text().replace('to="room.power"', 'to="room.powr"'))
    done = subprocess.run(
        [str(BIN / "xmml"), "check", model.name], cwd=tutorial, capture_output=True, text=True, check=False
    )
    assert f"```\n{done.stdout.strip()}\n```" in tutorial_page


def test_the_tutorial_prints_what_a_run_says_of_a_wrong_port(
    run_model: RunModel, tutorial: Path, tutorial_page: str
) -> None:
    program = tutorial / "heater.c"
    program.write_text(program.read_text().replace('"power", power', '"powr", power'))
    last = run_model(tutorial, status=4).stderr.splitlines()[-1]
    assert last.partition("; see ")[0] in tutorial_page


def test_the_room_of_the_tutorial_runs_alone_as_printed(tutorial: Path, tutorial_page: str) -> None:
    words = [sys.executable, "test_room.py"]
    said = subprocess.run(words, cwd=tutorial, capture_output=True, text=True, check=True).stdout
    assert f"$ python test_room.py\n{said}```" in tutorial_page
