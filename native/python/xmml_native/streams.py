"""Standard output and error of instances that share a process: what a thread prints goes where its instance's lines
belong."""

from __future__ import annotations

import io
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TextIO

#: Longer lines are passed on in pieces of so many characters. A line that is not finished is kept up to so many bytes.
LONGEST_LINE = 64 * 1024
_LOG = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW


class Reports:
    """What a process that hosts instances tells the supervisor: lines of JSON in a pipe."""

    def __init__(self, pipe: int) -> None:
        os.set_inheritable(pipe, False)
        self._pipe = pipe
        self._lock = threading.Lock()

    def tell(self, what: Mapping[str, Any]) -> None:
        """Write a report; waits while the supervisor does not read."""
        import json

        line = json.dumps(what).encode() + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._pipe, line) :]


def shown(file: str, folder: int) -> str:
    """Return the path of a file that is relative to an open folder."""
    return os.path.normpath(os.path.join(os.readlink(f"/proc/self/fd/{folder}"), file))


class Output:
    """What one instance writes: to its two files, and line by line to the supervisor."""

    def __init__(self, instance: str, files: Mapping[str, str], folder: int, reports: Reports) -> None:
        """
        Args:
            files: the path of the file for `stdout` and for `stderr`; they are made now.
            folder: the descriptor of the folder that the paths are relative to.
        """
        self._instance = instance
        self._files, self._folder = files, folder
        self._reports = reports
        self._lock = threading.Lock()
        self._open: dict[str, int | None] = {}
        self._rest = {"stdout": b"", "stderr": b""}
        for path in files.values():
            os.close(os.open(path, _LOG | os.O_CREAT, 0o644, dir_fd=folder))

    def write(self, kind: str, data: bytes) -> None:
        """Write to the stream `kind`."""
        with self._lock:
            self._write_file(kind, data)
            *lines, rest = (self._rest[kind] + data).split(b"\n")
            if len(rest) > LONGEST_LINE:
                lines.append(rest)
                rest = b""
            self._rest[kind] = rest
            self._tell(kind, lines)

    def close(self) -> None:
        """Pass on unfinished last lines, and close the files; what is written afterwards opens them again."""
        with self._lock:
            for kind, rest in self._rest.items():
                self._tell(kind, [rest] if rest else [])
                self._rest[kind] = b""
            for file in self._open.values():
                if file is not None:
                    os.close(file)
            self._open.clear()

    def _write_file(self, kind: str, data: bytes) -> None:
        try:
            if kind not in self._open:
                self._open[kind] = os.open(self._files[kind], _LOG, dir_fd=self._folder)
            file = self._open[kind]
            while data and file is not None:
                data = data[os.write(file, data) :]
        except OSError as error:  # told once; the file is given up
            self._open[kind] = None
            path = shown(self._files[kind], self._folder)
            self._reports.tell({"is": "unwritable", "name": self._instance, "file": path, "error": error.strerror})

    def _tell(self, kind: str, lines: list[bytes]) -> None:
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip("\r")
            for at in range(0, max(len(text), 1), LONGEST_LINE):
                piece = text[at : at + LONGEST_LINE]
                self._reports.tell({"is": "output", "name": self._instance, "stream": kind, "text": piece})


class _Current(threading.local):
    """The instance that the calling thread works for, if it is known."""

    output: Output | None = None


_current = _Current()


class RoutedBytes(io.RawIOBase):
    """The `buffer` of a routed stream."""

    def __init__(self, kind: str, otherwise: TextIO) -> None:
        self._kind = kind
        self._otherwise = otherwise

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The descriptor of the process itself: what goes there directly is in the log of the process."""
        return self._otherwise.fileno()

    def write(self, data: Any) -> int:
        """Write bytes for the instance of the calling thread."""
        content = bytes(data)
        if _current.output is None:
            self._otherwise.buffer.write(content)
            self._otherwise.buffer.flush()
        else:
            _current.output.write(self._kind, content)
        return len(content)


class RoutedText(io.TextIOBase):
    """Stands for `sys.stdout` or `sys.stderr` of every thread."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, kind: str, otherwise: TextIO) -> None:
        self.name = f"<{kind}>"
        self.buffer = RoutedBytes(kind, otherwise)

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The descriptor of the process itself."""
        return self.buffer.fileno()

    def write(self, text: str) -> int:
        """Write text for the instance of the calling thread."""
        self.buffer.write(text.encode("utf-8", "backslashreplace"))
        return len(text)


def route_streams() -> None:
    """From now on `sys.stdout` and `sys.stderr` are those of the calling thread's instance, also in threads that it
    starts."""
    sys.stdout, sys.stderr = RoutedText("stdout", sys.stdout), RoutedText("stderr", sys.stderr)
    start = threading.Thread.start

    def start_with_streams(thread: threading.Thread) -> None:
        output, run = _current.output, thread.run
        if output is not None:
            thread.run = lambda: _run_for(output, run)  # type: ignore[method-assign]
        start(thread)

    threading.Thread.start = start_with_streams  # type: ignore[method-assign, assignment]


def write_for(output: Output | None) -> None:
    """From now on what the calling thread writes is that of `output`."""
    _current.output = output


def _run_for(output: Output, run: Callable[[], None]) -> None:
    write_for(output)
    run()
