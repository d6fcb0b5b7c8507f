"""MPWide as a peer: a library that the user has built, and two ends of our own that call it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ends import LIMIT_S, Line, lines_of
from harness import builds
from harness.processes import RunFailed
from wan import Machine, PlacedSite
from wan.ssh import wait_for_port

SOURCE = Path(__file__).parent / "mpwide_ends.cpp"
#: The first port of a path, which takes one for each stream.
PORT = 16256


def program(folder: Path | None) -> Path | None:
    """The program of both ends, built against the library in `folder`; None if there is no folder.

    Raises:
        RunFailed: the library is not there, or does not go with the program.
    """
    if folder is None:
        return None
    include, lib = (folder / name if (folder / name).is_dir() else folder for name in ("include", "lib"))
    if not (include / "MPWide.h").is_file():
        raise RunFailed(f"there is no MPWide.h in {include}: build MPWide there first, or leave out --mpwide")
    link = ["-L", str(lib), f"-Wl,-rpath,{lib.resolve()}", "-lMPW", "-lpthread"]
    builds.compile_program(["c++", "-std=c++17"], SOURCE, ["-I", str(include), *link])
    return builds.program(SOURCE)


def messages(program: Path, server: PlacedSite, client: Machine, streams: int, size_b: int, count: int) -> list[Line]:
    """What the client measures of so many messages, each of which the server answers when it has come whole.

    Raises:
        RunFailed: an end failed, or was not done in time.
    """
    plan = [str(each) for each in (PORT, streams, size_b, count)]
    listening = server.login.start([program, "serve", *plan], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(server.login, PORT, count=streams)
        done = client.run([program, "dial", server.address, *plan], check=False, timeout_s=LIMIT_S)
    except (subprocess.TimeoutExpired, TimeoutError) as error:
        raise RunFailed(f"MPWide, {streams} streams: {error}") from error
    finally:
        listening.kill()
        listening.communicate()
    lines = lines_of(done.stdout)
    if len(lines) != count:
        said = (done.stderr or done.stdout).strip()[-500:]
        raise RunFailed(
            f"MPWide, {streams} streams: {len(lines)} of {count} messages, status {done.returncode}: {said}"
        )
    return lines
