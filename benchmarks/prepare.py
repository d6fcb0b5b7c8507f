"""Gets what the benchmarks compare xMML with: MUSCLE3 in a virtual environment of its own, OpenMPI and ZeroMQ.

python benchmarks/prepare.py

What cannot be had is said; the benchmarks then run without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import places

PACKAGES = {"mpirun": "openmpi-bin", "mpicc": "libopenmpi-dev", "/usr/include/zmq.h": "libzmq3-dev"}


def muscle3() -> None:
    if places.muscle3("muscle_manager"):
        return
    print(f"Installing MUSCLE3 into {places.PEERS}", flush=True)
    venv.create(places.PEERS, with_pip=True)
    pip = [str(places.PEERS / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    if subprocess.run([*pip, "install", "muscle3==0.11.*"]).returncode != 0:
        print("MUSCLE3 could not be installed", file=sys.stderr)


def packages() -> None:
    missing = [package for tool, package in PACKAGES.items() if not (shutil.which(tool) or Path(tool).is_file())]
    if not missing:
        return
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"For more to compare with: {' '.join(install)}")
        return
    print(f"Installing {' '.join(missing)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "-qq", "update"], env=environment)
    if subprocess.run(install, env=environment, stdout=subprocess.DEVNULL).returncode != 0:
        print(f"apt-get could not install {' '.join(missing)}", file=sys.stderr)


if __name__ == "__main__":
    muscle3()
    packages()
