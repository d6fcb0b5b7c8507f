"""What is started for an instance."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from xmml_planner import PlannedInstance, plan
from xmml_planner.programs import container_command

from xmml.model import Model
from xmml.problems import ModelError

MakeModel = Callable[..., Model]


def only(make: MakeModel, implementation: str, attributes: str = "") -> PlannedInstance:
    """Return the plan of a model with one instance of a submodel with this implementation."""
    ports = '<ports><out id="o" operator="Oi"/></ports>'
    definition = f'<submodel id="X" {attributes}><timescale delta="1 s" total="2 s"/>{ports}{implementation}</submodel>'
    (instance,) = plan(make('<instance id="x" submodel="X"/>', definition)).instances
    return instance


def test_a_python_script_is_started_with_our_own_interpreter(model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    instance = only(model, '<implementation language="python" path="x.py" run:args="--n 3 \'a b\'"/>')
    assert instance.command == (sys.executable, str(tmp_path / "x.py"), "--n", "3", "a b")


def test_an_interpreter_overrides_how_a_script_is_started(model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("")
    instance = only(model, '<implementation path="x.sh"><interpreter path="sh" flags="-e -u"/></implementation>')
    assert instance.command[0].endswith("/sh")
    assert instance.command[1:] == ("-e", "-u", str(tmp_path / "x.sh"))


def test_a_missing_interpreter_is_named(model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("")
    with pytest.raises(ModelError, match='"fish-of-no-sea" is not an executable program'):
        only(model, '<implementation path="x.sh"><interpreter path="fish-of-no-sea"/></implementation>')


def test_a_compiled_program_is_started_directly(model: MakeModel, tmp_path: Path) -> None:
    program = tmp_path / "x"
    program.write_text("")
    program.chmod(0o755)
    assert only(model, '<implementation language="c++" path="x"/>').command == (str(program),)


IMAGE = 'run:image="flow.sif"'


@pytest.fixture
def apptainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The only program on the search path; beside the model lies an image."""
    program = tmp_path / "bin/apptainer"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    (tmp_path / "flow.sif").write_text("")
    monkeypatch.setenv("PATH", str(program.parent))
    return str(program)


def test_a_program_of_an_image_has_an_absolute_path_and_is_not_looked_for(
    model: MakeModel, tmp_path: Path, apptainer: str
) -> None:
    instance = only(model, f'<implementation path="/opt/flow/flow" {IMAGE} run:args="-v"/>')
    image = str(tmp_path / "flow.sif")
    assert instance.command == (apptainer, "exec", image, "/opt/flow/flow", "-v")
    assert (instance.image, instance.program) == (image, None)


def test_a_script_of_the_model_is_started_by_what_the_image_has(
    model: MakeModel, tmp_path: Path, apptainer: str
) -> None:
    (tmp_path / "x.py").write_text("")
    image, script = str(tmp_path / "flow.sif"), str(tmp_path / "x.py")
    instance = only(model, f'<implementation language="python" path="x.py" {IMAGE}/>')
    assert instance.command == (apptainer, "exec", image, "python3", script)
    other = f'<implementation path="x.py" {IMAGE}><interpreter path="/opt/python" flags="-s"/></implementation>'
    assert only(model, other).command == (apptainer, "exec", image, "/opt/python", "-s", script)


def test_gpus_are_seen_in_the_image(model: MakeModel, apptainer: str) -> None:
    instance = only(model, f'<implementation path="/opt/flow" {IMAGE} run:gpus="1"/>')
    assert instance.command[1:3] == ("exec", "--nv")


def test_mpi_starts_each_rank_in_the_image(model: MakeModel, apptainer: str) -> None:
    mpirun = Path(apptainer).with_name("mpirun")
    mpirun.write_text("")
    mpirun.chmod(0o755)
    instance = only(model, f'<implementation path="/opt/flow" {IMAGE} run:mpi="4"/>')
    assert instance.command[:5] == (str(mpirun), "-n", "4", apptainer, "exec")


@pytest.mark.parametrize(
    ("implementation", "attributes", "says"),
    [
        ('<implementation path="/x" run:image="none.sif"/>', "", 'the image ".*/none.sif" does not exist'),
        (f'<implementation path="nothere" {IMAGE}/>', "", 'the program ".*/nothere" does not exist'),
        (f'<implementation path="x.py" {IMAGE}/>', 'class="x:X"', "only programs run in images"),
        (
            f'<implementation {IMAGE}><code language="python" part="Oi">pass</code></implementation>',
            "",
            "only programs",
        ),
    ],
)
def test_what_cannot_run_in_an_image_is_refused(
    model: MakeModel, apptainer: str, implementation: str, attributes: str, says: str
) -> None:
    with pytest.raises(ModelError, match=says):
        only(model, implementation, attributes)


def test_a_machine_without_apptainer_is_told(model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModelError, match="needs apptainer or singularity, which is not installed here"):
        only(model, f'<implementation path="/opt/flow" {IMAGE}/>')


def test_an_image_that_a_build_makes_is_not_looked_for(model: MakeModel, tmp_path: Path, apptainer: str) -> None:
    (tmp_path / "flow.sif").unlink()
    assert only(model, f'<implementation path="/opt/flow" {IMAGE} run:build="make flow.sif"/>').image


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("apptainer", ("apptainer", "exec", "--nv", "f.sif")),
        ("/opt/bin/singularity", ("/opt/bin/singularity", "exec", "--nv", "f.sif")),
        ("apptainer exec --rocm {image}", ("apptainer", "exec", "--rocm", "f.sif")),
    ],
)
def test_a_site_says_what_starts_programs_in_images(how: str, words: tuple[str, ...]) -> None:
    assert container_command(how, "f.sif", has_gpus=True) == words


def test_a_missing_program_is_found_with_its_place_in_the_document(model: MakeModel) -> None:
    with pytest.raises(ModelError, match=r'model\.xmml:1:\d+: error\[P01\]: instance "x": .*/nothere" does not exist'):
        only(model, '<implementation language="c" path="nothere"/>')


def test_a_misspelt_program_is_suggested(model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "reaction.py").write_text("")
    with pytest.raises(ModelError, match=r'did you mean "reaction\.py"'):
        only(model, '<implementation language="python" path="raection.py"/>')


def test_a_program_that_is_not_executable_is_refused(model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(ModelError, match="not executable"):
        only(model, '<implementation language="c" path="x"/>')


def test_a_program_that_a_build_makes_is_not_looked_for(model: MakeModel) -> None:
    assert only(model, '<implementation language="c" path="x" run:build="make x"/>').command[0].endswith("/x")


def test_an_mpi_program_is_started_by_the_launcher(
    model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, program = tmp_path / "mpirun", tmp_path / "x"
    for file in (launcher, program):
        file.write_text("")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    instance = only(model, '<implementation language="c" path="x" run:mpi="4" run:threads="2"/>')
    assert instance.command == (str(launcher), "-n", "4", str(program))
    assert (instance.cores, instance.env["OMP_NUM_THREADS"]) == (8, "2")


def test_a_missing_mpi_launcher_is_named_with_its_package(
    model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModelError, match="openmpi-bin"):
        only(model, '<implementation language="c" path="x" run:mpi="4" run:build="true"/>')


def test_cores_count_when_neither_ranks_nor_threads_are_given(model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    assert only(model, '<implementation language="python" path="x.py" cores="3"/>').cores == 3


def test_the_environment_of_the_model_is_added(model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    instance = only(model, '<implementation language="python" path="x.py" run:env="MODE=fast N=2"/>')
    assert instance.env == {"MODE": "fast", "N": "2"}


def test_inline_code_is_hosted_with_the_place_it_has_in_the_document(model: MakeModel) -> None:
    instance = only(model, '<implementation><code language="python" part="Oi">o = 1</code></implementation>')
    assert instance.command[:2] == (sys.executable, "-c")
    assert "xmml_native.host" in instance.command[2]
    (code,) = json.loads(instance.env["XMML_HOST"])["code"]
    assert (code["part"], code["text"], code["line"]) == ("Oi", "o = 1", 1)
    assert code["file"].endswith("model.xmml")


def test_inline_code_in_another_language_is_refused(model: MakeModel) -> None:
    with pytest.raises(ModelError, match="Python only"):
        only(model, '<implementation><code language="ruby" part="Oi">o = 1</code></implementation>')


def test_a_class_is_hosted_and_found_beside_the_model(model: MakeModel, tmp_path: Path) -> None:
    instance = only(model, "", 'class="physics:Wave"')
    assert json.loads(instance.env["XMML_HOST"]) == {"class": "physics:Wave", "path": [str(tmp_path)]}


def test_a_submodel_that_does_not_say_what_to_run_is_refused(model: MakeModel) -> None:
    with pytest.raises(ModelError, match="does not say what to run"):
        only(model, "")


def test_an_unknown_built_in_mapper_is_suggested(model: MakeModel) -> None:
    mapper = (
        '<mapper id="M" class="scater" type="fan-out"><ports><in id="i"/><out id="o"/><out id="p"/></ports></mapper>'
    )
    with pytest.raises(ModelError, match='did you mean "scatter"'):
        plan(model('<instance id="m" mapper="M"/>', mapper))


def test_a_class_in_java_is_started_with_its_class_path(
    model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmml_planner.java.shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("xmml_planner.java.api_jar", lambda: Path("/sdk/xmml.jar"))
    text = (
        '<implementation language="java" path="classes" run:args="-v"><library name="m" path="m.jar"/></implementation>'
    )
    instance = only(model, text, 'class="pkg.Heater"')
    class_path = f"{tmp_path}/classes:{tmp_path}/m.jar:/sdk/xmml.jar"
    assert instance.command == ("/bin/java", "-cp", class_path, "org.xmml.Host", "pkg.Heater", "-v")


def test_a_missing_java_is_reported_with_what_to_install(model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmml_planner.java.shutil.which", lambda name: None)
    with pytest.raises(ModelError, match="openjdk-17-jre-headless"):
        only(model, '<implementation language="java" path="classes"/>', 'class="pkg.Heater"')
