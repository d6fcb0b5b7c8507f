"""The login shell of a site that lies: what the site gateway says gets one line more.

The file that `XMML_LIE` names has the line, and the report after which it comes. A member `next` that is
`"next"`, and an agent that is `"agent"`, become those of the agent that has just reported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    command = os.environ["SSH_ORIGINAL_COMMAND"]
    if " talk" not in command:
        os.execvp("sh", ["sh", "-c", command])
    lie = json.loads(Path(os.environ["XMML_LIE"]).read_text())
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE) as gateway:
        assert gateway.stdout is not None
        for line in gateway.stdout:
            put(line)
            if lie is not None and f'"is":"{lie["after"]}"'.encode() in line.replace(b" ", b""):
                put(filled(lie["line"], json.loads(line)) + b"\n")
                lie = None
    return gateway.returncode


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
