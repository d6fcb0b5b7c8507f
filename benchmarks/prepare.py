"""Gets what the benchmarks compare xMML with: in a virtual environment of their own MUSCLE3, Zenoh, ADIOS2 and Redis's
client; OpenMPI, ZeroMQ and the server of Redis.

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

PACKAGES = {
    "mpirun": "openmpi-bin",
    "mpicc": "libopenmpi-dev",
    "/usr/include/zmq.h": "libzmq3-dev",
    "redis-server": "redis-server",
}
FROM_PYPI = ("muscle3==0.11.*", "eclipse-zenoh==1.10.*", "redis[hiredis]==8.*", "adios2==2.12.*")


def from_pypi() -> None:
    if not places.peer("python"):
        venv.create(places.PEERS, with_pip=True)
    pip = [str(places.peer("python")), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    for wanted in FROM_PYPI:
        print(f"Installing {wanted} into {places.PEERS}", flush=True)
        if subprocess.run([*pip, "install", wanted]).returncode != 0:
            print(f"{wanted} could not be installed", file=sys.stderr)


def packages() -> None:
    missing = [package for tool, package in PACKAGES.items() if not (shutil.which(tool) or Path(tool).is_file())]
    if not missing:
        return
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"For more to compare with: {' '.join(install)}")
        return
    print(f"Installing {' '.join(missing)}", flush=True)
    # At this run level no server is started.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    subprocess.run(["apt-get", "-qq", "update"], env=environment)
    if subprocess.run(install, env=environment, stdout=subprocess.DEVNULL).returncode != 0:
        print(f"apt-get could not install {' '.join(missing)}", file=sys.stderr)


if __name__ == "__main__":
    from_pypi()
    packages()
