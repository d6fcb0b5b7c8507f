"""The login shell of a site that lies: what the site gateway says gets one line more, or results are not those that lie
there.

The file that `XMML_LIE` names has the lie. It is a `line`, and the report `after` which it comes; a member `next` that
is `"next"`, and an agent that is `"agent"`, become those of the agent that has just reported. Or it is a path that is
`listed` among the results, or the members of the `entry` of the first result that are others.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from copy_messages import FileMessage, read, written

#: Number and length of a message of a command that copies files; the last two numbers carry no message.
HEAD = struct.Struct("<QI")
SIGNS = (2**64 - 2, 2**64 - 1)
#: What each member of an entry of the listing is.
MEMBERS = ("path", "kind", "size", "mode", "modified_ns", "link")


def main() -> int:
    command = os.environ["SSH_ORIGINAL_COMMAND"]
    lie = json.loads(Path(os.environ["XMML_LIE"]).read_text())
    lies = {" talk": lie_in_lines, " results ": lie_in_messages}
    how = next((lies[word] for word in lies if word in command and ("after" in lie) == (word == " talk")), None)
    if how is None:
        os.execvp("sh", ["sh", "-c", command])
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE) as honest:
        assert honest.stdout is not None
        how(honest.stdout, lie)
    return honest.returncode


def lie_in_lines(honest: IO[bytes], lie: dict[str, Any] | None) -> None:
    for line in honest:
        put(line)
        if lie is not None and f'"is":"{lie["after"]}"'.encode() in line.replace(b" ", b""):
            put(filled(lie["line"], json.loads(line)) + b"\n")
            note_told()
            lie = None


def lie_in_messages(honest: IO[bytes], lie: dict[str, Any]) -> None:
    put(honest.readline())  # says that the command begins
    while head := honest.read(HEAD.size):
        number, length = HEAD.unpack(head)
        message = honest.read(length)
        if number == 0 and "listed" in lie:
            answer = json.loads(message)
            message = json.dumps({**answer, "found": [*answer["found"], lie["listed"]]}).encode()
            note_told()
        elif number not in (0, *SIGNS) and "entry" in lie:
            message = changed(message, lie["entry"])
        put(HEAD.pack(number, len(message) if number not in SIGNS else length) + message)


def changed(message: bytes, members: dict[str, Any]) -> bytes:
    """Return a message in which the first entry of a listing has other members."""
    kind, values = read(message)
    if kind == FileMessage.ENTRIES:
        for name, value in members.items():
            values[1][0][MEMBERS.index(name)] = value
        note_told()
    return written(kind, *values)


def note_told() -> None:
    """Say that the lie was told: a test in which it was not shows nothing."""
    Path(os.environ["XMML_LIE"]).with_suffix(".told").touch()


def filled(line: object, before: dict[str, object]) -> bytes:
    """Return the lie with what is only known here; a text is told as it is."""
    if isinstance(line, str):
        return line.encode()
    if isinstance(line, dict):
        named = {"next": before["next"], "agent": before["agent"]}
        line = {name: named[name] if name in named and value == name else value for name, value in line.items()}
        if line.get("is") == "told" and isinstance(line["next"], int):
            line["next"] += 1
    return json.dumps(line).encode()


def put(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    raise SystemExit(main())
