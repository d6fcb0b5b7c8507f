"""Wheels for a site that reaches no package index: packed from what is installed here, or fetched for its Python."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata, util
from itertools import product
from pathlib import Path

from xmml.late_dataclass import dataclass

#: What no program at a site needs: plots, and ssh, which is spoken here.
LEFT_OUT = frozenset({"asyncssh", "matplotlib", "paramiko"})
OWN = "xmml"
#: Of the installation here, not of the distribution.
_NOT_PACKED = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "WHEEL"}
_DATE = (2020, 1, 1, 0, 0, 0)
_DOWNLOAD_S = 600.0


class WheelMissing(Exception):
    """A wheel that a site needs cannot be had here."""


@dataclass(frozen=True)
class PythonKind:
    """What decides which wheels a Python takes.

    Attributes:
        minor: of its version 3.
        machine: as `uname -m` has it.
        glibc: minor version of glibc 2 there; 0: another C library, or not known.
    """

    minor: int
    machine: str
    glibc: int

    def takes(self, wheel: Path) -> bool:
        """Whether a wheel fits, as far as its name says; its platform by the machine alone, which pip then checks."""
        *_, pythons, abis, platforms = wheel.stem.split("-")
        is_for = any(
            python in (f"cp3{self.minor}", "py3", f"py3{self.minor}")
            or (abi == "abi3" and python.startswith("cp3") and python[3:].isdecimal() and int(python[3:]) <= self.minor)
            for python, abi in product(pythons.split("."), abis.split("."))
        )
        return is_for and any(each == "any" or each.endswith(f"_{self.machine}") for each in platforms.split("."))


def collect(kind: PythonKind, given: Path | None, cache: Path) -> list[Path]:
    """Return the wheels of xMML and of what it needs at a site.

    Args:
        kind: of the site's Python.
        given: a folder with wheels that are taken first.
        cache: where wheels are made.

    Raises:
        WheelMissing: one cannot be had; with what to do.
    """
    folder = cache / f"cp3{kind.minor}-{kind.machine}"
    folder.mkdir(parents=True, exist_ok=True)
    at_hand = _by_name(given, kind) if given is not None else {}
    wheels = []
    for name in needed():
        wheel = at_hand.get(name) or _packed_for(name, kind, folder)
        wheels.append(wheel or _downloaded(name, kind, folder))
    return wheels


def needed() -> list[str]:
    """Return the distributions that xMML needs at a site, itself first; of those with conditions the ones that are
    installed here."""
    found = [OWN]
    for name in found:
        try:
            requirements = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            continue
        for requirement in requirements:
            other = _normal(re.split(r"[\s;<>=!~\[(]", requirement, maxsplit=1)[0])
            if "extra ==" in requirement or other in LEFT_OUT or other in found or not _is_installed(other):
                continue
            found.append(other)
    return found


def packed(name: str, folder: Path) -> Path:
    """Pack an installed distribution as a wheel. The same files always make the same wheel.

    Args:
        folder: where the wheel is written.
    """
    distribution = metadata.distribution(name)
    information = f"{re.sub(r'[-_.]+', '_', distribution.name)}-{distribution.version}.dist-info"
    head = distribution.read_text("WHEEL") or ""
    tags = [line.removeprefix("Tag: ").split("-") for line in head.splitlines() if line.startswith("Tag: ")]
    joined = [".".join(dict.fromkeys(tag[place] for tag in tags)) for place in range(3)]
    wheel = folder / f"{information.removesuffix('.dist-info')}-{'-'.join(joined)}.whl"
    found = sorted(_files(distribution, information))
    key, kept = _state(found), wheel.with_suffix(".state")
    if wheel.exists() and kept.exists() and kept.read_text() == key:
        return wheel
    files = {place: file.read_bytes() for place, file in found}
    files[f"{information}/WHEEL"] = head.encode()
    record = [f"{place},{_digest(text)},{len(text)}" for place, text in files.items()]
    files[f"{information}/RECORD"] = "\n".join([*record, f"{information}/RECORD,,", ""]).encode()
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for place, text in files.items():
            entry = zipfile.ZipInfo(place, _DATE)
            is_program = place.endswith(("/bin/mto", ".so"))
            # Without the bit of a plain file, pip drops that a program can be executed.
            entry.external_attr = (stat.S_IFREG | (0o755 if is_program else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, text)
    part.replace(wheel)
    kept.write_text(key)
    return wheel


def newest_glibc(wheel: Path) -> int:
    """Return the newest minor version of glibc 2 that a library in a wheel needs; 0: none."""
    found = [0]
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so") or ".so." in name:
                found += [int(each) for each in re.findall(rb"GLIBC_2\.(\d+)\0", archive.read(name))]
    return max(found)


def digest(wheel: Path) -> str:
    """Return the SHA-256 of a wheel, in hexadecimal."""
    with wheel.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(distribution: metadata.Distribution, information: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a distribution with their places in a wheel. Of one that is installed in place (editable) the
    packages are where Python finds them."""
    is_in_place = '"editable": true' in (distribution.read_text("direct_url.json") or "")
    for file in distribution.files or []:
        is_information = file.parent.name.endswith(".dist-info")
        if ".." in file.parts or "__pycache__" in file.parts or (is_information and file.name in _NOT_PACKED):
            continue
        if is_information or file.parts[0].endswith(".dist-info"):
            yield "/".join([information, *file.parts[1:]]), Path(str(distribution.locate_file(file)))
        elif not is_in_place:
            yield "/".join(file.parts), Path(str(distribution.locate_file(file)))
    if is_in_place:
        for package in (distribution.read_text("top_level.txt") or "").split():
            specification = util.find_spec(package)
            for top in (specification.submodule_search_locations or []) if specification is not None else []:
                for path in Path(top).rglob("*"):
                    if path.is_file() and "__pycache__" not in path.parts:
                        yield f"{package}/{path.relative_to(top).as_posix()}", path


def _state(files: Iterable[tuple[str, Path]]) -> str:
    """Return what changes when one of the files does."""
    facts = [(place, status.st_size, status.st_mtime_ns) for place, file in files for status in [file.stat()]]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _packed_for(name: str, kind: PythonKind, folder: Path) -> Path | None:
    """Pack what is installed here if it fits a site's Python.

    Raises:
        WheelMissing: it is xMML, and does not.
    """
    wheel = packed(name, folder)
    if name != OWN:
        return wheel if kind.takes(wheel) else None
    here = f"xMML here is built for Python 3.{sys.version_info.minor} on {os.uname().machine}"
    build = "build it there (pip wheel . in its sources) and name the folder of the wheel with --wheels"
    if not kind.takes(wheel):
        raise WheelMissing(
            f"{here}, and the site has Python 3.{kind.minor} on {kind.machine}: {build}, or name a module with another "
            "Python (modules)"
        )
    if kind.glibc and (needs := newest_glibc(wheel)) > kind.glibc:
        raise WheelMissing(f"{here} and needs glibc 2.{needs}, and the site has 2.{kind.glibc}: {build}")
    return wheel


def _downloaded(name: str, kind: PythonKind, folder: Path) -> Path:
    version = metadata.version(name)
    wanted = f"{name}=={version}"
    folder = folder / f"{name}-{version}"  # in the cache there may be other versions
    oldest = 5 if kind.machine in ("x86_64", "i686") else 17
    platforms = [f"manylinux_2_{minor}_{kind.machine}" for minor in range(kind.glibc or oldest, oldest - 1, -1)]
    options = ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", f"3.{kind.minor}"]
    for abi in (f"cp3{kind.minor}", "abi3", "none"):
        options += ["--abi", abi]
    for platform in (*platforms, f"manylinux2014_{kind.machine}"):
        options += ["--platform", platform]
    command = ["pip", "download", *options, "--dest", str(folder), wanted]
    try:
        # -P: else a pip.py in the folder that we happen to be in would be run, and that folder may be somebody else's.
        done = subprocess.run(
            [sys.executable, "-P", "-m", *command], capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False
        )
        said = (done.stderr.strip() or "pip gave no reason").splitlines()[-1]
    except subprocess.TimeoutExpired:
        said = f"no answer within {_DOWNLOAD_S:.0f} s"
    found = _by_name(folder, kind).get(name)
    if found is None:
        shown = f"--python-version 3.{kind.minor} --platform {platforms[0]} --dest wheels {wanted}"
        raise WheelMissing(
            f"no wheel of {wanted} for Python 3.{kind.minor} on {kind.machine} can be had here ({said}). Where there "
            f"is internet: pip download --no-deps --only-binary=:all: {shown}; then name that folder with --wheels. A "
            "wheel of another version will do, too"
        )
    return found


def _by_name(folder: Path, kind: PythonKind) -> Mapping[str, Path]:
    return {_normal(each.name.split("-")[0]): each for each in sorted(folder.glob("*.whl")) if kind.takes(each)}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _digest(text: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
