"""Wheels are packed from what is installed here: such as pip takes them, and the same each time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from xmml_sites.installation import wheels
from xmml_sites.installation.wheels import PythonKind, WheelMissing, collect, needed, packed

HERE = PythonKind(sys.version_info.minor, "x86_64", 99)


def test_the_wheel_of_an_installed_package_can_be_installed_without_an_index(tmp_path: Path) -> None:
    wheel = packed("mdurl", tmp_path)
    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", target, wheel]
    subprocess.run(command, check=True)
    assert (target / "mdurl/__init__.py").exists()
    assert [each.version for each in metadata.distributions(path=[str(target)])] == [metadata.version("mdurl")]


def test_the_program_of_the_wheel_can_be_executed_where_it_is_installed(tmp_path: Path) -> None:
    wheel = packed("xmml", tmp_path)
    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", target, wheel]
    subprocess.run(command, check=True)
    subprocess.run([target / "xmml_native/bin/mto", "--version"], check=True)


def test_the_same_package_makes_the_same_wheel(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    one, other = (packed("mdurl", folder) for folder in folders)
    assert one.read_bytes() == other.read_bytes()


def test_a_wheel_that_is_there_is_not_packed_again(tmp_path: Path) -> None:
    written = packed("mdurl", tmp_path).stat().st_ino
    assert packed("mdurl", tmp_path).stat().st_ino == written


def test_a_site_needs_no_plots_and_no_ssh() -> None:
    found = needed()
    assert found[0] == "xmml"
    assert {"numpy", "msgpack", "lxml", "mdurl"} <= set(found)
    assert not {"matplotlib", "asyncssh", "paramiko", "pillow", "cryptography"} & set(found)


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("a-1-py3-none-any.whl", True),
        ("a-1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", True),
        ("a-1-cp311-abi3-manylinux_2_28_x86_64.whl", True),
        ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", False),
        ("a-1-cp313-abi3-manylinux_2_28_x86_64.whl", False),
        ("a-1-cp312-cp312-manylinux_2_17_aarch64.whl", False),
    ],
)
def test_a_wheel_fits_a_python_of_its_version_and_machine(name: str, fits: bool) -> None:
    assert PythonKind(12, "x86_64", 28).takes(Path(name)) == fits


def own_wheel(folder: Path, text: bytes = b"") -> Path:
    tag = f"cp3{sys.version_info.minor}"
    wheel = folder / f"xmml-0.1.0-{tag}-{tag}-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("xmml_native/_native.abi3.so", text)
    return wheel


def test_wheels_that_are_given_are_taken_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "needed", lambda: ["xmml", "mdurl"])
    given = own_wheel(tmp_path)
    own, other = collect(HERE, tmp_path, tmp_path / "cache")
    assert own == given
    assert other.parent != given.parent


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (PythonKind(HERE.minor, "aarch64", 0), "built for Python .* on x86_64, and the site has Python .* on aarch64"),
        (
            PythonKind(99, "x86_64", 0),
            r"the site has Python 3\.99 on x86_64: build it there \(pip wheel \. in its sources\).*--wheels",
        ),
        (PythonKind(HERE.minor, "x86_64", 17), r"needs glibc 2\.34, and the site has 2\.17"),
    ],
)
def test_a_site_of_another_kind_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: PythonKind, says: str
) -> None:
    monkeypatch.setattr(wheels, "packed", lambda name, folder: own_wheel(folder, b"\0GLIBC_2.34\0GLIBC_2.5\0"))
    with pytest.raises(WheelMissing, match=says):
        collect(kind, None, tmp_path)


def write_numpy(folder: Path, version: str) -> None:
    """Write a wheel that pip can fetch, for a Python that nobody has."""
    folder.mkdir(exist_ok=True)
    information = f"numpy-{version}.dist-info"
    with zipfile.ZipFile(folder / f"numpy-{version}-cp399-cp399-manylinux_2_17_x86_64.whl", "w") as archive:
        archive.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: numpy\nVersion: {version}\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nTag: cp399-cp399-manylinux_2_17_x86_64\n")
        archive.writestr(f"{information}/RECORD", "")


def test_a_site_gets_the_version_that_is_here_whatever_was_fetched_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "needed", lambda: ["numpy"])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    own = metadata.version("numpy")
    for version in ("99.1", own):
        write_numpy(tmp_path / "index", version)
        with monkeypatch.context() as here:
            here.setattr(metadata, "version", lambda _, version=version: version)
            (fetched,) = collect(PythonKind(99, "x86_64", 28), None, tmp_path / "cache")
        assert fetched.name.startswith(f"numpy-{version}-")


def test_a_wheel_that_cannot_be_had_is_named_with_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "needed", lambda: ["numpy"])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(WheelMissing, match=r"no wheel of numpy==\S+ for Python 3\.99 .*pip download .*--wheels"):
        collect(PythonKind(99, "x86_64", 28), None, tmp_path)


def test_a_pip_in_the_folder_that_one_is_in_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.py").write_text("open('executed', 'w')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wheels, "needed", lambda: ["numpy"])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(WheelMissing):
        collect(PythonKind(99, "x86_64", 28), None, tmp_path / "cache")
    assert not (tmp_path / "executed").exists()
