"""The Java API: each behaviour of Behaviours.java."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from needs import needs_java
from waiting import LIMIT_S
from xmml_planner.java import api_jar

pytestmark = needs_java

SOURCE = Path(__file__).parent / "Behaviours.java"
BEHAVIOURS = re.findall(r"^    static void (\w+)\(\)", SOURCE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    command = ["javac", "-encoding", "UTF-8", "-cp", str(api_jar()), "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True)
    return folder


def run(*arguments: str | Path, path: str) -> str:
    command = ["java", "-Xcheck:jni", "-cp", path, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_of_an_instance_by_itself(behaviour: str, classes: Path) -> None:
    printed = run("Behaviours", behaviour, path=f"{classes}:{api_jar()}")
    assert "held" in printed
    assert "WARNING" not in printed  # of -Xcheck:jni


def test_the_jar_alone_holds_its_library(classes: Path, tmp_path: Path) -> None:
    jar = api_jar()
    assert jar is not None
    copy = shutil.copy(jar, tmp_path)
    left = tmp_path / "tmp"
    left.mkdir()
    run(f"-Djava.io.tmpdir={left}", "Behaviours", BEHAVIOURS[0], path=f"{classes}:{copy}")
    assert not list(left.iterdir())
