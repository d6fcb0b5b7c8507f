"""Where files are: here, or at a host."""

from __future__ import annotations

from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class FileLocation:
    """A path, and the ssh destination where it is; None: this machine."""

    host: str | None
    path: str

    def __str__(self) -> str:
        return self.path if self.host is None else f"{self.host}:{self.path}"


def read_location(text: str) -> FileLocation:
    """Read `PATH`, `HOST:PATH` or `USER@HOST:PATH`, also with an IPv6 address in brackets, as scp does.

    A colon behind a slash belongs to a path: ./a:b is a file here. An empty path at a host is the home folder.

    Raises:
        ValueError: the text is empty, or a host is missing or could be taken for an option.
    """
    if not text:
        raise ValueError("an empty name is no file; write . for the folder you are in")
    head, _, _ = text.partition("/")
    if text.startswith("[") or ("@[" in head):
        host, bracket, path = text.partition("]:")
        if not bracket:
            raise ValueError(f'"{text}" begins like [ADDRESS]:PATH, but "]:" is missing')
        user, at, address = host.rpartition("@")
        return _remote(f"{user}{at}{address.removeprefix('[')}", path, text)
    if ":" in head:
        host, _, path = text.partition(":")
        return _remote(host, path, text)
    return FileLocation(None, text)


def _remote(host: str, path: str, text: str) -> FileLocation:
    if not host or host.endswith("@"):
        raise ValueError(f'"{text}" has no host in front of the colon; write ./{text} for a file of that name here')
    if host.startswith("-"):
        raise ValueError(f'"{host}" is no host: it begins with a dash')
    return FileLocation(host, path or ".")
